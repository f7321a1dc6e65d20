"""Support's jobs from the first page to the end, by clicks alone; how many it took is kept with the screenshots."""

import json

import pytest

from tests.browser.conftest import ARTIFACTS
from tests.trips.world import until


class Hand:
    """A page, and how often it was clicked."""

    def __init__(self, page):
        self.page, self.clicks = page, 0

    def click(self, selector):
        self.page.click(selector)
        self.clicks += 1

    def done(self, job, most):
        """Notes the clicks of the job; no more than `most`."""
        ARTIFACTS.mkdir(exist_ok=True)
        kept = ARTIFACTS / "clicks.json"
        known = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
        kept.write_text(json.dumps({**known, job: self.clicks}, indent=2, sort_keys=True), "utf-8")
        assert self.clicks <= most
        assert self.page.complaints == []


@pytest.fixture
def healthy(world):
    """The outside as it is otherwise, whatever a test made of it."""
    yield
    world.outside.delay_s, world.outside.agent_status, world.outside.receiver_status = 0, 200, 200


def test_a_stuck_task_is_found_understood_and_cancelled(open_page, world, healthy):
    world.outside.delay_s = 60
    task_id = world.submit(timeoutMs=90_000, timeoutBudgetMs=100_000)
    until(lambda: world.outside.calls_of(task_id), 30, "the agent's call")
    hand = Hand(open_page("zh-CN"))
    hand.click(f"#t-{task_id}")
    for said in ("在谁那一边", "接下来会发生什么"):  # whose side, what happens next
        assert said in hand.page.inner_text(".verdict .facts")
    hand.click("[data-dialog=ask-cancel]")
    hand.click("#ask-cancel button")
    until(lambda: world.task(task_id)["state"] == "CANCELLED", 30, "the end")
    hand.done("stuck task", 3)


def test_a_callback_that_is_missed_is_found_and_sent_again(open_page, world, healthy):
    world.outside.receiver_status = 410  # gone: given up at once
    task_id = world.submit()
    until(lambda: world.task(task_id).get("callback", {}).get("state") == "DEAD", 60, "the dead letter")
    world.outside.receiver_status = 200
    before = len(world.outside.callbacks_of(task_id))
    hand = Hand(open_page("en"))
    hand.click("nav.pages a[href$='/callbacks/']")
    hand.click("#f-dead")
    row = f".told:has(a[href*='{task_id}'])"
    assert "410" in hand.page.inner_text(row)
    hand.click(f"{row} [data-dialog]")
    hand.click(f"{row} dialog button.primary")
    hand.page.wait_for_selector(".message.success")
    until(lambda: len(world.outside.callbacks_of(task_id)) > before, 60, "the redelivery")
    hand.done("missing callback", 4)


def test_what_failed_is_retried_together_after_a_look_at_how_many(open_page, world, healthy):
    world.outside.agent_status = 400  # refused as it was sent: not tried again by itself
    ids = world.submit_many(3)
    assert {world.ended(one)["state"] for one in ids} == {"FAILED"}
    world.outside.agent_status = 200
    hand = Hand(open_page("en"))
    hand.click("#f-failed")
    hand.click(f"#tasks a.plain[href*='namespace={world.namespace}'] >> nth=0")
    hand.click(".bulk-links a[href*='action=retry']")
    assert int(hand.page.inner_text("#bulk-count")) >= 3
    hand.click("#begin")
    hand.page.wait_for_selector("#bulk .verdict.s-done", timeout=60_000)
    assert {world.ended(one)["state"] for one in ids} == {"SUCCEEDED"}
    hand.done("bulk retry", 4)
