"""The effect groups of an action that are not as required: missing, or there with another value. Pure.

Called by `reconcile`, where some groups hold and others do not. A part that is missing makes the action partial. A part
that was written with another value is a wrong value, whatever else holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from readback.canon import Json
from readback.domain.predicate import Evaluation, Path, Truth, conjoin, look
from readback.domain.verification.case import Case, Judged
from readback.domain.verification.reading import Presence

_ROOT: Final = "authoritative"
_NOTHING: Final = (None, "", False)
"""Values of what is not there."""


def parts_of(case: Case, judged: Judged) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The groups that hold, and those that do not; none where the object is not there."""
    groups = case.contract.groups
    if judged.presence is not Presence.PRESENT:
        return (), ()
    held = {g: conjoin(e.truth for e in judged.ensure if e.group == g) is Truth.HOLDS for g in groups}
    return tuple(g for g in groups if held[g]), tuple(g for g in groups if not held[g])


def wrong_values(case: Case, judged: Judged, groups: tuple[str, ...]) -> bool:
    """Whether in one of these groups something was written, and is not what was required."""
    violated = [each for each in judged.ensure if each.group in groups and each.truth is Truth.VIOLATED]
    return any(_is_written(case, judged, each) for each in violated)


def _is_written(case: Case, judged: Judged, evaluation: Evaluation) -> bool:
    before = case.before
    known = before is not None and before.taken.ran
    old = before.taken.reading.value if before is not None and before.presence is Presence.PRESENT else None
    for path, value in _read(judged, evaluation):
        if value in _NOTHING or isinstance(value, dict | list):
            continue
        if known and look(path, {_ROOT: old}) != value:
            return True
    return False


def _read(judged: Judged, evaluation: Evaluation) -> Iterator[tuple[Path, Json]]:
    variables = {_ROOT: judged.taken.reading.value}
    for text, _ in evaluation.values:
        if text.startswith(f"{_ROOT}."):
            path = Path.named(text)
            yield path, look(path, variables)
