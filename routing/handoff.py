"""Waits for tasks and streams of their events: what a view leaves for the web server's event loop, so that they hold no
thread (`common.streams` says how).
"""

import asyncio
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from common.clock import rfc3339
from common.database import robust
from common.encoding import dumps
from common.streams import Answer, Gone, Receive, Send, stream, unless, without_length, write
from routing import documents, endings, selectors
from routing.models import Event, Task
from routing.states import FINAL

HEARTBEAT_S = 15.0
LIFETIME_S = 3600.0  # then the client comes back with its Last-Event-ID, perhaps to another process
PAGE = 500

T = TypeVar("T")

# Threads of their own: a queue of ordinary requests does not delay a stream, nor a thousand streams them.
_readers = ThreadPoolExecutor(2, "streams")


class WaitForTask:
    """`Prefer: wait`: the task document if the task ends within `seconds`, else the 202 that the view prepared."""

    def __init__(self, task_id: uuid.UUID, seconds: float):
        self.task_id, self.seconds = task_id, seconds

    async def respond(self, send: Send, receive: Receive, answer: Answer) -> None:
        gone = asyncio.ensure_future(receive())
        try:
            if await unless(gone, endings.hub().wait(self.task_id, self.seconds)):
                answer.body = await _read(task_document, self.task_id)
                answer.status = 200
                answer.headers = [*without_length(answer), (b"content-length", str(len(answer.body)).encode())]
            await answer.send(send)
        finally:
            gone.cancel()


class TaskEvents:
    """A task's events as they happen (server-sent events), from the one after `after` to its present final state."""

    def __init__(self, task_id: uuid.UUID, after: int):
        self.task_id, self.after = task_id, after

    async def respond(self, send: Send, receive: Receive, answer: Answer) -> None:
        await stream(send, receive, answer, lambda gone: self._stream(send, gone))

    async def _stream(self, send: Send, gone: Gone) -> None:
        await write(send, b": events of a task\n\n")  # the headers leave with the first bytes
        hub, end = endings.hub(), time.monotonic() + LIFETIME_S
        seen = await _read(resume_from, self.task_id, self.after)
        while not gone.done() and time.monotonic() < end:
            events, more, ended = await _read(events_after, self.task_id, seen)
            if events:
                seen = events[-1]["seq"]
                await write(send, b"".join(map(_frame, events)))
            if ended and not more:
                return
            if not more and await unless(gone, hub.wait_change(self.task_id, HEARTBEAT_S, seen)) is False:
                await write(send, b": still here\n\n")


def task_document(task_id: uuid.UUID) -> bytes:
    """The task as `GET /v1/tasks/{id}` gives it."""
    row = selectors.task(task_id)
    if row is None:
        raise LookupError(task_id)
    return documents.task_document(row)


@robust(patience=5.0)
def resume_from(task_id: uuid.UUID, after: int) -> int:
    """`after`, or 0 where the task has had no such event: then the whole story is the safe answer."""
    return after if Task.objects.filter(id=task_id, seq__gte=after).exists() else 0


@robust(patience=5.0)
def events_after(task_id: uuid.UUID, after: int) -> tuple[list[dict[str, Any]], bool, bool]:
    """(events after `after` up to the present final state, whether there are more, whether the task has ended)."""
    state = Task.objects.filter(id=task_id).values_list("state", flat=True).first()  # before the events: never ahead
    ended = state is None or state in FINAL
    rows = list(Event.objects.filter(task_id=task_id, seq__gt=after).order_by("seq")[:PAGE])
    more = len(rows) == PAGE
    if ended and not more:
        last = max((index for index, row in enumerate(rows) if row.to_state in FINAL), default=-1)
        rows = rows[: last + 1]  # what came after the end, such as a callback's deliveries, is the journey's
    return [_document(row) for row in rows], more, ended


def _document(row: Event) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "at": rfc3339(row.at),
        "event": row.event,
        "fromState": row.from_state,
        "toState": row.to_state,
        "attempt": row.attempt,
        "agentId": row.agent_id,
        "instanceId": row.instance_id,
        "node": row.node,
        "elapsedMs": row.elapsed_ms,
        "detail": row.detail,
    }


def _frame(event: dict[str, Any]) -> bytes:
    name = "chunk" if event["event"] == "CHUNK" else event["event"]
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event["seq"], name.encode(), dumps(event))


async def _read(function: Callable[..., T], *given: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(_readers, function, *given)
