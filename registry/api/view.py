"""What the registry's views share: scopes by method, who asks and from where, and their OpenAPI entries."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from common.errors import (
    BadRequest,
    BodyTooLarge,
    Forbidden,
    Invalid,
    NotFound,
    ReachError,
    StateConflict,
    Unauthenticated,
    UnsupportedMediaType,
)
from registry.api.parsing import refuse_misspelt_query
from registry.permissions import HasScope, principal_of
from registry.services.audit import Origin

READ_AGENTS = ("catalog:read", "agent:register", "agent:work")
STRING = {"type": "string"}
TIME = {"type": ["string", "null"], "format": "date-time"}
OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": True}

PROBLEM = {
    "type": "object",
    "title": "Problem",
    "required": ["type", "title", "status", "detail", "code", "traceId"],
    "properties": {
        "type": STRING,
        "title": STRING,
        "status": {"type": "integer"},
        "detail": STRING,
        "code": STRING,
        "traceId": STRING,
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "code", "message"],
                "properties": {"pointer": STRING, "code": STRING, "message": STRING},
            },
        },
    },
}
READING: tuple[type[ReachError], ...] = (BadRequest, Unauthenticated, Forbidden, NotFound)
WRITING: tuple[type[ReachError], ...] = (*READING, StateConflict, BodyTooLarge, UnsupportedMediaType, Invalid)


class RegistryView(APIView):
    """An API view whose `scopes` name, for each method, the scopes of which one is needed; operators may everything."""

    scopes: dict[str, tuple[str, ...]] = {}

    def get_permissions(self) -> list[BasePermission]:
        method = self.request.method if self.request else "GET"
        return [HasScope(*self.scopes.get(method or "GET", ("admin",)))()]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        query = getattr(getattr(self, str(request.method).lower(), None), "query", ())
        if "limit" in query:  # a list: a filter with a slip of the pen must not pass for none
            refuse_misspelt_query(request, query)

    def author(self) -> Origin:
        """`actor` and `ip` for the audit log."""
        return {"actor": principal_of(self.request).name, "ip": self.request.META.get("REMOTE_ADDR", "")}


def answer(properties: dict[str, Any], title: str | None = None) -> dict[str, Any]:
    """An object in an answer; more fields may come with later versions."""
    return {"type": "object", "properties": properties, **({"title": title} if title else {})}


def listing(item: dict[str, Any]) -> dict[str, Any]:
    """A page of a list."""
    return answer({"items": {"type": "array", "items": item}, "nextCursor": {"type": ["string", "null"]}})


def described(
    summary: str,
    operation: str,
    *,
    request: dict[str, Any] | None = None,
    media_types: tuple[str, ...] = ("application/json",),
    answers: dict[int, Any],
    query: tuple[str, ...] = (),
    writes: bool = False,
    tag: str = "registry",
) -> Callable[..., Any]:
    """The OpenAPI entry of one method; `query` names its query parameters besides `namespace`."""
    errors = {
        (error.status, "application/problem+json"): OpenApiResponse(PROBLEM, error.title)
        for error in (WRITING if writes else READING)
    }
    good: dict[Any, Any] = {
        status: OpenApiResponse(schema, "Done") if schema else OpenApiResponse(description="Done")
        for status, schema in answers.items()
    }
    entry = extend_schema(
        operation_id=operation,
        summary=summary,
        tags=[tag],
        request=dict.fromkeys(media_types, request) if request else None,
        responses={**good, **errors},
        parameters=[OpenApiParameter(name, str, OpenApiParameter.QUERY) for name in ("namespace", *query)],
    )

    def describe(method: Any) -> Any:
        described_method = entry(method)
        described_method.query = query
        return described_method

    return describe


class CredentialScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document describes credentials."""

    target_class = "registry.authentication.CredentialAuthentication"
    name = ["bearer", "signature"]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, str]]:
        signed = "RFC 9421 signature (hmac-sha256 over @method @path @query content-digest, with created and nonce)"
        return [
            {"type": "http", "scheme": "bearer", "description": "A key of a client, an agent or an operator"},
            {"type": "apiKey", "in": "header", "name": "Signature", "description": signed},
        ]
