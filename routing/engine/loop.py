"""The engine: an event loop on a thread of its own that makes trips of the tasks that this process claims.

Claims happen on whichever thread asks (a job's, or one of the engine's own for a look); from the commit on the worker's
lease covers them, whatever becomes of the Celery message.
"""

import asyncio
import datetime as dt
import ipaddress
import logging
import os
import threading
import uuid
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvloop
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError

from callbacks.deliverer import Deliverer
from common import clock
from common.outbound import Outbound
from registry.selectors import callback_secrets
from routing import breaker, queue, snapshot
from routing.channels import REGISTRY
from routing.engine.batches import Batches
from routing.engine.cancels import Cancels
from routing.engine.keeper import Keeper
from routing.engine.leases import Leases
from routing.engine.lookups import Lookups
from routing.engine.observing import Observer
from routing.engine.poller import Poller
from routing.engine.postponing import Postponer
from routing.engine.preparing import Preparer
from routing.engine.records import Records
from routing.engine.secrets import SecretsCache
from routing.engine.slot_keeper import SlotKeeper
from routing.engine.slots import Slots
from routing.engine.trip import Trips
from routing.loads import Loads
from routing.policy import is_hopeless
from routing.services import workers
from routing.services.claim import claim, claim_due
from routing.services.mend_slots import mend
from routing.services.waiting import put_back
from routing.trip import Claimed

log = logging.getLogger(__name__)

DATABASE_THREADS = 5
FAREWELL_S = 5.0
BROKE_OFF, BROKEN_WAIT = "BROKE_OFF", dt.timedelta(seconds=5)  # a trip that broke is tried again after so long


class Engine:
    """Start it once a process; `room` bounds the tasks that it holds at a time."""

    def __init__(self, *, room: int | None = None):
        self.boot_id = uuid.uuid4()
        self.room = settings.REACH_ENGINE_ROOM if room is None else room
        self._held = 0  # claimed and not yet done, reserved room included
        self._lock = threading.Lock()
        self._grace_s = 0.0
        self._backlog = False  # the last look left due work behind …
        self._is_short = False  # … for want of room
        self._has_more = False  # … unseen
        self._has_left = False  # what is claimed from now on nobody begins any more
        self._draining = threading.Event()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the loop and return when it takes work; needs PostgreSQL, not Redis."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self, grace_s: float) -> None:
        """Take no more work, let what runs finish for at most `grace_s` seconds, and give the rest back."""
        self._draining.set()
        self._grace_s = grace_s
        if self._thread.is_alive() and self._ready.is_set():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(grace_s + 2 * FAREWELL_S)

    @property
    def held(self) -> int:
        """Tasks that are claimed and not yet done."""
        return self._held

    def claim(self, ids: Sequence[uuid.UUID]) -> int:
        """Claim of these ids what there is room for, on the calling thread; returns how many were got.

        While there is a backlog nobody jumps the queue: who is the first of its own lane is claimed, and the other ids
        only mean that there is more to look for.
        """
        if self._draining.is_set():
            return 0
        reserved, backlog = self._reserve(len(ids)), self._backlog
        got = self._held_of(reserved, lambda: claim(ids, self.boot_id, reserved, clock.now(), only_first=backlog))
        if reserved < len(ids) or (backlog and got < len(ids)):
            self.look()
        return got

    def claim_due(self) -> int:
        """Claim whatever is due and finds a place, fairly, on the calling thread."""
        if self._draining.is_set():
            return 0
        reserved = self._reserve(self.room)
        if not reserved:
            self._backlog = self._is_short = True
        got = self._held_of(reserved, lambda: self._due(reserved))
        if got and self._has_more:
            self.look()
        return got

    def _due(self, room: int) -> list[Claimed]:
        found = claim_due(self.boot_id, room, clock.now(), self._slots.takes)
        self._backlog, self._is_short, self._has_more = found.has_left, found.is_short, found.has_more
        self._slots.pass_over(found.passed_over)
        return found.tasks

    def look(self) -> None:
        """Look for due work now rather than at the next second."""
        self._on_loop(self._keeper.look.set)

    def _on_loop(self, function: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(function)
        except (AttributeError, RuntimeError):
            return False  # not started yet, or stopped: the poll covers
        return True

    def _held_of(self, reserved: int, claimed: Callable[[], list[Claimed]]) -> int:
        """Begin what is claimed, within the room that was reserved for it; returns how many those are."""
        got = 0
        try:
            tasks = claimed() if reserved else []
            _refresh(tasks)
            if self._hand_over(tasks):
                got = len(tasks)
        finally:
            self._give_back(reserved - got)
        return got

    def _hand_over(self, tasks: list[Claimed]) -> bool:
        """Have the loop begin them; what came too late for that waits again."""
        with self._lock:
            is_handed = not self._has_left and self._on_loop(lambda: self._begin(tasks))
        if not is_handed and tasks:
            put_back([(task.task_id, task.due_at, None) for task in tasks], boot_id=self.boot_id)
            queue.nudge(task.task_id for task in tasks)
        return is_handed

    def _reserve(self, wanted: int) -> int:
        with self._lock:
            reserved = max(0, min(wanted, self.room - self._held))
            self._held += reserved
            return reserved

    def _give_back(self, count: int) -> None:
        with self._lock:
            self._held -= count

    def _begin(self, tasks: list[Claimed]) -> None:
        for task in tasks:
            self._spawn(self._trip(task))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _trip(self, task: Claimed) -> None:
        try:
            await self._trips.run(task)
        except (OperationalError, InterfaceError) as error:
            log.warning("a trip broke off: %s", type(error).__name__, extra={"taskId": str(task.task_id)})
            await self._let_go(task, strikes=0)
        except Exception:
            log.exception("a trip broke off", extra={"taskId": str(task.task_id)})
            await self._let_go(task, strikes=1)
        finally:
            self._give_back(1)
            self._look_if_room((task.namespace, task.ability))

    async def _let_go(self, task: Claimed, strikes: int) -> None:
        """A trip that broke before its attempt was on record is for the next look, or ends the task in the end; after
        that the sweep ends it."""
        try:
            if strikes and is_hopeless(task.strikes + strikes, task.max_attempts):
                await self._postponer.give_up(task, task.strikes + strikes)
                return
            detail = {"reason": BROKE_OFF, "strikes": strikes} if strikes else None
            await self._batches.put_back.do((task.task_id, clock.now() + BROKEN_WAIT, detail))
        except Exception:
            log.exception("a task could not be put back")

    def _look_if_room(self, ability: tuple[str, str]) -> None:
        """Work was left behind: fetch more once enough of it is done, not for each single place."""
        enough = self.room - self._held >= max(1, self.room // 10)
        if (self._is_short and enough) or self._slots.has_reopened(ability):
            self._keeper.look.set()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as error:
            if self._ready.is_set():
                log.critical("the engine died", exc_info=True)
                os._exit(70)  # the supervisor starts a new worker; the sweep takes over what this one held
            self._failure = error
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        executor = ThreadPoolExecutor(DATABASE_THREADS, "engine-db")
        self._slots = Slots(Loads())
        leases = Leases(self._slots.loads, mend)
        self._slot_keeper = SlotKeeper(self._slots, leases)
        self._batches = Batches(self.boot_id, executor, leases)
        out = Outbound([ipaddress.ip_network(text) for text in settings.REACH_OUTBOUND_ALLOW])
        secrets = SecretsCache(callback_secrets, snapshot.known_version, executor)
        tried, postpone = self._batches.tried.do, self._batches.postpone.do
        self.deliverer = Deliverer(out, secrets.of, tried, postpone, is_stale=self._batches.stale.do)
        channels = {name: make(out) for name, make in REGISTRY.items()}
        observer = Observer(executor)
        lookups = Lookups(out, self._batches.doubts.do)
        cancels = Cancels(out, executor)
        records = Records(self.boot_id, self._batches, self.deliverer.submit)
        self._postponer = Postponer(records, self._look_at)
        preparer = Preparer(self._batches, self._slots, lookups, records, self._postponer)
        self._trips = Trips(
            preparer, records, self._batches, self._slots, channels, lookups, cancels, self._look_at, observer.note
        )
        await self._loop.run_in_executor(executor, breaker.view().started)
        poller = Poller(out, executor, self.deliverer.submit)
        self._keeper = Keeper(self, self._batches, self.deliverer, poller, cancels, executor)
        await self._keeper.start()
        self._slot_keeper.start()
        self._ready.set()
        await self._stopping.wait()
        await self._drain()
        await self._keeper.stop()
        await poller.stop()
        await cancels.stop()
        await observer.stop()
        with self._lock:
            self._has_left = True
        await self._loop.run_in_executor(executor, workers.farewell, self.boot_id)
        await out.close()
        executor.shutdown(wait=False)

    async def _drain(self) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=self._grace_s)
        await self.deliverer.drain(FAREWELL_S)
        await self._slot_keeper.stop()  # whose calls are cut off keep their slots until their attempts are closed
        for task in self._running:
            task.cancel()

    def _look_at(self, at: dt.datetime) -> None:
        """A retry is due at `at`: look then, if it is soon enough to be worth a timer."""
        delay = (at - clock.now()).total_seconds()
        if delay < 60:
            self._loop.call_later(max(delay, 0) + 0.001, self._keeper.look.set)


def _refresh(tasks: list[Claimed]) -> None:
    """No choice is made on a snapshot that is older than what the claim saw."""
    for namespace, version in {(task.namespace, task.namespace_version) for task in tasks}:
        try:
            snapshot.at_least(namespace, version)
        except (DatabaseError, InterfaceError) as error:
            log.warning("a snapshot could not be read: %s", type(error).__name__)
        except Exception:  # each trip will see for itself: what is claimed must begin
            log.exception("a snapshot could not be made")


_engine: Engine | None = None


def current() -> Engine | None:
    """This process's engine; None outside workers."""
    return _engine


def install(engine: Engine | None) -> None:
    """Make it this process's engine."""
    global _engine
    _engine = engine
