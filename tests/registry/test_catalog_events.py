"""What watchers of the catalog hear, over committed changes."""

import json
import uuid
from typing import Any

import pytest

from common.clock import now
from tests.committed import database, database_made  # noqa: F401 - fixtures
from tests.registry.watchers import watch

MANIFEST = {
    "apiVersion": "agent-reach/v1", "kind": "AgentManifest", "metadata": {"name": "a1", "version": "1"},
    "spec": {"capabilities": [{"name": "work"}, {"name": "rest"}]},
}  # fmt: skip
BY: dict[str, Any] = {"actor": "test", "now": now()}


@pytest.fixture
def space(database: None) -> str:  # noqa: F811
    from registry.services import namespaces

    name = f"t-{uuid.uuid4().hex[:12]}"
    namespaces.create(name, **BY)
    return name


def register(space: str, version: str = "1") -> None:
    from registry.services import manifests

    body = {**MANIFEST, "metadata": {"name": "a1", "version": version}}
    manifests.put(space, "a1", json.dumps(body).encode(), "application/json", strict=False, **BY)


def put_instance(space: str, weight: int = 100) -> None:
    from registry.services import instances

    instances.put(space, "a1", "i1", {"invokeUrl": "http://example.com/", "weight": weight}, **BY)


def put_route(space: str, ability: str, weight: int) -> None:
    from routing.services import routes

    candidates = [{"agent": "a1", "capability": "work", "weight": weight}]
    routes.put(space, [{"ability": ability, "candidates": candidates}], **BY)


def test_every_kind_of_change_is_heard_in_its_order(space):
    from registry.services import instances, manifests
    from routing.services import routes

    def change():
        register(space)
        register(space, "2")
        put_instance(space)
        put_instance(space, 50)
        manifests.maintenance(space, "a1", True, **BY)
        put_route(space, "office.work", 1)
        put_route(space, "office.work", 2)
        routes.remove(space, "office.work", **BY)
        instances.leave(space, "a1", "i1", **BY)
        manifests.delete(space, "a1", **BY)

    heard = watch(space, change, until=10)
    assert [one.event for one in heard.events] == [
        "agent.registered", "agent.changed", "instance.registered", "instance.changed", "agent.maintenance",
        "route.created", "route.changed", "route.deleted", "instance.left", "agent.deleted",
    ]  # fmt: skip
    assert heard.events[0].data["capabilities"] == ["work", "rest"]


def test_a_state_change_says_from_where_to_where_and_why(space):
    from registry.services import heartbeats

    register(space)
    put_instance(space)
    body = {"status": "degraded"}
    (heard,) = watch(space, lambda: heartbeats.heartbeat(space, "a1", "i1", body, now=now()), until=1).events
    assert heard.event == "instance.state"
    assert {key: heard.data[key] for key in ("agentId", "instanceId", "from", "to")} == {
        "agentId": "a1", "instanceId": "i1", "from": "NEW", "to": "DEGRADED",
    }  # fmt: skip
    assert heard.data["reason"]


def test_nothing_that_was_rolled_back_is_heard(space):
    from django.db import transaction

    def change():
        with transaction.atomic():
            register(space)
            transaction.set_rollback(True)
        register(space, "2")

    (heard,) = watch(space, change, until=1).events
    assert heard.data["version"] == "2"


def test_other_namespaces_are_not_heard(space):
    from registry.services import namespaces

    other = f"{space}-2"
    namespaces.create(other, **BY)

    def change():
        register(other)
        register(space, "mine")

    (heard,) = watch(space, change, until=1).events
    assert heard.data["version"] == "mine"


def test_a_client_hears_of_the_routes_that_it_may_use(space):
    def change():
        put_route(space, "secret.work", 1)
        put_route(space, "office.work", 1)

    heard = watch(space, change, until=1, may=lambda ability: ability.startswith("office"))
    assert [one.data["ability"] for one in heard.events] == ["office.work"]


def test_a_watcher_that_comes_back_hears_what_it_missed_once(space):
    register(space)
    put_instance(space)
    first = watch(space, lambda: put_instance(space, 1), until=1)
    put_instance(space, 2)
    put_instance(space, 3)
    again = watch(space, lambda: put_instance(space, 4), last_id=first.last_id, until=3)
    assert [one.event for one in again.events] == ["instance.changed"] * 3
    assert len({one.id for one in first.events + again.events}) == 4


def test_a_change_in_several_parts_is_resumed_in_the_middle(space):
    from registry.services import manifests

    register(space)
    put_instance(space)
    begun = watch(space, lambda: manifests.delete(space, "a1", **BY), until=2)
    assert [one.event for one in begun.events] == ["instance.left", "agent.deleted"]
    again = watch(space, lambda: register(space), last_id=begun.events[0].id, until=2)
    assert [one.event for one in again.events] == ["agent.deleted", "agent.registered"]


def test_a_quiet_stream_gives_an_id_to_come_back_with(space):
    quiet = watch(space, lambda: None, until=0)
    register(space)
    assert [one.event for one in watch(space, lambda: None, last_id=quiet.last_id, until=1).events] == [
        "agent.registered"
    ]


@pytest.mark.parametrize(
    "last_id", ["abc", "-1", "99999999", "1e3", "1.2.3", "0x1", "٣", "9" * 5000, "id\x00", "999999999999999999.5"]
)
def test_an_id_that_says_nothing_here_gives_one_resync_and_then_what_happens(space, last_id):
    heard = watch(space, lambda: register(space), last_id=last_id, until=2)
    assert [one.event for one in heard.events] == ["resync", "agent.registered"]


def test_an_id_older_than_what_is_kept_gives_a_resync(space, monkeypatch):
    monkeypatch.setattr("registry.watching.KEPT", 2)
    old = watch(space, lambda: None, until=0).last_id
    for version in "123":
        register(space, version)
    heard = watch(space, lambda: register(space, "4"), last_id=old, until=2)
    assert [one.event for one in heard.events] == ["resync", "agent.changed"]


def test_old_events_are_cleared_away(space, monkeypatch):
    from registry.models import CatalogEvent

    monkeypatch.setattr("registry.services.changes.KEPT", 5)
    monkeypatch.setattr("registry.services.changes.CLEARED_EVERY", 1)
    for version in range(12):
        register(space, str(version))
    assert CatalogEvent.objects.filter(namespace=space).count() == 5


def test_a_watcher_behind_what_memory_holds_reads_on_from_the_table(space, monkeypatch):
    monkeypatch.setattr("registry.tails.LENGTH", 2)
    monkeypatch.setattr("registry.watching.PAGE", 3)
    first = watch(space, lambda: None, until=0).last_id
    for version in range(12):
        register(space, str(version))
    heard = watch(space, lambda: register(space, "last"), last_id=first, until=13)
    assert [one.data["version"] for one in heard.events] == [*map(str, range(12)), "last"]


def test_without_redis_the_next_look_finds_it(space, monkeypatch):
    monkeypatch.setattr("common.broadcast.publish", lambda *_: None)
    heard = watch(space, lambda: register(space), until=1, within=5)
    assert [one.event for one in heard.events] == ["agent.registered"]


def test_a_slow_reader_delays_nobody_else(space):
    slow, heard = watch(space, lambda: register(space), until=1, beside_a_stuck_one=True)
    assert [one.event for one in heard.events] == ["agent.registered"]
    assert slow.events == []


def test_a_stream_ends_when_the_client_leaves_or_the_server_stops(space):
    heard = watch(space, lambda: None, until=0)
    assert heard.is_complete


def test_a_quiet_stream_shows_that_it_is_alive(space, monkeypatch):
    monkeypatch.setattr("registry.catalog_events.HEARTBEAT_S", 0.05)
    heard = watch(space, lambda: None, until=0, stay=lambda one: one.body.count(b": still here") >= 2)
    assert heard.body.count(b": still here") >= 2
