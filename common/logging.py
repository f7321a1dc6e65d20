"""Log lines as JSON, one an event: ts, level, event, message, traceId, taskId, agentId, costMs and what else is known.

Payloads, headers and secrets never go in; an exception gives its kind, one line of its text, and where it came from.
"""

import logging
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import msgspec

from common.encoding import clean_text, dumps

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_NAMES = {number: name for name, number in _LEVELS.items()}
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "request"}
MESSAGE_LIMIT = 2000
FRAMES = 12

# Of the request that is being answered here; lines that name no trace of their own get it.
current_trace_id: ContextVar[str | None] = ContextVar("current_trace_id", default=None)


class JSONFormatter(logging.Formatter):
    """One line of JSON for a record; whatever was given as `extra` becomes members."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": _NAMES.get(record.levelno, record.levelname.lower()),
        }
        fields = record.__dict__.get("fields")
        if fields is not None:
            line.update(fields)
        else:
            line["event"] = record.name
            line.update((key, value) for key, value in record.__dict__.items() if key not in _STANDARD)
        # Django logs some answers when the request is over; such a record has the request with it.
        trace_id = current_trace_id.get() or getattr(record.__dict__.get("request"), "trace_id", None)
        if trace_id:
            line.setdefault("traceId", trace_id)
        message = record.getMessage()
        if message:
            line["message"] = message
        if record.exc_info and record.exc_info[1]:
            line.update(_exception(record.exc_info[1]))
        return _line(line)


def log_event(
    logger: logging.Logger,
    event: str,
    *,
    level: str = "info",
    message: str = "",
    trace_id: str | None = None,
    task_id: Any = None,
    agent_id: str | None = None,
    cost_ms: float | None = None,
    **fields: Any,
) -> None:
    """Log one event; `level` is debug, info, warning, error or critical; `fields` are JSON values in camelCase."""
    number = _LEVELS[level]
    if not logger.isEnabledFor(number):
        return
    known = {"event": event, "traceId": trace_id, "taskId": task_id, "agentId": agent_id, "costMs": cost_ms, **fields}
    record = logging.LogRecord(logger.name, number, "", 0, message, None, None)
    record.fields = {name: value for name, value in known.items() if value is not None}
    logger.handle(record)


def _exception(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    return {
        "error": f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}",
        "stack": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }


def _line(line: dict[str, Any]) -> str:
    """The fast encoder first; what it does not know is shown as text rather than lost."""
    try:
        return _ENCODER.encode(line).decode()
    except (UnicodeEncodeError, TypeError, ValueError):
        return dumps({name: _shown(value) for name, value in line.items()}).decode()


def _shown(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    return clean_text(value if isinstance(value, str) else repr(value), MESSAGE_LIMIT)
