"""What a person does with the console in a browser, with and without its script."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import Site

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
SERIOUS = ("serious", "critical")
NARROW = {"width": 375, "height": 780}
SHOTS = os.environ.get("READBACK_SHOTS", "")
"""A folder for pictures of the pages, to be looked at by a person."""


def paths(site: Site) -> dict[str, str]:
    ids = site.ids
    named = ("saga", "frozen", "review", "verified", "hostile", "approval")
    return {
        "attention": "/",
        "list": "/actions",
        "filtered": "/actions?state=failed&since=bad",
        "health": "/health",
        "sign-in": "/sign-in?back=/health",
        "subscribers": "/subscribers",
        "proof": f"/actions/{ids['verified']}/proof",
        "nothing": "/actions/none",
        **{name: f"/actions/{ids[name]}" for name in named},
    }


def opened(site: Site, context: BrowserContext, path: str) -> Page:
    page = site.page(context)
    page.goto(f"{site.url}{path}")
    return page


def shot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


@pytest.mark.requirement("CONSOLE-access")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_accessibility_finding(site: Site, scheme: Any) -> None:
    context = site.context(color_scheme=scheme)
    found: list[tuple[str, str, str]] = []
    for name, path in paths(site).items():
        page = opened(site, context, path)
        if name == "health":
            page.get_by_text("Time to reconcile").wait_for()
        shot(page, f"{name}-{scheme}")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        faults = page.evaluate("axe.run()")["violations"]
        found += [(name, each["id"], each["nodes"][0]["html"]) for each in faults if each["impact"] in SERIOUS]
        page.close()
    site.faults[:] = [each for each in site.faults if "404" not in each]  # the page of a missing action
    assert found == []


@pytest.mark.requirement("CONSOLE-access")
def test_no_page_is_wider_than_a_narrow_screen(site: Site) -> None:
    context = site.context(viewport=NARROW)
    for name, path in paths(site).items():
        page = opened(site, context, path)
        shot(page, f"{name}-narrow")
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], name
        page.close()
    site.faults[:] = [each for each in site.faults if "404" not in each]


@pytest.mark.requirement("CONSOLE-without-script")
def test_everything_works_without_a_script(site: Site) -> None:
    page = opened(site, site.context(java_script_enabled=False), "/")
    page.get_by_role("link", name="Actions", exact=True).click()
    page.get_by_label("Target contains").fill("o-3")
    page.get_by_role("button", name="Filter").click()
    assert "target=o-3" in page.url
    page.get_by_role("link", name=site.ids["review"]).click()
    page.get_by_label("abandon", exact=True).check()
    page.get_by_label("Reason, for the record").fill("The shop is closed.")
    page.get_by_role("button", name="Record the decision").click()
    expect(page.locator(".headline")).to_contain_text("ABANDONED")
    page.get_by_label("Time zone").fill("Europe/Riga")
    page.get_by_role("button", name="Set").click()
    expect(page.get_by_text("EET").or_(page.get_by_text("EEST")).first).to_be_visible()
    page.get_by_role("link", name="Proof").click()
    expect(page.get_by_text("The server has verified the path").or_(page.locator(".fault"))).to_be_visible()
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.requirement("CONSOLE-inert")
def test_hostile_output_of_a_tool_runs_nothing(site: Site) -> None:
    context = site.context()
    for path in ("/", "/actions", "/subscribers", f"/actions/{site.ids['hostile']}"):
        page = opened(site, context, path)
        assert page.title() != "owned"
        assert page.locator("img").count() == 0
        assert page.locator("script:not([src])").count() == 0
        page.close()


@pytest.mark.requirement("CONSOLE-live")
def test_a_page_follows_changes_even_where_the_script_for_it_comes_last(site: Site) -> None:
    page = site.page(site.context())
    held: list[Route] = []
    others: list[str] = []

    def go_on(sent: Any = None) -> None:
        if sent is not None and "console.js" in sent.url:
            others.append(sent.url)
        if held and others:
            held.pop().continue_()

    def hold(route: Route) -> None:
        held.append(route)
        go_on()

    page.route("**/assets/hx-sse.min.js", hold)
    page.on("requestfinished", go_on)
    with page.expect_request("**/live?*"):
        page.goto(f"{site.url}/actions", wait_until="commit")


@pytest.mark.requirement("CONSOLE-live")
def test_a_change_reaches_an_open_page_and_the_reader_keeps_the_place(site: Site) -> None:
    context, path = site.context(), f"/actions/{site.ids['approval']}"
    page = opened(site, context, path)
    page.get_by_text("What a model may be told").click()
    page.get_by_label("Signed token").fill("half a token")
    page.mouse.wheel(0, 400)
    page.wait_for_function("window.scrollY > 100")
    place = page.evaluate("window.scrollY")
    other = opened(site, context, path)
    other.get_by_role("button", name="Cancel").click()
    expect(other.get_by_text("NOT EXECUTED").or_(other.get_by_text("FAILED")).first).to_be_visible()
    expect(page.locator("#fresh .headline")).to_contain_text("FAILED")
    assert page.get_by_label("Signed token").input_value() == "half a token"
    assert page.locator("#fresh details").first.evaluate("each => each.open")
    assert abs(page.evaluate("window.scrollY") - place) < 200


@pytest.mark.requirement("CONSOLE-live")
def test_a_decision_form_says_when_its_version_is_old(site: Site) -> None:
    context, path = site.context(), f"/actions/{site.ids['review']}"
    page, other = opened(site, context, path), opened(site, context, path)
    expect(page.locator("#stale")).to_be_hidden()
    other.get_by_label("abandon", exact=True).check()
    other.get_by_label("Reason, for the record").fill("Closed.")
    other.get_by_role("button", name="Record the decision").click()
    expect(page.locator("#stale")).to_be_visible()


@pytest.mark.requirement("CONSOLE-access")
def test_a_list_works_by_keyboard(site: Site) -> None:
    page = opened(site, site.context(), "/actions")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.locator("tbody a.row").first
    expect(first).to_be_focused()
    target = first.get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{target}")
    page.keyboard.press("/")
    expect(page.get_by_label("Find")).to_be_focused()
    page.keyboard.type(site.ids["saga"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/actions/{site.ids['saga']}")


@pytest.mark.requirement("CONSOLE-access")
def test_an_id_is_copied_whole(site: Site) -> None:
    context = site.context()
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
    page = opened(site, context, f"/actions/{site.ids['verified']}")
    page.get_by_role("button", name=f"Copy {site.ids['verified']}").click()
    expect(page.get_by_role("button", name="Copied").first).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == site.ids["verified"]


@pytest.mark.requirement("CONSOLE-proof")
def test_the_page_recomputes_the_proof_and_notices_a_false_one(site: Site) -> None:
    context, path = site.context(), f"/actions/{site.ids['verified']}/proof"
    page = opened(site, context, path)
    told = page.locator("#verified")
    expect(told).to_contain_text("The path leads from the entry to the root.")
    expect(told).to_contain_text("The signature of the head is valid")
    for old, new, said in (
        ("&#34;index&#34;: ", "&#34;index&#34;: 1", "the path does not lead to the root"),
        ("&#34;root&#34;: &#34;", "&#34;root&#34;: &#34;00", "the head binds another size or root"),
    ):
        false = context.new_page()
        false.route(f"**{path}", _changing(old, new))
        false.goto(f"{site.url}{path}")
        expect(false.locator("#verified")).to_contain_text(said)
        false.close()


def _changing(old: str, new: str) -> Callable[[Route], None]:
    """The page with another proof, as from a server that lies."""

    def answer(route: Route) -> None:
        given = route.fetch()
        text = given.text()
        assert old in text
        route.fulfill(response=given, body=text.replace(old, new))

    return answer


@pytest.mark.requirement("PAGE-one-file")
def test_the_report_opens_from_a_file_without_a_request(site: Site, tmp_path: Path) -> None:
    context = site.context(color_scheme="light")
    made = context.request.get(f"{site.url}/actions/{site.ids['saga']}/report.html")
    place = tmp_path / "report.html"
    place.write_bytes(made.body())
    page, sent = context.new_page(), list[str]()
    page.on("request", lambda each: sent.append(each.url))
    page.goto(place.as_uri())
    expect(page.get_by_text("How to check this report")).to_be_visible()
    shot(page, "report")
    assert sent == [place.as_uri()]
    assert page.locator("script").count() == 0
