"""A ledger of an earlier release opens, verifies, and can be continued: whatever moves in the code, records stay."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from readback import Context, Readback, Reading, action
from readback.cli.cli import main

LEDGER = Path(__file__).parent / "ledgers" / "november.db.gz"
HEAD = (231, "000efd4ef10788b8eeacc8087ba8f3d1c9a77e686fbb4088c3626bd3e83e266b")
STATES = {
    "book the room": ("reconciled_success", "verified"),
    "book the taxi": ("reconciled_success", "verified"),
    "book the train": ("unknown", "undetermined"),
    "book the dinner": ("failed", "not_checked"),
    "charge c-1": ("compensated", "refuted"),
    "book t-2/charge": ("failed", "refuted"),
    "book t-3/ticket": ("reconciled_success", "verified"),
}
REVERSED = {"book t-2/room", "book t-2/flight"}
SAGAS = {"book t-1": "reconciled_success", "book t-2": "compensated", "book t-3": "reconciled_success"}


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    path = tmp_path / "november.db"
    path.write_bytes(gzip.decompress(LEDGER.read_bytes()))
    url = f"sqlite:///{path}"
    Readback.open(url, tenant="acme", principal="agent:travel").close()  # brings an older schema up
    return url


def _said(capsys: pytest.CaptureFixture[str], *arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    assert ended.value.code == 0
    return json.loads(capsys.readouterr().out)


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="note/{requested.text}",
    identity={"target": "authoritative.id", "tenant": "not_offered"},
    ensure={"written": "authoritative.text == requested.text"},
)
def write_note(ctx: Context, text: str) -> object:
    """Write a note that its reader finds."""
    return {"status": "ok"}


@write_note.read(source="notes", consistency="strong", independence="other_client")
def note(ctx: Context, text: str) -> Reading:
    """The note as it stands."""
    return Reading.of({"id": text, "text": text})


def test_every_entry_of_an_earlier_ledger_verifies(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = _said(capsys, "ledger", "verify", "--url", ledger)
    assert isinstance(found, dict)
    assert (found["ok"], found["faults"], found["unchecked"]) == (True, [], [])
    assert (found["head"]["seq"], found["head"]["leaf"]) == HEAD
    assert (found["actions"], found["evidence"], found["keys"]) == (29, 124, 23)


def test_outcomes_of_an_earlier_ledger_read_as_they_were(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = _said(capsys, "list", "--url", ledger, "--tenant", "acme")
    assert isinstance(listed, list)
    told = {row["operation"]: (row["state"], row["verdict"]) for row in listed}
    assert {operation: told[operation] for operation in STATES} == STATES
    assert {operation: told[operation][0] for operation in SAGAS} == SAGAS
    with Readback.open(ledger, tenant="acme", principal="agent:travel") as rb:
        for row in listed:
            if row["contract"].startswith("saga:"):
                saga = rb.get_saga(row["id"])
                assert saga.state.value == row["state"]
                assert saga.steps
            else:
                outcome = rb.get(row["id"])  # a verified step that its saga reversed is told as compensated
                state = "compensated" if row["operation"] in REVERSED else row["state"]
                assert outcome.state.value == state, row["operation"]
        [lost] = [rb.get(row["id"]) for row in listed if row["operation"] == "book the train"]
        assert [claim.status.value for claim in lost.claims] == ["contested"]


def test_an_earlier_ledger_is_continued_and_still_verifies(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Readback.open(ledger, tenant="acme", principal="agent:travel") as rb:
        assert rb.run(write_note(text="later"), operation="a later note").verified
    found = _said(capsys, "ledger", "verify", "--url", ledger)
    assert isinstance(found, dict)
    assert found["ok"]
    assert found["actions"] == 30
