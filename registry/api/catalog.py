"""The catalog: browsed by people, read by models as tools."""

import base64
from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import BadRequest
from registry import catalog, tools
from registry.api.pages import page
from registry.api.parsing import MOST, limit_of, refuse_misspelt_query, text_parameter
from registry.api.view import OBJECT, PROBLEM, READ_AGENTS, READING, STRING, RegistryView, answer, listing
from registry.catalog import Entry, Offers
from registry.permissions import namespace_of, principal_of

FORMATS: dict[str, Callable[[Entry], dict[str, Any]]] = {
    "json": catalog.item,
    "openai-tools": tools.openai_tool,
    "mcp": tools.mcp_tool,
}
PARAMETERS = ("q", "tag", "format", "limit", "cursor", "namespace")
LONGEST_SEARCH = 200
NULLABLE = {"type": ["string", "null"]}
AGENT = answer({"agentId": STRING, "agentName": STRING, "capability": STRING, "version": STRING, "owner": STRING})
ITEM = answer({
    "ability": STRING, "route": {"enum": ["explicit", "implicit"]}, "strategy": STRING,
    "available": {"type": "boolean"}, "agentId": NULLABLE, "capability": NULLABLE, "description": STRING,
    "tags": {"type": "array", "items": STRING}, "inputSchema": {}, "outputSchema": {}, "requestSample": {},
    "sideEffects": {"type": "boolean"}, "agents": {"type": "array", "items": AGENT},
}, "CatalogItem")  # fmt: skip
OPENAI_TOOLS = answer({
    "tools": {"type": "array", "items": answer({"type": {"const": "function"}, "function": OBJECT})},
    "abilities": {"type": "object", "additionalProperties": STRING}, "nextCursor": NULLABLE,
}, "OpenAiTools")  # fmt: skip
MCP_TOOL = answer({
    "name": STRING, "title": STRING, "description": STRING, "inputSchema": OBJECT, "outputSchema": OBJECT,
    "annotations": OBJECT,
})  # fmt: skip
MCP_TOOLS = answer({"tools": {"type": "array", "items": MCP_TOOL}, "nextCursor": STRING}, "McpTools")
DESCRIPTION = """\
`openai-tools` answers `{"tools", "abilities", "nextCursor"}`: entries for the `tools` of OpenAI's API, and which
ability each name stands for. `mcp` answers what MCP's `tools/list` does. Both leave out abilities that no agent stands
behind, and a page holds 200 unless `limit` says otherwise. A client sees the abilities that it may use."""


class Catalog(RegistryView):
    """The registry knows no routes: whoever mounts this view gives it `offers`."""

    scopes = {"GET": READ_AGENTS}

    @staticmethod
    def offers(namespace: str) -> Offers:
        """What can be asked for in the namespace, as routing knows it."""
        raise NotImplementedError

    @extend_schema(
        operation_id="readCatalog",
        summary="What can be asked for, by words and tags",
        description=DESCRIPTION,
        tags=["catalog"],
        parameters=[
            OpenApiParameter("q", str, description="Words, English or Chinese; each must be found"),
            OpenApiParameter("tag", str, many=True, description="May stand several times; each must be there"),
            OpenApiParameter("format", str, enum=list(FORMATS)),
            *(OpenApiParameter(name, str) for name in ("limit", "cursor", "namespace")),
        ],
        responses={
            200: OpenApiResponse({"oneOf": [listing(ITEM), OPENAI_TOOLS, MCP_TOOLS]}, "By `format`"),
            **{(e.status, "application/problem+json"): OpenApiResponse(PROBLEM, e.title) for e in READING},
        },
    )
    def get(self, request: Request) -> Response:
        namespace, principal = namespace_of(request), principal_of(request)
        refuse_misspelt_query(request, PARAMETERS, several=("tag",))
        kind = _format(request)
        limit = limit_of(request) if kind == "json" or "limit" in request.query_params else MOST
        after = _after(request)
        found = catalog.find(
            self.offers(namespace),
            text_parameter(request, "q", LONGEST_SEARCH) or "",
            _tags(request),
            principal.may_use,
        )
        rows = [one for one in found if one.ability > after and (kind == "json" or one.behind)]
        shown = page(rows, limit, lambda one: one.ability, lambda one: one)
        return Response(_document(kind, catalog.read(namespace, shown["items"]), shown["nextCursor"]))


def _document(kind: str, entries: list[Entry], cursor: str | None) -> dict[str, Any]:
    rows = [FORMATS[kind](entry) for entry in entries]
    if kind == "json":
        return {"items": rows, "nextCursor": cursor}
    if kind == "mcp":
        return {"tools": rows, **({"nextCursor": cursor} if cursor else {})}
    names = {tools.openai_name(entry.ability): entry.ability for entry in entries}
    return {"tools": rows, "abilities": names, "nextCursor": cursor}


def _format(request: Request) -> str:
    given = str(request.query_params.get("format", "json"))
    if given not in FORMATS:
        raise BadRequest(f"format must be {', '.join(FORMATS)}")
    return given


def _after(request: Request) -> str:
    """The ability after which the page begins; a name may hold any character, unlike other lists' keys."""
    text = str(request.query_params.get("cursor", ""))
    try:
        return base64.urlsafe_b64decode(text.encode("ascii")).decode()
    except ValueError:
        raise BadRequest("cursor is not one that was given out here") from None


def _tags(request: Request) -> list[str]:
    given = [str(one) for one in request.query_params.getlist("tag") if one]
    if len(given) > 20 or any(len(one) > 64 or not one.isprintable() for one in given):
        raise BadRequest("tag must be at most 64 printable characters, and stand at most 20 times")
    return given
