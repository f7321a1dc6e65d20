import pytest

from tests.registry.probes.probing import against, answer, at

OK_JSON = {"expect": {"json": {"status": "ok"}}}


def test_200_is_healthy():
    assert against(lambda _: answer("fine")).ok is True


@pytest.mark.parametrize(
    ("given", "expect", "reason"),
    [
        (answer(status=500), {}, "the status is 500"),
        (answer(status=302, headers="Location: http://127.0.0.1/\r\n"), {}, "the status is 302; redirects are not followed"),
        (answer("", status=204), {"status": 200}, "the status is 204, expected 200"),
        (answer("ERROR: no database"), {}, "the body begins with ERROR: ERROR: no database"),
        (answer("\r\n ERROR"), {}, "the body begins with ERROR: ERROR"),
        (answer("FAIL x"), {"notPrefix": "FAIL"}, "the body begins with FAIL: FAIL x"),
        (answer('{"status": "DOWN"}'), {}, "the body says status DOWN"),
        (answer('{"status": "Out of service"}'), {}, "the body says status Out of service"),
        (answer('{"status": "DOWN"}'), {"json": {"status": "ok"}}, "/status is 'DOWN', expected 'ok'"),
        (answer('{"state": "ok"}'), {"json": {"status": "ok"}}, "/status is missing"),
        (answer('{"db": {"up": 1}}'), {"json": {"db": {"up": True}}}, "/db/up is 1, expected True"),
        (answer("ok"), {"json": {"status": "ok"}}, "the body is no JSON"),
        (answer("x" * 70_000), {"json": {}}, "the body is over 65536 bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(given, expect, reason):
    result = against(lambda _: given, expect=expect)
    assert (result.ok, result.reason) == (False, reason)


@pytest.mark.parametrize(
    ("given", "expect"),
    [
        (answer("", status=204), {}),
        (answer(status=418), {"status": 418}),
        (answer('{"status": "ok", "uptime": 3}'), {"json": {"status": "ok"}}),
        (answer('{"status": "degraded"}'), {}),
        (answer("no ERROR"), {}),
        (answer("ERROR"), {"notPrefix": ""}),
        (answer("x" * 70_000), {}),
    ],
)
def test_what_is_expected_is_healthy(given, expect):
    result = against(lambda _: given, expect=expect)
    assert result.ok is True, result.reason


def test_a_hanging_server_is_unhealthy_after_the_time_limit():
    result = against(lambda _: None, timeout_s=0.2)
    assert result.ok is False
    assert "in time" in result.reason or "within" in result.reason
    assert 150 < result.ms < 1000


def test_headers_are_sent():
    seen = []
    against(lambda raw: seen.append(raw) or answer(), headers={"Authorization": "Bearer s3"})
    assert b"Authorization: Bearer s3\r\n" in seen[0]


def test_a_redirect_is_not_followed():
    seen = []
    against(lambda raw: seen.append(raw) or answer(status=301, headers="Location: /elsewhere\r\n"))
    assert len(seen) == 1


def test_a_forbidden_address_is_not_asked():
    assert at("http://10.0.0.1/health", "http").reason.startswith("BLOCKED")


def test_no_http_is_unhealthy():
    assert against(lambda _: b"\x00\x00\x12\x04not http").ok is False


@pytest.mark.parametrize("body", ['{"status": "ok"}', "ok", "[]"])
def test_a_check_without_a_word_on_dependencies_is_hollow(body):
    result = against(lambda _: answer(body), has_dependencies=True)
    assert (result.ok, result.hollow) == (True, True)
    assert against(lambda _: answer(body)).hollow is False


def test_a_check_that_names_parts_is_not_hollow():
    body = '{"status": "ok", "checks": {"database": "ok"}}'
    assert against(lambda _: answer(body), has_dependencies=True).hollow is False
