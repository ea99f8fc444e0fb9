"""A reading counts from when it began: one that began inside the window does not close it, however long it took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from readback.client.authoring.action import ActionDefinition, action
from readback.client.client import Readback
from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.state import State
from readback.domain.verification.reading import Reading
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.sightings import prove

SLOW_S = 0.3
WITHIN_US = 1_000_000


@dataclass
class Lamp:
    """A source that takes its time; what it shows is what held when it was asked. `on_at_us` None: never."""

    runtime: VirtualRuntime
    on_at_us: int | None = None
    asked_us: list[int] = field(default_factory=list)

    def look(self) -> Reading:
        now_us = self.runtime.now_us()
        self.asked_us.append(now_us)
        shown = self.on_at_us is not None and now_us >= self.on_at_us
        self.runtime.advance(SLOW_S)
        value = {"id": "l-1", "tenant": "acme", "on": shown}
        return Reading.of(value, version=2 if shown else 1)


def _switch(lamp: Lamp, near: str) -> ActionDefinition[Any]:
    @action(
        kind="set",
        side_effect="low_risk_internal",
        target="lamp/l-1",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
        ensure={"on": "authoritative.on"},
        within="1s",
        polls=["0s", "0s", "0s", "0s"],  # one after another, until one crosses the close
        late_window="1s",
    )
    def switch(ctx: Context) -> object:
        return {"status": "ok"}

    if near:

        @switch.read(source=near, consistency="replica", independence="other_client")
        def near_lamp(ctx: Context) -> Reading:
            return lamp.look()

    @switch.read(source="lamps", consistency="strong", independence="other_client")
    def lamp_itself(ctx: Context) -> Reading:
        return lamp.look()

    @switch.find(complete=True)
    def anywhere(ctx: Context) -> list[Reading]:
        return []

    return switch


def _run(on_after_us: int | None, near: str) -> tuple[Lamp, Any, int]:
    runtime = VirtualRuntime()
    lamp = Lamp(runtime)
    store = MemoryStore()
    prove(store, "acme", _switch(lamp, near).plan)
    with Readback.open(store=store, runtime=runtime, tenant="acme", principal="agent:x") as rb:
        began_us = runtime.now_us()
        lamp.on_at_us = None if on_after_us is None else began_us + on_after_us
        return lamp, rb.run(_switch(lamp, near)()), began_us


@pytest.mark.parametrize("near", ["", "near"])
def test_a_reading_that_crosses_the_close_is_followed_by_one_after_it(near: str) -> None:
    lamp, outcome, began_us = _run(None, near)
    assert lamp.asked_us[-1] >= began_us + WITHIN_US
    assert (outcome.state, outcome.discrepancy) == (State.FAILED, Discrepancy.NO_OP_FAILURE)
    assert outcome.postconditions[0].values


@pytest.mark.parametrize("near", ["", "near"])
def test_what_lands_while_the_last_reading_but_one_is_under_way_is_told(near: str) -> None:
    lamp, outcome, began_us = _run(WITHIN_US + 250_000, near)
    assert outcome.verified, (outcome.state, outcome.detail, [at - began_us for at in lamp.asked_us])
