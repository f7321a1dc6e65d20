"""How many calls each instance has in flight, as far as this process knows."""

from collections import Counter
from collections.abc import Iterable

Key = tuple[str, str, str]  # namespace, agent id, instance id


class Loads:
    """Slots are taken before a send and given back after it, in batches."""

    def __init__(self) -> None:
        self._inflight: Counter[Key] = Counter()

    def acquire(self, keys: Iterable[Key]) -> None:
        self._inflight.update(keys)

    def release(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if self._inflight[key] > 1:
                self._inflight[key] -= 1
            else:
                del self._inflight[key]

    def inflight(self, key: Key) -> int:
        return self._inflight.get(key, 0)
