"""Alerts over the API (scope admin)."""

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from common.clock import now, rfc3339
from common.errors import BadRequest
from insight.alerts.words import message_of
from insight.models import Alert
from insight.services import alerts
from registry.api.pages import cursor_of, id_of, page
from registry.api.parsing import choice_of, limit_of, text_parameter
from registry.api.view import OBJECT, STRING, TIME, RegistryView, answer, described, listing
from registry.permissions import namespace_of

STATES = ("all", "open", "ended")
ALERT = answer({
    "alertId": STRING, "namespace": STRING, "kind": STRING, "severity": STRING, "subject": STRING,
    "agentId": {"type": ["string", "null"]}, "state": STRING, "message": OBJECT, "details": OBJECT,
    "count": {"type": "integer"}, "raisedAt": TIME, "lastSeenAt": TIME, "endedAt": TIME, "ackedAt": TIME,
    "ackedBy": {"type": ["string", "null"]},
}, "Alert")  # fmt: skip


class Alerts(RegistryView):
    scopes = {"GET": ("admin",)}

    @described(
        "What somebody should look at, newest first; with state=open only what still holds",
        "listAlerts",
        answers={200: listing(ALERT)},
        query=("state", "kind", "limit", "cursor"),
        tag="operations",
    )
    def get(self, request: Request) -> Response:
        limit, state, kind = limit_of(request), choice_of(request, "state", STATES), text_parameter(request, "kind")
        if kind is not None and kind not in Alert.Kind.values:
            raise BadRequest(f"kind must be one of {', '.join(Alert.Kind.values)}")
        rows = Alert.objects.filter(namespace=namespace_of(request)).order_by("-id")
        if state != "all":
            rows = rows.filter(ended_at__isnull=state == "open")
        if kind:
            rows = rows.filter(kind=kind)
        if before := id_of(cursor_of(request)):
            rows = rows.filter(pk__lt=before)
        return Response(page(rows[: limit + 1], limit, lambda row: row.pk, document))


class AcknowledgeAlert(RegistryView):
    scopes = {"POST": ("admin",)}

    @described(
        "Say that somebody looks after it; who was first stays",
        "ackAlert",
        answers={200: ALERT},
        writes=True,
        tag="operations",
    )
    def post(self, request: Request, alert_id: uuid.UUID) -> Response:
        row = alerts.acknowledge(alert_id, [namespace_of(request)], now=now(), **self.author())
        return Response(document(row))


def document(row: Alert) -> dict[str, Any]:
    """An alert as the API shows it."""
    message = message_of(row)
    return {
        "alertId": str(row.pk),
        "namespace": row.namespace,
        "kind": row.kind,
        "severity": row.severity,
        "subject": row.subject,
        "agentId": row.agent_id or None,
        "state": "ended" if row.ended_at else "open",
        "message": {"en": message.en, "zh": message.zh},
        "details": row.details,
        "count": row.count,
        "raisedAt": rfc3339(row.raised_at),
        "lastSeenAt": rfc3339(row.seen_at),
        "endedAt": rfc3339(row.ended_at),
        "ackedAt": rfc3339(row.acked_at),
        "ackedBy": row.acked_by or None,
    }
