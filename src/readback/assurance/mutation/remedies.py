"""Candidates for a postcondition against a wrong world, the most general first. `trial` tests each candidate.

A field is compared with an argument of the same value, then with the state before, then with a constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from readback.assurance.mutation.world_mutants import DUPLICATE, WorldMutant, look_in
from readback.canon import Json, payload_bytes
from readback.contracts.examples import Example, Steps

_PLAIN: Final = (None, True, False, "", 0)
"""Values of many fields by chance: no evidence for a link between field and argument."""


def clauses_for(example: Example, world: WorldMutant) -> Iterator[str]:
    """Yield the candidates. `example`: the right state behind the wrong world."""
    if not world.steps:
        return
    here = path_text("authoritative", world.steps)
    value, old = look_in(example.state, world.steps), look_in(example.before, world.steps)
    past = path_text("before", world.steps)
    if world.kind == DUPLICATE and isinstance(value, list):
        yield from _sizes(here, past, value, old)
    for steps, asked in _values(dict(example.requested)):
        if asked == value and not (isinstance(value, bool) or value in _PLAIN):
            yield f"{here} == {path_text('requested', steps)}"
    if example.has_before and isinstance(value, int) and isinstance(old, int) and not isinstance(value, bool):
        for steps, asked in _values(dict(example.requested)):
            if isinstance(asked, int) and old + asked == value:
                yield f"{here} == {past} + {path_text('requested', steps)}"
            if isinstance(asked, int) and old - asked == value:
                yield f"{here} == {past} - {path_text('requested', steps)}"
    if example.has_before and old == value:
        yield f"before == null || {here} == {past}"
    yield f"{here} == {payload_bytes(value).decode()}"


def _sizes(here: str, past: str, value: list[Json], old: Json) -> Iterator[str]:
    if isinstance(old, list) and len(value) >= len(old):
        yield f"{here}.size() == {past}.size() + {len(value) - len(old)}"
    yield f"{here}.size() == {len(value)}"


def _values(requested: Json) -> Iterator[tuple[Steps, Json]]:
    pending: list[tuple[Steps, Json]] = [((), requested)]
    while pending:
        steps, value = pending.pop(0)
        if isinstance(value, dict):
            pending += [((*steps, name), each) for name, each in value.items()]
        elif isinstance(value, list):
            pending += [((*steps, number), each) for number, each in enumerate(value)]
        else:
            yield steps, value


def path_text(root: str, steps: Steps) -> str:
    """Return a path as an expression: `authoritative.lines[0].name`."""
    text = root
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}"
        else:
            text += f"[{payload_bytes(step).decode()}]"
    return text
