"""Registering agents by their manifests: idempotent, each change a revision, nothing half done."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from common.errors import NotFound, StateConflict
from common.secrets import encrypt
from registry import manifest as manifests
from registry.addresses import wrong_address
from registry.differences import json_patch, text_diff
from registry.manifest import Manifest, Rules
from registry.models import Agent, AgentSecret, Capability, Instance, Revision
from registry.news import of_agent, of_instance, of_maintenance
from registry.services import changes, instances
from registry.services.audit import Author


@dataclass(frozen=True)
class Registered:
    """The answer to a PUT. `created` = this agent was not there; `warnings` as {"pointer", "code", "message"}."""

    agent_id: str
    revision: int
    changed: bool
    created: bool
    warnings: list[dict[str, str]]


@dataclass(frozen=True)
class _Content:
    manifest: Manifest
    source: str
    content_type: str


def put(
    namespace: str,
    agent_id: str,
    raw: bytes,
    content_type: str,
    *,
    strict: bool,
    actor: str,
    now: datetime,
    ip: str = "",
) -> Registered:
    """Register a manifest, JSON or YAML. The same content again changes nothing, however it is spelled.

    Raises MalformedJson, MalformedYaml, ManifestInvalid; `strict` refuses what would otherwise be a warning.
    """
    manifest = manifests.read(raw, content_type, agent_id, strict=strict, rules=_rules())
    content = _Content(manifest, raw.decode("utf-8-sig"), content_type)
    return _register(namespace, agent_id, content, "agent.register", Author(actor, now, ip))


def restore(
    namespace: str, agent_id: str, number: int, *, expected: int | None = None, actor: str, now: datetime, ip: str = ""
) -> Registered:
    """Make an earlier revision's content the newest revision. Raises NotFound, ManifestInvalid (by today's rules), and
    StateConflict when another than the `expected` revision is the current one; nothing is changed then."""
    old = _revision(namespace, agent_id, number)
    manifest = manifests.check(old.manifest, agent_id, strict=False, rules=_rules())
    content = _Content(manifest, old.source, old.content_type)
    return _register(namespace, agent_id, content, "agent.restore", Author(actor, now, ip), expected)


def delete(namespace: str, agent_id: str, *, actor: str, now: datetime, ip: str = "") -> None:
    """Take the agent out at once; its revisions stay, and a new PUT brings it back. Raises NotFound."""
    with transaction.atomic():
        agent = _locked(namespace, agent_id)
        if agent is None or agent.deleted_at:
            raise NotFound
        agent.deleted_at = now
        agent.maintenance = False
        agent.save(update_fields=["deleted_at", "maintenance", "updated_at"])
        rows = Instance.objects.select_for_update(no_key=True).filter(agent=agent, left_at=None)
        present = list(rows.order_by("id"))
        for instance in present:
            instances.retire(instance, "the agent was deleted", now)
        before = {"revision": agent.revision, "instances": [one.instance_id for one in present]}
        _record("agent.delete", agent, Author(actor, now, ip), before=before)
        left = [of_instance("instance.left", agent_id, one, now) for one in present]
        changes.touch(namespace, [*left, of_agent("agent.deleted", agent, now)])


def maintenance(namespace: str, agent_id: str, on: bool, *, actor: str, now: datetime, ip: str = "") -> Agent:
    """Begin or end maintenance: running tasks finish, no new ones come. Raises NotFound."""
    with transaction.atomic():
        agent = _locked(namespace, agent_id)
        if agent is None or agent.deleted_at:
            raise NotFound
        if agent.maintenance != on:
            agent.maintenance = on
            agent.save(update_fields=["maintenance", "updated_at"])
            _record("agent.maintenance", agent, Author(actor, now, ip), before={"on": not on}, after={"on": on})
            changes.touch(namespace, [of_maintenance(agent, now)])
    return agent


def put_secrets(
    namespace: str, agent_id: str, secrets: dict[str, str | None], *, actor: str, now: datetime, ip: str = ""
) -> list[str]:
    """Set the named header secrets, or remove those that are None; returns the names that are set. Raises NotFound."""
    with transaction.atomic():
        agent = _locked(namespace, agent_id)
        if agent is None or agent.deleted_at:
            raise NotFound
        before = {"names": _secret_names(agent)}
        AgentSecret.objects.filter(agent=agent, name__in=[n for n, value in secrets.items() if value is None]).delete()
        for name, value in secrets.items():
            if value is not None:
                AgentSecret.objects.update_or_create(agent=agent, name=name, defaults={"value": encrypt(value)})
        after = {
            "set": [name for name, value in secrets.items() if value is not None],
            "removed": [name for name, value in secrets.items() if value is None],
        }
        _record("agent.secrets", agent, Author(actor, now, ip), before=before, after=after)
        changes.touch(namespace)
        return _secret_names(agent)


def diff(namespace: str, agent_id: str, number: int, to: int | None = None) -> dict[str, Any]:
    """What changed from revision `number` to `to` (default: the current one), as JSON Patch and as text.

    Raises NotFound."""
    before = _revision(namespace, agent_id, number)
    after = _revision(namespace, agent_id, before.agent.revision if to is None else to)
    names = f"{agent_id} r{before.number}", f"{agent_id} r{after.number}"
    return {
        "agentId": agent_id,
        "from": before.number,
        "to": after.number,
        "patch": json_patch(before.manifest, after.manifest),
        "text": text_diff(before.manifest, after.manifest, *names),
    }


def _register(
    namespace: str, agent_id: str, content: _Content, action: str, author: Author, expected: int | None = None
) -> Registered:
    with transaction.atomic():
        # Whoever comes second waits here for the first, and then finds the agent as the first left it.
        Agent.objects.bulk_create([Agent(namespace_id=namespace, agent_id=agent_id)], ignore_conflicts=True)
        agent = _locked(namespace, agent_id)
        if agent is None:
            raise NotFound
        if expected not in (None, agent.revision):
            raise StateConflict("another revision has come meanwhile")
        created = agent.revision == 0 or agent.deleted_at is not None
        newest = agent.revisions.first()
        changed = newest is None or newest.digest != content.manifest.digest
        if changed or created:
            before = {"revision": agent.revision} if agent.revision else None
            _apply(agent, content.manifest, agent.revision + changed, author.now)
            if changed:
                _add_revision(agent, content, author.actor)
            _record(action, agent, author, before=before, after={"revision": agent.revision})
            event = "agent.registered" if created else "agent.changed"
            abilities = [one.name for one in content.manifest.capabilities]
            changes.touch(namespace, [of_agent(event, agent, author.now, capabilities=abilities)])
    return Registered(agent_id, agent.revision, changed or created, created, agent.warnings)


def _apply(agent: Agent, manifest: Manifest, revision: int, now: datetime) -> None:
    spec = manifest.spec
    agent.display_name = spec.get("displayName", "")
    agent.owner = spec.get("owner", "")
    agent.tags = spec.get("tags", [])
    agent.external = spec.get("external", False)
    agent.version = manifest.document["metadata"]["version"]
    agent.manifest = manifest.document
    agent.warnings = list(manifest.warnings)
    agent.revision = revision
    agent.deleted_at = None
    agent.save()
    agent.capabilities.all().delete()
    Capability.objects.bulk_create(
        Capability(
            agent=agent,
            name=one.name,
            description=one.description,
            input_schema=one.input_schema,
            output_schema=one.output_schema,
            spec=one.spec,
        )
        for one in manifest.capabilities
    )
    instances.keep_implicit(agent, now)


def _add_revision(agent: Agent, content: _Content, actor: str) -> None:
    manifest = content.manifest
    Revision.objects.create(
        agent=agent,
        number=agent.revision,
        manifest=manifest.document,
        source=content.source,
        content_type=content.content_type[:64],
        digest=manifest.digest,
        warnings=list(manifest.warnings),
        created_by=actor,
    )


def _rules() -> Rules:
    return Rules(wrong_address, settings.REACH_PROBE_COMMANDS, settings.REACH_FUNCTIONS)


def _locked(namespace: str, agent_id: str) -> Agent | None:
    return Agent.objects.select_for_update(no_key=True).filter(namespace=namespace, agent_id=agent_id).first()


def _secret_names(agent: Agent) -> list[str]:
    return list(AgentSecret.objects.filter(agent=agent).order_by("name").values_list("name", flat=True))


def _revision(namespace: str, agent_id: str, number: int) -> Revision:
    rows = Revision.objects.filter(agent__namespace=namespace, agent__agent_id=agent_id, agent__deleted_at=None)
    found = rows.filter(number=number).select_related("agent").first()
    if found is None:
        raise NotFound
    return found


def _record(action: str, agent: Agent, author: Author, *, before: Any = None, after: Any = None) -> None:
    author.did(action, f"agent:{agent.agent_id}", namespace=agent.namespace_id, before=before, after=after)
