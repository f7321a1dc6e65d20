"""A change is told to its hook by the running platform, also when every worker is killed at that moment."""

import pytest

from tests.trips.world import until

pytestmark = pytest.mark.chaos


def test_a_registration_and_a_goodbye_amid_killed_workers_are_told_once_each(world):
    at, told = f"?namespace={world.namespace}", world.outside.callbacks
    hook = {"events": ["agent.state"], "url": f"{world.outside.url}/callback"}
    world.platform.operator("POST", f"/v1/hooks{at}", json=hook)
    instance = f"/v1/agents/echo/instances/i1{at}"
    world.platform.operator("PUT", instance, json={"invokeUrl": f"{world.outside.url}/invoke"})
    until(lambda: [one for one in told if one["instanceId"] == "i1"], 10, "the first message")
    for worker in world.platform.processes("celery", "worker"):
        worker.kill()
    world.platform.operator("DELETE", instance)
    until(lambda: len(told) == 2, 30, "the second message")
    assert [(one["fromState"], one["toState"]) for one in told] == [(None, "NEW"), ("NEW", "OFFLINE")]
    assert len({one["webhookId"] for one in told}) == 2
