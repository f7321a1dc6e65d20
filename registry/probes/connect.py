"""The addresses of a probe that brings its own sockets: resolved here, and used as they were judged."""

import asyncio
import socket

from django.conf import settings
from yarl import URL

from common.addresses import UrlRefused, is_allowed, parse_url
from common.outbound import BAD_URL, BLOCKED, UNREACHABLE, OutboundError
from registry.addresses import allowed_networks


def place_of(url: str) -> URL:
    """The parsed address. Raises OutboundError."""
    try:
        return parse_url(url)
    except UrlRefused as refused:
        raise OutboundError(BAD_URL, str(refused)) from None


async def addresses_of(url: URL) -> list[tuple[str, int]]:
    """(IP address, port) to connect to, at least one. Raises OutboundError (no such name, not allowed)."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise OutboundError(UNREACHABLE, "the name does not resolve") from None
    allow = allowed_networks(tuple(settings.REACH_OUTBOUND_ALLOW))
    good = [(str(info[4][0]), int(info[4][1])) for info in found if is_allowed(str(info[4][0]), allow)]
    if not good:
        raise OutboundError(BLOCKED, "the address is not reachable from here by policy")
    return good
