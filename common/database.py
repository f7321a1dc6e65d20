"""Direct use of Django's own database connection, and statements that outlive a lost one."""

import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, overload

import psycopg
from django.db import DatabaseError, InterfaceError, OperationalError, connection

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = 30.0
FIRST_WAIT = 0.05
LONGEST_WAIT = 1.0
_CONFLICTS = {"40001", "40P01"}  # serialization failure, deadlock
_CANCELLED = "57014"  # a statement over its time limit would only be over it again


@contextmanager
def hot_cursor() -> Iterator[psycopg.Cursor[Any]]:
    """A psycopg cursor with server-side binding on Django's default connection; parameters are `%s` or `%(name)s`.

    Statements that run often are worth `execute(…, prepare=True)`. Rows are tuples. Errors are Django's, as for any
    cursor of Django.
    """
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        yield cursor


@overload
def robust(fn: Callable[P, R]) -> Callable[P, R]: ...
@overload
def robust(*, patience: float = PATIENCE) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def robust(fn: Any = None, *, patience: float = PATIENCE) -> Any:
    """Decorate a function that is safe to repeat: it is called again when the connection was lost, or after a deadlock
    or a serialization failure, with waits of 50 ms doubling to 1 s, for `patience` seconds.

    Inside an open atomic block nothing is repeated, as the block's earlier statements are gone.
    """
    if fn is None:
        return functools.partial(robust, patience=patience)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        end, wait = time.monotonic() + patience, FIRST_WAIT
        while True:
            outside = not connection.in_atomic_block
            try:
                return fn(*args, **kwargs)
            except (DatabaseError, InterfaceError) as error:
                if not (outside and _repeatable(error)) or time.monotonic() + wait > end:
                    raise
                log.warning("%s is repeated in %.0f ms: %s", fn.__qualname__, wait * 1000, type(error).__name__)
                if not _is_conflict(error):
                    connection.close()
            time.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    return call


def _state(error: Exception) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)


def _is_conflict(error: Exception) -> bool:
    return _state(error) in _CONFLICTS


def _repeatable(error: Exception) -> bool:
    if isinstance(error, OperationalError | InterfaceError):
        return _state(error) != _CANCELLED
    return _is_conflict(error)
