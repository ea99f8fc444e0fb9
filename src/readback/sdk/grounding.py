"""What the clients and the command line share about final reports: what the ledger says of each cited action.

It reads through the session's store and changes nothing. Outcomes come from the client, which has a driver.
"""

from __future__ import annotations

from typing import Final

from readback.canon import sha256_hex
from readback.domain.claim import ClaimStatus, worst
from readback.domain.errors import StoreCorruptError, UsageError
from readback.domain.grounding.report import Fault, Ground, ReadReport, read_report
from readback.domain.outcome import Outcome
from readback.domain.reporting import USER_STATUS
from readback.domain.state import ReportKey, State
from readback.domain.verdict import Verdict
from readback.sdk import handed
from readback.sdk.session import Session

CANNOT_TELL: Final = USER_STATUS[ReportKey.UNKNOWN]
"""What is told where the ledger itself cannot be read."""


def report_of(text: str) -> ReadReport:
    """Reads a report. Raises UsageError for what is no text, OversizeError for what is too large."""
    given: object = text
    if not isinstance(given, str):
        raise UsageError(f"A report is text, and not {type(given).__name__}.", remedy="Pass the report as it was told.")
    return read_report(given)


def run_of(session: Session, run: str | None, *, needed: bool = False) -> str:
    """The run whose actions a report may cite; "" for every run of the tenant. Raises UsageError where one is needed
    and none is named.
    """
    session.check_open()
    named = session.scope.run if run is None else handed.sought("run", run)
    if needed and not named:
        raise UsageError("No run is named, and what is told in place of a report is what is known of one run.",
                         remedy="Pass run='...' to Readback.open, or to guard_report.")  # fmt: skip
    return named


def refusal(session: Session, action_id: str, run: str) -> Fault | None:
    """Why an action of this id cannot be cited at all. What belongs to another tenant is as if it were not there."""
    stored = session.store.projection(action_id)
    if stored is None or stored.projection.tenant != session.scope.tenant:
        return Fault.UNKNOWN
    if session.is_saga(action_id):
        return Fault.SAGA
    return Fault.OTHER_RUN if run and stored.projection.run != run else None


def ground_of(session: Session, outcome: Outcome) -> Ground:
    """The evidence that the claim of an action stands on, or why it is no ground. Raises StoreCorruptError for
    evidence whose bytes have another hash than its entry says.
    """
    fault = _standing(outcome)
    if fault is not None:
        return Ground(fault=fault)
    action = session.fold(outcome.id)
    if action.reading_ref in action.erased or session.store.erased(action.tenant, action.id, action.reading_ref):
        return Ground(fault=Fault.ERASED)
    kept = session.store.evidence(action.tenant, action.id, action.reading_ref)
    if kept is None:
        return Ground(fault=Fault.MISSING)
    if sha256_hex(kept.body) != action.reading_ref:  # the store compares too; here it is what everything stands on
        raise StoreCorruptError(f"The evidence of {outcome.id} is not what its entry says.")
    return Ground(kept.body)


def _standing(outcome: Outcome) -> Fault | None:
    if outcome.standing:
        return Fault.FALLEN if outcome.fallen else None
    said = worst(outcome.said)
    if said == ClaimStatus.RETRACTED:
        return Fault.RETRACTED
    if said == ClaimStatus.CONTESTED or outcome.contested:
        return Fault.CONTESTED
    if not outcome.settled:
        return Fault.PENDING
    open_ = outcome.verdict is Verdict.UNDETERMINED or outcome.state is State.UNKNOWN
    return Fault.UNDETERMINED if open_ else Fault.NOT_VERIFIED
