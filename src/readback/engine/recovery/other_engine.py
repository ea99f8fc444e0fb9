"""An action whose contract was read by another expression engine than the one that judges it now.

The engine asks before it decides. Where each expression means the same under both, and no value is of a kind that the
other one read otherwise, it is judged as ever; else a person decides about it, and sees what this engine says.
"""

from __future__ import annotations

from collections.abc import Iterator

from readback.canon import Json
from readback.canon.limits import INTEGER_WIRE_MAX, INTEGER_WIRE_MIN
from readback.canon.numbers import ExactNumber
from readback.domain.finding import Finding
from readback.domain.predicate import look
from readback.domain.state import State
from readback.engine.run import Run
from readback.ports.predicates import Predicate

_DOUBTED = frozenset({Finding.APPROVAL_MISMATCH.value, Finding.POLICY_VERSION_MISMATCH.value})


def doubt(run: Run) -> None:
    """Leaves the doubt in the run, where there is one. Said once: a person who has decided is not asked again."""
    action = run.action
    if not action.attempts or action.state is State.REVIEW_REQUIRED or action.judgement.finding in _DOUBTED:
        return
    why = next(filter(None, (each.otherwise(action.engine) for each in predicates(run))), "") or _unkept(run)
    if why:
        then = action.engine or "the one before engines were named"
        now = run.plan.predicates.name
        run.doubt = Finding.POLICY_VERSION_MISMATCH
        run.doubt_said = f"Its contract was read by another expression engine ({then}; {now} now), which took {why}."


def predicates(run: Run) -> Iterator[Predicate]:
    """The expressions that its readings are judged by."""
    plan = run.plan
    for check in (*plan.ensure, *plan.fails_when, *plan.intermediate):
        if check.predicate is not None:
            yield check.predicate
    for identity in plan.identity:
        yield identity.predicate


def _unkept(run: Run) -> str:
    """Values that the other engine could not keep: it cut texts at NUL, and its numbers had 64 bits."""
    variables = run.variables()
    for judged in run.checks:
        seen = {**variables, "authoritative": judged.taken.reading.value}
        for predicate in predicates(run):
            for path in predicate.paths:
                if _holds_unkept(look(path, seen)):
                    return f"the value at {path.text} for another: a number beyond a double, or a text with NUL"
    return ""


def _holds_unkept(value: Json) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return not INTEGER_WIRE_MIN <= value <= INTEGER_WIRE_MAX
    if isinstance(value, dict):
        return any("\0" in key or _holds_unkept(part) for key, part in value.items())
    return isinstance(value, ExactNumber) or (isinstance(value, list) and any(map(_holds_unkept, value)))
