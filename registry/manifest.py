"""Reading a manifest: from the bytes an owner sent to a checked document, or to every error with its pointer. Pure."""

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import jmespath

from common import json, yaml
from common.encoding import dumps, pointer
from common.errors import ManifestInvalid
from common.schema import SchemaRefused, Validator, shorthand
from registry.manifest_schema import MANIFEST

FieldError = dict[str, str]
CheckAddress = Callable[[str, tuple[str, ...]], str | None]  # (url, schemes) → what is wrong with it

ADDRESS_SCHEMES = {"invoke": ("http", "https", "ws", "wss")}
_VALIDATOR = Validator(MANIFEST, name="manifest")


@dataclass(frozen=True)
class Rules:
    """What this platform allows: addresses, the names of `commands` that probes may run, and of `functions`."""

    check_address: CheckAddress
    commands: Collection[str] = ()
    functions: Collection[str] = ()


@dataclass(frozen=True)
class CapabilityDocument:
    """One capability with its schemas expanded; `spec` is its part of the manifest."""

    name: str
    description: str
    input_schema: Any
    output_schema: Any
    spec: dict[str, Any]


@dataclass(frozen=True)
class Manifest:
    """A checked manifest. `digest` is the same for all spellings of the same content."""

    document: dict[str, Any]
    digest: str
    capabilities: tuple[CapabilityDocument, ...]
    warnings: tuple[FieldError, ...]

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.document["spec"]
        return spec


def read(raw: bytes, content_type: str, agent_id: str, *, strict: bool, rules: Rules) -> Manifest:
    """The manifest in a request's body, JSON or (`content_type` has "yaml") YAML.

    Raises MalformedJson, MalformedYaml, or ManifestInvalid with all errors; `strict` makes warnings errors.
    """
    if "yaml" in content_type:
        found = as_written(yaml.parse(raw), MANIFEST)
    else:
        found = json.parse_object(raw.removeprefix(b"\xef\xbb\xbf"))
    return check(found, agent_id, strict=strict, rules=rules)


def check(found: Any, agent_id: str, *, strict: bool, rules: Rules) -> Manifest:
    """The manifest of a parsed document. Raises ManifestInvalid with all errors."""
    errors = _VALIDATOR.errors(found, limit=50)
    if errors:
        raise ManifestInvalid(errors)
    document = plain_numbers(found)
    schemas, problems = _schemas(found["spec"]["capabilities"])
    problems += [
        *_wrong_name(document, agent_id),
        *_doubles(document),
        *_mappings(document),
        *adapter_problems(document["spec"]),
    ]
    problems += [*_addresses(document["spec"], rules.check_address), *_command(document["spec"], rules.commands)]
    problems += _functions(document, rules.functions)
    if problems:
        raise ManifestInvalid(problems)
    capabilities = tuple(
        CapabilityDocument(
            name=spec["name"],
            description=spec.get("description", ""),
            input_schema=schemas[index, "inputSchema"],
            output_schema=schemas[index, "outputSchema"],
            spec=spec,
        )
        for index, spec in enumerate(document["spec"]["capabilities"])
    )
    warnings = tuple(_warnings(document["spec"], capabilities))
    if strict and warnings:
        raise ManifestInvalid(list(warnings), "strict mode refuses what would otherwise be a warning")
    return Manifest(document, digest_of(document), capabilities, warnings)


def digest_of(document: dict[str, Any]) -> str:
    """SHA-256 of the document with sorted keys: equal for JSON and YAML, CRLF and LF, 1 and 1.0."""
    return hashlib.sha256(dumps(_sorted(document))).hexdigest()


def as_written(value: Any, schema: Any) -> Any:
    """The same tree with numbers as their spelling where the schema wants text (YAML's `version: 1.10` is "1.10"), and
    as plain ones elsewhere.

    Only YAML remembers spellings; a JSON number stays one, and is then refused.
    """
    if isinstance(value, yaml.Number):
        return value.source if _is_text(schema) else Decimal(value)
    if type(value) is int and _is_text(schema):
        return str(value)
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties") or {}
        return {key: as_written(item, known.get(key, others)) for key, item in value.items()}
    if isinstance(value, list):
        return [as_written(item, schema.get("items", {})) for item in value]
    return value


def _is_text(schema: Any) -> bool:
    kind = schema.get("type")
    return kind == "string" or (isinstance(kind, list) and "string" in kind)


def plain_numbers(value: Any) -> Any:
    """The same tree with every number as int or float, as a JSON column holds it; whole ones are ints."""
    if isinstance(value, dict):
        return {key: plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_numbers(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) < 2**63 else float(value)
    return value


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _schemas(capabilities: list[dict[str, Any]]) -> tuple[dict[tuple[int, str], Any], list[FieldError]]:
    """Every capability's schemas with shorthand expanded, each compiled once so that a bad one is found now."""
    found: dict[tuple[int, str], Any] = {}
    errors: list[FieldError] = []
    for index, spec in enumerate(capabilities):
        for key in ("inputSchema", "outputSchema"):
            given = spec.get(key)
            found[index, key] = given
            if given is None:
                continue
            try:
                expanded = shorthand(given) if isinstance(given, dict) else given
                Validator(expanded, name=key)
                found[index, key] = plain_numbers(expanded)
            except SchemaRefused as refused:
                at = pointer(("spec", "capabilities", index, key)) + refused.pointer
                errors.append(_error(at, "SCHEMA", refused.reason))
    return found, errors


def _error(at: str, code: str, message: str) -> FieldError:
    return {"pointer": at, "code": code, "message": message}


def _wrong_name(document: dict[str, Any], agent_id: str) -> Iterator[FieldError]:
    name = document["metadata"]["name"]
    if name != agent_id:
        yield _error("/metadata/name", "NAME", f"is {name!r}, but the address says {agent_id!r}; they must be the same")


def _doubles(document: dict[str, Any]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, capability in enumerate(document["spec"]["capabilities"]):
        if capability["name"] in seen:
            at = f"/spec/capabilities/{index}/name"
            yield _error(at, "DUPLICATE", f"{capability['name']!r} is declared twice")
        seen.add(capability["name"])


def _mappings(document: dict[str, Any]) -> Iterator[FieldError]:
    for index, capability in enumerate(document["spec"]["capabilities"]):
        for field, expression in (capability.get("responseMapping") or {}).items():
            try:
                jmespath.compile(expression)
            except (jmespath.exceptions.JMESPathError, RecursionError):
                at = pointer(("spec", "capabilities", index, "responseMapping", field))
                yield _error(at, "JMESPATH", f"{expression!r} is no JMESPath expression")


def adapter_problems(spec: dict[str, Any]) -> Iterator[FieldError]:
    """The mappings of a manifest's `spec` that are no expressions."""
    for side in ("request", "response"):
        for at, expression in expressions((spec.get("adapter") or {}).get(side), ("spec", "adapter", side)):
            try:
                jmespath.compile(expression)
            except (jmespath.exceptions.JMESPathError, RecursionError):
                yield _error(pointer(at), "JMESPATH", f"{expression!r} is no JMESPath expression")


def expressions(given: Any, at: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text in a mapping, with where it stands."""
    inner = given.items() if isinstance(given, dict) else enumerate(given) if isinstance(given, list) else ()
    if isinstance(given, str):
        yield at, given
    for name, value in inner:
        yield from expressions(value, (*at, name))


def _addresses(spec: dict[str, Any], check_address: CheckAddress) -> Iterator[FieldError]:
    for name, url in (spec.get("endpoints") or {}).items():
        wrong = check_address(url, ADDRESS_SCHEMES.get(name, ("http", "https"))) if url is not None else None
        if wrong:
            yield _error(f"/spec/endpoints/{name}", "ADDRESS", wrong)


def _command(spec: dict[str, Any], commands: Collection[str]) -> Iterator[FieldError]:
    probe = spec.get("probe") or {}
    name = probe.get("command")
    if name is None and probe.get("type") == "command":
        yield _error("/spec/probe/command", "REQUIRED", "is missing; a command probe names one of the operator's")
    elif name is not None and name not in commands:
        known = ", ".join(sorted(commands)) or "none"
        yield _error("/spec/probe/command", "COMMAND", f"{name!r} is not one of the operator's commands ({known})")


def _functions(document: dict[str, Any], functions: Collection[str]) -> Iterator[FieldError]:
    """Every capability of an agent that lists the channel function needs one of the operator's."""
    if "function" not in document["spec"].get("channels", ()):
        return
    agent_id = document["metadata"]["name"]
    for index, capability in enumerate(document["spec"]["capabilities"]):
        name = capability["name"]
        if name not in functions and f"{agent_id}.{name}" not in functions:
            message = f"no function of the operator's is named {agent_id}.{name} or {name}"
            yield _error(f"/spec/capabilities/{index}/name", "FUNCTION", message)


def _warnings(spec: dict[str, Any], capabilities: tuple[CapabilityDocument, ...]) -> Iterator[FieldError]:
    offers_lookup = bool((spec.get("endpoints") or {}).get("lookup"))
    for index, capability in enumerate(capabilities):
        yield from _capability_warnings(f"/spec/capabilities/{index}", capability, offers_lookup)


def _capability_warnings(at: str, capability: CapabilityDocument, offers_lookup: bool) -> Iterator[FieldError]:
    spec = capability.spec
    if not capability.description:
        yield _error(f"{at}/description", "NO_DESCRIPTION", "is missing; people and models find an ability by it")
    if capability.input_schema is None:
        yield _error(f"{at}/inputSchema", "NO_INPUT_SCHEMA", "is missing; payloads are passed on unchecked")
    if capability.output_schema is None:
        yield _error(f"{at}/outputSchema", "NO_OUTPUT_SCHEMA", "is missing; answers are passed on unchecked")
    sample = spec.get("requestSample")
    if sample is None:
        yield _error(f"{at}/requestSample", "NO_REQUEST_SAMPLE", "is missing; callers and probes have no example")
    elif capability.input_schema is not None:
        for error in Validator(capability.input_schema).errors(sample, limit=3):
            where = f"{at}/requestSample{error['pointer']}"
            yield _error(where, "SAMPLE_INVALID", f"does not fit inputSchema: {error['message']}")
    if "sideEffects" not in spec:
        yield _error(f"{at}/sideEffects", "SIDE_EFFECTS_UNDECLARED", "is not said; taken as false")
    elif spec["sideEffects"] and not (spec.get("idempotent") or offers_lookup):
        message = "needs endpoints.lookup or idempotent: true, else a task is not retried once it was sent"
        yield _error(f"{at}/sideEffects", "NOT_RETRIED", message)
