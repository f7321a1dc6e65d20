"""Support staff's work in a real browser: find a task, read its journey, act on it."""

import re

import pytest

from tests.browser.conftest import ARTIFACTS, LOOKS, serious_faults
from tests.trips.world import until

WORDS = {
    "en": {"done": "The task succeeded.", "cancelled": "The task is cancelled.", "again": "on its way again"},
    "zh-CN": {"done": "任务已成功。", "cancelled": "任务已取消。", "again": "回调已重新发出"},
}


@pytest.fixture(scope="module")
def done(world):
    """A task that succeeded and was called back."""
    task_id = world.submit(
        {"ticketTitle": "Cannot log in", "ticketContent": "Password refused"}, correlationId="order-10086"
    )
    world.all_told([task_id], 30)
    return task_id


@pytest.fixture
def running(world):
    world.outside.delay_s = 20
    task_id = world.submit(timeoutMs=30_000)
    until(lambda: world.outside.calls_of(task_id), 10, "the agent's call")
    world.outside.delay_s = 0
    return task_id


def search(page, text):
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.wait_for_selector("#journey")


@pytest.mark.parametrize(("by", "lang"), [("taskId", "en"), ("correlationId", "zh-CN"), ("traceId", "en")])
def test_any_id_pasted_into_the_search_box_leads_to_the_journey(open_page, world, done, lang, by):
    page = open_page(lang)
    search(page, world.task(done)[by])
    assert page.inner_text("#task-id") == done
    assert WORDS[lang]["done"] in page.inner_text(".cause")
    assert page.complaints == []


@pytest.mark.parametrize("lang", WORDS)
def test_a_running_task_is_cancelled_after_a_question(open_page, world, running, lang):
    page = open_page(lang)
    search(page, running)
    page.click("[data-dialog=ask-cancel]")
    page.keyboard.press("Escape")
    assert world.task(running)["state"] not in ("CANCELLED",)
    page.click("[data-dialog=ask-cancel]")
    page.click("#ask-cancel button")
    page.wait_for_selector(".message.success")
    assert WORDS[lang]["cancelled"] in page.inner_text(".message")
    assert world.task(running)["state"] == "CANCELLED"


@pytest.mark.parametrize("lang", WORDS)
def test_a_callback_is_redelivered_after_a_question(open_page, world, done, lang):
    before = len(world.outside.callbacks_of(done))
    page = open_page(lang)
    search(page, done)
    page.click("[data-dialog=ask-redeliver]")
    page.click("#ask-redeliver button")
    page.wait_for_selector(".message.success")
    assert WORDS[lang]["again"] in page.inner_text(".message")
    until(lambda: len(world.outside.callbacks_of(done)) > before, 20, "the redelivery")


def test_the_journey_moves_on_by_itself_while_one_looks(open_page, world):
    world.outside.delay_s = 3
    task_id = world.submit(timeoutMs=30_000)
    page = open_page()
    search(page, task_id)
    page.evaluate("window.sameDocument = true")
    page.wait_for_selector(".verdict.s-succeeded", timeout=15_000)
    world.outside.delay_s = 0
    assert page.evaluate("window.sameDocument") is True


NO_ASKING = "const real = setTimeout; window.setTimeout = (run, ms, ...more) => ms >= 900 ? 0 : real(run, ms, ...more)"


@pytest.mark.parametrize("by", ["the stream", "asking again"])
def test_new_tasks_appear_in_the_list_by_themselves(open_page, world, by):
    page = open_page()
    if by == "the stream":
        page.add_init_script(NO_ASKING)
    else:
        page.route("**/console/live/**", lambda route: route.abort())
    page.goto(f"/console/?namespace={world.namespace}")
    page.evaluate("window.sameDocument = true")
    task_id = world.submit()
    page.wait_for_selector(f"#t-{task_id}")
    assert page.evaluate("window.sameDocument") is True


def test_a_page_whose_stream_stands_asks_only_when_something_has_changed(open_page, world):
    page = open_page()
    page.goto("/console/?ability=nobody.asks")
    page.wait_for_selector("html[data-stream=open]")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "hx-request" in request.headers else None)
    page.evaluate("htmx.trigger('[data-live]', 'moved')")  # as if its time had come
    with page.expect_request("**/console/alerts/"):
        page.evaluate("htmx.ajax('GET', '/console/alerts/', '#main')")  # a request that nothing holds back
    assert [url for url in asked if "alerts" not in url] == []


def test_the_language_and_the_theme_can_be_switched(open_page):
    page = open_page("en")
    page.click("button[value=zh-hans]")
    page.wait_for_selector("html[lang=zh-hans]")
    page.click("[data-theme-toggle]")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_first_tab_stop_skips_to_the_content(open_page):
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_the_link_and_the_curl_command_are_copied(open_page, platform, done):
    page = open_page()
    page.goto(f"/console/tasks/{done}/")
    link, curl = page.locator("[data-copy]").all()
    link.click()
    assert page.evaluate("navigator.clipboard.readText()") == f"{platform.url}/console/tasks/{done}/"
    curl.click()
    until(lambda: page.evaluate("navigator.clipboard.readText()").startswith("curl "), 5, "the copy")


def test_times_are_in_the_viewers_zone_with_utc_in_the_title(open_page, done):
    page = open_page()
    page.goto(f"/console/tasks/{done}/")
    time = page.locator("time").first
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", time.get_attribute("title"))
    assert "UTC" not in time.inner_text()


@pytest.mark.parametrize(("width", "scheme", "lang"), LOOKS)
def test_pages_are_accessible_and_fit_the_screen(open_page, done, width, scheme, lang):
    page = open_page(lang, width, scheme, axe=True)
    ARTIFACTS.mkdir(exist_ok=True)
    for name, url in (("tasks", "/console/"), ("journey", f"/console/tasks/{done}/")):
        page.goto(url)
        page.screenshot(path=ARTIFACTS / f"console-{name}-{width}-{scheme}-{lang}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert serious_faults(page) == [], name


@pytest.mark.parametrize("lang", WORDS)
def test_the_admins_list_of_agents_opens(open_page, lang):
    page = open_page(lang)
    page.goto("/admin/registry/agent/")
    page.wait_for_selector("h1, #changelist")
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"admin-agents-1280-light-{lang}.png", full_page=True)
    assert "echo" in page.inner_text("body")
