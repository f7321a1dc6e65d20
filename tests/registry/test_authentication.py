import json
import threading
import time
import uuid
from datetime import timedelta

import pytest
import redis as redis_py
from django.db import OperationalError
from django.test import Client as WebClient

from common import redis, signing
from common.clock import now
from common.errors import ReachError
from registry import attempt_tokens, selectors
from registry.credential_cache import CredentialCache, KnownCredential
from registry.models import Client, Credential
from registry.principal import Principal
from registry.services import clients, credentials, nonces
from tests.registry.calls import Api

READ = "/v1/agents"
BODY = b""


@pytest.fixture
def caller(namespace):
    return clients.create(namespace, "shop", actor="test", now=now())


def signed(issued, path=READ, query="", body=b"", method="GET", *, created=None, nonce=None, sent_path=None, **changed):
    at = int(now().timestamp()) if created is None else created
    nonce = nonce or uuid.uuid4().hex
    headers = signing.sign(method, path, query, body, issued.access_key, issued.secret_key, created=at, nonce=nonce)
    meta = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in {**headers, **changed}.items()}
    target = (sent_path or path) + (f"?{query}" if query else "")
    return WebClient(raise_request_exception=False).generic(method, target, body, **meta)


def test_a_key_is_let_in(caller):
    assert Api(caller.issued.key)("GET", READ).status_code == 200


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer x", "Basic eDp5", "Bearer \xe9", "Bearer a b", "Bearer " + "x" * 9000, "\xff\xfe",
     "Bearer rck_x\x00y", "Bearer art_", "Bearer art_x~y", "Bearer art_\xe9", "Token x", "Bearer \U0001f600"],
)  # fmt: skip
def test_every_bad_header_gets_the_same_401(db, header):
    answer = Api(None)("GET", READ, HTTP_AUTHORIZATION=header)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (401, "UNAUTHENTICATED")
    del body["traceId"]
    absent = Api(None)("GET", READ).json()
    del absent["traceId"]
    assert body == absent


def test_a_known_key_costs_no_query(caller, django_assert_num_queries):
    selectors.credential_by_key(_hash(caller.issued.key), now())
    with django_assert_num_queries(0):
        assert selectors.credential_by_key(_hash(caller.issued.key), now())


def _hash(key):
    from common.secrets import hash_key

    return hash_key(key)


def test_a_disabled_client_is_refused_at_once(caller, namespace, django_capture_on_commit_callbacks):
    assert Api(caller.issued.key)("GET", READ).status_code == 200
    with django_capture_on_commit_callbacks(execute=True):
        clients.change(namespace, "shop", enabled=False, actor="test", now=now())
    assert Api(caller.issued.key)("GET", READ).status_code == 401


def test_a_revoked_key_is_refused_at_once(caller, django_capture_on_commit_callbacks):
    assert Api(caller.issued.key)("GET", READ).status_code == 200
    with django_capture_on_commit_callbacks(execute=True):
        credentials.revoke(Credential.objects.get(client=caller.client).pk, actor="test", now=now())
    assert Api(caller.issued.key)("GET", READ).status_code == 401


def _revoke(caller, **by):
    credentials.revoke(Credential.objects.get(client=caller.client).pk, **by)


def _rotate(caller, **by):
    clients.rotate(caller.client.namespace_id, "shop", overlap_seconds=0, **by)


def _narrow(caller, **by):
    clients.change(caller.client.namespace_id, "shop", abilities=["other.*"], **by)


def _limit(caller, **by):
    clients.change(caller.client.namespace_id, "shop", limits={"ratePerSecond": 1}, **by)


def _replace_agents(caller, **by):
    credentials.for_agent(caller.client.namespace_id, "a1", overlap_seconds=0, **by)


@pytest.mark.parametrize("change", [_revoke, _rotate, _narrow, _limit, _replace_agents])
def test_other_processes_forget_a_changed_credential_at_once(caller, change, django_capture_on_commit_callbacks):
    elsewhere, read = CredentialCache(seconds=3600), threading.Event()
    known = KnownCredential(Principal("client", "n", "shop", None, frozenset()), b"", None)
    elsewhere.get("key", lambda: known)
    assert elsewhere.hears.wait(10)
    elsewhere.get("key", lambda: known)
    with django_capture_on_commit_callbacks(execute=True):
        change(caller, actor="test", now=now())
    until = time.monotonic() + 0.2
    while not read.is_set() and time.monotonic() < until:
        elsewhere.get("key", lambda: read.set() or known)
    elsewhere.close()
    assert read.is_set()


def test_an_expired_key_is_refused_even_when_cached(caller):
    assert selectors.credential_by_key(_hash(caller.issued.key), now())
    Credential.objects.filter(client=caller.client).update(expires_at=now() + timedelta(seconds=60))
    selectors.CACHE.forget_all()
    assert selectors.credential_by_key(_hash(caller.issued.key), now())
    assert selectors.credential_by_key(_hash(caller.issued.key), now() + timedelta(seconds=61)) is None


def test_keys_are_not_stored_in_clear(caller):
    row = Credential.objects.get(client=caller.client)
    stored = json.dumps([row.key_hash, row.key_hint, bytes(row.secret_key).decode()])
    assert caller.issued.key not in stored
    assert caller.issued.secret_key not in stored
    assert caller.callback_secret.encode() not in bytes(Client.objects.get(pk=caller.client.pk).callback_secrets)


def test_a_signature_is_let_in_and_covers_the_query(caller):
    assert signed(caller.issued, query="limit=2&state=ONLINE&tag=").status_code == 200
    assert signed(caller.issued, query="b=2&a=1&a=0&x&y=").status_code == 200


def test_what_was_signed_may_not_be_changed(caller):
    assert signed(caller.issued, sent_path="/v1/catalog").status_code == 401
    assert signed(caller.issued, method="DELETE", Signature="sig1=:AAAA:").status_code == 401
    assert signed(caller.issued, **{"Content-Digest": signing.content_digest(b"x")}).status_code == 401


@pytest.mark.parametrize("shift", [-302, 302, 10**10, -(10**9)])
def test_a_signature_out_of_its_time_is_refused(caller, shift):
    created = max(0, int(now().timestamp()) + shift)
    assert signed(caller.issued, created=created).status_code == 401


@pytest.mark.parametrize("created", ["nan", "inf", "1e9", "١٧", "9" * 5000, "", "1_700", "-1", " 1"])
def test_a_time_that_is_none_is_refused(caller, created):
    headers = signing.sign(
        "GET", READ, "", b"", caller.issued.access_key, caller.issued.secret_key, created=1, nonce="n"
    )
    odd = headers["Signature-Input"].replace("created=1", f"created={created}")
    assert signed(caller.issued, **{"Signature-Input": odd}).status_code == 401


def test_a_nonce_is_good_once_for_each_access_key(caller, namespace):
    other = clients.create(namespace, "other", actor="test", now=now())
    nonce = uuid.uuid4().hex
    answers = [signed(who.issued, nonce=nonce).status_code for who in (caller, caller, other)]
    assert answers == [200, 401, 200]
    later = signed(caller.issued, nonce=nonce, created=int(now().timestamp()) + 5)
    assert later.status_code == 401


def test_a_nonce_is_kept_longer_than_a_signature_is_good(db):
    access_key = uuid.uuid4().hex
    assert nonces.remember(access_key, "n", now())
    keys = redis.call(lambda r: [r.ttl(k) for k in r.scan_iter(redis.key("nonce", "*"), count=1000)])
    assert max(keys) >= 600


@pytest.fixture
def redis_away(monkeypatch):
    def call(_):
        raise redis.RedisAway

    monkeypatch.setattr(redis, "call", call)


def test_without_redis_nonces_are_remembered_in_the_database(caller, redis_away):
    nonce = uuid.uuid4().hex
    assert [signed(caller.issued, nonce=nonce).status_code for _ in range(2)] == [200, 401]


def test_without_redis_and_database_a_signature_is_not_taken(db, redis_away, monkeypatch):
    def cursor():
        raise OperationalError("away")

    with monkeypatch.context() as patch:
        patch.setattr(nonces.connection, "cursor", cursor)
        answer = nonces_answer("ak")
    assert (answer.status, answer.code) == (503, "NOT_READY")


def nonces_answer(access_key):
    with pytest.raises(ReachError) as raised:
        nonces.remember(access_key, "n", now())
    return raised.value


def test_expired_nonces_are_forgotten(db, redis_away):
    nonces.remember("ak", "n", now() - timedelta(hours=1))
    assert nonces.forget_expired(now()) == 1


def test_a_paused_redis_counts_as_away(monkeypatch):
    class Paused:
        def set(self, *_, **__):
            raise redis_py.TimeoutError

    monkeypatch.setattr(redis, "_client", Paused())
    monkeypatch.setattr(redis, "_down_until", 0.0)
    with pytest.raises(redis.RedisAway):
        redis.call(lambda r: r.set("x", 1))
    monkeypatch.setattr(redis, "_down_until", 0.0)


def test_an_attempt_token_names_its_attempt_and_no_other():
    task = uuid.uuid4()
    token = attempt_tokens.issue(task, "key-1")
    assert attempt_tokens.verify(token) == (task, "key-1")
    assert attempt_tokens.verify(token.replace("key-1", "key-2")) is None
    assert attempt_tokens.verify(token[:-1]) is None
    assert attempt_tokens.verify(token.removeprefix("art_")) is None


def test_an_attempt_token_opens_nothing_of_the_registry(db):
    token = attempt_tokens.issue(uuid.uuid4(), "k")
    assert Api(token)("GET", READ).status_code == 403
    assert Api(token)("POST", "/v1/agents/a/instances/i/heartbeat").status_code == 404
