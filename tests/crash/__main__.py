"""`python -m tests.crash`: every point, and the table on standard output."""

import sys

from tests.crash.points import POINTS, groups
from tests.crash.suite import HEADS, suite, table


def main() -> int:
    rows, wrongs = {}, []
    with suite() as one:
        for points in groups(POINTS):
            for walk in one.walk(points):
                rows[walk.point] = one.row(walk)
                wrongs += one.wrongs(walk)
                print(" · ".join(rows[walk.point]), flush=True)  # noqa: T201
    print(f"\n{table(HEADS, [rows[point] for point in POINTS])}\n")  # noqa: T201
    print("\n".join(wrongs or ["nothing was wrong"]))  # noqa: T201
    return bool(wrongs)


sys.exit(main())
