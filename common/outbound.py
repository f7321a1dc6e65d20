"""The only HTTP sockets out: callbacks, agents, probes and hooks all go through here.

Each connection's very address is checked at the moment of connecting, so a name cannot be turned against the inside
after it was looked at. Redirects are not followed, the environment's proxies and cookies are not used, TLS verifies the
name.

Nothing is ever sent twice. A kept connection that the peer closed just before our bytes came is BROKEN with `sent`
true: nothing proves that they were not read. To make that rare, an idle connection is kept only `KEEP_ALIVE_S` seconds,
less than the 5 s after which common servers close theirs.
"""

import asyncio
import contextlib
import functools
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import aiohttp
from multidict import CIMultiDict

from common import clock
from common.addresses import Network, UrlRefused, check_url, is_allowed, parse_url
from common.names import Names

__all__ = ["Answer", "Outbound", "OutboundError", "UrlRefused", "check_url"]

KEEP_ALIVE_S = 4.0
DNS_CACHE_S = 5
DNS_TIMEOUT_S = 2.0
NEVER_ROUND_UP_S = 10**9
CHUNK = 65536

BLOCKED, UNREACHABLE, TIMEOUT = "BLOCKED", "UNREACHABLE", "TIMEOUT"
BROKEN, TOO_LARGE, BAD_URL = "BROKEN", "TOO_LARGE", "BAD_URL"
_BLOCKED_ERRNO = 9_999


Watch = Callable[[int, Mapping[str, str], bytes], None]


class OutboundError(Exception):
    """A request that got no full answer. `kind` is one of

    BLOCKED (the address is not allowed), UNREACHABLE (no such name, nothing listens there, no route, connect timeout,
    TLS failure), TIMEOUT (sent, no full answer in time), BROKEN (the connection died, or spoke no HTTP, after sending),
    TOO_LARGE (the answer), BAD_URL. `sent` is true when bytes of the request may have left; `answered` is true when
    the head of an answer came, or something that is no HTTP.
    """

    def __init__(self, kind: str, message: str, *, sent: bool = False, answered: bool = False) -> None:
        self.kind, self.message, self.sent, self.answered = kind, message, sent, answered
        super().__init__(f"{kind}: {message}")


@dataclass(frozen=True)
class Answer:
    """An answer as received. `body` holds at most `keep_bytes`, and `truncated` says that there was more; times in ms
    from the start of the request (`connect_ms` is 0 on a kept connection)."""

    status: int
    headers: CIMultiDict[str]
    body: bytes
    truncated: bool
    connect_ms: float
    first_byte_ms: float
    total_ms: float
    first_byte_at: datetime


@dataclass
class _Trip:
    """What is known of one request while it runs."""

    started: float = field(default_factory=time.perf_counter)
    connected: float | None = None
    sent: bool = False
    answered: bool = False

    def ms(self, moment: float | None = None) -> float:
        return ((moment or time.perf_counter()) - self.started) * 1000


class Outbound:
    """A pool of connections; make it inside the running loop that uses it, and `await close()` it at the end.

    `allow` are the non-public networks that may be reached; `per_host` bounds the connections to a host (0: no bound).
    """

    def __init__(self, allow: Sequence[Network] = (), *, user_agent: str = "Agent-Reach", per_host: int = 0) -> None:
        self._allow = tuple(allow)
        self._per_host = per_host
        connector = aiohttp.TCPConnector(
            limit=0,
            limit_per_host=per_host,
            ttl_dns_cache=DNS_CACHE_S,
            resolver=Names(),
            keepalive_timeout=KEEP_ALIVE_S,
            socket_factory=self._socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": user_agent},
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type"),
            trust_env=False,
            auto_decompress=False,
            trace_configs=[_trace()],
        )
        # aiohttp sends idempotent methods again by itself; whether to try again is decided, and counted, elsewhere.
        self._session._retry_connection = False

        self._sockets: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._sockets is not None:
            await self._sockets.close()
        await self._session.close()

    def _socket(self, addr_info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = addr_info
        if not is_allowed(str(address[0]), self._allow):
            # Of several failures for one name only a shared number survives the connector, so this one has its own.
            raise OSError(_BLOCKED_ERRNO, "not reachable from here by policy")
        return socket.socket(family=family, type=kind, proto=protocol)

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        connect_timeout_s: float = 0.8,
        total_timeout_s: float,
        max_bytes: int,
        keep_bytes: int | None = None,
        watch: Watch | None = None,
    ) -> Answer:
        """Send one request once and read the whole answer. Raises OutboundError.

        An answer of over `max_bytes` is TOO_LARGE; with `keep_bytes` reading stops there instead and the answer is
        marked truncated. `watch` sees each part as it comes, with status and headers.
        """
        trip = _Trip()
        try:
            target = parse_url(url)
        except UrlRefused as error:
            raise OutboundError(BAD_URL, str(error)) from None
        limits = aiohttp.ClientTimeout(
            total=total_timeout_s,
            connect=None if self._per_host else connect_timeout_s + DNS_TIMEOUT_S,
            sock_connect=connect_timeout_s,
            ceil_threshold=NEVER_ROUND_UP_S,
        )
        try:
            async with self._session.request(
                method,
                target,
                data=body or None,
                headers=headers,
                allow_redirects=False,
                timeout=limits,
                trace_request_ctx=trip,
            ) as response:
                return await _read(response, trip, max_bytes, keep_bytes, watch)
        except OutboundError:
            raise
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise _typed(error, trip) from None

    @contextlib.asynccontextmanager
    async def websocket(
        self, url: str, *, headers: Mapping[str, str], connect_timeout_s: float, max_bytes: int, ping_s: float
    ) -> AsyncIterator["WebSocket"]:
        """A connection by the WebSocket protocol to a ws, wss, http or https address; messages of at most `max_bytes`.

        A peer that answers no ping within half of `ping_s` is gone. Raises OutboundError, and Refused where the peer
        answers the handshake with a status.
        """
        trip = _Trip()
        try:
            target = parse_url(re.sub("^ws", "http", url, flags=re.IGNORECASE))
        except UrlRefused as error:
            raise OutboundError(BAD_URL, str(error)) from None
        try:
            async with asyncio.timeout(connect_timeout_s + DNS_TIMEOUT_S):
                found = await self._socket_session().ws_connect(
                    target, headers=headers, heartbeat=ping_s, max_msg_size=max_bytes, autoclose=True
                )
        except aiohttp.WSServerHandshakeError as error:
            raise Refused(error.status, CIMultiDict(error.headers or {})) from None
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise _typed(error, trip) from None
        try:
            yield WebSocket(found)
        finally:
            await found.close()

    def _socket_session(self) -> aiohttp.ClientSession:
        """A session over the same connector, which checks addresses; its handshakes follow no redirects."""
        if self._sockets is None:
            self._sockets = aiohttp.ClientSession(
                connector=self._session.connector,
                connector_owner=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._session.headers,
                trust_env=False,
            )
            self._sockets._request = functools.partial(self._sockets._request, allow_redirects=False)  # type: ignore[method-assign]
        return self._sockets


class Refused(Exception):
    """The peer answered a WebSocket handshake with this status."""

    def __init__(self, status: int, headers: CIMultiDict[str]):
        super().__init__(f"the handshake was answered with {status}")
        self.status, self.headers = status, headers


class WebSocket:
    """An open connection. Its errors are OutboundErrors, BROKEN or TOO_LARGE, with `sent`."""

    def __init__(self, found: "aiohttp.ClientWebSocketResponse[bool]"):
        self._found = found

    async def send(self, text: str) -> None:
        """Send one text message."""
        try:
            await self._found.send_str(text)
        except (aiohttp.ClientError, OSError) as error:
            raise OutboundError(BROKEN, f"the connection broke ({type(error).__name__})", sent=True) from None

    async def receive(self) -> bytes | None:
        """The next text message; None for one that is no text. Raises OutboundError at the connection's end."""
        message = await self._found.receive()
        if message.type == aiohttp.WSMsgType.TEXT:
            return str(message.data).encode()
        if message.type == aiohttp.WSMsgType.BINARY:
            return None
        code = self._found.close_code
        if code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
            raise OutboundError(TOO_LARGE, "a message is too large", sent=True, answered=True)
        raise OutboundError(BROKEN, f"the connection was closed (code {code})", sent=True)


def _trace() -> aiohttp.TraceConfig:
    """Notes on the trip when the connection stood and when bytes began to leave."""
    trace = aiohttp.TraceConfig()

    async def connected(_session: Any, context: SimpleNamespace, _params: Any) -> None:
        context.trace_request_ctx.connected = time.perf_counter()

    async def headers_sent(_session: Any, context: SimpleNamespace, _params: Any) -> None:
        context.trace_request_ctx.sent = True

    trace.on_connection_create_end.append(connected)
    trace.on_request_headers_sent.append(headers_sent)
    return trace


async def _read(
    response: aiohttp.ClientResponse, trip: _Trip, max_bytes: int, keep_bytes: int | None, watch: Watch | None
) -> Answer:
    first_byte_ms, first_byte_at = trip.ms(), clock.now()
    trip.answered = True
    limit = max_bytes if keep_bytes is None else min(keep_bytes, max_bytes)
    parts, size = [], 0
    async for part in response.content.iter_any() if watch else response.content.iter_chunked(CHUNK):
        if watch is not None:
            watch(response.status, response.headers, part)
        parts.append(part)
        size += len(part)
        if size > limit:
            break
    truncated = size > limit
    if truncated:
        response.close()
        if keep_bytes is None:
            raise OutboundError(TOO_LARGE, f"the answer is over {max_bytes} bytes", sent=True, answered=True)
    return Answer(
        status=response.status,
        headers=CIMultiDict(response.headers),
        body=b"".join(parts)[:limit],
        truncated=truncated,
        connect_ms=trip.ms(trip.connected) if trip.connected else 0.0,
        first_byte_ms=first_byte_ms,
        total_ms=trip.ms(),
        first_byte_at=first_byte_at,
    )


def _typed(error: Exception, trip: _Trip) -> OutboundError:
    """The kind of a failure. Messages name no URL, as a URL may hold a token."""
    cause = getattr(error, "os_error", None) or error
    if getattr(cause, "errno", None) == _BLOCKED_ERRNO:
        return OutboundError(BLOCKED, "the address is not reachable from here by policy")
    if trip.sent:
        # A head that is no HTTP comes as a ClientResponseError, before anything can be read.
        answered = trip.answered or isinstance(error, aiohttp.ClientResponseError)
        if isinstance(error, TimeoutError):
            return OutboundError(TIMEOUT, "no full answer in time", sent=True, answered=answered)
        message = f"the connection broke or spoke no HTTP ({type(error).__name__})"
        return OutboundError(BROKEN, message, sent=True, answered=answered)
    if isinstance(cause, ConnectionRefusedError):
        return OutboundError(UNREACHABLE, "nothing listens there")
    if isinstance(error, aiohttp.InvalidURL | UnicodeError):
        return OutboundError(BAD_URL, "the URL cannot be used")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return OutboundError(UNREACHABLE, "the name does not resolve")
    if isinstance(error, TimeoutError):
        return OutboundError(UNREACHABLE, "no connection in time")
    if isinstance(error, aiohttp.ClientSSLError):
        return OutboundError(UNREACHABLE, f"TLS failed ({type(cause).__name__})")
    if isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError):
        return OutboundError(BAD_URL, f"the request cannot be written ({type(error).__name__})")
    return OutboundError(UNREACHABLE, f"no connection ({type(cause).__name__})")
