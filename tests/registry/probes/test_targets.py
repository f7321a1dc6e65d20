import pytest

from registry.probes.base import CannotProbe
from registry.probes.targets import Subject, target_of

ENDPOINTS = {"invoke": "http://agent.example/invoke", "health": "http://agent.example/health"}
READ = {"name": "read", "sideEffects": False, "requestSample": {"q": 1}}


def subject(invoke="", health="", **spec):
    return Subject("default", "a1", invoke, health, spec)


def target(one, secrets=(), schemas=(), signing=None):
    return target_of(one, secrets=dict(secrets), output_schemas=dict(schemas), signing=signing)


@pytest.mark.parametrize(
    ("given", "kind", "url"),
    [
        (subject(endpoints=ENDPOINTS), "http", ENDPOINTS["health"]),
        (subject(endpoints={"invoke": ENDPOINTS["invoke"]}), "tcp", ENDPOINTS["invoke"]),
        (subject("http://i1.example/x", endpoints={}), "tcp", "http://i1.example/x"),
        (subject("wss://i1.example/x"), "tcp", "https://i1.example/x"),
        (subject("", "http://i1.example/h", endpoints=ENDPOINTS), "http", "http://i1.example/h"),
        (subject(endpoints=ENDPOINTS, probe={"path": "/ready?deep=1"}), "http", "http://agent.example/ready?deep=1"),
        (subject(endpoints=ENDPOINTS, probe={"path": "//else.example/"}), "http", "http://agent.example//else.example/"),
        (subject(endpoints=ENDPOINTS, probe={"type": "grpc", "port": 50051}), "grpc", "http://agent.example:50051/health"),
        (subject("http://i1.example/x", probe={"type": "synthetic"}, capabilities=[{**READ, "path": "/read"}]), "synthetic", "http://i1.example/x/read"),
        (subject("http://i1.example/x", capabilities=[READ]), "tcp", "http://i1.example/x"),
    ],
)  # fmt: skip
def test_kind_and_address(given, kind, url):
    found = target(given)
    assert (found.kind, found.url) == (kind, url)


def test_headers_hold_the_agent_s_secrets():
    given = subject(endpoints=ENDPOINTS, probe={"headers": {"Authorization": "Bearer ${secret:key}"}})
    assert target(given, {"key": "s3"}).headers == {"Authorization": "Bearer s3"}


def test_a_secret_that_is_not_set_is_named():
    given = subject(endpoints=ENDPOINTS, probe={"headers": {"A": "${secret:key}"}})
    with pytest.raises(CannotProbe, match="'key'"):
        target(given)


@pytest.mark.parametrize(
    "capability",
    [{**READ, "sideEffects": True}, {"name": "read", "requestSample": {}}, {**READ, "requestSample": None}],
)
def test_only_a_sample_of_what_surely_changes_nothing_is_sent(capability):
    assert target(subject("http://i1/", probe={"type": "synthetic"}, capabilities=[capability])).sample is None


def test_the_capability_of_a_synthetic_probe_can_be_named():
    given = subject(
        "http://i1/",
        probe={"type": "synthetic", "method": "b"},
        capabilities=[{**READ, "name": "a"}, {**READ, "name": "b"}],
    )
    assert target(given).sample.capability == "b"


@pytest.mark.parametrize(
    ("given", "there_is_one"),
    [(subject(), False), (subject(probe={"type": "command", "command": "x"}), True), (subject("http://i1/"), True)],
)
def test_whether_there_is_anything_to_probe(given, there_is_one):
    assert given.has_address is there_is_one
