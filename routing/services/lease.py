"""An agent fetches its tasks: claim, choice and attempt in one transaction, so that a process that dies holds nothing.

Routing has chosen the agent; which of its instances works is decided by who asks, and the rules are asked once more for
the one that does. A task that was fetched and not acknowledged within `RECEIPT_WITHIN` is swept up as lost.
"""

import dataclasses
import datetime as dt
import random
import time
import uuid
from dataclasses import dataclass

from django.db import transaction

from common.clock import now as clock_now
from common.clock import rfc3339
from common.database import hot_cursor
from routing import queue, snapshot
from routing.channel_choice import PULL, pulls
from routing.channels.base import Sending, failed
from routing.channels.envelope import request_body
from routing.choice import Choice, NoChoice, ability_busy, choose
from routing.engine.request import Request, ask_of, read
from routing.engine.sendings import sending_of
from routing.limits import slots
from routing.limits.slots import Slot
from routing.loads import Loads
from routing.pulling import abilities_of, offer_to
from routing.services.claim import claim_offered
from routing.services.dispatch import dispatch
from routing.services.receipt import RECEIPT_WITHIN
from routing.services.settle import settle
from routing.services.waiting import put_back
from routing.snapshot import Ability, Snapshot
from routing.states import Certainty, TaskError
from routing.trip import Claimed, Retry, Settlement

SPARE = 16  # tasks looked at beyond those asked for, as some may be for another instance
UNREAD = "The agent hung up before the task was handed to it."

_MILLISECOND = dt.timedelta(milliseconds=1)
# Two polls of one instance at a time would both count what is in flight before either adds to it.
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_OPEN = """
SELECT count(*) FROM routing_attempt
WHERE ended_at IS NULL AND namespace = %s AND agent_id = %s AND instance_id = %s"""
_OPEN_OF_ABILITY = """
SELECT count(*) FROM routing_attempt a JOIN routing_task t ON t.id = a.task_id
WHERE a.ended_at IS NULL AND a.namespace = %s AND coalesce(t.fallback ->> 'ability', t.ability) = %s"""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """The instance that asks."""

    namespace: str
    agent_id: str
    instance_id: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.namespace, self.agent_id, self.instance_id


@dataclass(frozen=True, slots=True)
class Leased:
    """A task that was handed out: `body` is the request as any channel sends it, with `leaseUntil`."""

    task_id: uuid.UUID
    number: int
    attempt_key: uuid.UUID
    body: bytes


def take(fetcher: Fetcher, most: int, now: dt.datetime) -> list[Leased]:
    """At most `most` tasks that are offered to this instance's agent, each with its attempt on record."""
    known = snapshot.current(fetcher.namespace)
    abilities = abilities_of(known, fetcher.agent_id)
    if not abilities:
        return []
    boot = uuid.uuid4()  # for this transaction only: nobody holds the tasks afterwards
    with transaction.atomic():
        loads = _in_flight(fetcher)
        found = claim_offered(fetcher.namespace, abilities, offer_to(fetcher.agent_id), boot, most + SPARE, now)
        if found:
            known = snapshot.at_least(fetcher.namespace, max(task.namespace_version for task in found))
            _count_abilities({task.serving for task in found}, known, loads)
        sendings = _sendings(found, fetcher, known, loads, most)
        sent = dispatch([one.dispatch for one in sendings], boot) if sendings else set()
        back = [(task.task_id, task.due_at, None) for task in found if task.task_id not in sent]
        if back:
            put_back(back, boot_id=boot)
    handed_out = [one for one in sendings if one.dispatch.task.task_id in sent]
    slots.hold_soon([_slot(one, now) for one in handed_out])
    return [_leased(one) for one in handed_out]


def unread(leased: list[Leased], now: dt.datetime) -> None:
    """The agent had hung up before it could read these: none of them was sent, and each is free at once."""
    outcome = failed(TaskError.UNREACHABLE, Certainty.NOT_SENT, now, UNREAD)
    again = Retry(now, TaskError.UNREACHABLE)
    settle([Settlement(one.task_id, one.number, again, outcome, now, attempt_key=one.attempt_key) for one in leased])
    queue.nudge([one.task_id for one in leased])


def _in_flight(fetcher: Fetcher) -> Loads:
    with hot_cursor() as cursor:
        cursor.execute(_ONE_AT_A_TIME, ["\n".join(fetcher.key)])
        row = cursor.execute(_OPEN, fetcher.key, prepare=True).fetchone()
    loads = Loads()
    loads.acquire([fetcher.key] * (row[0] if row else 0))
    return loads


def _count_abilities(names: set[str], known: Snapshot, loads: Loads) -> None:
    """Add what is in flight of the abilities that have a limit; until the commit no other poll adds to it."""
    limited = [name for name in names if (one := known.abilities.get(name)) and one.route.limits.get("maxInflight")]
    with hot_cursor() as cursor:
        for name in sorted(limited):
            cursor.execute(_ONE_AT_A_TIME, [f"{known.namespace}\n{name}"])
            row = cursor.execute(_OPEN_OF_ABILITY, [known.namespace, name], prepare=True).fetchone()
            loads.acquire([(known.namespace, name)] * (row[0] if row else 0))


def _sendings(found: list[Claimed], fetcher: Fetcher, known: Snapshot, loads: Loads, most: int) -> list[Sending]:
    """What the instance gets of the tasks that were found."""
    sendings: list[Sending] = []
    for task in found:
        if len(sendings) == most:
            break
        sending = _sending(task, read(task.request), fetcher, known, loads)
        if sending is not None:
            loads.acquire([fetcher.key, (fetcher.namespace, task.serving)])
            sendings.append(sending)
    return sendings


def _sending(task: Claimed, request: Request, fetcher: Fetcher, known: Snapshot, loads: Loads) -> Sending | None:
    ability = known.abilities.get(task.serving)
    if ability is not None and ability_busy(ability, task.namespace, loads):
        return None
    began = time.perf_counter()
    own = None if ability is None else _narrowed(ability, fetcher, whole=task.session_id is not None)
    left_ms = (task.deadline_at - clock_now()) // _MILLISECOND
    choice: Choice | NoChoice = choose(own, ask_of(task, request, own, left_ms), loads, random.random)
    if isinstance(choice, NoChoice) or choice.instance.instance_id != fetcher.instance_id:
        return None
    took_ms = round((time.perf_counter() - began) * 1000, 1)
    return sending_of(task, request, choice, PULL, took_ms=took_ms)


def _narrowed(ability: Ability, fetcher: Fetcher, *, whole: bool) -> Ability:
    """The ability as if there were this instance only; with `whole`, as a session chooses its own, this agent only."""
    candidates = []
    for one in ability.candidates:
        if one.agent.agent_id == fetcher.agent_id and pulls(one.agent):
            instances = tuple(i for i in one.agent.instances if whole or i.instance_id == fetcher.instance_id)
            candidates.append(dataclasses.replace(one, agent=dataclasses.replace(one.agent, instances=instances)))
    return dataclasses.replace(ability, candidates=tuple(candidates))


def _slot(sending: Sending, now: dt.datetime) -> tuple[Slot, int]:
    """What pushes to the instance see of it: its place until it ends or its time is over."""
    one = sending.dispatch
    slot = Slot(
        one.attempt_key.hex,
        (one.task.namespace, one.agent_id, one.instance_id),
        (one.task.namespace, one.task.ability),
    )
    return slot, (one.deadline_at - now) // _MILLISECOND


def _leased(sending: Sending) -> Leased:
    one = sending.dispatch
    until = min(one.sent_at + RECEIPT_WITHIN, one.deadline_at)
    body = request_body(sending, one.sent_at, leaseUntil=rfc3339(until))
    return Leased(one.task.task_id, one.number, one.attempt_key, body)
