"""A lease that is taken the moment after somebody else moved its action on: nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from readback.drivers.interpreter import EffectInterpreter as StoreDesk
from readback.engine.effects import Lease, Leased
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, ship_of

LEASED_SECONDS = 3_600


class _Overtaken(MemoryStore):
    """A store in which something happens before a lease is taken, once."""

    before: Callable[[], object] | None = None

    def lease(self, *given: Any, **more: Any) -> int | None:
        happens, self.before = self.before, None
        if happens is not None:
            happens()
        return super().lease(*given, **more)


@pytest.mark.requirement("HS-14")
def test_a_lease_of_what_somebody_moved_on_in_between_is_given_back() -> None:
    """Who had asked waited then for whoever held it, which was himself: for as long as a call may take."""
    desk, runtime, store = Desk(), VirtualRuntime(), _Overtaken()
    desk.instead = lambda _ctx: (200, {"status": "ok"})  # it shows later
    ship = ship_of(desk)
    with opened(store, runtime, actions=[ship]) as rb:
        waiting = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one", wait=0)
        there = store.projection(waiting.id)
        assert there is not None
        other = opened(store.reopened(), runtime.sibling("another/1"), actions=[ship])
        runtime.advance(3)
        store.before = other.resume
        asked = Lease(waiting.id, runtime.now_us() + LEASED_SECONDS * 1_000_000, there.version)
        told = StoreDesk(store, runtime).answer(asked)
        other.close()
        assert isinstance(told, Leased)
        assert told.fence is None
        assert told.version > there.version, "it was moved on"
        held = store.projection(waiting.id)
        assert held is not None
        assert held.projection.lease_until_us <= runtime.now_us()
        desk.instead = None
        desk.order().update(status="shipped", carrier="dhl", stamp=waiting.stamp)
        began_us = runtime.now_us()
        assert rb.wait(waiting.id).verified
        assert runtime.now_us() - began_us < LEASED_SECONDS * 1_000_000
