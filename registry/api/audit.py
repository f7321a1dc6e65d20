"""Reading the audit log (scope admin)."""

from rest_framework.request import Request
from rest_framework.response import Response

from registry import documents, queries
from registry.api.pages import cursor_of, number_of, page
from registry.api.parsing import limit_of, text_parameter
from registry.api.view import STRING, TIME, RegistryView, answer, described, listing
from registry.permissions import namespace_of

ENTRY = answer({"at": TIME, "actor": STRING, "ip": STRING, "action": STRING, "object": STRING}, "AuditEntry")


class AuditLog(RegistryView):
    scopes = {"GET": ("admin",)}

    @described(
        "Every change and every human action, newest first; of all namespaces, or of one",
        "listAudit",
        answers={200: listing(ENTRY)},
        query=("actor", "action", "object", "limit", "cursor"),
        tag="operations",
    )
    def get(self, request: Request) -> Response:
        namespace = namespace_of(request) if "namespace" in request.query_params else None
        only = {name: text_parameter(request, name, 300) for name in ("actor", "action", "object")}
        limit = limit_of(request)
        rows = queries.audit(namespace=namespace, before=number_of(cursor_of(request)), **only)
        return Response(page(rows[: limit + 1], limit, lambda row: row.pk, documents.audit_document))
