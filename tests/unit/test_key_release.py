"""When a key is released after an attempt: the one decision, over everything that can be known."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product

import pytest

from readback.domain.action.key_release import KeyEvidence, KeyRelease, release_of
from readback.domain.idempotency import KeyStatus, key_status
from readback.domain.state import State
from readback.errors import StoreCorruptError

NAMES = tuple(each.name for each in fields(KeyEvidence))
ALL = tuple(KeyEvidence(*values) for values in product((False, True), repeat=len(NAMES)))
TAKEN = KeyEvidence(True, False, False, False, False, False, False, False)


@pytest.mark.requirement("KEY-three-reasons")
def test_after_dispatch_a_key_is_free_for_three_reasons_and_for_no_other() -> None:
    for known in ALL:
        reason = release_of(known)
        clean = not (known.effect_shown or known.may_land or known.others_changed)
        refused = clean and known.refused and known.region_unchanged
        searched = clean and known.nothing_found and known.mark_proven
        assert (reason is KeyRelease.NEVER_LEFT) == (not known.left), known
        assert (reason is not KeyRelease.NONE) == (not known.left or refused or searched), known


@pytest.mark.requirement("KEY-three-reasons")
@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, KeyRelease.NONE),
        ({"left": False}, KeyRelease.NEVER_LEFT),
        ({"refused": True}, KeyRelease.NONE),
        ({"region_unchanged": True}, KeyRelease.NONE),
        ({"refused": True, "region_unchanged": True}, KeyRelease.REFUSED),
        ({"nothing_found": True}, KeyRelease.NONE),
        ({"mark_proven": True}, KeyRelease.NONE),
        ({"nothing_found": True, "mark_proven": True}, KeyRelease.SEARCHED),
        ({"nothing_found": True, "mark_proven": True, "may_land": True}, KeyRelease.NONE),
        ({"nothing_found": True, "mark_proven": True, "effect_shown": True}, KeyRelease.NONE),
        ({"refused": True, "region_unchanged": True, "others_changed": True}, KeyRelease.NONE),
    ],
)
def test_each_reason_needs_all_of_its_evidence(known: dict[str, bool], reason: KeyRelease) -> None:
    assert release_of(replace(TAKEN, **known)) is reason


def test_a_reason_that_is_none_makes_an_entry_unbelievable() -> None:
    with pytest.raises(StoreCorruptError):
        KeyRelease("because")


@pytest.mark.parametrize("state", list(State))
def test_only_a_failure_that_released_its_key_may_be_run_again(state: State) -> None:
    kept, freed = key_status(state), key_status(state, may_repeat=True)
    assert kept is not KeyStatus.FAILED_RETRYABLE
    assert (freed is KeyStatus.FAILED_RETRYABLE) == (state in (State.FAILED, State.ROLLED_BACK))
