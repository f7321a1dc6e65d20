"""What others read of the registry, in few queries and without touching a model.

Rows for snapshots are plain frozen values; everything is of one namespace.
"""

import functools
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from django.db.models import Q

from common.database import hot_cursor
from common.secrets import decrypt
from registry import webhook_secrets
from registry.credential_cache import CACHE, KnownCredential
from registry.health import EJECTED, health_factor
from registry.models import Agent, AgentSecret, Capability, Client, Credential, Instance, Namespace
from registry.principal import Principal
from registry.states import InstanceState

_CREDENTIAL = """
SELECT k.kind, k.namespace, k.agent_id, k.scopes, k.key_hint, k.secret_key, k.expires_at,
  c.name, c.abilities, c.limits, c.callback_schedule
FROM registry_credential k LEFT JOIN registry_client c ON c.id = k.client_id
WHERE k.{} = %s AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > %s)
  AND (c.id IS NULL OR c.enabled)"""
_BY_KEY, _BY_ACCESS_KEY = (_CREDENTIAL.format(column) for column in ("key_hash", "access_key"))


_json = msgspec.json.decode  # Django leaves jsonb as it comes


@dataclass(frozen=True, slots=True)
class CapabilityRow:
    """`spec` is the capability's part of the manifest in camelCase; schemas are JSON Schema with shorthand expanded."""

    name: str
    description: str
    input_schema: Any
    output_schema: Any
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class InstanceRow:
    instance_id: str
    agent_id: str
    implicit: bool
    invoke_url: str
    lookup_url: str
    networks: dict[str, str]
    region: str
    zone: str
    version: str
    labels: dict[str, Any]
    cost: dict[str, Any] | None
    state: str
    state_since: datetime
    weight: int
    max_concurrency: int | None
    prefer_channel: str
    draining: bool
    weight_percent: int
    pk: int = 0
    health: float = 1.0  # the health part of its score
    ejected: bool = False  # OFFLINE by what its calls show


@dataclass(frozen=True, slots=True)
class AgentRow:
    """`spec` is the manifest's spec (limits, protocol, channels, adapter, endpoints, cost); `signing` is the pair that
    the platform's requests to this agent are signed with. Instances are all that did not leave, whatever their state;
    an address that an instance lacks is the manifest's."""

    agent_id: str
    display_name: str
    owner: str
    version: str
    revision: int
    external: bool
    maintenance: bool
    tags: tuple[str, ...]
    spec: dict[str, Any]
    signing: tuple[str, str] | None
    capabilities: tuple[CapabilityRow, ...]
    instances: tuple[InstanceRow, ...]
    secrets: dict[str, str] = field(default_factory=dict, repr=False)  # header secrets by name, in clear


def namespace_exists(name: str) -> bool:
    """Whether there is such a namespace; any text may be asked."""
    return "\0" not in name and Namespace.objects.filter(pk=name).exists()


def namespace_version(namespace: str) -> int:
    """The version that the namespace's snapshot must have; 0 for an unknown namespace."""
    return Namespace.objects.filter(pk=namespace).values_list("version", flat=True).first() or 0


def namespace_versions() -> dict[str, int]:
    """Every namespace's version, in one query, for the poll of snapshots."""
    return dict(Namespace.objects.values_list("name", "version"))


def namespace_settings(namespace: str) -> dict[str, Any]:
    """The namespace's own settings (retentionDays, intentRules)."""
    return Namespace.objects.filter(pk=namespace).values_list("settings", flat=True).first() or {}


def agents_for_snapshot(namespace: str) -> list[AgentRow]:
    """Every agent of the namespace with capabilities, instances, signing key and secrets, by agent id; five queries."""
    agents = {row.pk: row for row in Agent.objects.filter(namespace=namespace, deleted_at=None).order_by("agent_id")}
    own = {"agent__namespace": namespace, "agent__deleted_at": None}
    present = {**own, "left_at": None}
    capabilities: dict[int, list[CapabilityRow]] = {}
    for row in Capability.objects.filter(**own).order_by("id"):
        capabilities.setdefault(row.agent_id, []).append(
            CapabilityRow(row.name, row.description, row.input_schema, row.output_schema, row.spec)
        )
    instances: dict[int, list[InstanceRow]] = {}
    for one in Instance.objects.filter(**present).order_by("instance_id"):
        if one.agent_id in agents:  # else registered since the first query; the version says so, and all is read again
            instances.setdefault(one.agent_id, []).append(_instance_row(one, agents[one.agent_id]))
    signing = _signing_keys(namespace)
    secrets: dict[int, dict[str, str]] = {}
    for pk, name, value in AgentSecret.objects.filter(**own).values_list("agent_id", "name", "value"):
        secrets.setdefault(pk, {})[name] = _clear(bytes(value))
    return [
        _agent_row(
            agent,
            signing.get(agent.agent_id),
            capabilities.get(agent.pk, []),
            instances.get(agent.pk, []),
            secrets.get(agent.pk, {}),
        )
        for agent in agents.values()
    ]


def _agent_row(
    agent: Agent,
    signing: tuple[str, str] | None,
    capabilities: list[CapabilityRow],
    instances: list[InstanceRow],
    secrets: dict[str, str],
) -> AgentRow:
    return AgentRow(
        agent_id=agent.agent_id,
        display_name=agent.display_name,
        owner=agent.owner,
        version=agent.version,
        revision=agent.revision,
        external=agent.external,
        maintenance=agent.maintenance,
        tags=tuple(agent.tags),
        spec=agent.manifest.get("spec", {}),
        signing=signing,
        capabilities=tuple(capabilities),
        instances=tuple(instances),
        secrets=secrets,
    )


def _instance_row(one: Instance, agent: Agent) -> InstanceRow:
    endpoints = agent.manifest.get("spec", {}).get("endpoints") or {}
    return InstanceRow(
        instance_id=one.instance_id,
        agent_id=agent.agent_id,
        implicit=one.implicit,
        invoke_url=one.invoke_url or endpoints.get("invoke") or "",
        lookup_url=one.lookup_url or endpoints.get("lookup") or "",
        networks=one.networks,
        region=one.region,
        zone=one.zone,
        version=one.version or agent.version,
        labels=one.labels,
        cost=one.cost,
        state=one.state,
        state_since=one.state_since,
        weight=one.weight,
        max_concurrency=one.max_concurrency,
        prefer_channel=one.prefer_channel,
        draining=one.draining,
        weight_percent=one.weight_percent,
        pk=one.pk,
        health=health_factor(one.state, one.heartbeat),
        ejected=one.state == InstanceState.OFFLINE and one.reason.startswith(EJECTED),
    )


_DOWN = """
SELECT DISTINCT name FROM registry_instance i JOIN registry_agent a ON a.id = i.agent_id
JOIN unnest(%s::text[]) name ON i.heartbeat -> 'components' ->> name IN ('down', 'unreachable')
WHERE a.namespace = %s AND a.deleted_at IS NULL AND i.left_at IS NULL AND i.state <> 'OFFLINE'"""


def components_down(namespace: str, names: Collection[str]) -> frozenset[str]:
    """Which of these components some instance of the namespace says are down in its newest heartbeat."""
    with hot_cursor() as cursor:
        return frozenset(name for (name,) in cursor.execute(_DOWN, [list(names), namespace]).fetchall())


def _usable(now: datetime) -> Q:
    return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))


def _signing_keys(namespace: str, **only: str) -> dict[str, tuple[str, str]]:
    """The newest unrevoked pair of each agent."""
    rows = Credential.objects.filter(namespace=namespace, kind=Credential.Kind.AGENT, revoked_at=None, **only)
    found = rows.order_by("id").values_list("agent_id", "access_key", "secret_key")
    return {agent_id: (access_key, _clear(bytes(secret))) for agent_id, access_key, secret in found}


@functools.lru_cache(maxsize=20_000)
def _clear(encrypted: bytes) -> str:
    return decrypt(encrypted)


def agent_signing_key(namespace: str, agent_id: str) -> tuple[str, str] | None:
    """(access key, secret key) that requests to this agent are signed with; None when it never got credentials."""
    return _signing_keys(namespace, agent_id=agent_id).get(agent_id)


def agent_secrets(namespace: str, agent_id: str) -> dict[str, str]:
    """The agent's header secrets by name, in clear; for the moment of sending only."""
    rows = AgentSecret.objects.filter(agent__namespace=namespace, agent__agent_id=agent_id, agent__deleted_at=None)
    return {name: decrypt(bytes(value)) for name, value in rows.values_list("name", "value")}


def callback_secrets(namespace: str, client: str, now: datetime) -> list[str]:
    """The client's webhook secrets that still count, newest first."""
    raw = Client.objects.filter(namespace=namespace, name=client).values_list("callback_secrets", flat=True).first()
    return webhook_secrets.good(raw, now)


def client_limits(namespace: str, client: str) -> dict[str, Any]:
    """ratePerSecond, burst and maxConcurrency as set; {} when there are none."""
    return Client.objects.filter(namespace=namespace, name=client).values_list("limits", flat=True).first() or {}


def credential_by_key(key_hash: str, now: datetime) -> KnownCredential | None:
    """The good credential with this hash of a bearer key, from this process's cache or the database."""
    return _good(CACHE.get("h" + key_hash, lambda: _known(_BY_KEY, key_hash, now)), now)


def credential_by_access_key(access_key: str, now: datetime) -> KnownCredential | None:
    """The good credential with this access key, likewise."""
    return _good(CACHE.get("a" + access_key, lambda: _known(_BY_ACCESS_KEY, access_key, now)), now)


def _good(known: KnownCredential | None, now: datetime) -> KnownCredential | None:
    return known if known and known.is_good(now) else None


def _known(statement: str, key: str, now: datetime) -> KnownCredential | None:
    """As plain SQL: where each instance has a key of its own, nearly every heartbeat reads one."""
    with hot_cursor() as cursor:
        row = cursor.execute(statement, [key, now], prepare=True).fetchone()
    if row is None:
        return None
    kind, namespace, agent_id, scopes, hint, secret_key, expires_at, client, abilities, limits, schedule = row
    principal = Principal(
        kind=kind,
        namespace=namespace,
        client=client,
        agent_id=agent_id or None,
        scopes=frozenset(_json(scopes)),
        abilities=tuple(_json(abilities)) if client else (),
        limits=_json(limits) if client else {},
        name=f"{kind}:{client or agent_id or hint}",
        callback_schedule=schedule or Client.Schedule.STANDARD,
    )
    return KnownCredential(principal, bytes(secret_key), expires_at)
