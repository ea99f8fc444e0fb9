"""Mutants of the world: a right state with a field changed, doubled, gone, unchanged, or of another tenant.

A contract with a verdict of `verified` for such a state would report a false success. Called by `trial`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.examples import Example, Steps, with_value
from readback.domain.verdict import Verdict
from readback.engine.compiled_contract import CompiledContract

FIELD: Final = "field changed"
GONE: Final = "gone"
UNCHANGED: Final = "unchanged"
DUPLICATE: Final = "duplicate"
TENANT: Final = "other tenant"
OTHER: Final = "readback-other"
FIELDS_MAX: Final = 60
DEPTH_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class WorldMutant:
    """An example with a wrong world. `name`: kind and field. `steps`: the path of the field; () for none."""

    name: str
    kind: str
    said: str
    example: Example
    steps: Steps = ()


def world_mutants(plan: CompiledContract, example: Example) -> tuple[WorldMutant, ...]:
    """Return the wrong worlds beside an example of a verified state; none for any other example."""
    if example.expect is not Verdict.VERIFIED or example.readings:
        return ()
    return (*_of_target(plan, example), *_of_tenant(plan, example), *_of_fields(example))


def _of_target(plan: CompiledContract, example: Example) -> Iterator[WorldMutant]:
    state = example.state
    if state is not None:
        yield WorldMutant(GONE, GONE, "the target is not there", replace(example.with_state(None), stamped=False))
    if example.has_before and example.before != state:
        unchanged = replace(example.with_state(example.before), stamped=False)
        yield WorldMutant(UNCHANGED, UNCHANGED, "nothing has changed", unchanged)
    if plan.contract.kind.counts_effects and state is not None:
        doubled = replace(example, found=(state, state))
        yield WorldMutant(DUPLICATE, DUPLICATE, "the effect is there twice", doubled)


def _of_tenant(plan: CompiledContract, example: Example) -> Iterator[WorldMutant]:
    """Change the field of the tenant: of `identity.tenant`, or a field with the tenant's name as its value."""
    path = next((each.predicate.whole for each in plan.identity if each.key == "tenant"), None)
    steps: list[Steps] = []
    if path is not None and path.root == "authoritative":
        steps.append(tuple(path.steps[1:]))
    steps += [each for each, value in _leaves(example.state) if value in (example.tenant, "{scope.tenant}")]
    for each in dict.fromkeys(steps):
        if look_in(example.state, each) is None:
            continue
        changed = example.with_state(with_value(example.state, each, OTHER))
        yield WorldMutant(TENANT, TENANT, f"{named(each)} is of another tenant", changed, each)
        return


def _of_fields(example: Example) -> Iterator[WorldMutant]:
    for steps, value in _leaves(example.state)[:FIELDS_MAX]:
        other = _other(value, look_in(example.before, steps) if example.has_before else None)
        changed = example.with_state(with_value(example.state, steps, other))
        said = f"{named(steps)} is {other!r:.40} instead of {value!r:.40}"
        yield WorldMutant(f"{FIELD}:{named(steps)}", FIELD, said, changed, steps)
    for steps, items in _lists(example.state, (), 0)[:FIELDS_MAX]:
        longer: list[Json] = [*items, items[-1] if items else OTHER]
        changed = example.with_state(with_value(example.state, steps, longer))
        yield WorldMutant(
            f"{DUPLICATE}:{named(steps)}", DUPLICATE, f"{named(steps)} has one entry more", changed, steps
        )


def _other(value: Json, before: Json) -> Json:
    """Return another value of the same type: the value from before, if any."""
    if before is not None and type(before) is type(value) and before != value:
        return before
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}-{OTHER}" if isinstance(value, str) else OTHER


def _leaves(state: Json, above: Steps = (), depth: int = 0) -> list[tuple[Steps, Json]]:
    if depth > DEPTH_MAX:
        return []
    if isinstance(state, dict):
        return [found for name, each in state.items() for found in _leaves(each, (*above, name), depth + 1)]
    if isinstance(state, list):
        return [found for number, each in enumerate(state) for found in _leaves(each, (*above, number), depth + 1)]
    return [(above, state)] if above or not isinstance(state, dict | list | None) else []


def _lists(state: Json, above: Steps, depth: int) -> list[tuple[Steps, list[Json]]]:
    if depth > DEPTH_MAX:
        return []
    if isinstance(state, dict):
        return [found for name, each in state.items() for found in _lists(each, (*above, name), depth + 1)]
    if isinstance(state, list):
        inner = [found for number, each in enumerate(state) for found in _lists(each, (*above, number), depth + 1)]
        return [(above, state), *inner]
    return []


def look_in(state: Json, steps: Steps) -> Json:
    """Return the value at a path of a state; None without one."""
    here = state
    for step in steps:
        if isinstance(here, dict) and isinstance(step, str):
            here = here.get(step)
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        else:
            return None
    return here


def named(steps: Steps) -> str:
    """Return a path as text: `lines[0].name`."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"['{step}']"
    return text or "the state"
