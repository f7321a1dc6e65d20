"""Addresses of the registry's API, mounted under /v1/. A malformed id is no address here, hence 404."""

from django.urls import path, register_converter

from registry.api import agents, audit, hooks, instances, probing, setup
from registry.api.events import CatalogEventsView


class AgentId:
    regex = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class InstanceId(AgentId):
    regex = r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}"


class RevisionNumber:
    regex = "[0-9]{1,9}"

    def to_python(self, value: str) -> int:
        return int(value)

    def to_url(self, value: int) -> str:
        return str(value)


register_converter(AgentId, "agent_id")
register_converter(InstanceId, "instance_id")
register_converter(InstanceId, "client_name")
register_converter(RevisionNumber, "revision")

urlpatterns = [
    path("namespaces", setup.Namespaces.as_view()),
    path("clients", setup.Clients.as_view()),
    path("clients/<client_name:name>/rotate", setup.RotateClient.as_view()),
    path("users", setup.Users.as_view()),
    path("agents", agents.Agents.as_view()),
    path("agents/<agent_id:agent_id>", agents.Agent.as_view()),
    path("agents/<agent_id:agent_id>/credentials", setup.AgentCredentials.as_view()),
    path("agents/<agent_id:agent_id>/revisions", agents.Revisions.as_view()),
    path("agents/<agent_id:agent_id>/revisions/<revision:number>/diff", agents.RevisionDiff.as_view()),
    path("agents/<agent_id:agent_id>/revisions/<revision:number>/restore", agents.RestoreRevision.as_view()),
    path("agents/<agent_id:agent_id>/maintenance", agents.Maintenance.as_view()),
    path("agents/<agent_id:agent_id>/secrets", agents.Secrets.as_view()),
    path("agents/<agent_id:agent_id>/instances/<instance_id:instance_id>", instances.Instance.as_view()),
    path("agents/<agent_id:agent_id>/instances/<instance_id:instance_id>/heartbeat", instances.Heartbeat.as_view()),
    path("agents/<agent_id:agent_id>/instances/<instance_id:instance_id>/probe", probing.ProbeNow.as_view()),
    path("hooks", hooks.Hooks.as_view()),
    path("hooks/<uuid:hook_id>", hooks.OneHook.as_view()),
    path("hooks/<uuid:hook_id>/rotate", hooks.RotateHook.as_view()),
    path("hooks/<uuid:hook_id>/test", hooks.TestHook.as_view()),
    path("hooks/<uuid:hook_id>/firings", hooks.Firings.as_view()),
    path("audit", audit.AuditLog.as_view()),
    path("catalog/events", CatalogEventsView.as_view()),
]
