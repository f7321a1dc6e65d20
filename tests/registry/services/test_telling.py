"""Telling over the network, with committed rows: signed, again after a failure, once for each change, nobody delayed."""

import http.server
import json
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import IntegrityError, connections
from standardwebhooks import Webhook

from common.clock import now
from registry.hooks.sender import Lane
from registry.models import Agent, Hook, HookFiring, Instance, Namespace, StateChange
from registry.services import firings, heartbeats, hook_events, hooks, judging
from tests.committed import database, database_made  # noqa: F401 - fixtures

EVENTS = ["agent.state", "agent.resource", "alert"]
PAST = now() - timedelta(hours=1)


class Receiver:
    """A web server that answers with `status`, or hangs while `status` is None; keeps what it got."""

    def __init__(self):
        self.status, self.headers, self.got = 204, {}, []
        self.changed, self.go = threading.Condition(), threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                receiver.take(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        with self.changed:
            self.got.append((dict(request.headers), body))
            self.changed.notify_all()
        if self.status is None:
            self.go.wait(20)
        request.send_response(self.status or 204)
        for name, value in self.headers.items():
            request.send_header(name, value)
        request.end_headers()

    def wait(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.got) >= count, 10)

    def close(self):
        self.go.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    made = []
    yield lambda: made.append(Receiver()) or made[-1]
    for one in made:
        one.close()


@pytest.fixture
def row(database, settings):  # noqa: F811
    """Instance i0 of agent a1, ONLINE for an hour, in a namespace of its own."""
    settings.REACH_OUTBOUND_ALLOW = ["127.0.0.0/8"]
    namespace = Namespace.objects.create(name=f"t-{uuid.uuid4().hex[:12]}")
    spec = {"capabilities": [], "resources": {"disk": {"degradedBelow": 10}}}
    agent = Agent.objects.create(namespace=namespace, agent_id="a1", manifest={"spec": spec})
    yield Instance.objects.create(
        agent=agent, instance_id="i0", state="ONLINE", state_since=PAST, registered_at=PAST, last_heard_at=PAST
    )
    firings.stop()
    Hook.objects.filter(namespace=namespace).delete()
    agent.delete()
    namespace.delete()


def hook_of(row, url="", **fields):
    return hooks.create(row.agent.namespace_id, events=EVENTS, url=url, actor="test", now=now(), **fields)


def alert(row, number=0, agent_id="a1"):
    from django.db import transaction

    with transaction.atomic():
        hook_events.fire_alert(row.agent.namespace_id, str(number), {}, agent_id=agent_id, now=PAST)


def tick(at=None):
    firings.tick(at or now())
    assert firings.running_sender().idle(20)


def only(issued):
    return HookFiring.objects.get(hook=issued.hook)


def test_a_state_change_arrives_signed(row, receiver):
    here = receiver()
    issued = hook_of(row, here.url)
    assert judging.judge_instances([row.pk], now()) == 1
    tick()
    ((headers, body),) = here.got
    assert Webhook(issued.secret).verify(body, {name.lower(): value for name, value in headers.items()})
    assert headers["webhook-id"] == f"msg_{only(issued).pk.hex}"
    assert (json.loads(body)["toState"], only(issued).state) == ("OFFLINE", "DELIVERED")


def test_a_receiver_that_was_down_gets_it_later_with_the_same_id_and_bytes(row, receiver):
    here = receiver()
    here.status = 503
    issued = hook_of(row, here.url)
    alert(row)
    tick()
    here.status = 200
    tick(only(issued).due_at)
    (first, second) = here.got
    assert (first[0]["webhook-id"], first[1]) == (second[0]["webhook-id"], second[1])
    assert [one[0]["Reach-Delivery-Attempt"] for one in here.got] == ["1", "2"]
    assert [(one["status"], one["error"]) for one in only(issued).tries] == [(503, "HTTP 503"), (200, None)]


def test_a_worker_that_died_after_its_claim_loses_nothing(row, receiver):
    here = receiver()
    issued = hook_of(row, here.url)
    alert(row)
    (claimed,) = firings.claim(now(), Lane.WELL)  # and no more is heard of it
    tick()
    assert here.got == []
    tick(now() + firings.LEASE)
    assert [one[0]["webhook-id"] for one in here.got] == [f"msg_{claimed.id.hex}"]
    assert only(issued).state == "DELIVERED"


def test_410_is_the_end_and_stops_the_hook(row, receiver):
    here = receiver()
    here.status = 410
    issued = hook_of(row, here.url)
    alert(row)
    tick()
    alert(row, 1)
    tick(now() + timedelta(hours=2))
    issued.hook.refresh_from_db()
    assert (only(issued).state, only(issued).last_error, len(here.got)) == ("DEAD", "HTTP 410", 1)
    assert issued.hook.stopped_at is not None


def test_the_receiver_may_ask_for_time(row, receiver):
    here = receiver()
    here.status, here.headers = 429, {"Retry-After": "300"}
    issued = hook_of(row, here.url)
    alert(row)
    tick()
    assert 290 < (only(issued).due_at - now()).total_seconds() <= 300


def test_a_name_that_leads_inside_is_refused_at_the_connection(row, receiver, settings):
    here = receiver()
    issued = hook_of(row, here.url.replace("127.0.0.1", "localhost"))
    settings.REACH_OUTBOUND_ALLOW = []
    alert(row)
    tick()
    assert (only(issued).state, only(issued).last_error, here.got) == ("DEAD", "BLOCKED", [])


def test_redirects_are_not_followed(row, receiver):
    here, elsewhere = receiver(), receiver()
    here.status, here.headers = 307, {"Location": elsewhere.url}
    issued = hook_of(row, here.url)
    alert(row)
    tick()
    assert (only(issued).last_error.partition(":")[0], elsewhere.got) == ("HTTP 307", [])


def test_a_hanging_receiver_delays_nobody_else(row, receiver):
    hanging, well = receiver(), receiver()
    hanging.status = None
    hook_of(row, hanging.url)
    for number in range(20):
        alert(row, number)
    firings.tick(now())
    hanging.wait(4)
    hook_of(row, well.url)
    alert(row, 100)
    firings.tick(now())
    well.wait(1)
    assert len(hanging.got) == 4


def test_a_backlog_is_told_without_waiting_for_the_next_tick(row, receiver):
    here = receiver()
    issued = hook_of(row, here.url)
    for number in range(13):
        alert(row, number)
    firings.tick(now())
    here.wait(13)
    assert firings.running_sender().idle(20)
    assert HookFiring.objects.filter(hook=issued.hook, state="DELIVERED").count() == 13


def test_a_worker_that_stops_finishes_what_it_is_telling_and_takes_no_more(row, receiver):
    here = receiver()
    here.status = None
    issued = hook_of(row, here.url)
    for number in range(6):
        alert(row, number)
    firings.tick(now())
    here.wait(4)
    threading.Timer(0.2, here.go.set).start()
    firings.stop(drain_s=10)
    rows = HookFiring.objects.filter(hook=issued.hook)
    assert [rows.filter(state=state).count() for state in ("DELIVERED", "PENDING")] == [4, 2]


def test_a_command_hook_gets_the_event_on_standard_input(row, settings, tmp_path):
    note = tmp_path / "event"
    text = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    settings.REACH_HOOK_COMMANDS = {"tell": [sys.executable, "-c", text, str(note)]}
    issued = hook_of(row, command="tell")
    judging.judge_instances([row.pk], now())
    tick()
    assert (only(issued).state, json.loads(note.read_text())["toState"]) == ("DELIVERED", "OFFLINE")


def test_neither_secret_nor_address_is_logged(row, receiver, caplog):
    here = receiver()
    here.status = 500
    issued = hook_of(row, here.url + "?token=t0ken")
    alert(row)
    with caplog.at_level("DEBUG"):
        tick()
    lines = " ".join(str(record.__dict__) for record in caplog.records)
    assert str(issued.hook.pk) in lines
    assert "t0ken" not in lines
    assert issued.secret not in lines


def together(work, count=2):
    """Run it in so many threads at once, each with a connection of its own; the results or exceptions."""
    start = threading.Barrier(count)

    def one(number):
        try:
            start.wait(5)
            return work(number)
        except Exception as problem:
            return problem
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_two_judges_at_once_tell_once(row):
    issued = hook_of(row, "http://127.0.0.1:9/")
    assert sorted(together(lambda _: judging.judge_instances([row.pk], now()))) == [0, 1]
    assert only(issued).about == f"change:{StateChange.objects.get(instance=row).pk}"


def test_two_heartbeats_at_once_tell_of_a_crossing_once(row):
    issued = hook_of(row, "http://127.0.0.1:9/")
    namespace = row.agent.namespace_id
    said = {"resources": {"disk": 3}}
    results = together(lambda _: heartbeats.heartbeat(namespace, "a1", "i0", said, now=now()))
    assert all(heard.registered for heard in results)
    assert HookFiring.objects.filter(hook=issued.hook, event="agent.resource").count() == 1


def test_a_hook_that_is_removed_meanwhile_spoils_no_change(row):
    made = [hook_of(row, "http://127.0.0.1:9/").hook for _ in range(20)]

    def work(number):
        for one, hook in enumerate(made):
            if number:
                hooks.remove(row.agent.namespace_id, hook.pk, actor="test", now=now())
            else:
                alert(row, one)

    problems = [problem for problem in together(work) if problem is not None]
    assert not any(isinstance(problem, IntegrityError) for problem in problems)
    assert problems == []


def test_outside_a_transaction_nothing_is_fired(row):
    with pytest.raises(RuntimeError):
        hook_events.fire_alert(row.agent.namespace_id, "1", {}, agent_id=None, now=now())
