"""What had failed when the backup was made may have been done since: a restored ledger lets nobody do it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from readback import Context, Reading, action, bootstrap
from readback.audit.checks.ledger import audit
from readback.audit.maintenance.restore import hold_in_flight
from readback.domain.state import State
from readback.errors import NotDispatchedError
from readback.testing.runtime_virtual import VirtualRuntime
from tests.backup.test_restore import _restored
from tests.lifecycle.trip import Trip
from tests.privacy.conftest import Book, Shelf, write_of
from tests.privacy.conftest import shelf as shelf  # the fixture

pytestmark = pytest.mark.requirement("RESTORE-in-flight-held")


def _backed_up(shelf: Shelf) -> None:
    bootstrap.backup(shelf.url, shelf.folder / "backup.db", lambda done, total: None)


def _notes(book: Book, faults: list[Exception]) -> Any:
    """Writes another note each time that it is called; each is found by the stamp of the call that wrote it."""

    @action(
        name="note",
        kind="create",
        side_effect="low_risk_internal",
        target="{requested.text}",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "stamp": "authoritative.stamp"},
        ensure={"text": "authoritative.text == requested.text"},
        within="10s",
        late_window="20s",
        polls=["0s", "1s"],
    )
    def note(ctx: Context, text: str) -> object:
        if faults:
            raise faults.pop()
        book.pages[ctx.stamp] = {"id": text, "tenant": "acme", "text": text, "stamp": ctx.stamp}
        return {"written": text}

    @note.read(source="book", consistency="strong", independence="other_client")
    def row(ctx: Context, text: str) -> Reading:
        found = book.pages.get(ctx.stamp)
        return Reading.absent() if found is None else Reading.of(dict(found), stamp=found["stamp"])

    @note.find(complete=True)
    def notes(ctx: Context, text: str) -> list[Reading]:
        found = book.pages.get(ctx.stamp)
        return [] if found is None else [Reading.of(dict(found), stamp=found["stamp"])]

    return note


def test_an_operation_that_failed_before_the_backup_and_was_done_after_it_is_not_done_again(shelf: Shelf) -> None:
    write = shelf.write = write_of(shelf.book, require={"open": "before.text != 'shut'"})
    shelf.book.pages["p"] = {"id": "p", "tenant": "acme", "text": "shut", "stamp": ""}
    with shelf.open() as rb:
        first = rb.run(write(page="p", text="a"), operation="op")
        assert (first.state, first.may_repeat) == (State.FAILED, True)
        _backed_up(shelf)
        shelf.book.pages["p"]["text"] = "open"
        assert rb.run(write(page="p", text="a"), operation="op").verified
    _restored(shelf, "backup.db")
    before = dict(shelf.book.pages)
    with shelf.open() as rb:
        again = rb.run(write(page="p", text="a"), operation="op", wait=0)
        assert (again.id, again.replayed, again.may_repeat) == (first.id, True, False)
        assert (again.state, again.review) == (State.REVIEW_REQUIRED, "restored")
        assert shelf.book.pages == before
        packet = rb.review(first.id)
        told = rb.resolve(first.id, "verify_again", expect_version=packet.version, who="human:eve", reason="Look.")
        assert told.verified
    assert shelf.book.pages == before
    assert shelf.audited().faults == []


@pytest.mark.parametrize("fault", [ConnectionError("cut"), NotDispatchedError("not up yet")], ids=["lost", "unsent"])
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "in-flight"])
def test_a_reading_that_finds_nothing_of_an_attempt_frees_no_key_where_another_may_have_been_made(
    shelf: Shelf, fault: Exception, ended: bool
) -> None:
    faults: list[Exception] = []
    note = shelf.write = _notes(shelf.book, faults)
    with shelf.open() as rb:
        assert rb.run(note(text="earlier"), operation="earlier").verified  # by it the search is known to find
        faults.append(fault)
        first = rb.run(note(text="a"), operation="op", wait=0)
        if not ended:
            _backed_up(shelf)
        shelf.runtime.advance(60)
        rb.resume()
        first = rb.get(first.id)
        assert (first.state, first.may_repeat) == (State.FAILED, True)
        if ended:
            _backed_up(shelf)
        assert rb.run(note(text="a"), operation="op").verified
    _restored(shelf, "backup.db")
    with shelf.open() as rb:
        said = {"who": "human:eve", "reason": "I looked."}
        told = rb.resolve(first.id, "verify_again", expect_version=rb.review(first.id).version, **said)
        assert (told.state, told.may_repeat) == (State.REVIEW_REQUIRED, False)
        assert "not executed" not in told.for_model().lower()
        shelf.runtime.advance(86_400)
        rb.resume()
        again = rb.run(note(text="a"), operation="op")
        assert (again.id, again.may_repeat) == (first.id, False)
        assert len(shelf.book.pages) == 2
        rb.resolve(first.id, "attest_not_done", expect_version=rb.review(first.id).version, **said)
        assert rb.run(note(text="a"), operation="op").verified  # by a person's word alone
    assert shelf.audited().faults == []


def _look(book: Book) -> Any:
    """Only looks, and cannot now."""

    @action(
        name="look",
        kind="read",
        side_effect="read_only",
        target="{requested.text}",
        identity={"target": "not_offered", "tenant": "not_offered"},
        ensure={"some": "authoritative.pages >= 0"},
    )
    def look(ctx: Context, text: str) -> object:
        raise NotDispatchedError("not up yet")

    @look.read(source="book", consistency="strong", independence="other_client")
    def row(ctx: Context, text: str) -> Reading:
        return Reading.of({"pages": len(book.pages)})

    return look


class _Left:
    """A page in a transaction that is left open, with another text than was asked for at first."""

    def __init__(self, book: Book, row: dict[str, Any]) -> None:
        self.book, self.row = book, row

    def read(self) -> Reading:
        return Reading.of(self.row, stamp=self.row["stamp"])

    def commit(self) -> None:
        self.book.pages[self.row["id"]] = self.row

    def abandon(self) -> None:
        pass


def test_what_was_rolled_back_before_the_backup_is_not_done_again(shelf: Shelf) -> None:
    texts = ["wrong"]

    @action(
        name="write",
        kind="set",
        side_effect="low_risk_internal",
        target="page/{requested.page}",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
        ensure={"text": "authoritative.text == requested.text"},
    )
    def write(ctx: Context, page: str, text: str) -> object:
        said = texts.pop() if texts else text
        return _Left(shelf.book, {"id": page, "tenant": "acme", "text": said, "stamp": ctx.stamp})

    @write.read(source="book", consistency="strong", independence="other_client")
    def row(ctx: Context, page: str, text: str) -> Reading:
        found = shelf.book.pages.get(page)
        return Reading.absent() if found is None else Reading.of(dict(found), stamp=found["stamp"])

    shelf.write = write
    with shelf.open() as rb:
        first = rb.run(write(page="p", text="a"), operation="op")
        assert (first.state, first.may_repeat) == (State.ROLLED_BACK, True)
        _backed_up(shelf)
        assert rb.run(write(page="p", text="a"), operation="op").verified
    _restored(shelf, "backup.db")
    before = dict(shelf.book.pages)
    with shelf.open() as rb:
        again = rb.run(write(page="p", text="a"), operation="op")
        assert (again.id, again.review, again.may_repeat) == (first.id, "restored", False)
        said = {"who": "human:eve", "reason": "It is there."}
        rb.resolve(first.id, "abandon", expect_version=rb.review(first.id).version, **said)
        assert not rb.run(write(page="p", text="a"), operation="op").may_repeat
    assert shelf.book.pages == before
    assert shelf.audited().faults == []


def test_what_nobody_can_ask_for_again_or_was_forgotten_by_then_waits_for_nobody(shelf: Shelf) -> None:
    faults: list[Exception] = [NotDispatchedError("not up yet") for _ in range(3)]
    note = shelf.write = _notes(shelf.book, faults)
    with shelf.open() as rb:
        old = rb.run(note(text="a"), operation="old")
        shelf.runtime.advance(31 * 86_400)
        unnamed, named = rb.run(note(text="b")), rb.run(note(text="c"), operation="new")
        looked = rb.run(_look(shelf.book)(text="c"), operation="look")
        assert (looked.state, looked.may_repeat) == (State.FAILED, True)
        _backed_up(shelf)
    _restored(shelf, "backup.db")
    with shelf.open() as rb:
        assert [rb.get(each.id).review for each in (old, unnamed, looked, named)] == ["", "", "", "restored"]


def test_a_saga_that_failed_before_the_backup_is_not_begun_again(tmp_path: Path) -> None:
    store, runtime = bootstrap.store(f"sqlite:///{tmp_path / 'readback.db'}"), VirtualRuntime()
    trip = Trip(store=store, runtime=runtime)
    assert trip.run(trip.steps("t-0"), "op-0").verified  # from here on, a search that finds nothing shows something
    trip.world.faults.update(flight="refused", hotel="refused")
    begun = trip.run()
    trip.work()
    failed = trip.get(begun.id)
    assert (failed.state, failed.may_repeat) == (State.FAILED, True)
    trip.world.faults.clear()
    calls = list(trip.world.calls)
    assert hold_in_flight(store, "human:eve", "lost", runtime.now_us()).sagas == 1
    again = trip.run()
    assert (again.id, again.state, again.may_repeat) == (failed.id, State.REVIEW_REQUIRED, False)
    assert trip.world.calls == calls
    assert audit(store).faults == []
    store.close()
