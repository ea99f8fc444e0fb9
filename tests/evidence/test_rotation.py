"""A log's key is followed by another: heads of both count, each in its span, for whoever knows either of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from readback import bootstrap
from readback.audit.checks.entries import Heads
from readback.audit.checks.ledger import audit
from readback.audit.evidence import attest
from readback.audit.evidence.attest import Authority, key_of
from readback.audit.evidence.exported import audit_export
from readback.audit.maintenance.rotate import following, state
from readback.audit.sealing import seal as sealing
from readback.audit.sealing.seal import seal, seal_all
from readback.client.approving import ApproverKey
from readback.errors import ApprovalError, SettingsError
from readback.log.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from readback.log.fault import (
    LogCutError,
    LogError,
    LogForkError,
    LogFormatError,
    LogRewrittenError,
    LogSignatureError,
)
from readback.log.note import VerifierKey
from readback.log.rotation import Rotation, Span, parse_rotations, sign_rotation, spans
from tests.cli.conftest import Desk
from tests.cli.conftest import desk as desk  # the fixture
from tests.sealing.given import NAME as LOG_NAME
from tests.sealing.given import Log, Signer

NAME = "example.com/ledger"
check = bootstrap.verify_signature


class Key:
    """A key of the log, from a number."""

    def __init__(self, number: int, name: str = NAME) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
        self.name = name
        self.raw_key = self._private.public_key().public_bytes_raw()
        self.vkey = VerifierKey(name, self.raw_key)

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def head(self, size: int) -> bytes:
        found = Checkpoint(NAME, size, bytes([size % 256]) * 32)
        return sign_checkpoint(found, self.vkey, self.sign).to_bytes()


FIRST, SECOND, THIRD, OTHER = (Key(n) for n in (1, 2, 3, 9))


def follows(old: Key, new: Key, size: int, at_us: int = 1) -> bytes:
    rotation = Rotation(Checkpoint(NAME, size, b"r" * 32), old.vkey, new.vkey, at_us)
    return sign_rotation(rotation, old.sign, new.sign)


TWICE = follows(FIRST, SECOND, 100, 5) + follows(SECOND, THIRD, 200, 6)


@pytest.mark.requirement("LEDGER-key-rotated")
@pytest.mark.parametrize("known", [FIRST, SECOND, THIRD])
def test_whoever_knows_one_key_follows_the_statements_to_all_of_them(known: Key) -> None:
    authority = following(known.vkey, check, TWICE)
    for key, size in ((FIRST, 100), (SECOND, 100), (SECOND, 200), (THIRD, 200), (THIRD, 9_999), (FIRST, 1)):
        assert open_checkpoint(key.head(size), authority.keys, authority.check).checkpoint.size == size
    for key, size in ((FIRST, 101), (SECOND, 99), (SECOND, 201), (THIRD, 199), (OTHER, 100)):
        with pytest.raises(LogSignatureError):
            open_checkpoint(key.head(size), authority.keys, authority.check)


def test_the_spans_are_told_newest_first() -> None:
    assert spans(SECOND.vkey, parse_rotations(TWICE, check)) == (
        Span(THIRD.vkey, 200, None, 6),
        Span(SECOND.vkey, 100, 200, 5),
        Span(FIRST.vkey, 0, 100, 0),
    )
    assert spans(FIRST.vkey, ()) == (Span(FIRST.vkey),)
    assert following(FIRST.vkey, check, None, [OTHER.vkey]).keys == (FIRST.vkey, OTHER.vkey)


@pytest.mark.requirement("LEDGER-key-rotated")
def test_statements_about_other_keys_introduce_nobody() -> None:
    with pytest.raises(LogSignatureError, match="do not include the key"):
        following(OTHER.vkey, check, TWICE)


@pytest.mark.requirement("LEDGER-key-rotated", "LEDGER-forms-strict")
def test_a_statement_with_any_byte_changed_or_cut_off_is_refused() -> None:
    one = follows(FIRST, SECOND, 100)
    for place in range(len(one)):
        for changed in (one[:place] + bytes([one[place] ^ 1]) + one[place + 1 :], one[:place]):
            if changed:
                with pytest.raises(LogError):
                    parse_rotations(changed, check)
    assert parse_rotations(b"", check) == ()


@pytest.mark.parametrize(
    "wrong",
    [
        follows(FIRST, SECOND, 100) + follows(FIRST, THIRD, 200),
        follows(FIRST, SECOND, 100) + follows(SECOND, THIRD, 99),
        b"\n" + TWICE,
        TWICE + b"\n",
        sign_rotation(Rotation(Checkpoint(NAME, 1, b"r" * 32), FIRST.vkey, SECOND.vkey, 1), OTHER.sign, SECOND.sign),
        sign_rotation(Rotation(Checkpoint(NAME, 1, b"r" * 32), FIRST.vkey, SECOND.vkey, 1), FIRST.sign, OTHER.sign),
        b"\n".join(follows(FIRST, SECOND, 1).split(b"\n")[:-2]) + b"\n",
    ],
)
@pytest.mark.requirement("LEDGER-key-rotated")
def test_what_does_not_go_on_or_is_not_signed_by_both_is_refused(wrong: bytes) -> None:
    with pytest.raises(LogError):
        parse_rotations(wrong, check)


def test_a_key_of_another_name_or_the_same_key_follows_nothing() -> None:
    head = Checkpoint(NAME, 1, b"r" * 32)
    for new in (Key(4, "example.com/other").vkey, FIRST.vkey):
        with pytest.raises(LogFormatError):
            Rotation(head, FIRST.vkey, new, 1).text()


# --- at the shell ---


@pytest.fixture
def rotated(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The old and the new verifier key of a ledger, with a head, a proof and an export that the old one signed."""
    monkeypatch.setenv("READBACK_SIGNING_KEY_FILE", str(desk.folder / "log.key"))
    old = desk("ledger", "keys", "create", "--name", NAME, code=0).out.strip()
    action_id = desk.ship("one", code=0)["id"]
    desk("ledger", "checkpoint", "--out", "early", code=0)
    desk("ledger", "prove", action_id, "--out", "proof", code=0)
    desk("ledger", "export", "--tiles", "export", code=0)
    new = desk("ledger", "keys", "rotate", code=0).out.strip()
    desk.ship("two", order_id="o-18", code=None)
    desk("ledger", "checkpoint", "--out", "late", code=0)
    return old, new


@pytest.mark.requirement("LEDGER-key-rotated")
def test_heads_proofs_and_exports_of_either_key_verify_by_either(desk: Desk, rotated: tuple[str, str]) -> None:
    old, new = rotated
    assert old != new
    assert old.split("+")[0] == new.split("+")[0] == NAME
    both = ("--checkpoint", "early", "--checkpoint", "late")
    desk("ledger", "verify", *both, code=0)
    for key in (old, new):
        given = ("--key", key, "--rotations", "log.key.rotations")
        desk("ledger", "verify", *both, *given, code=0)
        desk("ledger", "verify-proof", "proof", *given, code=0)
        desk("ledger", "verify-export", "export", *given, code=0)
    desk("ledger", "verify-proof", "proof", "--key", old, code=0)  # the old key knows its own without a statement
    desk("ledger", "verify", "--checkpoint", "late", "--key", old, code=1)
    desk("ledger", "verify", "--checkpoint", "late", "--key", old, "--rotations", "none", code=2)
    desk("ledger", "checkpoint", "--witness", "early", code=0)


@pytest.mark.requirement("LEDGER-key-rotated")
def test_the_keys_are_listed_with_their_spans_and_the_old_one_is_gone(desk: Desk, rotated: tuple[str, str]) -> None:
    old, new = rotated
    listed = desk("ledger", "keys", "list", "--json", code=0).json
    assert [each["key"] for each in listed] == [new, old]
    assert [each["present"] for each in listed] == [True, False]
    assert listed[0]["since"] == listed[1]["until"] > 0
    assert new in desk("ledger", "keys", "list", code=0).out
    assert desk("ledger", "keys", "show", code=0).out.strip() == new
    assert sorted(each.name for each in desk.folder.glob("log.key*")) == ["log.key", "log.key.rotations"]
    again = desk("ledger", "keys", "rotate", "--json", code=0).json["key"]
    assert [each["key"] for each in desk("ledger", "keys", "list", "--json", code=0).json] == [again, new, old]


@pytest.mark.requirement("LEDGER-key-rotated")
def test_a_rotation_that_was_broken_off_is_gone_on_with(
    desk: Desk, rotated: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(path: Path, beside: Path) -> None:
        raise SettingsError("The machine went down here.")

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "take_over", dies)
        desk("ledger", "keys", "rotate", code=5)
    stated = Path("log.key.rotations").read_bytes()
    waiting = Path("log.key.next")
    assert waiting.exists()
    desk("ledger", "keys", "rotate", code=0)
    assert Path("log.key.rotations").read_bytes() == stated
    assert not waiting.exists()
    assert len(desk("ledger", "keys", "list", "--json", code=0).json) == 3
    desk("ledger", "verify", "--checkpoint", "early", "--checkpoint", "late", code=0)


@pytest.mark.requirement("LEDGER-key-rotated")
def test_nothing_is_rotated_where_the_ledger_is_damaged(desk: Desk, rotated: tuple[str, str]) -> None:
    import apsw

    connection = apsw.Connection(str(desk.ledger))
    connection.execute("drop trigger event_is_never_changed")
    connection.execute("update event set envelope = x'00' where seq = 2")
    connection.close()
    before = Path("log.key").read_bytes()
    desk("ledger", "keys", "rotate", code=6)
    assert Path("log.key").read_bytes() == before


# --- whose file it is ---


@pytest.mark.requirement("LEDGER-log-key")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666, 0o777])
@pytest.mark.parametrize(
    "command",
    [
        ("ledger", "keys", "show"),
        ("ledger", "keys", "list"),
        ("ledger", "keys", "rotate"),
        ("ledger", "checkpoint"),
        ("ledger", "export", "--tiles", "out"),
    ],
)
def test_a_log_key_that_others_may_read_is_refused_at_every_use(
    desk: Desk, rotated: tuple[str, str], mode: int, command: tuple[str, ...]
) -> None:
    Path("log.key").chmod(mode)
    refused = desk(*command, *(() if command[-1] != "checkpoint" else ("--json",)), code=5)
    assert "mode 0600" in refused.err
    Path("log.key").chmod(0o600)
    desk(*command, code=0)


@pytest.mark.requirement("LEDGER-log-key")
def test_a_key_that_is_a_link_or_somebody_elses_is_refused(
    desk: Desk, rotated: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move("log.key", "elsewhere")
    Path("log.key").symlink_to("elsewhere")
    desk("ledger", "keys", "show", code=5)
    Path("log.key").unlink()
    shutil.move("elsewhere", "log.key")
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 12_345)
        desk("ledger", "keys", "show", code=5)
    desk("ledger", "keys", "show", code=0)


@pytest.mark.requirement("LEDGER-log-key")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_an_approvers_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "approver.key"
    ApproverKey.create(path, "a long passphrase")
    path.chmod(mode)
    with pytest.raises(ApprovalError, match="0600"):
        ApproverKey.open(path, "a long passphrase")
    path.chmod(0o600)
    assert ApproverKey.open(path, "a long passphrase").public_key


@pytest.mark.requirement("LEDGER-key-rotated", "L21")
def test_whoever_has_the_old_key_shows_no_other_history_of_the_sizes_that_it_signed() -> None:
    log, present = Log(), Signer(LOG_NAME, b"\x09" * 32)
    log.append(9)
    log.seal()
    trusted = following(key_of(present), check, state(log.store, log.signer, present, 1, log.authority))
    assert audit_codes(log, trusted) == set()
    forged = Log()  # of the same key, shorter than what was stated
    forged.append(7, "forged")
    forged.seal()
    assert audit_codes(forged, trusted) == {"log.cut"}
    with pytest.raises(LogCutError):
        seal(forged.store, present, trusted, 1)
    forged.append(2, "forged")
    forged.seal()
    assert audit_codes(forged, trusted) == {"log.rewritten"}
    forged.append(2, "forged")
    with pytest.raises(LogRewrittenError):
        seal(forged.store, present, trusted, 1)
    log.append(2)
    signed = seal(log.store, present, trusted, 1)
    assert signed is not None
    assert signed.checkpoint.size == 11
    assert audit_codes(log, trusted) == set()


@pytest.mark.requirement("LEDGER-key-rotated", "LEDGER-export", "L21")
@pytest.mark.parametrize(("by_old", "size"), [(True, 9), (False, 9), (False, 12)])
def test_no_export_and_no_proof_of_another_history_than_was_stated_is_sound(
    by_old: bool, size: int, tmp_path: Path
) -> None:
    log, present = Log(), Signer(LOG_NAME, b"\x09" * 32)
    log.append(9)
    log.seal()
    trusted = following(key_of(present), check, state(log.store, log.signer, present, 1, log.authority))
    forged, signer = Log(), log.signer if by_old else present
    forged.append(size, "forged")
    log.append(size - 9)
    for each, codes in ((log, set()), (forged, {"log.rewritten"})):
        tiles = bootstrap.new_tiles(tmp_path / f"export of {len(codes)}")
        attest.export(each.store, signer, tiles)
        links = bootstrap.links()
        report = audit_export(tiles, trusted.keys, trusted.check, links, stated=trusted.stated)
        links.close()
        found = {fault.code for fault in report.faults} - {"entry.envelope"}  # those here are no envelopes
        assert found == codes
        known = (
            log.authority if by_old else trusted
        )  # the sound log was sealed by the old key, and has to be gone on from
        by = Authority(key_of(signer), check) if codes else known
        proof = attest.prove_now(each.store, each.entries[2], by, signer)
        if codes and size == 9:
            with pytest.raises(LogForkError):
                attest.covering(proof, trusted)
        else:  # of a later head only who reads the log can tell; what is sealed already is proved by its checkpoint
            assert attest.covering(proof, trusted).size == (size if codes else 9)


@pytest.mark.requirement("LEDGER-key-rotated")
def test_what_a_former_key_signed_over_fewer_entries_than_were_stated_is_told_as_not_compared(
    desk: Desk, rotated: tuple[str, str]
) -> None:
    given = ("--key", rotated[1], "--rotations", "log.key.rotations")
    last = desk("list", "--json", code=0).json[0]["id"]
    desk("ledger", "prove", last, "--out", "proof of more", code=0)
    desk("ledger", "export", "--tiles", "export of more", code=0)
    desk.ship("three", order_id="o-19", code=None)
    compared = [("verify-proof", "proof"), ("verify-export", "export")]
    later = [("verify-proof", "proof of more"), ("verify-export", "export of more")]
    for command in compared + later:
        assert desk("ledger", *command, *given, "--json", code=0).json["unchecked"] == []
    desk("ledger", "keys", "rotate", code=0)
    for command in compared:  # of exactly as many entries as were stated
        assert desk("ledger", *command, *given, "--json", code=0).json["unchecked"] == []
        assert "old key" not in desk("ledger", *command, *given, code=0).err
    for command in later:
        (said,) = desk("ledger", *command, *given, "--json", code=0).json["unchecked"]
        assert "a holder of the old key could have signed another history" in said
        assert said in desk("ledger", *command, *given, code=0).err


def audit_codes(log: Log, trusted: Authority) -> set[str]:
    """What is wrong with a log whose key was rotated, as `ledger verify` finds it."""
    found = audit(log.store, heads=Heads(trusted.stated), authority=trusted).faults
    return {fault.code for fault in found if fault.code.startswith("log.")}


@pytest.mark.requirement("LEDGER-key-rotated", "LEDGER-sealed")
def test_nothing_is_stated_over_a_log_that_does_not_go_on_from_what_the_old_key_signed() -> None:
    log, present = Log(), Signer(LOG_NAME, b"\x09" * 32)
    log.append(5)
    log.seal()
    log.append(3)
    state(log.store, log.signer, present, 1, log.authority)
    head = log.store.checkpoint()
    assert head is not None
    assert head.size == 8  # by the old key, to the end: its last head and the statement are of the same log
    log.cut(3)
    log.append(3, "another history")
    with pytest.raises(LogRewrittenError):
        state(log.store, log.signer, present, 1, log.authority)


def test_a_long_backlog_is_compared_as_a_whole_with_heads_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "ENTRIES_A_CHECKPOINT_MAX", 4)
    log, forged = Log(), Log()
    log.append(9)
    forged.append(9, "forged")
    kept = seal_all(log.store, log.signer, log.authority, 1).checkpoint
    assert kept.size == 9
    unsealed = Log()
    unsealed.append(9)
    assert seal_all(unsealed.store, log.signer, log.authority, 1, [kept]).checkpoint == kept
    with pytest.raises(LogForkError):
        seal_all(forged.store, log.signer, log.authority, 1, [kept])
    assert forged.store.checkpoint() is None


@pytest.mark.requirement("LEDGER-key-rotated")
def test_a_replayed_bundles_proof_is_told_as_not_compared_where_its_head_covers_fewer(
    desk: Desk, rotated: tuple[str, str]
) -> None:
    last = desk("list", "--json", code=0).json[0]["id"]
    desk("ledger", "export", "--bundle", last, "--out", "bundle", code=0)
    desk.ship("three", order_id="o-19", code=None)
    asked = ("replay", "bundle", "--key", rotated[1], "--rotations", "log.key.rotations")
    assert desk(*asked, "--json", code=0).json["unchecked"] == []
    newest = desk("ledger", "keys", "rotate", code=0).out.strip()
    for key in (rotated[1], newest):
        asked = ("replay", "bundle", "--key", key, "--rotations", "log.key.rotations")
        (said,) = desk(*asked, "--json", code=0).json["unchecked"]
        assert "a holder of the old key could have signed another history" in said
        assert f"not compared: {said}" in desk(*asked, code=0).out
    assert desk("replay", "bundle", "--json", code=0).json["unchecked"] == []
    refused = desk("replay", "bundle", "--rotations", "log.key.rotations", code=2).err
    assert "--rotations requires --key" in refused
    assert "Next: Pass --key" in refused
