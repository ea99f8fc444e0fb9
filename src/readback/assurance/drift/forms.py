"""The form of a JSON value: the type of each field by path. Two forms are compared as changed, gone and new.

A field that was not in every recorded value is optional, and a missing optional field is no difference. A null says
nothing about a type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from readback.assurance.drift.findings import Change, Drift
from readback.canon import Json
from readback.engine.compiled_contract import CompiledContract

Form: TypeAlias = Mapping[str, frozenset[str]]
FIELDS_MAX: Final = 1_000
DEPTH_MAX: Final = 8
ITEMS_MAX: Final = 20
_NULL: Final = "null"


def form_of(value: Json) -> dict[str, frozenset[str]]:
    """Return the types by dotted path; `[]` stands for the entries of a list."""
    found: dict[str, set[str]] = {}
    pending: list[tuple[str, Json, int]] = [("", value, 0)]
    while pending and len(found) < FIELDS_MAX:
        path, one, depth = pending.pop()
        found.setdefault(path, set()).add(type_of(one))
        if depth >= DEPTH_MAX:
            continue
        if isinstance(one, dict):
            pending += [(f"{path}.{name}" if path else name, each, depth + 1) for name, each in one.items()]
        elif isinstance(one, list):
            pending += [(f"{path}[]", each, depth + 1) for each in one[:ITEMS_MAX]]
    return {path: frozenset(kinds) for path, kinds in found.items()}


def type_of(value: Json) -> str:
    """Return the JSON type of a value, in a word."""
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    return "list" if isinstance(value, list) else "object"


def compared(then: Iterable[Json], now: Json, subject: str, plan: CompiledContract) -> tuple[list[Drift], int]:
    """Compare recorded values with a live one. Returns the differences and the number of compared fields."""
    recorded = [form_of(each) for each in then]
    live = form_of(now)
    always = set.intersection(*(set(each) for each in recorded)) if recorded else set()
    known: dict[str, frozenset[str]] = {}
    for form in recorded:
        for path, kinds in form.items():
            known[path] = known.get(path, frozenset()) | kinds
    found = [
        Drift(Change.GONE, subject, path or "the whole", f"{path or 'the whole'} is gone", risks(plan, path))
        for path in sorted(always - live.keys())
        if not _inside(path, always - live.keys())
    ]
    for path in sorted(live.keys() & known.keys()):
        old, new = known[path] - {_NULL}, live[path] - {_NULL}
        if old and new and not new <= old:
            said = f"{path or 'the whole'} is {_words(new)} and was {_words(old)}"
            found.append(Drift(Change.CHANGED, subject, path or "the whole", said, risks(plan, path)))
    fresh = live.keys() - known.keys()
    for path in sorted(fresh):
        if not _inside(path, fresh):
            found.append(Drift(Change.NEW, subject, path, f"{path} is new", frame_risks(plan, path)))
    return found, len(always | live.keys())


def _inside(path: str, others: Iterable[str]) -> bool:
    """Return whether a shorter path of the others leads to this path."""
    return any(path != each and (path.startswith((f"{each}.", f"{each}[]")) or each == "") for each in others)


def _words(kinds: frozenset[str]) -> str:
    return " or ".join(sorted(kinds))


def risks(plan: CompiledContract, path: str) -> tuple[str, ...]:
    """Return the contract's parts that read a field of the reading."""
    steps = tuple(path.replace("[]", "").split(".")) if path else ()
    named: dict[str, None] = {}
    clauses = [("ensure", plan.ensure), ("fails_when", plan.fails_when), ("intermediate", plan.intermediate)]
    for key, checks in (*clauses, ("require", plan.require)):
        for check in checks:
            if check.predicate is not None and _reads(check.predicate.paths, steps):
                named[f"{key}.{check.postcondition.name}"] = None
    for identity in plan.identity:
        if _reads(identity.predicate.paths, steps):
            named[f"identity.{identity.key}"] = None
    named |= {f"tell {each}": None for each in plan.contract.tell if _starts(tuple(each.split(".")[1:]), steps)}
    return tuple(named)


def frame_risks(plan: CompiledContract, path: str) -> tuple[str, ...]:
    """Return `may_change` for a new field outside the frame: a later change of the field refutes the action."""
    frame = plan.contract.may_change
    if frame is None or any(path == each or path.startswith(f"{each}.") for each in frame):
        return ()
    return ("may_change",)


def _reads(paths: Iterable[object], steps: tuple[str, ...]) -> bool:
    for path in paths:
        root, mine = getattr(path, "root", ""), getattr(path, "steps", ())
        if root in ("authoritative", "before") and _starts(tuple(str(each) for each in mine[1:]), steps):
            return True
    return False


def _starts(mine: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    """Return whether one path leads to the other: a clause about a part reads the whole, and the other way round."""
    short = min(len(mine), len(steps))
    return mine[:short] == steps[:short]
