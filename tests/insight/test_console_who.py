"""The form that asks the routing who would get a task, and why not the others."""

import pytest

from registry.models import Client, Instance
from tests.insight.test_catalog_pages import add_instance, register, space  # noqa: F401 - fixture
from tests.insight.test_console import login

pytestmark = pytest.mark.django_db


@pytest.fixture
def support(space):  # noqa: F811
    return login("support", [space])


def ask(person, **query):
    return person.get("/console/who/", query)


def test_the_chosen_one_and_the_rejected_with_their_reasons_are_shown(support, space):  # noqa: F811
    agent = register(space)
    add_instance(agent, "i-1")
    Instance.objects.filter(agent=agent).update(invoke_url="http://127.0.0.1:9/")
    add_instance(agent, "i-2", state="OFFLINE", reason="gone")
    page = ask(support, namespace=space, ability="classify")
    assert page.context["found"]["instanceId"] == "i-1"
    for said in ("it is offline (OFFLINE)", "← chosen"):
        assert said in page.content.decode()


def test_it_says_so_when_nobody_would(support, space):  # noqa: F811
    add_instance(register(space), state="OFFLINE", reason="gone")
    assert "Nobody now" in ask(support, ability="classify").content.decode()


def test_a_client_is_asked_for_with_its_own_rights(support, space):  # noqa: F811
    add_instance(register(space))
    Client.objects.create(namespace_id=space, name="shop", abilities=["other.*"])
    assert "may not use this ability" in ask(support, ability="classify", client="shop").content.decode()
    assert "No client of this namespace" in ask(support, ability="classify", client="none").content.decode()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"ability": "none"}, "No agent offers this ability"),
        ({"ability": "classify", "intent": "sort it"}, "not both"),
        ({"tags": "x" * 65}, "tags"),
        ({"intent": "\x00"}, "Asks the routing"),
    ],
)
def test_nonsense_is_answered_in_words(support, space, query, said):  # noqa: F811
    register(space)
    answer = ask(support, **query)
    assert answer.status_code == 200
    assert said in answer.content.decode()


def test_other_namespaces_and_owners_have_no_answer(support, space):  # noqa: F811
    register(space)
    assert ask(support, namespace="elsewhere", ability="x").status_code == 404
    assert ask(login("owner", [space], "team-a"), ability="classify").status_code == 404
