"""`python -m tests.chaos --minutes 10 --tasks 20000`: log and tables on standard output, and in a file."""

import argparse
import secrets
import sys
from pathlib import Path
from typing import TextIO

from tests.chaos.run import run


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    asked.add_argument("--minutes", type=float, default=10.0)
    asked.add_argument("--tasks", type=int, default=20_000)
    asked.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="draws the same run again")
    asked.add_argument("--log", type=Path, default=Path("artifacts/chaos.txt"))
    given = asked.parse_args()
    given.log.parent.mkdir(parents=True, exist_ok=True)
    with given.log.open("w", encoding="utf-8") as log:
        count = run(given.minutes, given.tasks, given.seed, lambda line: _say(line, log))
        _say(f"\n{count.text()}\n\n{count.found or 'nothing was lost, and nothing was twice'}", log)
    return bool(count.found)


def _say(line: str, log: TextIO) -> None:
    for to in (sys.stdout, log):
        print(line, file=to, flush=True)


sys.exit(main())
