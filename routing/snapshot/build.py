"""Makes a snapshot from the rows of the registry and the routes."""

import functools
import logging
from collections import defaultdict
from typing import Any

import msgspec
from django.conf import settings

from common.clock import now
from common.schema import SchemaRefused, Validator
from registry import selectors
from registry.score import DEFAULT, Weights
from registry.selectors import AgentRow, CapabilityRow, InstanceRow
from routing.models import Candidate, Route
from routing.snapshot import scores
from routing.snapshot.model import (
    Ability,
    AdapterView,
    AgentView,
    CandidateView,
    CapabilityView,
    InstanceView,
    Price,
    RouteView,
    Snapshot,
)
from routing.states import TaskError

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
BACKOFF_MS = (1000, 2000, 4000)
JITTER_MS = 500
RETRYABLE = frozenset(
    {TaskError.TIMEOUT, TaskError.SERVICE_UNAVAILABLE, TaskError.INTERNAL_ERROR, TaskError.UNREACHABLE}
)

Declared = dict[str, dict[str, CapabilityView]]  # agent id → name → capability


def load(namespace: str) -> Snapshot:
    """Read a namespace in eight queries; one that does not exist is empty and has version 0."""
    # The version first: rows that change meanwhile are then newer than it says, and the next poll reads again.
    version = selectors.namespace_version(namespace)
    rows = selectors.agents_for_snapshot(namespace)
    routes = list(Route.objects.filter(namespace=namespace).prefetch_related("candidates"))
    agents = {row.agent_id: agent_view(row) for row in rows}
    declared = {row.agent_id: {c.name: capability_view(c) for c in row.capabilities} for row in rows}
    abilities = implicit_abilities(agents, declared)
    abilities.update((route.ability, explicit_ability(route, agents, declared)) for route in routes)
    return Snapshot(namespace, version, now(), abilities, agents)


def implicit_abilities(agents: dict[str, AgentView], declared: Declared) -> dict[str, Ability]:
    """Each capability's name is an ability, with every agent that declares it in one pool."""
    pools: dict[str, list[CandidateView]] = defaultdict(list)
    for agent_id, capabilities in declared.items():
        for name, capability in capabilities.items():
            pools[name].append(CandidateView(agents[agent_id], capability))
    route = route_view("", {})
    return {name: Ability(name, False, route, tuple(pool)) for name, pool in pools.items()}


def explicit_ability(route: Route, agents: dict[str, AgentView], declared: Declared) -> Ability:
    """A route's ability; candidates whose agent or capability is not registered (yet) are left out."""
    found = (candidate_view(c, route.ability, agents, declared) for c in route.candidates.all())
    view = route_view(route.strategy, route.settings)
    return Ability(route.ability, True, view, tuple(c for c in found if c is not None))


def candidate_view(
    row: Candidate, ability: str, agents: dict[str, AgentView], declared: Declared
) -> CandidateView | None:
    capabilities = declared.get(row.agent_id, {})
    # By default the ability's full name if the agent declares it, else its last word.
    names = [row.capability] if row.capability else [ability, ability.rpartition(".")[2]]
    capability = next((capabilities[name] for name in names if name in capabilities), None)
    if capability is None:
        return None
    return CandidateView(agents[row.agent_id], capability, row.weight, row.version or None)


def route_view(strategy: str, given: dict[str, Any]) -> RouteView:
    retry = given.get("retry") or {}
    backoff = retry.get("backoffMs", BACKOFF_MS)
    return RouteView(
        strategy=strategy or settings.REACH_ROUTER_STRATEGY,
        max_attempts=retry.get("maxAttempts", MAX_ATTEMPTS),
        backoff_ms=tuple(backoff) if isinstance(backoff, list | tuple) else (backoff,),
        jitter_ms=retry.get("jitterMs", JITTER_MS),
        jitter_share=retry.get("jitterShare"),
        retryable=frozenset(retry["retryableErrors"]) if "retryableErrors" in retry else RETRYABLE,
        when_unavailable=given.get("whenUnavailable", "wait"),
        limits=given.get("limits") or {},
        breaker=given.get("breaker") or {},
        fallback=given.get("fallback") or {},
        settings=given,
        score_weights=Weights(**weights) if (weights := given.get("scoreWeights")) else DEFAULT,
    )


def agent_view(row: AgentRow) -> AgentView:
    limits = row.spec.get("limits") or {}
    protocol = row.spec.get("protocol") or {}
    most, price = limits.get("maxConcurrency"), price_of(row.spec.get("cost"))
    return AgentView(
        agent_id=row.agent_id,
        version=row.version,
        external=row.external,
        maintenance=row.maintenance,
        tags=row.tags,
        timeout_ms=limits.get("timeoutMs"),
        max_concurrency=most,
        protocol=protocol,
        schema_versions=frozenset(protocol.get("schemaVersions") or ()),
        needs=frozenset(protocol.get("needs") or ()),
        display_name=row.display_name,
        channels=tuple(row.spec.get("channels") or ("http",)),
        instances=tuple(instance_view(one, most, price) for one in row.instances),
        signing=row.signing,
        adapter=adapter_view(row),
        cancel_url=(row.spec.get("endpoints") or {}).get("cancel") or "",
    )


def adapter_view(row: AgentRow) -> AdapterView | None:
    given = row.spec.get("adapter") or {}
    if not any(given.get(name) for name in ("preset", "request", "response", "headers")):
        return None
    headers = tuple((given.get("headers") or {}).items())
    return AdapterView(given.get("preset"), given.get("request"), given.get("response"), headers, row.secrets)


def price_of(declared: dict[str, Any] | None) -> Price | None:
    """What was declared as `cost`; None where nothing was."""
    if not declared:
        return None
    per_call, per_second, per_token = (float(declared.get(name) or 0) for name in ("perCall", "perSecond", "perToken"))
    return Price(per_call, per_second, per_token, declared.get("currency") or "")


def instance_view(row: InstanceRow, agents_max_concurrency: int | None, agents_price: Price | None) -> InstanceView:
    return InstanceView(
        instance_id=row.instance_id,
        agent_id=row.agent_id,
        invoke_url=row.invoke_url,
        lookup_url=row.lookup_url,
        region=row.region,
        zone=row.zone,
        version=row.version,
        labels=row.labels,
        state=row.state,
        state_since=row.state_since,
        weight=row.weight,
        max_concurrency=row.max_concurrency if row.max_concurrency is not None else agents_max_concurrency,
        draining=row.draining,
        weight_percent=row.weight_percent,
        prefer_channel=row.prefer_channel,
        networks=row.networks,
        cost=price_of(row.cost) or agents_price,
        vitals=scores.vitals(row.pk, row.health),
        pk=row.pk,
        ejected=row.ejected,
    )


def capability_view(row: CapabilityRow) -> CapabilityView:
    spec = row.spec
    return CapabilityView(
        name=row.name,
        input=_validator(row.input_schema),
        output=_validator(row.output_schema),
        latency_sla_ms=spec.get("latencySlaMs"),
        side_effects=bool(spec.get("sideEffects")),
        idempotent=bool(spec.get("idempotent")),
        stateful=bool(spec.get("stateful")),
        sensitive_fields=tuple(spec.get("sensitiveFields") or ()),
        idempotency_from=tuple(spec.get("idempotencyFrom") or ()),
        dependencies=tuple(spec.get("dependencies") or ()),
        response_mapping=spec.get("responseMapping") or {},
        method=spec.get("method") or "POST",
        path=spec.get("path") or "",
        description=row.description,
        input_schema=row.input_schema,
        request_sample=spec.get("requestSample"),
    )


def _validator(schema: Any) -> Validator | None:
    return None if schema is None else _compiled(msgspec.json.encode(schema))


@functools.lru_cache(maxsize=20_000)
def _compiled(schema: bytes) -> Validator | None:
    """The validator of a schema, by its text: a reload of a thousand agents compiles only what is new."""
    try:
        return Validator(msgspec.json.decode(schema))
    except SchemaRefused as error:  # accepted by an older release, perhaps; a payload must not be lost over it
        log.warning("a stored schema is not used: %s", error)
        return None
