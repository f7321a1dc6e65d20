"""Reading the audit log (scope admin)."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.http import StreamingHttpResponse
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from common.encoding import dumps
from common.tables import csv_lines
from registry import documents, queries
from registry.api.pages import cursor_of, number_of, page
from registry.api.parsing import choice_of, limit_of, text_parameter
from registry.api.view import STRING, TIME, RegistryView, answer, described, listing
from registry.permissions import namespace_of

ENTRY = answer({"at": TIME, "actor": STRING, "ip": STRING, "action": STRING, "object": STRING}, "AuditEntry")


COLUMNS = ("at", "actor", "ip", "namespace", "action", "object", "before", "after")
EXPORTS = {"csv": "text/csv; charset=utf-8; header=present", "jsonl": "application/jsonl"}
STEP = 500


class Csv(BaseRenderer):
    """Makes `Accept: text/csv` acceptable; the rows are written by the export."""

    media_type, format = "text/csv", "csv"


class JsonLines(BaseRenderer):
    """Likewise for one JSON document a line."""

    media_type, format = "application/jsonl", "jsonl"


class AuditLog(RegistryView):
    scopes = {"GET": ("admin",)}
    renderer_classes = [JSONRenderer, Csv, JsonLines]

    @described(
        "Every change and every human action, newest first; of all namespaces, or of one",
        "listAudit",
        answers={200: listing(ENTRY)},
        query=("actor", "action", "object", "limit", "cursor", "format"),
        tag="operations",
    )
    def get(self, request: Request) -> Response | StreamingHttpResponse:
        namespace = namespace_of(request) if "namespace" in request.query_params else None
        only = {name: text_parameter(request, name, 300) for name in ("actor", "action", "object")}
        form = choice_of(request, "format", ("json", "csv", "jsonl"))
        if form == "json":
            form = str(request.accepted_renderer.format)
        before = number_of(cursor_of(request))
        if form in EXPORTS:
            entries = _entries(namespace, before, only)
            return _export(form, islice(entries, limit_of(request)) if "limit" in request.query_params else entries)
        limit = limit_of(request)
        rows = queries.audit(namespace=namespace, before=before, **only)
        return Response(page(rows[: limit + 1], limit, lambda row: row.pk, documents.audit_document))


def _entries(namespace: str | None, before: int | None, only: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All entries that fit, read by keyset, so that neither memory nor a transaction grows with their number."""
    while True:
        rows = list(queries.audit(namespace=namespace, before=before, **only)[:STEP])
        yield from map(documents.audit_document, rows)
        if len(rows) < STEP:
            return
        before = rows[-1].pk


def _export(form: str, entries: Iterator[dict[str, Any]]) -> StreamingHttpResponse:
    if form == "csv":
        lines = csv_lines(COLUMNS, (_cells(entry) for entry in entries))
    else:
        lines = (dumps(entry) + b"\n" for entry in entries)
    response = StreamingHttpResponse(lines, content_type=EXPORTS[form])
    response["Content-Disposition"] = f'attachment; filename="audit.{form}"'
    return response


def _cells(entry: dict[str, Any]) -> list[Any]:
    shown = [entry[name] for name in COLUMNS]
    return [dumps(value).decode() if isinstance(value, dict | list) else value for value in shown]
