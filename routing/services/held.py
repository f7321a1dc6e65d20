"""Reports of agents whose attempt is held by this worker's connection or thread: taken as those by API are."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from common.encoding import clean_text
from common.errors import ReachError
from common.json import BadAnswer, dumps, parse_lenient
from routing.channels.base import LATE, PROGRESS
from routing.channels.function import late_result
from routing.services import report

TEXT_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class Report:
    """One report of an attempt: a receipt, progress, or a result that came after its time."""

    kind: str
    task_id: uuid.UUID
    attempt_key: uuid.UUID
    body: bytes


def note(reports: Sequence[Report], now: dt.datetime) -> None:
    """Put them on record in their order; those of attempts that have ended change nothing."""
    for one in reports:
        try:
            _note(one, now)
        except ReachError:
            pass  # it came too late: what the agent would be told by API


def _note(one: Report, now: dt.datetime) -> None:
    if one.kind == LATE:
        report.result(one.task_id, one.attempt_key, late_result(one.body, str(one.attempt_key)), now)
    elif one.kind == PROGRESS:
        report.progress(one.task_id, one.attempt_key, _progress(one.body), now)
    else:
        report.receipt(one.task_id, one.attempt_key, b"{}", now)


def _progress(body: bytes) -> bytes:
    """Percent and message, if they are what they should be."""
    try:
        found: Any = parse_lenient(body)
    except BadAnswer:
        found = {}
    given = found if isinstance(found, dict) else {}
    percent, message = given.get("percent"), given.get("message")
    is_number = isinstance(percent, int | float | Decimal) and not isinstance(percent, bool) and 0 <= percent <= 100
    return dumps({
        "percent": percent if is_number else None,
        "message": clean_text(message, TEXT_LIMIT) if isinstance(message, str) else None,
    })  # fmt: skip
