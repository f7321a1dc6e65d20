"""Many equal or late things, one effect."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.trips.world import until


def test_fifty_identical_posts_at_once_are_one_task_and_one_agent_call(world):
    barrier = threading.Barrier(50)

    def post(_):
        barrier.wait()
        return world.reach({"n": 1}, correlationId="order-10086")

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(post, range(50)))
    assert {answer.status_code for answer in answers} == {202}, {answer.text for answer in answers}
    (task_id,) = {answer.json()["taskId"] for answer in answers}
    assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1
    world.all_told([task_id])
    assert len(world.outside.calls) == 1


def test_an_answer_after_the_time_limit_does_not_change_the_end(world):
    world.outside.delay_s = 1.5
    task_id = world.submit(timeoutMs=500, retry={"maxAttempts": 1})
    ended = world.ended(task_id)
    assert (ended["state"], ended["error"]["code"]) == ("TIMEOUT", "TIMEOUT")
    until(lambda: world.outside.callbacks_of(task_id), 10, "the callback")
    threading.Event().wait(2.0)  # the agent's answer comes in this time; nothing tells when it was ignored
    assert world.task(task_id)["state"] == "TIMEOUT"
    assert [body["state"] for body in world.outside.callbacks_of(task_id) if not body["late"]] == ["TIMEOUT"]


def test_cancel_and_answer_in_the_same_moment_have_one_winner(world):
    world.outside.delay_s = 0.3
    ids = world.submit_many(20)
    until(lambda: len(world.outside.calls) >= 15, 20, "the agent's calls")
    threading.Event().wait(0.15)
    with ThreadPoolExecutor(10) as pool:
        statuses = list(pool.map(lambda one: world.request("POST", f"/v1/tasks/{one}/cancel").status_code, ids))
    for task_id, status in zip(ids, statuses, strict=True):
        expected = {200: "CANCELLED", 409: "SUCCEEDED"}[status]
        assert world.ended(task_id)["state"] == expected
        until(lambda one=task_id: world.outside.callbacks_of(one), 20, "the callback")
        assert [body["state"] for body in world.outside.callbacks_of(task_id)] == [expected]


@pytest.mark.slow
def test_a_task_longer_than_the_brokers_patience_runs_once(world):
    """The platform of these tests has the shortest visibility timeout, 60 s."""
    world.outside.delay_s = 66
    task_id = world.submit(timeoutMs=90_000, timeoutBudgetMs=120_000, ttlMs=150_000)
    assert world.ended(task_id, 100)["state"] == "SUCCEEDED"
    until(lambda: world.outside.callbacks_of(task_id), 20, "the callback")
    assert (len(world.outside.calls_of(task_id)), len(world.outside.callbacks_of(task_id))) == (1, 1)
