"""`show` fits on one screen; ids are abbreviated; labels are for people, with what is stored beside them in -v."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback import Readback, action
from readback.cli.cli import main
from readback.domain.state import State
from readback.domain.verdict import Attribution
from readback.views.labels import ATTRIBUTION, state_label

URL = "sqlite:///ledger.db"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Two actions on a record with many fields and long values, in a ledger in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("READBACK_URL", URL)
    record: dict[str, object] = {f"field_{n}": "long " * 60 for n in range(60)} | {"status": "open"}

    @action(
        "record/{name}",
        ensure={f"c{n}": "authoritative.status == 'done' && authoritative.field_0 != null" for n in range(30)},
        within="1s",
    )
    def finish(name: str, words: str) -> None:
        record["status"] = "done"

    @finish.read(strong=True)
    def read(name: str) -> dict[str, object]:
        return record

    with Readback.open(URL) as rb:
        done = rb.run(finish("it", "many " * 400), operation="one")
        record["status"] = "lost"
        lost = rb.run(finish("other", "words"), operation="two")
    return [done, lost]


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


@pytest.mark.parametrize("width", ["60", "80", "120", "250"])
def test_show_fits_on_one_screen_whatever_the_action_holds(
    ledger: list[Any], width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    for outcome in ledger:
        shown = run("show", outcome.id).splitlines()
        assert len(shown) <= 40
        assert outcome.id in "\n".join(shown)
        assert len(run("show", outcome.id, "-v").splitlines()) > 40


def test_labels_stand_in_show_and_what_is_stored_with_v_and_json(ledger: list[Any]) -> None:
    brief, whole = run("show", ledger[0].id), run("show", ledger[0].id, "-v")
    assert "VERIFIED" in brief
    assert "reconciled" not in brief.splitlines()[0].lower()
    assert "stored: reconciled_success" in whole
    assert json.loads(run("show", ledger[0].id, "--json"))["outcome"]["state"] == "reconciled_success"
    assert "verified" in run("list")
    assert "[reconciled_success]" in "".join(run("list", "-v").split())


def test_no_red_mark_stands_under_a_verified_outcome(ledger: list[Any]) -> None:
    for words in ((), ("-v",)):
        assert "✗" not in run("show", ledger[0].id, *words)


def test_an_id_may_be_abbreviated_and_last_is_the_newest(ledger: list[Any]) -> None:
    newest = max(each.id for each in ledger)
    assert newest in run("show", "last")
    for outcome in ledger:
        shortest = next(n for n in range(4, 27) if sum(o.id.startswith(outcome.id[:n]) for o in ledger) == 1)
        assert outcome.id in run("show", outcome.id[:shortest])
        assert outcome.id in run("show", outcome.id[:shortest].upper())
        assert outcome.contract in run("explain", outcome.id[:shortest])


def test_letters_of_several_ids_of_none_and_too_few_are_refused(ledger: list[Any]) -> None:
    assert ledger[0].id[:6] == ledger[1].id[:6]
    assert "Several ids begin with" in run("show", ledger[0].id[:6], code=2)
    assert "There is no action" in run("show", "zzzz", code=2)
    assert "There is no action" in run("show", ledger[0].id[:3], code=2)
    assert "There is no action" in run("show", "a b!", code=2)
    assert "has no action yet" in run("show", "last", "--tenant", "other", code=2)


def test_an_id_of_another_tenant_is_not_found_by_its_letters(ledger: list[Any]) -> None:
    assert "There is no action" in run("show", ledger[0].id[:20], "--tenant", "other", code=2)


@pytest.mark.parametrize("state", list(State))
def test_every_state_and_attribution_has_a_label(state: State) -> None:
    assert state_label(state.value, standing=True)
    assert "_" not in state_label(state.value, standing=False)
    assert set(ATTRIBUTION) == set(Attribution)
