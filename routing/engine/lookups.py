"""Before a doubtful retry the agent is asked whether it has processed the task already."""

import dataclasses
import uuid
from collections.abc import Awaitable, Callable
from enum import Enum

from django.conf import settings

from common import clock
from common.outbound import Outbound, OutboundError
from routing import snapshot
from routing.channels import Sending, polling
from routing.services.doubts import Doubt
from routing.snapshot import AgentView, CapabilityView
from routing.states import Certainty
from routing.trip import Claimed, Outcome

BY_LOOKUP = {"by": "lookup"}


class Word(Enum):
    """What follows where the agent gave no result."""

    GO_ON = "nothing speaks against another attempt"
    UNKNOWN = "it may have run, a second run could do harm, and the agent does not say"


class Lookups:
    """`doubt_of` reads the earlier attempt in question."""

    def __init__(self, out: Outbound, doubt_of: Callable[[uuid.UUID], Awaitable[Doubt | None]]):
        self._out, self._doubt_of = out, doubt_of

    async def before(self, task: Claimed) -> Outcome | Word:
        """The result of an earlier attempt, or whether another one may be made."""
        doubt = await self._doubt_of(task.task_id) if task.attempts else None
        agent = snapshot.current(task.namespace).agents.get(doubt.agent_id) if doubt else None
        if doubt is None or agent is None:
            return Word.GO_ON
        capability = _capability(task, doubt)
        risky = capability.side_effects and not capability.idempotent
        url = lookup_of(agent, doubt.instance_id)
        if not url or (doubt.certainty != Certainty.MAYBE_RAN and not risky):
            return Word.GO_ON
        said = await self._ask(url, task.idempotency_key, agent, capability)
        if isinstance(said, Outcome) and not (said.kind == "FAILED" and said.retryable):
            return dataclasses.replace(said, details={**(said.details or {}), **BY_LOOKUP})
        return Word.UNKNOWN if said is None and risky else Word.GO_ON

    async def after(self, sending: Sending) -> Outcome | None:
        """The success of an attempt whose answer did not come, if the agent knows of one."""
        url = lookup_of(sending.agent, sending.instance.instance_id)
        if not url:
            return None
        said = await self._ask(url, sending.dispatch.task.idempotency_key, sending.agent, sending.capability)
        found = isinstance(said, Outcome) and said.kind == "SUCCEEDED"
        return dataclasses.replace(said, details=BY_LOOKUP) if found and isinstance(said, Outcome) else None

    async def _ask(self, url: str, key: str, agent: AgentView, capability: CapabilityView) -> Outcome | bool | None:
        limit = settings.REACH_MAX_ANSWER_BYTES
        try:
            answer = await polling.get(self._out, polling.lookup_url(url, key), agent.signing, limit)
        except OutboundError:
            return None
        return polling.of_lookup(answer, capability, clock.now(), agent.adapter)


def lookup_of(agent: AgentView, instance_id: str) -> str:
    """The lookup address of the instance, of any of the agent's where it is gone or has none; empty without any."""
    found = sorted(agent.instances, key=lambda one: one.instance_id != instance_id)
    return next((one.lookup_url for one in found if one.lookup_url), "")


def _capability(task: Claimed, doubt: Doubt) -> CapabilityView:
    """What the agent declares of it; where that is gone, a second run could do harm."""
    abilities = snapshot.current(task.namespace).abilities
    asked = [abilities[name] for name in (task.serving, task.ability) if name in abilities]
    for one in (candidate for ability in asked for candidate in ability.candidates):
        if (one.agent.agent_id, one.capability.name) == (doubt.agent_id, doubt.capability):
            return one.capability
    return CapabilityView(doubt.capability, side_effects=True)
