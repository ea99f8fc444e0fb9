"""The decision tables as a person reads them: no row, condition or limit changes unseen.

After an intended change: `python -m tests.unit.test_domain_golden` shows the difference, and with `--accept` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from pathlib import Path

import pytest

from readback.domain.finding import Finding
from readback.domain.recovery.action import ActionEffect
from readback.domain.recovery.rule import DOMAINS, Condition, Situation
from readback.domain.recovery.table import DEFAULT_TABLE, EFFECTS, review_trigger
from readback.domain.side_effect import DEPTHS, DEPTHS_VERSION, SideEffect
from tests.golden.rewrite import rewrite

GOLDEN = Path(__file__).parent.parent / "golden" / "tables"
FOR_PEOPLE = {"required_check", "source", "fallback", "latency_tolerance", "review_trigger"}


def said(value: object) -> str:
    """A value as it is written in a golden text."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, frozenset):
        return " ".join(sorted(said(one) for one in value)) or "-"
    if isinstance(value, tuple):
        return " ".join(said(one) for one in value) or "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def condition(one: Condition) -> str:
    return ", ".join(f"{name}={'|'.join(said(value) for value in one[name])}" for name in sorted(one)) or "always"


def recovery_rows() -> Iterator[str]:
    """Every row in its order: what it is for, what is done, and each of the conditions under which."""
    for row in DEFAULT_TABLE.rows:
        whose = "ours" if row.ours else "printed"
        yield f"{row.id} | {row.finding.value} | {row.label} | {whose} | {row.action.value} -> {row.target_state.value}"
        yield from (f"    {condition(one)}" for one in row.when)
    yield f"version {DEFAULT_TABLE.version}"


def recovery_effects() -> Iterator[str]:
    """What each action entails."""
    for action, effect in EFFECTS.items():
        flags = [name for name in ("opens_review", "opens_incident", "freezes") if getattr(effect, name)]
        yield f"{action.value} -> {effect.target_state.value} {' '.join(flags)}".rstrip()


def depths() -> Iterator[str]:
    """The depth of each class, without the texts for people, which the version covers too."""
    for row in DEPTHS.values():
        yield row.side_effect.value
        for field in fields(row):
            if field.name not in FOR_PEOPLE | {"side_effect"}:
                yield f"    {field.name}: {said(getattr(row, field.name))}"
    yield f"version {DEPTHS_VERSION}"


def review_triggers() -> Iterator[str]:
    """Which review a finding opens by itself in each class: strongly read, after its window."""
    plain = {name: values[0] for name, values in DOMAINS.items()}
    for finding in Finding:
        pulled = []
        for side_effect in SideEffect:
            for repeated in (False, True):
                situation = Situation(**{**plain, "side_effect": side_effect, "repeated": repeated})  # type: ignore[arg-type]
                trigger = review_trigger(finding, situation)
                pulled.append(trigger.value if trigger else "-")
        yield f"{finding.value}: {' '.join(pulled)}"


TEXTS = {each.__name__: each for each in (recovery_rows, recovery_effects, depths, review_triggers)}


def rendered(name: str) -> str:
    return "\n".join(TEXTS[name]()) + "\n"


@pytest.mark.parametrize("name", TEXTS)
def test_a_table_says_what_it_said(name: str) -> None:
    assert rendered(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_an_action_entails_nothing_that_is_not_said() -> None:
    effect = ActionEffect(EFFECTS[next(iter(EFFECTS))].target_state)
    assert (effect.opens_review, effect.opens_incident, effect.freezes) == (False, False, False)


def test_a_situation_was_not_searched_unless_that_is_said() -> None:
    plain = {name: values[0] for name, values in DOMAINS.items() if name != "searched"}
    assert Situation(**plain).searched is False  # type: ignore[arg-type]


if __name__ == "__main__":
    raise SystemExit(rewrite({GOLDEN / f"{name}.txt": rendered(name) for name in TEXTS}, sys.argv[1:], owned="*.txt"))
