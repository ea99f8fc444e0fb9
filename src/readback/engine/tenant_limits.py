"""A tenant's limits in the engine: for new actions, and for the time of the next reading.

Called by the engine only if limits are set. A new action is refused before any effect. Started work (a compensation, a
step of a saga) is never refused; only its readings come later.
"""

from __future__ import annotations

from typing import Final

from readback.domain.contract.limits import Limits, TenantLimits
from readback.domain.state import TERMINAL, State
from readback.engine.compiled_contract import Request
from readback.engine.effects import Effects, MeasureEvidence, ReserveReadSlot
from readback.engine.run import Run
from readback.engine.schedule import first_look_due
from readback.errors import EvidenceLimitError, InFlightLimitError

_AT_ONCE: Final = frozenset({State.COMPENSATING, State.RECONCILIATION_FAILED, State.VALIDATED})
"""States with immediate continuation: their due time serves recovery after a crash and is no reading."""


def admit(run: Run, request: Request, limits: Limits) -> Effects[None]:
    """Raises EvidenceLimitError. The append itself checks the limit of actions in flight."""
    if request.reverses or request.saga:
        return
    own = limits.of(run.action.tenant)
    yield from check_evidence_quota(run.action.tenant, own)
    run.in_flight_max = own.in_flight


def check_evidence_quota(tenant: str, own: TenantLimits) -> Effects[None]:
    """Raises EvidenceLimitError if the tenant's evidence quota is exhausted."""
    if not own.evidence_bytes:
        return
    weighed = yield from MeasureEvidence(tenant)
    if weighed >= own.evidence_bytes:
        raise EvidenceLimitError(
            f"Tenant {tenant!r} has {weighed} bytes of evidence; its limit is {own.evidence_bytes}.",
            details={"bytes": weighed, "limit": own.evidence_bytes},
        )


def too_many_in_flight(tenant: str, in_flight: int) -> InFlightLimitError:
    """The append was refused: the tenant's limit of actions in flight is reached."""
    return InFlightLimitError(
        f"Tenant {tenant!r} has {in_flight} actions in flight, which is its limit.",
        details={"in_flight": in_flight},
    )


def schedule_first_read(run: Run, limits: Limits, ended_us: int) -> Effects[None]:
    """Reserve the first reading after an attempt ended at this moment; the rate may delay the reading."""
    per_minute = limits.of(run.action.tenant).polls_per_minute
    if per_minute and run.contract.readers:
        wanted_us = first_look_due(run.contract, run.action.stamp, ended_us) or ended_us
        paced = yield from ReserveReadSlot(run.action.tenant, wanted_us, per_minute)
        run.not_before_us = paced if paced > wanted_us else 0


def schedule_next_read(run: Run, limits: Limits, path: tuple[State, ...], due_us: int) -> Effects[int]:
    """The due time of the next reading, delayed as required by the tenant's rate."""
    if (path or (run.action.state,))[-1] in _AT_ONCE:
        return due_us
    per_minute = limits.of(run.action.tenant).polls_per_minute
    if not per_minute:
        return due_us
    if (path or (run.action.state,))[-1] in TERMINAL:
        per_minute = max(per_minute // 2, 1)  # watches of ended actions leave capacity for unreported actions
    paced = yield from ReserveReadSlot(run.action.tenant, due_us, per_minute)
    return paced
