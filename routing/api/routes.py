"""The route table: read it, write it whole or route by route."""

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from common import json, yaml
from common.clock import now
from common.errors import NotFound
from registry.api.parsing import JSON_TYPES, YAML_TYPES, flag, read_body
from registry.permissions import HasScope, namespace_of, principal_of
from routing import route_tables
from routing.api import described
from routing.api.reading import json_answer
from routing.models import Route
from routing.services import routes as services


class RoutesView(APIView):
    permission_classes = [HasScope("admin")]

    @described.ROUTES_GET
    def get(self, request: Request) -> HttpResponse:
        namespace = namespace_of(request)
        rows = Route.objects.filter(namespace=namespace).order_by("ability").prefetch_related("candidates")
        return json_answer(route_tables.document(namespace, [route_tables.written(row) for row in rows]))

    @described.ROUTES_PUT
    def put(self, request: Request) -> HttpResponse:
        given, routes = route_tables.read(_value(request))
        return json_answer(_put(request, namespace_of(request, given), routes)[0])


class RouteView(APIView):
    permission_classes = [HasScope("admin")]

    @described.ROUTE_GET
    def get(self, request: Request, ability: str) -> HttpResponse:
        namespace = namespace_of(request)
        row = Route.objects.filter(namespace=namespace, ability=ability).first() if "\0" not in ability else None
        if row is None:
            raise NotFound
        return json_answer(route_tables.document(namespace, [route_tables.written(row)]))

    @described.ROUTE_PUT
    def put(self, request: Request, ability: str) -> HttpResponse:
        given, route = route_tables.read_one(_value(request), ability)
        document, created = _put(request, namespace_of(request, given), [route])
        return json_answer(document, 201 if created else 200)


def _value(request: Request) -> Any:
    raw, media_type = read_body(request, JSON_TYPES | YAML_TYPES)
    return yaml.parse(raw) if media_type in YAML_TYPES else json.parse_object(raw)


def _put(request: Request, namespace: str, routes: list[dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """(the answer, whether a route was created)."""
    dry_run = flag(request, "dryRun")
    put = services.put(
        namespace,
        routes,
        actor=str(principal_of(request)),
        now=now(),
        ip=request.META.get("REMOTE_ADDR", ""),
        dry_run=dry_run,
    )
    changes = [
        {"ability": one.ability, "change": one.change, "before": one.before, "after": one.after} for one in put.changes
    ]
    document = {"namespace": namespace, "dryRun": dry_run, "changes": changes, "warnings": put.warnings}
    return document, not dry_run and any(one.change == "created" for one in put.changes)
