"""`Prefer` (RFC 7240): the one preference that is honoured here, `wait`, read as the grammar has it."""

import re
from collections.abc import Iterator

WAIT_LIMIT_S = 30

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED = r'"(?:[^"\\]|\\.)*+"'
_VALUE = rf"(?:[ \t]*+=[ \t]*+(?:{_NAME}|{_QUOTED})?+)?+"
_PREFERENCE = re.compile(
    rf"({_NAME})(?:[ \t]*+=[ \t]*+({_NAME}|{_QUOTED})?+)?+(?:[ \t]*+;(?:[ \t]*+{_NAME}{_VALUE})?+)*+[ \t]*+(?=,|\Z)",
    re.ASCII | re.DOTALL,
)
_SECONDS = re.compile("[0-9]+", re.ASCII)


def wait_of(header: str) -> int | None:
    """Seconds that `Prefer: wait=N` asks for, at most 30; None when it does not, or not in a way that makes sense.

    `header` is the field's value, several fields joined by commas. Of a repeated preference the first one counts.
    """
    asked = next((value for name, value in _preferences(header) if name == "wait"), "")
    if not _SECONDS.fullmatch(asked):
        return None
    digits = asked.lstrip("0")
    return WAIT_LIMIT_S if len(digits) > len(str(WAIT_LIMIT_S)) else min(int(digits or "0"), WAIT_LIMIT_S) or None


def _preferences(header: str) -> Iterator[tuple[str, str]]:
    """(name in lower case, value) of each well-formed preference; one that is not is skipped up to the next comma."""
    at = 0
    while at < len(header):
        if header[at] in ", \t":
            at += 1
        elif match := _PREFERENCE.match(header, at):
            yield match[1].lower(), _unquoted(match[2] or "")
            at = match.end()
        else:
            at = (header.find(",", at) + 1) or len(header)


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith('"') else word
