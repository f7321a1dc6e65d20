"""How much a client may ask and an ability take on: what is over it is refused at once, and told when to come again.

A token is paid for a task: requests that are refused for what they say cost nothing, and neither do repetitions.
Where neither the client nor the route has limits nothing is asked of anybody.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common import clock
from common.errors import Overloaded, RateLimited, ReachError
from registry.principal import Principal
from routing import breaker
from routing.limits import buckets
from routing.limits.buckets import Bucket, Shortage, bucket
from routing.limits.capacity import capacity_of
from routing.limits.places import Wanted
from routing.services import places, queues
from routing.services.admission import Times
from routing.services.gathered import Gathered
from routing.services.queues import INFLIGHT, QUEUE, WAIT, Entry
from routing.snapshot import Ability

CLIENT_RATE, ROUTE_RATE, CLIENT_OPEN = "client.ratePerSecond", "route.ratePerSecond", "client.maxConcurrency"
FEW = 100  # of limits below it every place counts: a repetition is recognised before it takes one


@dataclass(frozen=True, slots=True)
class Ask:
    """What one request would take of limited things if it became the task of this id."""

    task_id: uuid.UUID
    namespace: str
    client: str
    ability: str
    buckets: tuple[Bucket, ...] = ()
    most_open: int | None = None  # tasks of this client that have not ended
    entry: Entry | None = None  # where the ability's queue is limited

    @property
    def is_narrow(self) -> bool:
        """Whether the limits are such that one task more or less is felt."""
        return any(one.burst < FEW for one in self.buckets) or (self.most_open or FEW) < FEW

    @property
    def places(self) -> list[Wanted]:
        """The one place that it needs, if places are limited."""
        return [Wanted(self.namespace, self.client, self.most_open, self.task_id)] if self.most_open else []


def ask(
    principal: Principal, namespace: str, client: str, ability: Ability, task_id: uuid.UUID, priority: int, times: Times
) -> Ask | None:
    """What a request needs admission for; None where nothing is limited."""
    mine, its = principal.limits, ability.route.limits
    if not (mine or its):
        return None
    found = (
        bucket(CLIENT_RATE, mine, "client", namespace, client),
        bucket(ROUTE_RATE, its, "ability", namespace, ability.name),
    )
    rates, most_open = tuple(one for one in found if one), mine.get("maxConcurrency")
    entry = None
    if times.not_before is None and not its.keys().isdisjoint(("queueMax", "maxInflight")):
        budget_s = (times.deadline_at - times.due_at).total_seconds()
        capacity = _capacity(namespace, ability, client)
        entry = Entry(task_id, namespace, client, ability, capacity, priority, budget_s)
    if not (rates or most_open or entry):
        return None
    return Ask(task_id, namespace, client, ability.name, rates, most_open and int(most_open), entry)


def _capacity(namespace: str, ability: Ability, client: str) -> int:
    """Added up once for each snapshot, unless breakers keep instances from this client just now."""
    circuits = breaker.view().open(namespace)
    if circuits and (barred := breaker.barred(circuits, namespace, ability, client, clock.now().timestamp())):
        return capacity_of(ability, barred)
    known = _capacities.get((namespace, ability.name))
    if known is None or known[0] is not ability:
        known = _capacities[namespace, ability.name] = ability, capacity_of(ability)
    return known[1]


def admit(asks: Sequence[Ask]) -> list[ReachError | None]:
    """Take what each needs, in order, or say why it cannot be had now: RateLimited, Overloaded."""
    return [_gathered.do(asks[0])] if len(asks) == 1 else _admit(list(asks))


def settle(asks: Sequence[Ask], *, became_tasks: bool) -> None:
    """These became tasks; or they did not, and what was taken for them is returned."""
    queues.finished([one.entry for one in asks if one.entry], became_tasks=became_tasks)
    if not became_tasks:
        buckets.give_back([one.buckets for one in asks])
        places.release([place for one in asks for place in one.places])


def _admit(asks: list[Ask]) -> list[ReachError | None]:
    answers: list[ReachError | None] = [None] * len(asks)
    for step in (_enter_queues, _take_places, _take_tokens):
        left = [n for n, answer in enumerate(answers) if answer is None]
        for n, refusal in zip(left, step([asks[n] for n in left]), strict=True):
            answers[n] = refusal
    refused = [one.entry for one, answer in zip(asks, answers, strict=True) if answer and one.entry]
    queues.finished(refused, became_tasks=False)
    return answers


def _enter_queues(asks: list[Ask]) -> list[ReachError | None]:
    entries = [one.entry for one in asks if one.entry]
    if not entries:
        return [None] * len(asks)
    refused = dict(zip((one.task_id for one in entries), queues.enter(entries, clock.now()), strict=True))
    return [_too_full(one, refusal) if (refusal := refused.get(one.task_id)) else None for one in asks]


def _take_places(asks: list[Ask]) -> list[ReachError | None]:
    wanted = [place for one in asks for place in one.places]
    got = dict(zip((one.task_id for one in wanted), places.reserve(wanted), strict=True))
    refused = {(one.namespace, one.client) for one in asks if not got.get(one.task_id, True)}
    waits = {owner: max(1.0, places.wait_s(*owner)) for owner in refused}
    return [None if got.get(one.task_id, True) else _too_many(one, waits) for one in asks]


def _take_tokens(asks: list[Ask]) -> list[ReachError | None]:
    shortages = buckets.take([one.buckets for one in asks])
    places.release([place for one, short in zip(asks, shortages, strict=True) if short for place in one.places])
    return [_too_fast(one, short) if short else None for one, short in zip(asks, shortages, strict=True)]


def _too_many(one: Ask, waits: dict[tuple[str, str], float]) -> RateLimited:
    detail = f"client {one.client} may have {one.most_open} tasks that have not ended ({CLIENT_OPEN})"
    wait_s = waits[one.namespace, one.client]
    return RateLimited(detail, retry_after=wait_s, extra=_told(CLIENT_OPEN, wait_s))


def _too_full(one: Ask, refusal: queues.Refusal) -> Overloaded:
    limits = one.entry.ability.route.limits if one.entry else {}
    detail = {
        QUEUE: f"{limits.get('queueMax')} tasks may wait for {one.ability}, and so many do",
        INFLIGHT: f"{limits.get('maxInflight')} calls of {one.ability} may be in flight, and so many are or will be",
        WAIT: f"so much waits for {one.ability} that this task would not be done within its time",
    }[refusal.limit]
    wait_s = max(1.0, refusal.wait_s)
    return Overloaded(f"{detail} ({refusal.limit})", retry_after=wait_s, extra=_told(refusal.limit, wait_s))


def _too_fast(one: Ask, short: Shortage) -> RateLimited:
    rate, burst = f"{short.bucket.rate:.10g}", short.bucket.burst
    owner = f"client {one.client}" if short.bucket.name == CLIENT_RATE else f"ability {one.ability}"
    detail = f"{owner} may have {rate} new tasks a second, {burst} at once ({short.bucket.name})"
    return RateLimited(detail, retry_after=short.wait_s, extra=_told(short.bucket.name, short.wait_s))


def _told(limit: str, wait_s: float) -> dict[str, Any]:
    return {"limit": limit, "retryAfterMs": max(1, round(wait_s * 1000))}


_capacities: dict[tuple[str, str], tuple[Ability, int]] = {}
# Requests of several threads share a round trip.
_gathered: Gathered[Ask, ReachError | None] = Gathered(_admit)
