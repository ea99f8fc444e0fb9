"""The checker itself: it says nothing of a history in which all is well, and something of each that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import pytest

from tests.fleet.checker import Effect, Ended, Entry, Evidence, Head, Kind, check, root_of
from tests.fleet.history import Line, What

LEAVES = [sha256(b"%d" % n).digest() for n in range(5)]
ENTRIES = [
    Entry(1, "a1", 1, LEAVES[0]), Entry(2, "a2", 1, LEAVES[1]), Entry(3, "a1", 2, LEAVES[2]),
    Entry(4, "a2", 2, LEAVES[3]), Entry(5, "a1", 3, LEAVES[4]),
]  # fmt: skip
DONE, FAILED = "reconciled_success", "failed"
GOOD = Evidence(
    lines=[
        Line("c1", What.ASKED, "one", 10),
        Line("c1", What.REFUSED, "one", 11, code="store.locked"),
        Line("c1", What.ASKED, "one", 12),
        Line("c2", What.ASKED, "two", 13),
        Line("c2", What.ACCEPTED, "two", 14, id="a2"),
        Line("c1", What.ANSWERED, "one", 20, id="a1", state=DONE, verified=True, settled=True),
        Line("c2", What.ANSWERED, "two", 21, id="a2", state="pending"),
        Line("c2", What.ANSWERED, "two", 22, id="a2", state=FAILED, settled=True, may_repeat=True),
    ],
    effects=[Effect("one", "s1", 15)],
    entries=ENTRIES,
    actions=[Ended("a1", "one", "s1", DONE, over=True), Ended("a2", "two", "s2", FAILED, over=True)],
    heads=[Head(3, root_of(LEAVES[:3])), Head(5, root_of(LEAVES))],
)  # fmt: skip


def _line(index: int, **more: object) -> list[Line]:
    """The good lines with one of them changed."""
    lines = list(GOOD.lines)
    lines[index] = replace(lines[index], **more)  # type: ignore[arg-type]
    return lines


WRONG: dict[str, tuple[Kind, Callable[[], Evidence]]] = {
    "an id that no ledger has": (
        Kind.LOST,
        lambda: replace(GOOD, actions=GOOD.actions[:1], lines=GOOD.lines[:6]),
    ),
    "an id that is another operation's": (Kind.LOST, lambda: replace(GOOD, lines=_line(4, id="a1"))),
    "an operation of which nobody was told": (Kind.LOST, lambda: replace(GOOD, lines=GOOD.lines[:7])),
    "an operation that was asked for and never heard of": (
        Kind.LOST, lambda: replace(GOOD, lines=[*GOOD.lines, Line("c3", What.ASKED, "three", 30)]),
    ),
    "an answer without an action": (
        Kind.LOST,
        lambda: replace(GOOD, lines=[*GOOD.lines, Line("c3", What.ANSWERED, "three", 30, settled=True, state=FAILED)]),
    ),
    "an action that nobody goes on with": (
        Kind.LOST,
        lambda: replace(GOOD, actions=[GOOD.actions[0], replace(GOOD.actions[1], state="pending", over=False)]),
    ),
    "two effects by one attempt": (
        Kind.DOUBLED, lambda: replace(GOOD, effects=[*GOOD.effects, Effect("one", "s1", 16)]),
    ),
    "two effects by two actions": (
        Kind.DOUBLED,
        lambda: replace(
            GOOD, effects=[*GOOD.effects, Effect("one", "s3", 16)],
            actions=[*GOOD.actions, Ended("a3", "one", "s3", DONE, over=True)],
        ),
    ),
    "a success without an effect": (Kind.FALSE_SUCCESS, lambda: replace(GOOD, effects=[])),
    "a success that was told before the effect": (
        Kind.FALSE_SUCCESS, lambda: replace(GOOD, effects=[Effect("one", "s1", 21)]),
    ),
    "a success on record without an effect": (
        Kind.FALSE_SUCCESS,
        lambda: replace(GOOD, actions=[GOOD.actions[0], replace(GOOD.actions[1], state=DONE)]),
    ),
    "a failure with an effect": (
        Kind.FALSE_FAILURE, lambda: replace(GOOD, effects=[*GOOD.effects, Effect("two", "s2", 18)]),
    ),
    "a failure whose effect comes later": (
        Kind.FALSE_FAILURE, lambda: replace(GOOD, effects=[*GOOD.effects, Effect("two", "s2", 30)]),
    ),
    "a failure of one action, told when another has its effect": (
        Kind.FALSE_FAILURE,
        lambda: replace(
            GOOD, effects=[*GOOD.effects, Effect("two", "s3", 18)],
            actions=[*GOOD.actions, Ended("a3", "two", "s3", DONE, over=True)],
        ),
    ),
    "a failure on record with an effect": (
        Kind.FALSE_FAILURE,
        lambda: replace(
            GOOD, effects=[*GOOD.effects, Effect("two", "s2", 18)], lines=_line(7, may_repeat=False, state="unknown")
        ),
    ),
    "an effect that may be repeated": (
        Kind.FALSE_FAILURE,
        lambda: replace(GOOD, effects=[*GOOD.effects, Effect("two", "s2", 18)], lines=_line(7, state="unknown")),
    ),
    "a success that is taken back": (
        Kind.CONTRADICTED,
        lambda: replace(
            GOOD, lines=[*GOOD.lines, Line("c3", What.ANSWERED, "one", 40, id="a1", state="unknown", settled=True)]
        ),
    ),
    "a success of two actions": (
        Kind.CONTRADICTED,
        lambda: replace(
            GOOD, lines=[*GOOD.lines, replace(GOOD.lines[5], client="c3", at_ns=40, id="a3")],
            actions=[*GOOD.actions, Ended("a3", "one", "s3", DONE, over=True)],
        ),
    ),
    "an effect that no ledger knows": (
        Kind.UNRECORDED, lambda: replace(GOOD, actions=[replace(GOOD.actions[0], stamp="s9"), GOOD.actions[1]]),
    ),
    "a place that is missing": (Kind.FORKED, lambda: replace(GOOD, entries=[*ENTRIES[:2], *ENTRIES[3:]], heads=[])),
    "a place that is given twice": (
        Kind.FORKED, lambda: replace(GOOD, entries=[*ENTRIES[:4], replace(ENTRIES[4], seq=4)], heads=[]),
    ),
    "an entry that stands twice": (
        Kind.FORKED, lambda: replace(GOOD, entries=[*ENTRIES, replace(ENTRIES[4], seq=6)], heads=[]),
    ),
    "an action's entries out of order": (
        Kind.FORKED,
        lambda: replace(
            GOOD, entries=[replace(ENTRIES[2], seq=1), ENTRIES[1], replace(ENTRIES[0], seq=3), *ENTRIES[3:]], heads=[]
        ),
    ),
    "a checkpoint of another log": (Kind.FORKED, lambda: replace(GOOD, heads=[Head(3, root_of(LEAVES[1:4]))])),
    "two checkpoints of one size": (
        Kind.FORKED, lambda: replace(GOOD, heads=[*GOOD.heads, Head(5, root_of(LEAVES[::-1]))]),
    ),
    "a checkpoint of more than there is": (Kind.FORKED, lambda: replace(GOOD, heads=[Head(6, root_of(LEAVES))])),
}  # fmt: skip


@pytest.mark.requirement("DRILL-checker")
def test_of_a_history_in_which_all_is_well_nothing_is_said() -> None:
    assert check(GOOD) == []


@pytest.mark.requirement("DRILL-checker")
def test_a_failure_that_is_asked_for_anew_may_have_its_effect_then() -> None:
    again = Line("c3", What.ANSWERED, "two", 40, id="a3", state=DONE, verified=True, settled=True)
    repeated = replace(
        GOOD, lines=[*GOOD.lines, again], effects=[*GOOD.effects, Effect("two", "s3", 30)],
        actions=[*GOOD.actions, Ended("a3", "two", "s3", DONE, over=True)],
    )  # fmt: skip
    assert check(repeated) == []


@pytest.mark.requirement("DRILL-checker")
@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_history_is_found_out(name: str) -> None:
    kind, wrong = WRONG[name]
    assert kind in {fault.kind for fault in check(wrong())}, check(wrong())


def test_every_kind_of_fault_is_tried() -> None:
    assert {kind for kind, _ in WRONG.values()} == set(Kind)


def test_the_root_is_the_one_that_the_specification_gives() -> None:
    """RFC 6962, 2.1: the larger part on the left is the largest power of two below the number of leaves."""

    def pair(a: bytes, b: bytes) -> bytes:
        return sha256(b"\x01" + a + b).digest()

    a, b, c, d, e = LEAVES
    assert root_of([]) == sha256().digest()
    assert root_of([a]) == a
    assert root_of([a, b, c]) == pair(pair(a, b), c)
    assert root_of(LEAVES) == pair(pair(pair(a, b), pair(c, d)), e)
