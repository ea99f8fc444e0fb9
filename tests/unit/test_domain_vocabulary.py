"""The domain's words are on record in every ledger: a word that changes makes an older ledger unreadable."""

from __future__ import annotations

from enum import Enum

import pytest

from readback.domain.action.claim import Advice, ClaimKind, ClaimStatus, Reason
from readback.domain.contract.contract import Noop
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.finding import Finding
from readback.domain.idempotency import KeyDecision, KeyStatus, Resolution
from readback.domain.kind import Kind
from readback.domain.predicate import Truth
from readback.domain.recovery.action import RecoveryAction
from readback.domain.recovery.rule import Reversal
from readback.domain.side_effect import Consistency, Independence, ReviewTrigger, SideEffect, UnverifiedClaim
from readback.domain.state import ExecutionStatus, ReconciliationStatus, ReportKey, State, VerificationStatus
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reading import Fault, Presence, Role

SMALL: tuple[type[Enum], ...] = (
    *(Noop, Discrepancy, EventKind, Finding, KeyDecision, Resolution, Kind, ObservationStatus, Truth),
    *(Presence, Role, Fault, RecoveryAction, Reversal, SideEffect, Consistency, Independence, ReviewTrigger),
    *(UnverifiedClaim, State, ReportKey, Verdict, Why, Attribution, ClaimKind, ClaimStatus, Reason, Advice),
)
CAPITAL: tuple[type[Enum], ...] = (KeyStatus, ExecutionStatus, VerificationStatus, ReconciliationStatus)


@pytest.mark.parametrize("words", SMALL, ids=lambda words: words.__name__)
def test_a_word_on_record_is_its_name_in_small_letters(words: type[Enum]) -> None:
    for member in words:
        silent = member in (Resolution.NONE, Why.NONE)
        assert member.value == ("" if silent else member.name.lower())


@pytest.mark.parametrize("words", CAPITAL, ids=lambda words: words.__name__)
def test_the_ledger_schemas_statuses_are_written_in_capitals(words: type[Enum]) -> None:
    for member in words:
        assert member.value == member.name


def test_the_trust_ladder_has_five_rungs_in_order() -> None:
    rungs = [Level.RAW, Level.NORMALISED, Level.VERIFIED, Level.RECONCILED, Level.AUDIT_CONFIRMED]
    assert [int(rung) for rung in rungs] == [0, 1, 2, 3, 4]
