"""Snapshots made by hand, for tests of the choice."""

import random
import uuid
from collections import Counter

from routing.ask import Ask
from routing.choice import choose
from routing.loads import Loads
from routing.snapshot import Ability, AgentView, CandidateView, CapabilityView, InstanceView, RouteView

TASK = uuid.UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def instance(name="i1", agent="a", **given):
    return InstanceView(name, agent, f"http://{name}/", **given)


def candidate(agent="a", *instances, weight=None, version=None, capability=None, **given):
    view = AgentView(agent, instances=instances or (instance(agent=agent),), **given)
    return CandidateView(view, capability or CapabilityView("c"), weight, version)


def ability(*candidates, strategy="least_conn", limits=None, **given):
    route = RouteView(strategy, 3, (1000,), 500, None, frozenset(), limits=limits or {}, **given)
    return Ability("c", True, route, candidates)


def ask(**given):
    return Ask(**{"namespace": "n", "ability": "c", "task_id": TASK, "left_ms": 60_000, **given})


def chosen(view, loads=None, seed=1, **given):
    return choose(view, ask(**given), loads or Loads(), random.Random(seed).random)


def busy(count, name="i1", agent="a"):
    loads = Loads()
    loads.acquire([("n", agent, name)] * count)
    return loads


def shares(view, count=20_000, **given):
    """The share of each instance, nothing running anywhere."""
    rand, loads = random.Random(7).random, Loads()
    picks = (choose(view, ask(**given), loads, rand).instance for _ in range(count))
    return {key: number / count for key, number in Counter(one.instance_id for one in picks).items()}


def under_load(view, running=40, count=10_000):
    """The share of each instance while so many calls run at any time, each as long as the others."""
    rand, loads, open_calls, picks = random.Random(7).random, Loads(), [], Counter()
    for _ in range(count):
        one = choose(view, ask(), loads, rand).instance
        picks[one.instance_id] += 1
        open_calls.append(("n", *one.key))
        loads.acquire(open_calls[-1:])
        if len(open_calls) > running:
            loads.release([open_calls.pop(0)])
    return {name: number / count for name, number in picks.items()}
