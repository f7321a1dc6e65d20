"""Small real servers, and one probe against them."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from common.outbound import Outbound
from registry.probes import Result, Target, run

Handler = Callable[[bytes], bytes | None]
LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]


def answer(body: str = "ok", status: int = 200, headers: str = "") -> bytes:
    """An HTTP/1.1 answer."""
    raw = body.encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(raw)}\r\nConnection: close\r\n{headers}\r\n".encode() + raw


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """An HTTP server that gives each request's bytes to `handler`; an answer of None hangs until the peer goes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        said = handler(head + await reader.readexactly(length))
        if said is None:
            await reader.read()
        else:
            writer.write(said)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/health"
    finally:
        server.close()


async def probed(kind: str, url: str, *, timeout_s: float = 2.0, **more: object) -> Result:
    out = Outbound(LOOPBACK)
    try:
        return await run(Target(kind, url, timeout_s, **more), out)
    finally:
        await out.close()


def against(handler: Handler, kind: str = "http", **more: object) -> Result:
    """Probe a server that answers like this."""

    async def trip() -> Result:
        async with serving(handler) as url:
            return await probed(kind, url, **more)

    return asyncio.run(trip())


def at(url: str, kind: str, **more: object) -> Result:
    """Probe an address."""
    return asyncio.run(probed(kind, url, **more))
