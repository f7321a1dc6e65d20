"""Addresses that owners give: which of them the platform would call."""

import functools
import re
from ipaddress import ip_network

from django.conf import settings

from common.addresses import Network, UrlRefused, check_url

HTTP = ("http", "https")
INVOKE = ("http", "https", "ws", "wss")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def wrong_address(url: str, schemes: tuple[str, ...] = HTTP) -> str | None:
    """What is wrong with an address, or None. What a name resolves to is checked at each connection."""
    match = _SCHEME.match(url)
    if match is None or match[1].lower() not in schemes:
        return f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}"
    # A websocket begins as an http request to the same host.
    as_http = re.sub("^ws", "http", url, flags=re.IGNORECASE)
    try:
        check_url(as_http, allowed_networks(tuple(settings.REACH_OUTBOUND_ALLOW)))
    except UrlRefused as refused:
        return str(refused)
    return None


@functools.lru_cache(maxsize=8)
def allowed_networks(ranges: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in ranges)
