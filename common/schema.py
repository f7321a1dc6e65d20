"""JSON Schema (draft 2020-12) for payloads: bounded in time, and never a look at the network or a file.

Shorthand: `{"ticketTitle": "string", "score": "float?"}` lists fields and their types. A mapping is shorthand when it
is not empty, uses no JSON Schema keyword as a key with a value that such a keyword can have, and each value is the
name of a type (string, integer, int, float, number, boolean, bool, object, array, each with `?` when optional) or
shorthand again. So `{"type": "string"}` is JSON Schema, as is everything that names `type`, `properties`, `$ref` and
the like.
"""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

from common.encoding import clean_text, dumps, pointer
from common.yaml import plain

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_DEPTH = 64
MAX_BYTES = 256 * 1024
MAX_PARTS = 2000
MAX_CHECKS = 50_000
SHOWN = 100

_ONE = frozenset(
    [
        "additionalProperties",
        "unevaluatedProperties",
        "items",
        "unevaluatedItems",
        "contains",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
    ]
)
_MANY = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_REPEATING = (
    "items", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties", "patternProperties",
    "propertyNames",
)  # fmt: skip
_IN_PLACE = frozenset({"not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas"})
_REFUSED = {"$id", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"}
_TYPES = {
    "string": "string",
    "integer": "integer",
    "int": "integer",
    "float": "number",
    "number": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "object": "object",
    "array": "array",
}
_KEYWORDS = frozenset(
    [
        "$schema",
        "$id",
        "$ref",
        "$defs",
        "$anchor",
        "$comment",
        "definitions",
        "type",
        "enum",
        "const",
        "properties",
        "patternProperties",
        "required",
        "items",
        "additionalProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "title",
        "description",
        "default",
        "examples",
    ]
)
_KEYWORDS_OF_TEXT = frozenset({"type", "$ref", "$schema", "$id", "$anchor", "$comment", "format", "pattern"})


class SchemaRefused(ValueError):
    """A schema that is not used here; `reason` for its author, `pointer` to the place in the schema."""

    def __init__(self, reason: str, pointer: str = "") -> None:
        self.reason, self.pointer = reason, pointer
        super().__init__(f"{reason} (at {pointer or 'the root'})")


class Validator:
    """A schema ready for use. Raises SchemaRefused when it is not a safe, valid one."""

    def __init__(self, schema: dict[str, Any] | bool, *, name: str = "") -> None:
        self.name = name
        text = _checked_text(schema)
        walk = _Walk(schema)
        walk.check()
        self._parts, self._branches = walk.parts(), walk.branches
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                text, retriever=_retrieve_nothing, pattern_options=jsonschema_rs.RegexOptions(), validate_formats=False
            )
        except jsonschema_rs.ValidationError as error:
            raise SchemaRefused(clean_text(error.message, 300), pointer(error.instance_path)) from None
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise SchemaRefused(clean_text(str(error).split("\n")[0], 300)) from None

    def ok(self, instance: Any) -> bool:
        """Whether the value fits."""
        try:
            if self._validator.is_valid(instance):
                return True
        except ValueError:
            pass
        # YAML's numbers remember their spelling, and the validator takes them for no numbers or for an error.
        return self._validator.is_valid(plain(instance))

    def errors(self, instance: Any, limit: int = 20) -> list[dict[str, str]]:
        """At most `limit` errors as {"pointer", "code", "message"}; the pointer names the wrong, unexpected or missing
        member itself, the code is the schema keyword as MAX_LENGTH."""
        if self.ok(instance):
            return []
        value = plain(instance)
        found: list[dict[str, str]] = []
        for error in self._explained(value):
            found.extend(_described(error, value))
            if len(found) >= limit:
                break
        return found[:limit] or [{"pointer": "", "code": "SCHEMA", "message": "does not fit the schema"}]

    def _explained(self, value: Any) -> Iterator[jsonschema_rs.ValidationError]:
        """The validator's errors, as far as finding them stays cheap: all, only the first, or none."""
        # The validator remembers "fits or not" while it works, but it collects errors anew for every branch and part.
        if self._parts > MAX_PARTS:
            return
        if self._parts * _count(value, MAX_CHECKS) <= MAX_CHECKS:
            yield from self._validator.iter_errors(value)
        elif not self._branches:
            try:
                self._validator.validate(value)
            except jsonschema_rs.ValidationError as error:
                yield error


def _count(value: Any, most: int) -> int:
    """How many values a value holds, itself included; counting ends at `most`."""
    todo, count = [value], 0
    while todo and count < most:
        node = todo.pop()
        count += 1
        if isinstance(node, dict | list):
            todo.extend(_items(node))
    return count


def _retrieve_nothing(uri: str) -> Any:
    raise ValueError("only references within the schema are followed")


def _checked_text(schema: Any) -> str:
    """The schema as JSON, within the limits of depth and size."""
    if not isinstance(schema, dict | bool):
        raise SchemaRefused("a schema is an object")
    if _deeper_than(schema, MAX_DEPTH):
        raise SchemaRefused(f"the schema is nested deeper than {MAX_DEPTH} levels")
    try:
        text = dumps(schema)
    except (TypeError, ValueError):
        raise SchemaRefused("the schema is not JSON") from None
    if len(text) > MAX_BYTES:
        raise SchemaRefused(f"the schema is over {MAX_BYTES // 1024} KiB")
    return text.decode()


def _deeper_than(value: Any, levels: int) -> bool:
    """Looks level by level, so that a structure of any depth, or one that holds itself, ends."""
    level = [value]
    for _ in range(levels + 1):
        level = [item for node in level if isinstance(node, dict | list) for item in _items(node)]
        if len(level) > MAX_BYTES:
            raise SchemaRefused("the schema has too many parts")
        if not level:
            return False
    return any(isinstance(node, dict | list) for node in level)


def _items(node: dict[str, Any] | list[Any]) -> Iterator[Any]:
    return iter(node.values() if isinstance(node, dict) else node)


class _Walk:
    """A schema's parts as a graph: which part is applied to the same value, which to a part of it."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.anchors: dict[str, tuple[Any, str]] = {}
        self.nodes: dict[int, tuple[Any, str]] = {}
        self.same_value: dict[int, list[int]] = {}
        self.part_of_value: dict[int, list[int]] = {}

    def check(self) -> None:
        """Raise SchemaRefused for references that lead out, nowhere or round in a circle."""
        todo = [(self.root, "")]
        references: list[tuple[int, str, str]] = []
        while todo:
            node, at = todo.pop()
            if not isinstance(node, dict) or id(node) in self.nodes:
                continue
            self.nodes[id(node)] = (node, at)
            self._refuse_keywords(node, at)
            if "$anchor" in node:
                self.anchors[str(node["$anchor"])] = (node, at)
            children = list(_children(node, at))
            self.same_value[id(node)] = [id(child) for child, _, in_place in children if in_place]
            self.part_of_value[id(node)] = [id(child) for child, _, in_place in children if not in_place]
            todo += [(child, where) for child, where, _ in children]
            if "$ref" in node:
                references.append((id(node), node["$ref"], f"{at}/$ref"))
                target = self._pointed(node["$ref"])
                todo += [target] if target else []
        for source, reference, at in references:
            target = self._pointed(reference) or self.anchors.get(str(reference)[1:])
            if target is None:
                raise SchemaRefused(
                    f"the reference {clean_text(str(reference), SHOWN)} leads nowhere in this schema", at
                )
            self.same_value[source].append(id(target[0]))
        self._refuse_circles()

    def _refuse_keywords(self, node: dict[str, Any], at: str) -> None:
        for keyword in _REFUSED & node.keys():
            raise SchemaRefused(
                f"{keyword} is not used here; refer to parts of this schema by a local $ref", f"{at}/{keyword}"
            )
        if "$schema" in node and str(node["$schema"]).rstrip("#") != DRAFT:
            raise SchemaRefused(f"the only dialect read here is {DRAFT}", f"{at}/$schema")
        reference = node.get("$ref", "#")
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise SchemaRefused("only references within the schema (#/…) are followed", f"{at}/$ref")

    def _pointed(self, reference: str) -> tuple[Any, str] | None:
        """The part that `#` or `#/a/b` names."""
        if reference != "#" and not reference.startswith("#/"):
            return None
        node = self.root
        for step in reference[2:].split("/") if len(reference) > 1 else ():
            key = _unescaped(step)
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isascii() and key.isdigit() and len(key) < 7 and int(key) < len(node):
                node = node[int(key)]
            else:
                return None
        return node, reference[1:]

    def _refuse_circles(self) -> None:
        state: dict[int, int] = {}
        for start in self.nodes:
            stack = [(start, iter(self.same_value.get(start, ())))] if start not in state else []
            state.setdefault(start, 1)
            while stack:
                node, children = stack[-1]
                child = next(children, None)
                if child is None:
                    state[node] = 2
                    stack.pop()
                elif state.get(child) == 1:
                    raise SchemaRefused(
                        "a reference leads back to itself without going into the value", self.nodes[node][1]
                    )
                elif child not in state:
                    state[child] = 1
                    stack.append((child, iter(self.same_value.get(child, ()))))

    def parts(self) -> int:
        """How many parts the schema has with every reference written out; over MAX_PARTS when they are too many, or
        when the schema holds itself more than once and so may double with every level of a value."""
        count, circles = 0, 0
        todo: list[tuple[int, tuple[int, ...]]] = [(id(self.root), ())]
        while todo:
            node, above = todo.pop()
            if node in above:
                circles += 1
                continue
            count += 1
            if count > MAX_PARTS or circles > 1 or len(above) > MAX_DEPTH:
                return MAX_PARTS + 1
            inside = (*above, node)
            todo += [(child, inside) for child in self.same_value.get(node, []) + self.part_of_value.get(node, [])]
        return MAX_PARTS + 1 if circles > 1 else count

    @property
    def branches(self) -> bool:
        """Whether a choice may have as many errors as a value has parts: they are collected for each alternative."""
        choices = [node.get(name) for node, _ in self.nodes.values() for name in ("anyOf", "oneOf")]
        todo = [id(one) for choice in choices if isinstance(choice, list) for one in choice]
        seen: set[int] = set()
        while todo:
            part = todo.pop()
            if part in seen or part not in self.nodes:
                continue
            seen.add(part)
            node = self.nodes[part][0]
            if any(isinstance(node.get(keyword), dict) for keyword in _REPEATING):
                return True
            todo += self.same_value[part] + self.part_of_value[part]
        return False


def _unescaped(step: str) -> str:
    return unquote(step).replace("~1", "/").replace("~0", "~")


def _children(node: dict[str, Any], at: str) -> Iterator[tuple[Any, str, bool]]:
    """(part, pointer, whether it applies to the same value) for each schema within a schema."""
    for keyword, value in node.items():
        here, in_place = at + pointer((keyword,)), keyword in _IN_PLACE
        if keyword in _ONE:
            yield value, here, in_place
        elif keyword in _MANY and isinstance(value, list):
            yield from ((child, f"{here}/{index}", in_place) for index, child in enumerate(value))
        elif keyword in _NAMED and isinstance(value, dict):
            yield from ((child, here + pointer((name,)), in_place) for name, child in value.items())


_OUGHT: dict[str, Callable[[dict[str, Any]], str]] = {
    "type": lambda k: "must be " + " or ".join(k["types"]),
    "enum": lambda k: "must be one of " + _short(k["options"]),
    "const": lambda k: "must be " + _short(k["expected_value"]),
    "minLength": lambda k: f"must have at least {k['limit']} characters",
    "maxLength": lambda k: f"must have at most {k['limit']} characters",
    "minItems": lambda k: f"must have at least {k['limit']} items",
    "maxItems": lambda k: f"must have at most {k['limit']} items",
    "minProperties": lambda k: f"must have at least {k['limit']} members",
    "maxProperties": lambda k: f"must have at most {k['limit']} members",
    "minimum": lambda k: f"must be at least {k['limit']}",
    "maximum": lambda k: f"must be at most {k['limit']}",
    "exclusiveMinimum": lambda k: f"must be more than {k['limit']}",
    "exclusiveMaximum": lambda k: f"must be less than {k['limit']}",
    "multipleOf": lambda k: f"must be a multiple of {k['multiple_of']}",
    "pattern": lambda k: f"must match the pattern {_short(k['pattern'])}",
    "uniqueItems": lambda k: "must not hold the same item twice",
    "contains": lambda k: "must hold an item of the kind asked for",
    "anyOf": lambda k: "must fit one of the allowed forms",
    "oneOf": lambda k: "must fit exactly one of the allowed forms",
    "not": lambda k: "must not be of the forbidden form",
    "falseSchema": lambda k: "must not be there",
}


def _described(error: jsonschema_rs.ValidationError, root: Any) -> Iterator[dict[str, str]]:
    """One or more errors of ours for one of the validator's."""
    keyword, detail, path = error.kind.name, error.kind.as_dict(), list(error.instance_path)
    code = _upper_snake(keyword)
    if keyword == "required":
        yield _error([*path, detail["property"]], code, "is missing; it is required")
    elif keyword in ("additionalProperties", "unevaluatedProperties"):
        yield from (_unexpected([*path, name], code) for name in detail["unexpected"])
    elif keyword == "falseSchema" and error.schema_path[-1] == "additionalProperties":
        # Where no property is declared at all, the validator does not say which one it met.
        yield from (_unexpected([*path, name], "ADDITIONAL_PROPERTIES") for name in _at(root, path))
    elif keyword == "unevaluatedItems":
        yield _error(path, code, "holds items that are not expected here")
    elif keyword == "propertyNames":
        inner = detail["error"]
        yield _error([*path, str(inner.instance)], code, f"is no allowed name: {clean_text(inner.message, SHOWN)}")
    else:
        ought = _OUGHT[keyword](detail) if keyword in _OUGHT else clean_text(error.message, SHOWN)
        yield _error(path, code, f"is {_short(error.instance)}; {ought}")


def _unexpected(path: list[str | int], code: str) -> dict[str, str]:
    return _error(path, code, "is not expected here; remove it or check its name")


def _at(value: Any, path: list[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _error(path: list[str | int], code: str, message: str) -> dict[str, str]:
    return {"pointer": pointer(path), "code": code, "message": message}


def _upper_snake(keyword: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in keyword).upper()


def _short(value: Any) -> str:
    """A value as JSON of at most 100 characters; of a big one only its kind and size."""
    if isinstance(value, dict | list) and len(value) > SHOWN:
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    if isinstance(value, str):
        value = value[: SHOWN + 1]
    return clean_text(dumps(value).decode(), SHOWN)


def shorthand(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema from shorthand (see above); JSON Schema is given back as it is. Fields not listed are allowed.

    Raises SchemaRefused where a mapping is neither.
    """
    if not _is_shorthand(schema):
        return schema
    return _from_shorthand(schema, ())


def _is_shorthand(schema: dict[str, Any]) -> bool:
    return bool(schema) and not any(_is_keyword(key, value) for key, value in schema.items())


def _is_keyword(key: str, value: Any) -> bool:
    """Whether a member reads as JSON Schema: `type: string` does, a field called `title: string` does not."""
    if key not in _KEYWORDS:
        return False
    if key == "type":
        return isinstance(value, list) or value in {*_TYPES.values(), "null"}
    return key in _KEYWORDS_OF_TEXT or not (isinstance(value, str) and value.removesuffix("?") in _TYPES)


def _from_shorthand(fields: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    if len(path) > MAX_DEPTH:
        raise SchemaRefused(f"the schema is nested deeper than {MAX_DEPTH} levels", pointer(path))
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, kind in fields.items():
        if isinstance(kind, str) and kind.removesuffix("?") in _TYPES:
            properties[name] = {"type": _TYPES[kind.removesuffix("?")]}
        elif isinstance(kind, dict):
            properties[name] = _from_shorthand(kind, (*path, name)) if _is_shorthand(kind) else kind
        else:
            known = ", ".join(_TYPES)
            raise SchemaRefused(
                f"{_short(kind)} is no type; use one of {known}, with ? when optional", pointer((*path, name))
            )
        if not (isinstance(kind, str) and kind.endswith("?")):
            required.append(name)
    return (
        {"type": "object", "properties": properties, "required": required}
        if required
        else {"type": "object", "properties": properties}
    )
