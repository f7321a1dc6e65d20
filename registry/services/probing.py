"""Probing instances: each when it is due, one at a time, the newest result counts.

A claim moves `probe_due_at` behind the end of the probe, so it is its own lease: what a dead worker took becomes due
again by itself, and after a standstill there is one round to do, not all that were missed.
"""

import os
import random
import socket
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from common.database import hot_cursor, robust
from common.errors import NotFound
from common.secrets import decrypt
from registry import selectors
from registry.models import Agent, AgentSecret, Capability, Instance
from registry.probes.base import CannotProbe, Result, Target
from registry.probes.claims import Claim, Found
from registry.probes.schedule import next_delay_s
from registry.probes.targets import Subject, target_of
from registry.services import evidence, figures, judging
from registry.services.prober import Prober

PROBER = f"{socket.gethostname()}:{os.getpid()}"
NOTHING_TO_PROBE_S = 60.0
NO_ADDRESS = "there is no address to probe"

_TAKEN = """
UPDATE registry_instance AS i SET probe_claimed_at = t.claimed, probe_due_at = t.due
FROM unnest(%(ids)s::bigint[], %(claimed)s::timestamptz[], %(due)s::timestamptz[]) AS t (id, claimed, due)
WHERE i.id = t.id"""

_FOUND = """
UPDATE registry_instance AS i SET probe_claimed_at = NULL, probed_at = %(now)s, probe_due_at = r.due,
    probe_reason = r.reason, probe_failures = r.failures, probe_successes = r.successes
FROM unnest(%(ids)s::bigint[], %(claimed)s::timestamptz[], %(due)s::timestamptz[], %(reasons)s::text[],
    %(failures)s::int[], %(successes)s::int[]) AS r (id, claimed, due, reason, failures, successes)
WHERE i.id = r.id AND i.probe_claimed_at = r.claimed RETURNING i.id"""

HOLLOW = {
    "pointer": "/spec/probe",
    "code": "HOLLOW_HEALTH_CHECK",
    "message": "the health check says nothing of the declared dependencies, so it stays good when they are down",
}


def tick(now: datetime) -> int:
    """Take what is due and this process has room for, and probe it in the background; returns how many were taken."""
    if not _due(now).exists():  # most ticks end here, with one short query
        return 0
    prober = running_prober()
    taken = 0
    for suspect in (False, True):
        room = prober.room(suspect)
        claims = claim(now, suspect=suspect, limit=room) if room else []
        prober.submit(claims, suspect)
        taken += len(claims)
    return taken


@robust
def claim(now: datetime, *, suspect: bool, limit: int) -> list[Claim]:
    """Take at most `limit` instances that are due: those that were well at their last probe, or the suspects."""
    with transaction.atomic():
        due = _due(now).filter(probe_failures__gt=0) if suspect else _due(now).filter(probe_failures=0)
        rows = list(_locked(due.order_by("probe_due_at"))[:limit])
        return _take(rows, now) if rows else []


@robust
def record(found: Sequence[Found], now: datetime) -> list[Found]:
    """Keep results whose claim is still the newest, and hand them on as evidence; returns those."""
    written = _write(found, now)
    kept = [one for one in found if one.claim.instance_pk in written]
    for claim, result in ((one.claim, one.result) for one in kept):
        if result.ok is not None:
            evidence.probed(claim.instance_pk, result.ok, round(result.ms, 1), result.reason, now, PROBER)
            if result.ok and result.hollow != claim.warned:
                _warn(claim.instance_pk, result.hollow)
    return kept


def probe_now(namespace: str, agent_id: str, instance_id: str, *, now: datetime) -> tuple[Instance, Result]:
    """Probe an instance at once, with its own settings, and judge it by the result. Raises NotFound.

    A scheduled probe that is under way meanwhile no longer counts.
    """
    mine = Instance.objects.filter(agent__namespace=namespace, agent__agent_id=agent_id, agent__deleted_at=None)
    with transaction.atomic():
        rows = list(_locked(mine.filter(instance_id=instance_id, left_at=None), wait=True))
        if not rows:
            raise NotFound
        claims = _take(rows, now)
    if not claims:
        return rows[0], Result(None, 0.0, NO_ADDRESS)
    [taken] = claims
    found = Found(taken, running_prober().run(taken))
    record([found], now + timedelta(milliseconds=found.result.ms))
    judging.judge_instances([taken.instance_pk], now)
    return Instance.objects.get(pk=taken.instance_pk), found.result


def after(claim: Claim, result: Result) -> tuple[int, int, datetime]:
    """(failures in a row, successes in a row, next due) once this is the result."""
    failures, successes = claim.failures, claim.successes
    if result.ok is not None:
        failures, successes = (0, successes + 1) if result.ok else (failures + 1, 0)
    delay = next_delay_s(failures, claim.retries, claim.interval_s, random.random)
    return failures, successes, claim.at + timedelta(seconds=delay)


_prober: Prober | None = None


def running_prober() -> Prober:
    """This process's prober, started at its first use."""
    global _prober
    if _prober is None:
        _prober = Prober(record, Instance.objects.filter(left_at=None).count)
    return _prober


def stop() -> None:
    """End this process's prober; what it took becomes due again by itself."""
    global _prober
    if _prober is not None:
        _prober.stop()
        _prober = None


def _due(now: datetime) -> QuerySet[Instance]:
    return Instance.objects.filter(left_at=None, probe_due_at__lte=now)


def _locked(rows: QuerySet[Instance], *, wait: bool = False) -> QuerySet[Instance]:
    return rows.select_for_update(no_key=True, skip_locked=not wait, of=("self",)).only(
        "agent", "instance_id", "invoke_url", "health_url", "state", "probe_failures", "probe_successes"
    )


def _take(rows: Sequence[Instance], now: datetime) -> list[Claim]:
    """Claims of locked rows; those without any address only get another time to be looked at."""
    subjects = _subjects(rows)
    targets = _targets({pk: one for pk, one in subjects.items() if one.has_address})
    claims = [_claim(row, subjects[row.pk], targets[row.pk], now) for row in rows if row.pk in targets]
    due = {row.pk: now + timedelta(seconds=NOTHING_TO_PROBE_S) for row in rows}
    due |= {one.instance_pk: now + timedelta(seconds=_lease_s(one)) for one in claims}
    claimed = [now if pk in targets else None for pk in due]
    with hot_cursor() as cursor:
        cursor.execute(_TAKEN, {"ids": list(due), "claimed": claimed, "due": list(due.values())})
    return claims


def _lease_s(claim: Claim) -> float:
    """Waiting for its turn, the probe itself, and as long again for its result to be kept."""
    return claim.good_for_s + 2 * (claim.target.timeout_s if claim.target else 0.0)


def _claim(row: Instance, subject: Subject, target: Target | CannotProbe, now: datetime) -> Claim:
    interval_s = subject.interval_s(settings.REACH_PROBE_INTERVAL)
    return Claim(
        instance_pk=row.pk,
        at=now,
        failures=row.probe_failures,
        successes=row.probe_successes,
        retries=subject.retries(figures.platform().probe_retries),
        interval_s=interval_s,
        good_for_s=interval_s,
        target=None if isinstance(target, CannotProbe) else target,
        problem=str(target) if isinstance(target, CannotProbe) else "",
        warned=subject.warned,
    )


def _subjects(rows: Sequence[Instance]) -> dict[int, Subject]:
    agents = Agent.objects.only("namespace", "agent_id", "manifest", "warnings").in_bulk({row.agent_id for row in rows})
    return {
        row.pk: Subject(
            namespace=agents[row.agent_id].namespace_id,
            agent_id=agents[row.agent_id].agent_id,
            invoke_url=row.invoke_url,
            health_url=row.health_url,
            spec=agents[row.agent_id].manifest.get("spec") or {},
            warned=any(one["code"] == HOLLOW["code"] for one in agents[row.agent_id].warnings),
        )
        for row in rows
    }


def _targets(subjects: dict[int, Subject]) -> dict[int, Target | CannotProbe]:
    """What to probe, by instance; secrets, keys and schemas are read only for those that need them."""
    secrets = _by_agent(subjects.values(), lambda one: one.names_secrets, _secrets)
    signing = _by_agent(subjects.values(), lambda one: one.kind == "synthetic", selectors.agent_signing_key)
    schemas = _by_agent(subjects.values(), lambda one: one.kind == "synthetic", _output_schemas)
    found: dict[int, Target | CannotProbe] = {}
    for pk, one in subjects.items():
        who = (one.namespace, one.agent_id)
        try:
            found[pk] = target_of(
                one, secrets=secrets.get(who, {}), output_schemas=schemas.get(who, {}), signing=signing.get(who)
            )
        except CannotProbe as problem:
            found[pk] = problem
    return found


def _by_agent(
    subjects: Iterable[Subject], needs: Callable[[Subject], bool], read: Callable[[str, str], Any]
) -> dict[tuple[str, str], Any]:
    return {who: read(*who) for who in {(one.namespace, one.agent_id) for one in subjects if needs(one)}}


def _secrets(namespace: str, agent_id: str) -> dict[str, str]:
    rows = AgentSecret.objects.filter(agent__namespace=namespace, agent__agent_id=agent_id)
    return {name: decrypt(bytes(value)) for name, value in rows.values_list("name", "value")}


def _output_schemas(namespace: str, agent_id: str) -> dict[str, Any]:
    rows = Capability.objects.filter(agent__namespace=namespace, agent__agent_id=agent_id)
    return dict(rows.values_list("name", "output_schema"))


def _warn(instance_pk: int, hollow: bool) -> None:
    """Tell the owner with the manifest's other warnings, until the check is better."""
    with transaction.atomic():
        agent = Agent.objects.select_for_update(no_key=True).get(instances=instance_pk)
        others = [one for one in agent.warnings if one["code"] != HOLLOW["code"]]
        agent.warnings = [*others, HOLLOW] if hollow else others
        agent.save(update_fields=["warnings"])


def _write(found: Sequence[Found], now: datetime) -> set[int]:
    following = [after(one.claim, one.result) for one in found]
    with hot_cursor() as cursor:
        cursor.execute(
            _FOUND,
            {
                "now": now,
                "ids": [one.claim.instance_pk for one in found],
                "claimed": [one.claim.at for one in found],
                "due": [due for _, _, due in following],
                "reasons": [one.result.reason for one in found],
                "failures": [failures for failures, _, _ in following],
                "successes": [successes for _, successes, _ in following],
            },
        )
        return {int(row[0]) for row in cursor.fetchall()}
