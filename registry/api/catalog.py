"""The catalog: browsed by people, read by models as tools."""

import functools
from collections.abc import Collection

from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import BadRequest
from registry import catalog, queries
from registry.api.pages import cursor_of, number_of, page
from registry.api.parsing import limit_of, text_parameter
from registry.api.view import READ_AGENTS, STRING, RegistryView, answer, described, listing
from registry.permissions import namespace_of

MOST_TOOLS = 1000
ITEM = answer({
    "ability": STRING, "route": {"enum": ["explicit", "implicit"]}, "agentId": STRING, "capability": STRING,
    "description": STRING,
    "tags": {"type": "array", "items": STRING},
}, "CatalogItem")  # fmt: skip


class Catalog(RegistryView):
    """The registry knows no routes: whoever mounts this view gives it `explicit_abilities`."""

    scopes = {"GET": READ_AGENTS}

    @staticmethod
    def explicit_abilities(namespace: str) -> Collection[str]:
        """The namespace's abilities that have a route of their own."""
        return ()

    @described(
        "What agents can do, by words and tag; format: json, openai-tools or mcp",
        "readCatalog",
        answers={200: listing(ITEM)},
        query=("q", "tag", "format", "limit", "cursor"),
        tag="catalog",
    )
    def get(self, request: Request) -> Response:
        namespace = namespace_of(request)
        rows = queries.capabilities(
            namespace,
            words=text_parameter(request, "q"),
            tag=text_parameter(request, "tag"),
            after=number_of(cursor_of(request)),
        )
        kind = request.query_params.get("format", "json")
        if kind == "openai-tools":
            return Response({"tools": [catalog.openai_tool(row) for row in _one_each(rows[:MOST_TOOLS])]})
        if kind == "mcp":
            return Response({"tools": [catalog.mcp_tool(row) for row in _one_each(rows[:MOST_TOOLS])]})
        if kind != "json":
            raise BadRequest("format must be json, openai-tools or mcp")
        limit = limit_of(request)
        item = functools.partial(catalog.item, explicit=self.explicit_abilities(namespace))
        return Response(page(rows[: limit + 1], limit, lambda row: row.pk, item))


def _one_each(rows: queries.QuerySet[queries.Capability]) -> list[queries.Capability]:
    """The first capability of each name: several agents behind one ability are one tool."""
    found: dict[str, queries.Capability] = {}
    for row in rows:
        found.setdefault(row.name, row)
    return list(found.values())
