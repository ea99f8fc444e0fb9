"""A backup is put in place only where it is sound and reaches the last kept head; what was in flight waits."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from readback import bootstrap
from readback.domain.state import State
from tests.cli.conftest import CONTRACTS, Desk
from tests.cli.conftest import desk as desk  # the fixture
from tests.lifecycle.trip import Trip
from tests.privacy.conftest import Book, Shelf, write_of
from tests.privacy.conftest import shelf as shelf  # the fixture

TO = ("--to", "sqlite:///again.db")
TAKEN = ("--accept-loss", "--reason", "The disk is gone.", "--who", "human:eve")


@pytest.fixture
def kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger with an early and a late checkpoint, and a backup between them."""
    monkeypatch.setenv("READBACK_SIGNING_KEY_FILE", str(desk.folder / "log.key"))
    key = desk("ledger", "keys", "create", "--name", "example.com/ledger", code=0).out.strip()
    desk.ship("one", code=0)
    desk("ledger", "checkpoint", "--out", "early", code=0)
    desk("ledger", "backup", "--out", "backup.db", code=0)
    desk.ship("two", order_id="o-18", code=None)
    desk("ledger", "checkpoint", "--out", "late", code=0)
    return key


@pytest.mark.requirement("RESTORE-judged")
def test_a_backup_that_reaches_the_last_kept_head_is_put_in_place_and_verifies(desk: Desk, kept: str) -> None:
    said = desk("ledger", "restore", "backup.db", *TO, "--checkpoint", "early", "--json", code=0).json
    assert (said["lost"], said["checked"]) == ([], True)
    assert sorted(each.name for each in desk.folder.glob("again*")) == ["again.db"]
    assert not list(desk.folder.glob(".again*"))
    desk("ledger", "verify", "--url", "sqlite:///again.db", "--checkpoint", "early", code=0)


@pytest.mark.requirement("RESTORE-judged")
def test_one_that_does_not_reach_it_is_refused_unless_the_loss_is_accepted_in_words(desk: Desk, kept: str) -> None:
    refused = desk("ledger", "restore", "backup.db", *TO, "--checkpoint", "late", "--json", code=6).json["error"]
    assert refused["code"] == "restore.cut"
    assert not (desk.folder / "again.db").exists()
    unsaid = desk("ledger", "restore", "backup.db", *TO, code=2)
    assert "how far the ledger reached" in unsaid.err
    taken = desk("ledger", "restore", "backup.db", *TO, "--checkpoint", "late", *TAKEN, code=0)
    assert "Lost: The log has" in taken.err
    assert "a new log name" in taken.err
    assert (
        "missing entries cannot be detected"
        in desk("ledger", "restore", "backup.db", "--to", "sqlite:///b.db", *TAKEN, code=0).err
    )


@pytest.mark.requirement("RESTORE-judged")
def test_a_place_that_keeps_checkpoints_is_asked_how_far_the_ledger_reached(desk: Desk, kept: str) -> None:
    def anchored(name: str) -> tuple[str, str]:
        return "--anchor", f"file://{desk.folder / name}"

    refused = desk("ledger", "restore", "backup.db", *TO, *anchored("late"), "--json", code=6).json["error"]
    assert refused["code"] == "restore.cut"
    nothing = desk("ledger", "restore", "backup.db", *TO, *anchored("none"), code=2)
    assert "No anchor holds" in nothing.err
    said = desk("ledger", "restore", "backup.db", *TO, *anchored("early"), "--json", code=0).json
    assert (said["lost"], said["checked"]) == ([], True)
    lost = desk("ledger", "restore", "backup.db", "--to", "sqlite:///b.db", *anchored("late"), *TAKEN, code=0)
    assert "Lost: " in lost.err


@pytest.mark.requirement("RESTORE-judged")
def test_a_head_of_another_log_or_a_rewritten_one_is_never_accepted(desk: Desk, kept: str, tmp_path: Path) -> None:
    shutil.copy("backup.db", "rewritten.db")
    connection = apsw.Connection("rewritten.db")
    connection.execute("drop trigger event_is_never_changed")
    from readback.log.tree import leaf_hash

    envelope = connection.execute("select envelope from event where seq = 1").get
    changed = envelope.replace(b"agent:", b"human:")
    connection.execute("update event set envelope = ?, leaf = ? where seq = 1", (changed, leaf_hash(changed)))
    connection.close()
    damaged = desk("ledger", "restore", "rewritten.db", *TO, "--checkpoint", "early", *TAKEN, "--json", code=6)
    assert damaged.json["error"]["code"] == "restore.damaged"
    assert not (desk.folder / "again.db").exists()


@pytest.mark.requirement("RESTORE-judged")
@pytest.mark.parametrize("at", [0, 50, 99, 4_096, 20_000, 60_001, 0.5, 0.9, 0.999])
def test_a_backup_that_was_cut_at_any_byte_is_refused(desk: Desk, kept: str, at: float) -> None:
    whole = Path("backup.db").read_bytes()
    Path("cut.db").write_bytes(whole[: int(at if at >= 1 or at == 0 else at * len(whole))])
    refused = desk("ledger", "restore", "cut.db", *TO, "--checkpoint", "early", "--json", code=6).json["error"]
    assert refused["code"] in ("restore.damaged", "restore.cut")
    assert not (desk.folder / "again.db").exists()
    assert not list(desk.folder.glob(".again*"))


@pytest.mark.requirement("RESTORE-judged")
@pytest.mark.parametrize("kind", ["nothing", "a pipe", "a device"])
def test_what_is_no_file_or_an_empty_one_is_no_backup(desk: Desk, kept: str, kind: str) -> None:
    """With its loss accepted, an empty file was put in place as a sound ledger."""
    place = desk.folder / "odd.db"
    if kind == "a pipe":
        os.mkfifo(place)
    elif kind == "a device":
        place.symlink_to("/dev/zero")
    else:
        place.touch()
    refused = desk("ledger", "restore", "odd.db", *TO, *TAKEN, "--json", code=6).json["error"]
    assert refused["code"] == "restore.damaged"
    assert "is no backup" in refused["message"]
    assert not list(desk.folder.glob("*again*"))


@pytest.mark.requirement("RESTORE-nothing-overwritten")
@pytest.mark.parametrize("name", ["again.db", "again.db-wal", "again.db-shm"])
def test_nothing_that_stands_there_is_overwritten(desk: Desk, kept: str, name: str) -> None:
    Path(name).write_bytes(b"in use")
    refused = desk("ledger", "restore", "backup.db", *TO, *TAKEN, "--json", code=6).json["error"]
    assert refused["code"] == "restore.exists"
    assert Path(name).read_bytes() == b"in use"


@pytest.mark.requirement("RESTORE-nothing-overwritten")
@pytest.mark.parametrize("name", ["readback.db", "link.db"])
def test_a_ledger_that_is_in_use_is_no_backup(desk: Desk, kept: str, name: str) -> None:
    Path("link.db").symlink_to("readback.db")
    store = bootstrap.store("sqlite:///readback.db")
    store.pace("default", 0, 0, 1)
    try:
        refused = desk("ledger", "restore", name, *TO, *TAKEN, "--json", code=6).json["error"]
        assert refused["code"] == "restore.in-use"
    finally:
        store.close()
    missing = desk("ledger", "restore", "none.db", *TO, *TAKEN, "--json", code=6).json["error"]
    assert missing["code"] == "restore.failed"


# --- what was in flight ---


def _restored(shelf: Shelf, name: str) -> None:
    """The ledger is lost, and put back from the backup."""
    from readback.audit.maintenance.restore import hold_in_flight

    for suffix in ("", "-wal", "-shm"):
        Path(f"{shelf.path}{suffix}").unlink(missing_ok=True)
    with bootstrap.standing_by(shelf.folder / name, shelf.url, lambda done, total: None) as (url, put):
        store = bootstrap.store(url)
        hold_in_flight(store, "human:eve", "lost", shelf.runtime.now_us())
        store.close()
        put()
    assert shelf.audited().faults == []


@pytest.mark.requirement("RESTORE-in-flight-held")
def test_what_was_in_flight_is_held_and_never_executed_again_by_itself(shelf: Shelf) -> None:
    seen = Book()
    waits = write_of(shelf.book, seen, name="slow", execute={"honours_key": True})
    shelf.write = waits
    with shelf.open() as rb:
        first = rb.run(waits(page="p", text="slowly"), operation="op", wait=0)
        assert not first.settled
        bootstrap.backup(shelf.url, shelf.folder / "backup.db", lambda done, total: None)
        seen.pages.update(shelf.book.pages)
        assert rb.wait(first.id).verified  # after the backup
    _restored(shelf, "backup.db")
    before = dict(shelf.book.pages)
    with shelf.open() as rb:
        held = rb.get(first.id)
        assert (held.state, held.review, held.code) == (State.REVIEW_REQUIRED, "restored", "restored")
        assert not held.may_repeat
        shelf.runtime.advance(86_400)
        assert rb.resume() == []
        joined = rb.run(waits(page="p", text="slowly"), operation="op", wait=0)
        assert (joined.id, joined.replayed) == (first.id, True)
        assert shelf.book.pages == before
        packet = rb.review(first.id)
        told = rb.resolve(first.id, "verify_again", expect_version=packet.version, who="human:eve", reason="Look.")
        assert told.verified
    assert shelf.book.pages == before
    assert shelf.audited().faults == []


@pytest.mark.requirement("RESTORE-in-flight-held")
def test_what_waited_for_an_approval_may_have_been_executed_since_and_is_reopened_on_a_persons_word_alone(
    desk: Desk,
) -> None:
    waits = desk.run("wipe", "--operation", "held", order_id="o-17", code=4).json["id"]
    desk("ledger", "backup", "--out", "backup.db", code=0)
    desk("ledger", "restore", "backup.db", *TO, *TAKEN, code=0)
    url = ("--url", "sqlite:///again.db")
    desk("ledger", "verify", *url, code=0)
    packet: Any = desk("review", "show", waits, "--json", *url, code=0).json
    assert packet["hold"] == "restored"
    offered = {each["decision"]: each["open"] for each in packet["choices"]}
    assert not offered["reopen"]
    assert offered["attest_not_done"]
    assert "restored from a backup" in desk("explain", waits, *url, code=0).out
    run = ("--operation", "held", *url, "--contracts", CONTRACTS, "--json", "--arg", "order_id=o-17")
    assert desk("run", "wipe", *run).json["id"] == waits
    desk("resume", "--contracts", CONTRACTS, *url)
    given = ("--decision", "attest_not_done", "--expect-version", str(packet["version"]), "--reason", "I looked.")
    desk("review", "resolve", waits, *given, "--who", "human:eve", *url)
    desk("ledger", "verify", *url, code=0)


@pytest.mark.requirement("RESTORE-in-flight-held")
def test_a_saga_that_was_in_flight_begins_nothing_until_a_person_says_so(tmp_path: Path) -> None:
    from readback.audit.checks.ledger import audit
    from readback.audit.maintenance.restore import hold_in_flight
    from readback.testing.runtime_virtual import VirtualRuntime

    store, runtime = bootstrap.store(f"sqlite:///{tmp_path / 'readback.db'}"), VirtualRuntime()
    trip = Trip(store=store, runtime=runtime)
    trip.world.faults["car"] = "late"
    trip.driver.drive(trip.begin(trip.steps(), "waits"), runtime.now_us() + 1_000_000)
    held = hold_in_flight(store, "human:eve", "lost", runtime.now_us())
    assert held.sagas == 1
    assert held.actions >= 1
    calls = list(trip.world.calls)
    runtime.advance(86_400)
    trip.work()
    assert trip.world.calls == calls
    assert audit(store).faults == []
    again = hold_in_flight(store, "human:eve", "lost", runtime.now_us())
    assert (again.sagas, again.actions) == (held.sagas, held.actions)  # it may be run again after a crash
    assert audit(store).faults == []
    store.close()
