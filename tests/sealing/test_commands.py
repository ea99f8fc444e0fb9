"""The commands over a sealed ledger: what anchors were told, what they show, and what a cut log comes to with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.evidence.conftest import Made, at_hand, by_hand, desk, made

__all__ = ["at_hand", "by_hand", "desk", "made"]


@pytest.fixture
def anchored(at_hand: Made, monkeypatch: pytest.MonkeyPatch) -> Made:
    """The same ledger, with an anchor in the settings."""
    settings = at_hand.folder / "config" / "readback"
    settings.mkdir(parents=True)
    anchor = f"file://{at_hand.folder}/anchor"
    (settings / "config.toml").write_text(f'[seal]\nentries = 5\nanchors = ["{anchor}"]\n', encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings.parent))
    return at_hand


@pytest.mark.requirement("LEDGER-anchored")
def test_every_process_seals_and_hands_over_and_what_stands_there_is_listed(anchored: Made, desk: Desk) -> None:
    listed = desk("ledger", "anchors", "--json", code=1).json
    assert (listed["size"], listed["anchors"][0]["size"], listed["behind"]) == (anchored.size, 0, 1)
    desk.ship("one more", carrier="dhl", code=0)
    assert Path("anchor").read_bytes().split(b"\n")[1] == b"%d" % (anchored.size + 6)
    said = desk("ledger", "anchors", code=0)
    assert f"{anchored.size + 6} of {anchored.size + 6} entries" in said.out
    Path("anchor").unlink()
    assert desk("ledger", "anchors", "--offer", "--json", code=0).json["behind"] == 0
    assert Path("anchor").exists()


@pytest.mark.requirement("LEDGER-anchored")
def test_an_anchor_that_cannot_be_written_is_told_with_what_to_do(anchored: Made, desk: Desk) -> None:
    Path("anchor").mkdir()
    told = desk("ledger", "anchors", "--offer", code=1)
    assert "Error: file://" in told.err
    assert "Next: " in told.err.partition("Error: ")[2]
    assert "anchor." in told.out


@pytest.mark.requirement("LEDGER-anchored", "L21")
@pytest.mark.parametrize("shows", ["nothing", "an earlier one"])
def test_an_anchor_that_shows_less_than_it_took_is_a_fault(
    anchored: Made, desk: Desk, by_hand: Callable[..., None], shows: str
) -> None:
    """Whoever can take a checkpoint away from there, and forge none, hid what was cut since."""
    url = f"file://{anchored.folder}/anchor"
    desk("ledger", "anchors", "--offer", code=0)
    earlier = Path("anchor").read_bytes()
    desk.ship("another", carrier="ups", code=0)
    desk("ledger", "checkpoint", code=0)
    desk("ledger", "anchors", "--offer", code=0)
    desk("ledger", "verify", "--anchor", url, code=0)
    Path("anchor").unlink() if shows == "nothing" else Path("anchor").write_bytes(earlier)
    found = desk("ledger", "verify", "--anchor", url, "--json", code=1).json
    assert [fault["code"] for fault in found["faults"]] == ["log.anchor"]
    assert "was set back: after a checkpoint of" in found["faults"][0]["what"]


@pytest.mark.requirement("LEDGER-anchored", "L21")
def test_with_an_anchor_a_cut_log_is_found_and_without_one_it_is_said_that_it_cannot_be(
    anchored: Made, desk: Desk, by_hand: Callable[..., None]
) -> None:
    url = f"file://{anchored.folder}/anchor"
    desk("ledger", "anchors", "--offer", code=0)
    fine = desk("ledger", "verify", "--anchor", url, "--json", code=0).json
    assert "not detectable" not in fine["truncation"]
    assert (fine["sealed"], fine["unchecked"]) == (anchored.size, [])
    tables = ("idempotency", "event", "action")
    by_hand(
        "DELETE FROM tile", "DELETE FROM checkpoint", "DELETE FROM anchor",
        *(f"DELETE FROM {table} WHERE action_id = '{anchored.ids[-1]}'" for table in tables),
    )  # fmt: skip
    assert "truncation not detectable" in desk("ledger", "verify", code=0).out
    cut = desk("ledger", "verify", "--anchor", url, "--json", code=1).json
    assert [fault["code"] for fault in cut["faults"]] == ["log.cut"]
    kept = Path("anchor").read_bytes()
    desk.ship("another", carrier="ups", code=0)
    assert Path("anchor").read_bytes() == kept
    Path("anchor").write_bytes(kept.replace(b"example.com", b"example.org"))
    assert [f["code"] for f in desk("ledger", "verify", "--anchor", url, "--json", code=1).json["faults"]] == [
        "log.signature"
    ]


def test_an_anchor_that_cannot_be_asked_is_an_error_and_one_with_nothing_covers_nothing(
    anchored: Made, desk: Desk
) -> None:
    Path("folder").mkdir()
    refused = desk("ledger", "verify", "--anchor", f"file://{anchored.folder}/folder", "--json", code=6)
    assert refused.json["error"]["code"] == "anchor.failed"
    empty = desk("ledger", "verify", "--anchor", f"file://{anchored.folder}/nothing-yet", "--json", code=0).json
    assert "not detectable" in empty["truncation"]


@pytest.mark.requirement("TRUST-4")
def test_trust_4_is_shown(at_hand: Made, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert desk("show", at_hand.ids[0], "--json", code=0).json["level"]["number"] == 4
    assert "confirmed by audit" in desk("show", at_hand.ids[0], code=0).out
    monkeypatch.delenv("READBACK_SIGNING_KEY_FILE")
    assert desk("show", at_hand.ids[0], "--json", code=0).json["level"]["number"] == 3


@pytest.mark.requirement("LEDGER-anchored")
def test_without_the_logs_key_it_is_said_that_no_signature_was_checked(
    anchored: Made, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("READBACK_SIGNING_KEY_FILE", raising=False)
    said = "signatures of checkpoints not checked: no key of the log was given"
    assert desk("ledger", "verify", "--json", code=0).json["unchecked"] == [said]
    assert said in desk("ledger", "verify", code=0).out
