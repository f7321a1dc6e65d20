"""Abilities as tools of a model: an entry of OpenAI's `tools`, and one of MCP's `tools/list`. Pure.

OpenAI's names take letters, digits, `_` and `-` only, up to 64; MCP's a dot too, up to 128. A name is written so that
it can be read back, whatever other abilities there are: a dot becomes `__`, every other foreign character and an
underscore that could be misread becomes `_-` hexadecimal code `-`. Names that get too long end with `_-` and the
beginning of their SHA-256 instead; they are found back by comparing.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from registry.catalog import Entry

LONGEST_OPENAI, LONGEST_MCP = 64, 128
LONGEST_DESCRIPTION = 1024
DIGEST = 12
_KEPT = re.compile(r"[A-Za-z0-9-]")
_CODED = re.compile(r"__|_-([0-9a-f]{1,6})-")
_CHOICES = ("anyOf", "oneOf", "allOf")
_NOT_AT_THE_TOP = (*_CHOICES, "enum", "const", "not", "if", "then", "else")


def openai_tool(entry: Entry) -> dict[str, Any]:
    """An ability as an entry of OpenAI's `tools`."""
    return {
        "type": "function",
        "function": {
            "name": openai_name(entry.ability),
            "description": _description(entry),
            "parameters": parameters(entry.input_schema),
        },
    }


def mcp_tool(entry: Entry) -> dict[str, Any]:
    """An ability as an entry of MCP's `tools/list`; an output schema is named where it is one of objects."""
    output = _followed(entry.output_schema)
    named = {"title": entry.title} if entry.title else {}
    fits = {"outputSchema": {**output, "type": "object"}} if _is_of_objects(output) else {}
    return {
        "name": mcp_name(entry.ability),
        **named,
        "description": _description(entry),
        "inputSchema": {"properties": {}, **_followed(entry.input_schema), "type": "object"},
        **fits,
        "annotations": {
            **named,
            "readOnlyHint": not entry.side_effects,
            "idempotentHint": entry.idempotent or not entry.side_effects,
        },
    }


def openai_name(ability: str) -> str:
    """The ability's name as OpenAI takes it."""
    return _fitted(ability, _coded(ability, "__"), LONGEST_OPENAI)


def mcp_name(ability: str) -> str:
    """The ability's name as MCP takes it."""
    return _fitted(ability, _coded(ability, "."), LONGEST_MCP)


def ability_of(name: str, abilities: Iterable[str]) -> str | None:
    """Which of the abilities goes by this name with OpenAI; None if none does."""
    said = _CODED.sub(lambda found: "." if found[1] is None else chr(int(found[1], 16) % 0x110000), name)
    return next((one for one in abilities if one == said or openai_name(one) == name), None)


def parameters(schema: Any) -> dict[str, Any]:
    """The schema as OpenAI wants it: of an object, without a choice at its top.

    Alternatives become one object with every property that one of them knows, and those required that all of them
    require: whatever fits the original fits this.
    """
    found = _followed(schema)
    merged: dict[str, Any] = {key: value for key, value in found.items() if key not in _NOT_AT_THE_TOP}
    for word in _CHOICES:
        branches = [_within(branch, found) for branch in found.get(word) or ()]
        properties = {name: value for branch in branches for name, value in (branch.get("properties") or {}).items()}
        merged["properties"] = {**properties, **merged.get("properties", {})}
        sets = [set(branch.get("required") or ()) for branch in branches]
        shared = (set.union if word == "allOf" else set.intersection)(*sets) if sets else set()
        if required := sorted(shared | set(merged.get("required") or ())):
            merged["required"] = required
        if branches:
            merged.pop("additionalProperties", None)
    return {**merged, "type": "object", "properties": merged.get("properties", {})}


def _coded(ability: str, dot: str) -> str:
    return "".join(_character(one, following, dot) for one, following in zip(ability, [*ability[1:], ""], strict=True))


def _character(one: str, following: str, dot: str) -> str:
    if _KEPT.fullmatch(one) or (one == "_" and following not in ("_", ".", "-")):
        return one
    if one == "." or (one == "_" and dot == "." and following != "-"):
        return dot if one == "." else one
    return f"_-{ord(one):x}-"


def _fitted(ability: str, coded: str, longest: int) -> str:
    if len(coded) <= longest:
        return coded
    digest = hashlib.sha256(ability.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST]
    return f"{coded[: longest - DIGEST - 2]}_-{digest}"


def _description(entry: Entry) -> str:
    text = entry.description or entry.ability
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[: LONGEST_DESCRIPTION - 1]}…"


def _followed(schema: Any) -> dict[str, Any]:
    """The schema with a reference at its top replaced by what it means; anything but an object says nothing."""
    return _within(schema, schema) if isinstance(schema, dict) else {}


def _within(schema: Any, whole: dict[str, Any]) -> dict[str, Any]:
    seen: set[str] = set()
    while isinstance(schema, dict) and isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = _at(whole, reference)
        schema = {**target, **beside} if isinstance(target, dict) else beside
    return schema if isinstance(schema, dict) else {}


def _at(whole: Any, reference: str) -> Any:
    place = whole
    for step in reference.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        place = place.get(key) if isinstance(place, dict) else None
    return place if reference.startswith("#") else None


def _is_of_objects(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "object" or ("type" not in schema and "properties" in schema)
