"""The mutation test of one contract: each mutant against the contract's own examples and history.

An example, or a recorded action, with another verdict kills a mutant of the contract. A contract without the verdict
`verified` kills a wrong world. A survivor comes with the example or the postcondition for a kill. The test proposes a
text only after a trial of the text.

Called by `readback contracts test`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from readback.assurance.mutation.contract_mutants import (
    DROP,
    ContractMutant,
    Mutate,
    contract_mutants,
    with_clause,
)
from readback.assurance.mutation.remedies import clauses_for
from readback.assurance.mutation.world_mutants import (
    DUPLICATE,
    FIELD,
    TENANT,
    UNCHANGED,
    WorldMutant,
    look_in,
    named,
    world_mutants,
)
from readback.assurance.results import Standing
from readback.audit.record.bundle import Bundle
from readback.audit.replay.action import replay
from readback.canon import Json, ReadbackError, payload_bytes
from readback.canon.frozen import dataclass
from readback.contracts.examples import Example
from readback.contracts.judging import Judged, judged
from readback.domain.verdict import Verdict
from readback.engine.compiled_contract import CompiledContract

HISTORY_MAX: Final = 200
"""Recorded actions of a contract in a trial. Each costs a replay for each mutant left alive by the examples."""
CONTRACT, WORLD = "contract", "world"


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant without a test.

    Attributes:
        of: "contract" or "world".
        example: The example with the wrong world; "" for a mutant of the contract.
        remedy: The postcondition or the example for a kill; "" if the trial found none.
        accepted: The reason of the file's `survivors` or of an example's `free`; "" for an open survivor.
    """

    name: str
    kind: str
    of: str
    said: str
    example: str = ""
    remedy: str = ""
    accepted: str = ""

    def as_json(self) -> dict[str, Json]:
        """Return the survivor as plain data."""
        return {
            "name": self.name, "kind": self.kind, "of": self.of, "said": self.said, "example": self.example,
            "remedy": self.remedy, "accepted": self.accepted,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """The result for one contract. `wrong`: examples with another verdict than expected; nothing was mutated then."""

    contract: str
    examples: int
    history: int
    killed: Mapping[str, int] = field(default_factory=dict)
    survivors: tuple[Survivor, ...] = ()
    wrong: tuple[Judged, ...] = ()
    unused: tuple[str, ...] = ()
    """Names under `survivors` without a mutant."""
    unlike: int = 0
    """Recorded actions with another verdict on replay today; they test nothing."""

    @property
    def open(self) -> tuple[Survivor, ...]:
        """The survivors without an accepted reason."""
        return tuple(each for each in self.survivors if not each.accepted)

    @property
    def standing(self) -> Standing:
        """Failed for a wrong example or an open survivor; undetermined without examples and history."""
        if self.wrong or self.open:
            return Standing.FAILED
        return Standing.PASSED if self.examples or self.history else Standing.UNDETERMINED

    def as_json(self) -> dict[str, Json]:
        """Return the result as plain data."""
        return {
            "contract": self.contract,
            "standing": self.standing.value,
            "examples": self.examples,
            "history": self.history,
            "killed": dict(self.killed),
            "survivors": [each.as_json() for each in self.survivors],
            "wrong": [{"example": each.example.name, "said": each.said} for each in self.wrong],
            "unused": [*self.unused],
            "unlike": self.unlike,
        }


def run_trial(
    plan: CompiledContract,
    examples: Sequence[Example],
    mutate: Mutate,
    *,
    history: Sequence[Bundle] = (),
    accepted: Mapping[str, str] | None = None,
) -> Trial:
    """Test a contract's examples and history.

    Args:
        plan: The contract.
        examples: The contract's examples.
        mutate: `bootstrap.expression_mutants`.
        history: Recorded actions of the contract. The trial uses the first 200 with the same verdict on replay.
        accepted: Reasons for survivors, by the name of the mutant or a beginning with `*` at the end.
    """
    name = plan.contract.name
    wrong = tuple(each for each in (judged(plan, example) for example in examples) if not each.sound)
    alike = [each for each in history if _same(each, plan)]
    usable, unlike = alike[:HISTORY_MAX], len(history) - len(alike)
    if wrong or not (examples or usable):
        return Trial(name, len(examples), len(usable), wrong=wrong, unlike=unlike)
    work = _Work(plan, examples, mutate, usable, dict(accepted or {}))
    work.contract_side()
    work.world_side()
    unused = tuple(each for each in work.accepted if each not in work.used)
    return Trial(name, len(examples), len(usable), work.killed, tuple(work.survivors), unused=unused, unlike=unlike)


def _same(bundle: Bundle, plan: CompiledContract) -> bool:
    return not _differs(bundle, plan)


def _differs(bundle: Bundle, plan: CompiledContract) -> bool:
    """Return whether a recorded action gets another verdict, or none, from a plan."""
    try:
        result = replay(bundle, plan)
    except ReadbackError:
        return True
    judgements = [each for each in result.judgements if each.verdict]
    changed = any(each.missing or any(d.field == "verdict" for d in each.differences) for each in judgements)
    return changed or not judgements


class _Work:
    """One trial in progress."""

    def __init__(
        self,
        plan: CompiledContract,
        examples: Sequence[Example],
        mutate: Mutate,
        history: Sequence[Bundle],
        accepted: dict[str, str],
    ) -> None:
        self._plan, self._examples, self._mutate, self._history = plan, examples, mutate, history
        self._worlds = [each for example in examples for each in world_mutants(plan, example)]
        self.accepted = accepted
        self.used: set[str] = set()
        self.killed: dict[str, int] = {}
        self.survivors: list[Survivor] = []

    # --- mutants of the contract ---

    def contract_side(self) -> None:
        for mutant in contract_mutants(self._plan, self._examples, self._mutate):
            if self._noticed(mutant):
                self._kill(mutant.kind)
                continue
            remedy = "" if (reason := self._reason(mutant.name)) else self._example_for(mutant)
            self.survivors.append(
                Survivor(mutant.name, mutant.kind, CONTRACT, f"{mutant.clause}: {mutant.said}", "", remedy, reason)
            )

    def _noticed(self, mutant: ContractMutant) -> bool:
        if any(not judged(mutant.plan, example).sound for example in self._examples):
            return True
        return any(_differs(each, mutant.plan) for each in self._history)

    def _example_for(self, mutant: ContractMutant) -> str:
        """Return an example with different verdicts of mutant and contract."""
        for world in self._worlds:
            ours, theirs = judged(self._plan, world.example), judged(mutant.plan, world.example)
            if ours.result.verdict is not theirs.result.verdict:
                base = next(each for each in self._examples if each.name == world.example.name)
                return _example_text(base, world, ours.result.verdict)
        if mutant.kind == DROP:
            return "No example found: the other clauses imply this clause wherever the examples look."
        return ""

    # --- mutants of the world ---

    def world_side(self) -> None:
        for world in self._worlds:
            if judged(self._plan, world.example).result.verdict is not Verdict.VERIFIED:
                self._kill(f"{WORLD}: {world.kind}")
                continue
            reason = self._free(world) or self._reason(world.name)
            remedy = "" if reason else self._clause_for(world)
            self.survivors.append(
                Survivor(world.name, world.kind, WORLD, world.said, world.example.name, remedy, reason)
            )

    def _free(self, world: WorldMutant) -> str:
        path = named(world.steps) if world.steps else ""
        for name, reason in world.example.free.items():
            if path == name or path.startswith((f"{name}.", f"{name}[")):
                return reason
        return ""

    def _clause_for(self, world: WorldMutant) -> str:
        """Return a postcondition for a kill, with every example's verdict as expected."""
        original = next(each for each in self._examples if each.name == world.example.name)
        for source in clauses_for(original, world):
            stricter = with_clause(self._plan, source)
            if stricter is None or judged(stricter, world.example).result.verdict is Verdict.VERIFIED:
                continue
            if all(judged(stricter, each).sound for each in self._examples):
                return f"ensure: {source}"
        if world.kind == TENANT:
            return f"identity: {{tenant: authoritative.{named(world.steps)}}}"
        if world.kind == DUPLICATE and not world.steps and not self._plan.contract.has_find:
            return "find: a search by the stamp shows a second effect"
        if world.kind == UNCHANGED:
            return "on_unchanged: refuse"
        return f"free: {{{named(world.steps)}: why any value is right}}" if world.kind == FIELD else ""

    # --- counting ---

    def _kill(self, kind: str) -> None:
        self.killed[kind] = self.killed.get(kind, 0) + 1

    def _reason(self, name: str) -> str:
        for pattern, reason in self.accepted.items():
            if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
                self.used.add(pattern)
                return reason
        return ""


def _example_text(base: Example, world: WorldMutant, verdict: Verdict) -> str:
    """Return an example as a line of YAML, like the example behind the wrong world. JSON is YAML."""
    given = world.example
    terms: dict[str, Json] = {"like": base.name, "expect": verdict.value}
    if given.found is not None:
        terms["found"] = [*given.found]
    elif world.steps:
        terms["but"] = {f"state.{named(world.steps)}": look_in(given.state, world.steps)}
    else:
        terms["state"] = given.state
    return f"examples: {{{payload_bytes(f'{base.name}, {world.said}').decode()}: {payload_bytes(terms).decode()}}}"


def totals(trials: Iterable[Trial]) -> Iterator[tuple[str, int]]:
    """Return the numbers of a whole run, by name."""
    listed = [*trials]
    yield "contracts", len(listed)
    yield "killed", sum(sum(each.killed.values()) for each in listed)
    yield "accepted", sum(len(each.survivors) - len(each.open) for each in listed)
    yield "survived", sum(len(each.open) for each in listed)
