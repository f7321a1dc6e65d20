"""Pages have sessions and languages; the API has neither, nor anything that a page before it left behind."""

import pytest
from django.utils import translation

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/reach", "/v1/nothing"])
def test_an_answer_of_the_api_has_no_cookie_and_no_language(client, path):
    answer = client.get(path, HTTP_ACCEPT_LANGUAGE="zh-hans")
    assert not answer.cookies
    assert "Content-Language" not in answer.headers
    assert "Cookie" not in answer.headers.get("Vary", "")


def test_a_page_is_in_the_readers_language(client):
    answer = client.get("/console/login/", HTTP_ACCEPT_LANGUAGE="zh-hans")
    assert answer.headers["Content-Language"] == "zh-hans"


def test_the_language_ends_with_its_page(client):
    client.get("/console/login/", HTTP_ACCEPT_LANGUAGE="zh-hans")
    assert translation.get_language() == "en"


def test_a_form_without_its_token_is_refused():
    from django.test import Client

    assert (
        Client(enforce_csrf_checks=True).post("/console/login/", {"username": "a", "password": "b"}).status_code == 403
    )
