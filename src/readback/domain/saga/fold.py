"""A saga, folded from its events: its steps as data, and the fold. Its state has no other source.

The engine folds while it works, resume folds after a crash, and audit folds again and compares. Applying an event only
records. `saga.planner` decides the next moves, and `saga.check` checks definitions.

Source: the action verification specification, "Recovery strategies" and "Saga Region".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import StrEnum
from typing import Final

from readback.canon import Json, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.domain import state as states
from readback.domain.action.erasure import erased_after
from readback.domain.events import Event, EventKind
from readback.domain.people.incident import incident_id
from readback.domain.people.review import RESTORED
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.errors import StoreCorruptError

KIND: Final = "saga"
"""The kind in a saga's projection, in place of an action's kind of operation."""
STEPS_MAX: Final = 64
"""Largest number of steps in a saga."""
_REQUEST_DOMAIN: Final = "readback/saga/1"
_CONTRACTS_DOMAIN: Final = "readback/saga-contracts/1"
CLOSED: Final = frozenset({State.RECONCILED_SUCCESS, State.FAILED, State.COMPENSATED, State.ABANDONED})
"""Final states of a saga: all work is done, or a person stopped the saga."""


class Region(StrEnum):
    """Region of a step relative to the pivot."""

    BEFORE = "before"
    PIVOT = "pivot"
    AFTER = "after"


class Direction(StrEnum):
    """Direction of a saga."""

    ONWARD = "onward"
    """No failure: the next steps begin."""
    BACKWARD = "backward"
    """A failure or cancellation before the pivot: no step begins, and existing effects are reversed."""
    FORWARD = "forward"
    """A failure after the pivot: the remaining steps complete under the same keys."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A value of an earlier step: at `path` of its reconciled authoritative state, or of its request."""

    step: str
    path: str

    def __repr__(self) -> str:
        return f"from_step({self.step!r}, {self.path!r})"


@dataclass(frozen=True, slots=True)
class StepTerms:
    """One step at the saga's start; its arguments are evidence. `undo`: the compensation's contract, or ""."""

    name: str
    contract: str
    contract_version: str
    contract_hash: str
    kind: str
    side_effect: SideEffect
    region: Region
    after: tuple[str, ...]
    undo: str = ""
    undo_hash: str = ""

    @property
    def mutates(self) -> bool:
        return self.kind != "read"

    def as_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "contract": self.contract,
            "contract_version": self.contract_version,
            "contract_hash": self.contract_hash,
            "kind": self.kind,
            "side_effect": self.side_effect.value,
            "region": self.region.value,
            "after": list(self.after),
            "undo": self.undo,
            "undo_hash": self.undo_hash,
        }

    @classmethod
    def from_json(cls, raw: dict[str, Json]) -> StepTerms:
        after = raw["after"]
        if not isinstance(after, list):
            raise ValueError("after")
        return cls(
            str(raw["name"]),
            str(raw["contract"]),
            str(raw["contract_version"]),
            str(raw["contract_hash"]),
            str(raw["kind"]),
            SideEffect(str(raw["side_effect"])),
            Region(str(raw["region"])),
            tuple(str(name) for name in after),
            str(raw["undo"]),
            str(raw["undo_hash"]),
        )


@dataclass(slots=True)
class StepRecord:
    """The record of one step. `action_id`: the current action. `past`: earlier actions without effect, retried
    since.

    `state` and `head`: the action's final state and ledger head as seen by the saga, "" while the action is open.
    `undo_*`: the same for the compensation. `refused`: why the step could not be proposed.
    """

    action_id: str = ""
    past: tuple[str, ...] = ()
    state: str = ""
    head: str = ""
    refused: str = ""
    detail: str = ""
    undo_id: str = ""
    undo_past: tuple[str, ...] = ()
    """Failed reversals, followed by a person's order for another reversal."""
    undo_state: str = ""
    undo_head: str = ""

    @property
    def tries(self) -> int:
        return len(self.past) + (1 if self.action_id else 0)


@dataclass(slots=True)
class Saga:
    """All recorded facts of one saga. Times in microseconds; 0 means "not yet"."""

    id: str
    tenant: str
    version: int = 0
    head: str = ""
    state: State = State.PROPOSED
    principal: str = ""
    name: str = ""
    operation: str = ""
    key_hash: str = ""
    request_hash: str = ""
    stamp: str = ""
    table: str = ""
    break_glass: str = ""
    context: dict[str, Json] = field(default_factory=dict)
    definition_ref: str = ""
    budget_ref: str = ""
    terms: tuple[StepTerms, ...] = ()
    contracts: str = ""
    """`contracts_hash` of the terms; "" for a saga of an earlier release."""
    steps: dict[str, StepRecord] = field(default_factory=dict)
    heading: Direction = Direction.ONWARD
    because: str = ""
    """The step behind the change of direction, or behind the wait for a person."""
    cancelled: bool = False
    quiet: bool = False
    """No progress is near: the saga waits for a person, an approval, or an unknown result."""
    looks: int = 0
    """Number of looks since the last event."""
    ordered: bool = False
    """A person ordered the reversal, so that reversals run on frozen targets, too."""
    forgiven: int = 0
    """Tries after the pivot, excluded from the count by a person."""
    hold: str = ""
    row: str = ""
    reason: str = ""
    detail: str = ""
    review: str = ""
    incident: str = ""
    incidents: tuple[str, ...] = ()
    """Ids of the incidents opened by the saga."""
    erased: tuple[str, ...] = ()
    """Digests of erased payloads."""
    erased_us: int = 0
    free: bool = False
    """The saga ended without any effect, and none can follow. Its operation may run again."""
    restored: bool = False
    """The ledger was restored from a backup. The saga may have run since, so its operation stays taken."""
    due_us: int | None = None
    created_us: int = 0
    updated_us: int = 0
    ended_us: int = 0

    @property
    def contract(self) -> str:
        return f"{KIND}:{self.name}"

    @property
    def may_repeat(self) -> bool:
        return self.state is State.FAILED and self.free and not self.restored

    @property
    def pivot_passed(self) -> bool:
        """The saga has passed the pivot, as far as recorded."""
        done = State.RECONCILED_SUCCESS.value
        return any(step.region is Region.PIVOT and self.steps[step.name].state == done for step in self.terms)

    @property
    def side_effect(self) -> SideEffect:
        """The class of its gravest step."""
        return max((step.side_effect for step in self.terms), key=lambda s: s.rank, default=SideEffect.READ_ONLY)

    def step(self, name: str) -> StepTerms:
        return next(step for step in self.terms if step.name == name)

    def action_ids(self) -> tuple[str, ...]:
        """Every begun action, including retried actions and reversals."""
        ids = (i for r in self.steps.values() for i in (*r.past, r.action_id, *r.undo_past, r.undo_id))
        return tuple(i for i in ids if i)

    def apply(self, event: Event, head: str) -> None:
        """Apply the next event. `head`: its leaf hash in hex. Raises StoreCorruptError for an impossible event."""
        was = self.state
        for step in event.path:
            if self.version == 0 and step is State.PROPOSED:
                continue
            if not states.can(self.state, step):
                raise StoreCorruptError(f"Saga {self.id} went from {self.state} to {step}. No such transition exists.")
            self.state = step
        if was is State.REVIEW_REQUIRED and self.state is not was:
            self.review, self.ended_us = "", 0
        self.version += 1
        self.head = head
        if event.kind is not EventKind.ERASED:  # an erasure changes neither the state nor the age
            self.updated_us = event.at_us
        try:
            _APPLY[event.kind](self, event)
        except (KeyError, ValueError) as missing:
            raise StoreCorruptError(f"A {event.kind} entry of saga {self.id} is invalid: {missing}.") from missing


def request_hash(name: str, steps: list[Json]) -> str:
    """SHA-256 (hex) of the definition. A different definition under the same operation is a different payload."""
    parts: list[Json] = [_REQUEST_DOMAIN, name, steps]
    return sha256_hex(payload_bytes(parts))


def contracts_hash(terms: Iterable[StepTerms]) -> str:
    """SHA-256 (hex) of the contracts behind the steps. Sagas of the same contract versions have the same hash, with
    any steps: a worker without a contract among these can continue none of the sagas.
    """
    named = sorted({(each.contract, each.contract_hash, each.undo, each.undo_hash) for each in terms})
    parts: list[Json] = [_CONTRACTS_DOMAIN, [list(each) for each in named]]
    return sha256_hex(payload_bytes(parts))


def _begun(s: Saga, e: Event) -> None:
    d = e.data
    s.principal, s.name, s.operation = str(d["principal"]), str(d["name"]), str(d["operation"])
    s.key_hash, s.request_hash, s.stamp = str(d["key_hash"]), str(d["request_hash"]), str(d["stamp"])
    s.table, s.break_glass = str(d["table"]), str(d["break_glass"])
    s.contracts = str(d.get("contracts", ""))
    context, steps = d["context"], d["steps"]
    s.context = context if isinstance(context, dict) else {}
    raw = [each for each in steps if isinstance(each, dict)] if isinstance(steps, list) else []
    if not raw or raw != steps:
        raise KeyError("steps")
    s.terms = tuple(StepTerms.from_json(each) for each in raw)
    s.steps = {step.name: StepRecord() for step in s.terms}
    s.definition_ref, s.budget_ref = e.refs["saga"], e.refs.get("budget", "")
    s.created_us = s.due_us = e.at_us


def _step(s: Saga, e: Event) -> None:
    d = e.data
    _due(s, e)
    if d["what"] == "waits":
        s.quiet, s.hold, s.looks = bool(d["quiet"]), str(d["hold"]), s.looks + 1
        return
    s.quiet, s.hold, s.looks = False, "", 0
    record = s.steps[str(d["step"])]
    match d["what"]:
        case "begins":
            if record.action_id:
                record.past = (*record.past, record.action_id)
            record.action_id, record.state, record.head = str(d["action"]), "", ""
        case "ended":
            record.state, record.head = str(d["state"]), str(d["head"])
        case "refused":
            record.action_id, record.refused, record.detail = "", str(d["code"]), str(d["detail"])
        case "reverses":
            record.undo_id = str(d["action"])
        case "reversed":
            record.undo_state, record.undo_head = str(d["state"]), str(d["head"])
            record.detail = str(d["detail"]) or record.detail
        case what:
            raise KeyError(what)


def _turned(s: Saga, e: Event) -> None:
    d = e.data
    s.heading = Direction(str(d["to"]))
    s.because = str(d["step"]) or s.because
    s.reason = str(d["reason"]) or s.reason
    s.row = str(d["row"]) or s.row
    s.quiet, s.hold, s.looks = False, "", 0
    _due(s, e)


def _ended(s: Saga, e: Event) -> None:
    d = e.data
    s.because = str(d["step"]) or s.because
    s.reason, s.detail = str(d["reason"]) or s.reason, str(d["detail"])
    s.row = str(d["row"]) or s.row
    s.review, s.incident = str(d["review"]), str(d["incident"]) or s.incident
    if "severity" in d:
        s.incidents += (incident_id(s.id, s.version),)
    s.free = bool(d["free"])
    s.quiet, s.hold, s.looks = True, "", 0
    s.ended_us = e.at_us
    _due(s, e)


def _cancelled(s: Saga, e: Event) -> None:
    s.cancelled = True
    s.due_us, s.quiet = e.at_us, False


def _held(s: Saga, e: Event) -> None:
    s.review = s.reason = str(e.data["hold"])
    s.detail = str(e.data.get("detail", ""))
    s.quiet, s.ended_us, s.due_us = True, e.at_us, None
    s.restored = s.restored or s.review == RESTORED


def _resolved(s: Saga, e: Event) -> None:
    """A person's decision: the saga resumes, or ends."""
    s.looks, s.quiet = 0, s.state in states.TERMINAL
    s.due_us = e.at_us if s.state not in states.TERMINAL else None
    match s.state:
        case State.COMPENSATING:
            s.heading, s.ordered = Direction.BACKWARD, True
            for record in s.steps.values():
                if record.undo_state in _CAME_TO_NOTHING:
                    record.undo_past = tuple(each for each in (*record.undo_past, record.undo_id) if each)
                    record.undo_id = record.undo_state = record.undo_head = ""
        case State.FORWARD_RECOVERY:
            s.heading, s.forgiven = Direction.FORWARD, max((r.tries for r in s.steps.values()), default=0)
        case State.ABANDONED:
            s.ended_us = e.at_us
        case _:
            s.forgiven = max((r.tries for r in s.steps.values()), default=0)


_CAME_TO_NOTHING: Final = frozenset({State.FAILED.value, State.ROLLED_BACK.value, "refused"})
"""End states of a reversal that allow a new reversal under the same key."""


def _erased(s: Saga, e: Event) -> None:
    s.erased, s.erased_us = erased_after(s.erased, e), e.at_us


def _due(s: Saga, e: Event) -> None:
    due = e.data["due"]
    s.due_us = due if isinstance(due, int) else None


_APPLY = {
    EventKind.SAGA_BEGUN: _begun,
    EventKind.SAGA_STEP: _step,
    EventKind.SAGA_TURNED: _turned,
    EventKind.SAGA_ENDED: _ended,
    EventKind.CANCELLED: _cancelled,
    EventKind.HELD: _held,
    EventKind.RESOLVED: _resolved,
    EventKind.ERASED: _erased,
}
