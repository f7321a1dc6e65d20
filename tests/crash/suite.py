"""Walks tasks into the points, and notes what caller, agent and receiver saw of it."""

import asyncio
import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.chaos.outside import Outside
from tests.chaos.town import FINAL, WITH_LOOKUP, Town
from tests.crash.points import Point
from tests.trips.world import ROOT, Platform

PATIENCE_S = 240.0
LOOK_S = 0.05
GRACE_S = 5.0
TRIES = 4


@dataclass
class Walk:
    """One task on its way to a point."""

    point: Point
    key: str = field(default_factory=lambda: f"crash-{uuid.uuid4().hex}")
    task_id: str = ""
    posts: list[str] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    died_at: float = 0.0
    deaths: int = 0
    recovered_at: float = 0.0
    state: str = ""
    attempts: list[dict[str, Any]] = field(default_factory=list)


class Suite:
    """One platform whose processes die where `place` has a file for it; three workers, so that one always lives."""

    def __init__(self, platform: Platform, outside: Outside, place: Path) -> None:
        self.outside, self.place = outside, place
        self.town = Town(platform, outside)
        self._waiting: dict[str, Walk] = {}
        outside.on_call = self._called

    def walk(self, points: Sequence[Point]) -> list[Walk]:
        """Each task up to the death at its point, one after the other; then all of them to their ends."""
        return list(self.outside.run(self._walk(points), PATIENCE_S * len(points)))

    async def _walk(self, points: Sequence[Point]) -> list[Walk]:
        walks = [await self._up_to_the_death(point) for point in points]
        await asyncio.gather(*(self._to_the_end(walk) for walk in walks))
        return walks

    async def _up_to_the_death(self, point: Point) -> Walk:
        """On a machine that stands still a task may get to its end around the point: then another one is sent."""
        for _ in range(TRIES):
            walk = Walk(point)
            if await self._dies(walk):
                return walk
        raise AssertionError(f"nobody died at: {point.title}")

    async def _dies(self, walk: Walk) -> bool:
        point, ledger = walk.point, self.outside.ledger
        self._waiting[walk.key] = walk
        if point.armed == "start":
            self._arm(walk, point.hook, walk.key)
        asked = self.town.request(point.style, walk.key, point.payload, **point.request)
        walk.task_id, walk.posts = await self.town.submit(asked)
        if point.armed == "cancel":
            await _until(lambda: walk.key in ledger.calls, "the agent's call")
            self._arm(walk, point.hook, walk.task_id)
            await self._cancel(walk)
        file = self._file(walk, point.hook)
        died = file.with_suffix(".died")
        await _until(lambda: died.exists() or ledger.told.get(walk.key), f"the death at: {point.title}")
        end = time.monotonic() + GRACE_S  # it may die just after it has told
        while not died.exists() and time.monotonic() < end:
            await asyncio.sleep(LOOK_S)
        if not died.exists():
            file.unlink(missing_ok=True)
            return False
        walk.died_at = died.stat().st_ctime
        return True

    async def _cancel(self, walk: Walk) -> None:
        while not walk.cancels or walk.cancels[-1] == "lost" or int(walk.cancels[-1]) >= 500:
            walk.cancels.append((await self.town.call("POST", f"/v1/tasks/{walk.task_id}/cancel"))[0])
            await asyncio.sleep(LOOK_S)

    async def _to_the_end(self, walk: Walk) -> None:
        end = time.monotonic() + PATIENCE_S
        told = self.outside.ledger.told[walk.key]
        while len(told) < walk.point.told or walk.state not in FINAL:
            assert time.monotonic() < end, f"{walk.point.title}: no end: {walk.state}, told {len(told)} times"
            walk.state = (await self.town.read(f"/v1/tasks/{walk.task_id}"))["state"]
            await asyncio.sleep(LOOK_S)
        walk.recovered_at = time.time() - (time.monotonic() - told[walk.point.told - 1]["at"])
        walk.attempts = (await self.town.read(f"/v1/tasks/{walk.task_id}/journey"))["attempts"]
        walk.deaths = sum(1 for _ in self.place.glob(f"*/{walk.key}.died"))

    def _called(self, key: str, task_id: str) -> None:
        walk = self._waiting.pop(key, None)
        if walk is not None and walk.point.armed == "call":
            for hook in filter(None, (walk.point.also, walk.point.hook)):
                self._arm(walk, hook, f"{key} {task_id}")

    def _arm(self, walk: Walk, hook: str, words: str) -> None:
        file = self._file(walk, hook)
        file.parent.mkdir(exist_ok=True)
        new = self.place / f"{walk.key}.new"  # a file that is half written would not be understood
        new.write_text(" ".join(walk.point.words) or words, "utf-8")
        new.rename(file)

    def _file(self, walk: Walk, hook: str) -> Path:
        return self.place / hook / walk.key

    def wrongs(self, walk: Walk) -> list[str]:
        """What should not be, in words."""
        ledger, point = self.outside.ledger, walk.point
        told = ledger.told[walk.key]
        not_sent = {one["attemptKey"] for one in walk.attempts if one["certainty"] == "NOT_SENT"}
        checks = {
            f"it ended as {walk.state}": walk.state != point.state,
            "it was told of two ends": len({one["webhookId"] for one in told}) != 1,
            "it was told otherwise than it ended": {one["state"] for one in told} != {walk.state},
            "a side effect came twice": point.style in WITH_LOOKUP and ledger.effects[walk.key] > 1,
            "what was sent is said not to have been": bool(not_sent & set(ledger.calls[walk.key])),
            "nobody died a second time": walk.deaths != 1 + bool(point.also),
        }
        return [f"{point.title}: {wrong}" for wrong, is_so in checks.items() if is_so]

    def row(self, walk: Walk) -> list[str]:
        """The table's row."""
        ledger, key = self.outside.ledger, walk.key
        cancels = f"; cancel: {_in_short(walk.cancels)}" if walk.cancels else ""
        caller = f"{_in_short(walk.posts)}{cancels}; {walk.state}"
        reports = f", report: {_in_short(ledger.reports[key])}" if ledger.reports[key] else ""
        agent = f"{_times(len(ledger.calls[key]), 'call')}, {_times(ledger.effects[key], 'effect')}"
        agent += f", {_times(ledger.lookups[key], 'lookup')}" if ledger.lookups[key] else ""
        told = _times(len(ledger.told[key]), "message")
        outcomes = ", ".join(f"{one['outcome']}/{one['certainty']}" for one in walk.attempts)
        seconds = f"{max(0.0, walk.recovered_at - walk.died_at):.1f}"
        return [walk.point.title, caller, f"{agent}{reports}", outcomes, f"{told}, one id", seconds]


HEADS = ["killed at", "caller", "agent", "attempts on record", "receiver", "s until all was told"]


def _in_short(answers: Sequence[str]) -> str:
    """lost, lost, lost, 202 as 3 × lost, 202."""
    groups = [(word, len(list(same))) for word, same in groupby(answers)]
    return ", ".join(f"{count} × {word}" if count > 1 else word for word, count in groups)


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


async def _until(check: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < end, f"{what} did not come"
        await asyncio.sleep(LOOK_S)


@contextmanager
def suite() -> Iterator[Suite]:
    """A platform of its own, with what is around it."""
    with tempfile.TemporaryDirectory(prefix="reach-crash-") as place, Outside() as outside:
        path = os.pathsep.join([str(ROOT / "tests/crash/processes"), *filter(None, [os.environ.get("PYTHONPATH")])])
        platform = Platform(CRASH_POINTS_DIR=place, PYTHONPATH=path, REACH_WORKERS="3")
        try:
            yield Suite(platform, outside, Path(place))
        finally:
            platform.stop()


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines as Markdown has them."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
