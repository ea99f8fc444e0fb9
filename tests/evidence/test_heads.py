"""Heads that were kept elsewhere: what `ledger verify` and `ledger checkpoint` find with them, and cannot without."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readback import bootstrap
from readback.audit.sealing.seal import seal_all
from readback.cli.ledger import log
from readback.log.checkpoint import SignedCheckpoint
from tests.cli.conftest import Desk
from tests.evidence.conftest import NAME, Made

UNSEALED = ("DELETE FROM tile", "DELETE FROM checkpoint")
CUT_OFF = (
    "DELETE FROM idempotency WHERE action_id = '{0}'",
    "DELETE FROM event WHERE action_id = '{0}'",
    "DELETE FROM action WHERE action_id = '{0}'",
    *UNSEALED,  # whoever cuts the log would not leave its seal beside it
)


def _cut_last_action(at_hand: Made, by_hand: Callable[..., None]) -> None:
    by_hand(*(statement.format(at_hand.ids[-1]) for statement in CUT_OFF))


@pytest.mark.requirement("L21", "LEDGER-head-kept")
def test_a_cut_log_is_sound_from_inside_and_found_against_a_kept_checkpoint(
    at_hand: Made, desk: Desk, by_hand: Callable[..., None]
) -> None:
    desk("ledger", "checkpoint", "--out", "kept", code=0)
    _cut_last_action(at_hand, by_hand)
    alone = desk("ledger", "verify", code=0)
    assert "truncation not detectable" in alone.out
    found = desk("ledger", "verify", "--checkpoint", "kept", "--key", at_hand.key, "--json", code=1).json
    assert [fault["code"] for fault in found["faults"]] == ["log.cut"]
    assert f"covers {at_hand.size}" in found["faults"][0]["what"]
    older = desk("ledger", "verify", "--checkpoint", "early", "--key", at_hand.key, code=0)
    assert (
        f"checked against the checkpoint of {at_hand.early_size} entries signed by {NAME}; not beyond it" in older.out
    )


@pytest.mark.requirement("LEDGER-head-kept")
def test_a_log_that_was_written_anew_is_sound_from_inside_and_found_against_a_checkpoint(
    at_hand: Made, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ledger in desk.folder.glob("readback.db*"):
        ledger.unlink()
    for n in range(40):
        desk.ship(f"other-{n}", carrier="dhl", code=0)
    desk("ledger", "verify", code=0)
    found = desk("ledger", "verify", "--checkpoint", "early", "--json", code=1).json
    assert [fault["code"] for fault in found["faults"]] == ["log.rewritten"]
    desk("ledger", "checkpoint", "--out", "anew", code=0)
    both = desk("ledger", "verify", "--checkpoint", "early", "--checkpoint", "anew", "--json", code=1).json
    assert [fault["code"] for fault in both["faults"]] == ["log.rewritten"]


@pytest.mark.requirement("LEDGER-head-kept")
def test_two_heads_of_one_size_that_differ_are_a_fork(at_hand: Made, desk: Desk, by_hand: Callable[..., None]) -> None:
    desk("ledger", "checkpoint", "--out", "one", code=0)
    _cut_last_action(at_hand, by_hand)
    desk.ship("another", carrier="ups", code=0)
    desk("ledger", "checkpoint", "--out", "two", code=0)
    found = desk("ledger", "verify", "--checkpoint", "one", "--checkpoint", "two", "--json", code=1).json
    assert [fault["code"] for fault in found["faults"]] == ["log.fork", "log.rewritten"]


@pytest.mark.requirement("LEDGER-head-kept")
def test_heads_on_which_the_log_goes_on_are_all_covered(at_hand: Made, desk: Desk) -> None:
    desk("ledger", "checkpoint", "--out", "late", code=0)
    found = desk("ledger", "verify", "--checkpoint", "late", "--checkpoint", "early", "--json", code=0).json
    assert found["truncation"].startswith(f"checked against the checkpoint of {at_hand.early_size} and {at_hand.size}")


@pytest.mark.requirement("LEDGER-head-kept")
def test_a_witness_takes_only_what_goes_on_from_what_it_saw(
    at_hand: Made, desk: Desk, by_hand: Callable[..., None]
) -> None:
    shutil.copy("early", "witness")
    answer = desk("ledger", "checkpoint", "--witness", "witness", "--json", code=0).json
    assert (answer["goes_on_from"], answer["size"]) == (at_hand.early_size, at_hand.size)
    kept = Path("witness").read_bytes()
    assert kept.decode() == answer["checkpoint"]
    _cut_last_action(at_hand, by_hand)
    refused = desk("ledger", "checkpoint", "--witness", "witness", code=1)
    assert "its end was cut off" in refused.err
    desk.ship("another", carrier="ups", code=0)
    forked = desk("ledger", "checkpoint", "--witness", "witness", "--out", "out", code=1)
    assert "forked" in forked.err
    assert (Path("witness").read_bytes(), Path("out").exists(), forked.out) == (kept, False, "")


@pytest.mark.parametrize("there", [True, False])
def test_of_two_that_sign_at_once_the_slower_one_puts_no_earlier_head_over_the_later_one(
    at_hand: Made, desk: Desk, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """It took back what a cut would be seen by."""
    if there:
        desk("ledger", "checkpoint", "--witness", "witness", code=0)
    later: list[bytes] = []

    def slow(*given: Any) -> SignedCheckpoint:
        signed = seal_all(*given)
        if not later:
            later.append(b"")
            desk.ship("meanwhile", carrier="ups", code=0)
            desk("ledger", "checkpoint", "--witness", "witness", code=0)
            later[0] = Path("witness").read_bytes()
        return signed

    monkeypatch.setattr(log, "seal_all", slow)
    said = desk("ledger", "checkpoint", "--witness", "witness", code=6)
    assert "was written by another process" in said.err
    assert Path("witness").read_bytes() == later[0]


def test_a_witness_that_saw_nothing_yet_takes_the_first(at_hand: Made, desk: Desk) -> None:
    printed = desk("ledger", "checkpoint", "--witness", "fresh", code=0)
    assert printed.out.encode() == Path("fresh").read_bytes()
    assert printed.out.startswith(f"{NAME}\n{at_hand.size}\n")


@pytest.mark.requirement("L22", "LEDGER-head-kept")
def test_nothing_is_signed_proved_or_exported_of_a_log_with_a_damaged_entry(
    at_hand: Made, desk: Desk, by_hand: Callable[..., None]
) -> None:
    by_hand(
        "UPDATE event SET envelope = CAST(replace(envelope, 'default', 'defualt') AS BLOB) WHERE seq = 77", *UNSEALED
    )
    for command in (("checkpoint",), ("prove", at_hand.ids[0]), ("export", "--tiles", "new")):
        refused = desk("ledger", *command, code=6)
        assert ("Entry 77 does not match its leaf hash" in refused.err, refused.out) == (True, "")
    assert not (desk.folder / "new" / "checkpoint").exists()


def test_nothing_is_signed_of_a_log_with_a_gap(at_hand: Made, desk: Desk, by_hand: Callable[..., None]) -> None:
    by_hand("DELETE FROM event WHERE seq = 77", *UNSEALED)
    assert "Entry 77 of the ledger is missing" in desk("ledger", "checkpoint", code=6).err


@pytest.mark.requirement("LEDGER-head-kept")
@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (lambda data: data.replace(b"\n180\n", b"\n181\n"), 1, "not valid"),
        (lambda data: data[:-9] + b"AAAAA" + data[-4:], 1, "not valid"),
        (lambda data: data.replace(b"\xe2\x80\x94 example", b"\xe2\x80\x94 elsewhere"), 1, "not signed by"),
        (lambda data: data[:40], 2, "no blank line"),
        (lambda data: b"", 2, "no blank line"),
        (lambda data: data.replace(b"\n", b"\r\n"), 2, "control character"),
    ],
)
def test_a_checkpoint_that_was_changed_counts_for_nothing(
    at_hand: Made, desk: Desk, spoil: Callable[[bytes], bytes], code: int, said: str
) -> None:
    assert at_hand.early_size == 180
    kept = Path("early").read_bytes()
    Path("early").write_bytes(spoil(kept))
    assert Path("early").read_bytes() != kept
    assert said in desk("ledger", "verify", "--checkpoint", "early", "--key", at_hand.key, code=code).err


def test_a_checkpoint_needs_a_key_and_a_file_to_be_checked_with(
    at_hand: Made, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "There is no file" in desk("ledger", "verify", "--checkpoint", "nowhere", code=2).err
    assert "name+id+key" in desk("ledger", "verify", "--checkpoint", "early", "--key", "x", code=2).err
    monkeypatch.delenv("READBACK_SIGNING_KEY_FILE")
    assert "--key" in desk("ledger", "verify", "--checkpoint", "early", code=2).err
    assert "No key of the log is named" in desk("ledger", "checkpoint", code=5).err


def test_another_logs_key_does_not_open_this_ones_checkpoint(at_hand: Made, desk: Desk) -> None:
    other = desk("ledger", "keys", "create", "--key-file", "other.key", code=0).out.strip()
    assert other.startswith("readback.local/")
    assert "not signed by" in desk("ledger", "verify", "--checkpoint", "early", "--key", other, code=1).err


def test_an_empty_log_is_signed_as_one(desk: Desk) -> None:
    bootstrap.store(f"sqlite:///{desk.ledger}").close()
    desk("ledger", "keys", "create", "--key-file", "k", code=0)
    answer = desk("ledger", "checkpoint", "--key-file", "k", "--witness", "w", "--json", code=0).json
    assert answer["size"] == 0
    assert desk("ledger", "checkpoint", "--key-file", "k", "--witness", "w", "--json", code=0).json["size"] == 0
    desk("ledger", "export", "--key-file", "k", "--tiles", "e", code=0)
    key = desk("ledger", "keys", "show", "--key-file", "k", code=0).out.strip()
    desk("ledger", "verify-export", "e", "--key", key, code=0)
    desk("ledger", "verify", "--checkpoint", "w", "--key", key, code=0)
