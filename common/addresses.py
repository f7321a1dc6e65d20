"""Which network addresses requests may go out to: public ones, and those that an operator allowed."""

import functools
import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from yarl import URL

Network = IPv4Network | IPv6Network
MAX_URL = 2048

_NEVER_PUBLIC = [
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "100.64.0.0/10",  # carriers' address translation
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "240.0.0.0/4",  # reserved, broadcast
        "::/96",  # IPv4-compatible: carries any IPv4 address, private ones too
        "::ffff:0:0:0/96",  # IPv4-translated: the same
        "64:ff9b:1::/48",  # local translation
        "100::/64",  # discard
        "2001::/23",  # Teredo and other protocol assignments
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fec0::/10",  # former site-local
    )
]
_TRANSLATED = [(ip_network("64:ff9b::/96"), 0), (ip_network("2002::/16"), 80)]
_ODD_IPV4 = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]*|[0-9]+)){0,3}\.?")
_VISIBLE = re.compile(r"[\x21-\x5b\x5d-\x7e]+")


class UrlRefused(ValueError):
    """A URL that is not called; the text is for whoever gave it."""


@functools.lru_cache(maxsize=16)
def networks(texts: tuple[str, ...]) -> list[Network]:
    """Networks by their texts, read once. Raises ValueError."""
    return [ip_network(text) for text in texts]


def is_allowed(address: str, allow: Sequence[Network]) -> bool:
    """Whether a connection to this IP address may be made. IPv6 that carries an IPv4 address is judged by that one."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    ip = _carried(ip)
    if any(ip in network for network in allow if network.version == ip.version):
        return True
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _NEVER_PUBLIC)


def _carried(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(ip, IPv4Address):
        return ip
    if ip.ipv4_mapped:
        return ip.ipv4_mapped
    for network, shift in _TRANSLATED:
        if ip in network:
            return IPv4Address((int(ip) >> shift) & 0xFFFFFFFF)
    return ip


def check_url(url: str, allow: Sequence[Network], *, resolve: bool = False) -> None:
    """Refuse, at the door, a URL that could never be called; with `resolve` also a name that leads to a refused
    address.

    Raises UrlRefused with the reason. What a name resolves to is checked again at each connection.
    """
    if not isinstance(url, str):
        raise UrlRefused("a URL is text")
    parsed = parse_url(url)
    host = parsed.host or ""
    if _is_literal(host):
        if not is_allowed(host, allow):
            raise UrlRefused("that address is not reachable from here by policy")
    elif resolve:
        _check_name(host, parsed.port or 0, allow)


@functools.lru_cache(maxsize=1024)
def parse_url(url: str) -> URL:
    """An absolute http or https URL, in the spelling given. Raises UrlRefused with the reason."""
    if not 0 < len(url) <= MAX_URL:
        raise UrlRefused(f"a URL has 1 to {MAX_URL} characters")
    if not _VISIBLE.fullmatch(url):
        raise UrlRefused("a URL is visible ASCII; encode other characters, and spaces, as %XX")
    try:
        parsed = URL(url, encoded=True)
        scheme, host, port = parsed.scheme, parsed.host, parsed.explicit_port
    except ValueError:
        raise UrlRefused("the host or the port is not valid") from None
    if scheme not in ("http", "https"):
        raise UrlRefused("the scheme must be http or https")
    if not host:
        raise UrlRefused("there is no host in it")
    if "@" in parsed.raw_authority:
        raise UrlRefused("credentials in a URL are not sent; use a header or a token")
    if port == 0:
        raise UrlRefused("the port must be 1 to 65535")
    if _ODD_IPV4.fullmatch(host) and not _is_literal(host):
        raise UrlRefused("write an IPv4 address as four decimal numbers")
    if not _is_literal(host) and not _is_name(host):
        raise UrlRefused("the host is not a valid name")
    return parsed


def _is_literal(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_name(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    return len(host) <= 253 and all(
        re.fullmatch(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", label) for label in labels
    )


def _check_name(host: str, port: int, allow: Sequence[Network]) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return  # A name may be there later; the connection decides.
    if not any(is_allowed(str(info[4][0]), allow) for info in found):
        raise UrlRefused("that name leads to an address that is not reachable from here by policy")
