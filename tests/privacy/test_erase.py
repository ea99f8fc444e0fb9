"""Erasure: the bytes are gone from the files, everything that was proved is still proved, and the record says so."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import pytest

from readback import AsyncReadback, Outcome, bootstrap
from readback.audit.maintenance import erase as eraser
from readback.domain.action.erasure import ErasureOrder
from readback.domain.events import open_envelope
from readback.errors import ErasureError, InputError
from readback.stores.sqlite import open_sqlite_store
from tests.privacy.conftest import Book, Shelf, write_of

WHY: Any = {"who": "human:dpo", "reason": "Ana asked for it."}
SIZES = {"short": "ana-short", "page": "ana-page " * 300, "large": "ana-large " * 30_000}


def _words(texts: dict[str, str]) -> list[bytes]:
    return [text.split()[0].encode() for text in texts.values()]


@pytest.mark.requirement("PRIVACY-bytes-gone")
def test_the_bytes_of_an_erased_action_are_in_none_of_the_files(shelf: Shelf) -> None:
    texts = {**SIZES, **{f"p{n}": f"bob-{n} " * (n * 17) for n in range(1, 40)}}
    made = shelf.fill(texts)
    for word in _words(texts):
        assert word in shelf.files()
    with shelf.open() as rb:  # the files are looked at while they are open: nothing waits for the end of a process
        for page in SIZES:
            done = rb.erase(made[page].id, **WHY)
            assert (done.actions, done.pieces, done.gone) == (1, 4, True)
        held = shelf.files()
        for word in _words(SIZES):
            assert word not in held
        assert b"bob-7 " in held
    assert shelf.audited().faults == []
    assert shelf.audited().erased == 12


@pytest.mark.requirement("PRIVACY-bytes-gone")
def test_a_whole_tenant_is_erased_and_nothing_of_it_is_left(shelf: Shelf) -> None:
    texts = {f"p{n}": f"cleo-{n} " * (1 + n * 31) for n in range(60)}
    shelf.fill(texts)
    shelf.runtime.advance(10)
    with shelf.open() as rb:
        done = rb.erase(before=_moment(shelf), **WHY)
        assert (done.actions, done.at_work_total, done.pieces) == (60, 0, 240)
        assert b"cleo-" not in shelf.files()
        again = rb.erase(before=_moment(shelf), **WHY)
        assert (again.actions, again.already) == (0, 60)
    assert shelf.audited().faults == []


def _moment(shelf: Shelf) -> datetime:
    return datetime.fromtimestamp(shelf.runtime.now_us() / 1_000_000, UTC)


@pytest.mark.requirement("PRIVACY-erase-by-age")
def test_only_what_was_last_moved_before_the_moment_is_erased(shelf: Shelf) -> None:
    old = shelf.fill({"old": "old-words"})["old"]
    shelf.runtime.advance(3600)
    new = shelf.fill({"new": "new-words"})["new"]
    with shelf.open() as rb:
        done = rb.erase(before=_moment(shelf) - timedelta(minutes=30), **WHY)
        assert done.actions == 1
        assert rb.get(old.id).erased
        assert not rb.get(new.id).erased
    assert b"old-words" not in shelf.files()
    assert b"new-words" in shelf.files()


@pytest.mark.requirement("PRIVACY-shared-kept")
def test_an_action_keeps_its_own_of_what_another_has_too_until_it_is_erased_itself(shelf: Shelf) -> None:
    """The page's row differs by its stamp; what was asked for and what the tool answered are the same for both."""
    with shelf.open() as rb:
        one = rb.run(shelf.write(page="p", text="the same words"), operation="one")
        two = rb.run(shelf.write(page="p", text="the same words"), operation="two")
        first = rb.erase(one.id, **WHY)
        assert (first.pieces, first.gone) == (4, True)
        assert b"the same words" in shelf.files()
        assert rb.get(two.id).observation.body == {"written": "the same words"}  # type: ignore[union-attr]
        _holds_nothing(rb.get(one.id))
        assert shelf.audited().faults == []
        second = rb.erase(two.id, **WHY)
        assert second.pieces == 5, "it read what the first had written"
        assert b"the same words" not in shelf.files()
    assert shelf.audited().faults == []


def _holds_nothing(outcome: Outcome) -> None:
    assert outcome.erased
    assert (outcome.authoritative, outcome.before, outcome.postconditions) == (None, None, ())
    assert outcome.observation is not None
    assert outcome.observation.body is None


@pytest.mark.requirement("PRIVACY-shared-kept")
def test_what_is_recorded_again_after_it_was_erased_is_there_for_the_one_that_recorded_it(shelf: Shelf) -> None:
    one = shelf.fill({"p": "twice said"})["p"]
    with shelf.open() as rb:
        rb.erase(one.id, **WHY)
        two = rb.run(shelf.write(page="p", text="twice said"), operation="two")
        assert rb.get(two.id).authoritative["text"] == "twice said"  # type: ignore[index, call-overload]
        _holds_nothing(rb.get(one.id))
    assert shelf.audited().faults == []


@pytest.mark.requirement("PRIVACY-erased-said")
def test_an_erased_outcome_keeps_what_it_came_to_and_says_that_its_payloads_are_gone(shelf: Shelf) -> None:
    made = shelf.fill({"p": "words"})["p"]
    with shelf.open() as rb:
        before = rb.get(made.id)
        rb.erase(made.id, **WHY)
        after = rb.get(made.id)
        _holds_nothing(after)
        assert (after.state, after.verified, after.standing) == (before.state, True, True)
        assert after.message == before.message
        assert after.as_json()["erased_us"] == shelf.runtime.now_us()
        assert rb.list()[0].erased
        replayed = rb.run(shelf.write(page="p", text="words"), operation="p")
        assert (replayed.id, replayed.replayed, replayed.erased) == (made.id, True, True)
        packet = rb.review(made.id).as_json()
        assert packet["requested"] == packet["authoritative"] == {"$erased": True}


@pytest.mark.requirement("PRIVACY-erased-entry")
def test_an_entry_of_the_action_itself_says_what_was_erased_by_whom_and_why(shelf: Shelf) -> None:
    made = shelf.fill({"p": "words"})["p"]
    with shelf.open() as rb:
        rb.erase(made.id, **WHY)
        assert rb.erase(made.id, **WHY).already == 1
    store = bootstrap.store(shelf.url, read_only=True)
    events = [open_envelope(each.envelope).event for each in store.events(made.id)]
    store.close()
    assert [each.kind.value for each in events].count("erased") == 1
    data = events[-1].data
    assert (data["who"], data["reason"]) == ("human:dpo", "Ana asked for it.")
    assert len(data["digests"]) == 4  # type: ignore[arg-type]
    kept = {digest for each in events for name, digest in each.refs.items() if name == "contract"}
    assert kept.isdisjoint(data["digests"])  # type: ignore[arg-type]


@pytest.mark.requirement("PRIVACY-at-work-refused")
def test_what_is_at_work_is_not_erased_and_nothing_that_was_named_beside_it(shelf: Shelf) -> None:
    with shelf.open() as rb:
        settled = rb.run(shelf.write(page="p", text="settled"), operation="settled")
        waits = rb.run(write_of(Book(), Book())(page="q", text="lost"), operation="waits", wait=0)
        assert not waits.settled
        with pytest.raises(ErasureError, match="will be resumed") as refused:
            rb.erase(waits.id, **WHY)
        assert (refused.value.code, refused.value.exit_code) == ("erasure.at-work", 2)
        shelf.runtime.advance(1)
        done = rb.erase(before=_moment(shelf), **WHY)
        assert (done.actions, done.at_work_total) == (1, 1)
        assert done.at_work[0].action_id == waits.id
        assert rb.get(settled.id).erased
    assert b"lost" in shelf.files()
    assert shelf.audited().faults == []


@pytest.mark.requirement("PRIVACY-bytes-gone", "PRIVACY-shared-kept")
def test_what_many_share_goes_with_the_last_of_them_however_they_are_taken(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eraser, "APPENDS_AT_ONCE_MAX", 2)
    shelf.fill({f"p{n}": f"shared-{n % 2}" for n in range(11)})
    done: list[int] = []
    with shelf.open() as rb:
        store = rb._session.store
        result = eraser.erase(
            store, ErasureOrder("acme", "human:dpo", "x"), shelf.runtime.now_us(), progress=done.append
        )
        assert (result.actions, result.pieces, result.gone) == (11, 44, True)
        assert done == [*range(1, 12)]
        assert b"shared-" not in shelf.files()
    assert shelf.audited().faults == []


@pytest.mark.requirement("PRIVACY-shared-kept", "PRIVACY-audit")
def test_an_action_that_comes_while_another_is_erased_keeps_what_it_refers_to(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shelf.fill({"p": "said by both"})["p"]
    with shelf.open() as rb, shelf.open() as other:
        store = rb._session.store
        append = store.append

        def appends(batch: Any) -> Any:
            monkeypatch.undo()
            other.run(shelf.write(page="p", text="said by both"), operation="other")
            return append(batch)

        monkeypatch.setattr(store, "append", appends)
        rb.erase(made.id, **WHY)
        assert rb.get(made.id).erased
    assert b"said by both" in shelf.files()
    assert shelf.audited().faults == []


@pytest.mark.requirement("PRIVACY-bytes-gone")
def test_what_another_tenant_records_while_actions_are_erased_keeps_nothing_of_them(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shelf.open() as rb:
        made = [rb.run(shelf.write(page="p", text="said by all"), operation=each) for each in ("one", "two")]
        store = rb._session.store
        append = store.append

        def comes(batch: Any) -> Any:
            monkeypatch.undo()
            with shelf.open("globex") as theirs:
                theirs.run(shelf.write(page="p", text="said by all"), operation="theirs")
            return append(batch)

        monkeypatch.setattr(store, "append", comes)
        assert rb.erase(before=datetime(2030, 1, 1, tzinfo=UTC), **WHY).actions == 2
        for outcome in made:
            said = open_envelope(store.events(outcome.id)[-1].envelope).event.data["digests"]
            assert isinstance(said, list)
            assert all(store.erased("acme", outcome.id, str(each)) for each in said)
    assert shelf.audited().faults == []


@pytest.mark.requirement("PRIVACY-audit", "PRIVACY-at-work-refused")
def test_an_action_that_is_moved_on_while_it_is_erased_keeps_everything(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shelf.fill({"p": "one of two", "q": "two of two"})
    with shelf.open() as rb:
        store = rb._session.store
        append = store.append

        def moved_on(batch: Any) -> Any:
            monkeypatch.undo()
            store.lease(made["p"].id, "somebody", shelf.runtime.now_us(), shelf.runtime.now_us() + 1)
            return append(batch)

        monkeypatch.setattr(store, "append", moved_on)
        moment = _moment(shelf) + timedelta(seconds=1)
        result = rb.erase(before=moment, **WHY)
        assert (result.actions, result.at_work_total) == (1, 1)
        assert result.at_work[0].why == "it changed just now"
        assert not rb.get(made["p"].id).erased
    assert b"one of two" in shelf.files()
    assert b"two of two" not in shelf.files()
    assert shelf.audited().faults == []


@pytest.mark.requirement("PRIVACY-erase-by-age")
def test_the_async_client_erases_too_and_a_dry_run_changes_nothing(shelf: Shelf) -> None:
    made = shelf.fill({"p": "async words"})["p"]

    async def go() -> None:
        given: Any = {"tenant": "acme", "principal": "agent:ops", "runtime": shelf.runtime}
        async with AsyncReadback.open(shelf.url, **given) as rb:
            dry = await rb.erase(made.id, dry_run=True, **WHY)
            assert (dry.dry_run, dry.actions, dry.pieces) == (True, 1, 4)
            assert not (await rb.get(made.id)).erased
            done = await rb.erase(made.id, **WHY)
            assert (done.actions, done.pieces) == (1, 4)
            assert (await rb.get(made.id)).erased

    asyncio.run(go())
    assert b"async words" not in shelf.files()


@pytest.mark.requirement("PRIVACY-erase-by-age")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"before": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is what is wrong with it
        {"id_or_stamp": "x", "before": datetime(2026, 1, 1, tzinfo=UTC)},
        {"before": datetime(2026, 1, 1, tzinfo=UTC), "reason": " "},
        {"before": datetime(2026, 1, 1, tzinfo=UTC), "reason": "x" * 5_000},
        {"before": datetime(2026, 1, 1, tzinfo=UTC), "who": ""},
    ],
)
def test_what_is_no_order_erases_nothing(shelf: Shelf, given: dict[str, Any]) -> None:
    shelf.fill({"p": "words"})
    with shelf.open() as rb, pytest.raises(InputError):
        rb.erase(**{**WHY, **given})
    assert b"words" in shelf.files()


@pytest.mark.requirement("PRIVACY-bytes-gone")
def test_a_reader_that_holds_on_to_old_pages_is_said_and_the_next_erasure_cleans_up(shelf: Shelf) -> None:
    made = shelf.fill({"p": "held words"})["p"]
    reader = apsw.Connection(str(shelf.path))
    with shelf.open() as rb:
        rb.run(
            shelf.write(page="q", text="other"), operation="q"
        )  # what the reader sees is in the log, not folded back
        reader.execute("begin")
        reader.execute("select count(*) from payload").fetchall()
        store = open_sqlite_store(shelf.path, busy_timeout_ms=50)
        done = eraser.erase(store, ErasureOrder("acme", "human:dpo", "x", (made.id,)), shelf.runtime.now_us())
        store.close()
        assert (done.actions, done.gone) == (1, False)
        reader.close()
        assert rb.erase(made.id, **WHY).gone
        assert b"held words" not in shelf.files()
