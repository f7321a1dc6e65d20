"""What holds for every choice, whatever the ability, the task and the load."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.breaker import Key
from routing.breaker import barred as barred_by
from routing.breaker.rule import Circuit
from routing.choice import Choice, choose
from routing.filters import most_inflight
from routing.loads import Loads
from routing.snapshot import CapabilityView, Price, Vitals
from routing.strategies import REGISTRY
from tests.routing.views import ability, ask, candidate, instance

TAGS, ZONES = st.sampled_from(["x", "y"]), st.sampled_from(["", "dmz", "inner"])
STATES = st.sampled_from(["NEW", "ONLINE", "ONLINE", "DEGRADED", "OFFLINE"])


@st.composite
def instances(draw, agent):
    def one(number):
        return instance(
            f"i{number}", agent, state=draw(STATES), draining=draw(st.sampled_from([False] * 4 + [True])),
            weight_percent=draw(st.sampled_from([0, 50, 100, 100])), zone=draw(ZONES),
            region=draw(st.sampled_from(["", "r"])), max_concurrency=draw(st.sampled_from([None, 1, 5])),
            labels=draw(st.sampled_from([{}, {"gpu": True}])), version=draw(st.sampled_from(["1", "2"])),
            cost=draw(st.sampled_from([None, Price(0.1)])), vitals=Vitals(1.0, draw(st.floats(0, 1))),
        )  # fmt: skip

    return [one(number) for number in range(draw(st.integers(1, 4)))]


@st.composite
def candidates(draw, agent):
    return candidate(
        agent, *draw(instances(agent)), weight=draw(st.sampled_from([None, 0, 1, 30, 100])),
        version=draw(st.sampled_from([None, None, "2"])), tags=tuple(draw(st.sets(TAGS))),
        maintenance=draw(st.sampled_from([False] * 4 + [True])),
        needs=draw(st.sampled_from([frozenset(), frozenset({"userId"})])),
        capability=CapabilityView("c", latency_sla_ms=draw(st.sampled_from([None, 1000]))),
    )  # fmt: skip


@st.composite
def abilities(draw):
    agents = [f"a{n}" for n in range(draw(st.integers(1, 4)))]
    return ability(*(draw(candidates(agent)) for agent in agents), strategy=draw(st.sampled_from(sorted(REGISTRY))))


ASKS = st.builds(
    ask,
    session_id=st.sampled_from([None, "s1", "s2"]),
    agent_id=st.sampled_from([None, None, "a0"]),
    tags=st.sampled_from([(), (), ("x",)]),
    requires=st.sampled_from([{}, {}, {"gpu": True}]),
    left_ms=st.sampled_from([500, 60_000]),
    call_path=st.sampled_from([(), ("a1", "a1")]),
    zones=st.sampled_from([frozenset(), frozenset({"inner"})]),
    prefer_local=st.sampled_from([None, "r"]),
    context=st.sampled_from([None, frozenset(), frozenset({"userId"})]),
)


@settings(max_examples=300, deadline=None)
@given(view=abilities(), task=ASKS, seed=st.integers(0, 1000), running=st.integers(0, 6))
def test_no_choice_ever_violates_a_filter(view, task, seed, running):
    loads = Loads()
    loads.acquire([("n", "a0", "i0")] * running)
    found = choose(view, task, loads, random.Random(seed).random)
    if not isinstance(found, Choice):
        return
    one, its = found.instance, found.candidate
    assert one.state != "OFFLINE"
    assert not one.draining
    assert one.weight_percent
    assert not its.agent.maintenance
    assert its.weight != 0
    assert its.version is None or one.version == its.version
    assert task.agent_id in (None, one.agent_id)
    assert set(task.tags) <= set(its.agent.tags)
    assert not task.requires or one.labels.get("gpu") is True
    assert task.context is None or its.agent.needs <= task.context
    assert task.left_ms >= (its.capability.latency_sla_ms or 0)
    assert one.agent_id not in task.call_path
    assert not task.zones or one.zone in ("", "inner")
    assert loads.inflight(("n", *one.key)) < next(
        most_inflight(seen) for seen in found.considered.layout.seen if seen.instance is one
    )


OPENED = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["", "shop", "bank"])), max_size=12)


@settings(max_examples=200, deadline=None)
@given(view=abilities(), opened=OPENED, seed=st.integers(0, 1000))
def test_no_choice_goes_past_a_breaker_and_breakers_bar_no_more_than_half(view, opened, seed):
    circuits = {
        Key("n", f"a{agent}", f"i{number}", "c" if client else "", client): Circuit(opened=90.0 + number, until=200.0)
        for agent, number, client in opened
    }
    barred = barred_by(circuits, "n", view, "shop", 100.0)
    present = [one for each in view.candidates for one in each.agent.instances if one.state != "OFFLINE"]
    assert len(barred & {one.key for one in present}) <= max(1, len(present) // 2)
    assert all(any(key[1:3] == one and key.client in ("", "shop") for key in circuits) for one in barred)
    found = choose(view, ask(barred=barred), Loads(), random.Random(seed).random)
    assert not isinstance(found, Choice) or found.instance.key not in barred


@settings(max_examples=200, deadline=None)
@given(view=abilities(), task=ASKS, seed=st.integers(0, 1000))
def test_every_instance_is_in_the_decision_and_who_was_passed_over_for_a_reason_has_one(view, task, seed):
    found = choose(view, task, Loads(), random.Random(seed).random)
    shown = {(one["agentId"], one["instanceId"]): one["rejected"] for one in found.decision["candidates"]}
    assert len(shown) == sum(len(one.agent.instances) for one in view.candidates)
    if isinstance(found, Choice):
        assert shown[found.instance.key] is None
    else:
        assert None not in shown.values()


@settings(max_examples=40, deadline=None)
@given(
    weights=st.lists(st.integers(0, 100), min_size=2, max_size=4).filter(any),
    up=st.lists(st.booleans(), min_size=4, max_size=4),
    strategy=st.sampled_from(sorted(set(REGISTRY) - {"consistent_hash"})),
    seed=st.integers(0, 1000),
)
def test_shares_converge_to_the_weights_of_those_that_are_there(weights, up, strategy, seed):
    view = ability(
        *(
            candidate(f"a{n}", instance("i", f"a{n}", state="ONLINE" if up[n] else "OFFLINE"), weight=weight)
            for n, weight in enumerate(weights)
        ),
        strategy=strategy,
    )
    there = {f"a{n}": weight for n, weight in enumerate(weights) if up[n] and weight}
    rand, loads = random.Random(seed).random, Loads()
    found = [choose(view, ask(), loads, rand) for _ in range(2000)]
    picks = Counter(one.instance.agent_id for one in found if isinstance(one, Choice))
    assert picks.keys() <= there.keys()
    assert bool(picks) == bool(there)
    for agent, weight in there.items():
        assert abs(picks[agent] / 2000 - weight / sum(there.values())) < 0.06
