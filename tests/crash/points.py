"""The points of a trip at which a process may die, each with the story that comes by it."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class Point:
    """`hook` is the point's name for the processes. `armed`: from the start, by the agent's first call, or for a cancel.

    `told` is how many messages the receiver gets at the least, `state` how the task ends. `slow` ones are for long runs.
    """

    title: str
    hook: str
    style: str = "answer"
    armed: str = "start"
    payload: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    state: str = "SUCCEEDED"
    told: int = 1
    also: str | None = None  # a second point, of the recovery, armed by the agent's call too
    words: tuple[str, ...] = ()  # instead of the task's ids, where a point does not know them
    slow: bool = True


_BUSY_ONCE = {"refusals": 1}
_SLOW = {"workMs": 2500}
_SILENT = {"silent": True}

POINTS = (
    Point("claim, before its commit", "claim.before", words=("[UUID(",)),
    Point("accept, before its commit", "accept.before"),
    Point("accept, after the commit, before the nudge", "accept.after", slow=False),
    Point("accept, after the nudge, before the 202", "accept.answer"),
    Point("claim, after the commit", "claim.after"),
    Point("dispatch, before its commit", "dispatch.before"),
    Point("dispatch, after the commit, before the send", "dispatch.after", slow=False),
    Point("after the send, before the answer is read", "send.during", armed="call", payload=_SLOW, slow=False),
    Point("the same at an agent without lookup", "send.during", "plain", armed="call", payload=_SLOW),
    Point("after the answer, before settle", "settle.before", armed="call"),
    Point("after settle's commit, before the callback", "settle.after", armed="call", slow=False),
    Point("callback sent, its outcome not written", "told.before", armed="call", told=2),
    Point("callback sent and written", "told.after", armed="call"),
    Point("busy agent: before the retry is on record", "settle.before", armed="call", payload=_BUSY_ONCE),
    Point("busy agent: after the retry is on record", "settle.after", armed="call", payload=_BUSY_ONCE),
    Point("retry, after its claim", "claim.after", armed="call", payload=_BUSY_ONCE),
    Point("retry, after dispatch, before the send", "dispatch.after", armed="call", payload=_BUSY_ONCE),
    Point("retry, after the lookup's answer", "send.during", armed="call", payload=_SLOW, also="lookup.after"),
    Point("202, before the receipt's commit", "received.before", "report", armed="call", payload=_SLOW),
    Point("202, after the receipt's commit", "received.after", "report", armed="call", payload=_SLOW),
    Point("report, before its commit", "report.before", "report", armed="call"),
    Point("report, after the commit, before the answer", "report.after", "report", armed="call"),
    Point("status address, claimed, before the question", "poll.claimed", "status", armed="call"),
    Point("status address, answered, before the commit", "poll.before", "status", armed="call"),
    Point("status address, after the commit", "poll.after", "status", armed="call"),
    Point("streamed answer, in its middle", "chunks.after", "chunks", armed="call", payload=_SLOW),
    Point("fetch, before its commit", "dispatch.after", "pull"),
    Point("fetch, after the commit, before the answer", "lease.after", "pull"),
    Point("fetched, report, after the commit", "report.after", "pull", armed="call"),
    Point("websocket, after the send", "socket.during", "websocket", armed="call", payload=_SLOW),
    Point("Redis stream, after dispatch, before the entry", "dispatch.after", "stream"),
    Point("Redis stream, report, after the commit", "report.after", "stream", armed="call"),
    Point("cancel, before its commit", "apply.after", "report", "cancel", _SILENT, state="CANCELLED"),
    Point("cancel, after the commit", "cancel.after", "report", "cancel", _SILENT, state="CANCELLED", slow=False),
    Point("out of time, after the commit of its end", "apply.after", "report", "call", _SILENT,
          {"timeoutBudgetMs": 3000}, "TIMEOUT"),
)  # fmt: skip


def groups(points: tuple[Point, ...], size: int = 3) -> list[tuple[Point, ...]]:
    """So many at a time, far from each other on the trip: neighbours kill the same process, which needs its time."""
    count = -(-len(points) // size)
    return [points[first::count] for first in range(count)]
