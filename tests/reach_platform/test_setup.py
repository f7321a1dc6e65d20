"""The set-up of one machine: once made, the same at every start; gone, made anew."""

import json
import stat

import pytest

from common.secrets import hash_key
from registry.models import Agent, Credential, Membership
from routing.models import Route

pytestmark = pytest.mark.django_db
URL = "http://127.0.0.1:8600"


@pytest.fixture
def prepare(tmp_path):
    from reach_platform import setup

    def prepared(url=URL):
        notes = setup.prepare(tmp_path, url)
        return json.loads((tmp_path / "demo.json").read_text("utf-8")), notes

    return prepared


def is_good(key):
    return Credential.objects.filter(key_hash=hash_key(key), revoked_at=None, expires_at=None).exists()


def test_the_file_has_the_members_of_the_contract(prepare, tmp_path):
    demo, _ = prepare()
    assert set(demo) == {"baseUrl", "operatorKey", "namespace", "client", "agent", "logins"}
    assert set(demo["client"]) == {"name", "key", "accessKey", "secretKey", "callbackSecret"}
    assert set(demo["agent"]) == {"agentId", "key"}
    assert set(demo["logins"]) == {"owner", "support", "admin"}
    assert all(set(login) == {"user", "password"} for login in demo["logins"].values())
    for name in ("demo.json", "samples.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_second_start_changes_nothing_but_the_address(prepare):
    first, _ = prepare()
    second, _ = prepare("http://127.0.0.1:9000")
    assert second == {**first, "baseUrl": "http://127.0.0.1:9000"}


def test_a_lost_file_means_new_keys_and_the_old_ones_end(prepare, tmp_path):
    old, _ = prepare()
    (tmp_path / "demo.json").unlink()
    new, _ = prepare()
    for before, after in [(old, new)]:
        for path in (("operatorKey",), ("client", "key"), ("agent", "key")):
            lost, made = before, after
            for step in path:
                lost, made = lost[step], made[step]
            assert (is_good(lost), is_good(made)) == (False, True), path


@pytest.mark.parametrize("content", ["", "[]", "{", '{"operatorKey": "x"}', '{"client": 5}'])
def test_a_damaged_file_is_replaced(prepare, tmp_path, content):
    (tmp_path / "demo.json").write_text(content, "utf-8")
    demo, _ = prepare()
    assert is_good(demo["operatorKey"])


def test_everybody_can_log_in_with_their_role(prepare, client):
    demo, notes = prepare()
    for name, login in demo["logins"].items():
        assert client.login(username=login["user"], password=login["password"]), name
    assert set(Membership.objects.values_list("user__username", "role")) >= {
        ("owner", "owner"), ("support", "support"), ("admin", "operator"),
    }  # fmt: skip
    assert demo["logins"]["support"]["password"] in notes[0]


def test_the_sample_abilities_are_routed_and_a_changed_route_is_left_alone(prepare):
    prepare()
    Route.objects.filter(ability="ticket.classify").update(strategy="round_robin")
    prepare()
    found = dict(Route.objects.filter(namespace="reach-demo").values_list("ability", "strategy"))
    assert found == {"ticket.classify": "round_robin", "text.summarise": "least_conn"}


def test_the_samples_are_not_registered_by_the_set_up(prepare):
    prepare()
    assert not Agent.objects.filter(namespace="reach-demo").exists()
