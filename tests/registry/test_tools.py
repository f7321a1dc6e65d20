"""Abilities as tools, checked against the published formats."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, validate

from registry.catalog import Entry, Offer
from registry.tools import ability_of, mcp_name, mcp_tool, openai_name, openai_tool, parameters

NAMES = st.text(st.sampled_from("ab._-:工"), min_size=1, max_size=70)
# OpenAI's API reference, "Create chat completion", tools: a function's name, description, parameters, strict.
OPENAI_TOOL = {
    "type": "object",
    "required": ["type", "function"],
    "additionalProperties": False,
    "properties": {
        "type": {"const": "function"},
        "function": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
                "description": {"type": "string", "maxLength": 1024},
                "parameters": {
                    "type": "object",
                    "required": ["type", "properties"],
                    "properties": {"type": {"const": "object"}, "properties": {"type": "object"}},
                    "not": {"anyOf": [{"required": [word]} for word in ("anyOf", "oneOf", "allOf", "enum", "not")]},
                },
                "strict": {"type": ["boolean", "null"]},
            },
        },
    },
}
_OF_OBJECTS = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"const": "object"},
        "properties": {"type": "object"},
        "required": {"type": "array", "items": {"type": "string"}},
    },
}
# The Model Context Protocol's schema, revision 2025-11-25: Tool, ToolAnnotations, and its rule for names.
MCP_TOOL = {
    "type": "object",
    "required": ["name", "inputSchema"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": r"^[A-Za-z0-9_.-]{1,128}$"},
        "title": {"type": "string"},
        "description": {"type": "string"},
        "inputSchema": _OF_OBJECTS,
        "outputSchema": _OF_OBJECTS,
        "annotations": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "title": {"type": "string"},
                "readOnlyHint": {"type": "boolean"},
                "destructiveHint": {"type": "boolean"},
                "idempotentHint": {"type": "boolean"},
                "openWorldHint": {"type": "boolean"},
            },
        },
        "_meta": {"type": "object"},
    },
}
SCHEMAS: list[Any] = [
    None,
    True,
    {},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
    {"type": ["object", "null"]},
    {"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]},
    {"allOf": [{"required": ["a"]}, {"$ref": "#/$defs/b"}], "$defs": {"b": {"properties": {"b": {}}}}},
    {"$ref": "#/$defs/in", "$defs": {"in": {"type": "object", "properties": {"n": {"type": "integer"}}}}},
    {"$ref": "#"},
    {"enum": [{}]},
    {"type": "string"},
]


def entry(ability="ticket.classify", input_schema=None, **spec):
    from registry.models import Agent, Capability

    agent = Agent(agent_id="a1", display_name="Ticket classifier")
    row = Capability(
        agent=agent,
        name="classify",
        description="Sorts",
        input_schema=input_schema,
        output_schema=input_schema,
        spec=spec,
    )
    return Entry(Offer(ability, True, "least_conn", (("a1", "classify"),), True), (row,))


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@pytest.mark.parametrize("ability", ["ticket.classify", "x" * 200, "工单.分类", "a b/c"])
def test_tools_are_as_the_formats_want_them(schema, ability):
    one = entry(ability, schema)
    validate(openai_tool(one), OPENAI_TOOL, Draft202012Validator)
    validate(mcp_tool(one), MCP_TOOL, Draft202012Validator)
    Draft202012Validator.check_schema(openai_tool(one)["function"]["parameters"])
    Draft202012Validator.check_schema(mcp_tool(one)["inputSchema"])


@given(NAMES, NAMES)
def test_different_abilities_never_share_a_tools_name(one, other):
    assert (openai_name(one) == openai_name(other)) == (one == other)
    assert (mcp_name(one) == mcp_name(other)) == (one == other)


@given(NAMES)
def test_a_tools_name_leads_back_to_its_ability(ability):
    assert ability_of(openai_name(ability), ["another", ability]) == ability
    assert ability_of(openai_name(ability), ["another"]) in (None, "another")


@pytest.mark.parametrize(
    ("ability", "name"),
    [("ticket.classify", "ticket__classify"), ("a_b", "a_b"), ("a-b", "a-b"), ("a__b", "a_-5f-_b"), ("a:b", "a_-3a-b")],
)
def test_tools_names_stay_readable(ability, name):
    assert openai_name(ability) == name
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", name)


def test_a_plain_object_keeps_its_whole_schema():
    assert parameters(SCHEMAS[3]) == SCHEMAS[3]


def test_alternatives_become_one_object_with_what_all_require():
    schema = {"oneOf": [
        {"properties": {"id": {}, "a": {}}, "required": ["id", "a"]}, {"properties": {"id": {}}, "required": ["id"]},
    ]}  # fmt: skip
    assert parameters(schema) == {"type": "object", "properties": {"id": {}, "a": {}}, "required": ["id"]}


def test_mcp_hints_say_whether_something_changes():
    harmless, writing, repeatable = entry(), entry(sideEffects=True), entry(sideEffects=True, idempotent=True)
    shown = [mcp_tool(one)["annotations"] for one in (harmless, writing, repeatable)]
    assert [(hints["readOnlyHint"], hints["idempotentHint"]) for hints in shown] == [
        (True, True), (False, False), (False, True),
    ]  # fmt: skip
    assert mcp_tool(harmless)["title"] == "Ticket classifier · classify"
