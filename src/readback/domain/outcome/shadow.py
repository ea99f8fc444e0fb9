"""The judgement of a shadow action: the enforced mode's verdict, and the words of the enforced mode.

Read by `show`, by the shadow report and by programs. The judgement is no outcome: the outcome of a shadow action is
`unknown` and never verified.
"""

from __future__ import annotations

from collections.abc import Mapping

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.reporting import ReportInput, user_text
from readback.domain.state import State
from readback.domain.verdict import Attribution, Verdict, Why

CONDITIONAL = "In enforced mode the text would have been: "
"""Every quote of the enforced mode's words begins with this text."""


@dataclass(frozen=True, slots=True)
class ShadowJudgement:
    """The recorded judgement of one shadow action.

    Attributes:
        state: The state that the action would have reached.
        verdict: The verdict of the enforced mode.
        why: Why an open verdict is open.
        discrepancy: The class of discrepancy, if any.
        row: The row of the recovery table.
        refused: The code of the check that would have refused the call; "" for none.
        recovery: The recovery that the row would have ordered. Shadow mode executes none.
        words: The text that the enforced mode would have had for the user.

    Example:
        >>> from readback.domain.outcome.shadow import shadow_judgement
        >>> data = {"state": "failed", "verdict": "refuted", "discrepancy": "no_op_failure"}
        >>> shadow_judgement(data, "act_1", "refund", "order/7").verdict.value
        'refuted'
    """

    state: State
    verdict: Verdict
    why: Why = Why.NONE
    discrepancy: Discrepancy | None = None
    row: str = ""
    recovery: str = ""
    words: str = ""
    refused: str = ""

    @property
    def conditional(self) -> str:
        """The words of the enforced mode, marked as words that no user has read."""
        return CONDITIONAL + self.words

    def as_json(self) -> dict[str, Json]:
        """Return the judgement as plain data. The keys begin with `would`, so no reader takes one for an outcome."""
        return {
            "would_state": self.state.value,
            "would_verdict": self.verdict.value,
            "would_why": self.why.value,
            "would_discrepancy": None if self.discrepancy is None else self.discrepancy.value,
            "would_row": self.row,
            "would_recovery": self.recovery,
            "would_refuse": self.refused or None,
            "would_say": self.words,
        }


def shadow_judgement(data: Mapping[str, Json], action_id: str, contract: str, target: str) -> ShadowJudgement:
    """Return the judgement recorded in the `shadow` of an entry. Raises ValueError for unknown words."""
    named, refused = str(data.get("discrepancy", "")), str(data.get("refused", ""))
    report = ReportInput(
        State.FAILED if refused else State(str(data["state"])),
        Verdict.NOT_CHECKED if refused else Verdict(str(data["verdict"])),
        action_id,
        contract,
        target,
        "",
        why=Why.NONE if refused else Why(str(data.get("why", ""))),
        attribution=Attribution(str(data.get("attribution", "unknown"))),
        discrepancy=Discrepancy(named) if named and not refused else None,
        attempted=not refused,
        reason=refused,
        parts_done=_texts(data.get("done")),
        parts_open=_texts(data.get("undone")),
        detail=str(data.get("detail", "")),
    )
    return ShadowJudgement(
        report.state,
        report.verdict,
        report.why,
        report.discrepancy,
        str(data.get("row", "")),
        str(data.get("recovery", "")),
        user_text(report),
        refused,
    )


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
