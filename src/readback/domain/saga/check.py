"""Check of a saga's definition: all faults at once, before any effect. Pure.

Called with the proposed steps. A valid graph has an order, at most one pivot, and a way back from every step before the
pivot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from readback.canon.frozen import dataclass
from readback.canon.limits import ID_MAX_BYTES
from readback.domain.contract.contract import Contract
from readback.domain.saga.fold import STEPS_MAX, Reference, Region
from readback.domain.side_effect import Consistency

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NO_REFERENCES: Final[Mapping[str, Reference]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StepDraft:
    """A proposed step. `hidden`: arguments redacted by its contract."""

    name: str
    contract: Contract
    undo: Contract | None = None
    after: tuple[str, ...] = ()
    pivot: bool = False
    references: Mapping[str, Reference] = field(default_factory=lambda: _NO_REFERENCES)
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `code` is stable; `step` is empty for a fault of the whole saga."""

    code: str
    step: str
    reason: str

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "step": self.step, "reason": self.reason}


def faults(steps: Sequence[StepDraft], *, principal: str, operation: str) -> list[Problem]:
    """Every fault; empty for a valid definition."""
    found = [*_whole(steps), *_names(steps), *_edges(steps)]
    for step in steps:
        found += [*_terms(step, principal, operation), *_way_back(step)]
    if any(problem.code in _BROKEN for problem in found):
        return found  # predecessors are unknown with an unknown step or a cycle
    before = predecessors(steps)
    regions = regions_of(steps)
    for step in steps:
        found += [*_references(step, steps, before[step.name]), *_place(step, regions[step.name])]
    return found


_BROKEN: Final = frozenset({"name", "name.twice", "after.unknown", "cycle"})


def _whole(steps: Sequence[StepDraft]) -> Iterator[Problem]:
    if not steps:
        yield Problem("empty", "", "The saga has no steps.")
    if len(steps) > STEPS_MAX:
        yield Problem("steps", "", f"The saga has {len(steps)} steps, over the limit of {STEPS_MAX}.")
    pivots = [step.name for step in steps if step.pivot]
    for name in pivots[1:]:
        yield Problem("pivot.twice", name, f"A saga has one pivot, and {pivots[0]!r} is the pivot already.")


def _names(steps: Sequence[StepDraft]) -> Iterator[Problem]:
    seen: set[str] = set()
    for step in steps:
        if not _NAME.fullmatch(step.name):
            reason = "A step's name has up to 64 letters, digits, points, lines and underscores."
            yield Problem("name", step.name[:64], reason)
        if step.name in seen:
            yield Problem("name.twice", step.name, "Two steps have this name.")
        seen.add(step.name)


def _edges(steps: Sequence[StepDraft]) -> Iterator[Problem]:
    names = {step.name for step in steps}
    for step in steps:
        for name in step.after:
            if name not in names:
                yield Problem("after.unknown", step.name, f"`after` names {name!r}, and no such step exists.")
    circle = _circle(steps)
    if circle:
        yield Problem("cycle", circle[0], f"These steps wait for each other: {', '.join(circle)}.")


def _circle(steps: Sequence[StepDraft]) -> list[str]:
    """Steps that can never begin, since each waits for another of them."""
    left = {step.name: set(step.after) & {s.name for s in steps} for step in steps}
    while ready := [name for name, waits in left.items() if not waits]:
        for name in ready:
            del left[name]
        for waits in left.values():
            waits.difference_update(ready)
    while idle := [name for name in left if not any(name in waits for waits in left.values())]:
        for name in idle:  # waits for the cycle without being a part
            del left[name]
    return sorted(left)


def predecessors(steps: Sequence[StepDraft]) -> dict[str, frozenset[str]]:
    """The steps to verify before each step begins. The graph is acyclic."""
    direct = {step.name: step.after for step in steps}
    found: dict[str, frozenset[str]] = {}

    def of(name: str) -> frozenset[str]:
        if name not in found:
            found[name] = frozenset(direct[name]).union(*(of(each) for each in direct[name]))
        return found[name]

    for step in steps:
        of(step.name)
    return found


def regions_of(steps: Sequence[StepDraft]) -> dict[str, Region]:
    """The region of each step. Dependents of the pivot are behind the pivot; every other step is before it.

    Without a declared pivot, a single irreversible last step acts as the pivot.
    """
    before = predecessors(steps)
    pivot = next((step.name for step in steps if step.pivot), "") or _last_for_good(steps, before)
    regions = {}
    for step in steps:
        behind = pivot in before[step.name]
        regions[step.name] = Region.PIVOT if step.name == pivot else Region.AFTER if behind else Region.BEFORE
    return regions


def _last_for_good(steps: Sequence[StepDraft], before: Mapping[str, frozenset[str]]) -> str:
    for step in steps:
        if step.contract.kind.mutates and not reversible(step) and len(before[step.name]) == len(steps) - 1:
            return step.name
    return ""


def reversible(step: StepDraft) -> bool:
    """The contract declares a reversal, and does not exclude one."""
    return step.undo is not None and step.contract.execution.reversible


# --- one step ---


def _references(step: StepDraft, steps: Sequence[StepDraft], before: frozenset[str]) -> Iterator[Problem]:
    by_name = {each.name: each for each in steps}
    for argument, reference in step.references.items():
        source = by_name.get(reference.step)
        if source is None:
            reason = f"Argument {argument!r} refers to step {reference.step!r}, and there is no such step."
            yield Problem("reference.unknown", step.name, reason)
            continue
        if reference.step not in before:
            reason = (
                f"Argument {argument!r} refers to {reference.step!r}, a step possibly unverified at this step's start."
            )
            yield Problem("reference.order", step.name, f"{reason} Name it under `after`.")
        if _covered(_rooted(reference.path), source.contract.redact):
            reason = f"Argument {argument!r} refers to {reference.path!r} of {reference.step!r}, a redacted field."
            yield Problem("reference.redacted", step.name, reason)


def _rooted(path: str) -> str:
    return path if path.split(".")[0] in ("authoritative", "requested") else f"authoritative.{path}"


def _covered(path: str, redact: tuple[str, ...]) -> bool:
    return any(path == r or path.startswith(f"{r}.") or r.startswith(f"{path}.") for r in redact)


def _terms(step: StepDraft, principal: str, operation: str) -> Iterator[Problem]:
    contract = step.contract
    if contract.principals and not any(fnmatchcase(principal, pattern) for pattern in contract.principals):
        yield Problem("principal", step.name, f"Principal {principal!r} may not run {contract.name!r}.")
    if contract.depth.operation_required and not operation:
        reason = f"{contract.name!r} is {contract.side_effect.value}: the saga needs an operation id."
        yield Problem("operation", step.name, reason)
    if len(f"{operation}/{step.name}".encode()) > ID_MAX_BYTES:
        yield Problem("operation.length", step.name, f"With the operation, its name has over {ID_MAX_BYTES} bytes.")
    if step.hidden:
        named = ", ".join(step.hidden)
        reason = f"The contract redacts {named}: the ledger would lack the value when the saga is resumed."
        yield Problem("argument.redacted", step.name, reason)
    if not contract.readers or contract.unverifiable:
        yield Problem("unverifiable", step.name, "No reading can verify the step, so no step could follow.")
    if step.pivot and not any(r.consistency is Consistency.STRONG for r in contract.readers):
        yield Problem("pivot.weak", step.name, "The pivot needs a strongly consistent reader.")


def _way_back(step: StepDraft) -> Iterator[Problem]:
    if step.undo is not None and (not step.undo.readers or not step.undo.ensure or step.undo.unverifiable):
        reason = f"Its compensation {step.undo.name!r} is not verified, so that it would never be known to be reversed."
        yield Problem("compensation.unverified", step.name, reason)


def _place(step: StepDraft, region: Region) -> Iterator[Problem]:
    """Before the pivot every step is reversible. After the pivot every step can be retried."""
    if region is Region.AFTER and step.contract.kind.mutates and not step.contract.execution.honours_key:
        reason = "It stands after the pivot, where steps are tried again: its tool has to honour the key."
        yield Problem("after.key", step.name, f"{reason} Declare execute.honours_key, or move it before the pivot.")
    if region is Region.BEFORE and step.contract.kind.mutates and not reversible(step):
        reason = "The step makes an irreversible change before the pivot."
        yield Problem("compensation.missing", step.name, f"{reason} Add a compensation, or make this step the pivot.")
