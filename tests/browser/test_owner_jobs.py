"""Owners' jobs in the admin, by clicks alone: a canary up and back, and an agent taken aside for maintenance."""

import pytest

from tests.browser.conftest import serious_faults
from tests.browser.test_support_jobs import Hand
from tests.trips.world import until

TEAM = "team"  # of the world's agents
ABILITY = "work.moved"
TRAFFIC = f"#changelist tr:has-text('{ABILITY}') a[href$='/traffic/']"
LOOKS = [(1280, "dark", "en"), (390, "light", "zh-CN")]


@pytest.fixture(scope="module")
def moved(platform, world):
    """A second version of the world's agent, which gets nothing of their common ability yet, and their owner's login."""
    at = f"?namespace={world.namespace}"
    manifest = platform.operator("GET", f"/v1/agents/echo{at}")["manifest"]
    manifest["metadata"]["name"] = "echo-next"
    platform.operator("PUT", f"/v1/agents/echo-next{at}", json=manifest)
    both = [
        {"agent": "echo", "capability": "echo", "weight": 100},
        {"agent": "echo-next", "capability": "echo", "weight": 0},
    ]
    platform.operator("PUT", f"/v1/routes/{ABILITY}{at}", json={"ability": ABILITY, "candidates": both})
    account = {"user": "olga", "role": "owner", "team": TEAM, "namespaces": [world.namespace]}
    made = platform.operator("POST", "/v1/users", json=account)
    platform.demo["logins"]["olga"] = {"user": "olga", "password": made["password"]}


def weights(world):
    found = world.platform.operator("GET", f"/v1/routes/{ABILITY}?namespace={world.namespace}")
    return [one["weight"] for one in found["routes"][0]["candidates"]]


def hand_of(open_page, *look):
    width, scheme, lang = look or (1280, "light", "en")
    page = open_page(lang, width, scheme, login="olga", axe=bool(look))
    page.goto("/admin/")
    return Hand(page)


def to_traffic(hand):
    hand.click("#content a[href='/admin/routing/route/'] >> nth=0")
    hand.click(TRAFFIC)
    hand.page.wait_for_selector("#traffic")


def test_a_canary_gets_a_tenth_then_half_and_goes_back_in_one_click(open_page, world, moved):
    hand = hand_of(open_page)
    to_traffic(hand)
    hand.click("button[value='1-10']")
    assert "About 10 % of work.moved goes to echo-next/echo" in hand.page.inner_text("#question .moves")
    hand.click("#do-it")
    hand.page.wait_for_selector("#traffic")
    assert weights(world) == [90, 10]
    hand.click("button[value='1-50']")
    hand.click("#do-it")
    hand.page.wait_for_selector("#traffic")
    assert weights(world) == [50, 50]

    def reached():
        ids = world.submit_many(5, target={"ability": ABILITY})
        return {world.ended(one)["agentId"] for one in ids} == {"echo", "echo-next"}

    until(reached, 60, "calls of both")
    hand.page.wait_for_function("document.querySelector('#shares').innerText.includes('100 %')", timeout=60_000)
    hand.click("#roll-back")
    hand.page.wait_for_selector("#traffic")
    assert weights(world) == [90, 10]
    hand.done("canary 10 %, 50 %, back", 7)


def test_an_agent_is_drained_for_maintenance(open_page, world, moved):
    hand = hand_of(open_page)
    hand.click("#content a[href='/admin/registry/agent/'] >> nth=0")
    hand.click("#changelist a:text-is('echo-next')")
    hand.click("button[name='registry_agent_begin_maintenance_here']")
    at = f"/v1/agents/echo-next?namespace={world.namespace}"
    until(lambda: world.platform.operator("GET", at)["maintenance"], 30, "the maintenance")
    world.platform.operator(
        "POST", f"/v1/agents/echo-next/maintenance?namespace={world.namespace}", json={"on": False}
    )  # fmt: skip
    hand.done("drain", 3)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: "-".join(map(str, look)))
def test_the_traffic_page_fits_and_can_be_used_by_all(open_page, moved, look):
    page = hand_of(open_page, *look).page
    page.goto("/admin/routing/route/")
    page.goto(page.get_attribute(TRAFFIC, "href"))
    page.wait_for_selector("#traffic")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert serious_faults(page, "#content") == []
    assert page.complaints == []
