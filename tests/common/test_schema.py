"""JSON Schema: safe to keep, bounded to use, exact in what it names."""

import time
from decimal import Decimal

import pytest

from common import yaml
from common.schema import SchemaRefused, Validator, shorthand

DOUBLING = {f"a{i}": {"oneOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]} for i in range(20)}


def nested(levels, inner=True):
    schema = inner
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"$ref": "http://169.254.169.254/x"}}}, "/properties/a/$ref"),
        ({"$ref": "file:///etc/passwd"}, "/$ref"),
        ({"$ref": "other.json"}, "/$ref"),
        ({"$ref": "#/$defs/x"}, "/$ref"),
        ({"$ref": "#nowhere"}, "/$ref"),
        ({"$ref": 5}, "/$ref"),
        ({"$id": "http://example.com/x"}, "/$id"),
        ({"items": {"$id": "x"}}, "/items/$id"),
        ({"$schema": "http://example.com/meta"}, "/$schema"),
        ({"$dynamicRef": "#a"}, "/$dynamicRef"),
        ({"$ref": "#"}, ""),
        ({"properties": {"a": {"allOf": [{"$ref": "#/properties/a"}]}}}, "/properties/a/allOf/0"),
    ],
)
def test_a_reference_that_leads_out_nowhere_or_round_is_refused(schema, pointer):
    """Case 23."""
    with pytest.raises(SchemaRefused) as caught:
        Validator(schema)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "("},
        {"patternProperties": {"(": {}}},
        {"pattern": "(?=a)"},
        {"multipleOf": 0},
        {"minimum": "3"},
        {"type": "strin"},
        {"properties": 5},
        [],
        "x",
        nested(66),
        {"description": "x" * 300_000},
        {"minimum": float("nan")},
    ],
)
def test_an_impossible_schema_is_refused_when_made(schema):
    """Cases 15 and 24."""
    with pytest.raises(SchemaRefused):
        Validator(schema)


def test_a_structure_that_holds_itself_is_refused():
    """Case 21."""
    schema = {}
    schema["not"] = schema
    with pytest.raises(SchemaRefused):
        Validator(schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "(a+)+$"}, "a" * 40 + "!"),
        ({"pattern": "(a+)+$"}, "a" * 100_000 + "!"),
        ({"$defs": DOUBLING | {"a20": {"type": "string"}}, "$ref": "#/$defs/a0"}, 1),
        ({"uniqueItems": True}, [*range(100_000), 0]),
        ({"uniqueItems": True}, [{"a": i} for i in range(100_000)] + [{"a": 0}]),
        ({"items": {"type": "string"}}, list(range(100_000))),
        ({"items": {"anyOf": [{"type": "string"}] * 500}}, list(range(10_000))),
        ({"multipleOf": 1e-300, "type": "string"}, Decimal("1e-300")),
    ],
)
def test_checking_is_bounded_in_time(schema, value):
    """Case 24."""
    validator = Validator(schema)
    started = time.thread_time()
    assert validator.errors(value)
    assert time.thread_time() - started < 1.5


def test_a_schema_that_doubles_with_every_level_of_the_value_is_bounded():
    """Case 24."""
    branch = {"properties": {"a": {"$ref": "#"}, "b": False}}
    value = {"b": 1}
    for _ in range(60):
        value = {"a": value}
    started = time.thread_time()
    assert Validator({"anyOf": [branch, dict(branch)]}).errors(value)
    assert time.thread_time() - started < 1


@pytest.mark.parametrize(
    "schema",
    [{"multipleOf": 1e-300}, {"pattern": r"\p{L}"}, True, {}, {"properties": {"$id": {}, "$ref": {"type": "integer"}}}],
)
def test_odd_but_valid_schemas_are_kept(schema):
    """Case 24."""
    assert isinstance(Validator(schema).ok({"$ref": 1}), bool)


@pytest.mark.parametrize(
    ("schema", "value", "error"),
    [
        ({"required": ["target"]}, {}, ("/target", "REQUIRED")),
        ({"additionalProperties": False}, {"surprise": 1}, ("/surprise", "ADDITIONAL_PROPERTIES")),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"surprise": 1},
            ("/surprise", "ADDITIONAL_PROPERTIES"),
        ),
        ({"properties": {"a": {"additionalProperties": False}}}, {"a": {"b": 1}}, ("/a/b", "ADDITIONAL_PROPERTIES")),
        ({"unevaluatedItems": False}, [7], ("", "UNEVALUATED_ITEMS")),
        ({"properties": {"a": False}}, {"a": 1}, ("/a", "FALSE_SCHEMA")),
        ({"unevaluatedProperties": False}, {"x/y": 1}, ("/x~1y", "UNEVALUATED_PROPERTIES")),
        ({"properties": {"a": {"items": {"maxLength": 2}}}}, {"a": ["x", "xyz"]}, ("/a/1", "MAX_LENGTH")),
        ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, ("/abc", "PROPERTY_NAMES")),
        ({"type": "object"}, [], ("", "TYPE")),
        ({"properties": {"n": {"minimum": 2}}}, {"n": Decimal("1.5")}, ("/n", "MINIMUM")),
        (
            {"properties": {"child": {"$ref": "#"}, "v": {"type": "integer"}}},
            {"child": {"v": "x"}},
            ("/child/v", "TYPE"),
        ),
    ],
)
def test_the_pointer_names_the_wrong_member_itself(schema, value, error):
    (found,) = Validator(schema).errors(value)
    assert (found["pointer"], found["code"]) == error


def test_a_message_says_what_is_and_what_ought_to_be_in_few_words():
    (found,) = Validator({"maxLength": 3}).errors("x" * 10_000)
    assert found["message"].endswith("must have at most 3 characters")
    assert len(found["message"]) < 160


def test_no_more_errors_than_asked_for():
    assert len(Validator({"items": {"type": "string"}}).errors(list(range(50)), limit=7)) == 7


def test_numbers_are_compared_exactly_and_by_value():
    assert Validator({"const": 1}).ok(Decimal("1.0"))
    assert Validator({"type": "integer"}).ok(Decimal("1.0"))
    assert not Validator({"const": 9007199254740993}).ok(9007199254740992)
    assert not Validator({"const": 1}).ok(True)


def test_values_and_schemas_from_yaml_work():
    schema = yaml.parse(b"properties: {n: {maximum: 1.5}}")
    assert Validator(schema).ok(yaml.parse(b"n: 1.50"))
    assert not Validator(schema).ok(yaml.parse(b"n: 1.51"))


def test_shorthand_becomes_a_schema():
    assert shorthand({"a": "string", "b": "int?", "c": {"d": "float"}, "type": "string?", "title": "string"}) == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": {"type": "object", "properties": {"d": {"type": "number"}}, "required": ["d"]},
            "type": {"type": "string"},
            "title": {"type": "string"},
        },
        "required": ["a", "c", "title"],
    }


@pytest.mark.parametrize(
    "schema", [{}, {"type": "string"}, {"type": ["string", "null"]}, {"properties": {"a": {}}}, {"$ref": "#/$defs/a"}]
)
def test_json_schema_is_no_shorthand(schema):
    assert shorthand(schema) is schema


@pytest.mark.parametrize(
    ("fields", "pointer"), [({"a": "strin"}, "/a"), ({"a": 5}, "/a"), ({"a": {"b/c": ["x"]}}, "/a/b~1c")]
)
def test_shorthand_with_an_unknown_type_is_refused(fields, pointer):
    with pytest.raises(SchemaRefused) as caught:
        shorthand(fields)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({"type": "number"}, True),
        ({"type": "number", "maximum": 1}, False),
        ({"type": "string"}, False),
        ({"enum": [1.5]}, True),
        ({"multipleOf": 0.5}, True),
        ({"oneOf": [{"type": "number"}, {"type": "string"}]}, True),
    ],
)
def test_a_number_of_yaml_is_judged_as_a_number(schema, fits):
    value = yaml.parse(b"a: 1.50")
    validator = Validator({"properties": {"a": schema}})
    assert (validator.ok(value), validator.errors(value) == []) == (fits, fits)
