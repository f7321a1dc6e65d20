"""Callbacks by filter: begin again what receivers missed."""

import datetime as dt

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from common.clock import now, parse_time
from common.errors import Invalid
from registry.api.parsing import json_object
from registry.permissions import HasScope, namespace_of, principal_of
from routing.api import bodies, described
from routing.api.reading import json_answer
from routing.services.redeliver import redeliver_many


class RedeliverManyView(APIView):
    permission_classes = [HasScope("admin")]

    @described.REDELIVER_MANY
    def post(self, request: Request) -> HttpResponse:
        body, at = json_object(request, bodies.redeliver_filter), now()
        count = redeliver_many(
            namespace_of(request),
            str(principal_of(request)),
            at,
            client=body.get("client"),
            state=body.get("state", "DEAD"),
            since=_time(body, "from"),
            until=_time(body, "to"),
            ip=request.META.get("REMOTE_ADDR", ""),
        )
        return json_answer({"count": count}, 202)


def _time(body: dict[str, str], name: str) -> dt.datetime | None:
    try:
        return parse_time(body[name]) if name in body else None
    except ValueError as error:
        raise Invalid([{"pointer": f"/{name}", "code": "FORMAT", "message": str(error)}]) from None
