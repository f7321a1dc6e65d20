"""Pages hear of changes by a stream: of what one may see, as long as one may see it, and nothing but that it changed."""

import asyncio
import threading

import pytest

from insight import live
from insight.live import Changes, Hub
from insight.models import Bulk
from insight.versions import OVER, Look, Person, Shown, Watched
from registry.models import Membership
from routing.models import Task
from tests.insight.rows import NOW, make_callback, make_task
from tests.insight.test_console import login
from tests.routing.handoff_calls import Connection, answer

PAGE = Watched(Shown("list", ""), Person("s", 1, "p", None))


@pytest.fixture
def support(namespace):
    return login("support", [namespace])


def watched(person, path):
    given = person.get(path)
    assert given["Content-Type"] == "text/event-stream"
    return given.hand_off.watched


def version(page):
    [(_, found)] = Look()([page])
    return found


@pytest.mark.django_db
def test_a_stream_of_what_is_not_ones_own_is_not_there(support, client):
    other = make_task("elsewhere")
    assert support.get(f"/console/live/tasks/{other.id}").status_code == 404
    assert support.get("/console/live/tasks/x").status_code == 404
    assert support.get(f"/console/live/bulk/{other.id}").status_code == 404
    assert client.get("/console/live/tasks").status_code == 302


@pytest.mark.django_db
def test_a_list_changes_with_a_new_task_and_with_a_tasks_next_step(support, namespace):
    page = watched(support, f"/console/live/tasks?namespace={namespace}&seen=7")
    empty = version(page)
    task = make_task(namespace, "RUNNING")
    make_task("elsewhere")
    one = version(page)
    Task.objects.filter(id=task.id).update(seq=2)
    assert len({empty, one, version(page)}) == 3


@pytest.mark.django_db
def test_a_narrowed_list_does_not_change_with_what_it_does_not_show(support, namespace):
    page = watched(support, "/console/live/tasks?state=FAILED")
    before = version(page)
    make_task(namespace)
    assert version(page) == before


@pytest.mark.django_db
def test_a_journey_changes_with_its_events_and_its_callback(support, namespace):
    task = make_task(namespace)
    callback = make_callback(task, "PENDING", errors=("HTTP 500",))
    page = watched(support, f"/console/live/tasks/{task.id}")
    known = [version(page)]
    for row, change in ((task, {"seq": 9}), (callback, {"attempts": 2}), (callback, {"state": "DEAD"})):
        type(row).objects.filter(pk=row.pk).update(**change)
        known.append(version(page))
    assert len(set(known)) == 4
    assert version(page) == known[-1] == support.get(f"/console/tasks/{task.id}/").context["version"]


@pytest.mark.django_db
def test_a_bulk_action_changes_as_it_goes_on(support, namespace):
    row = Bulk.objects.create(namespace=namespace, action="retry", filter={}, state="RUNNING", count=9, actor="user:a", created_at=NOW)  # fmt: skip
    page = watched(support, f"/console/live/bulk/{row.pk}")
    before = version(page)
    Bulk.objects.filter(pk=row.pk).update(done=1)
    assert version(page) != before


@pytest.mark.django_db
@pytest.mark.parametrize("ending", ["logout", "password", "role", "account"])
def test_nothing_is_told_once_the_session_or_the_right_to_look_has_ended(support, namespace, ending):
    page = watched(support, "/console/live/tasks")
    assert version(page) != OVER
    if ending == "logout":
        support.post("/console/logout/")
    elif ending == "password":
        support.user.set_password("another")
        support.user.save()
    elif ending == "role":
        Membership.objects.filter(user=support.user).update(namespaces=["elsewhere"])
    else:
        type(support.user).objects.filter(pk=support.user.pk).update(is_active=False)
    assert version(page) == OVER


@pytest.mark.django_db
def test_pages_carry_the_address_and_the_version_of_their_stream(support, namespace):
    make_task(namespace)
    task = make_task(namespace, "RUNNING")
    for url in ("/console/", f"/console/tasks/{task.id}/"):
        shown = support.get(url)
        assert f'data-seen="{shown.context["version"]}"' in shown.content.decode()
    assert "data-seen" not in support.get("/console/", {"before": str(task.id)}).content.decode()


def streamed(monkeypatch, versions, until, seen=0):
    """What a stream sends while the page's version is each of `versions` in turn, until `until(body)`."""
    left = list(versions)

    def read(pages):
        return [(page, left.pop(0) if len(left) > 1 else left[0]) for page in pages]

    async def run():
        hub, connection = Hub(read), Connection()
        monkeypatch.setattr(live, "hub", lambda: hub)
        work = asyncio.ensure_future(Changes(PAGE, seen).respond(connection.send, connection.receive, answer(200)))
        try:
            async with asyncio.timeout(30):
                while not (work.done() or until(connection.body)):
                    await asyncio.sleep(0.01)
            connection.leave()
            await asyncio.wait_for(work, 30)
        finally:
            hub.close()
        return connection

    return asyncio.run(run())


def test_a_stream_says_that_the_page_has_changed_and_into_which_version(monkeypatch):
    monkeypatch.setitem(live.GAP_S, "list", 0.01)
    sent = streamed(monkeypatch, [4, 5], lambda body: b"data: 5" in body, seen=3)
    assert sent.body.count(b"event: changed") == 2
    assert b"data: 4\n\n" in sent.body
    assert sent.is_complete


def test_a_stream_ends_with_the_session(monkeypatch):
    sent = streamed(monkeypatch, [OVER], lambda body: False)
    assert b"changed" not in sent.body.replace(b"changes", b"")
    assert sent.is_complete


def test_a_quiet_stream_shows_that_it_is_alive_and_says_nothing_else(monkeypatch):
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.05)
    sent = streamed(monkeypatch, [3], lambda body: body.count(b": still here") > 1, seen=3)
    assert b"event:" not in sent.body


def test_streams_share_one_look_and_hold_no_thread(monkeypatch):
    pages = [Watched(Shown("list", f"client=c{n}"), PAGE.person) for n in range(300)]
    looks = []

    async def run():
        hub = Hub(lambda asked: looks.append(len(asked)) or [(page, 5) for page in asked])
        monkeypatch.setattr(live, "hub", lambda: hub)
        connections = [Connection() for _ in pages]
        work = [asyncio.ensure_future(Changes(page, 4).respond(one.send, one.receive, answer(200))) for page, one in zip(pages, connections, strict=True)]  # fmt: skip
        try:
            async with asyncio.timeout(60):
                while not all(b"data: 5" in one.body for one in connections):
                    await asyncio.sleep(0.01)
            threads = threading.active_count()
            for one in connections:
                one.leave()
            await asyncio.wait_for(asyncio.gather(*work), 60)
            return threads
        finally:
            hub.close()

    before = threading.active_count()
    assert asyncio.run(run()) <= before + 3  # the hub's reader, its listener and the publisher of hints
    assert max(looks) == 300
    assert len(looks) < 30


def test_a_hint_of_a_task_that_is_looked_at_hurries_the_look():
    async def run():
        hub = Hub(lambda pages: [])
        try:
            page = Watched(Shown("task", "t1"), PAGE.person)
            waiting = asyncio.ensure_future(hub.change(page, 30, 0))
            await asyncio.sleep(0)
            hub._look.clear()
            hub.heard("steps", ["t2"])
            quiet = hub._look.is_set()
            hub.heard("steps", ["t2", "t1"])
            waiting.cancel()
            return quiet, hub._look.is_set()
        finally:
            hub.close()

    assert asyncio.run(run()) == (False, True)
