"""Names are looked up on threads, where one whose server does not answer stays for many seconds: so those that are
known to be found soon, those that were never asked for, and those that took long have places of their own.
"""

import asyncio
import functools
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

AT_A_TIME = {"quick": 8, "new": 32, "slow": 8}
SLOW_S = 1.0
REMEMBERED = 20_000


class Names(AbstractResolver):
    """Looks names up as the machine does. Used on one event loop only."""

    def __init__(self) -> None:
        self._places = {temper: asyncio.Semaphore(most) for temper, most in AT_A_TIME.items()}
        self._known: OrderedDict[str, str] = OrderedDict()  # name → temper, the last asked for last

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name. Raises OSError where it has none."""
        look = functools.partial(
            socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, family=family, flags=socket.AI_ADDRCONFIG
        )
        async with self._places[self._known.get(host, "new")]:
            began = time.monotonic()
            try:
                found = await _on_thread(look)
            finally:
                self._learn(host, "slow" if time.monotonic() - began > SLOW_S else "quick")
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=address[0], port=address[1], family=kind, proto=protocol, flags=flags)
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Lookups that are under way keep nobody waiting."""

    def _learn(self, host: str, temper: str) -> None:
        self._known[host] = temper
        self._known.move_to_end(host)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


async def _on_thread(work: Callable[[], Any]) -> Any:
    """What it returns or raises. On a thread of its own that the process's end does not wait for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def finish(result: Any, error: Exception | None) -> None:
        if not done.done():
            done.set_exception(error) if error else done.set_result(result)

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:
            failure = error
        try:
            loop.call_soon_threadsafe(finish, result, failure)
        except RuntimeError:
            pass  # the loop has ended

    threading.Thread(target=run, name="name", daemon=True).start()
    return await done
