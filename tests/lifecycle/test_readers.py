"""Readers that fail, lie about their place, or never answer: what is made of them, and what is never made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.side_effect import Consistency
from readback.domain.state import State
from readback.domain.verdict import Attribution, Verdict, Why
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import NotDispatchedError
from readback.testing.driver_virtual import CallHangs
from tests.lifecycle.house import HIGH, SHIP, STAMPED, TENANT, House, Shop


def _raising(error: BaseException) -> Callable[[Shop, Any], object]:
    def look(shop: Shop, args: Any) -> object:
        raise error

    return look


FAULTY: dict[str, tuple[Callable[[Shop, Any], object], Why]] = {
    "raises": (_raising(KeyError("column")), Why.VERIFIER_ERROR),
    "down": (_raising(ConnectionError("refused")), Why.UNREACHABLE),
    "hangs": (_raising(CallHangs()), Why.TIMEOUT),
    "says unavailable": (lambda shop, args: Reading.unavailable("503"), Why.UNREACHABLE),
    "returns a list": (lambda shop, args: [shop.rows["o-1"]], Why.VERIFIER_ERROR),
    "returns nothing": (lambda shop, args: None, Why.VERIFIER_ERROR),
    "returns true": (lambda shop, args: True, Why.VERIFIER_ERROR),
    "not visible": (lambda shop, args: Reading.not_visible("404"), Why.INCOMPLETE),
    "incomplete": (lambda shop, args: Reading.absent(complete=False), Why.INCOMPLETE),
    "replica by its own word": (
        lambda shop, args: Reading.of(shop.rows["o-1"], consistency=Consistency.REPLICA),
        Why.STALE,
    ),
}


def _after_call(house: House, look: Callable[[Shop, Any], object]) -> None:
    shop = house.shop
    shop.eyes = lambda ctx, args: look(shop, args) if shop.calls else shop.show(args)


@pytest.mark.slow
@pytest.mark.requirement(
    "INPUT-reader-raises", "INPUT-reader-hangs", "INPUT-reader-wrong-type", "L04", "TRUTH-verdict-1", "HS-14"
)
@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.parametrize("really", [True, False])
def test_a_reading_that_did_not_come_leaves_the_action_undetermined(house: House, name: str, really: bool) -> None:
    look, why = FAULTY[name]
    if not really:
        house.shop.tool = lambda ctx, args: {"status": "ok"}
    _after_call(house, look)
    told = house.run(house.action())
    assert (told.verdict, told.why) == (Verdict.UNDETERMINED, why)
    assert told.state in (State.UNKNOWN, State.REVIEW_REQUIRED)
    assert not told.may_repeat
    assert "completed successfully" not in told.message + told.for_model()
    house.work(86_400 * 90)
    assert house.get(told.id).state is State.REVIEW_REQUIRED
    assert len(house.shop.calls) == 1


@pytest.mark.parametrize("name", FAULTY)
def test_a_reader_that_recovers_inside_the_window_is_believed(house: House, name: str) -> None:
    shop, look = house.shop, FAULTY[name][0]
    shop.eyes = lambda ctx, args: look(shop, args) if shop.calls and shop.now() < 4 else shop.show(args)
    assert house.run(house.action()).verified


@pytest.mark.requirement("TRUTH-source-best-used", "L14", "HS-08")
@pytest.mark.parametrize("name", [n for n in FAULTY if n not in ("not visible", "incomplete")])
def test_the_next_reader_is_asked_where_the_first_gives_no_reading(house: House, name: str) -> None:
    shop, look = house.shop, FAULTY[name][0]
    turn = {"n": 0}

    def eyes(ctx: Context, args: Any) -> object:
        turn["n"] += 1
        return look(shop, args) if shop.calls and turn["n"] % 2 == 0 else shop.show(args)

    shop.eyes = eyes
    readers = (("session", "other_client", "near"), ("strong", "other_client", "primary"))
    told = house.run(house.action(readers=readers))
    assert told.verified
    checks = [e.data for e in house.events(told.id) if e.data.get("role") == "check"]
    assert [check["reader"] for check in checks] == ["reader-0", "reader-1"]  # both are on record
    faults = house.store.count(TENANT, "source:near", "verifier_error")
    assert faults == (0 if name.startswith("replica") else 1)


@pytest.mark.requirement("INPUT-reader-other-tenant", "TRUTH-verdict-5", "HS-12", "LEDGER-tenant-id")
@pytest.mark.parametrize("key", ["tenant", "id"])
def test_another_tenants_record_is_undetermined_held_and_not_stored(house: House, key: str) -> None:
    _after_call(house, lambda shop, args: Reading.of({**shop.rows["o-1"], key: "globex", "secret": "s3cret"}))
    told = house.run(house.action())
    assert (told.state, told.verdict, told.why) == (State.REVIEW_REQUIRED, Verdict.UNDETERMINED, Why.OUT_OF_SCOPE)
    assert told.incident
    assert told.authoritative is None
    assert all(b"s3cret" not in kept.body for kept in house.store._content.evidence.values())
    withheld = [e.data["withheld"] for e in house.events(told.id) if e.data.get("role") == "check"]
    assert withheld
    assert all(withheld)


@pytest.mark.requirement("STRATEGY-fail-closed-hold", "STRATEGY-incident", "REC-14", "HS-12")
def test_an_effect_of_ours_elsewhere_is_a_wrong_target_frozen_at_once(house: House) -> None:
    shop = house.shop
    shop.tool = lambda ctx, args: shop.ship(ctx, {**args, "item": "o-2"}, tenant="globex")
    told = house.run(house.action(find=True, compensate={}, **STAMPED))
    assert (told.state, told.discrepancy) == (State.REVIEW_REQUIRED, Discrepancy.WRONG_TARGET_MODIFIED)
    assert (told.attribution, bool(told.incident)) == (Attribution.OURS, True)
    assert shop.undone == []
    assert "o-2" in shop.rows
    assert "incident" in told.for_model()


@pytest.mark.requirement("STRATEGY-fail-closed-hold", "REC-12", "TRUTH-verdict-6")
@pytest.mark.parametrize(("risk", "row"), [({}, "RB-duplicate"), (HIGH, "REC-12")])
def test_a_duplicate_is_frozen_and_the_world_left_as_it_is(house: House, risk: dict[str, Any], row: str) -> None:
    shop = house.shop
    shop.rows.clear()
    shop.search = lambda ctx, args: [Reading.of(shop.rows["o-1"], stamp=ctx.stamp)] * 2
    told = house.run(house.action(kind="create", find=True, compensate={}, **risk))
    assert (told.state, told.discrepancy, told.row) == (
        State.REVIEW_REQUIRED,
        Discrepancy.DUPLICATE_SIDE_EFFECT,
        row,
    )
    assert shop.undone == []
    assert shop.rows


@pytest.mark.parametrize("answer", [None, {}, "none", [1], [[{"id": "o-1"}]], RuntimeError("down"), CallHangs()])
def test_a_search_that_gives_no_list_of_readings_was_not_made(house: House, answer: object) -> None:
    def search(ctx: Context, args: Any) -> object:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    house.shop.search = search
    house.shop.rows.clear()
    told = house.run(house.action(kind="create", find=True, **HIGH))
    assert not told.verified
    assert told.verdict is Verdict.UNDETERMINED


@pytest.mark.parametrize("answer", [None, "failed", {"status": "failed"}, True, ConnectionError("down"), CallHangs()])
def test_a_look_up_that_gives_no_look_up_settles_nothing(house: House, answer: object) -> None:
    def record(ctx: Context, args: Any) -> object:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    house.shop.tool = lambda ctx, args: (500, {})
    house.shop.record = record
    told = house.run(house.action(lookup=True, compensate={}))
    assert (told.state, told.may_repeat) == (State.UNKNOWN, False)


@pytest.mark.requirement("TRUTH-source-lookup", "REC-07")
def test_a_look_up_that_says_landed_makes_it_ours_and_one_that_says_failed_makes_it_dead(house: House) -> None:
    def hang(ctx: Context, args: Any) -> object:
        house.shop.ship(ctx, args, stamp="")
        raise CallHangs

    house.shop.rows.clear()
    house.shop.tool, house.shop.record = hang, lambda ctx, args: Lookup.landed({"id": 1})
    told = house.run(house.action(kind="create", lookup=True))
    assert (told.verified, told.attribution) == (True, Attribution.OURS)
    house.shop.tool, house.shop.record = lambda ctx, args: _hang(), lambda ctx, args: Lookup.failed("declined")
    dead = house.run(house.action(kind="create", lookup=True), "op-2", item="o-2")
    assert (dead.state, dead.may_repeat) == (State.FAILED, False)
    house.shop.record = lambda ctx, args: Lookup.pending()
    house.shop.eyes = lambda ctx, args: Reading.unavailable("503")
    waiting = house.run(house.action(kind="create", lookup=True), "op-3", item="o-3")
    assert (waiting.state, waiting.row) == (State.UNKNOWN, "REC-07")


def _hang() -> object:
    raise CallHangs


@pytest.mark.requirement("TRUTH-verdict-11")
def test_a_reader_of_the_call_itself_is_not_asked_where_there_is_another(house: House) -> None:
    shop, asked = house.shop, list[str]()

    def eyes(ctx: Context, args: Any) -> Reading:
        asked.append("echo" if len(asked) % 2 == 1 else "primary")
        return shop.show(args)

    shop.eyes = eyes
    readers = (("strong", "same_call", "echo"), ("strong", "other_client", "primary"))
    told = house.run(house.action(readers=readers))
    assert told.verified
    sources = {e.data["source"] for e in house.events(told.id) if "source" in e.data}
    assert sources == {"primary"}


@pytest.mark.requirement("TRUTH-verdict-9", "L12")
def test_only_a_failure_that_provably_precedes_dispatch_skips_verification(house: House) -> None:
    def refused(ctx: Context, args: Any) -> object:
        raise NotDispatchedError("no route")

    def broken(ctx: Context, args: Any) -> object:
        raise ConnectionRefusedError("somewhere in a tool of several requests")

    house.shop.tool = refused
    told = house.run(house.action())
    assert (told.state, told.may_repeat, told.verdict) == (State.FAILED, True, Verdict.NOT_CHECKED)
    assert house.shop.looks == [0]  # before, and never after
    house.shop.tool = broken
    other = house.run(house.action(), "op-2")
    assert len(house.shop.looks) > 3
    assert not other.may_repeat


def test_a_foreign_record_found_by_target_never_counts_as_ours(house: House) -> None:
    _after_call(house, lambda shop, args: Reading.of({**shop.rows["o-1"], "tenant": "globex"}))
    told = house.run(house.action())
    assert told.attribution is Attribution.UNKNOWN
    assert told.discrepancy is not Discrepancy.WRONG_TARGET_MODIFIED
    assert house.shop.rows["o-1"]["tenant"] == TENANT


@pytest.mark.requirement("TRUTH-kind-attribution-unknown")
def test_a_state_that_another_actor_made_so_is_verified_and_said_to_be_another_actors(house: House) -> None:
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, stamp="another", author="human:eve")
    told = house.run(house.action(**STAMPED))
    assert (told.verified, told.attribution) == (True, Attribution.OTHER_ACTOR)
    assert "another actor" in told.message
    assert "nother actor" in told.for_model().splitlines()[0]


def _seen(house: House, *, complete: bool) -> None:
    """After the call a source that shows some of it: the log begins where it was cut, and so do the parts."""
    shown: dict[str, Any] = {"parts": [{"id": "a"}], "log": "two"}
    _after_call(
        house, lambda shop, args: Reading.of({**shop.rows["o-1"], **shown}, version=9, stamp="", complete=complete)
    )


UNSEEN: dict[str, Any] = {
    "counts": "authoritative.parts.size() == 1",
    "searches": "!authoritative.parts.exists(p, p.id == 'b')",
    "searches a text": "!authoritative.log.contains('one')",
    "asks for a place": "authoritative.parts[0].id == 'a'",
    "misses": "!has(authoritative.refused)",
    "compares all": "authoritative.parts == authoritative.parts",
}


@pytest.mark.requirement("TRUTH-verdict-2", "L30")
@pytest.mark.parametrize("clause", UNSEEN)
def test_what_counts_searches_or_misses_is_not_believed_of_a_reading_that_was_not_whole(
    house: House, clause: str
) -> None:
    made = house.action(ensure={**SHIP["ensure"], "clause": UNSEEN[clause]})
    _seen(house, complete=False)
    told = house.run(made)
    assert (told.verdict, told.why) == (Verdict.UNDETERMINED, Why.INCOMPLETE)
    assert "not whole" in "".join(e.reason for e in told.postconditions)
    _seen(house, complete=True)
    house.shop.calls.clear()
    assert house.run(made, "op-2").verdict is Verdict.VERIFIED


def test_a_callable_may_count_so_that_it_is_not_asked_over_a_reading_that_was_not_whole(house: House) -> None:
    def few(authoritative: Any) -> bool:
        return len(authoritative["parts"]) == 1

    made = house.action(ensure={"few": few})
    _seen(house, complete=False)
    assert house.run(made).why is Why.INCOMPLETE


def test_what_is_violated_by_what_was_not_shown_refutes_nothing(house: House) -> None:
    _seen(house, complete=False)
    told = house.run(house.action(ensure={**SHIP["ensure"], "b": "authoritative.parts.exists(p, p.id == 'b')"}))
    assert (told.verdict, told.why) == (Verdict.UNDETERMINED, Why.INCOMPLETE)


def test_a_single_value_that_is_shown_is_believed_of_a_reading_that_was_not_whole(house: House) -> None:
    _seen(house, complete=False)
    assert house.run(house.action(ensure={**SHIP["ensure"], "there": "authoritative != null"})).verified


def test_what_was_not_whole_before_is_not_counted_afterwards(house: House) -> None:
    house.shop.eyes = lambda ctx, args: Reading.of(
        {**house.shop.rows["o-1"], "parts": ["a", "b"] if house.shop.calls else ["a"]},
        complete=bool(house.shop.calls),
    )
    more = "authoritative.parts.size() == before.parts.size() + 1"
    told = house.run(house.action(ensure={**SHIP["ensure"], "more": more}))
    assert (told.verdict, told.why) == (Verdict.UNDETERMINED, Why.INCOMPLETE)


def test_what_lies_outside_the_frame_is_not_taken_for_unchanged_where_it_was_not_shown(house: House) -> None:
    _seen(house, complete=False)
    framed = house.action(
        may_change=[
            "authoritative.status",
            "authoritative.version",
            "authoritative.stamp",
            "authoritative.author",
            "authoritative.parts",
            "authoritative.log",
        ],
        **STAMPED,
    )
    told = house.run(framed)
    assert (told.verdict, told.why) == (Verdict.UNDETERMINED, Why.INCOMPLETE)


@pytest.mark.requirement("TRUTH-kind-ours")
@pytest.mark.parametrize("theirs", [{"stamp": "another"}, {"author": "human:eve"}])
def test_what_bears_anothers_mark_is_not_told_as_created_by_us_since_the_keys_record_says_landed(
    house: House, theirs: dict[str, str]
) -> None:
    """Ours may have landed elsewhere, or been taken the place of: nobody has said which."""
    terms = {"kind": "create", "late_window": "20s"}
    identity = {**SHIP["identity"], "stamp": "authoritative.stamp", "actor": "authoritative.author"}
    made = house.action(lookup=True, **terms, identity=identity)
    house.shop.record = lambda ctx, args: Lookup.landed({"id": "o-9"})
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, **{"stamp": "", **theirs})
    house.shop.rows.clear()
    told = house.run(made)
    assert (told.verdict, told.why, told.may_repeat) == (Verdict.UNDETERMINED, Why.UNATTRIBUTED, False)
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, stamp="")
    assert house.run(made, "op-2", item="o-2").verified
