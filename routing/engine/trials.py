"""Breakers on a trip: a task that goes to a half-open instance goes on trial there."""

import asyncio
import time

from common import clock
from routing import breaker
from routing.breaker.counting import Call
from routing.channels import Sending
from routing.choice import Choice
from routing.snapshot import RouteView
from routing.trip import Claimed

LONGEST_TRIAL_S = 600.0
SPARE_S = 5.0  # an answer that comes at the last moment still counts


async def admit(task: Claimed, choice: Choice, timeout_ms: int) -> bool:
    """Whether the task may go to its chosen instance now: always, but for the trials of half-open breakers, of which
    one runs at a time over all processes."""
    circuits, now = breaker.view().open(task.namespace), time.time()
    keys = breaker.half_open(circuits, task.namespace, choice.instance.key, task.serving, task.client, now)
    if not keys:
        return True
    limit_s = min(timeout_ms / 1000, (task.deadline_at - clock.now()).total_seconds(), LONGEST_TRIAL_S)
    until = now + max(0.0, limit_s) + SPARE_S
    return await asyncio.to_thread(breaker.view().admit, keys, task.task_id, now, until)


def call_of(sending: Sending, route: RouteView) -> Call:
    """The call as its breakers see it."""
    dispatch = sending.dispatch
    return Call(
        namespace=dispatch.task.namespace,
        agent_id=dispatch.agent_id,
        instance_id=dispatch.instance_id,
        ability=dispatch.task.serving,
        client=dispatch.task.client,
        task_id=dispatch.task.task_id,
        sent_at=dispatch.sent_at,
        external=sending.agent.external,
        given=route.breaker,
    )
