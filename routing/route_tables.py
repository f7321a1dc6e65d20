"""Route tables as they are written: the schema, what a schema cannot say, and the way back from rows."""

from typing import Any

import msgspec

from common.encoding import dumps, pointer
from common.errors import FieldErrors, Invalid
from common.schema import Validator
from common.yaml import Number, plain
from registry.bodies import HIGHEST_RATE, LOWEST_RATE
from routing.models import Candidate, Route
from routing.states import TaskError
from routing.strategies import REGISTRY

API_VERSION, KIND = "agent-reach/v1", "RouteTable"
_CANDIDATE = ("agent", "capability", "version", "weight")


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def _whole(least: int = 0, most: int = 86_400_000) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


def _text(most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most}


_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_NAMES = {"type": "array", "items": _text(200), "maxItems": 50}

ROUTE = _object(
    {
        "ability": _text(200),
        "strategy": {"enum": sorted(REGISTRY)},
        "candidates": {
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": _object(
                {"agent": _text(128), "capability": _text(128), "version": _text(64), "weight": _whole(0, 1_000_000)},
                required=["agent"],
            ),
        },
        "retry": _object(
            {
                "maxAttempts": _whole(1, 100),
                "backoffMs": {"type": ["integer", "array"], "minimum": 0, "maxItems": 20, "items": _whole()},
                "jitterMs": _whole(),
                "jitterShare": _SHARE,
                "retryableErrors": {"type": "array", "items": {"enum": list(TaskError.values)}, "uniqueItems": True},
            }
        ),
        "breaker": _object(
            {
                "failureShare": _SHARE,
                "minVolume": _whole(1),
                "windowMs": _whole(1),
                "openMs": _whole(1),
                "consecutive": _whole(1),
            }
        ),
        "limits": _object(
            {
                "maxInflight": _whole(1),
                "ratePerSecond": {"type": "number", "minimum": LOWEST_RATE, "maximum": HIGHEST_RATE},
                "burst": _whole(1, 1_000_000),
                "queueMax": _whole(0),
                "instanceShare": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            }
        ),
        "scoreWeights": _object({name: {"type": "number", "minimum": 0} for name in ("health", "latency", "success")}),
        "fallback": _object(
            {
                "substitutes": _NAMES,
                "static": {"description": "Any JSON; null is none."},
                "cachedResultMs": _whole(),
                "partial": {"type": "boolean"},
                "mode": {"enum": ["substitute_first", "static_first"]},
            }
        ),
        "whenUnavailable": {"enum": ["wait", "fail"]},
        "overflow": {"enum": ["queue", "reject"]},
        "tags": _NAMES,
        "canary": {"type": ["object", "null"]},
        "shadow": {"type": ["object", "null"]},
    },
    required=["ability", "candidates"],
)

TABLE = _object(
    {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": KIND},
        "namespace": _text(63),
        "routes": {"type": "array", "items": ROUTE, "maxItems": 1000},
    },
    required=["routes"],
)

_table = Validator(TABLE)
_route = Validator(ROUTE)


def read(value: Any) -> tuple[str | None, list[dict[str, Any]]]:
    """(namespace or None, routes) of a table from JSON or YAML; raises Invalid with pointers."""
    _keep_versions(value.get("routes") if isinstance(value, dict) else None)
    value = plain(value)
    errors = _table.errors(value) or [*_repeated(value["routes"]), *_sums(value["routes"])]
    if errors:
        raise Invalid(errors)
    return value.get("namespace"), [_storable(route) for route in value["routes"]]


def read_one(value: Any, ability: str) -> tuple[str | None, dict[str, Any]]:
    """The same for exactly one route, as a table that has only it or as the route itself."""
    if isinstance(value, dict) and "routes" not in value:
        namespace = value.pop("namespace", None)
        value = {"routes": [{"ability": ability, **value}]} | ({} if namespace is None else {"namespace": namespace})
        try:
            given, routes = read(value)
        except Invalid as error:
            raise Invalid([{**e, "pointer": e["pointer"].removeprefix("/routes/0")} for e in error.errors]) from None
        at = "/ability"
    else:
        (given, routes), at = read(value), "/routes/0/ability"
        if len(routes) != 1:
            raise Invalid(
                [{"pointer": "/routes", "code": "ONE_ROUTE", "message": "needs exactly the route of the path"}]
            )
    if routes[0]["ability"] != ability:
        raise Invalid([{"pointer": at, "code": "CONST", "message": f'must be "{ability}", as in the path'}])
    return given, routes[0]


def document(namespace: str, routes: list[dict[str, Any]]) -> dict[str, Any]:
    """The table as one would write it."""
    return {"apiVersion": API_VERSION, "kind": KIND, "namespace": namespace, "routes": routes}


def written(route: Route) -> dict[str, Any]:
    """A stored route as one would write it."""
    return {
        "ability": route.ability,
        "strategy": route.strategy,
        "candidates": [written_candidate(row) for row in route.candidates.all()],
        **route.settings,
    }


def rows(candidates: list[dict[str, Any]]) -> list[Candidate]:
    """Candidates as unsaved rows, in order."""
    return [
        Candidate(
            position=position,
            agent_id=one["agent"],
            capability=one.get("capability", ""),
            version=one.get("version", ""),
            weight=one.get("weight"),
        )
        for position, one in enumerate(candidates)
    ]


def written_candidate(row: Candidate) -> dict[str, Any]:
    """A candidate as one would write it."""
    values = zip(_CANDIDATE, (row.agent_id, row.capability, row.version, row.weight), strict=True)
    return {name: value for name, value in values if value not in ("", None)}


def name_of(candidate: dict[str, Any]) -> str:
    """What tells a candidate, as one would write it, from the others of its route."""
    return "/".join(candidate[part] for part in _CANDIDATE[:3] if part in candidate)


def _storable(route: dict[str, Any]) -> dict[str, Any]:
    """Plain JSON with floats for decimals, whole numbers as integers."""
    stored: dict[str, Any] = msgspec.json.decode(dumps(route))
    for one in stored["candidates"]:
        if "weight" in one:
            one["weight"] = int(one["weight"])
    return stored


def _keep_versions(routes: Any) -> None:
    """A YAML `version: 1.10` is the text that was written."""
    for route in routes if isinstance(routes, list) else []:
        candidates = route.get("candidates") if isinstance(route, dict) else None
        for one in candidates if isinstance(candidates, list) else []:
            if isinstance(one, dict) and isinstance(one.get("version"), Number):
                one["version"] = one["version"].source


def _repeated(routes: list[dict[str, Any]]) -> FieldErrors:
    seen: set[str] = set()
    errors = []
    for index, route in enumerate(routes):
        if route["ability"] in seen:
            errors.append(_error(("routes", index, "ability"), "DUPLICATE", "is in this table twice"))
        seen.add(route["ability"])
    return errors


def _sums(routes: list[dict[str, Any]]) -> FieldErrors:
    errors = []
    for index, route in enumerate(routes):
        weights = [one.get("weight") for one in route["candidates"]]
        if weights and all(weight == 0 for weight in weights):
            message = "has only weights of 0; at least one candidate must get traffic"
            errors.append(_error(("routes", index, "candidates"), "WEIGHTS", message))
        keys = [tuple(one.get(name) for name in _CANDIDATE[:3]) for one in route["candidates"]]
        errors += [
            _error(("routes", index, "candidates", at), "DUPLICATE", "is among the candidates twice")
            for at, key in enumerate(keys)
            if key in keys[:at]
        ]
    return errors


def _error(path: tuple[str | int, ...], code: str, message: str) -> dict[str, str]:
    return {"pointer": pointer(path), "code": code, "message": message}
