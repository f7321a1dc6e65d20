import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from registry.models import Agent, Revision
from tests.registry.calls import Api, errors_of

AGENT = "/v1/agents/a1"
YAML = """\
apiVersion: agent-reach/v1
kind: AgentManifest
metadata: {name: a1, version: 1.0.0}
spec:
  capabilities:
    - name: work
      description: does work
      outputSchema: {}
      inputSchema: {text: string}
      requestSample: {text: hello}
      sideEffects: false
"""


def test_a_first_put_is_created_and_the_same_again_changes_nothing(agent, manifest):
    first, second = agent("PUT", AGENT, manifest), agent("PUT", AGENT, manifest)
    assert (first.status_code, first.json()) == (
        201, {"agentId": "a1", "revision": 1, "changed": True, "warnings": []},
    )  # fmt: skip
    assert (second.status_code, second.json()["changed"], second.json()["revision"]) == (200, False, 1)


@pytest.mark.parametrize(
    "raw",
    [
        YAML.encode(),
        YAML.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + YAML.encode(),
        YAML.replace("\n", "\r").encode(),
    ],
    ids=["yaml", "crlf", "bom", "cr"],
)
def test_yaml_however_spelled_equals_the_json(agent, manifest, raw):
    agent("PUT", AGENT, manifest)
    again = agent("PUT", AGENT, raw, "application/yaml")
    assert (again.status_code, again.json()["changed"]) == (200, False), again.content


def test_another_content_is_another_revision(agent, manifest):
    agent("PUT", AGENT, manifest)
    manifest["spec"]["tags"] = ["nlp"]
    changed = agent("PUT", AGENT, manifest)
    assert (changed.status_code, changed.json()["revision"], changed.json()["changed"]) == (200, 2, True)


def test_versions_stay_as_written(agent):
    agent("PUT", AGENT, YAML.replace("1.0.0", "1.10").encode(), "application/yaml")
    assert Agent.objects.get(agent_id="a1").version == "1.10"


@pytest.mark.parametrize("version", ["2024-01-01", "1e3", "0123", "22:22", "1_0", "no", "+5"])
def test_yaml_words_are_text_where_text_is_due(agent, version):
    answer = agent("PUT", AGENT, YAML.replace("1.0.0", version).encode(), "application/yaml")
    assert answer.status_code == 201, answer.content
    assert Agent.objects.get(agent_id="a1").version == version


@pytest.mark.parametrize(
    ("at", "value", "pointer"),
    [
        (("metadata", "version"), 1.10, "/metadata/version"),
        (("metadata", "version"), True, "/metadata/version"),
        (("metadata", "version"), None, "/metadata/version"),
        (("metadata", "name"), 7, "/metadata/name"),
        (("metadata", "name"), "other", "/metadata/name"),
        (("spec", "limits"), {"maxConcurrency": True}, "/spec/limits/maxConcurrency"),
        (("spec", "limits"), {"maxConcurrency": "10"}, "/spec/limits/maxConcurrency"),
        (("spec", "limits"), {"maxConcurrency": -1}, "/spec/limits/maxConcurrency"),
        (("spec", "limits"), {"timeoutMs": 1.5}, "/spec/limits/timeoutMs"),
        (("spec", "external"), "no", "/spec/external"),
        (("spec", "tags"), "nlp", "/spec/tags"),
        (("spec", "tags"), [1], "/spec/tags/0"),
        (("spec", "probe"), {"port": "80"}, "/spec/probe/port"),
        (("spec", "probe"), {"headers": {"x": 1}}, "/spec/probe/headers/x"),
        (("spec", "adapter"), {"headers": {"x": "a\r\nb: c"}}, "/spec/adapter/headers/x"),
        (("spec", "surprise"), 1, "/spec/surprise"),
        (("spec", "endpoints"), {"invoke": "ftp://127.0.0.1/"}, "/spec/endpoints/invoke"),
        (("spec", "endpoints"), {"invoke": "http://169.254.169.254/"}, "/spec/endpoints/invoke"),
        (("spec", "endpoints"), {"health": "ws://127.0.0.1/"}, "/spec/endpoints/health"),
        (("spec", "capabilities"), [], "/spec/capabilities"),
        (("spec", "capabilities"), [{"name": "a"}, {"name": "a"}], "/spec/capabilities/1/name"),
        (("spec", "capabilities"), [{"name": "a", "responseMapping": {"b": "c["}}], "/spec/capabilities/0/responseMapping/b"),
        (("spec", "adapter"), {"request": {"q": ["payload", "c["]}}, "/spec/adapter/request/q/1"),
        (("spec", "adapter"), {"response": "c["}, "/spec/adapter/response"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_and_nothing_is_registered(agent, manifest, at, value, pointer):
    part, key = at
    manifest[part][key] = value
    refused = agent("PUT", AGENT, manifest)
    assert (refused.status_code, refused.json()["code"]) == (422, "MANIFEST_INVALID"), refused.content
    assert pointer in errors_of(refused)
    assert not Agent.objects.filter(agent_id="a1").exists()


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://169.254.169.254/x"},
        {"$ref": "file:///etc/passwd"},
        {"$id": "http://example.com/s"},
        {"$schema": "http://example.com/dialect"},
        {"$ref": "#/$defs/x"},
        {"$ref": "#"},
        {"$dynamicRef": "#x"},
        {"properties": {"a": {"type": "string", "pattern": "("}}},
        {"properties": {"a": {"minimum": "3"}}},
        {"properties": {"a": {"multipleOf": 0}}},
        {"type": "strin"},
        {"a": "strin"},
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_used_is_refused_at_registration(agent, manifest, schema):
    manifest["spec"]["capabilities"][0]["inputSchema"] = schema
    refused = agent("PUT", AGENT, manifest)
    assert (refused.status_code, refused.json()["code"]) == (422, "MANIFEST_INVALID"), refused.content
    assert all(pointer.startswith("/spec/capabilities/0/inputSchema") for pointer in errors_of(refused))


@pytest.mark.parametrize(
    "raw",
    [
        b"x: 2024-13-45\n", b"? [a]\n: b\n", b"x: \x00\n", b"a: b: c\n", b"", b"# only a comment\n", b"word", b"[a]", b"\tx: 1",
        b"x: \xff", "x: 1".encode("utf-16"), b"x: &a [*a]\n", b"a: &a [1]\nb: *a\n", b"x: !!binary aGk=\n", b"x: !!set {a}\n",
        b"x: !!python/object/apply:os.system [id]\n", b"{1: a, null: b, true: c}", b"a: 1\na: 2\n", b"a: 1\n---\nb: 2\n",
        b"x: " + b"[" * 5000, b"a: &a {x: 1}\nb: {<<: *a}\n", b'x: "\\ud800"\n', b"x: .nan\n",
    ],
)  # fmt: skip
def test_yaml_that_cannot_be_used_is_a_400_with_its_place(agent, raw):
    refused = agent("PUT", AGENT, raw, "application/yaml")
    if raw == b"x: 2024-13-45\n":  # fine as YAML, no manifest
        assert (refused.status_code, refused.json()["code"]) == (422, "MANIFEST_INVALID")
        return
    assert (refused.status_code, refused.json()["code"]) == (400, "MALFORMED_YAML"), refused.content
    assert refused.json()["line"] >= 1
    assert refused.json()["column"] >= 1


def test_json_that_cannot_be_used_is_a_400(agent):
    for raw in (b'{"a":1,"a":2}', b"{", b"[1e400]", b"\xff", b'"\\u0000"', b""):
        refused = agent("PUT", AGENT, raw)
        assert (refused.status_code, refused.json()["code"]) == (400, "MALFORMED_JSON"), raw


def test_what_is_missing_is_a_warning_and_strict_refuses_it(agent, manifest):
    manifest["spec"]["capabilities"] = [{"name": "bare"}]
    refused = agent("PUT", AGENT + "?strict=1", manifest)
    assert (refused.status_code, refused.json()["code"]) == (422, "MANIFEST_INVALID")
    assert "/spec/capabilities/0/inputSchema" in errors_of(refused)
    accepted = agent("PUT", AGENT, manifest)
    codes = {warning["code"] for warning in accepted.json()["warnings"]}
    assert codes == {
        "NO_DESCRIPTION", "NO_INPUT_SCHEMA", "NO_OUTPUT_SCHEMA", "NO_REQUEST_SAMPLE", "SIDE_EFFECTS_UNDECLARED",
    }  # fmt: skip


def test_side_effects_without_lookup_are_a_warning(agent, manifest):
    manifest["spec"]["capabilities"][0]["sideEffects"] = True
    assert [w["code"] for w in agent("PUT", AGENT, manifest).json()["warnings"]] == ["NOT_RETRIED"]


def test_a_sample_that_does_not_fit_is_a_warning(agent, manifest):
    manifest["spec"]["capabilities"][0]["requestSample"] = {"text": 1}
    warnings = agent("PUT", AGENT, manifest).json()["warnings"]
    assert [(w["code"], w["pointer"]) for w in warnings] == [
        ("SAMPLE_INVALID", "/spec/capabilities/0/requestSample/text")
    ]


def test_shorthand_is_kept_as_a_json_schema(agent, manifest, namespace):
    agent("PUT", AGENT, manifest)
    schema = Agent.objects.get(namespace=namespace, agent_id="a1").capabilities.get().input_schema
    assert schema == {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def test_an_earlier_revision_can_be_compared_and_restored(agent, manifest):
    agent("PUT", AGENT, manifest)
    agent("PUT", AGENT, {**manifest, "metadata": {"name": "a1", "version": "2"}})
    diff = agent("GET", AGENT + "/revisions/1/diff").json()
    assert diff["patch"] == [{"op": "replace", "path": "/metadata/version", "value": "2"}]
    assert '-    "version": "1.0.0"' in diff["text"]
    assert agent("POST", AGENT + "/revisions/1/restore").json()["revision"] == 3
    assert agent("GET", AGENT).json()["version"] == "1.0.0"
    assert [r["revision"] for r in agent("GET", AGENT + "/revisions").json()["items"]] == [3, 2, 1]


def test_a_deleted_agent_is_gone_and_comes_back_by_put(agent, manifest):
    agent("PUT", AGENT, manifest)
    assert agent("DELETE", AGENT).status_code == 204
    assert [agent(method, AGENT).status_code for method in ("GET", "DELETE")] == [404, 404]
    back = agent("PUT", AGENT, manifest)
    assert (back.status_code, back.json()["revision"]) == (201, 1)


def test_a_number_out_of_range_in_yaml_is_refused(agent):
    raw = (YAML + "  limits: {maxConcurrency: 1e400}\n").encode()
    assert agent("PUT", AGENT, raw, "application/yaml").status_code == 400


def test_other_media_types_and_charsets_are_415(agent, manifest):
    raw = json.dumps(manifest).encode()
    for content_type in ("text/plain", "", "application/json; charset=ibm037", "application/json; charset=nope"):
        refused = agent("PUT", AGENT, raw, content_type)
        assert (refused.status_code, refused.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE"), content_type


def test_a_body_over_the_limit_is_413(agent, settings):
    refused = agent("PUT", AGENT, b" " * (settings.REACH_MAX_BODY_BYTES + 1))
    assert (refused.status_code, refused.json()["code"]) == (413, "BODY_TOO_LARGE")


@pytest.mark.django_db(transaction=True)
def test_fifty_equal_puts_at_once_are_one_revision(agent, manifest, namespace):
    barrier = threading.Barrier(10)

    def put(_: int) -> int:
        barrier.wait()
        try:
            return Api(agent.key)("PUT", AGENT, manifest).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        statuses = [status for _ in range(5) for status in pool.map(put, range(10))]
    assert sorted(statuses) == [200] * 49 + [201]
    assert Revision.objects.filter(agent__namespace=namespace).count() == 1


@pytest.mark.django_db(transaction=True)
def test_ten_different_puts_at_once_are_ten_revisions(agent, manifest):
    agent("PUT", AGENT, manifest)
    barrier = threading.Barrier(10)

    def put(number: int) -> int:
        barrier.wait()
        try:
            changed = {**manifest, "metadata": {"name": "a1", "version": f"2.{number}"}}
            return Api(agent.key)("PUT", AGENT, changed).json().get("revision", 0)
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        revisions = sorted(pool.map(put, range(10)))
    assert revisions == list(range(2, 12))


@pytest.mark.parametrize(
    ("probe", "errors"),
    [
        ({"type": "command", "command": "disk"}, {}),
        ({"type": "command", "command": "rm"}, {"/spec/probe/command": "COMMAND"}),
        ({"type": "http", "command": "rm"}, {"/spec/probe/command": "COMMAND"}),
        ({"type": "command"}, {"/spec/probe/command": "REQUIRED"}),
    ],
)
def test_a_probe_may_only_name_the_operators_commands(agent, manifest, settings, probe, errors):
    settings.REACH_PROBE_COMMANDS = {"disk": ["/bin/true"]}
    manifest["spec"]["probe"] = probe
    answer = agent("PUT", "/v1/agents/a1", manifest)
    assert (answer.status_code, errors_of(answer) if errors else {}) == (422 if errors else 201, errors)
