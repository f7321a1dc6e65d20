"""The catalog, an agent's page and its revisions in a real browser."""

import pytest

from tests.browser.conftest import ARTIFACTS, LOOKS, serious_faults
from tests.trips.world import until

WORDS = {"en": {"agents": "Agents behind it", "restore": "Restore this revision", "restored": "is now revision"},
         "zh-CN": {"agents": "提供它的智能体", "restore": "恢复此修订", "restored": "修订"}}  # fmt: skip
HOSTILE = '"><img src=x onerror=alert(1)>{{7*7}}'


def manifest(version, description):
    capability = {
        "name": "translate", "description": description, "inputSchema": {"text": "string", "to": "string?"},
        "outputSchema": {"text": "string"}, "requestSample": {"text": "it's late", "to": "de"}, "sideEffects": False,
    }  # fmt: skip
    return {
        "apiVersion": "agent-reach/v1", "kind": "AgentManifest", "metadata": {"name": "translator", "version": version},
        "spec": {"displayName": "Translator", "owner": "team", "tags": ["language", HOSTILE[:20]], "capabilities": [capability]},
    }  # fmt: skip


@pytest.fixture(scope="module")
def translator(world):
    """An agent with two revisions and an instance."""
    at = f"?namespace={world.namespace}"
    for version, description in (("1.0.0", "Translates"), ("1.1.0", f"Translates texts; 翻译文本 {HOSTILE}")):
        world.platform.operator("PUT", f"/v1/agents/translator{at}", json=manifest(version, description))
    urls = {"invokeUrl": f"{world.outside.url}/invoke", "healthUrl": f"{world.outside.url}/health"}
    world.platform.operator("PUT", f"/v1/agents/translator/instances/t-1{at}", json=urls)
    world.all_told([world.submit()], 30)
    health = f"/v1/agents/echo/health{at}"
    until(lambda: world.platform.operator("GET", health)["instances"][0]["probes"], 30, "a probe")
    return world.namespace


def pages(namespace):
    return {
        "catalog": f"/console/catalog/?namespace={namespace}",
        "ability": f"/console/catalog/ability/?namespace={namespace}&name=translate",
        "agent": f"/console/agents/{namespace}/echo/",
    }


def oldest_comparison(page):
    """The address of the page that compares the translator's first revision with the current one."""
    page.goto("/admin/registry/revision/?q=translator")
    first = page.locator("#result_list tbody a").last.get_attribute("href")
    return first.split("?")[0].replace("/change/", "/compare/")


@pytest.mark.parametrize("words", ["texts translate", "翻译文本"])
def test_an_ability_is_found_by_words_with_the_keyboard_alone(open_page, translator, words):
    page = open_page()
    page.goto(pages(translator)["catalog"])
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type(words)
    page.keyboard.press("Enter")
    page.wait_for_url("**q=*")
    assert page.locator(".ability h2").all_inner_texts() == ["translate"]
    page.focus(".ability h2 a")
    page.keyboard.press("Enter")
    page.wait_for_selector("#ability")
    assert page.complaints == []


def test_a_tag_narrows_the_catalog_and_is_taken_off_again(open_page, translator):
    page = open_page()
    page.goto(pages(translator)["catalog"])
    everything = page.locator(".ability").count()
    page.click("nav.states a:has-text('language')")
    page.wait_for_selector("nav.states a[aria-current]:has-text('language')")
    assert page.locator(".ability").count() == 1 < everything
    page.click("nav.states a[aria-current]:has-text('language')")
    page.wait_for_function("n => document.querySelectorAll('.ability').length === n", arg=everything)


@pytest.mark.parametrize("lang", WORDS)
def test_an_ability_leads_to_its_agent_and_its_curl_is_copied(open_page, translator, lang):
    page = open_page(lang)
    page.goto(pages(translator)["ability"])
    assert WORDS[lang]["agents"] in page.inner_text("main")
    page.click("[data-copy]")
    until(lambda: page.evaluate("navigator.clipboard.readText()").startswith("curl -X POST"), 5, "the copy")
    page.click("td a:has-text('Translator')")
    page.wait_for_selector("#agent")
    assert "t-1" in page.inner_text(".instance h2")


def test_an_agents_probes_are_drawn_and_its_moves_listed(open_page, translator):
    page = open_page()
    page.goto(pages(translator)["agent"])
    bars = page.locator(".probes svg rect")
    assert bars.count() >= 1
    assert bars.first.bounding_box()["height"] > 0
    assert "registered" in page.inner_text(".instance details[open] table")


@pytest.mark.parametrize("lang", WORDS)
def test_a_revision_is_compared_and_restored_after_a_question(open_page, world, translator, lang):
    page = open_page(lang)
    agent = f"/v1/agents/translator?namespace={translator}"
    before = world.platform.operator("GET", agent)["revision"]
    page.goto("/admin/registry/revision/?q=translator")
    page.locator("#result_list tbody tr").last.locator("a").first.click()
    page.click("a[href$='/compare/']")
    page.wait_for_selector("#restore")
    assert "Translates texts" in page.inner_text("#compare table")
    assert world.platform.operator("GET", agent)["revision"] == before
    page.click("#restore form button")
    page.wait_for_url("**/agent/*/change/")
    assert WORDS[lang]["restored"] in page.inner_text("body")
    restored = world.platform.operator("GET", agent)
    assert (restored["revision"], restored["version"]) == (before + 1, "1.0.0")
    world.platform.operator(
        "PUT",
        f"/v1/agents/translator?namespace={translator}",
        json=manifest("1.1.0", f"Translates texts; 翻译文本 {HOSTILE}"),
    )


@pytest.mark.parametrize(("width", "scheme", "lang"), LOOKS)
def test_pages_are_accessible_and_fit_the_screen(open_page, translator, width, scheme, lang):
    page = open_page(lang, width, scheme, axe=True)
    ARTIFACTS.mkdir(exist_ok=True)
    for name, url in pages(translator).items():
        page.goto(url)
        page.screenshot(path=ARTIFACTS / f"console-{name}-{width}-{scheme}-{lang}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.locator("main img").count() == 0
        assert serious_faults(page) == [], name
    assert page.complaints == []


@pytest.mark.parametrize(("width", "scheme", "lang"), LOOKS)
def test_the_comparison_of_revisions_is_accessible_and_fits_the_screen(open_page, translator, width, scheme, lang):
    page = open_page(lang, width, scheme, axe=True)
    page.goto(oldest_comparison(page))
    page.click("#compare details summary")
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"admin-revision-{width}-{scheme}-{lang}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#compare img").count() == 0
    assert serious_faults(page, "#compare") == []


@pytest.mark.parametrize("lang", WORDS)
def test_no_text_of_an_agents_page_is_left_in_another_language(open_page, translator, lang):
    page = open_page(lang)
    page.goto(pages(translator)["agent"])
    terms = page.locator("dt, th, summary, .why, figcaption, caption").all_inner_texts()
    chinese = [term for term in terms if any("一" <= letter <= "鿿" for letter in term)]
    assert chinese == ([term for term in terms if term] if lang == "zh-CN" else [])
    assert len(terms) > 12
