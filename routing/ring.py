"""Consistent hashing: keys and members on a circle, a key belonging to the next member; the same in every process."""

import functools
import hashlib
from bisect import bisect_right
from collections.abc import Container, Sequence

POINTS = 200  # of a member of ordinary weight; the share of a fifth member then varies by a hundredth or so
_PER_DIGEST = 8  # points of eight bytes
_RINGS = 500


class Ring:
    """Members by number, each at as many points as its weight in hundredths gives it."""

    def __init__(self, members: Sequence[tuple[str, float]]):
        """`members`: a name that stays the same for ever, and a weight of which 1.0 is ordinary."""
        points = [(at, number) for number, (name, weight) in enumerate(members) for at in _points(name, weight)]
        points.sort()
        self._at = [at for at, _ in points]
        self._owner = [number for _, number in points]

    def first(self, key: str, among: Container[int]) -> int | None:
        """The member that the key belongs to, of those with a number in `among`; None where none of them is."""
        owners = self._owner
        start = bisect_right(self._at, whole_hash(key))
        for index in range(start - len(owners), start):  # negative ones count from the end: once around
            if owners[index] in among:
                return owners[index]
        return None


@functools.lru_cache(maxsize=_RINGS)
def ring_of(members: tuple[tuple[str, float], ...]) -> Ring:
    """The ring of these members, kept: a change of state or of settings makes none anew."""
    return Ring(members)


def whole_hash(text: str) -> int:
    """64 bits that stay the same for the same text in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def part_hash(*parts: str) -> float:
    """A number in [0, 1) that stays the same for the same parts in every process."""
    return (whole_hash("\0".join(parts)) >> 11) / (1 << 53)


def _points(name: str, weight: float) -> list[int]:
    count = max(1, round(POINTS * weight))
    digests = -(-count // _PER_DIGEST)
    raw = b"".join(hashlib.blake2b(f"{name}\0{n}".encode()).digest() for n in range(digests))
    return [int.from_bytes(raw[at : at + 8], "big") for at in range(0, 8 * count, 8)]
