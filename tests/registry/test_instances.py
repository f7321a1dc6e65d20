import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from common import broadcast, redis
from common.clock import now
from registry import jobs, selectors
from registry.models import Instance, StateChange
from registry.services import evidence, heartbeats, judging, listening, silence
from routing import breaker
from routing.breaker.rule import Circuit
from tests.registry.calls import errors_of

AGENT = "/v1/agents/a1"
PLACE = AGENT + "/instances/i1"
BODY = {"invokeUrl": "http://127.0.0.1:9/invoke", "healthUrl": "http://127.0.0.1:9/health", "maxConcurrency": 4}


@pytest.fixture(autouse=True)
def _own_redis(settings):
    """A test's evidence is its own, and Redis has been there for long."""
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"
    redis.call(lambda client: client.set(redis.key("evidence-since"), 0, ex=600))


@pytest.fixture
def registered(agent, manifest):
    agent("PUT", AGENT, manifest)
    return agent


@pytest.fixture
def running(registered):
    assert registered("PUT", PLACE, BODY).status_code == 201
    return registered


def version(namespace):
    return selectors.namespace_version(namespace)


def routable(namespace):
    return {one.instance_id: one for one in selectors.agents_for_snapshot(namespace)[0].instances}


def test_an_instance_is_routable_at_once(running, namespace):
    one = routable(namespace)["i1"]
    assert (one.state, one.invoke_url, one.max_concurrency, one.weight) == ("NEW", BODY["invokeUrl"], 4, 100)


def test_the_same_put_again_changes_nothing_for_routing(running, namespace):
    before = version(namespace)
    again = running("PUT", PLACE, BODY)
    assert (again.status_code, again.json()["heartbeatIntervalMs"], version(namespace)) == (200, 10_000, before)


def test_what_a_put_leaves_out_goes_back_to_its_default(running, namespace):
    running("PUT", PLACE, {**BODY, "weight": 7, "region": "eu", "labels": {"gpu": True}})
    running("PUT", PLACE, {"invokeUrl": BODY["invokeUrl"]})
    one = routable(namespace)["i1"]
    assert (one.weight, one.region, one.labels, one.max_concurrency) == (100, "", {}, None)


def test_an_instance_of_no_agent_is_404(agent):
    assert agent("PUT", PLACE, BODY).status_code == 404
    assert agent("POST", PLACE + "/heartbeat", {}).status_code == 404
    assert agent("DELETE", PLACE).status_code == 404


@pytest.mark.parametrize(
    ("field", "value", "pointer"),
    [
        ("invokeUrl", "http://10.0.0.1/", "/invokeUrl"),
        ("invokeUrl", "javascript:alert(1)", "/invokeUrl"),
        ("healthUrl", "http://user@127.0.0.1/", "/healthUrl"),
        ("networks", {"lan": "http://10.0.0.1/"}, "/networks/lan"),
        ("weight", True, "/weight"),
        ("weight", "10", "/weight"),
        ("weight", -1, "/weight"),
        ("maxConcurrency", 0, "/maxConcurrency"),
        ("labels", {"gpu": [1]}, "/labels/gpu"),
        ("version", 1.1, "/version"),
        ("port", 80, "/port"),
    ],
)
def test_a_wrong_instance_field_is_named(registered, field, value, pointer):
    refused = registered("PUT", PLACE, {**BODY, field: value})
    assert (refused.status_code, refused.json()["code"]) == (422, "INVALID"), refused.content
    assert pointer in errors_of(refused)
    assert not Instance.objects.filter(instance_id="i1", agent__agent_id="a1", implicit=False).exists()


def test_endpoints_alone_make_an_instance_and_a_registered_one_replaces_it(agent, manifest, namespace):
    manifest["spec"]["endpoints"] = {"invoke": "http://127.0.0.1:9/a", "lookup": "http://127.0.0.1:9/l"}
    agent("PUT", AGENT, manifest)
    assert routable(namespace)["default"].invoke_url == "http://127.0.0.1:9/a"
    agent("PUT", PLACE, {"invokeUrl": "http://127.0.0.1:9/b"})
    found = routable(namespace)
    assert [(one.instance_id, one.invoke_url, one.lookup_url) for one in found.values()] == [
        ("i1", "http://127.0.0.1:9/b", "http://127.0.0.1:9/l")
    ]


def test_an_implicit_instance_follows_the_manifest_and_is_never_lost(agent, manifest, namespace):
    manifest["spec"]["endpoints"] = {"invoke": "http://127.0.0.1:9/a"}
    agent("PUT", AGENT, manifest)
    manifest["spec"]["endpoints"] = {"invoke": "http://127.0.0.1:9/b"}
    agent("PUT", AGENT, manifest)
    silence.check_heartbeats(now() + timedelta(hours=1))
    one = routable(namespace)["default"]
    assert (one.invoke_url, one.state) == ("http://127.0.0.1:9/b", "NEW")


def test_who_leaves_gets_nothing_more_and_must_register_anew(running, namespace, django_capture_on_commit_callbacks):
    before = version(namespace)
    assert running("DELETE", PLACE).status_code == 204
    assert routable(namespace) == {}
    assert version(namespace) == before + 1
    heard = running("POST", PLACE + "/heartbeat", {"status": "ok"}).json()
    assert (heard["registered"], heard["state"]) == (False, "OFFLINE")
    assert running("PUT", PLACE, BODY).status_code == 201
    assert routable(namespace)["i1"].state == "NEW"


def test_a_change_is_told_to_every_process(running, namespace, monkeypatch, django_capture_on_commit_callbacks):
    told = []
    monkeypatch.setattr(broadcast, "publish", lambda channel, message: told.append((channel, message)))
    with django_capture_on_commit_callbacks(execute=True):
        running("DELETE", PLACE)
    assert told == [("changes", {"namespace": namespace, "version": version(namespace)})]


def test_a_heartbeat_answers_with_state_and_score(running):
    heard = running("POST", PLACE + "/heartbeat", {"status": "ok", "components": {"db": "ok"}, "inflight": 2})
    assert heard.json() == {"state": "NEW", "score": 1.0, "nextHeartbeatMs": 10_000, "registered": True}


@pytest.mark.parametrize(
    "body",
    [
        {"status": "fine"},
        {"inflight": True},
        {"weightPercent": 101},
        {"components": {"db": 1}},
        {"x": 1},
        {"resources": {"a": "1"}},
    ],
)
def test_a_wrong_heartbeat_is_422(running, body):
    assert running("POST", PLACE + "/heartbeat", body).status_code == 422


def beat(namespace, at, **body):
    return heartbeats.heartbeat(namespace, "a1", "i1", {"status": "ok", **body}, now=at)


def test_good_heartbeats_bring_it_online_and_a_complaint_degrades_it(running, namespace):
    start = now()
    states = [beat(namespace, start + timedelta(seconds=s)).state for s in (1, 10, 20, 31, 41)]
    assert states == ["NEW", "NEW", "NEW", "NEW", "ONLINE"]
    sick = beat(namespace, start + timedelta(seconds=50), components={"db": "down"})
    assert (sick.state, sick.score) == ("DEGRADED", 0.3)
    states = [beat(namespace, start + timedelta(seconds=s)).state for s in (60, 110, 119, 120)]
    assert states == ["DEGRADED", "DEGRADED", "DEGRADED", "ONLINE"]
    moves = StateChange.objects.filter(instance__instance_id="i1").order_by("id").values_list("to_state", "reason")
    assert [to for to, _ in moves] == ["NEW", "ONLINE", "DEGRADED", "ONLINE"]
    assert dict(moves)["DEGRADED"] == "it reports db: down"


def test_who_is_not_heard_is_lost_and_comes_back_as_new(running, namespace):
    start = now()
    beat(namespace, start)
    assert silence.check_heartbeats(start + timedelta(seconds=29)) == 0
    assert silence.check_heartbeats(start + timedelta(seconds=30)) == 1
    assert silence.check_heartbeats(start + timedelta(seconds=31)) == 0
    assert routable(namespace)["i1"].state == "OFFLINE"
    assert beat(namespace, start + timedelta(seconds=40)).state == "NEW"


def test_draining_is_told_to_routing_and_taken_back(running, namespace):
    start, before = now(), version(namespace)
    beat(namespace, start, status="draining", weightPercent=50)
    one = routable(namespace)["i1"]
    assert (one.draining, one.weight_percent, version(namespace)) == (True, 50, before + 1)
    beat(namespace, start + timedelta(seconds=1))
    assert routable(namespace)["i1"].draining is False


def test_a_heartbeat_with_nothing_new_asks_no_database(running, namespace, django_assert_num_queries):
    start = now()
    beat(namespace, start + timedelta(seconds=1))
    with django_assert_num_queries(0):
        for second in range(2, 25):
            beat(namespace, start + timedelta(seconds=second), inflight=second)


def test_heard_times_are_written_together(running, namespace):
    at = now() + timedelta(seconds=10)
    beat(namespace, at)
    assert [silence.write_heard(at + timedelta(seconds=s)) for s in (5, 6, 30)] == [1, 0, 0]
    assert Instance.objects.get(instance_id="i1", agent__namespace=namespace).last_heard_at == at


def test_without_redis_a_heartbeat_is_written_every_ten_seconds(running, namespace, monkeypatch):
    start = now()
    beat(namespace, start)
    monkeypatch.setattr(redis, "call", no_redis)
    writes = []
    for second in (5, 11, 15, 22):
        with CaptureQueriesContext(connection) as queries:
            beat(namespace, start + timedelta(seconds=second))
        writes.append(any(query["sql"].startswith("UPDATE") for query in queries))
    assert writes == [False, True, False, True]


def no_redis(work):
    raise redis.RedisAway


def test_nobody_is_lost_soon_after_redis_came_back_empty(running, namespace):
    start = now()
    beat(namespace, start)
    redis.call(lambda client: client.delete(redis.key("evidence-since"), redis.key("heard")))
    assert silence.check_heartbeats(start + timedelta(seconds=40)) == 0
    assert silence.check_heartbeats(start + timedelta(seconds=71)) == 1


def test_a_resource_below_its_threshold_degrades_and_is_named(agent, manifest, namespace):
    manifest["spec"]["resources"] = {"gpuFree": {"degradedBelow": 1}}
    agent("PUT", AGENT, manifest)
    agent("PUT", PLACE, BODY)
    assert beat(namespace, now(), resources={"gpuFree": 1}).state == "NEW"
    assert beat(namespace, now(), resources={"gpuFree": 0}).state == "DEGRADED"
    one = agent("GET", AGENT + "/health").json()["instances"][0]
    assert (one["reason"], one["resources"]) == ("it reports gpuFree below 1", {"gpuFree": 0})


def test_health_shows_states_reasons_and_parts(running):
    running("POST", PLACE + "/heartbeat", {"status": "degraded", "inflight": 3})
    one = running("GET", AGENT + "/health").json()["instances"][0]
    assert (one["instanceId"], one["state"], one["score"], one["inflight"]) == ("i1", "DEGRADED", 0.3, 3)
    assert one["reason"] == "it reports degraded"
    assert [(c["from"], c["to"]) for c in one["changes"]] == [("NEW", "DEGRADED"), (None, "NEW")]


def test_health_shows_probes_calls_and_a_suspect_prober(running, namespace):
    pk, at = Instance.objects.get(agent__namespace=namespace, instance_id="i1").pk, now()
    evidence.probed(pk, True, 4.0, "", at, "p1")
    evidence.probed(pk, False, 9.0, "status 503", at, "p1")
    evidence.called([evidence.Seen(pk, "ok", 200.0, "", at)])
    evidence.suspect("p1")
    one = running("GET", AGENT + "/health").json()["instances"][0]
    assert [(p["ok"], p["ms"], p["reason"]) for p in one["probes"]] == [(False, 9.0, "status 503"), (True, 4.0, "")]
    assert (one["parts"], one["score"]) == ({"health": 1.0, "latency": 0.6, "success": 1.0}, 0.88)
    assert (one["lastLatencyMs"], one["proberSuspect"], one["weight"]) == (200.0, True, 100)


def test_health_shows_each_instances_breaker(running, namespace, monkeypatch):
    one = running("GET", AGENT + "/health").json()["instances"][0]
    assert (one["breaker"]["state"], one["breaker"]["since"]) == ("CLOSED", None)
    circuits = {breaker.Key(namespace, "a1", "i1"): Circuit(opened=now().timestamp(), until=now().timestamp() + 3600)}
    monkeypatch.setattr(breaker.Breakers, "open", lambda self, name: circuits)
    one = running("GET", AGENT + "/health").json()["instances"][0]
    assert (one["breaker"]["state"], one["breaker"]["since"] <= one["breaker"]["trialAt"]) == ("OPEN", True)


def test_maintenance_survives_and_ends_by_hand(running, namespace):
    running("POST", AGENT + "/maintenance", {"on": True})
    running("PUT", PLACE, BODY)
    assert selectors.agents_for_snapshot(namespace)[0].maintenance is True
    assert running("POST", AGENT + "/maintenance", {"on": False}).json() == {"agentId": "a1", "maintenance": False}


def test_secrets_can_be_set_and_never_read(running, namespace):
    answer = running("PUT", AGENT + "/secrets", {"dify": "s3cret-value", "old": "x"})
    assert answer.json() == {"agentId": "a1", "names": ["dify", "old"]}
    assert running("PUT", AGENT + "/secrets", {"old": None}).json()["names"] == ["dify"]
    assert selectors.agent_secrets(namespace, "a1") == {"dify": "s3cret-value"}
    assert b"s3cret" not in running("GET", AGENT).content


def test_a_snapshot_takes_five_queries(running, namespace, django_assert_num_queries):
    with django_assert_num_queries(5):
        (one,) = selectors.agents_for_snapshot(namespace)
    assert one.signing is not None
    assert [c.name for c in one.capabilities] == ["work"]


def test_the_job_runs_the_check(running, namespace):
    Instance.objects.filter(instance_id="i1", agent__namespace=namespace).update(last_heard_at=now() - timedelta(60))
    jobs.check_heartbeats()
    assert routable(namespace)["i1"].state == "OFFLINE"


def test_a_new_registration_is_probed_at_once_and_owes_nothing_to_the_old_one(running):
    rows = Instance.objects.filter(instance_id="i1")
    later = now() + timedelta(minutes=1)
    rows.update(probe_failures=9, probe_successes=0, probe_reason="refused", probe_due_at=later, probe_claimed_at=later)
    running("DELETE", PLACE)
    running("PUT", PLACE, BODY)
    one = rows.get()
    assert (one.probe_failures, one.probe_reason, one.probe_claimed_at, one.probed_at) == (0, "", None, None)
    assert one.probe_due_at <= now()


def test_silence_means_nothing_until_somebody_has_listened_for_long_enough(running, namespace):
    start = now()
    beat(namespace, start)
    listening.mark(start)
    assert silence.check_heartbeats(start + timedelta(seconds=40)) == 0  # the last mark is 40 s old: no web is up
    for second in range(40, 72, 4):
        listening.mark(start + timedelta(seconds=second))
    assert silence.check_heartbeats(start + timedelta(seconds=69)) == 0
    assert silence.check_heartbeats(start + timedelta(seconds=71)) == 1


def test_a_rolling_restart_of_web_processes_is_no_gap(running, namespace):
    start = now()
    for second in range(0, 32, 8):
        listening.mark(start + timedelta(seconds=second))
    assert listening.heard_for_s(start + timedelta(seconds=32)) == 32


def test_without_redis_silence_is_noticed_by_the_rows(running, namespace, monkeypatch):
    start = now()
    beat(namespace, start)

    def away(work):
        raise redis.RedisAway

    monkeypatch.setattr(redis, "call", away)
    monkeypatch.setattr(evidence.memory, "_away_since", None)
    assert silence.check_without_broker(start + timedelta(seconds=31)) == 0  # Redis may have known better
    assert silence.check_without_broker(start + timedelta(seconds=62)) == 1
    assert Instance.objects.get(agent__namespace=namespace, instance_id="i1").reason == "not heard for 30 s"


def test_with_redis_the_broker_brings_the_check(running, namespace):
    assert silence.check_without_broker(now() + timedelta(seconds=62)) == 0


@pytest.mark.parametrize(("answering", "lost"), [(4, 0), (2, 4)])
def test_if_nobody_is_heard_but_most_answer_probes_the_platform_is_deaf(running, namespace, answering, lost):
    for n in range(2, 5):
        running("PUT", f"{AGENT}/instances/i{n}", BODY)
    rows = Instance.objects.filter(
        agent__namespace=namespace, instance_id__in=[f"i{n}" for n in range(1, answering + 1)]
    )
    rows.update(probed_at=now() + timedelta(seconds=20), probe_failures=0)
    assert silence.check_heartbeats(now() + timedelta(seconds=40)) == lost


def test_when_many_come_back_the_judge_moves_them_together(running, namespace):
    start = now()
    silence.check_heartbeats(start + timedelta(seconds=40))
    with heartbeats._moving:  # another one is on its way back just now
        assert beat(namespace, start + timedelta(seconds=41)).state == "OFFLINE"
    assert judging.judge_dirty(start + timedelta(seconds=41)) == 1
    assert beat(namespace, start + timedelta(seconds=42)).state == "NEW"
