import json
from io import StringIO

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from registry.models import Membership
from tests.registry.calls import Api


def run(*words):
    out = StringIO()
    call_command(*words, stdout=out)
    return json.loads(out.getvalue())


def test_a_client_is_made_with_its_namespace(db):
    made = run("reach_client", "reach-t2", "shop", "--scope", "catalog:read", "--ability", "ticket.*")
    assert (made["scopes"], made["abilities"]) == (["catalog:read"], ["ticket.*"])
    assert Api(made["key"])("GET", "/v1/catalog").status_code == 200


def test_a_taken_name_is_said_plainly(db):
    run("reach_client", "reach-t2", "shop")
    with pytest.raises(CommandError, match="there is a client shop"):
        run("reach_client", "reach-t2", "shop")


def test_an_agent_gets_a_key(db, manifest):
    issued = run("reach_agent_key", "reach-t2", "a1")
    assert Api(issued["key"])("PUT", "/v1/agents/a1", manifest).status_code == 201


@pytest.mark.parametrize(
    "words",
    [
        ("reach_agent_key", "reach-t2", "a b"),
        ("reach_agent_key", "A", "a1"),
        ("reach_client", "A", "x"),
        ("reach_client", "a", "b/c"),
    ],
)
def test_a_bad_name_is_refused(db, words):
    with pytest.raises(CommandError):
        run(*words)


def test_an_operator_key_opens_everything(db):
    issued = run("reach_operator_key")
    assert Api(issued["key"])("GET", "/v1/audit").status_code == 200


def test_a_user_is_made_and_changed(db):
    made = run("reach_user", "ann", "--role", "owner", "--team", "team-a")
    assert get_user_model().objects.get(username="ann").check_password(made["password"])
    assert run("reach_user", "ann", "--role", "support")["password"] is None
    assert Membership.objects.get(user__username="ann").role == "support"
