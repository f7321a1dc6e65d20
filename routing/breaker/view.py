"""This process's view of the circuits: read by each choice without a round trip, and kept in step with Redis by a
thread of its own, at once after a failure or a hint, else each second.

What is noted here counts here at once, and is then counted again on the shared value, by the same rule, in an exchange
that only succeeds if nobody else was faster. While Redis is away this process goes by what it sees itself.
"""

import contextlib
import logging
import os
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Self

import msgspec

from common import broadcast, redis
from routing.breaker import shared
from routing.breaker.rule import NEW, Circuit, Figures, Key, Result, counted, on_trial
from routing.breaker.shared import Swap

log = logging.getLogger(__name__)

CHANNEL = "breakers"
REFRESH_S = 1.0
GATHER_S = 0.02  # failures that come so close together share an exchange
TRIES = 8
CIRCUITS_KEPT = 50_000
RESULTS_KEPT = 1_000  # of a circuit, while Redis is away
SPARE_S = 600

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Circuit).decode


Noted = tuple[Result, Figures]


class Breakers:
    """All circuits as far as this process knows. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._circuits: dict[Key, Circuit] = {}
        self._shared: dict[Key, bytes] = {}  # as it was last read or written there
        self._noted: defaultdict[Key, list[Noted]] = defaultdict(list)
        self._open: dict[str, dict[Key, Circuit]] = {}  # by namespace
        self._keeper: Keeper | None = None

    def started(self) -> Self:
        """The view, which knows what is open as far as Redis does."""
        self._keep()
        with contextlib.suppress(redis.RedisAway):
            self.refresh(time.time())
        return self

    def open(self, namespace: str) -> dict[Key, Circuit]:
        """The circuits of a namespace that are not closed; not to be changed."""
        self._keep()
        return self._open.get(namespace, {})

    def all_open(self, now: float) -> dict[Key, Circuit]:
        """The circuits of all namespaces that are not closed, as Redis knows them now. Raises RedisAway."""
        self._keep()
        self.refresh(now)
        return {key: one for circuits in list(self._open.values()) for key, one in circuits.items()}

    def counted_open(self) -> list[tuple[str, str, int]]:
        """(namespace, agent id, how many circuits of its instances are not closed)."""
        self.started()
        open_ones = [key for circuits in list(self._open.values()) for key in circuits]
        return [(*agent, count) for agent, count in Counter(key[:2] for key in open_ones).items()]

    def note(self, keys: Iterable[Key], result: Result, figures: Figures) -> None:
        """Count a result in these circuits; a failure that no client can be the cause of carries ANYBODY."""
        self._keep()
        with self._lock:
            for key in keys:
                before = self._circuits.get(key, NEW)
                if not before.opened and result.ok is None:
                    continue
                own = result if not key.client else Result(result.task, result.ok, result.sent_at, result.at)
                self._put(key, counted(before, own, figures))
                noted = self._noted[key]
                noted.append((own, figures))
                del noted[:-RESULTS_KEPT]
                if before.opened or not result.ok:
                    self._hurry()

    def admit(self, keys: Sequence[Key], task_id: uuid.UUID, now: float, until: float) -> bool:
        """Whether the task may be sent where these circuits are half open; then it is on trial for all of them, and
        nobody else is, in any process, before its result or `until`. Makes a round trip."""
        task = number_of(task_id)
        try:
            for _ in range(TRIES):
                found = shared.read([_at(key) for key in keys])
                made = self._taken(keys, found, task, now, until)
                if made is None:
                    return False
                if shared.swap([made])[0]:
                    self._know(keys, [one.new for one in made])
                    broadcast.publish(CHANNEL, 1)
                    return True
        except redis.RedisAway:
            return self._admit_here(keys, task, now, until)
        return False

    def flush(self) -> None:
        """Count what was noted on the shared circuits. While Redis is away it is kept for later."""
        with self._lock:
            noted, self._noted = self._noted, defaultdict(list)
        try:
            for _ in range(TRIES):
                if not noted:
                    return
                noted = self._exchange(noted)
        except redis.RedisAway:
            pass
        with self._lock:
            for key, earlier in noted.items():
                self._noted[key] = (earlier + self._noted[key])[-RESULTS_KEPT:]

    def refresh(self, now: float) -> None:
        """Learn which circuits the others opened, closed and try; tell them of those that Redis has forgotten."""
        listed = {_key(name) for name in shared.names_of_open(now)}
        known = [key for circuits in list(self._open.values()) for key in list(circuits)]
        keys = sorted(listed | set(known))
        found = shared.read([_at(key) for key in keys])
        lost = [key for key, raw in zip(keys, found, strict=True) if not raw]
        self._know([key for key, raw in zip(keys, found, strict=True) if raw], [raw for raw in found if raw])
        closed = [key for key in listed if key not in self._open.get(key.namespace, {})]
        unlisted = [(key, self._open.get(key.namespace, {}).get(key)) for key in known if key not in listed]
        opened = [(_name(key), one.opened) for key, one in unlisted if one]  # whose listing Redis did not answer
        shared.list_open(opened, [_name(key) for key in closed])
        self._remind(lost, now)

    def close(self) -> None:
        """Stop the thread and know nothing; the next use starts anew."""
        with self._lock:
            keeper, self._keeper = self._keeper, None
            self._circuits, self._shared, self._open = {}, {}, {}
            self._noted.clear()
        if keeper is not None:
            keeper.stop()

    def _taken(
        self, keys: Sequence[Key], found: Sequence[bytes], task: int, now: float, until: float
    ) -> list[Swap] | None:
        """The exchange that puts the task on trial; None where another is, or it is open again."""
        made = []
        for key, raw in zip(keys, found, strict=True):
            before = _decode(raw) if raw else self._circuits.get(key, NEW)
            after = on_trial(before, task, now, until)
            if after is None:
                self._know([key], [raw or _encode(before)])
                return None
            made.append(Swap(_at(key), raw, _encode(after), _kept_ms(after, 0.0)))
        return made

    def _admit_here(self, keys: Sequence[Key], task: int, now: float, until: float) -> bool:
        with self._lock:
            after = [on_trial(self._circuits.get(key, NEW), task, now, until) for key in keys]
            if None in after:
                return False
            for key, circuit in zip(keys, after, strict=True):
                if circuit is not None:
                    self._put(key, circuit)
            return True

    def _exchange(self, noted: dict[Key, list[Noted]]) -> defaultdict[Key, list[Noted]]:
        """Count these; returns those for which somebody else was faster."""
        keys = list(noted)
        found = shared.read([_at(key) for key in keys])
        # A Redis that came back empty is given what this process knew last.
        before = [_decode(raw or self._shared.get(key) or b"[]") for key, raw in zip(keys, found, strict=True)]
        after = [_after(circuit, noted[key]) for key, circuit in zip(keys, before, strict=True)]
        window_s = max(figures.window_s for results in noted.values() for _, figures in results)
        swaps = [
            Swap(_at(key), raw, _encode(circuit), _kept_ms(circuit, window_s))
            for key, raw, circuit in zip(keys, found, after, strict=True)
        ]
        made = shared.swap([[one] for one in swaps])
        done = [n for n, ok in enumerate(made) if ok]
        self._tell([(keys[n], before[n], after[n]) for n in done])
        self._know([keys[n] for n in done], [swaps[n].new for n in done])
        return defaultdict(list, {key: noted[key] for key, ok in zip(keys, made, strict=True) if not ok})

    def _tell(self, changes: list[tuple[Key, Circuit, Circuit]]) -> None:
        """List what opened and closed, and hint to the other processes at it."""
        changed = [one for one in changes if (one[1].opened, one[1].trial) != (one[2].opened, one[2].trial)]
        if not changed:
            return
        for key, before, after in changed:
            if bool(before.opened) != bool(after.opened):
                log.info("breaker %s: %s", "opened" if after.opened else "closed", " ".join(filter(None, key)))
        shared.list_open(
            [(_name(key), after.opened) for key, _, after in changed if after.opened],
            [_name(key) for key, _, after in changed if not after.opened],
        )
        broadcast.publish(CHANNEL, 1)

    def _remind(self, lost: list[Key], now: float) -> None:
        """Redis came back empty: what is open here is open."""
        ours = [(key, self._circuits.get(key, NEW)) for key in lost]
        ours = [(key, one) for key, one in ours if one.opened and now - one.opened < shared.LONGEST_OPEN_S]
        shared.swap([[Swap(_at(key), b"", _encode(one), _kept_ms(one, 0.0))] for key, one in ours])
        shared.list_open([(_name(key), one.opened) for key, one in ours], ())
        with self._lock:
            for key in set(lost) - {key for key, _ in ours}:
                self._put(key, NEW)

    def _know(self, keys: Sequence[Key], raws: Sequence[bytes]) -> None:
        """Take over shared values, and count on them what was noted here since."""
        with self._lock:
            if len(self._circuits) > CIRCUITS_KEPT:
                self._circuits = {key: one for key, one in self._circuits.items() if one.opened or key in self._noted}
                self._shared = {key: raw for key, raw in self._shared.items() if key in self._circuits}
            for key, raw in zip(keys, raws, strict=True):
                self._shared[key] = raw
                self._put(key, _after(_decode(raw), self._noted.get(key, ())))

    def _put(self, key: Key, circuit: Circuit) -> None:
        """The lock is held. `_open` is exchanged and not changed: readers hold no lock."""
        self._circuits[key] = circuit
        there = self._open.get(key.namespace, {})
        if circuit.opened and there.get(key) != circuit:
            self._open[key.namespace] = {**there, key: circuit}
        elif not circuit.opened and key in there:
            self._open[key.namespace] = {other: one for other, one in there.items() if other != key}

    def _hurry(self) -> None:
        if self._keeper is not None:
            self._keeper.hurry.set()

    def _keep(self) -> None:
        if self._keeper is None:
            with self._lock:
                if self._keeper is None:
                    self._keeper = Keeper(self)
                    self._keeper.start()


class Keeper(threading.Thread):
    """Keeps a view in step with Redis."""

    def __init__(self, view: Breakers):
        super().__init__(name="breakers", daemon=True)
        self._view = view
        self.hurry = threading.Event()
        self._stopping = threading.Event()

    def run(self) -> None:
        listener = broadcast.Listener([CHANNEL], lambda *_: self.hurry.set(), self.hurry.set)
        listener.start()
        while not self._stopping.is_set():
            try:
                self._view.flush()
                self._view.refresh(time.time())
            except redis.RedisAway:
                pass  # the next round tells all
            except Exception:
                log.exception("circuits are not kept in step")
            self._stopping.wait(GATHER_S)
            self.hurry.wait(REFRESH_S)
            self.hurry.clear()
        listener.stop()

    def stop(self) -> None:
        self._stopping.set()
        self.hurry.set()


def _after(circuit: Circuit, noted: Iterable[Noted]) -> Circuit:
    for result, figures in noted:
        circuit = counted(circuit, result, figures)
    return circuit


def _kept_ms(circuit: Circuit, window_s: float) -> int:
    return round(1000 * (shared.LONGEST_OPEN_S if circuit.opened else window_s + SPARE_S))


def _name(key: Key) -> str:
    return _encode(key).decode()


def _key(name: str) -> Key:
    return Key(*msgspec.json.decode(name))


def _at(key: Key) -> str:
    return f"cb:{_name(key)}"


def number_of(task_id: uuid.UUID) -> int:
    """A task in a circuit's memory; never 0."""
    return (task_id.int & (1 << 48) - 1) or 1


_view = Breakers()


def _renew_after_fork() -> None:
    """A forked child has no thread, and perhaps a lock that nobody will release."""
    global _view
    _view = Breakers()


os.register_at_fork(after_in_child=_renew_after_fork)


def view() -> Breakers:
    """This process's view."""
    return _view
