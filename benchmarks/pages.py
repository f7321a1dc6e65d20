"""How long pages take in large tables: `python -m benchmarks.pages --tasks 1000000`.

An embedded PostgreSQL of its own is filled with a made-up past (`manage.py load_history`), unless its directory holds
one already; every page is then asked for through Django, without the network. For each: the 95th percentile, the
number of queries, and how many blocks of 8 KB the hungriest one reads. Of pages above `--slow` ms the plan of the
slowest one is printed.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import percentile

SLOW_MS = 300.0


def main() -> None:
    """Print a table, and the plans of what is slow."""
    given = _arguments()
    os.environ["REACH_DATA_DIR"] = str(given.dir)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reach_platform.settings")
    from reach_platform.embedded.servers import Servers

    with Servers(given.dir.absolute()) as servers:
        os.environ["DATABASE_URL"] = servers.place.database_url
        os.environ["REDIS_URL"] = servers.place.redis_url
        _fill(given)
        hungry = measure(given.runs, given.slow, given.only, given.most_blocks)
    sys.exit(f"more than {given.most_blocks:,} blocks: {', '.join(hungry)}" if hungry else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000, help="in the tables; more are made if there are fewer")
    parser.add_argument("--dir", type=Path, default=Path(".reach-pages"), help="data directory, kept (.reach-pages)")
    parser.add_argument("--runs", type=int, default=20, help="of each page (20)")
    parser.add_argument("--slow", type=float, default=SLOW_MS, help=f"ms from which on plans are printed ({SLOW_MS:g})")
    parser.add_argument("--most-blocks", type=int, default=0, help="fail when a query of a page reads more (0: never)")
    parser.add_argument("--only", default="", help="pages whose name contains this")
    return parser.parse_args()


def _fill(given: argparse.Namespace) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from routing.models import Task

    call_command("migrate", verbosity=0)
    missing = given.tasks - Task.objects.count()
    if missing > 0:
        call_command("load_history", tasks=missing, open=min(300, missing))


def measure(runs: int, slow: float, only: str, most_blocks: int) -> list[str]:
    """Every page as often as `runs`, the first time apart: it reads what later ones find in memory. Returns those with
    a query that reads more than `most_blocks`."""
    from benchmarks.page_list import pages
    from benchmarks.page_queries import queries_of

    print("| page | who | first ms | p50 ms | p95 ms | queries | most blocks |\n|---|---|---|---|---|---|---|")
    plans, hungry = [], []
    for name, who, ask in pages():
        if only not in name:
            continue
        first, rest = _timed(ask), [_timed(ask) for _ in range(runs)]
        asked = queries_of(ask)
        blocks = asked[0].blocks if asked else 0
        p50, p95 = percentile(rest, 50), percentile(rest, 95)
        print(f"| {name} | {who} | {first:.0f} | {p50:.0f} | {p95:.0f} | {len(asked)} | {blocks:,} |", flush=True)
        if 0 < most_blocks < blocks:
            hungry.append(f"{name} for {who} ({blocks:,})")
        if p95 > slow:
            plans.append((f"{name}, {who}", max(asked, key=lambda query: query.ms)))
    for name, query in plans:
        print(f"\n### {name}: {query.ms:.0f} ms of it\n\n{query.sql[:3000]}\n\n{query.plan}", flush=True)
    return hungry


def _timed(ask: Callable[[], Any]) -> float:
    began = time.perf_counter()
    answer = ask()
    took = (time.perf_counter() - began) * 1000
    if answer.status_code not in (200, 302):
        sys.exit(f"{answer.status_code} for {answer.request['PATH_INFO']}?{answer.request['QUERY_STRING']}")
    return took


if __name__ == "__main__":
    main()
