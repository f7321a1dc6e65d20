"""What a setting's text may say: each function turns it into the value, or raises ValueError with the reason."""

import ipaddress
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def text(value: str) -> str:
    if not value.strip():
        raise ValueError("it must not be empty")
    return value


def whole(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        try:
            number = int(value.strip(), 10)
        except ValueError:
            raise ValueError(f"it must be a whole number from {low} to {high}") from None
        if not low <= number <= high:
            raise ValueError(f"it must be from {low} to {high}")
        return number

    return parse


def number(low: float, high: float, *, whole: bool = False) -> Callable[[str], float]:
    kind = "a whole number" if whole else "a number"

    def parse(value: str) -> float:
        try:
            found = int(value.strip(), 10) if whole else float(value)
        except ValueError:
            raise ValueError(f"it must be {kind} from {low} to {high}") from None
        if not low <= found <= high:  # NaN is not
            raise ValueError(f"it must be from {low} to {high}")
        return found

    return parse


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in choices:
            raise ValueError(f"it must be one of {', '.join(choices)}")
        return value

    return parse


def yes_no(value: str) -> bool:
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError("it must be true or false")


def names(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def hosts(value: str) -> list[str]:
    found = names(value)
    if not found:
        raise ValueError("it must name at least one host, or * for any")
    for host in found:
        if "/" in host or " " in host or (":" in host and not host.startswith("[")):
            raise ValueError(f"{host!r} must be a host name without scheme, port or path")
    return found


def networks(value: str) -> list[str]:
    try:
        return [str(ipaddress.ip_network(part)) for part in names(value)]
    except ValueError as error:
        raise ValueError(f"it must be a comma-separated list of CIDR ranges such as 10.0.0.0/8: {error}") from None


def url_of(*schemes: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        try:
            parts = urlsplit(value)
            parts.port  # noqa: B018 - reading it is what checks it
        except ValueError as error:
            raise ValueError(f"it is not a URL: {error}") from None
        if parts.scheme not in schemes:
            raise ValueError(f"it must be a URL that begins with {' or '.join(s + '://' for s in schemes)}")
        return value

    return parse


def web_address(value: str) -> str:
    checked = url_of("http", "https")(value).rstrip("/")
    if not urlsplit(checked).hostname:
        raise ValueError("it must be a URL with a host name")
    return checked


def prefix(value: str) -> str:
    if not value or len(value) > 40 or not all(c.isascii() and (c.isalnum() or c in ":-_.") for c in value):
        raise ValueError("it must be 1 to 40 letters, digits or one of : - _ .")
    return value


def secret_key(value: str) -> str:
    if len(value) < 32:
        raise ValueError("it must have at least 32 characters")
    return value


def commands(value: str) -> dict[str, list[str]]:
    """Programs by name, each with its arguments: {"disk": ["/usr/bin/check", "-v"]}."""
    found = _by_name(value)
    for name, argv in found.items():
        if not isinstance(argv, list) or not all(_is_argument(part) for part in argv) or not any(argv[:1]):
            raise ValueError(f"{name!r} must have a list of texts, the program first")
    return found


def functions(value: str) -> dict[str, str]:
    """Functions by name, each as package.module:function."""
    found = _by_name(value)
    for name, path in found.items():
        if not isinstance(path, str) or not _IMPORT_PATH.fullmatch(path):
            raise ValueError(f"{name!r} must have an import path such as package.module:function")
    return found


def _by_name(value: str) -> dict[str, Any]:
    try:
        found = json.loads(value, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"it must be a JSON object by name: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("it must be a JSON object by name")
    for name in found:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name: it needs 1 to 64 letters, digits or one of . _ -")
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it names something twice")
    return found


def _is_argument(part: Any) -> bool:
    return isinstance(part, str) and "\0" not in part
