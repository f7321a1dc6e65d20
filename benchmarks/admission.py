"""What limits cost where a request becomes a task: `python -m benchmarks.admission`.

One process with embedded servers of its own; eight threads, as warm as those of a web process, accept tasks of one
client as fast as they can. Each line is the median of three runs, the kinds taking turns so that a busy moment of the
machine meets all of them.
"""

import argparse
import logging
import os
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measure import percentile
from reach_platform.embedded.servers import Servers

AMPLE, THREADS, RUNS, WARM_S = 1_000_000, 8, 3, 1.0
RATES = {"ratePerSecond": AMPLE, "burst": AMPLE}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # limits of the client, of the route
    "no limits": ({}, {}),
    "rates of client and ability": (RATES, RATES),
    "maxConcurrency": ({"maxConcurrency": AMPLE}, {}),
    "queueMax and maxInflight": ({}, {"queueMax": AMPLE, "maxInflight": 1000}),
    "all of them": ({**RATES, "maxConcurrency": AMPLE}, {**RATES, "queueMax": AMPLE, "maxInflight": 1000}),
    "refused: over the rate": ({"ratePerSecond": 0.001, "burst": 1}, {}),
    "refused: 5 tasks open": ({"maxConcurrency": 5}, {}),
    "refused: 100 may wait": ({}, {"queueMax": 100, "maxInflight": 1}),
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="reach-bench-", ignore_cleanup_errors=True) as home:
        os.environ["REACH_DATA_DIR"] = home
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reach_platform.settings")
        servers = Servers(Path(home))
        os.environ["DATABASE_URL"], os.environ["REDIS_URL"] = servers.place.database_url, servers.place.redis_url
        with servers, ThreadPoolExecutor(THREADS) as pool:
            prepare()
            for kind in KINDS:
                run(pool, kind, "warm", WARM_S)
            runs = [{kind: run(pool, kind, str(number), seconds) for kind in KINDS} for number in range(RUNS)]
        servers.remove()
    print("| limits | requests/s | accepted | p50 ms | p99 ms |\n|---|---|---|---|---|")
    for kind in KINDS:
        figures = [statistics.median(values) for values in zip(*(one[kind] for one in runs), strict=True)]
        print("| {} | {:.0f} | {:.0f} | {:.2f} | {:.2f} |".format(kind, *figures))


def prepare() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    logging.disable(logging.WARNING)
    call_command("migrate", verbosity=0)


def run(pool: ThreadPoolExecutor, kind: str, number: str, seconds: float) -> tuple[float, float, float, float]:
    """(requests/s, accepted, p50 ms, p99 ms) in a namespace of its own."""
    accept_one = caller(f"n{number}-{list(KINDS).index(kind)}", *KINDS[kind])
    barrier = threading.Barrier(THREADS)  # one share for each thread

    def work(_: int) -> tuple[list[float], int]:
        barrier.wait()
        mine, accepted, end = [], 0, time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            accepted += accept_one()
            mine.append(time.monotonic() - began)
        return mine, accepted

    shares = list(pool.map(work, range(THREADS)))
    ms = sorted(one * 1000 for times, _ in shares for one in times)
    return len(ms) / seconds, sum(count for _, count in shares), percentile(ms, 50), percentile(ms, 99)


def caller(namespace: str, client_limits: dict[str, Any], route_limits: dict[str, Any]) -> Any:
    """A function that hands over one task and says whether it was accepted."""
    from common import clock
    from common.errors import ReachError
    from registry.models import Namespace
    from registry.principal import Principal
    from routing import queue, snapshot
    from routing.requests import parse
    from routing.services.accept import accept
    from routing.snapshot import Ability, AgentView, CandidateView, CapabilityView, InstanceView, RouteView, Snapshot

    version = Namespace.objects.create(name=namespace).version
    instance = InstanceView("i1", "worker", "http://127.0.0.1:1/", max_concurrency=1000)
    candidate = CandidateView(AgentView("worker", instances=(instance,)), CapabilityView("echo"))
    route = RouteView("least_conn", 3, (1000,), 500, None, frozenset(), limits=route_limits)
    route = replace(route, settings={"limits": route_limits})
    known = {"echo": Ability("echo", True, route, (candidate,))}
    snapshot.current = lambda namespace: Snapshot(namespace, version, clock.now(), known, {"worker": candidate.agent})
    queue.nudge = lambda ids: None
    principal = Principal("client", namespace, "shop", None, frozenset({"tasks:write"}), ("*",), client_limits)
    request = parse(b'{"target": {"ability": "echo"}, "payload": {"text": "%s"}}' % (b"x" * 500))

    def accept_one() -> bool:
        try:
            accept(principal, namespace, request, traceparent=None, now=clock.now())
        except ReachError:
            return False
        return True

    return accept_one


if __name__ == "__main__":
    main()
