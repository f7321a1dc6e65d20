import os
import shutil
from pathlib import Path

import pytest

from tests.trips.world import Platform, World

HERE = Path(__file__).parent
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


@pytest.fixture
def open_page(chromium, platform):
    """open_page(lang="en", width=1280, scheme="light", login="admin") → a logged-in page of the console."""
    contexts = []

    def opened(lang="en", width=1280, scheme="light", login="admin", axe=False):
        context = chromium.new_context(
            base_url=platform.url,
            locale=lang,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            bypass_csp=axe,  # axe is injected, which the pages' policy rightly forbids
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto("/console/")
        account = platform.demo["logins"][login]
        page.fill("#id_username", account["user"])
        page.fill("#id_password", account["password"])
        page.click("form.login button")
        page.wait_for_selector("#tasks")
        return page

    yield opened
    for context in contexts:
        context.close()
