"""Healthy when a connection can be made. It says little: a hung process passes."""

import asyncio
import contextlib

from common.outbound import UNREACHABLE, Outbound, OutboundError
from registry.probes.base import Target
from registry.probes.connect import addresses_of, place_of


async def probe(target: Target, out: Outbound) -> str:
    """Connect to one of the host's addresses and close again."""
    problem = ""
    for host, port in await addresses_of(place_of(target.url)):
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            problem = problem or _why(error)
            continue
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return ""
    raise OutboundError(UNREACHABLE, problem)


def _why(error: OSError) -> str:
    return "nothing listens there" if isinstance(error, ConnectionRefusedError) else type(error).__name__
