"""Lists by keyset: `{"items", "nextCursor"}`, stable while rows come and go."""

import base64
import binascii
import uuid
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from rest_framework.request import Request

from common.errors import BadRequest
from common.ids import parse_id


def cursor_of(request: Request) -> str | None:
    """The key after which the page begins, as `page` gave it out. Raises BadRequest for one that it did not."""
    text = request.query_params.get("cursor")
    if not text:
        return None
    try:
        key = base64.urlsafe_b64decode(text.encode("ascii")).decode("ascii")
    except (UnicodeError, binascii.Error, ValueError):
        raise BadRequest("cursor is not one that was given out here") from None
    if not key.isprintable() or len(key) > 300:
        raise BadRequest("cursor is not one that was given out here")
    return key


def number_of(cursor: str | None) -> int | None:
    """A cursor that is a row number. Raises BadRequest."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise BadRequest("cursor is not one that was given out here")
    return int(cursor)


def id_of(cursor: str | None) -> uuid.UUID | None:
    """A cursor that is an id. Raises BadRequest."""
    found = parse_id(cursor)
    if cursor is not None and found is None:
        raise BadRequest("cursor is not one that was given out here")
    return found


def page(rows: Iterable[Any], limit: int, key: Callable[[Any], Any], show: Callable[[Any], Any]) -> dict[str, Any]:
    """One page of `rows`, of which at least `limit` + 1 are asked for; the cursor is the key of the last one shown."""
    found = list(islice(rows, limit + 1))
    shown = found[:limit]
    more = len(found) > limit
    cursor = base64.urlsafe_b64encode(str(key(shown[-1])).encode()).decode() if more else None
    return {"items": [show(row) for row in shown], "nextCursor": cursor}
