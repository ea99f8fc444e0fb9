"""A signed approval in a browser, and every form of the console without a script."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import ROOT, Site


def signed(key: Path, name: str, exact: str) -> str:
    """The token of an approver, made by a process that has the key and no ledger."""
    command = [ROOT / ".venv" / "bin" / "python", "-m", "tests.console.signing", key, name]
    done = subprocess.run(command, cwd=ROOT, input=exact.encode(), stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def opened(site: Site, path: str, *, script: bool) -> Page:
    page = site.page(site.context(java_script_enabled=script))
    page.goto(f"{site.url}{path}")
    return page


@pytest.mark.requirement("CONSOLE-approval")
@pytest.mark.parametrize("site", [("worker",)], indirect=True)
def test_a_signature_made_outside_runs_the_action(site: Site, tmp_path: Path) -> None:
    path = f"/actions/{site.ids['approval']}"
    page = opened(site, path, script=True)
    exact = page.locator(".approval pre").inner_text()
    good = signed(tmp_path / "alice.pem", "alice", exact)
    broken = json.loads(good)
    broken["signature"] = ("B" if broken["signature"][0] == "A" else "A") + broken["signature"][1:]
    later = {**json.loads(exact), "operation": "refund o-10"}
    other = json.dumps(later, separators=(",", ":"), sort_keys=True)
    for token, why, remedy in (
        (json.dumps(broken), "it does not bear the approver's signature", "sign exactly the bytes shown there"),
        (
            signed(tmp_path / "mallory.pem", "alice", exact),
            "no approver with this name and key",
            "Sign with the key that the operator's settings list",
        ),
        (
            signed(tmp_path / "alice.pem", "alice", other),
            "its signature covers other bytes than the request's",
            "sign exactly the bytes shown there",
        ),
        (exact, "approval", "readback approve ID"),
    ):
        page.get_by_label("Signed token").fill(token)
        page.get_by_role("button", name="Hand in the approval").click()
        expect(page.get_by_role("alert")).to_contain_text(why)
        expect(page.locator("main")).to_contain_text(remedy)
        page.get_by_role("link", name="Back", exact=True).click()
        expect(page.locator(".approval")).to_contain_text("Signed so far: no approver")
    page.get_by_label("Signed token").fill(good)
    page.get_by_role("button", name="Hand in the approval").click()
    page.wait_for_url(f"**{path}")
    expect(page.locator("#fresh .headline")).to_contain_text("VERIFIED")
    site.faults[:] = [each for each in site.faults if "status of 4" not in each]  # the refused tokens


@pytest.mark.requirement("CONSOLE-without-script")
def test_every_form_does_its_work_without_a_script(site: Site, tmp_path: Path) -> None:
    page = opened(site, f"/actions/{site.ids['approval']}", script=False)
    token = signed(tmp_path / "alice.pem", "alice", page.locator(".approval pre").inner_text())
    page.get_by_label("Signed token").fill(token)
    page.get_by_role("button", name="Hand in the approval").click()
    expect(page.get_by_role("cell", name="approver alice")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".headline")).to_contain_text("FAILED")
    page.get_by_label("Find").fill(site.ids["overdue"])
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.locator("h1")).to_contain_text(site.ids["overdue"])
    page.get_by_role("button", name="Read now").click()
    expect(page.locator("h1")).to_contain_text(site.ids["overdue"])
    _claims(site, page)
    _attention(page)
    _letters(page)
    _sessions(site, page)


def _claims(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/actions/{site.ids['verified']}")
    for verb, reason in (("retract", "The parcel came back."), ("reinstate", "Another parcel.")):
        page.locator(f'input[value="{verb} holds"]').check()
        page.get_by_label("Reason for the statement").fill(reason)
        page.get_by_role("button", name="Record the statement").click()
        expect(page.locator("#claims")).to_contain_text(reason)


def _attention(page: Page) -> None:
    page.get_by_role("link", name="Attention", exact=True).click()
    page.get_by_label("Subject to lift").select_option("resource:item/o-1")
    page.get_by_label("Reason, for the record").fill("The item is in order.")
    page.get_by_role("button", name="Lift the freeze").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("waiting")
    expect(page.get_by_label("Subject to lift")).to_have_count(0)


def _letters(page: Page) -> None:
    page.get_by_role("link", name="Subscribers", exact=True).click()
    page.get_by_label("Subscriber", exact=True).select_option("crm")
    page.get_by_role("button", name="Show").click()
    assert page.url.endswith("?subscriber=crm")
    page.get_by_role("button", name="Resend 1 message to crm").click()
    expect(page.get_by_text("redelivery requested")).to_be_visible()


def _sessions(site: Site, page: Page) -> None:
    other = opened(site, "/health", script=False)
    page.get_by_role("link", name="Health", exact=True).click()
    page.get_by_role("button", name="Sign out everywhere").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    other.get_by_role("link", name="Actions", exact=True).click()
    expect(other.get_by_role("status")).to_contain_text("The session has ended")
    other.get_by_label("Token").fill("rbk_wrong")
    other.get_by_role("button", name="Sign in").click()
    expect(other.get_by_role("alert")).to_contain_text("unknown, revoked or expired")
    other.get_by_label("Token").fill(site.token)
    other.get_by_role("button", name="Sign in").click()
    expect(other.get_by_role("heading", level=1)).to_contain_text("Actions")
    assert other.url == f"{site.url}/actions"
    site.faults[:] = [each for each in site.faults if "401" not in each]  # the wrong token
