"""Deliveries to receivers of every temper, over real sockets."""

import asyncio
import datetime as dt
import ipaddress
import uuid

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from callbacks import deliverer as module
from callbacks import topics
from callbacks.deliverer import Deliverer
from callbacks.messages import Due
from common import clock, redis
from common.outbound import Outbound
from common.secrets import encrypt
from common.signing import new_webhook_secret
from tests.routing.engine.conftest import serve  # noqa: F401 - a fixture
from tests.routing.engine.local import Received

SECRET = new_webhook_secret()


def due(url, **given):
    fields = {
        "id": uuid.uuid4(), "subject_id": uuid.uuid4(), "namespace": "n", "client": "c", "url": url, "auth_token": None,
        "traceparent": "", "body": b'{"state":"SUCCEEDED"}', "schedule": "standard", "number": 1, "series": 1,
    }  # fmt: skip
    return Due(**{**fields, **given})


def deliver(*dues, per_host=20, stale=(), until=None):
    """Submit them all; returns (tried by callback id, postponed) once everything is reported, or `until` holds."""
    tried, postponed = {}, []

    async def main():
        out = Outbound([ipaddress.ip_network("127.0.0.0/8")])

        async def secrets_of(namespace, client):
            return [SECRET]

        async def report(one):
            tried[one.due.id] = one

        async def postpone(one):
            postponed.append(one)

        async def is_stale(one):
            return one.id in stale

        deliverer = Deliverer(out, secrets_of, report, postpone, is_stale=is_stale, per_host=per_host)
        deliverer.submit(dues)
        async with asyncio.timeout(60):
            while not (until(tried) if until else len(tried) + len(postponed) == len(dues)):
                await asyncio.sleep(0.005)
        found = dict(tried), [*postponed]
        for left in deliverer._tasks:
            left.cancel()
        await out.close()
        return found

    return asyncio.run(main())


def try_once(server, **given):
    one = due(f"{server.url}/cb", **given)
    return deliver(one)[0][one.id]


def answering(status, **given):
    async def answer(_: Received):
        return web.Response(status=status, **given)

    return answer


async def hang(_: Received):
    await asyncio.sleep(60)
    return web.Response()


@pytest.fixture
def topic(settings):
    """A topic of its own, in a Redis that is there."""
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"
    return "orders"


def messages(topic):
    return redis.call(lambda client: client.xrange(topics.key("n", topic)))


def test_a_topic_gets_the_body_in_one_field(topic):
    one = due(topics.address(topic))
    tried, _ = deliver(one)
    assert [fields for _, fields in messages(topic)] == [{b"result": one.body}]
    assert (tried[one.id].error, tried[one.id].permanent) == (None, False)


def test_a_topic_keeps_a_bounded_number(topic, settings):
    settings.REACH_RESULTS_KEPT = 100
    redis.call(lambda client: [client.xadd(topics.key("n", topic), {"x": n}) for n in range(1000)])
    deliver(due(topics.address(topic)))
    assert len(messages(topic)) < 300


def test_a_topic_without_redis_is_tried_again(topic, monkeypatch):
    def away(_):
        raise redis.RedisAway("gone")

    monkeypatch.setattr(redis, "call", away)
    one = due(topics.address(topic))
    tried = deliver(one)[0][one.id]
    assert (tried.status, tried.error, tried.permanent) == (None, "REDIS_AWAY: gone", False)


def test_what_is_told_on_the_way_is_not_sent_once_it_is_old(serve):  # noqa: F811
    server = serve(answering(200))
    old = due(f"{server.url}/cb", schedule="progress")
    end = due(f"{server.url}/cb")
    tried, postponed = deliver(old, end, stale={old.id, end.id})
    assert ([*tried], [one for one, _ in postponed]) == ([end.id], [old])


def test_a_delivery_is_signed_and_counted(serve):  # noqa: F811
    receiver = serve()
    tried = try_once(
        receiver, number=3, auth_token=encrypt("t0ken"), traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    )
    [told] = receiver.received
    Webhook(SECRET).verify(told.body.decode(), dict(told.headers))
    assert told.headers["webhook-id"] == f"msg_{tried.due.id.hex}"
    assert (told.headers["Reach-Delivery-Attempt"], told.headers["Authorization"]) == ("3", "Bearer t0ken")
    assert told.headers["traceparent"].startswith("00-1111")
    assert (tried.status, tried.error, tried.permanent) == (200, None, False)


@pytest.mark.parametrize(
    ("status", "delivered", "permanent"),
    [(200, True, False), (204, True, False), (302, False, False), (404, False, False), (410, False, True),
     (429, False, False), (500, False, False)],
)  # fmt: skip
def test_what_a_status_means(serve, status, delivered, permanent):  # noqa: F811
    tried = try_once(serve(answering(status)))
    assert (tried.status, tried.error is None, tried.permanent) == (status, delivered, permanent)


def test_redirects_are_not_followed_and_say_so(serve):  # noqa: F811
    other = serve()
    tried = try_once(serve(answering(307, headers={"Location": other.url})))
    assert "redirects are not followed" in tried.error
    assert other.received == []


def test_retry_after_is_kept(serve):  # noqa: F811
    assert try_once(serve(answering(503, headers={"Retry-After": "7"}))).retry_after_s == 7


def test_a_long_answer_is_capped(serve):  # noqa: F811
    assert len(try_once(serve(answering(200, body=b"x" * 200_000))).answer) == 64 * 1024


def test_an_inside_address_is_blocked_for_good():
    one = due("http://169.254.169.254/latest")
    tried = deliver(one)[0][one.id]
    assert (tried.error, tried.permanent, tried.status) == ("BLOCKED", True, None)


def test_nobody_listening_is_a_failed_try():
    one = due("http://127.0.0.1:1/cb")
    assert "nothing listens there" in deliver(one)[0][one.id].error


def test_hanging_receivers_delay_nobody_else(serve, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "TOTAL_TIMEOUT_S", 300.0)
    hanging, quick = serve(hang), serve()
    slow = [due(f"{hanging.url}/cb/{number % 60}") for number in range(300)]
    fast = [due(f"{quick.url}/cb") for _ in range(50)] + [due(f"{hanging.url}/well") for _ in range(50)]

    async def well_or_hanging(received):
        return web.Response() if received.path == "/well" else await hang(received)

    hanging.answer = well_or_hanging
    tried, _ = deliver(*slow, *fast, until=lambda tried: len(tried) >= len(fast))
    assert {one.id for one in fast} == tried.keys()


def test_what_finds_no_place_in_time_goes_back_untried(serve, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "PATIENCE_S", 0.2)
    monkeypatch.setattr(module, "TOTAL_TIMEOUT_S", 1.0)
    receiver = serve(hang)
    dues = [due(f"{receiver.url}/cb") for _ in range(3)]
    tried, postponed = deliver(*dues, per_host=1)
    assert (len(tried), len(postponed), len(receiver.received)) == (1, 2, 1)
    assert all(at > clock.now() for _, at in postponed)


def test_a_receiver_that_answers_too_late_is_a_failed_try(serve, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "TOTAL_TIMEOUT_S", 0.3)
    tried = try_once(serve(hang))
    assert tried.error.startswith("TIMEOUT")
    assert tried.took_ms >= 300


def test_a_postponed_callback_uses_up_no_step(database):
    from callbacks.models import Callback
    from callbacks.services import claim, postpone
    from common.ids import uuid7

    now = dt.datetime.now(dt.UTC)
    id = uuid7()
    Callback.objects.create(
        id=id, subject_id=id, namespace="n", client="c", url="http://x/", body=b"{}", due_at=now, created_at=now
    )
    mine = [one for one in claim(now, 1000) if one.id == id]
    postpone([(one, now + dt.timedelta(seconds=5)) for one in mine])
    row = Callback.objects.get(pk=id)
    assert (row.attempts, row.series, row.due_at) == (0, 0, now + dt.timedelta(seconds=5))
