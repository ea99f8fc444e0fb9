"""What a compensation is given: the action's own arguments, or what its contract makes of what was read back.

Called by reverse. Only what the record holds counts, as it holds it, so that it comes to the same after a restart:
what is redacted there cannot be used.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from readback.canon import Json, parse_json
from readback.domain.errors import ArgumentError
from readback.domain.verification.change import is_withheld
from readback.engine.effects import Effect, EffectResult, Load, Loaded
from readback.engine.run import Run

Given = tuple[Mapping[str, object], Mapping[str, Json]]


def given_to_reversal(run: Run) -> Generator[Effect, EffectResult, Given]:
    """Its arguments in both notations. Raises InputError where they cannot be made."""
    made = run.plan.reversing
    if made is None or run.blind or run.action.compensation_id:  # what was begun is followed
        return run.arguments, run.requested
    before = run.before.taken.reading.value if run.before is not None else None
    shown = yield from _shown(run)
    roots = {**run.variables(), "before": run.secrecy.hide(before, "before"), "authoritative": shown}
    arguments, requested = made(roots)
    if any(map(_hides, requested.values())):
        raise ArgumentError(f"What {run.contract.name!r} is reversed with is recorded as redacted only.")
    return arguments, requested


def _shown(run: Run) -> Generator[Effect, EffectResult, Json]:
    """The last reading of the action's target."""
    if run.checks:
        return run.secrecy.hide(run.checks[-1].taken.reading.value, "authoritative")
    if not run.action.reading_ref:
        return None
    loaded = yield Load(run.action.tenant, run.action.id, run.action.reading_ref)
    assert isinstance(loaded, Loaded)
    return None if loaded.body is None else parse_json(loaded.body)


def _hides(value: Json) -> bool:
    if is_withheld(value):
        return True
    if isinstance(value, dict):
        return any(map(_hides, value.values()))
    return isinstance(value, list) and any(map(_hides, value))
