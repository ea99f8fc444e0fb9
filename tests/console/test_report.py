"""`readback report html`: one file that opens offline, and says how it can be checked."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from readback.cli.cli import main
from readback.log.proof import parse_proof
from tests.console.bed import CONFIG_VARIABLE, write_settings
from tests.console.scenes import HOSTILE, Scenes, build
from tests.sdk.given import TENANT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def scenes(folder: Path) -> Scenes:
    found = build(folder)
    write_settings(folder, found)
    return found


@pytest.fixture(autouse=True)
def own_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, str(folder))


class Tags(HTMLParser):
    """The elements of a page, and every address in their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "data", "srcset")]
        assert not any(name.startswith("on") for name, _ in attrs), attrs


def report(scenes: Scenes, *args: str) -> Result:
    return CliRunner().invoke(main, ["report", "html", *args, "--url", scenes.url, "--tenant", TENANT])


def made(scenes: Scenes, *args: str) -> str:
    found = report(scenes, *args, "-o", "-")
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.mark.requirement("PAGE-one-file")
@pytest.mark.parametrize("name", ["verified", "saga", "hostile", "approval", "unknown"])
def test_the_report_is_one_file_without_script_or_address(scenes: Scenes, name: str) -> None:
    page = made(scenes, scenes.ids[name])
    tags = Tags()
    tags.feed(page)
    assert tags.names & {"script", "link", "img", "iframe", "object", "embed", "form", "base"} == set()
    assert [each for each in tags.addresses if not each.startswith("#")] == []
    assert not re.search(r"url\(|@import", page)
    assert scenes.ids[name] in page
    assert "<style>" in page


@pytest.mark.requirement("PAGE-head")
def test_the_report_names_the_head_and_holds_a_proof_that_the_command_accepts(scenes: Scenes, tmp_path: Path) -> None:
    page = made(scenes, scenes.ids["verified"])
    assert "The last signed head of the ledger's log" in page
    assert "readback.test/console" in page
    found = re.search(r'<pre class="proof">(.*?)</pre>', page, re.DOTALL)
    assert found is not None
    place = tmp_path / "proof.txt"
    place.write_text(unescape(found[1]), encoding="utf-8")
    assert scenes.ids["verified"].encode() in parse_proof(place.read_bytes()).entry
    key = re.search(r"the key of this ledger is <code>([^<]+)</code>", page)
    assert key is not None
    checked = CliRunner().invoke(main, ["ledger", "verify-proof", str(place), "--key", unescape(key[1])])
    assert checked.exit_code == 0, checked.output


@pytest.mark.requirement("PAGE-head")
def test_without_a_head_the_report_says_so(tmp_path: Path) -> None:
    found = build(tmp_path, seal=False)
    page = made(found, found.ids["verified"])
    assert "No signed head covers this report" in page
    assert '<pre class="proof">' not in page


@pytest.mark.requirement("PAGE-one-file")
def test_a_run_is_reported_with_each_of_its_actions_in_order(scenes: Scenes, tmp_path: Path) -> None:
    place = tmp_path / "run.html"
    assert report(scenes, "--run", "run-2", "-o", str(place)).exit_code == 0
    page = place.read_text(encoding="utf-8")
    heads = [page.index(f"<h2>Action {scenes.ids[name]}") for name in ("verified", "hostile", "overdue", "unknown")]
    assert heads == sorted(heads)
    assert scenes.ids["saga"] not in page


@pytest.mark.requirement("PAGE-inert")
def test_what_a_tool_said_is_inert_in_the_report(scenes: Scenes) -> None:
    page = made(scenes, scenes.ids["hostile"])
    assert HOSTILE not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", page)
    assert "&lt;img src=x" in page
    assert len(page.encode()) < 60_000


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "Neither an action nor a run is named"),
        (("last", "--run", "run-2"), "or both are"),
        (("01zzzzzzzzzzzzzzzzzzzzzzzz",), "There is no action"),
        (("--run", "nothing"), "There is no action of run"),
    ],
)
def test_a_report_of_nothing_is_refused(scenes: Scenes, tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    place = tmp_path / "none.html"
    found = report(scenes, *args, "-o", str(place))
    assert (found.exit_code, place.exists()) == (2, False), found.output
    assert said in found.stderr


def test_a_file_that_cannot_be_written_is_named(scenes: Scenes, tmp_path: Path) -> None:
    found = report(scenes, scenes.ids["verified"], "-o", str(tmp_path / "none" / "page.html"))
    assert found.exit_code == 6
    assert "cannot be written" in found.stderr


def test_another_tenants_action_has_no_report(scenes: Scenes) -> None:
    assert report(scenes, scenes.ids["foreign"], "-o", "-").exit_code == 2
