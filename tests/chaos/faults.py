"""What is done to a running platform: each fault by its name, drawn from a seeded generator."""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import redis

from benchmarks.faults import FaultProxy
from reach_platform.embedded.place import Place
from tests.trips.world import Platform

PAUSE_S = 3.0
CUT_S = 4.0
DELAY_S = 0.2


@dataclass(frozen=True)
class Hit:
    """One fault: from when to when (monotonic), and what was hit."""

    name: str
    began: float
    ended: float


class Faults:
    """Kills, pauses and cuts; every method returns when the fault itself is over."""

    def __init__(self, platform: Platform, agents: FaultProxy, callers: FaultProxy, rand: random.Random) -> None:
        self._platform, self._agents, self._callers, self._rand = platform, agents, callers, rand
        self._place = Place.of(Path(platform.home.name))
        self.hits: list[Hit] = []
        self.kinds: dict[str, Callable[[], object]] = {
            "a worker killed": lambda: self._kill_one("celery", "worker"),
            "all workers killed": lambda: self._kill_all("celery", "worker"),
            "a web process killed": self._kill_web,
            "all web processes killed": lambda: self._kill_all("granian"),
            "beat killed": lambda: self._kill_all("celery", "beat"),
            "Redis killed, back empty": lambda: self._kill_all("redis-server"),
            "Redis emptied": self._flush,
            "Redis stands still, 3 s": lambda: self._pause("redis-server"),
            "PostgreSQL killed": lambda: self._kill_all("postgres", "-D"),
            "PostgreSQL stands still, 3 s": lambda: self._pause("postgres"),
            "agents cut off, 4 s": lambda: self._cut(agents),
            "agents refuse, 4 s": lambda: self._refuse(agents),
            "connections to agents reset": agents.reset,
            "connections to agents half open": agents.half_open,
            "callers cut off, 4 s": lambda: self._cut(callers),
            "connections of callers reset": callers.reset,
            "network slow, 0.2 s each way for 4 s": self._delay,
        }
        self._left: list[str] = []

    def next(self) -> str:
        """The next fault's name: all of them in a new order, again and again."""
        if not self._left:
            self._left = self._rand.sample(list(self.kinds), len(self.kinds))
        return self._left.pop()

    def hit(self, name: str) -> Hit:
        """Do it; a process that is just being started again counts as killed."""
        began = time.monotonic()
        self.kinds[name]()
        self.hits.append(Hit(name, began, time.monotonic()))
        return self.hits[-1]

    def _kill_one(self, *words: str) -> None:
        if found := self._platform.processes(*words):
            _kill(self._rand.choice(sorted(found, key=lambda one: one.pid)))

    def _kill_all(self, *words: str) -> None:
        for process in self._platform.processes(*words):
            _kill(process)

    def _kill_web(self) -> None:
        """One of the processes that serve, not their parent."""
        with suppress(psutil.Error):
            serving = [child for one in self._platform.processes("granian") for child in one.children()]
            serving = [one for one in serving if "resource_tracker" not in " ".join(one.cmdline())]
            if serving:
                _kill(self._rand.choice(sorted(serving, key=lambda one: one.pid)))

    def _flush(self) -> None:
        with suppress(redis.RedisError):
            redis.Redis.from_url(self._place.redis_url, socket_timeout=5).flushall()

    def _pause(self, *words: str) -> None:
        with ExitStack() as stack:
            for process in self._platform.processes(*words):
                with suppress(psutil.Error):
                    process.suspend()
                    stack.callback(_resume, process)
            time.sleep(PAUSE_S)

    def _cut(self, proxy: FaultProxy) -> None:
        proxy.partition()
        time.sleep(CUT_S)
        proxy.heal()

    def _refuse(self, proxy: FaultProxy) -> None:
        proxy.refuse()
        time.sleep(CUT_S)
        proxy.listen()

    def _delay(self) -> None:
        for proxy in (self._agents, self._callers):
            proxy.delay(DELAY_S)
        time.sleep(CUT_S)
        for proxy in (self._agents, self._callers):
            proxy.heal()


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.Error):
        process.kill()


def _resume(process: psutil.Process) -> None:
    with suppress(psutil.Error):
        process.resume()
