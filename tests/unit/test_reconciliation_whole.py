"""Whole judgements: every field of the answer to each kind of case, written down once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import pytest

from readback.domain.contract.contract import Noop
from readback.domain.kind import Kind
from readback.domain.side_effect import Consistency, Independence
from readback.domain.verification.reading import Fault, Presence, Role
from readback.domain.verification.reconciliation import Reconciliation
from tests.unit.cases_given import (
    BEFORE,
    BEFORE_GONE,
    BEFORE_SO,
    HOLDS,
    LANDED,
    OLD,
    STAMP,
    STATE,
    UNTOLD,
    VIOLATED,
    contract,
    gone,
    grouped,
    judged,
    result,
)

EFFECT: Final = judged(HOLDS, role=Role.FIND, stamp=STAMP)
STRAY: Final = judged(HOLDS, scope=VIOLATED, role=Role.FIND, stamp=STAMP)
C, DEL = contract(Kind.CREATE), contract(Kind.DELETE)
FRAMED, STRICT = contract(may_change=("status",)), contract(noop=Noop.REFUSE)
both = contract(ensure=grouped("a", "b"))
half = judged(HOLDS, VIOLATED, groups=("a", "b"), stamp=STAMP)


class Expected(NamedTuple):
    """A case, and what is said of it: verdict, why, finding, class, whose, effect, level, staleness, reading."""

    name: str
    judge: Callable[[], Reconciliation]
    words: str


WHOLE: Final = (
    Expected(
        "duplicate",
        lambda: result(judged(HOLDS, stamp=STAMP), of=C, found=(EFFECT, judged(VIOLATED, stamp=STAMP, scope=UNTOLD))),
        "refuted - duplicate_side_effect duplicate_side_effect ours shown 2 - 0",
    ),
    Expected(
        "misplaced",
        lambda: result(judged(HOLDS, stamp=STAMP), of=C, found=(STRAY,)),
        "refuted - wrong_target wrong_target_modified ours shown 2 - 0",
    ),
    Expected(
        "nothing read",
        lambda: result(),
        "undetermined unverifiable unverifiable unverifiable_state unknown - 1 - 0",
    ),
    Expected(
        "too near",
        lambda: result(judged(HOLDS, independence=Independence.SAME_CALL)),
        "undetermined unverifiable unverifiable unverifiable_state unknown - 1 - 0",
    ),
    Expected(
        "not visible",
        lambda: result(judged(UNTOLD, presence=Presence.NOT_VISIBLE, detail="404")),
        "undetermined incomplete authority_mismatch unknown_state unknown - 1 - 0",
    ),
    Expected(
        "down",
        lambda: result(judged(HOLDS, fault=Fault.UNREACHABLE, detail="503")),
        "undetermined unreachable provider_outage unverifiable_state unknown - 1 - 0",
    ),
    Expected(
        "timeout",
        lambda: result(judged(HOLDS, fault=Fault.TIMEOUT)),
        "undetermined timeout provider_outage unverifiable_state unknown - 1 - 0",
    ),
    Expected(
        "verifier broke",
        lambda: result(judged(HOLDS, fault=Fault.VERIFIER_ERROR)),
        "undetermined verifier_error verifier_error unknown_state unknown - 1 - 0",
    ),
    Expected(
        "weak absence",
        lambda: result(gone(consistency=Consistency.SESSION)),
        "undetermined stale authority_mismatch unverifiable_state unknown - 1 stale 0",
    ),
    Expected(
        "incomplete absence",
        lambda: result(gone(complete=False)),
        "undetermined incomplete authority_mismatch unknown_state unknown - 1 - 0",
    ),
    Expected(
        "out of scope",
        lambda: result(judged(HOLDS, scope=VIOLATED)),
        "undetermined out_of_scope verifier_error unknown_state unknown - 1 - 0",
    ),
    Expected(
        "scope unsaid",
        lambda: result(judged(HOLDS, scope=UNTOLD)),
        "undetermined incomplete verifier_error unknown_state unknown - 1 - 0",
    ),
    Expected(
        "stale",
        lambda: result(judged(HOLDS, consistency=Consistency.REPLICA)),
        "undetermined stale authority_mismatch unverifiable_state unknown - 1 stale 0",
    ),
    Expected(
        "no evidence",
        lambda: result(judged(HOLDS, consistency=Consistency.SESSION), before=BEFORE),
        "undetermined stale authority_mismatch unverifiable_state unknown - 1 stale 0",
    ),
    Expected(
        "untold",
        lambda: result(judged(UNTOLD)),
        "undetermined incomplete verifier_error unknown_state unknown - 1 - 0",
    ),
    Expected(
        "predicate broke",
        lambda: result(judged(UNTOLD, verifier_fault=True)),
        "undetermined verifier_error verifier_error unknown_state unknown - 1 - 0",
    ),
    Expected(
        "verified",
        lambda: result(judged(HOLDS, version=2, stamp=STAMP), before=BEFORE),
        "verified - verified - ours shown 3 - 0",
    ),
    Expected(
        "no-op",
        lambda: result(judged(HOLDS, version=1), before=BEFORE_SO),
        "verified - no_op_allowed no_op_success already_so - 3 - 0",
    ),
    Expected(
        "unattributed",
        lambda: result(judged(HOLDS), of=C),
        "undetermined unattributed authority_mismatch unknown_state unknown - 1 - 0",
    ),
    Expected(
        "settling",
        lambda: result(judged(HOLDS, stamp=STAMP), of=C, look_due=True),
        "undetermined settling propagation_delay unverifiable_state unknown - 1 - 0",
    ),
    Expected(
        "hidden, ours",
        lambda: result(
            judged(HOLDS, value={**STATE, "x": 1}, version=2, stamp=STAMP), of=contract(may_change=()), before=BEFORE
        ),
        "refuted - hidden_side_effect value_mismatch ours shown 2 - 0",
    ),
    Expected(
        "hidden, unsigned",
        lambda: result(judged(HOLDS, value={**STATE, "x": 1}, version=2), of=contract(may_change=()), before=BEFORE),
        "undetermined unattributed hidden_side_effect unknown_state unknown - 1 - 0",
    ),
    Expected(
        "frame, not seen before",
        lambda: result(judged(HOLDS, stamp=STAMP), of=FRAMED, before=judged(presence=Presence.NOT_VISIBLE)),
        "undetermined incomplete verifier_error unknown_state unknown - 1 - 0",
    ),
    Expected(
        "frame, a part seen before",
        lambda: result(judged(HOLDS, stamp=STAMP), of=FRAMED, before=judged(VIOLATED, value=OLD, complete=False)),
        "undetermined incomplete verifier_error unknown_state unknown - 1 - 0",
    ),
    Expected(
        "frame, a part seen after",
        lambda: result(judged(HOLDS, stamp=STAMP, complete=False), of=FRAMED, before=BEFORE),
        "undetermined incomplete verifier_error unknown_state unknown - 1 - 0",
    ),
    Expected(
        "ours is otherwise",
        lambda: result(judged(HOLDS), of=C, found=(judged(VIOLATED, role=Role.FIND, stamp=STAMP),)),
        "undetermined unattributed authority_mismatch unknown_state unknown - 1 - 0",
    ),
    Expected(
        "landed, and another's is read",
        lambda: result(judged(HOLDS, stamp="rb-other"), of=C, lookup=LANDED),
        "undetermined unattributed authority_mismatch unknown_state unknown - 1 - 0",
    ),
    Expected(
        "sent and landed, and another's is read",
        lambda: result(judged(HOLDS, stamp="rb-other"), of=contract(Kind.SEND), lookup=LANDED),
        "undetermined unattributed authority_mismatch unknown_state unknown - 1 - 0",
    ),
    Expected(
        "added to and landed, and another's is read",
        lambda: result(judged(HOLDS, stamp="rb-other"), of=contract(Kind.APPEND), lookup=LANDED),
        "verified - verified - ours shown 3 - 0",
    ),
    Expected(
        "set, and what bears our stamp is otherwise",
        lambda: result(judged(HOLDS, version=2), found=(judged(VIOLATED, role=Role.FIND, stamp=STAMP),), before=BEFORE),
        "verified - verified - ours shown 3 - 0",
    ),
    Expected(
        "may have held",
        lambda: result(judged(HOLDS, version=1), of=STRICT, before=judged(UNTOLD, version=1)),
        "undetermined unattributed authority_mismatch unknown_state unknown - 1 - 0",
    ),
    Expected(
        "may have held, and is ours",
        lambda: result(judged(HOLDS, version=1, stamp=STAMP), of=STRICT, before=judged(UNTOLD, version=1)),
        "verified - verified - ours shown 3 - 0",
    ),
    Expected(
        "propagating",
        lambda: result(judged(VIOLATED, stamp=STAMP), window_closed=False),
        "undetermined propagating authority_mismatch propagation_delay unknown - 1 - 0",
    ),
    Expected(
        "propagating, weak",
        lambda: result(judged(VIOLATED, consistency=Consistency.SESSION, stamp=STAMP)),
        "undetermined propagating authority_mismatch propagation_delay unknown - 1 stale 0",
    ),
    Expected(
        "value mismatch",
        lambda: result(judged(VIOLATED, stamp=STAMP)),
        "refuted - value_mismatch value_mismatch ours shown 2 - 0",
    ),
    Expected(
        "value mismatch, unsigned",
        lambda: result(judged(VIOLATED, version=2), before=BEFORE),
        "refuted - value_mismatch value_mismatch unknown - 2 - 0",
    ),
    Expected(
        "partial",
        lambda: result(half, of=both),
        "refuted - partial_success partial_application ours shown 2 - 0",
    ),
    Expected(
        "stale state",
        lambda: result(judged(VIOLATED, stamp="another")),
        "refuted - stale_state stale_state other_actor - 2 - 0",
    ),
    Expected(
        "no-op failure",
        lambda: result(judged(VIOLATED, version=1, value=OLD), before=BEFORE),
        "refuted - no_op_failure no_op_failure unknown - 2 - 0",
    ),
    Expected(
        "absent",
        lambda: result(gone(), of=C),
        "refuted - no_op_failure no_op_failure unknown - 2 - 0",
    ),
    Expected(
        "absent and dead",
        lambda: result(gone(), of=C, dead=True, found=(), search_proven=True),
        "refuted - refuted_dead no_op_failure unknown - 2 - 0",
    ),
    Expected(
        "target missing",
        lambda: result(gone(), before=BEFORE),
        "refuted - target_missing target_missing unknown - 2 - 0",
    ),
    Expected(
        "deleted",
        lambda: result(gone(HOLDS), of=DEL, before=BEFORE),
        "verified - verified - unknown shown 3 - 0",
    ),
    Expected(
        "deleted before",
        lambda: result(gone(HOLDS), of=DEL, before=BEFORE_GONE),
        "refuted - target_missing target_missing already_so - 2 - 0",
    ),
    Expected(
        "older object",
        lambda: result(judged(HOLDS, version=2, stamp=STAMP), of=C, before=BEFORE),
        "refuted - wrong_target wrong_target_modified ours shown 2 - 0",
    ),
    Expected(
        "conflict",
        lambda: result(
            judged(HOLDS, version=2, stamp=STAMP), judged(VIOLATED, version=2, stamp=STAMP), of=contract(quorum=2)
        ),
        "undetermined conflicting unknown unknown_state unknown - 1 - 1",
    ),
    Expected(
        "too few",
        lambda: result(judged(HOLDS, version=2, stamp=STAMP), of=contract(quorum=2)),
        "undetermined incomplete unknown unknown_state unknown - 1 - 0",
    ),
)


def _words(seen: Reconciliation) -> str:
    return " ".join(
        (
            seen.verdict.value,
            seen.why.value or "-",
            seen.finding.value,
            seen.discrepancy.value if seen.discrepancy else "-",
            seen.attribution.value,
            "shown" if seen.effect_shown else "-",
            str(int(seen.level)),
            "stale" if seen.maybe_stale else "-",
            str(seen.deciding),
        )
    )


@pytest.mark.requirement("TRUST-2", "TRUST-3")
@pytest.mark.parametrize("expected", WHOLE, ids=lambda expected: expected.name)
def test_each_kind_of_case_has_its_whole_answer(expected: Expected) -> None:
    assert _words(expected.judge()) == expected.words


NOT_SHOWN: Final = {
    "nothing read", "too near", "not visible", "down", "timeout", "verifier broke", "weak absence",
    "incomplete absence", "out of scope", "scope unsaid", "too few",
}  # fmt: skip
"""What is not of our object, or was not read, is not shown as a judged state."""


def test_what_was_judged_is_shown_and_what_was_not_is_not() -> None:
    for expected in WHOLE:
        assert bool(expected.judge().ensure) is (expected.name not in NOT_SHOWN), expected.name


@pytest.mark.parametrize("name", ["duplicate", "misplaced", "out of scope", "untold"])
def test_what_a_person_has_to_see_is_said_in_words(name: str) -> None:
    seen = next(each for each in WHOLE if each.name == name).judge()
    assert seen.detail
    assert seen.identity


def test_the_first_effect_of_a_duplicate_is_the_one_that_is_shown() -> None:
    second = judged(VIOLATED, scope=UNTOLD, role=Role.FIND, stamp=STAMP)
    seen = result(judged(HOLDS, stamp=STAMP), of=C, found=(EFFECT, second))
    assert (seen.ensure, seen.identity) == (EFFECT.ensure, EFFECT.identity)
    assert "2 effects" in seen.detail


def test_a_source_that_did_not_answer_says_why() -> None:
    assert result(judged(HOLDS, fault=Fault.UNREACHABLE, detail="503")).detail == "503"
    assert result(judged(UNTOLD, presence=Presence.NOT_VISIBLE, detail="404")).detail == "404"
