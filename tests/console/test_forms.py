"""The forms of the console: who may send them, what they record, and what is refused with nothing changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import pytest

from readback import Readback
from readback.client.approving import ApprovalRequest
from readback.domain.outcome.outcome import Outcome
from readback.server import app
from readback.server.console import live
from readback.server.console.visits import local
from tests.console.bed import CSRF, Bed, Browser, running
from tests.sdk.given import TENANT


@pytest.fixture
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A ledger of this test alone."""
    with running(tmp_path_factory.mktemp("console")) as found:
        yield found


def outcome(bed: Bed, name: str) -> Outcome:
    with Readback.open(bed.scenes.url, tenant=TENANT, principal="test", seal=False) as rb:
        return rb.get(bed.scenes.ids[name])


def version(bed: Bed, name: str) -> int:
    with Readback.open(bed.scenes.url, tenant=TENANT, principal="test", seal=False) as rb:
        return rb.review(bed.scenes.ids[name]).version


def request(bed: Bed, name: str) -> ApprovalRequest:
    with Readback.open(bed.scenes.url, tenant=TENANT, principal="test", seal=False) as rb:
        return rb.approval(bed.scenes.ids[name])


@pytest.mark.requirement("CONSOLE-sign-in")
def test_a_token_signs_in_once_and_the_cookie_holds_no_token(bed: Bed) -> None:
    browser = bed.browser(sign_in=False)
    first = browser.client.get("/actions?state=failed")
    assert first.headers["location"] == "/sign-in?back=%2Factions%3Fstate%3Dfailed"
    refused = browser.client.post("/sign-in", data={"token": "rbk_wrong"})
    assert (refused.status_code, "unknown, revoked or expired" in refused.text) == (401, True)
    token = bed.token()
    answer = browser.client.post("/sign-in", data={"token": token, "back": "/actions?state=failed"})
    assert answer.headers["location"] == "/actions?state=failed"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert token not in cookie
    assert "Attention" in browser.get("/")
    browser.send("/sign-out", browser.get("/"))
    assert browser.client.get("/").status_code == 303


@pytest.mark.requirement("CONSOLE-sign-in")
def test_a_revoked_token_ends_its_sessions(bed: Bed) -> None:
    browser = bed.browser()
    browser.get("/")
    bed.tokens.revoke(bed.tokens.entries()[-1].id)
    assert browser.client.get("/").headers["location"].startswith("/sign-in")
    assert browser.client.get("/live").status_code == 401


@pytest.mark.requirement("CONSOLE-sign-in")
def test_an_ended_session_leads_over_the_sign_in_back_to_the_page(bed: Bed) -> None:
    browser, path = bed.browser(), f"/actions/{bed.scenes.ids['review']}"
    page = browser.get(path)
    assert "The session has ended" not in browser.get("/sign-in")
    bed.tokens.revoke(bed.tokens.entries()[-1].id)
    refused = browser.send(f"{path}/decide", page, status=401, decision="abandon", version="1", reason="Too late.")
    assert "Nothing was recorded. Sign in again." in refused.text
    assert f'href="/sign-in?back={path}"' in refused.text
    asked = browser.get(f"/sign-in?back={path}")
    assert "The session has ended" in asked
    assert f'name="back" value="{path}"' in asked
    wrong = browser.client.post("/sign-in", data={"token": "rbk_wrong", "back": path})
    assert (wrong.status_code, f'name="back" value="{path}"' in wrong.text) == (401, True)
    answer = browser.client.post("/sign-in", data={"token": bed.token(), "back": path})
    assert answer.headers["location"] == path
    assert outcome(bed, "review").state == "review_required"


@pytest.mark.requirement("CONSOLE-decision")
def test_a_missing_page_leads_elsewhere_and_marks_no_page_as_open(bed: Bed) -> None:
    page = bed.browser().get("/actions/none", status=404)
    assert '<a href="/">To the attention page</a>' in page
    assert "aria-current" not in page


@pytest.mark.requirement("CONSOLE-live")
def test_the_pages_of_one_tenant_leave_room_for_the_pages_of_others(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "TENANT_LISTENERS_MAX", 1)
    browser, other = bed.browser(), bed.browser(tenant="globex")
    with browser.client.stream("GET", "/live") as first:
        lines = first.iter_lines()  # the stream ends with its lines
        assert next(lines) == "retry: 2000"
        refused = bed.browser().client.get("/live")
        assert (refused.status_code, "http.busy" in refused.text) == (503, True)
        with other.client.stream("GET", "/live") as theirs:
            assert next(theirs.iter_lines()) == "retry: 2000"


@pytest.mark.requirement("CONSOLE-sign-in")
@pytest.mark.parametrize("by", ["revoked token", "sign-out"])
def test_the_feed_of_an_ended_session_ends(bed: Bed, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    monkeypatch.setattr(live, "QUIET_LOOKS", 1)
    monkeypatch.setattr(app, "RECHECK_S", 0.0)
    browser = bed.browser()
    page = browser.get("/")
    with browser.client.stream("GET", "/live") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        if by == "sign-out":
            browser.send("/sign-out", page)
        else:
            bed.tokens.revoke(bed.tokens.entries()[-1].id)
        assert set(lines) <= {"", ": quiet"}  # the server ends the feed


@pytest.mark.requirement("CONSOLE-sign-in")
def test_behind_a_proxy_with_https_the_cookie_never_travels_without(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("proxied"), allow_hosts=("console.example",)) as bed:
        headers = {"Host": "console.example", "Origin": "https://console.example"}
        answer = httpx.post(f"{bed.url}/sign-in", data={"token": bed.token()}, headers=headers, trust_env=False)
        assert answer.status_code == 303
        assert "; Secure" in answer.headers["set-cookie"]
        # On loopback a page over HTTPS is another program's.
        foreign = {"Origin": bed.url.replace("http://", "https://")}
        refused = httpx.post(f"{bed.url}/sign-in", data={"token": "x"}, headers=foreign, trust_env=False)
        assert refused.status_code == 403


@pytest.mark.requirement("CONSOLE-csrf")
@pytest.mark.parametrize("path", ["/lift", "/subscribers/resend", "/preferences", "/sign-out"])
def test_a_form_without_the_sessions_own_token_changes_nothing(bed: Bed, path: str) -> None:
    browser, other = bed.browser(), bed.browser()
    theirs = CSRF.search(other.get("/"))
    assert theirs is not None
    frozen = {"subject": "resource:item/o-1", "reason": "x"}
    for forged in ({}, {"csrf": ""}, {"csrf": "x" * 43}, {"csrf": theirs[1]}):
        answer = browser.client.post(path, data={**frozen, **forged})
        assert (answer.status_code, "http.forgery" in answer.text) == (403, True)
    foreign = browser.client.post(path, data=frozen, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert "Frozen" in browser.get("/")


@pytest.mark.requirement("CONSOLE-decision")
def test_a_decision_records_reason_and_version(bed: Bed) -> None:
    browser, path = bed.browser(), f"/actions/{bed.scenes.ids['review']}"
    page, seen = browser.get(path), version(bed, "review")
    browser.send(f"{path}/decide", page, decision="abandon", version=str(seen), reason="The printer is gone.")
    told = outcome(bed, "review")
    assert told.state == "abandoned"
    page = browser.get(path)
    assert "ABANDONED" in page
    assert "person:ada" in page


@pytest.mark.requirement("CONSOLE-decision")
def test_a_decision_about_an_older_version_is_refused(bed: Bed) -> None:
    browser, path = bed.browser(), f"/actions/{bed.scenes.ids['review']}"
    page, seen = browser.get(path), version(bed, "review")
    stale = browser.send(
        f"{path}/decide", page, status=412, decision="abandon", version=str(seen - 1), reason="An old page."
    )
    assert "review.stale" in stale.text
    none = browser.send(f"{path}/decide", page, status=428, decision="abandon", version="", reason="No version.")
    assert "http.precondition-required" in none.text
    found = CSRF.search(page)
    assert found is not None
    by_header = browser.client.post(
        f"{path}/decide",
        data={"csrf": found[1], "decision": "abandon", "version": str(seen), "reason": "The header counts."},
        headers={"If-Match": f'"{seen - 1}"'},
    )
    assert by_header.status_code == 412
    assert outcome(bed, "review").state == "review_required"


@pytest.mark.requirement("CONSOLE-decision")
@pytest.mark.parametrize(("decision", "reason"), [("verified", "x"), ("abandon", "  "), ("", "x"), ("compensate", "x")])
def test_a_decision_that_is_not_offered_is_refused(bed: Bed, decision: str, reason: str) -> None:
    browser, path = bed.browser(), f"/actions/{bed.scenes.ids['review']}"
    seen = str(version(bed, "review"))
    found = CSRF.search(browser.get(path))
    assert found is not None
    fields = {"csrf": found[1], "decision": decision, "version": seen, "reason": reason}
    assert browser.client.post(f"{path}/decide", data=fields).status_code in (409, 422)
    assert outcome(bed, "review").state == "review_required"


@pytest.mark.requirement("CONSOLE-rights")
def test_each_form_needs_its_right(bed: Bed) -> None:
    reader = bed.browser(rights=("read",))
    path = f"/actions/{bed.scenes.ids['review']}"
    page = reader.get(path)
    assert "A decision needs a token with the right" in page
    assert "<button>Record the decision</button>" not in page
    for form in (
        f"{path}/decide",
        f"{path}/approval",
        f"{path}/claim",
        f"{path}/control",
        "/lift",
        "/subscribers/resend",
    ):
        assert "http.missing-right" in reader.send(form, page, status=403).text
    runner = bed.browser(rights=("run",))
    assert "http.missing-right" in runner.get("/", status=403)


@pytest.mark.requirement("CONSOLE-approval")
def test_a_signature_comes_in_and_a_key_never(bed: Bed) -> None:
    browser, path = bed.browser(), f"/actions/{bed.scenes.ids['approval']}"
    page = browser.get(path)
    asked = request(bed, "approval")
    assert asked.payload in page
    assert browser.client.get(f"{path}/approval.json").content == asked.bytes
    forged = browser.send(f"{path}/approval", page, status=403, choice="approve", token="{}")
    assert "approval" in forged.text
    token = bed.scenes.approver.approve(asked, "alice")
    body = token.body()
    text = body.decode() if isinstance(body, bytes) else json.dumps(body)
    browser.send(f"{path}/approval", page, choice="approve", token=text)
    assert outcome(bed, "approval").approved_by == ("alice",)


@pytest.mark.requirement("CONSOLE-decision")
def test_a_freeze_is_lifted_with_a_reason(bed: Bed) -> None:
    browser = bed.browser()
    page = browser.get("/")
    browser.send("/lift", page, status=422, subject="resource:item/o-1", reason="")
    browser.send("/lift", page, status=404, subject="resource:none", reason="x")
    browser.send("/lift", page, subject="resource:item/o-1", reason="The item is in order.")
    assert "Lift the freeze" not in browser.get("/")


@pytest.mark.requirement("CONSOLE-decision")
def test_a_claim_is_retracted_and_reinstated_by_version_with_a_reason(bed: Bed) -> None:
    browser, path = bed.browser(), f"/actions/{bed.scenes.ids['verified']}"
    page, form = browser.get(path), f"{path}/claim"
    seen = re.search(r'name="version" value="(\d+)"', page)
    assert seen is not None
    assert 'value="retract holds"' in page
    assert 'value="reinstate holds"' not in page
    fields = {"statement": "retract holds", "version": seen[1], "reason": "The parcel came back."}
    for code, change in (
        (412, {"version": str(int(seen[1]) - 1)}),
        (428, {"version": ""}),
        (422, {"reason": " "}),
        (409, {"statement": "reinstate holds"}),
        (422, {"statement": "retract everything"}),
        (422, {"statement": "verify holds"}),
    ):
        browser.send(form, page, status=code, **{**fields, **change})
    assert outcome(bed, "verified").standing
    browser.send(form, page, **fields)
    assert not outcome(bed, "verified").standing
    page = browser.get(path)
    assert "The parcel came back." in page
    assert 'value="reinstate holds"' in page
    seen = re.search(r'name="version" value="(\d+)"', page)
    assert seen is not None
    browser.send(form, page, statement="reinstate holds", version=seen[1], reason="Another parcel.")
    assert outcome(bed, "verified").standing


@pytest.mark.requirement("CONSOLE-decision")
def test_the_principal_of_an_action_states_nothing_about_its_claims(bed: Bed) -> None:
    actor = outcome(bed, "verified").principal
    browser, path = bed.browser(principal=actor), f"/actions/{bed.scenes.ids['verified']}"
    page = browser.get(path)
    seen = re.search(r'name="version" value="(\d+)"', page)
    assert seen is not None
    refused = browser.send(
        f"{path}/claim", page, status=403, statement="retract holds", version=seen[1], reason="My own."
    )
    assert "claim.self" in refused.text


@pytest.mark.requirement("CONSOLE-control")
def test_a_signal_makes_the_next_reading_due_and_a_cancel_ends_an_unexecuted_action(bed: Bed) -> None:
    browser = bed.browser()
    path = f"/actions/{bed.scenes.ids['approval']}"
    page = browser.get(path)
    browser.send(f"{path}/control", page, status=422, control="explode")
    browser.send(f"{path}/control", page, control="cancel")
    assert outcome(bed, "approval").code == "cancelled"
    path = f"/actions/{bed.scenes.ids['overdue']}"
    browser.send(f"{path}/control", browser.get(path), control="signal")
    assert outcome(bed, "overdue").state == "pending"


@pytest.mark.requirement("CONSOLE-csrf")
@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/actions?state=failed", "/actions?state=failed"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: x=1", "/"),
        ("", "/"),
    ],
)
def test_a_form_leads_back_to_this_server_only(path: str, kept: str) -> None:
    assert local(path) == kept


@pytest.mark.requirement("CONSOLE-csrf")
def test_a_body_that_is_no_form_or_too_large_is_refused(bed: Bed) -> None:
    browser = bed.browser()
    large = browser.client.post("/preferences", data={"zone": "x" * 200_000})
    assert (large.status_code, "http.body-too-large" in large.text) == (413, True)
    other = browser.client.post("/preferences", json={"zone": "UTC"})
    assert (other.status_code, "http.body" in other.text) == (400, True)


@pytest.mark.requirement("CONSOLE-sign-in")
def test_without_tokens_on_loopback_a_session_begins_by_itself(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("open"), open_access=True) as bed:
        browser: Browser = bed.browser(sign_in=False)
        page = browser.get("/")
        assert "Reviews" in page
        browser.send("/preferences", page, zone="Europe/Riga")
        assert browser.client.post("/preferences", data={"zone": "UTC"}).status_code == 403


@pytest.mark.requirement("CONSOLE-csrf")
def test_a_field_given_twice_is_refused(bed: Bed) -> None:
    browser = bed.browser()
    found = CSRF.search(browser.get("/"))
    assert found is not None
    answer = browser.client.post(
        "/preferences",
        content=f"csrf={found[1]}&zone=UTC&zone=Europe/Riga",
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert (answer.status_code, "given twice" in answer.text) == (400, True)
