"""Planning after an outcome: the specification's rules as data for a caller.

Called by `belief` for each action of a run. The first matching rule decides; a test proves the table total. Recovery is
decided by the recovery table.

Source: the action verification specification, "Next-step planning" and "Tool-result grounding model". Rules marked
`ours` cover the cases left open there.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.discrepancy import Discrepancy
from readback.domain.idempotency import Resolution
from readback.domain.state import State
from readback.errors import NOT_STANDING

FROZEN: Final = "frozen"
"""The hold of an action before a lifted freeze, and the code of a refusal by a freeze."""


class Planning(StrEnum):
    """The permitted next step for one action of a run.

    Example:
        >>> from readback import Planning, Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> str: return "ok"
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:", run="chat-1") as rb:
        ...     outcome = rb.run(switch())
        ...     planned = rb.belief("chat-1").entries[outcome.id]
        >>> print(planned.rule.value, planned.rule is Planning.DO_NOT_REPEAT)
        do_not_repeat True
    """

    CONTINUE = "continue"
    WAIT = "wait"
    REFRESH_AND_REPLAN = "refresh_and_replan"
    DO_NOT_REPEAT = "do_not_repeat"
    DECIDE = "decide"
    REPAIR_OR_STOP = "repair_or_stop"
    FROZEN = "frozen"
    ESCALATE = "escalate"


_P, _S, _D = Planning, State, Discrepancy
GUIDANCE: Final = MappingProxyType(
    {
        _P.CONTINUE: "go on with the next dependent step",
        _P.WAIT: "wait, poll or defer; start nothing that depends on it",
        _P.REFRESH_AND_REPLAN: "read the present state and plan anew from it",
        _P.DO_NOT_REPEAT: "do not repeat it; reconcile first, and start nothing that depends on it",
        _P.DECIDE: "parts are done and parts are not: ask whether to take back or to complete; do neither by yourself",
        _P.REPAIR_OR_STOP: "repair the cause, repeat only where repeating is allowed, or stop",
        _P.FROZEN: "stop everything on this target: it is handled as an incident until a person lifts the freeze",
        _P.ESCALATE: "leave it to a person, and stop this line of work until one has decided",
    }
)
"""Each rule in words."""


@dataclass(frozen=True, slots=True)
class PlanningCase:
    """The input of the rules. `standing`: verified, and not contradicted by a later reading."""

    state: State
    standing: bool = False
    contested: bool = False
    attempted: bool = True
    discrepancy: Discrepancy | None = None
    hold: str = ""
    code: str = ""
    attested: Resolution = Resolution.NONE


@dataclass(frozen=True, slots=True)
class PlanningRule:
    """One row. A row matches where every named field agrees; None matches anything."""

    rule: Planning
    why: str
    states: frozenset[State] | None = None
    discrepancy: Discrepancy | None = None
    standing: bool | None = None
    contested: bool | None = None
    attempted: bool | None = None
    frozen: bool | None = None
    attested: Resolution | None = None
    code: str = ""
    ours: bool = False

    def fits(self, case: PlanningCase) -> bool:
        frozen = FROZEN in (case.hold, case.code)
        return (
            (self.states is None or case.state in self.states)
            and self.discrepancy in (None, case.discrepancy)
            and self.standing in (None, case.standing)
            and self.contested in (None, case.contested)
            and self.attempted in (None, case.attempted)
            and self.frozen in (None, frozen)
            and self.attested in (None, case.attested)
            and self.code in ("", case.code)
        )


_UNDONE: Final = frozenset(State) - {_S.RECONCILED_SUCCESS, _S.COMPENSATED, _S.ROLLED_BACK}
_WORKING: Final = frozenset(
    {
        _S.PROPOSED,
        _S.VALIDATED,
        _S.EXECUTING,
        _S.ACCEPTED,
        _S.PENDING,
        _S.COMMITTED,
        _S.RECONCILIATION_FAILED,
        _S.COMPENSATING,
        _S.FORWARD_RECOVERY,
    }
)


def _rule(rule: Planning, why: str, *states: State, ours: bool = False) -> PlanningRule:
    return PlanningRule(rule, why, frozenset(states), ours=ours)


PLANNING: Final = (
    PlanningRule(_P.DO_NOT_REPEAT, "A later reading contradicts what was found before.", contested=True, ours=True),
    PlanningRule(
        _P.DO_NOT_REPEAT,
        "A person attested that it was done; that is no verification.",
        attested=Resolution.ATTESTED_DONE,
        ours=True,
    ),
    PlanningRule(
        _P.REPAIR_OR_STOP,
        "A person attested that it was not done.",
        attested=Resolution.ATTESTED_NOT_DONE,
        ours=True,
    ),
    PlanningRule(
        _P.FROZEN, "Wrong target or tenant drift: an incident.", _UNDONE, discrepancy=_D.WRONG_TARGET_MODIFIED
    ),
    PlanningRule(
        _P.FROZEN,
        "One operation has more than one effect.",
        _UNDONE,
        discrepancy=_D.DUPLICATE_SIDE_EFFECT,
        ours=True,
    ),
    PlanningRule(_P.FROZEN, "What it would act on is frozen.", _UNDONE, frozen=True, ours=True),
    PlanningRule(
        _P.REFRESH_AND_REPLAN,
        "What it was planned upon stands no more.",
        frozenset({_S.FAILED}),
        attempted=False,
        code=NOT_STANDING,
        ours=True,
    ),
    PlanningRule(
        _P.DECIDE,
        "Some parts are verified and others are not.",
        frozenset({_S.REVIEW_REQUIRED}),
        discrepancy=_D.PARTIAL_APPLICATION,
    ),
    PlanningRule(
        _P.REFRESH_AND_REPLAN,
        "Another actor changed the target since it was planned.",
        frozenset({_S.FAILED}),
        discrepancy=_D.STALE_STATE,
        ours=True,
    ),
    PlanningRule(
        _P.REPAIR_OR_STOP,
        "It was stopped before anything was sent.",
        frozenset({_S.ABANDONED}),
        attempted=False,
        ours=True,
    ),
    PlanningRule(_P.CONTINUE, "It is verified.", frozenset({_S.RECONCILED_SUCCESS}), standing=True),
    _rule(_P.DO_NOT_REPEAT, "A success that is not verified is none.", _S.RECONCILED_SUCCESS, ours=True),
    _rule(_P.DECIDE, "Some parts are verified and others are not.", _S.PARTIALLY_COMMITTED),
    PlanningRule(_P.WAIT, "The action is on its way, or a process works on the action.", _WORKING),
    _rule(_P.REPAIR_OR_STOP, "It failed.", _S.FAILED),
    _rule(_P.DO_NOT_REPEAT, "Whether the action took effect is unknown.", _S.UNKNOWN, _S.VERIFICATION_TIMEOUT),
    _rule(_P.DO_NOT_REPEAT, "Work on it was stopped, and what became of it is open.", _S.ABANDONED, ours=True),
    _rule(_P.REFRESH_AND_REPLAN, "The state is as before.", _S.COMPENSATED, _S.ROLLED_BACK, ours=True),
    _rule(_P.ESCALATE, "The reversal failed.", _S.COMPENSATION_FAILED),
    _rule(_P.ESCALATE, "A person has to decide.", _S.REVIEW_REQUIRED),
)
"""The first matching row decides."""


def plan_next(case: PlanningCase) -> PlanningRule:
    """The rule for a case. Every case has a rule."""
    return next(rule for rule in PLANNING if rule.fits(case))
