"""What stays behind: no password in the ledger, and enough of everything else to go on after a process died."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest

from readback.client.client import Readback
from readback.domain.verdict import Attribution
from readback.ports.storage.store import Append, AppendResult
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.agentdojo import loader, replay
from tests.agentdojo.world import Arguments, World


class Died(BaseException):
    """The process ends here, after the tool had its effect and before anything was recorded of it."""


class Mortal(MemoryStore):
    """A store whose process dies: from then on nothing is appended by it."""

    dead = False

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        if self.dead:
            raise Died
        return super().append(batch)

    def dying(self, world: World, tool: str, arguments: Arguments) -> object:
        """The way in which a call goes."""
        world.really(tool, arguments)
        self.dead = True
        raise Died


def test_a_password_is_verified_and_stays_out_of_the_ledger(suites: dict[str, loader.Suite]) -> None:
    suite = suites["banking"]
    stage, store = replay.Stage(suite), MemoryStore()
    stage.world.set_up(suite.environment(), VirtualRuntime())
    tenant, principal = replay.WHO["banking"]
    change = stage.actions["update_password"]
    with Readback.open(tenant=tenant, principal=principal, store=store, runtime=stage.world.runtime) as rb:
        outcome = rb.run(change(password="1j1l-2k3j"), operation="change it")
        assert outcome.verified
        kept = b"".join(
            [event.envelope for event in store.scan()] + [each.body for each in store._content.evidence.values()]
        )
    for secret in ("1j1l-2k3j", "password123"):
        assert secret.encode() not in kept
        assert hashlib.sha256(secret.encode()).hexdigest().encode() not in kept


@pytest.mark.parametrize("name", loader.SUITES)
def test_a_process_that_died_in_the_tool_is_gone_on_with_and_nothing_is_done_twice(
    suites: dict[str, loader.Suite], name: str
) -> None:
    """The effect is told as ours by another process: what was there before is in the ledger."""
    stage = replay.Stage(suites[name])
    tenant, principal = replay.WHO[name]
    calls = [call for call in replay.distinct(suites[name]) if call.tool != "update_password"]
    for call in calls:
        store, runtime = Mortal(), VirtualRuntime()
        stage.world.set_up(call.environment.model_copy(deep=True), runtime, store.dying)
        action = stage.actions[call.tool]
        mine = Readback.open(tenant=tenant, principal=principal, store=store, runtime=runtime)
        with pytest.raises(Died), mine:
            mine.run(action(**call.arguments), operation="once")
        runtime.declare_gone(runtime.owner())
        other = runtime.sibling("virtual/2")
        opened = Readback.open(
            tenant=tenant, principal=principal, store=store.reopened(), runtime=other, actions=[action]
        )
        with opened as rb:
            rb.resume()
            (outcome,) = rb.list()
            outcome = rb.wait(outcome.id)
            replayed = rb.run(action(**call.arguments), operation="once")
        assert outcome.verified, call.name
        assert replayed.replayed
        assert replayed.verified
        assert len(stage.world.calls) == 1
        if action.contract.kind.needs_ours:
            assert outcome.attribution is Attribution.OURS, call.name
