"""axe over every page of console and admin. It takes minutes, so it is in `make chaos`; `make test` looks at the main pages in
test_console, test_catalog and test_owner_jobs."""

import re

import pytest

from tests.browser.conftest import serious_faults
from tests.trips.world import until

EVERY_LOOK = [(scheme, lang) for scheme in ("light", "dark") for lang in ("en", "zh-CN")]


@pytest.fixture(scope="module")
def told(world):
    """(a task that failed, with a dead callback; one that succeeded; a bulk action that had nothing to do)."""
    world.outside.agent_status, world.outside.receiver_status = 400, 410
    failed = world.submit(traceId="every-page")
    until(lambda: world.task(failed).get("callback", {}).get("state") == "DEAD", 60, "the dead letter")
    world.outside.agent_status, world.outside.receiver_status = 200, 200
    fine = world.submit(traceId="every-page")
    world.all_told([fine], 60)
    body = {"action": "cancel", "filter": {"taskIds": [failed]}}
    begun = world.platform.operator("POST", f"/v1/bulk?namespace={world.namespace}", json=body)
    return failed, fine, begun["bulkId"]


def console_pages(world, told):
    failed, fine, bulk = told
    space = f"namespace={world.namespace}"
    queries = {
        "": ["", "?state=FAILED&within=1h", "?q=nothing-like-it"],
        f"tasks/{failed}/": ["", "?ask=retry"],
        f"tasks/{fine}/": [""],
        "traces/every-page/": [""],
        "callbacks/": ["", "?state=DEAD"],
        "bulk/": ["", f"new?action=retry&state=FAILED&{space}", f"{bulk}/"],
        "dashboards/": ["", f"?by=agent&within=1h&{space}"],
        "who/": ["", f"?{space}&ability=work.echo", f"?{space}&ability=nobody.knows"],
        "catalog/": [f"?{space}", f"?{space}&q=nothing-like-it", f"ability/?{space}&name=work.echo"],
        f"agents/{world.namespace}/echo/": [""],
        "alerts/": [""],
    }
    return [f"/console/{path}{query}" for path, some in queries.items() for query in some]


def admin_pages(page):
    """The index, and of each model the list, the form for a new one and the page of the first one."""
    page.goto("/admin/")
    lists = sorted({link for link in links(page, "a") if re.fullmatch(r"/admin/\w+/\w+/", link)})
    found = ["/admin/", *lists]
    for address in lists:
        page.goto(address)
        inside = links(page, "#result_list a") + links(page, f"a[href$='{address}add/']")
        found += [*dict.fromkeys(link for link in inside if re.search(r"/(change|add)/", link))][:1]
        found += [link for link in inside if link.endswith("/add/")][:1]
    return [*dict.fromkeys(link.partition("?")[0] for link in found)]


def links(page, selector):
    return page.eval_on_selector_all(selector, "all => all.map(one => one.getAttribute('href') || '')")


def faults(page, address):
    page.goto(address)
    return [(address, *fault) for fault in serious_faults(page)]


@pytest.mark.slow
def test_every_page_is_accessible_in_one_look(open_page, world, told):
    looks = [open_page(lang, scheme=scheme, axe=True) for scheme, lang in (("light", "en"), ("dark", "zh-CN"))]
    addresses = console_pages(world, told) + admin_pages(looks[0])
    assert len(addresses) > 40
    found = [one for n, address in enumerate(addresses) for one in faults(looks[n % 2], address)]
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "lang"), EVERY_LOOK)
def test_every_page_is_accessible_in_this_look(open_page, world, told, scheme, lang):
    page = open_page(lang, scheme=scheme, axe=True)
    addresses = console_pages(world, told) + admin_pages(page)
    found = [one for address in addresses for one in faults(page, address)]
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize(("scheme", "lang"), [("light", "zh-CN"), ("dark", "en")])
def test_the_login_pages_are_accessible(chromium, platform, scheme, lang):
    context = chromium.new_context(base_url=platform.url, locale=lang, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    try:
        assert [one for address in ("/console/login/", "/admin/login/") for one in faults(page, address)] == []
    finally:
        context.close()
