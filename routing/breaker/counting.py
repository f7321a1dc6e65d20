"""From the end of a call to the circuits that it went through."""

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from routing.breaker.barring import keys_of
from routing.breaker.rule import ANYBODY, Result, figures
from routing.breaker.view import number_of, view
from routing.evidence import verdict_of
from routing.states import Certainty
from routing.trip import Outcome


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as a breaker sees it; `given` is the `breaker` of the ability's route."""

    namespace: str
    agent_id: str
    instance_id: str
    ability: str
    client: str
    task_id: uuid.UUID
    sent_at: dt.datetime
    external: bool
    given: Mapping[str, Any]


def count(call: Call, outcome: Outcome) -> None:
    """Count how it went; a receipt counts for nothing, as its result is yet to come."""
    if outcome.kind != "ACCEPTED":
        # What never reached the agent cannot be due to what one client sends.
        whose = ANYBODY if outcome.certainty == Certainty.NOT_SENT else call.client
        heard(call, verdict_of(outcome), outcome.at, whose)


def let_go(call: Call, now: dt.datetime) -> None:
    """It was not sent after all, or nobody knows what became of it: another may be on trial."""
    heard(call, None, now, call.client)


def heard(call: Call, ok: bool | None, at: dt.datetime, whose: str) -> None:
    """Count it as well, as badly or as neither; `whose` is the client that may be the cause, or ANYBODY."""
    result = Result(number_of(call.task_id), ok, call.sent_at.timestamp(), at.timestamp(), whose)
    keys = keys_of(call.namespace, (call.agent_id, call.instance_id), call.ability, call.client)
    view().note(keys, result, figures(call.given, external=call.external))
