"""How fast this process chooses, without network and databases: `python -m benchmarks.choice`.

For each strategy: an ability with 50 instances, some of them busy, one draining, one offline. Decisions a second and
their times, each the median of three runs; and the time that writing a decision out for the journey takes on top.
"""

import argparse
import gc
import os
import random
import statistics
import time
import uuid

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reach_platform.settings")
django.setup()

# ruff: noqa: E402
from benchmarks.measure import percentile
from routing.ask import Ask
from routing.choice import Choice, choose
from routing.loads import Loads
from routing.snapshot import Ability, AgentView, CandidateView, CapabilityView, InstanceView, Price, RouteView, Vitals
from routing.strategies import REGISTRY

INSTANCES, RUNS = 50, 3
_RANDOM = random.Random(1)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=20_000, help="of each run")
    count = parser.parse_args().decisions
    print("| strategy | agents | decisions/s | p50 ms | p99 ms | written out, ms more |\n|---|---|---|---|---|---|")
    for agents in (1, INSTANCES):
        for strategy in REGISTRY:
            runs = [measured(strategy, agents, count) for _ in range(RUNS)]
            rate, p50, p99, written = (statistics.median(figures) for figures in zip(*runs, strict=True))
            print(f"| {strategy} | {agents} | {rate:,.0f} | {p50:.3f} | {p99:.3f} | {written:.3f} |", flush=True)


def measured(strategy: str, agents: int, count: int) -> tuple[float, float, float, float]:
    """(decisions a second, p50 and p99 of one in ms, ms for writing one out); each decision's slot is taken, and given
    back a hundred decisions later."""
    ability, loads, rand = _ability(strategy, agents), Loads(), random.Random(2).random
    asks = [_ask() for _ in range(200)]
    took, running, chosen = [], [], None
    choose(ability, asks[0], loads, rand)  # lays the ability out
    gc.collect()
    for number in range(count):
        at = time.thread_time()
        chosen = choose(ability, asks[number % 200], loads, rand)
        took.append(time.thread_time() - at)
        assert isinstance(chosen, Choice)
        running.append(("bench", *chosen.instance.key))
        loads.acquire(running[-1:])
        if number >= 100:
            loads.release([running[number - 100]])
    return count / sum(took), percentile(took, 50) * 1000, percentile(took, 99) * 1000, _writing_ms(chosen)


def _writing_ms(choice: Choice | None) -> float:
    assert choice is not None
    began = time.thread_time()
    for _ in range(1000):
        assert choice.decision
    return time.thread_time() - began


def _ask() -> Ask:
    return Ask("bench", "classify", uuid.UUID(int=_RANDOM.getrandbits(128)), left_ms=60_000, call_path=("caller",))


def _ability(strategy: str, agents: int) -> Ability:
    capability = CapabilityView("classify", latency_sla_ms=3000)
    candidates = tuple(
        CandidateView(
            AgentView(f"agent-{a:02}", instances=tuple(_instance(a, n) for n in range(INSTANCES // agents))), capability
        )
        for a in range(agents)
    )
    return Ability("classify", True, RouteView(strategy, 3, (1000,), 500, None, frozenset()), candidates)


def _instance(agent: int, number: int) -> InstanceView:
    at = agent + number
    return InstanceView(
        f"i{number:02}",
        f"agent-{agent:02}",
        "http://agent/",
        state="OFFLINE" if at == 7 else "ONLINE",
        draining=at == 11,
        max_concurrency=20,
        cost=Price(per_call=0.001 * (1 + at % 5)),
        vitals=Vitals(1.0, _RANDOM.random(), 1.0 - at % 10 / 100, 100.0),
    )


if __name__ == "__main__":
    main()
