"""Several readers: what each says is told apart, and a part that the tool named is one where the readings show it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.kind import Kind
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reading import Fault
from readback.domain.verification.reconciliation import EvaluatedReading
from tests.unit.cases_given import HOLDS, STAMP, UNTOLD, contract, gone, judged, observed, result

SENT = contract(Kind.SEND, quorum=2)
PARTLY = observed(ObservationStatus.PARTIAL)


def by(reader: str, one: EvaluatedReading, error: str = "") -> EvaluatedReading:
    return replace(one, taken=replace(one.taken, reader=reader, source=reader, error=error))


ANA, BEN = by("ana", judged(HOLDS, stamp=STAMP)), by("ben", gone(UNTOLD))


@pytest.mark.requirement("MAIL-several")
def test_a_part_that_the_tool_named_and_the_readings_show_is_told_as_a_part() -> None:
    told = result(ANA, BEN, of=SENT, observation=PARTLY)
    assert (told.verdict, told.finding, told.discrepancy) == (
        Verdict.REFUTED, Finding.PARTIAL_SUCCESS, Discrepancy.PARTIAL_APPLICATION,
    )  # fmt: skip
    assert (told.parts_done, told.parts_open, told.effect_shown) == (("ana",), ("ben",), True)


@pytest.mark.requirement("MAIL-several")
@pytest.mark.parametrize(
    ("checks", "status"),
    [
        ((ANA, BEN), ObservationStatus.SUCCESS),
        ((by("ana", judged(HOLDS)), BEN), ObservationStatus.PARTIAL),
        ((ANA, by("ana", gone(UNTOLD))), ObservationStatus.PARTIAL),
        ((ANA, by("ben", gone(UNTOLD, complete=False))), ObservationStatus.PARTIAL),
        ((ANA, by("ben", judged(fault=Fault.TIMEOUT))), ObservationStatus.PARTIAL),
    ],
)
def test_without_its_word_or_without_the_readings_no_part_is_told(
    checks: tuple[EvaluatedReading, ...], status: ObservationStatus
) -> None:
    told = result(*checks, of=SENT, observation=observed(status))
    assert told.verdict is Verdict.UNDETERMINED
    assert told.discrepancy is not Discrepancy.PARTIAL_APPLICATION


@pytest.mark.requirement("MAIL-several")
def test_before_the_window_closes_no_part_is_missing() -> None:
    assert result(ANA, BEN, of=SENT, observation=PARTLY, window_closed=False).verdict is Verdict.UNDETERMINED


@pytest.mark.requirement("READERS-told-apart")
def test_readers_that_fail_in_different_ways_are_told_apart() -> None:
    down = by("ana", judged(fault=Fault.UNREACHABLE), "ConnectionError: refused")
    late = by("ben", judged(fault=Fault.TIMEOUT), "Reader 'ben' gave no answer in time.")
    told = result(down, late, of=SENT)
    assert (told.verdict, told.why) == (Verdict.UNDETERMINED, Why.UNREACHABLE)
    assert told.detail == "ana: ConnectionError: refused; ben: Reader 'ben' gave no answer in time."
    assert result(down, replace(down, taken=replace(down.taken, reader="ben")), of=SENT).detail == (
        "ConnectionError: refused"
    ), "what is one failure is said once"
