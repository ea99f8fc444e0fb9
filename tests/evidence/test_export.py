"""An exported log is checked from its files alone, and the first bad entry is named, whatever was done to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readback import bootstrap
from readback.audit.evidence.attest import key_of
from readback.log.checkpoint import Checkpoint, sign_checkpoint
from readback.log.tiles import TileWriter, bundle_bytes, parse_bundle
from tests.cli.conftest import Desk
from tests.evidence.conftest import NAME, Made

FIRST = Path("export/tile/entries/000")


def _check(at_hand: Made, desk: Desk, code: int = 1) -> Any:
    return desk("ledger", "verify-export", "export", "--key", at_hand.key, "--json", code=code).json


def _first(found: Any) -> tuple[str, int]:
    return found["faults"][0]["code"], found["faults"][0]["seq"]


def _entries() -> list[bytes]:
    return parse_bundle(FIRST.read_bytes(), 256)


def _all_entries(at_hand: Made) -> list[bytes]:
    rest = at_hand.size - 256
    return _entries() + parse_bundle(Path(f"export/tile/entries/001.p/{rest}").read_bytes(), rest)


def _forge(at_hand: Made, entries: list[bytes]) -> None:
    """A whole export over these entries, signed with the log's own key: as whoever has it can."""
    writer = TileWriter()
    files = [file for entry in entries for file in writer.add(entry)] + list(writer.finish())
    signer = bootstrap.log_key(Path("log.key"))
    signed = sign_checkpoint(Checkpoint(NAME, len(entries), writer.tree.root()), key_of(signer), signer.sign)
    for path, data in [*files, ("checkpoint", signed.to_bytes())]:
        place = Path("export") / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


@pytest.mark.requirement("LEDGER-export")
def test_an_export_is_sound_without_the_ledger(at_hand: Made, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ledger.unlink()
    monkeypatch.delenv("READBACK_SIGNING_KEY_FILE")
    found = _check(at_hand, desk, 0)
    assert (found["ok"], found["entries"], found["size"], found["origin"]) == (True, at_hand.size, at_hand.size, NAME)
    said = desk("ledger", "verify-export", "export", "--key", at_hand.key, code=0)
    assert "sound" in said.out
    assert "Entries after the checkpoint are unchecked" in said.err


@pytest.mark.requirement("LEDGER-export", "L22")
@pytest.mark.parametrize("seq", [1, 100, 256])
def test_a_flipped_byte_of_an_entry_is_found_and_the_entry_named(at_hand: Made, desk: Desk, seq: int) -> None:
    entries = _entries()
    spoiled = bytearray(entries[seq - 1])
    spoiled[len(spoiled) // 2] ^= 1
    FIRST.write_bytes(bundle_bytes([*entries[: seq - 1], bytes(spoiled), *entries[seq:]]))
    found = _check(at_hand, desk)
    assert _first(found) == ("entry.leaf", seq)
    said = desk("ledger", "verify-export", "export", "--key", at_hand.key, code=1)
    assert f"first: entry {seq}: entry.leaf" in said.out


@pytest.mark.requirement("LEDGER-export")
def test_a_reordered_pair_is_found_at_its_first(at_hand: Made, desk: Desk) -> None:
    entries = _entries()
    entries[49], entries[50] = entries[50], entries[49]
    FIRST.write_bytes(bundle_bytes(entries))
    found = _check(at_hand, desk)
    assert _first(found) == ("entry.leaf", 50)


@pytest.mark.requirement("LEDGER-export")
@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda rest: Path(f"export/tile/entries/001.p/{rest}").unlink(), ("export.bundle", 257)),
        (lambda rest: FIRST.write_bytes(FIRST.read_bytes()[:-1]), ("export.bundle", 1)),
        (lambda rest: FIRST.write_bytes(FIRST.read_bytes() + b"\0"), ("export.bundle", 1)),
        (lambda rest: FIRST.write_bytes(bundle_bytes(_entries()[:-1])), ("export.bundle", 1)),
        (lambda rest: Path("export/tile/0/000").unlink(), ("export.tile", 1)),
        (lambda rest: Path("export/tile/0/000").write_bytes(b"x" * 8193), ("export.tile", 1)),
        (lambda rest: Path("export/tile/1/000.p/1").write_bytes(bytes(32)), ("export.tile", 0)),
        (lambda rest: Path("export/tile/1/000.p/1").unlink(), ("export.tile", 0)),
        (lambda rest: Path("export/checkpoint").unlink(), ("export.checkpoint", 0)),
        (lambda rest: Path("export/checkpoint").write_bytes(b"x"), ("export.checkpoint", 0)),
    ],
)
def test_a_file_that_is_cut_changed_or_gone_is_named(
    at_hand: Made, desk: Desk, spoil: Callable[[int], object], code: tuple[str, int]
) -> None:
    spoil(at_hand.size - 256)
    assert _first(_check(at_hand, desk)) == code


@pytest.mark.requirement("LEDGER-export")
def test_a_forged_signature_is_found(at_hand: Made, desk: Desk, by_hand: Callable[..., None]) -> None:
    desk("ledger", "keys", "create", "--key-file", "thief.key", "--name", NAME, code=0)
    refused = desk("ledger", "export", "--tiles", "forged", "--key-file", "thief.key", code=1)
    assert "not signed by" in refused.err
    by_hand("DELETE FROM tile", "DELETE FROM checkpoint")
    desk("ledger", "export", "--tiles", "forged", "--key-file", "thief.key", code=0)
    found = desk("ledger", "verify-export", "forged", "--key", at_hand.key, "--json", code=1).json
    assert [fault["code"] for fault in found["faults"]] == ["export.signature"]


@pytest.mark.requirement("LEDGER-export")
def test_a_checkpoint_of_other_entries_is_found_at_the_root(at_hand: Made, desk: Desk) -> None:
    """Entries and tiles were changed together, and fit; what was signed does not."""
    checkpoint = Path("export/checkpoint").read_bytes()
    entries = _all_entries(at_hand)
    body = json.loads(entries[-1])
    body["at"] += 1
    _forge(at_hand, [*entries[:-1], json.dumps(body, sort_keys=True, separators=(",", ":")).encode()])
    _check(at_hand, desk, 0)  # whoever has the key can sign anything; see the guarantees
    Path("export/checkpoint").write_bytes(checkpoint)
    assert [fault["code"] for fault in _check(at_hand, desk)["faults"]] == ["export.root"]


@pytest.mark.requirement("LEDGER-export", "L22")
def test_links_are_followed_even_where_everything_was_signed(at_hand: Made, desk: Desk) -> None:
    entries = _all_entries(at_hand)
    _forge(at_hand, entries[:100] + entries[101:])
    found = _check(at_hand, desk)
    assert {fault["code"] for fault in found["faults"]} == {"entry.link"}
    assert _first(found) == ("entry.link", 101)
    _forge(at_hand, [*entries[:99], b'{"a": 1}', *entries[100:]])
    assert _first(_check(at_hand, desk)) == ("entry.envelope", 100)
    _forge(at_hand, [*entries[:99], json.dumps(json.loads(entries[99])).encode(), *entries[100:]])
    assert _first(_check(at_hand, desk)) == ("entry.envelope", 100)


def test_of_many_faults_some_are_shown_and_all_are_counted(at_hand: Made, desk: Desk) -> None:
    FIRST.write_bytes(bundle_bytes(_entries()[::-1]))
    found = _check(at_hand, desk)
    assert len(found["faults"]) == 100 < found["faults_total"]
    said = desk("ledger", "verify-export", "export", "--key", at_hand.key, code=1)
    assert f"and {found['faults_total'] - 100} more" in said.out


def test_a_folder_that_is_used_or_not_there_is_refused(at_hand: Made, desk: Desk) -> None:
    Path("used").mkdir()
    Path("used/file").touch()
    refused = desk("ledger", "export", "--tiles", "used", code=2).err
    assert "not empty" in refused
    assert "what was broken off has no checkpoint, and can be removed" in refused
    assert "cannot be used" in desk("ledger", "export", "--tiles", "early", code=2).err
    assert "no folder" in desk("ledger", "verify-export", "nowhere", "--key", at_hand.key, code=2).err
    assert desk("ledger", "export", "--tiles", "fresh", "--bundle", "a", code=2).out == ""


@pytest.mark.requirement("LEDGER-export", "LEDGER-sealed")
def test_an_export_is_gone_on_with_and_only_what_is_new_is_written(at_hand: Made, desk: Desk) -> None:
    before = FIRST.stat().st_mtime_ns
    for number in range(50):
        desk.ship(f"more-{number}", carrier="dhl", code=0)
    found = desk("ledger", "export", "--tiles", "export", "--json", code=0).json
    assert (found["size"], found["written"]) == (at_hand.size + 300, at_hand.size + 300 - 256)
    assert FIRST.stat().st_mtime_ns == before
    assert _check(at_hand, desk, 0)["entries"] == found["size"]
    desk("ledger", "export", "--tiles", "whole", code=0)
    for file in Path("whole").rglob("*"):
        if file.is_file():
            assert (Path("export") / file.relative_to("whole")).read_bytes() == file.read_bytes()


@pytest.mark.requirement("LEDGER-head-kept")
def test_an_export_of_another_log_is_not_gone_on_with(at_hand: Made, desk: Desk, by_hand: Callable[..., None]) -> None:
    """The last action is another one than was exported, and nothing that was sealed is beside it."""
    last = at_hand.ids[-1]
    by_hand(
        f"DELETE FROM idempotency WHERE action_id = '{last}'",
        f"DELETE FROM event WHERE action_id = '{last}'",
        f"DELETE FROM action WHERE action_id = '{last}'",
        "DELETE FROM tile",
        "DELETE FROM checkpoint",
    )
    assert "cut off" in desk("ledger", "export", "--tiles", "export", code=1).err
    desk.ship("another", carrier="ups", code=0)
    kept = Path("export/checkpoint").read_bytes()
    assert "forked" in desk("ledger", "export", "--tiles", "export", code=1).err
    assert Path("export/checkpoint").read_bytes() == kept


def test_an_export_is_its_owners_alone_and_holds_no_payload(at_hand: Made, desk: Desk) -> None:
    desk.ship("secretly", carrier="a carrier that nobody knows", code=0)
    desk("ledger", "export", "--tiles", "mine", code=0)
    assert Path("mine").stat().st_mode & 0o777 == 0o700
    for file in Path("mine").rglob("*"):
        assert not file.is_file() or b"a carrier that nobody knows" not in file.read_bytes()
