"""Judge recorded actions again by candidate contracts and a candidate table: a single pass over a history, in counts.

Called by the gates `trace-replay` and `predicate-diff`, with a shared pass. The pass uses the engine's own functions
through `audit.replay`. Nothing is read, called or awaited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from readback.assurance.gate_input import DamagedAction, GateInput
from readback.audit.record.bundle import Bundle
from readback.audit.replay.action import replay
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind
from readback.domain.predicate import Truth, shown_values
from readback.domain.records.replayed import Comparison, ReplayedJudgement
from readback.domain.verdict import Verdict
from readback.engine.compiled_contract import CompiledContract
from readback.errors import BundleError

EXAMPLES_MAX: Final = 3
"""Most counterexamples with values, for each clause and each direction."""
CLAUSE: Final = "postcondition "
NONE: Final = "-"
_RESULT: Final = ("verdict", "discrepancy", "row", "states")


@dataclass(frozen=True, slots=True)
class Cell:
    """A group of recorded actions: contract, verdict, discrepancy class and recovery row of the last judgement."""

    contract: str
    verdict: str
    discrepancy: str
    row: str

    def text(self) -> str:
        """Return the cell in one line."""
        return f"{self.contract}: {self.verdict or NONE}/{self.discrepancy or NONE}/{self.row or NONE}"


@dataclass(frozen=True, slots=True)
class Flip:
    """A changed result. `before` and `after`: verdict/class/row/state."""

    contract: str
    before: str
    after: str
    to_verified: bool

    @property
    def change(self) -> str:
        """The change in one line, as written in an acknowledgement."""
        return f"{self.before} -> {self.after}"


@dataclass(slots=True)
class ClauseChange:
    """A postcondition with other truths than recorded. `examples`: an action, both truths, and the values."""

    actions: dict[str, None] = field(default_factory=dict)
    gained: dict[str, None] = field(default_factory=dict)
    lost: dict[str, None] = field(default_factory=dict)
    examples: list[Json] = field(default_factory=list)

    def add(self, action_id: str, then: Json, now: Json, values: Callable[[], Json]) -> None:
        """Add one action."""
        self.actions[action_id] = None
        holds = Truth.HOLDS.value
        side = self.gained if now == holds else self.lost if then == holds else None
        if side is None or action_id in side:
            return
        side[action_id] = None
        if len(side) <= EXAMPLES_MAX:
            self.examples.append({"action": action_id, "recorded": then, "replayed": now, "values": values()})


@dataclass(slots=True)
class HistoryVerdicts:
    """The result of a pass over a history."""

    actions: int = 0
    judged: Counter[str] = field(default_factory=Counter)
    """Judged actions, by contract."""
    outside: Counter[str] = field(default_factory=Counter)
    """Actions of contracts missing in the candidate."""
    cells: Counter[Cell] = field(default_factory=Counter)
    flips: dict[Flip, dict[str, None]] = field(default_factory=dict)
    earlier: dict[Flip, dict[str, None]] = field(default_factory=dict)
    """Changes of an earlier release: the incumbent judges the action as the candidate does, by another text or table
    than recorded. A change to verified is never among them.
    """
    matrix: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Recorded verdict and candidate's verdict of each judgement."""
    clauses: dict[tuple[str, str], ClauseChange] = field(default_factory=dict)
    not_evaluated: dict[str, dict[str, str]] = field(default_factory=dict)
    """By contract: the action, and the first missing part of its basis."""
    damaged: list[DamagedAction] = field(default_factory=list)


def judge_history(given: GateInput) -> HistoryVerdicts:
    """Judge every recorded action of a candidate contract again. Raises StoreError and HistoryError."""
    found = HistoryVerdicts()
    plans = given.candidate.plans
    for recorded in given.history():
        found.actions += 1
        if isinstance(recorded, DamagedAction):
            found.damaged.append(recorded)
            continue
        name = str(recorded.entries[0].event.data.get("contract"))
        plan = plans.get(name)
        if plan is None:
            found.outside[name] += 1
            continue
        try:
            judgements = replay(recorded, plan, given.candidate.table).judgements
        except BundleError as error:
            found.damaged.append(DamagedAction(recorded.action_id, error.message))
            continue
        if judgements:
            before = _by_incumbent(given, recorded, name) if any(each.differences for each in judgements) else {}
            _count(found, recorded, plan, judgements, before)
    return found


Explained = Mapping[int, frozenset[tuple[str, str]]]
"""By entry: the fields with another value by the incumbent, and the value as text."""


def _by_incumbent(given: GateInput, bundle: Bundle, name: str) -> Explained:
    """Judge an action by the incumbent, too. Empty where the action was recorded under the incumbent's own logic.

    A difference under the incumbent's own logic is a change of the package, so the candidate answers for it.
    """
    incumbent = given.incumbent
    plan = None if incumbent is None else incumbent.plans.get(name)
    if incumbent is None or plan is None:
        return {}
    tables = {one.event.data.get("table") for one in bundle.entries} - {None, ""}
    if bundle.entries[0].event.refs.get("contract") == plan.contract.hash and tables <= {incumbent.table.version}:
        return {}
    judged = replay(bundle, plan, incumbent.table).judgements
    return {each.version: frozenset((one.field, str(one.replayed)) for one in each.differences) for each in judged}


def _count(
    found: HistoryVerdicts,
    bundle: Bundle,
    plan: CompiledContract,
    judgements: tuple[ReplayedJudgement, ...],
    before: Explained,
) -> None:
    name, action_id = plan.contract.name, bundle.action_id
    found.judged[name] += 1
    for each in judgements:
        data = bundle.entries[each.version - 1].event.data
        if each.comparison is Comparison.NOT_EVALUATED:
            found.not_evaluated.setdefault(name, {}).setdefault(action_id, each.missing[0])
            continue
        verdict = _text(data.get("verdict"))
        if not each.differences:
            found.matrix[verdict, verdict] += 1
            continue
        changed = {one.field: one.replayed for one in each.differences}
        found.matrix[verdict, _text(changed.get("verdict", verdict))] += 1
        explained = before.get(each.version, frozenset())
        known = all((one, str(changed[one])) in explained for one in _RESULT if one in changed)
        flip = _flip(name, data, each, changed)
        if flip is not None:
            side = found.earlier if known and not flip.to_verified else found.flips
            side.setdefault(flip, {})[action_id] = None
        for one in each.differences:
            if one.field.startswith(CLAUSE) and (one.field, str(one.replayed)) not in explained:
                clause = one.field.removeprefix(CLAUSE)
                change = found.clauses.setdefault((name, clause), ClauseChange())
                change.add(action_id, one.recorded, one.replayed, lambda clause=clause: _values(bundle, plan, clause))  # type: ignore[misc]
    last = bundle.entries[judgements[-1].version - 1].event.data
    cell = Cell(name, _text(last.get("verdict")), _text(last.get("discrepancy")), _text(last.get("row")))
    found.cells[cell] += 1


def _flip(name: str, data: Mapping[str, Json], each: ReplayedJudgement, changed: Mapping[str, Json]) -> Flip | None:
    """Return the changed result; None where verdict, class, row and state are the same."""
    then = [_text(data.get(part)) for part in ("verdict", "discrepancy", "row")] + [each.state]
    now = [_text(changed.get(part, data.get(part))) for part in ("verdict", "discrepancy", "row")] + [each.state]
    states = changed.get("states")
    if isinstance(states, list):
        now[3] = _text(states[-1]) if states else NONE
    if then == now:
        return None
    to_verified = now[0] == Verdict.VERIFIED.value and then[0] != now[0]
    return Flip(name, "/".join(part or NONE for part in then), "/".join(part or NONE for part in now), to_verified)


def _values(bundle: Bundle, plan: CompiledContract, clause: str) -> Json:
    """Return the values at the paths of a clause, from the request and the last reading of the effect."""
    predicate = next((check.predicate for check in plan.ensure if check.postcondition.name == clause), None)
    if predicate is None:
        return {}
    roots: dict[str, Json] = {}
    for one in bundle.entries:
        refs = one.event.refs
        request = bundle.json_of(refs["request"]) if "request" in refs else None
        if isinstance(request, dict):
            roots |= {"requested": request.get("requested"), "intended": request.get("intended")}
        if one.event.kind is EventKind.READ and one.event.data.get("role") not in ("before", "find"):
            roots["authoritative"] = bundle.json_of(refs.get("reading", ""))
    return dict(shown_values(predicate.paths, roots))


def _text(value: Json) -> str:
    return "" if value is None else str(value)
