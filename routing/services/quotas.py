"""How much a client may ask and an ability take on: what is over it is refused at once, and told when to come again.

A token is paid for a task: requests that are refused for what they say cost nothing, and neither do repetitions.
Where neither the client nor the route has limits nothing is asked of anybody.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common.errors import RateLimited, ReachError
from registry.principal import Principal
from routing.limits import buckets
from routing.limits.buckets import Bucket, Shortage, bucket
from routing.limits.places import Wanted
from routing.services import places
from routing.services.gathered import Gathered
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

    @property
    def is_narrow(self) -> bool:
        """Whether the limits are such that one task more or less is felt."""
        return any(one.burst < FEW for one in self.buckets) or (self.most_open or FEW) < FEW

    @property
    def places(self) -> list[Wanted]:
        """The one place that it needs, if places are limited."""
        return [Wanted(self.namespace, self.client, self.most_open, self.task_id)] if self.most_open else []


def ask(principal: Principal, namespace: str, client: str, ability: Ability, task_id: uuid.UUID) -> Ask | None:
    """What a request needs admission for; None where nothing is limited."""
    mine, its = principal.limits, ability.route.limits
    if not (mine or its):
        return None
    found = (
        bucket(CLIENT_RATE, mine, "client", namespace, client),
        bucket(ROUTE_RATE, its, "ability", namespace, ability.name),
    )
    rates, most_open = tuple(one for one in found if one), mine.get("maxConcurrency")
    if not (rates or most_open):
        return None
    return Ask(task_id, namespace, client, ability.name, rates, most_open and int(most_open))


def admit(asks: Sequence[Ask]) -> list[ReachError | None]:
    """Take what each needs, in order, or say why it cannot be had now: RateLimited, Overloaded."""
    return [_gathered.do(asks[0])] if len(asks) == 1 else _admit(list(asks))


def give_back(asks: Sequence[Ask]) -> None:
    """Return what was taken for requests that became no task."""
    buckets.give_back([one.buckets for one in asks])
    places.release([place for one in asks for place in one.places])


def _admit(asks: list[Ask]) -> list[ReachError | None]:
    answers: list[ReachError | None] = [None] * len(asks)
    for step in (_take_places, _take_tokens):
        left = [n for n, answer in enumerate(answers) if answer is None]
        for n, refusal in zip(left, step([asks[n] for n in left]), strict=True):
            answers[n] = refusal
    return answers


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


def _too_fast(one: Ask, short: Shortage) -> RateLimited:
    rate, burst = f"{short.bucket.rate:.10g}", short.bucket.burst
    owner = f"client {one.client}" if short.bucket.name == CLIENT_RATE else f"ability {one.ability}"
    detail = f"{owner} may have {rate} new tasks a second, {burst} at once ({short.bucket.name})"
    return RateLimited(detail, retry_after=short.wait_s, extra=_told(short.bucket.name, short.wait_s))


def _told(limit: str, wait_s: float) -> dict[str, Any]:
    return {"limit": limit, "retryAfterMs": max(1, round(wait_s * 1000))}


# Requests of several threads share a round trip.
_gathered: Gathered[Ask, ReachError | None] = Gathered(_admit)
