"""What the type checker knows of a saga. Nothing here is run; an unused mark is an error too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_type

from readback import AsyncReadback, Outcome, Readback, SagaOutcome, SagaStep, State, StepOutcome, from_step
from tests.typing.action_types import charge


def steps() -> list[SagaStep]:
    first = charge(account="a", amount=3).as_step("first")
    assert_type(first, SagaStep)
    assert_type(from_step("first", "amount"), Any)
    last = charge(account="a", amount=from_step("first", "amount")).as_step("last", after=("first",), pivot=True)
    charge(account="a", amount=3).as_step("x", after=3)  # type: ignore[arg-type]
    charge(account="a", amount=3).as_step()  # type: ignore[call-arg]
    charge(account=from_step("first", "account"), amount="3")  # type: ignore[arg-type]
    return [first, last]


def sync(rb: Readback) -> None:
    told = rb.saga(steps(), name="trip", operation="op", wait=3.0)
    assert_type(told, SagaOutcome)
    assert_type(told.raise_unless_verified(), SagaOutcome)
    assert_type(told.steps, Mapping[str, StepOutcome])
    assert_type(told.steps["first"].outcome, Outcome | None)
    assert_type(told.steps["first"].state, State | None)
    assert_type(rb.get_saga(told.id), SagaOutcome)
    assert_type(rb.get(told.id), Outcome)
    rb.saga([charge(account="a", amount=3)])  # type: ignore[list-item]
    told.steps = {}  # type: ignore[misc]


async def on_a_loop(rb: AsyncReadback) -> None:
    assert_type(await rb.saga(steps()), SagaOutcome)
    assert_type(await rb.get_saga("id"), SagaOutcome)
