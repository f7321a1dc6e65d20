"""Probing an instance now, to see what the platform sees."""

from rest_framework.request import Request
from rest_framework.response import Response

from common.clock import now, rfc3339
from registry.api.view import STRING, TIME, RegistryView, answer, described
from registry.permissions import namespace_of, require_agent
from registry.services import probing

PROBED = answer({
    "instanceId": STRING, "ok": {"type": ["boolean", "null"]}, "ms": {"type": "number"}, "reason": STRING,
    "at": TIME, "state": STRING,
}, "Probed")  # fmt: skip


class ProbeNow(RegistryView):
    scopes = {"POST": ("agent:register", "agent:work")}

    @described(
        "Probe an instance now with its own settings; the result counts. ok: null = the check could not be made",
        "probeInstance",
        answers={200: PROBED},
        writes=True,
    )
    def post(self, request: Request, agent_id: str, instance_id: str) -> Response:
        require_agent(request, agent_id)
        at = now()
        instance, result = probing.probe_now(namespace_of(request), agent_id, instance_id, now=at)
        return Response({
            "instanceId": instance_id,
            "ok": result.ok,
            "ms": round(result.ms, 1),
            "reason": result.reason,
            "at": rfc3339(at),
            "state": instance.state,
        })  # fmt: skip
