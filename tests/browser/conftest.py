import os
import shutil
from pathlib import Path

import pytest

from tests.trips.world import Platform, World

HERE = Path(__file__).parent
PATIENCE_MS = 25_000  # for whatever a test waits on in the browser
LOOKS = [  # each two of width, theme and language meet once
    (1280, "light", "en"), (1280, "dark", "zh-CN"), (390, "light", "zh-CN"), (390, "dark", "en"),
]  # fmt: skip
ARTIFACTS = HERE.parents[1] / "artifacts"
AXE = HERE / "vendor/axe-4.14.1.min.js"


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


# Playwright runs an event loop on this thread: it must be gone before other packages' tests run theirs.
@pytest.fixture(scope="package")
def chromium():
    """Debian's Chromium, or one that Playwright installed. Without any: skipped at home, a failure in CI."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        if not found and not Path(playwright.chromium.executable_path).exists():
            missing = "no Chromium: apt-get install chromium, or playwright install chromium"
            if os.environ.get("CI"):
                pytest.fail(missing)
            pytest.skip(missing)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def platform():
    running = Platform(REACH_WORKERS="1", REACH_WEB_WORKERS="1")
    yield running
    running.stop()


@pytest.fixture(scope="package")
def world(platform):
    one = World(platform)
    yield one
    one.close()


@pytest.fixture(scope="package")
def log_in(chromium, platform):
    """log_in(login) → the cookies of that login, asked for once: hashing passwords is slow by design."""
    known = {}

    def cookies(login):
        if login not in known:
            context = chromium.new_context(base_url=platform.url)
            context.set_default_timeout(PATIENCE_MS)
            page = context.new_page()
            page.goto("/console/")
            account = platform.demo["logins"][login]
            page.fill("#id_username", account["user"])
            page.fill("#id_password", account["password"])
            page.click("form.login button")
            page.wait_for_selector("#tasks")
            known[login] = context.storage_state()
            context.close()
        return known[login]

    return cookies


def serious_faults(page, within="html"):
    """What axe finds serious or critical in an element of the page: (rule, the first element's HTML)."""
    page.add_script_tag(path=AXE)
    found = page.evaluate(
        """([within, limit]) => Promise.race([
            axe.run(within, {resultTypes: ["violations"]}),
            new Promise((_, refuse) => setTimeout(() => refuse(new Error("axe is not done")), limit)),
        ])""",
        [within, PATIENCE_MS],
    )
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    return [(one["id"], one["nodes"][0]["html"]) for one in serious]


@pytest.fixture
def open_page(chromium, platform, log_in):
    """open_page(lang="en", width=1280, scheme="light", login="admin") → a logged-in page of the console."""
    contexts = []

    def opened(lang="en", width=1280, scheme="light", login="admin", axe=False):
        context = chromium.new_context(
            base_url=platform.url,
            storage_state=log_in(login),
            locale=lang,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            bypass_csp=axe,  # axe is injected, which the pages' policy rightly forbids
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto("/console/")
        page.wait_for_selector("#tasks")
        return page

    yield opened
    for context in contexts:
        context.close()
