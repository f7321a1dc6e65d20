"""Time as the platform tells it: aware UTC datetimes inside, RFC 3339 with milliseconds outside."""

import re
from datetime import UTC, datetime, timedelta

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,50}))?(?:([Zz])|([+-])([01]\d|2[0-3]):([0-5]\d))",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


def millis(dt: datetime) -> int:
    """Whole milliseconds since 1970 (rounded down) of an aware datetime."""
    return (dt - _EPOCH) // _MILLISECOND


def rfc3339(dt: datetime | None) -> str | None:
    """`2026-01-02T03:04:05.678Z`: UTC, exactly three decimals, cut and not rounded; None stays None."""
    if dt is None:
        return None
    if dt.tzinfo is None:
        raise ValueError("a time without a zone has no one moment")
    if dt.tzinfo is not UTC:
        dt = dt.astimezone(UTC)
    return dt.isoformat(timespec="milliseconds")[:-6] + "Z"


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time; the offset is required. Raises ValueError for anything else, leap seconds included."""
    match = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("not an RFC 3339 time with an offset, such as 2026-01-02T03:04:05Z")
    year, month, day, hour, minute, second, fraction, _zulu, sign, off_hour, off_minute = match.groups()
    micro = int(((fraction or "") + "000000")[:6])
    local = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), micro, UTC)
    if sign is None:
        return local
    offset = timedelta(hours=int(off_hour), minutes=int(off_minute))
    try:
        return local - offset if sign == "+" else local + offset
    except OverflowError:
        raise ValueError("the time is out of range") from None
