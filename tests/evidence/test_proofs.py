"""The proof of one action: made from the ledger, a kept checkpoint or an export; checked without any of them."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.evidence.conftest import NAME, Made

PROOF_BYTES_MAX = 4096


@pytest.mark.requirement("LEDGER-merkle-proof")
def test_the_last_entry_of_an_action_is_proved_and_checked_without_the_ledger(
    at_hand: Made, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk("ledger", "prove", at_hand.ids[7], "--out", "one.tlog-proof", code=0)
    assert Path("one.tlog-proof").stat().st_size < PROOF_BYTES_MAX
    desk.ledger.unlink()
    monkeypatch.delenv("READBACK_SIGNING_KEY_FILE")
    found = desk("ledger", "verify-proof", "one.tlog-proof", "--key", at_hand.key, "--json", code=0).json
    assert (found["origin"], found["size"], found["entry"]["action"]) == (NAME, at_hand.size, at_hand.ids[7])
    assert found["entry"]["path"][-1] == "reconciled_success"
    said = desk("ledger", "verify-proof", "one.tlog-proof", "--key", at_hand.key, code=0)
    assert at_hand.ids[7] in said.out
    assert "No proof can show" in said.err


@pytest.mark.requirement("LEDGER-merkle-proof")
def test_every_way_to_prove_an_entry_gives_the_same_proof(at_hand: Made, desk: Desk) -> None:
    ways = {
        desk("ledger", "prove", at_hand.ids[3], "--version", "2", *how, code=0).out
        for how in ((), ("--tiles", "export"), ("--checkpoint", "export/checkpoint"))
    }
    assert len(ways) == 1
    early = desk("ledger", "prove", at_hand.ids[3], "--version", "2", "--checkpoint", "early", code=0).out
    assert f"\n{at_hand.early_size}\n" in early


@pytest.mark.requirement("LEDGER-merkle-proof")
def test_a_proof_of_something_else_is_refused(at_hand: Made, desk: Desk) -> None:
    whole = desk("ledger", "prove", at_hand.ids[5], code=0).out
    lines = whole.split("\n")
    entry = json.loads(b64decode(lines[1].removeprefix("extra ")))
    assert entry["action"] == at_hand.ids[5]
    other = desk("ledger", "prove", at_hand.ids[6], code=0).out.split("\n")
    for at in (1, 2, 3):
        spoiled = [*lines[:at], other[at], *lines[at + 1 :]]
        Path("spoiled").write_text("\n".join(spoiled), encoding="utf-8")
        assert desk("ledger", "verify-proof", "spoiled", "--key", at_hand.key).code == 1, at
    Path("spoiled").write_text(whole[:100], encoding="utf-8")
    desk("ledger", "verify-proof", "spoiled", "--key", at_hand.key, code=2)
    desk("ledger", "verify-proof", "nowhere", "--key", at_hand.key, code=2)


def test_what_is_not_in_the_log_or_not_yet_covered_is_not_proved(at_hand: Made, desk: Desk) -> None:
    assert "no action" in desk("ledger", "prove", "01m0000000000000000000000", code=2).err
    assert "no entry 99" in desk("ledger", "prove", at_hand.ids[0], "--version", "99", code=2).err
    assert "no action" in desk("ledger", "prove", at_hand.ids[0], "--tenant", "another", code=2).err
    late = desk("ledger", "prove", at_hand.ids[-1], "--checkpoint", "early", code=1)
    assert f"covers {at_hand.early_size} entries" in late.err
    both = desk("ledger", "prove", at_hand.ids[0], "--checkpoint", "early", "--tiles", "export", code=2)
    assert "not both" in both.err


def test_a_proof_out_of_spoiled_tiles_does_not_leave(at_hand: Made, desk: Desk) -> None:
    tile = Path("export/tile/0/000")
    tile.write_bytes(bytes(32) + tile.read_bytes()[32:])
    refused = desk("ledger", "prove", at_hand.ids[9], "--tiles", "export", code=1)
    assert refused.out == ""
    tile.unlink()
    assert "no file tile/0/000" in desk("ledger", "prove", at_hand.ids[9], "--tiles", "export", code=2).err
    assert "no folder" in desk("ledger", "prove", at_hand.ids[9], "--tiles", "elsewhere", code=2).err
