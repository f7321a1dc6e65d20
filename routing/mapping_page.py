"""The admin's page on which an owner tries an agent's mapping before it is registered; it changes nothing."""

import json
from typing import Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext

from common.encoding import dumps
from common.errors import MalformedJson
from common.json import parse
from registry.models import Agent
from routing import mapping, snapshot
from routing.snapshot.model import CapabilityView

LONGEST = 256 * 1024
EXAMPLE = '{"choices": [{"message": {"content": "Hello"}}]}'


def page(request: HttpRequest, object_id: str) -> HttpResponse:
    """The form, and below it what came of what was sent."""
    pages = admin.site.get_model_admin(Agent)
    agent: Agent | None = pages.get_object(request, object_id)  # of the person's own team, or none
    if agent is None or not pages.has_change_permission(request, agent):
        raise Http404
    known = _capabilities(agent)
    given = request.POST if request.method == "POST" else _first(agent, known)
    context = {
        **admin.site.each_context(request),
        "title": gettext("Try the mapping of %(agent)s") % {"agent": agent.agent_id},
        "agent": agent,
        "capabilities": list(known),
        "given": {name: given.get(name, "")[:LONGEST] for name in ("capability", "adapter", "payload", "answer")},
    }
    if request.method == "POST":
        context |= _tried(context["given"], known)
    return TemplateResponse(request, "admin/registry/agent/mapping.html", context)


def _capabilities(agent: Agent) -> dict[str, CapabilityView]:
    abilities = snapshot.current(agent.namespace_id).abilities.values()
    found = [c for one in abilities for c in one.candidates if c.agent.agent_id == agent.agent_id]
    return {one.capability.name: one.capability for one in found}


def _first(agent: Agent, known: dict[str, CapabilityView]) -> dict[str, str]:
    """What the form begins with: what is registered."""
    adapter = agent.manifest.get("spec", {}).get("adapter") or {"preset": "openai-chat"}
    samples = [one for one in known.values() if one.request_sample] or list(known.values())
    sample = samples[0].request_sample if samples else None
    return {
        "capability": samples[0].name if samples else "",
        "adapter": _text({name: value for name, value in adapter.items() if name not in ("headers", "kind")}),
        "payload": _text(sample or {}),
        "answer": EXAMPLE,
    }


def _tried(given: dict[str, str], known: dict[str, CapabilityView]) -> dict[str, Any]:
    problems: list[dict[str, str]] = []
    adapter = _object(given["adapter"], "adapter", problems)
    payload = _object(given["payload"], "payload", problems)
    if adapter is None or payload is None:
        return {"problems": problems}
    capability = known.get(given["capability"]) or CapabilityView(given["capability"] or "sample")
    trial = mapping.tried(adapter, capability, payload, given["answer"].encode())
    return {
        "problems": trial.problems,
        "silent": trial.silent,
        "sent": _pretty(trial.request),
        "outcome": trial.outcome,
        "data": _pretty(trial.outcome.data) if trial.outcome else None,
    }


def _object(text: str, name: str, problems: list[dict[str, str]]) -> dict[str, Any] | None:
    try:
        value = parse(text.encode())
    except MalformedJson as error:
        problems.append({"pointer": name, "message": error.detail})
        return None
    if not isinstance(value, dict):
        problems.append({"pointer": name, "message": gettext("must be a JSON object")})
        return None
    return value


def _pretty(body: bytes | None) -> str | None:
    if body is None:
        return None
    try:
        return _text(parse(body))
    except MalformedJson:
        return body.decode("utf-8", "replace")


def _text(value: Any) -> str:
    return json.dumps(json.loads(dumps(value)), indent=2, ensure_ascii=False)
