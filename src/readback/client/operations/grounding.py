"""Final reports, for the clients and the command line: the ledger's evidence for each cited action.

Reads go through the session's store; nothing is changed. Outcomes come from the client, which has a driver.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from readback.canon import sha256_hex
from readback.client.session import Session
from readback.domain.action.claim import ClaimStatus, worst
from readback.domain.belief.run import entry_of, may_have_changed
from readback.domain.grounding.citation import Citation, Evidence
from readback.domain.grounding.report import CitedEvidence, Fault, ReadReport, read_report, resolve
from readback.domain.normal_form import widest
from readback.domain.outcome.outcome import Outcome
from readback.domain.outcome.reporting import USER_STATUS
from readback.domain.state import ReportKey, State
from readback.domain.verdict import Verdict
from readback.errors import OversizeError, StoreCorruptError, UsageError
from readback.ports.storage.store import ActionFilter

LATER_PAGE: Final = 500
LATER_MAX: Final = 20_000
"""The number of actions since the oldest cited one, searched for a later value of the cited state."""
CANNOT_TELL: Final = USER_STATUS[ReportKey.UNKNOWN]
"""The text for an unreadable ledger."""


def report_of(text: str) -> ReadReport:
    """Read a report. Raises UsageError for anything but text, OversizeError for a large text."""
    given: object = text
    if not isinstance(given, str):
        raise UsageError(f"A report must be text (got {type(given).__name__}).", remedy="Pass the report's text.")
    return read_report(given)


def run_of(session: Session, run: str | None, *, needed: bool = False) -> str:
    """Return the run whose actions a report may cite; "" for every run of the tenant. Raises UsageError where a run is
    required and none is named.
    """
    session.check_open()
    named = session.run_named(run)
    if needed and not named:
        raise UsageError("Replacing a report needs a run, and no run is named.",
                         remedy="Pass run='...' to Readback.open, or to guard_report.")  # fmt: skip
    return named


def refusal(session: Session, action_id: str, run: str) -> Fault | None:
    """Return why an action of this id cannot be cited at all. Another tenant's action counts as missing."""
    stored = session.store.projection(action_id)
    if stored is None or stored.projection.tenant != session.scope.tenant:
        return Fault.UNKNOWN
    if session.is_saga(action_id):
        return Fault.SAGA
    return Fault.OTHER_RUN if run and stored.projection.run != run else None


def ground_of(session: Session, outcome: Outcome) -> CitedEvidence:
    """Return the evidence for an action's claim, or the reason why the claim is no ground. Raises StoreCorruptError for
    evidence with a wrong hash.
    """
    fault = _standing(outcome)
    if fault is not None:
        return CitedEvidence(fault=fault)
    action = session.fold(outcome.id)
    if action.reading_ref in action.erased or session.store.erased(action.tenant, action.id, action.reading_ref):
        return CitedEvidence(fault=Fault.ERASED)
    kept = session.store.evidence(action.tenant, action.id, action.reading_ref)
    if kept is None:
        return CitedEvidence(fault=Fault.MISSING)
    if sha256_hex(kept.body) != action.reading_ref:  # the store compares too; here it is what everything stands on
        raise StoreCorruptError(f"The evidence of {outcome.id} does not match its entry's hash.")
    return CitedEvidence(kept.body)


Grounds: TypeAlias = Generator[str, Any, dict[Citation, Fault | None]]
"""Requests the outcomes of actions by id, and ends with the faults of each citation of a report."""


def grounds(session: Session, report: ReadReport, run: str) -> Grounds:
    """Return the ledger's evidence for each cited action, and for later actions on the same target.

    Raises OversizeError where too many actions follow a cited one.
    """
    tenant, resolved = session.scope.tenant, dict[Citation, Fault | None]()
    since = _Since(session, run, report)
    for action_id in report.action_ids:
        fault = refusal(session, action_id, run)
        ground = CitedEvidence(fault=fault) if fault else ground_of(session, (yield action_id))
        fields = [each.place for each in report.cited(action_id) if each.place.startswith("/")]
        if ground.fault is None and fields:
            ground = replace(ground, later=(yield from since.later(action_id, fields)))
        resolved |= resolve(report, action_id, ground, tenant)
    return resolved


class _Since:
    """The actions since the oldest cited one, by target, the newest first. Loaded once, at first use."""

    def __init__(self, session: Session, run: str, report: ReadReport) -> None:
        self._session = session
        self._run = run
        self._oldest = min(report.action_ids, default="")
        self._by_target: dict[str, list[str]] | None = None

    def later(self, action_id: str, fields: Sequence[str]) -> Generator[str, Any, CitedEvidence | None]:
        """Return the ground of the last later action that may have changed the state, or read these fields again."""
        stored = self._session.store.projection(action_id)
        if self._by_target is None:
            self._by_target = self._looked_up()
        for other in self._by_target.get(widest(stored.projection.target), ()) if stored is not None else ():
            if other <= action_id:
                break
            if self._session.is_saga(other):
                continue
            outcome = yield other
            ground = ground_of(self._session, outcome)
            if may_have_changed(entry_of(outcome)) or _shows(ground, fields):
                return ground
        return None

    def _looked_up(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        seen, before = 0, ""
        while True:
            asked = ActionFilter(self._session.scope.tenant, run=self._run, before_id=before, limit=LATER_PAGE)
            page = [each.projection for each in self._session.store.page(asked)]
            for each in page:
                if each.action_id <= self._oldest:
                    return found
                found.setdefault(widest(each.target), []).append(each.action_id)
            seen += len(page)
            if len(page) < LATER_PAGE:
                return found
            if seen >= LATER_MAX:
                raise OversizeError(
                    f"Over {LATER_MAX} actions follow the oldest cited action.",
                    remedy="Name the report's run, or cite whole actions without fields.",
                )
            before = page[-1].action_id


def _shows(ground: CitedEvidence, fields: Sequence[str]) -> bool:
    evidence = Evidence(ground.evidence)
    return ground.fault is None and all(evidence.at(each) is not None for each in fields)


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
