"""Watching the catalog."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request

from registry.api.parsing import refuse_misspelt_query
from registry.api.view import PROBLEM, READ_AGENTS, READING, RegistryView
from registry.catalog_events import CatalogEvents
from registry.permissions import namespace_of, principal_of

DESCRIPTION = """\
`event` is agent.registered, agent.changed, agent.deleted, agent.maintenance, instance.registered, instance.changed,
instance.state, instance.left, route.created, route.changed or route.deleted; `data` says who, when and what.

The stream begins with an `id` that stands for now. With `Last-Event-ID` it goes on after that event; if that is not
known here or too old, one event `resync` says to read the catalog anew."""


class EventStream(BaseRenderer):
    """Makes `Accept: text/event-stream` acceptable; the events themselves are written by the hand-off."""

    media_type, format = "text/event-stream", "events"


class CatalogEventsView(RegistryView):
    scopes = {"GET": READ_AGENTS}
    renderer_classes = [EventStream, JSONRenderer]

    @extend_schema(
        operation_id="watchCatalog",
        summary="Hear of registrations, states, routes and maintenance (server-sent events)",
        description=DESCRIPTION,
        tags=["catalog"],
        parameters=[
            OpenApiParameter("namespace", str),
            OpenApiParameter("Last-Event-ID", str, OpenApiParameter.HEADER, description="Go on after this event"),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse({"type": "string"}, "Events, for an hour at most"),
            **{(e.status, "application/problem+json"): OpenApiResponse(PROBLEM, e.title) for e in READING},
        },
    )
    def get(self, request: Request) -> HttpResponse:
        namespace, principal = namespace_of(request), principal_of(request)
        refuse_misspelt_query(request, ())
        last_id = str(request.META.get("HTTP_LAST_EVENT_ID", "")).strip()
        response = HttpResponse(content_type="text/event-stream")
        response["Cache-Control"] = "no-store"
        response["X-Accel-Buffering"] = "no"
        response.hand_off = CatalogEvents(  # type: ignore[attr-defined]
            namespace, last_id, principal.may_use
        )
        return response
