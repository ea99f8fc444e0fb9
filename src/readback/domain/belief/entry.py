"""Belief about one action: a fact for a standing success, else an item with its planning rule.

Used by `belief`, with texts by `belief.text`. An entry keeps only reportable content: the `tell` fields of the system
of record, and nothing from the tool's answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.outcome import Outcome
from readback.domain.outcome.planning import GUIDANCE, Planning
from readback.domain.state import State
from readback.errors import InvariantError


class ItemStatus(StrEnum):
    """Status of an item: still open, or ended without a verified effect."""

    UNRESOLVED = "unresolved"
    NOT_DONE = "not_done"


@dataclass(frozen=True, slots=True)
class Fact:
    """A verified success. `of` raises InvariantError for any other outcome.

    `told`: the contract's `tell` fields of the authoritative state, as read. `unchanged`: the state was as required
    before. `changed_by`: a later action on the same target; `told` may be out of date since.
    """

    action_id: str
    contract: str
    target: str
    operation: str
    kind: str
    status: str
    told: Mapping[str, Json]
    ledger_entry: str
    trace: str = ""
    unchanged: bool = False
    changed_by: str = ""
    fallen: tuple[str, ...] = ()
    """Fallen claims behind this action's plan. The action is done, and its purpose must be reconsidered."""

    @classmethod
    def of(cls, outcome: Outcome) -> Fact:
        """The fact of a standing outcome."""
        if not outcome.standing:
            raise InvariantError(f"Action {outcome.id} in state {outcome.state.value} cannot become a fact.")
        return cls(
            outcome.id,
            outcome.contract,
            outcome.target,
            outcome.operation,
            outcome.kind,
            outcome.model_status,
            dict(outcome.told),
            outcome.ledger_entry,
            outcome.trace,
            unchanged=outcome.discrepancy is Discrepancy.NO_OP_SUCCESS,
            fallen=outcome.fallen,
        )

    @property
    def rule(self) -> Planning:
        """CONTINUE for a fact, unless a claim behind its plan has fallen."""
        return Planning.REFRESH_AND_REPLAN if self.fallen else Planning.CONTINUE

    def as_json(self) -> dict[str, Json]:
        return {
            "action": self.action_id,
            "contract": self.contract,
            "target": self.target,
            "operation": self.operation,
            "rule": self.rule.value,
            "guidance": GUIDANCE[self.rule],
            "status": self.status,
            "told": dict(self.told),
            "unchanged": self.unchanged,
            "changed_by": self.changed_by,
            "fallen": list(self.fallen),
            "ledger_entry": self.ledger_entry,
            "trace": self.trace,
        }


@dataclass(frozen=True, slots=True)
class Item:
    """An action without a verified success: the known facts, and the resulting planning rule.

    `message` is for a person and `status` for the model. `parts_done` and `parts_open` name the verified and the other
    parts of a partial result. `may_repeat`: no effect exists, and none can appear. `compensation`: the reversing
    action.
    """

    action_id: str
    contract: str
    target: str
    operation: str
    kind: str
    state: State
    standing: ItemStatus
    rule: Planning
    why: str
    status: str
    message: str
    may_repeat: bool
    attempted: bool
    discrepancy: Discrepancy | None
    parts_done: tuple[str, ...]
    parts_open: tuple[str, ...]
    hold: str
    review: str
    code: str
    compensation: str
    due_us: int | None
    ledger_entry: str
    trace: str = ""
    mode: str = ""
    """"shadow" for an action in shadow mode."""

    @classmethod
    def of(cls, outcome: Outcome, standing: ItemStatus, rule: Planning, why: str) -> Item:
        """The item of an outcome under its rule."""
        return cls(
            outcome.id,
            outcome.contract,
            outcome.target,
            outcome.operation,
            outcome.kind,
            outcome.state,
            standing,
            rule,
            why,
            outcome.model_status,
            outcome.message,
            outcome.repeat_allowed,
            outcome.attempted,
            outcome.discrepancy,
            outcome.parts_done,
            outcome.parts_open,
            outcome.hold,
            outcome.review,
            outcome.code,
            outcome.compensation,
            outcome.due_us,
            outcome.ledger_entry,
            outcome.trace,
            outcome.mode,
        )

    def as_json(self) -> dict[str, Json]:
        return {
            "action": self.action_id,
            "contract": self.contract,
            "target": self.target,
            "operation": self.operation,
            "state": self.state.value,
            "rule": self.rule.value,
            "guidance": GUIDANCE[self.rule],
            "why": self.why,
            "status": self.status,
            "message": self.message,
            "may_repeat": self.may_repeat,
            "discrepancy": self.discrepancy.value if self.discrepancy else None,
            "parts_done": list(self.parts_done),
            "parts_open": list(self.parts_open),
            "hold": self.hold,
            "review": self.review,
            "code": self.code,
            "compensation": self.compensation,
            "due_us": self.due_us,
            "ledger_entry": self.ledger_entry,
            "trace": self.trace,
        }


Entry: TypeAlias = Fact | Item


@dataclass(frozen=True, slots=True)
class FrozenSubject:
    """A frozen subject, with the reason. New actions on the subject are refused."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Group:
    """A saga of the run: its state, its rule, and its steps' action ids in order."""

    id: str
    name: str
    state: State
    rule: Planning
    steps: tuple[str, ...] = ()
    review: str = ""

    @property
    def settled(self) -> bool:
        """The saga has ended, with any result."""
        return self.rule in (Planning.CONTINUE, Planning.REPAIR_OR_STOP, Planning.REFRESH_AND_REPLAN)

    def as_json(self) -> dict[str, Json]:
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state.value,
            "rule": self.rule.value,
            "guidance": GUIDANCE[self.rule],
            "steps": list(self.steps),
            "review": self.review,
        }
