"""The API's description, made once a process from what the views say of themselves."""

import functools
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator

from common.encoding import dumps
from common.errors import PROBLEM_TYPE

# Addresses that are no REST framework views: open to everyone.
OPEN = {
    "/healthz": ("Whether this process answers", {"200": "It does"}),
    "/readyz": ("Whether the platform can work", {"200": "Every part is well", "503": "A part is not; see which"}),
    "/metrics": ("Numbers for Prometheus", {"200": "Text format"}),
}


@functools.cache
def document() -> bytes:
    """OpenAPI 3.1 as JSON."""
    schema: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    for operation in _operations(schema):
        # Either credential does; one entry with both would ask for both.
        operation["security"] = [{name: []} for entry in operation.get("security", []) for name in entry]
        _share_problems(schema, operation)
    for path, (summary, answers) in OPEN.items():
        responses = {status: {"description": text} for status, text in answers.items()}
        entry = {"operationId": path[1:], "summary": summary, "tags": ["operations"], "security": []}
        schema["paths"][path] = {"get": {**entry, "responses": responses}}
    return dumps(schema)


def _operations(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in schema["paths"].values():
        yield from (value for value in path.values() if isinstance(value, dict))


def _share_problems(schema: dict[str, Any], operation: dict[str, Any]) -> None:
    """One schema of problem documents for all, each place with its own examples."""
    for response in operation["responses"].values():
        content = response.get("content", {}).get(PROBLEM_TYPE)
        if content:
            shape = dict(content["schema"])
            examples = shape.pop("examples", [])
            schema.setdefault("components", {}).setdefault("schemas", {}).setdefault("Problem", shape)
            content["schema"] = {"$ref": "#/components/schemas/Problem"}
            if examples:
                content["examples"] = {one["code"]: {"value": one} for one in examples}


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """Open to everyone, like the documentation that is drawn from it."""
    response = HttpResponse(document(), content_type="application/json")
    patch_cache_control(response, public=True, max_age=60)
    return response
