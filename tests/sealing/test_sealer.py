"""The sealer: on its cadence, at close, beside other processes; and whatever becomes of it, the actions go on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from readback import AsyncReadback, Readback, bootstrap
from readback.audit.checks.ledger import audit
from readback.audit.evidence.attest import Authority, key_of
from readback.audit.maintenance.rotate import following, state
from readback.audit.sealing.seal import sealed
from readback.background.sealer import Sealer
from readback.domain.records.seal_schedule import SealSchedule
from readback.domain.verdict import Level
from readback.errors import SettingsError, StoreError
from tests.sealing.given import Log
from tests.sealing.shop import runtime, stamp_note

SEAL = {"entries": 1, "seconds": 3600, "key_file": "log.key"}


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    bootstrap.create_log_key(tmp_path / "log.key", "example.com/ledger")
    return tmp_path / "log.key"


def opened(**more: object) -> Readback:
    return Readback.open("sqlite:///ledger.db", runtime=runtime(), seal={**SEAL, **more})


def heads(path: str = "sqlite:///ledger.db") -> list[int]:
    store = bootstrap.store(path, read_only=True)
    try:
        return [head.size for head in store.checkpoints()]
    finally:
        store.close()


def is_sound(key: Path) -> bool:
    """Audit, and the sealed log as a sealer would take it up; it covers everything."""
    signer = bootstrap.log_key(key)
    store = bootstrap.store("sqlite:///ledger.db", read_only=True)
    try:
        found = sealed(store, Authority(key_of(signer), bootstrap.verify_signature))
        return audit(store).ok and found.size == store.last_seq()
    finally:
        store.close()


# --- the thread, over a log in memory ---


def sealer(log: Log, entries: int, seconds: float = 3600.0) -> Sealer:
    return Sealer(log.store, runtime(), log.signer, log.authority, SealSchedule(entries, seconds))


@pytest.mark.requirement("LEDGER-sealed")
def test_it_seals_every_so_many_entries_and_the_rest_at_close(log: Log) -> None:
    one = sealer(log, 5)
    for seq in range(1, 4):
        log.append(1)
        one.hear(seq)
    assert log.store.checkpoint() is None
    log.append(3)
    one.hear(6)
    while (head := log.store.checkpoint()) is None:
        threading.Event().wait(0.001)
    assert head.size == 6
    log.append(2)
    one.hear(8)
    one.close()
    assert [head.size for head in log.store.checkpoints()] == [6, 8]
    one.hear(9)
    one.close()
    assert threading.active_count() == 1 or not any(t.name == "readback-sealer" for t in threading.enumerate())


@pytest.mark.requirement("LEDGER-sealed")
def test_it_seals_when_the_seconds_are_over_though_nothing_comes(log: Log) -> None:
    one = sealer(log, 1_000, 0.0)
    log.append(3)
    one.hear(3)
    assert one.flush()
    assert [head.size for head in log.store.checkpoints()] == [3]
    one.close()


def test_it_takes_up_what_others_left_unsealed(log: Log) -> None:
    log.append(4)
    one = sealer(log, 1)
    one.sweep()
    assert one.flush()
    one.sweep()
    one.close()
    assert [head.size for head in log.store.checkpoints()] == [4]


@pytest.mark.requirement("LEDGER-sealed")
def test_what_it_cannot_seal_it_says_once_and_goes_on_when_it_can(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.append(4)
    one = sealer(log, 1)
    one.hear(4)
    assert one.flush()
    kept = log.entries.pop()
    for _ in range(2):
        one.hear(5)
        assert one.flush()
        assert one.fault is not None
        assert one.fault.code == "log.cut"
    assert capsys.readouterr().err.count("the log was not sealed: log.cut") == 1
    log.entries.append(kept)
    log.append(1)
    one.hear(5)
    one.close()
    assert one.fault is None
    assert [head.size for head in log.store.checkpoints()] == [4, 5]


@pytest.mark.requirement("LEDGER-sealed", "L21")
def test_an_end_that_was_heard_of_and_is_gone_is_said_and_not_looked_for_for_ever(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    log.append(4)
    one = sealer(log, 1)
    one.hear(4)
    assert one.flush()
    one.hear(9)  # five more were durable, and were cut off to where it is sealed
    assert one.flush()
    assert one.fault is not None
    assert one.fault.code == "log.cut"
    assert "the log was not sealed: log.cut" in capsys.readouterr().err
    one.close()
    assert not any(thread.name == "readback-sealer" for thread in threading.enumerate())


@pytest.mark.requirement("LEDGER-sealed", "L21")
@pytest.mark.parametrize(("kept", "code"), [(3, "log.cut"), (4, "log.fork"), (5, "log.rewritten")])
def test_a_log_that_was_put_back_behind_what_was_signed_here_is_not_signed(log: Log, kept: int, code: str) -> None:
    log.append(3)
    log.seal()
    log.append(1)
    one = sealer(log, 1)
    one.hear(4)
    assert one.flush()
    log.cut(1)  # an older copy of the file: the last checkpoint is gone with what it covered
    del log.store._sealed().heads[4]
    log.append(kept - 3, "another history")
    one.hear(5)
    one.close()
    assert one.fault is not None
    assert one.fault.code == code
    assert [head.size for head in log.store.checkpoints()] == [3]


@pytest.mark.requirement("LEDGER-sealed", "L21")
def test_a_log_that_ends_before_what_was_signed_here_is_told_of_before_it_has_grown_again(log: Log) -> None:
    log.append(4)
    one = sealer(log, 1)
    one.hear(4)
    assert one.flush()
    log.cut(2)  # a standby took over that lacked them, and the head that covers them
    log.store._sealed().heads.clear()
    log.append(1, "another history")
    one.hear(3)
    one.close()
    assert one.fault is not None
    assert one.fault.code == "log.cut"
    assert list(log.store.checkpoints()) == []


def test_close_seals_an_entry_that_came_as_the_thread_ended(log: Log) -> None:
    log.append(4)
    one = sealer(log, 1)
    one.hear(4)
    assert one.flush()
    log.append(1)
    one._seen = 5  # heard while the thread was leaving: nobody was woken
    one.close()
    assert [head.size for head in log.store.checkpoints()] == [4, 5]


def test_what_breaks_the_thread_does_not_end_the_sealing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    one, broken = sealer(log, 1), [True]
    seal = one._seal

    def breaks() -> bool:
        if broken.pop():
            raise SystemExit
        return seal()

    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(one, "_seal", breaks)
    log.append(1)
    one.hear(1)
    assert one.flush()
    broken.extend([False] * 9)
    one.close()
    assert [head.size for head in log.store.checkpoints()] == [1]


# --- through the clients ---


@pytest.mark.requirement("LEDGER-key-rotated", "LEDGER-sealed")
def test_a_process_that_goes_on_takes_up_the_key_that_followed(key: Path) -> None:
    with opened() as rb:
        first = rb.run(stamp_note(text="a")).id
        assert rb._session.sealer is not None
        assert rb._session.sealer.flush(60.0)
        following_key, beside = bootstrap.next_log_key(key, "example.com/ledger")
        rb.run(stamp_note(text="b"))  # while a rotation goes on, nothing is signed
        assert rb._session.sealer.flush(60.0)
        assert rb._session.sealer.fault is not None
        assert rb._session.sealer.fault.code == "settings.signing-key"
        assert rb._session.sealing.authority is not None
        statement = state(rb._session.store, bootstrap.log_key(key), following_key, 1, rb._session.sealing.authority)
        bootstrap.keep_file(bootstrap.rotations_of(key), statement, own=True)
        bootstrap.take_over(key, beside)
        last = rb.run(stamp_note(text="c")).id
        assert rb._session.sealer.flush(60.0)
        assert [rb.get(each).level for each in (first, last)] == [Level.AUDIT_CONFIRMED] * 2
    signer = bootstrap.log_key(key)
    assert signer.raw_key == following_key.raw_key
    store = bootstrap.store("sqlite:///ledger.db", read_only=True)
    try:
        authority = following(key_of(signer), bootstrap.verify_signature, statement)
        assert audit(store, authority=authority).ok
        assert sealed(store, authority).size == store.last_seq()
    finally:
        store.close()


@pytest.mark.requirement("LEDGER-sealed")
def test_a_client_seals_what_it_did(key: Path) -> None:
    with opened() as rb:
        rb.run(stamp_note(text="a"))
    sizes = heads()
    with opened() as rb:
        rb.run(stamp_note(text="b"))
    assert heads()[: len(sizes)] == sizes
    assert is_sound(key)


def test_an_async_client_seals_as_well(key: Path) -> None:
    async def run() -> None:
        async with AsyncReadback.open("sqlite:///ledger.db", runtime=runtime(), seal=SEAL) as rb:
            await rb.run(stamp_note(text="a"))

    asyncio.run(run())
    assert is_sound(key)


@pytest.mark.requirement("LEDGER-sealed")
def test_two_clients_of_one_file_seal_one_log(key: Path) -> None:
    with opened() as one, opened() as two:
        for number in range(20):
            (one, two)[number % 2].run(stamp_note(text=f"n{number}"))
    assert is_sound(key)


@pytest.mark.requirement("LEDGER-sealed")
def test_a_dead_sealer_changes_nothing(key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise StoreError("nobody home")

    monkeypatch.setattr("readback.background.sealer.seal", broken)
    with opened() as rb:
        assert rb.run(stamp_note(text="a")).verified
        assert rb.run(stamp_note(text="b")).verified
    assert heads() == []
    monkeypatch.undo()
    monkeypatch.chdir(key.parent)
    with opened() as rb:
        rb.run(stamp_note(text="c"))
    assert is_sound(key)


def test_without_a_key_or_where_it_is_off_nothing_is_sealed(key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Readback.open("sqlite:///ledger.db", runtime=runtime()) as rb:
        rb.run(stamp_note(text="a"))
    monkeypatch.setenv("READBACK_SIGNING_KEY_FILE", str(key))
    with Readback.open("sqlite:///ledger.db", runtime=runtime(), seal=False) as rb:
        rb.run(stamp_note(text="b"))
    assert heads() == []
    with Readback.open("sqlite:///ledger.db", runtime=runtime(), seal=True) as rb:
        rb.run(stamp_note(text="c"))
    assert is_sound(key)


def test_what_cannot_be_is_refused_before_anything_is_opened(key: Path) -> None:
    with pytest.raises(SettingsError, match="needs a log key"):
        Readback.open("sqlite:///no.db", seal=True)
    with pytest.raises(SettingsError, match="cannot be read"):
        Readback.open("sqlite:///no.db", seal={"key_file": "nowhere"})
    for wrong, said in (
        ({"entries": 0}, "whole number"),
        ({"entries": True}, "whole number"),
        ({"seconds": -1}, "seconds must be a number"),
        ({"often": 1}, "unknown key 'often'"),
        ({"anchors": "file:///x"}, "list of URLs"),
        ({"anchors": ["file:///x", "file:///x"]}, "each named once"),
        ({"secret": 1}, "secret must be a text"),
        ({"anchors": ["ftp://x"]}, "No anchor supports 'ftp'"),
    ):
        with pytest.raises(SettingsError, match=said):
            Readback.open("sqlite:///no.db", seal={"key_file": "log.key", **wrong})
    assert not Path("no.db").exists()


# --- level 4 ---


@pytest.mark.requirement("TRUST-4")
def test_trust_4_an_outcome_is_confirmed_by_audit_once_a_signed_checkpoint_covers_its_entries(key: Path) -> None:
    with opened(entries=1_000) as rb:
        done = rb.run(stamp_note(text="a"))
        assert done.level is Level.RECONCILED
        assert rb.get(done.id).level is Level.RECONCILED
    with opened() as rb:
        later = rb.get(done.id)
        assert later.level is Level.AUDIT_CONFIRMED
        assert [each.level for each in rb.list()] == [Level.AUDIT_CONFIRMED]
        assert (later.state, later.verified, later.message) == (done.state, True, done.message)
        failed = rb.run(stamp_note(text="lost"))
        assert not failed.verified
    with opened() as rb:
        assert rb.get(failed.id).level < Level.AUDIT_CONFIRMED
    with Readback.open("sqlite:///ledger.db", runtime=runtime()) as rb:
        assert rb.get(done.id).level is Level.RECONCILED, "nobody said whose signature counts"
