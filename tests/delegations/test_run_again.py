"""A delegation that is run again under its operation: what is on record answers, whatever was read of it since."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from readback import AsyncReadback, Readback, Turn
from readback.agent_errors import DelegationFailedError
from readback.delegations.model.words import VerifyOutcome
from readback.domain.state import State
from readback.errors import PayloadConflictError
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.delegations.given import TASK, Desk

LOOKED_AT_AGAIN_SECONDS = 60


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, lies=1)


def opened(desk: Desk, **given: Any) -> tuple[Readback, VirtualRuntime, Any]:
    sent, runtime = desk.delegation(**given), VirtualRuntime()
    client = Readback.open(
        store=MemoryStore(), runtime=runtime, tenant="acme", principal="agent:lead", actions=[sent.action]
    )
    return client, runtime, sent


def look_again(client: Readback, runtime: VirtualRuntime) -> None:
    """What a worker does with attempts that wait for review."""
    runtime.advance(LOOKED_AT_AGAIN_SECONDS)
    assert client.resume()


def counting(desk: Desk) -> Callable[[Mapping[str, object]], dict[str, object]]:
    """A verifier whose reason is another one each time."""
    looks: list[int] = []

    def look(_: Mapping[str, object]) -> dict[str, object]:
        looks.append(1)
        return {"verified": desk.file.exists(), "reason": f"not there at look {len(looks)}"}

    return look


@pytest.mark.requirement("RALPH-bounded")
def test_it_goes_on_after_its_attempts_though_they_were_looked_at_again_since(desk: Desk) -> None:
    desk.lies = 2
    client, runtime, sent = opened(desk, verify=counting(desk))
    with client:
        with pytest.raises(DelegationFailedError):
            sent.run(client, TASK, operation="r", max_verify_retries=1)
        first = [turn.prompt for turn in desk.turns]
        look_again(client, runtime)
        done = sent.run(client, TASK, operation="r")
    assert (done.passed, done.attempts, len(desk.turns)) == (True, 3, 3)
    assert [prompt for prompt, _ in desk.turns[2].history] == first


@pytest.mark.requirement("RALPH-outcome")
def test_what_has_passed_has_passed_though_its_refuted_attempt_is_read_again_after_it(desk: Desk) -> None:
    client, runtime, sent = opened(desk)
    with client:
        assert sent.run(client, TASK, operation="r").attempts == 2
        look_again(client, runtime)
        done = sent.run(client, TASK, operation="r")
    assert (done.passed, done.attempts, len(desk.turns)) == (True, 2, 2)


@pytest.mark.requirement("RALPH-outcome")
def test_the_same_holds_for_a_client_that_is_awaited(desk: Desk) -> None:
    async def work(turn: Turn) -> object:
        return desk.work(turn)

    runtime = VirtualRuntime()

    async def both() -> list[tuple[bool, int]]:
        from readback import delegation

        sent = delegation(name="writer", verify=lambda _: desk.file.exists())(work)
        client = AsyncReadback.open(
            store=MemoryStore(), runtime=runtime, tenant="acme", principal="agent:lead", actions=[sent.action]
        )
        async with client:
            one = await sent.run_async(client, TASK, operation="r")
            runtime.advance(LOOKED_AT_AGAIN_SECONDS)
            assert await client.resume()
            two = await sent.run_async(client, TASK, operation="r")
        return [(each.passed, each.attempts) for each in (one, two)]

    assert asyncio.run(both()) == [(True, 2), (True, 2)]
    assert len(desk.turns) == 2


@pytest.mark.requirement("RALPH-bounded")
@pytest.mark.parametrize("decision", ["attest_not_done", "abandon", "attest_done"])
def test_what_a_person_says_of_a_refuted_attempt_sends_nobody_again_for_what_has_passed_since(
    desk: Desk, decision: str
) -> None:
    client, _, sent = opened(desk)
    with client:
        refuted = sent.run(client, TASK, operation="r").outcomes[0]
        packet = client.review(refuted.id)
        client.resolve(refuted.id, decision, expect_version=packet.version, who="human:eve", reason="It lied.")
        done = sent.run(client, TASK, operation="r")
    assert (done.passed, done.attempts, len(desk.turns)) == (True, 2, 2)


@pytest.mark.requirement("RALPH-bounded")
def test_it_goes_on_after_attempts_that_somebody_else_makes_while_it_begins(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.lies, plain, others = 2, Readback.run, ["another process"]
    client, runtime, sent = opened(desk, verify=counting(desk))

    def run(self: Readback, *given: Any, **more: Any) -> Any:
        if others:
            others.clear()
            with pytest.raises(DelegationFailedError):
                sent.run(client, TASK, operation="r", max_verify_retries=1)
            look_again(client, runtime)
        return plain(self, *given, **more)

    monkeypatch.setattr(Readback, "run", run)
    with client:
        done = sent.run(client, TASK, operation="r")
    assert (done.passed, done.attempts, len(desk.turns)) == (True, 3, 3)


@pytest.mark.requirement("RALPH-outcome")
def test_what_somebody_else_sent_again_meanwhile_is_waited_for_though_the_refuted_attempt_is_read_after_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, others = Readback.run, ["another process"]
    client, runtime, sent = opened(desk)

    def run(self: Readback, *given: Any, **more: Any) -> Any:
        told = plain(self, *given, **more)
        if not others:
            return told
        others.clear()
        assert sent.run(client, TASK, operation="r").passed
        look_again(client, runtime)
        return client.get(told.id)  # as whoever waited for it is told it now

    monkeypatch.setattr(Readback, "run", run)
    with client:
        done = sent.run(client, TASK, operation="r")
    assert (done.passed, done.attempts, len(desk.turns)) == (True, 2, 2)


def test_another_task_under_the_same_operation_is_refused_whatever_is_on_record(desk: Desk) -> None:
    client, _, sent = opened(desk)
    with client:
        sent.run(client, TASK, operation="r")
        with pytest.raises(PayloadConflictError):
            sent.run(client, "Something else.", operation="r")
    assert len(desk.turns) == 2


def test_attempts_on_record_answer_also_where_fewer_may_be_made_now(desk: Desk) -> None:
    client, _, sent = opened(desk)
    with client:
        sent.run(client, TASK, operation="r")
        done = sent.run(client, TASK, operation="r", max_verify_retries=0)
    assert (done.passed, done.attempts, len(desk.turns)) == (True, 2, 2)


@pytest.mark.requirement("RALPH-bounded")
@pytest.mark.parametrize(("decision", "state"), [("attest_done", State.REVIEW_REQUIRED), ("abandon", State.ABANDONED)])
def test_what_a_person_called_done_or_stopped_for_good_is_not_sent_again(
    desk: Desk, decision: str, state: State
) -> None:
    client, _, sent = opened(desk)
    with client:
        with pytest.raises(DelegationFailedError):
            sent.run(client, TASK, operation="r", max_verify_retries=0)
        (refuted,) = client.list()
        packet = client.review(refuted.id)
        client.resolve(refuted.id, decision, expect_version=packet.version, who="human:eve", reason="I saw to it.")
        done = sent.run(client, TASK, operation="r")
    assert (done.verify_outcome, len(desk.turns), done.outcomes[0].state) == (VerifyOutcome.UNDETERMINED, 1, state)
    assert done.exit_code != 0
