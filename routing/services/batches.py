"""A batch in which one row cannot be stored must not take its neighbours with it."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db import DataError

log = logging.getLogger(__name__)
Item = TypeVar("Item")
Made = TypeVar("Made")

UNSTORABLE = (DataError, UnicodeEncodeError)


def in_halves(
    apply: Callable[[list[Item]], list[Made]], items: Sequence[Item], spoiled: Callable[[Item, Exception], list[Made]]
) -> list[Made]:
    """What `apply` gives for all items, halving the batch where the database refuses a value.

    An item that is refused alone goes to `spoiled(item, error)` instead. When it raises, `apply` has changed nothing.
    """
    if not items:
        return []
    try:
        return apply(list(items))
    except UNSTORABLE as error:
        if len(items) == 1:
            log.error("a row cannot be stored: %s", type(error).__name__)
            return spoiled(items[0], error)
    middle = len(items) // 2
    return [*in_halves(apply, items[:middle], spoiled), *in_halves(apply, items[middle:], spoiled)]
