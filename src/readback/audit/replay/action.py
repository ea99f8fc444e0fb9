"""Replay: the present verification logic judges the record of an action again. Pure.

Called by `readback replay` and by release gates, with an opened bundle and a plan: the recorded contract, or a
substitute. Observation, readings, searches and look-ups come from the record. Verdict, class, recovery row and states
are computed anew, entry by entry, and compared. Replay needs no clock, ledger, reader or tool.

1. The present state machine folds the entries.
2. Each entry with a decision is decided again, over the fold before the entry.
3. If the bundle lacks an input of the decision, the input is named and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from readback.audit.record.bundle import Bundle
from readback.audit.replay.decisions import Decided, decide_again
from readback.audit.replay.round import Round, Standing
from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.events import Event, EventKind, ParsedEnvelope
from readback.domain.records.replayed import Comparison, Difference, ReplayedJudgement, ReplayResult
from readback.domain.recovery.rule import table_of
from readback.domain.recovery.table import RecoveryTable
from readback.engine.compiled_contract import CompiledContract
from readback.errors import BundleError, StoreCorruptError

FIELDS: Final = (
    "code",
    "verdict",
    "why",
    "finding",
    "discrepancy",
    "attribution",
    "row",
    "recovery",
    "effect_shown",
    "level",
)


@dataclass(slots=True)
class _Replay:
    """One replay in progress."""

    bundle: Bundle
    plan: CompiledContract
    table: RecoveryTable | None
    action: Action
    round: Round = field(default_factory=Round)
    before: Json = None
    judged: list[ReplayedJudgement] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    def step(self, opened: ParsedEnvelope, leaf: str) -> None:
        """Process one entry: decide a decision again, then fold the entry."""
        event = opened.event
        if event.kind in _DECIDING and not _says_nothing(event):
            self.judged.append(self._again(opened.version, event))
        try:
            self.action.apply(event, leaf)
        except (StoreCorruptError, KeyError, ValueError, TypeError) as error:
            said = error.message if isinstance(error, ReadbackError) else str(error)
            raise BundleError(f"Entry {opened.version} cannot follow by this release's rules: {said}") from error
        self.round.read(event)

    def _again(self, version: int, event: Event) -> ReplayedJudgement:
        standing = Standing(self.bundle, self.plan, self.action, self.round, event)
        table = self._table(event, standing)
        decided = decide_again(standing, table) if table is not None else Decided()
        missing = tuple(dict.fromkeys(standing.missing))
        differences = () if missing else tuple(_differences(standing, event, decided))
        comparison = Comparison.DIFFERS if differences else Comparison.SAME
        return ReplayedJudgement(
            version,
            event.kind.value,
            event.at_us,
            Comparison.NOT_EVALUATED if missing else comparison,
            (event.path[-1] if event.path else self.action.state).value,
            str(event.data.get("verdict", "")),
            str(event.data.get("row", "")),
            differences,
            missing,
            tuple(dict.fromkeys(standing.given)),
        )

    def _table(self, event: Event, standing: Standing) -> RecoveryTable | None:
        if self.table is not None:
            return self.table
        version = str(event.data.get("table") or self.action.judgement.table or standing.proposed_table)
        try:
            found = table_of(self.bundle.tables[version])
        except (KeyError, ValueError, TypeError) as wrong:
            standing.missing.append(f"the recovery table {version}, which this release cannot read ({wrong})")
            return None
        if found.version != version:
            self.notes[f"The recovery table {version} amounts to {found.version} in this release."] = None
        return found


_DECIDING: Final = frozenset({EventKind.JUDGED, EventKind.REJECTED, EventKind.COMPENSATION})


def _says_nothing(event: Event) -> bool:
    """Return whether the entry holds no decision by the table, despite its kind: a reversal still in progress."""
    return event.kind is not EventKind.JUDGED and not event.path


def replay(bundle: Bundle, plan: CompiledContract, table: RecoveryTable | None = None) -> ReplayResult:
    """Judge the bundle's action again. `table`: a substitute for the recorded recovery tables.

    Raises BundleError if the entries cannot be folded.
    """
    first = bundle.entries[0]
    work = _Replay(bundle, plan, table, Action(first.action_id, first.tenant))
    for opened, leaf in zip(bundle.entries, bundle.leaves, strict=True):
        work.step(opened, leaf)
    action = work.action
    if plan.contract.hash != action.contract_hash:
        said = (
            f"Judged by version {plan.contract.version} of the contract, whose text is another than the recorded one."
        )
        work.notes[said] = None
    if action.engine != plan.predicates.name:
        then = action.engine or "the one before engines were named"
        work.notes[f"Judged by the expression engine {plan.predicates.name}; the last verdict is of {then}."] = None
    if table is not None:
        work.notes[f"Decided by the recovery table {table.version}."] = None
    return ReplayResult(
        bundle.id,
        action.id,
        action.tenant,
        action.contract,
        action.contract_version,
        len(bundle.entries),
        action.state.value,
        tuple(work.judged),
        tuple(work.notes),
    )


# --- comparing ---


def _differences(standing: Standing, event: Event, decided: Decided) -> list[Difference]:
    found: list[Difference] = []
    for name in FIELDS:
        if name in event.data and name in decided.said and event.data[name] != decided.said[name]:
            found.append(Difference(name, event.data[name], decided.said[name]))
    found += _of_shadow(event.data.get("shadow"), decided.said.get("shadow"))
    then, now = [state.value for state in event.path], [state.value for state in decided.path]
    if then != now:
        found.append(Difference("states", [*then], [*now]))
    if decided.ensure is not None:
        found += _clauses(standing.recorded_ensure(), decided.ensure)
    return found


def _of_shadow(then: Json, now: Json) -> list[Difference]:
    """Compare the judgement of a shadow action, without the explanation in words."""
    if not isinstance(then, dict) or not isinstance(now, dict):
        return [] if then is None else [Difference("shadow", then, now)]
    names = [name for name in dict.fromkeys([*then, *now]) if name != "detail"]
    return [
        Difference(f"shadow {name}", then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)
    ]


def _clauses(then: Mapping[str, str], now: Mapping[str, str]) -> list[Difference]:
    names = dict.fromkeys([*then, *now])
    return [
        Difference(f"postcondition {name}", then.get(name), now.get(name))
        for name in names
        if then.get(name) != now.get(name)
    ]
