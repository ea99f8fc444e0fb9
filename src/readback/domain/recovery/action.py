"""Recovery actions and their consequences. The table's rows choose, and the engine executes."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.state import State


class RecoveryAction(StrEnum):
    """The reaction to a finding."""

    ACCEPT = "accept"
    RECORD_NO_OP = "record_no_op"
    RETRY_VERIFICATION = "retry_verification"
    FORCE_STRONG_READ = "force_strong_read"
    COMPENSATE_OR_ROLL_BACK = "compensate_or_roll_back"
    HOLD_AND_ESCALATE = "hold_and_escalate"
    COMPENSATE_AND_STOP = "compensate_and_stop"
    POLL_IDEMPOTENCY_RECORD = "poll_idempotency_record"
    FREEZE_AND_RECONCILE = "freeze_and_reconcile"
    BACKWARD_COMPENSATION = "backward_compensation"
    FORWARD_RECOVERY = "forward_recovery"
    REFRESH_AND_REPLAN = "refresh_and_replan"
    FREEZE_AND_ALERT = "freeze_and_alert"
    RECORD_IDEMPOTENT_REPLAY = "record_idempotent_replay"
    FREEZE_AND_ALARM = "freeze_and_alarm"
    REPORT_UNVERIFIED = "report_unverified"
    REVIEW_AND_INCIDENT = "review_and_incident"
    DEFER_OR_FAIL = "defer_or_fail"
    HOLD_PENDING = "hold_pending"
    REVALIDATE_APPROVAL = "revalidate_approval"
    FAIL_CLOSED = "fail_closed"
    RETRY_SAME_KEY = "retry_same_key"
    DISPATCH_AGAIN = "dispatch_again"
    """Send the byte-identical request again under a key honoured by the tool. The key stays taken."""
    FAIL = "fail"
    KEEP_UNKNOWN = "keep_unknown"

    @property
    def target_state(self) -> State:
        """The next state, as far as known before execution."""
        return EFFECTS[self].target_state


@dataclass(frozen=True, slots=True)
class ActionEffect:
    """Consequences of an action, for every finding."""

    target_state: State
    opens_review: bool = False
    opens_incident: bool = False
    freezes: bool = False


_A, _S = RecoveryAction, State
EFFECTS: Final = MappingProxyType(
    {
        _A.ACCEPT: ActionEffect(_S.RECONCILED_SUCCESS),
        _A.RECORD_NO_OP: ActionEffect(_S.RECONCILED_SUCCESS),
        _A.RETRY_VERIFICATION: ActionEffect(_S.PENDING),
        _A.FORCE_STRONG_READ: ActionEffect(_S.PENDING),
        _A.COMPENSATE_OR_ROLL_BACK: ActionEffect(_S.COMPENSATING),
        _A.HOLD_AND_ESCALATE: ActionEffect(_S.REVIEW_REQUIRED, opens_review=True),
        _A.COMPENSATE_AND_STOP: ActionEffect(_S.COMPENSATING),
        _A.POLL_IDEMPOTENCY_RECORD: ActionEffect(_S.PENDING),
        _A.FREEZE_AND_RECONCILE: ActionEffect(_S.REVIEW_REQUIRED, opens_review=True, freezes=True),
        _A.BACKWARD_COMPENSATION: ActionEffect(_S.COMPENSATING),
        _A.FORWARD_RECOVERY: ActionEffect(_S.FORWARD_RECOVERY),
        _A.REFRESH_AND_REPLAN: ActionEffect(_S.FAILED),
        _A.FREEZE_AND_ALERT: ActionEffect(_S.REVIEW_REQUIRED, opens_review=True, opens_incident=True, freezes=True),
        _A.RECORD_IDEMPOTENT_REPLAY: ActionEffect(_S.RECONCILED_SUCCESS),
        _A.FREEZE_AND_ALARM: ActionEffect(_S.REVIEW_REQUIRED, opens_review=True, opens_incident=True, freezes=True),
        _A.REPORT_UNVERIFIED: ActionEffect(_S.UNKNOWN),
        _A.REVIEW_AND_INCIDENT: ActionEffect(_S.REVIEW_REQUIRED, opens_review=True, opens_incident=True),
        _A.DEFER_OR_FAIL: ActionEffect(_S.VALIDATED),
        _A.HOLD_PENDING: ActionEffect(_S.PENDING),
        _A.REVALIDATE_APPROVAL: ActionEffect(_S.VALIDATED),
        _A.FAIL_CLOSED: ActionEffect(_S.FAILED),
        _A.RETRY_SAME_KEY: ActionEffect(_S.VALIDATED),
        _A.DISPATCH_AGAIN: ActionEffect(_S.EXECUTING),
        _A.FAIL: ActionEffect(_S.FAILED),
        _A.KEEP_UNKNOWN: ActionEffect(_S.UNKNOWN),
    }
)
"""Every action's consequences (a table of ours: the specification only names the actions)."""
