"""What ends of attempts that no engine waits for show of the instance: answers that came later, or never."""

import datetime as dt
import logging
from collections.abc import Iterable
from typing import NamedTuple

from django.db import DatabaseError, InterfaceError

from registry.services import observing
from registry.services.observing import Observed
from routing.breaker.counting import count, let_go
from routing.evidence import code_of, fits_of, result_of
from routing.services.facts import AttemptFacts, call_of, capability_of
from routing.trip import Outcome

log = logging.getLogger(__name__)


class Ended(NamedTuple):
    """How an attempt at an instance ended; `sent_at` is what its time counts from, if that is known."""

    attempt: AttemptFacts
    instance_id: str
    outcome: Outcome
    sent_at: dt.datetime | None = None


def observe(ends: Iterable[Ended], now: dt.datetime) -> None:
    """Note them. Raises nothing: the ends themselves are on record."""
    known = list(ends)
    for end in known:
        _count(end, now)
    try:
        # A dead worker is no fault of the instance.
        observing.observed([_observed(*end) for end in known if end.outcome.kind != "LOST"], (), now)
    except (DatabaseError, InterfaceError) as error:
        log.warning("ends of attempts tell nothing of their instances: %s", type(error).__name__)


def _count(end: Ended, now: dt.datetime) -> None:
    call = call_of(end.attempt, end.instance_id, end.sent_at or now)
    if end.outcome.kind == "LOST":
        let_go(call, now)
    else:
        count(call, end.outcome)


def _observed(attempt: AttemptFacts, instance_id: str, outcome: Outcome, sent_at: dt.datetime | None) -> Observed:
    capability = capability_of(attempt)
    fits = fits_of(outcome, declared=capability is not None and capability.output is not None)
    took = outcome.at - sent_at if sent_at is not None and outcome.kind == "SUCCEEDED" else None
    ms = None if took is None else max(0.0, took / dt.timedelta(milliseconds=1))
    key = (attempt.namespace, attempt.agent_id, instance_id)
    return Observed(key, result_of(outcome), ms, code_of(outcome), outcome.at, fits)
