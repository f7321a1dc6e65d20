"""The long poll of an agent that fetches its tasks: what the view leaves for the event loop, so that it holds no
thread and no connection to the database while it waits.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError

from common.clock import now
from common.streams import Answer, Gone, Receive, Send, unless, without_length
from routing import pulling
from routing.services import lease
from routing.services.lease import Fetcher, Leased

log = logging.getLogger(__name__)

PAUSE_S = 0.25  # at least so long between two looks of one poll: what is offered may be for another instance

T = TypeVar("T")

_takers = ThreadPoolExecutor(2, "leases")


class WaitForWork:
    """Answers `{"tasks": […]}` as soon as there is something, after `seconds` with nothing."""

    def __init__(self, fetcher: Fetcher, most: int, seconds: float):
        self.fetcher, self.most, self.seconds = fetcher, most, seconds

    async def respond(self, send: Send, receive: Receive, answer: Answer) -> None:
        gone = asyncio.ensure_future(receive())
        try:
            leased = await self._wait(gone)
            if gone.done():
                await _give_back(leased)
                return
            answer.body = b'{"tasks":[' + b",".join(one.body for one in leased) + b"]}"
            answer.headers = [*without_length(answer), (b"content-length", str(len(answer.body)).encode())]
            await answer.send(send)
        finally:
            gone.cancel()

    async def _wait(self, gone: Gone) -> list[Leased]:
        end = time.monotonic() + self.seconds
        while True:
            leased = await self._take()
            left_s = end - time.monotonic()
            if leased or left_s <= 0 or gone.done():
                return leased
            await asyncio.sleep(min(PAUSE_S, left_s))
            await unless(gone, self._offered(end))

    async def _offered(self, end: float) -> None:
        key = (self.fetcher.namespace, self.fetcher.agent_id)
        await pulling.hub().wait(key, max(0.0, end - time.monotonic()))

    async def _take(self) -> list[Leased]:
        """What there is; nothing while the database is away."""
        try:
            return await _on_thread(lease.take, self.fetcher, self.most, now())
        except (DatabaseError, InterfaceError) as problem:
            log.warning("nothing is leased: %s", type(problem).__name__)
            return []


async def _give_back(leased: list[Leased]) -> None:
    if leased:
        await _on_thread(lease.unread, leased, now())


async def _on_thread(function: Callable[..., T], *given: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(_takers, function, *given)
