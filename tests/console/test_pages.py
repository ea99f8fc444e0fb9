"""What the pages of the console say, read without a browser and without a script."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from html import unescape
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from readback.cli.cli import main
from readback.log.proof import parse_proof
from readback.ports.storage.store import ActionFilter
from readback.server.console import pages
from readback.server.console.listing import _by_index, chosen_of
from readback.server.console.rendering import FOLDER
from tests.console.bed import Bed, Browser
from tests.console.scenes import HOSTILE
from tests.sdk.given import TENANT

PAGE_BYTES_MAX = 60_000


def words(page: str) -> str:
    """The text of a page on one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.mark.requirement("CONSOLE-attention")
def test_the_first_page_has_each_group_with_its_count_and_the_oldest_first(bed: Bed, browser: Browser) -> None:
    page, ids = browser.get("/"), bed.scenes.ids
    counts = dict(re.findall(r"<h2 [^>]*>([A-Z][a-z]+) <span class=.count.>(\d+)", page))
    assert counts == {"Reviews": "5", "Approvals": "1", "Unknown": "1", "Overdue": "4", "Frozen": "1", "Incidents": "1"}
    assert ids["approval"] in page
    assert ids["overdue"] in page
    order = [page.index(ids[name]) for name in ("frozen", "review")]
    assert order == sorted(order)
    assert ids["verified"] not in page


@pytest.mark.requirement("CONSOLE-action")
def test_an_actions_page_has_the_states_the_postconditions_the_row_and_the_timeline(bed: Bed, browser: Browser) -> None:
    text = words(browser.get(f"/actions/{bed.scenes.ids['verified']}"))
    for said in (
        "VERIFIED ship on order/o-7",
        "Field requested observed before authoritative",
        'carrier "dhl"',
        "authoritative.status == 'shipped'",
        'authoritative.status = "shipped"',
        "holds",
        "attempt 1, at most",
        "The deciding row",
        "before orders strong other client present",
    ):
        assert said in text, said


@pytest.mark.requirement("CONSOLE-action")
def test_a_field_that_differs_from_the_intent_is_marked(bed: Bed, browser: Browser) -> None:
    page = browser.get(f"/actions/{bed.scenes.ids['frozen']}")
    marked = re.findall(r'<tr class="differs">(.*?)</tr>', page, re.DOTALL)
    assert [words(row).split()[0] for row in marked] == ["status"]
    assert "differs" in words(marked[0])
    assert "differs" not in words(browser.get(f"/actions/{bed.scenes.ids['verified']}"))


@pytest.mark.requirement("CONSOLE-choices")
def test_every_decision_says_what_it_does_or_why_it_is_impossible(bed: Bed, browser: Browser) -> None:
    page = browser.get(f"/actions/{bed.scenes.ids['review']}")
    text = words(page)
    assert "Decision about version" in text
    for decision in ("attest done", "attest not done", "verify again", "compensate", "go forward", "abandon", "reopen"):
        assert decision in text
    assert "The key stays taken" in text
    assert "Not possible: The contract has no compensation." in text
    assert 'value="compensate" required disabled' in page


@pytest.mark.requirement("CONSOLE-saga")
def test_a_saga_is_drawn_as_a_graph_and_as_a_table(bed: Bed, browser: Browser) -> None:
    page = browser.get(f"/actions/{bed.scenes.ids['saga']}")
    assert page.count('<g class="node') == 5
    assert page.count('<line class="edge"') == 4
    text = words(page)
    assert "flight Reversed, verified" in text
    assert "charge Failed" in text
    assert "ticket Not begun" in text


@pytest.mark.requirement("CONSOLE-related")
def test_related_actions_stand_on_the_page_of_an_action(bed: Bed, browser: Browser) -> None:
    page = browser.get(f"/actions/{bed.scenes.ids['verified']}")
    assert "The same run" in page
    assert bed.scenes.ids["hostile"] in page


@pytest.mark.requirement("CONSOLE-list")
@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("state=validated", {"approval"}),
        ("contract=page", {"unknown"}),
        ("target=O-7", {"verified"}),
        ("review=1&hold=approval", {"approval"}),
        ("run=run-2&state=pending", {"overdue"}),
        ("discrepancy=no_op_failure&run=run-2", {"hostile"}),
        ("principal=agent:nobody", set()),
        ("until=2001-01-01T00:00", set()),
        ("since=2001-01-01T00:00&target=o-7", {"verified"}),
    ],
)
def test_filters_stand_in_the_address(bed: Bed, browser: Browser, query: str, shown: set[str]) -> None:
    page = browser.get(f"/actions?{query}")
    found = {name for name, action_id in bed.scenes.ids.items() if f"/actions/{action_id}" in page}
    assert found == shown


@pytest.mark.requirement("CONSOLE-list")
def test_a_filter_that_means_nothing_is_named(browser: Browser) -> None:
    assert "There is no state" in browser.get("/actions?state=almost")
    assert "is not a time such as" in browser.get("/actions?since=yesterday")


@pytest.mark.requirement("CONSOLE-health")
def test_the_health_page_has_contracts_tools_and_sources(bed: Bed, browser: Browser) -> None:
    for _ in range(5_000):  # the first fold runs beside the requests
        page = browser.get("/health")
        if "Time to reconcile" in page:
            break
    text = words(page)
    assert "ship" in text
    assert "orders" in text
    assert '<svg class="spark"' in page


@pytest.mark.requirement("CONSOLE-proof")
def test_the_bundle_is_replayed_here_and_by_the_command(bed: Bed, browser: Browser, tmp_path: Path) -> None:
    path = f"/actions/{bed.scenes.ids['verified']}"
    page = browser.get(path)
    assert f'href="{path}/bundle.json"' in page
    assert f'href="{path}/replay"' in page
    content = browser.client.get(f"{path}/bundle.json")
    assert "attachment" in content.headers["content-disposition"]
    (tmp_path / "bundle.json").write_bytes(content.content)
    result = CliRunner().invoke(main, ["replay", str(tmp_path / "bundle.json"), "--json"])
    told = json.loads(result.output)
    shown = words(browser.get(f"{path}/replay"))
    assert told["comparison"] == "same"
    assert "same" in shown
    saga = bed.scenes.ids["saga"]
    assert "/replay" not in browser.get(f"/actions/{saga}")
    assert "is a saga" in browser.get(f"/actions/{saga}/replay", status=422)


@pytest.mark.requirement("CONSOLE-proof")
def test_the_proof_page_holds_a_proof_that_the_command_accepts(bed: Bed, browser: Browser) -> None:
    action_id = bed.scenes.ids["verified"]
    page = browser.get(f"/actions/{action_id}/proof")
    assert "The server has verified the path and the signature." in words(page)
    proof = parse_proof(browser.get(f"/actions/{action_id}/proof.txt").encode())
    assert action_id.encode() in proof.entry


@pytest.mark.requirement("CONSOLE-subscribers")
def test_a_resend_announces_its_number_and_refuses_another(bed: Bed, browser: Browser) -> None:
    page = browser.get("/subscribers")
    assert "Resend 1 message" in words(page)
    refused = browser.send("/subscribers/resend", page, status=422, expected="7", subscriber="")
    assert "1 are undelivered now" in refused.text


@pytest.mark.requirement("CONSOLE-inert")
@pytest.mark.parametrize("name", ["/", "/actions", "/subscribers", "hostile", "report", "replay"])
def test_what_a_tool_said_is_inert_on_every_page(bed: Bed, browser: Browser, name: str) -> None:
    hostile = bed.scenes.ids["hostile"]
    path = f"/actions/{hostile}"
    path = {"hostile": path, "report": f"{path}/report.html", "replay": f"{path}/replay"}.get(name, name)
    page = browser.get(path)
    assert HOSTILE not in page
    for raw in ("<img", "<script>", "\x1b", "\u202e"):
        assert raw not in page, raw
    if name in ("hostile", "report"):
        assert "&lt;img src=x" in page
        assert r"\u202e" in page
    assert len(page.encode()) < PAGE_BYTES_MAX


@pytest.mark.requirement("CONSOLE-size")
def test_every_page_stays_within_its_size(bed: Bed, browser: Browser) -> None:
    paths = ["/", "/actions", "/health", "/subscribers", *(f"/actions/{each}" for each in bed.scenes.ids.values())]
    sizes = {path: len(browser.client.get(path).content) for path in paths}
    assert {path: size for path, size in sizes.items() if size > PAGE_BYTES_MAX} == {}


@pytest.mark.requirement("CONSOLE-tenants")
def test_another_tenants_action_is_as_if_it_did_not_exist(bed: Bed, browser: Browser) -> None:
    foreign = bed.scenes.ids["foreign"]
    nowhere = foreign[:-1] + ("0" if foreign[-1] != "0" else "1")
    parts = ("", "/proof", "/proof.txt", "/report.html", "/bundle.json", "/replay")
    for path in (*("/actions/{}" + part for part in parts), "/find?id={}"):
        theirs, none = (browser.client.get(path.format(each)) for each in (foreign, nowhere))
        assert theirs.status_code == none.status_code == 404
        assert (
            words(theirs.text).replace(foreign, "").split(", request")[0]
            == (words(none.text).replace(nowhere, "").split(", request")[0])
        )
    assert foreign not in browser.get("/actions")
    other = bed.browser("globex")
    assert foreign in other.get("/actions")
    assert bed.scenes.ids["verified"] not in other.get("/actions")


@pytest.mark.requirement("CONSOLE-policy")
def test_every_answer_forbids_inline_script_foreign_content_and_frames(bed: Bed, browser: Browser) -> None:
    for path in ("/", "/sign-in", "/actions/none", "/nowhere", "/assets/console.css", "/assets/none.js"):
        headers = browser.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == ("no-cache" if path.endswith(".css") else "no-store")


@pytest.mark.requirement("CONSOLE-policy")
def test_no_template_has_inline_script_inline_style_or_a_foreign_address() -> None:
    for path in sorted((FOLDER / "templates").glob("*.html")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\son[a-z]+=|\sstyle=|javascript:|https?://", text), path.name
        assert re.findall(r"<script(?! src=\"/assets/)", text) == [], path.name
        assert "|safe" not in text, path.name


@pytest.mark.requirement("CONSOLE-time-zone")
def test_times_follow_the_chosen_zone(browser: Browser) -> None:
    page = browser.get("/actions")
    browser.send("/preferences", page, zone="Asia/Kathmandu", back="/actions")
    assert "+0545" in browser.get("/actions")
    refused = browser.send("/preferences", page, status=422, zone="Mars/Olympus")
    assert "There is no time zone" in refused.text


def test_an_abbreviated_id_and_a_stamp_open_the_action(bed: Bed, browser: Browser) -> None:
    action_id = bed.scenes.ids["verified"]
    for named in (action_id, f"rb-{action_id}"):
        answer = browser.client.get("/find", params={"id": named})
        assert answer.headers["location"] == f"/actions/{action_id}"


def test_a_static_file_is_sent_once_per_change(browser: Browser) -> None:
    first = browser.client.get("/assets/htmx.min.js")
    again = browser.client.get("/assets/htmx.min.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


@pytest.mark.requirement("CONSOLE-live")
def test_a_change_of_the_tenant_reaches_an_open_page(bed: Bed, browser: Browser) -> None:
    with browser.client.stream("GET", "/live?after=1") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(each for each in lines if each.startswith("event:")) == "event: changed"


def test_filters_use_an_index_and_pages_are_bounded() -> None:
    chosen = chosen_of({"state": "failed", "contract": "ship", "target": "x"})
    assert _by_index(TENANT, chosen, "", "") == ActionFilter(TENANT, state="failed", limit=250)


def test_an_unexpected_fault_is_a_page_and_the_log_has_no_value(
    bed: Bed, browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_session: object) -> object:
        raise RuntimeError("a secret of the caller")

    monkeypatch.setattr(pages, "attention_of", broken)
    caplog.set_level("ERROR", "readback.server.console")
    answer: httpx.Response = browser.client.get("/")
    assert (answer.status_code, "http.internal" in answer.text) == (500, True)
    browser.get("/sign-in")  # the same connection: the first request has ended
    assert "secret" not in answer.text + caplog.text
    assert "unexpected RuntimeError at" in caplog.text


@pytest.mark.requirement("CONSOLE-policy")
def test_each_bundled_file_is_the_one_that_its_list_names() -> None:
    folder = FOLDER / "static"
    listed = dict(
        re.findall(r"^\| (\S+) \|.*\| ([0-9a-f]{64}) \|$", (folder / "VENDORED.md").read_text(), re.MULTILINE)
    )
    assert listed == {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.min.js"))}
    assert "Zero-Clause BSD" in (folder / "htmx.LICENSE.txt").read_text()
