"""So many a second at once, the rest later and together."""

import threading
import time
from collections.abc import Callable


class Few:
    """Says yes at most `each_s` times a second in this process."""

    def __init__(self, each_s: int, clock: Callable[[], float] = time.monotonic):
        self._each_s, self._clock = each_s, clock
        self._lock = threading.Lock()
        self._second, self._count = 0, 0

    def may(self) -> bool:
        """Whether this one is among them."""
        second = int(self._clock())
        with self._lock:
            if second != self._second:
                self._second, self._count = second, 0
            self._count += 1
            return self._count <= self._each_s
