"""How many attempts each place has in flight: this process's own, and the others' as Redis last told."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping

Key = tuple[str, ...]  # (namespace, agent id, instance id), or (namespace, ability)


class Loads:
    """Counts change on one thread only; what others have may be told from any, and counts once it is heard."""

    def __init__(self) -> None:
        self._inflight: Counter[Key] = Counter()
        self._others: dict[Key, int] = {}
        self._told: deque[Mapping[Key, int] | None] = deque()

    def acquire(self, keys: Iterable[Key]) -> None:
        self._inflight.update(keys)

    def release(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._add(key, -1)

    def inflight(self, key: Key) -> int:
        return self._inflight.get(key, 0)

    def counts(self, keys: Iterable[Key]) -> list[int]:
        """`inflight` of each."""
        known = self._inflight.get
        return [known(key, 0) for key in keys]

    def own(self, key: Key) -> int:
        """Those of this process alone."""
        return self._inflight.get(key, 0) - self._others.get(key, 0)

    def tell(self, others: Mapping[Key, int] | None) -> None:
        """What everybody else has in flight at these places; None: nobody knows, each process counts for itself."""
        self._told.append(others)

    def hear(self) -> list[tuple[Key, int]]:
        """Count what was told since; gives the places where others have ended some, and how many."""
        freed: list[tuple[Key, int]] = []
        while self._told:
            told = self._told.popleft()
            for key, count in (dict.fromkeys(self._others, 0) if told is None else told).items():
                more = count - self._others.get(key, 0)
                if more:
                    self._set(key, count, more)
                if more < 0:
                    freed.append((key, -more))
        return freed

    def elsewhere(self) -> list[Key]:
        """The places at which others were last known to have something in flight; any thread may ask."""
        return list(self._others)

    def _set(self, key: Key, count: int, more: int) -> None:
        self._add(key, more)
        if count:
            self._others[key] = count
        else:
            del self._others[key]

    def _add(self, key: Key, more: int) -> None:
        count = self._inflight[key] + more
        if count > 0:
            self._inflight[key] = count
        else:
            self._inflight.pop(key, None)
