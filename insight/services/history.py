"""A made-up past: ended tasks with all that belongs to them, in millions, to see how pages do in large tables.

The names are this module's own, so that what it made is told from what happened. One statement a table and slice of
time; a slice is a transaction.
"""

import datetime as dt
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from callbacks.models import Callback, Delivery
from common import partitions
from common.clock import millis
from common.database import hot_cursor
from insight.services import history_sql
from registry.models import Agent, Capability, Client, Namespace
from registry.services import changes, namespaces
from routing.models import Attempt, Event, Idempotency, Task, TaskBody
from routing.services.partitions import TABLES

NAMESPACES = ("history-main", "history-eu", "history-test", "history-few", "history-old")
ABILITIES = (
    "ticket.classify", "ticket.triage", "ticket.summarise", "order.status", "order.refund", "invoice.read",
    "invoice.match", "claim.assess", "mail.draft", "mail.translate", "contract.review", "contract.compare",
    "risk.score", "lead.qualify", "stock.forecast", "chat.answer", "chat.handover", "report.write", "image.tag",
    "speech.transcribe",
)  # fmt: skip
CLIENTS = ("shop", "crm", "billing", "portal", "warehouse", "mobile", "partner-a", "partner-b")
TEAMS = ("support-desk", "finance", "sales", "platform")
ACTOR = "load_history"
_MODELS = (Task, TaskBody, Idempotency, Attempt, Event, Callback, Delivery)
SLICE = 20_000  # tasks in one transaction


def has_others() -> bool:
    """Whether there are tasks that this module did not make."""
    names = list(Namespace.objects.exclude(name__in=NAMESPACES).values_list("name", flat=True))
    return Task.objects.filter(namespace__in=names).exists()


def is_empty() -> bool:
    """Whether there is no task at all."""
    return not Task.objects.exists()


def load(tasks: int, days: int, still_open: int, now: dt.datetime) -> Iterator[int]:
    """Make that many tasks over that many days before `now`, the last `still_open` of them not ended yet; gives the
    number of those made after each slice. Workers would take up what is open."""
    start = now - dt.timedelta(days=days)
    _prepare(start, days, now)
    given = {
        "start": millis(start), "step": days * 86_400_000 / tasks, "tasks": tasks, "open": still_open,
        "salt": secrets.token_hex(4), "namespaces": list(NAMESPACES), "abilities": list(ABILITIES),
        "clients": list(CLIENTS), "now": now,
    }  # fmt: skip
    for first in range(0, tasks, SLICE):
        last = min(first + SLICE, tasks)
        _make({**given, "first": first, "last": last - 1})
        yield last


@contextmanager
def without_indexes() -> Iterator[None]:
    """The tables without all indexes but the keys, which are made anew in the end: a third of the time for millions of
    rows, and nothing to do where somebody else works."""
    kept = [(model, index) for model in _MODELS for index in model._meta.indexes]
    with connection.schema_editor() as editor:
        for model, index in kept:
            editor.remove_index(model, index)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            for model, index in kept:
                editor.add_index(model, index)


def settle() -> None:
    """Count and tidy the tables, as the server does by itself after a while; not inside a transaction."""
    with hot_cursor() as cursor:
        for table in (*TABLES, "routing_idempotency"):
            cursor.execute(f'VACUUM (ANALYZE) "{table}"')


@transaction.atomic
def _make(given: dict[str, Any]) -> None:
    with hot_cursor() as cursor:
        cursor.execute(history_sql.DRAFT_TABLE)
        cursor.execute("TRUNCATE history_draft")
        cursor.execute(history_sql.DRAFT, given)
        for statement in history_sql.TABLES:
            cursor.execute(statement)


def _prepare(start: dt.datetime, days: int, now: dt.datetime) -> None:
    """Weeks of the past, and who is named in it."""
    for table in TABLES:
        partitions.ensure(connection, table, start, weeks=days // 7 + 1)
    for name in NAMESPACES:
        _people(name, now)


@transaction.atomic
def _people(name: str, now: dt.datetime) -> None:
    """A namespace with clients, and with agents that have no instances: nobody calls them."""
    if Agent.objects.filter(namespace=name).exists():
        return
    if not Namespace.objects.filter(name=name).exists():
        namespaces.create(name, actor=ACTOR, now=now)
    Client.objects.bulk_create(Client(namespace_id=name, name=client, abilities=["*"]) for client in CLIENTS)
    agents = [_agent(name, number, version) for number in range(len(ABILITIES)) for version in ("", "-v2")]
    Agent.objects.bulk_create(agents)
    Capability.objects.bulk_create(
        Capability(agent=one, spec=spec, name=spec["name"], description=spec["description"])
        for one in agents
        for spec in one.manifest["spec"]["capabilities"]
    )
    changes.touch(name)


def _agent(namespace: str, number: int, version: str) -> Agent:
    ability, team = ABILITIES[number], TEAMS[number % len(TEAMS)]
    id, word = ability.replace(".", "-") + version, ability.partition(".")[0]
    capability = {"name": ability, "description": f"{ability}, of the made-up past", "sideEffects": False}
    manifest = {
        "apiVersion": "agent-reach/v1", "kind": "AgentManifest", "metadata": {"name": id, "version": "1.0.0"},
        "spec": {"owner": team, "tags": [word], "capabilities": [capability]},
    }  # fmt: skip
    return Agent(
        namespace_id=namespace, agent_id=id, owner=team, tags=[word], version="1.0.0", revision=1, manifest=manifest
    )
