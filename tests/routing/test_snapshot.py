"""Snapshots: what is built of rows, and how they stay fresh."""

import datetime as dt
import threading

import pytest

from registry.selectors import AgentRow, CapabilityRow, InstanceRow
from routing.snapshot import build
from routing.snapshot.cache import Cache, Watcher
from routing.snapshot.model import Snapshot

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def agent_row(agent_id="a", names=("classify",), schema=None, **spec):
    capabilities = tuple(CapabilityRow(name, "", schema, None, {"latencySlaMs": 3000}) for name in names)
    instance = InstanceRow(
        "i1", agent_id, False, "http://x/", "", {}, "", "", "1", {}, None, "ONLINE", NOW, 100, None, "", False, 100
    )  # fmt: skip
    return AgentRow(agent_id, agent_id, "", "1", 1, False, False, (), spec, None, capabilities, (instance,))


def views(*rows):
    agents = {row.agent_id: build.agent_view(row) for row in rows}
    return agents, {row.agent_id: {c.name: build.capability_view(c) for c in row.capabilities} for row in rows}


class Route:
    """Stands in for the row."""

    def __init__(self, ability, *candidates, strategy="round_robin", settings=None):
        self.ability, self.strategy, self.settings = ability, strategy, settings or {}
        self.candidates = self
        self._rows = [Candidate(*one) if isinstance(one, tuple) else Candidate(one) for one in candidates]

    def all(self):
        return self._rows


class Candidate:
    def __init__(self, agent_id, capability="", weight=None, version=""):
        self.agent_id, self.capability, self.weight, self.version = agent_id, capability, weight, version


def served(ability, *names, capability=""):
    """The capability that an explicit candidate serves an ability by."""
    view = build.explicit_ability(Route(ability, ("a", capability)), *views(agent_row(names=names)))
    return view.candidates[0].capability.name if view.candidates else None


@pytest.mark.parametrize(
    ("names", "capability", "expected"),
    [
        (("ticket.classify", "classify"), "", "ticket.classify"),
        (("classify", "other"), "", "classify"),
        (("other",), "", None),
        (("classify", "other"), "other", "other"),
        (("classify",), "gone", None),
    ],
)
def test_a_candidates_capability_is_the_full_name_or_its_last_word(names, capability, expected):
    assert served("ticket.classify", *names, capability=capability) == expected


def test_a_capabilitys_name_is_an_implicit_ability_of_all_who_declare_it():
    abilities = build.implicit_abilities(*views(agent_row("a"), agent_row("b", ("classify", "other"))))
    assert [c.agent.agent_id for c in abilities["classify"].candidates] == ["a", "b"]
    assert not abilities["classify"].explicit


def test_settings_that_are_not_given_have_their_defaults(settings):
    route = build.route_view("", {})
    assert (route.strategy, route.max_attempts, route.backoff_ms) == ("least_conn", 3, (1000, 2000, 4000))
    assert route.retryable == {"TIMEOUT", "SERVICE_UNAVAILABLE", "INTERNAL_ERROR", "UNREACHABLE"}


def test_settings_that_are_given_count():
    given = {
        "retry": {"maxAttempts": 1, "backoffMs": 7, "jitterMs": 0, "retryableErrors": []},
        "whenUnavailable": "fail",
    }
    route = build.route_view("round_robin", given)
    assert (route.max_attempts, route.backoff_ms, route.jitter_ms, route.retryable) == (1, (7,), 0, frozenset())
    assert route.when_unavailable == "fail"


def test_an_instance_has_its_agents_concurrency_where_it_has_none_of_its_own():
    assert build.agent_view(agent_row(limits={"maxConcurrency": 50})).instances[0].max_concurrency == 50


def test_equal_schemas_are_compiled_once():
    first, second = (build.capability_view(CapabilityRow("c", "", {"type": "object"}, None, {})) for _ in range(2))
    assert first.input is second.input


def test_a_schema_that_is_refused_does_not_break_the_snapshot():
    assert build.capability_view(CapabilityRow("c", "", {"$ref": "http://x/"}, None, {})).input is None


class Loader:
    """Loads snapshots of the version that it is told."""

    def __init__(self):
        self.version, self.loads = 1, 0

    def __call__(self, namespace):
        self.loads += 1
        return Snapshot(namespace, self.version, NOW, {}, {})


@pytest.fixture
def loader():
    return Loader()


@pytest.fixture
def cache(loader, monkeypatch):
    cache = Cache(loader)
    monkeypatch.setattr(cache, "_watch", lambda: None)
    return cache


def test_a_snapshot_is_loaded_once(cache, loader):
    assert cache.current("n") is cache.current("n")
    assert loader.loads == 1


def test_a_newer_version_is_read_before_it_is_used(cache, loader):
    cache.current("n")
    loader.version = 5
    assert cache.at_least("n", 5).version == 5
    assert cache.current("n").version == 5


def test_a_version_that_is_at_hand_reads_nothing(cache, loader):
    cache.current("n")
    cache.at_least("n", 1)
    assert loader.loads == 1


def test_many_who_need_a_newer_one_load_it_once(cache, loader):
    cache.current("n")
    loader.version = 2
    threads = [threading.Thread(target=cache.at_least, args=("n", 2)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loader.loads == 2


def test_a_forgotten_one_is_read_anew(cache, loader):
    cache.current("n")
    cache.forget("n")
    cache.current("n")
    assert loader.loads == 2


def test_the_poll_reloads_what_changed_and_drops_what_is_gone(cache, loader, monkeypatch):
    for name in ("same", "changed", "gone"):
        cache.current(name)
    loader.version = 2
    monkeypatch.setattr("registry.selectors.namespace_versions", lambda: {"same": 1, "changed": 2})
    cache.refresh()
    assert (cache.current("same").version, cache.current("changed").version) == (1, 2)
    assert loader.loads == 4


def test_a_closed_cache_leaves_the_database_alone_until_its_next_use(loader, monkeypatch):
    looks, cache = threading.Event(), Cache(loader)
    monkeypatch.setattr("routing.snapshot.cache.poll_s", lambda: 0.01)
    monkeypatch.setattr(cache, "refresh", looks.set)
    cache.at_least("n", 1)
    assert looks.wait(10)
    cache.close()
    looks.clear()
    assert not looks.wait(0.2)
    cache.at_least("n", 1)
    assert looks.wait(10)
    cache.close()


def test_scores_are_read_at_once_for_a_new_namespace_and_then_every_few_seconds(cache, monkeypatch):
    reads = []
    monkeypatch.setattr(cache, "refresh_scores", lambda: reads.append(1))
    cache._watcher = watcher = Watcher(cache)
    watcher._refresh()
    watcher._refresh()
    assert len(reads) == 1
    cache._load = lambda namespace: Snapshot(namespace, 1, NOW, {}, {})
    monkeypatch.setattr(cache, "refresh", lambda: None)
    cache.current("n")
    watcher._refresh()
    assert len(reads) == 2
