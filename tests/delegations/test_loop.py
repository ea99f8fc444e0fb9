"""The bounded loop: the same delegate is sent again while a reading refutes it, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from readback import Context, Reading, Turn, delegation, reader
from readback.agent_errors import DelegationFailedError, ScriptError
from readback.canon import ReadbackError
from readback.delegations.model.words import PROMPT, RETRIES_MAX, VerifyOutcome, prompt_again
from readback.domain.state import State
from readback.errors import ArgumentError, HonestyError, ToolTimeoutError, UsageError
from tests.delegations.given import TASK, Desk, opened, opened_async


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.requirement("RALPH-outcome")
def test_what_is_there_passes_at_once(desk: Desk) -> None:
    with opened() as client:
        done = desk.delegation(max_verify_retries=0).run(client, TASK)
    assert (done.passed, done.attempts, len(desk.turns), done.exit_code) == (True, 1, 1, 0)
    assert done.response == "Done."
    assert done.outcomes[0].verified


@pytest.mark.requirement("RALPH-fixed-prompt")
def test_a_delegate_that_lied_is_told_the_reason_in_the_fixed_words_and_keeps_its_task(desk: Desk) -> None:
    desk.lies = 1
    with opened() as client:
        done = desk.delegation().run(client, TASK)
    first, second = desk.turns
    assert first.prompt == TASK
    assert second.prompt == PROMPT.replace("{reason}", "no such file") + "\n\nThe task:\n" + TASK
    assert (done.passed, done.attempts) == (True, 2)


@pytest.mark.requirement("RALPH-same-delegate")
def test_it_is_the_same_conversation_in_which_the_delegate_sees_what_it_claimed(desk: Desk) -> None:
    desk.lies = 2
    with opened() as client:
        desk.delegation().run(client, TASK)
    assert desk.turns[0].history == ()
    assert desk.turns[2].history == ((TASK, "Done."), (desk.turns[1].prompt, "Done."))
    assert desk.turns[2].transcript.index(TASK) < desk.turns[2].transcript.rindex("VERIFICATION FAILED")
    assert {turn.delegation for turn in desk.turns} == {desk.turns[0].delegation}


@pytest.mark.requirement("RALPH-bounded")
@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_delegate_that_goes_on_lying_ends_in_a_typed_error(desk: Desk, retries: int) -> None:
    desk.lies = 99
    with opened() as client, pytest.raises(DelegationFailedError) as ended:
        desk.delegation(max_verify_retries=retries).run(client, TASK)
    error = ended.value
    assert (error.kind, error.attempts, error.reason) == ("verification_failed", retries + 1, "no such file")
    assert error.exit_code == 1
    assert len(desk.turns) == retries + 1
    assert error.delegated.verify_outcome is VerifyOutcome.FAILED  # type: ignore[attr-defined]


def test_two_is_how_often_it_is_sent_again_where_nobody_says(desk: Desk) -> None:
    desk.lies = 99
    with opened() as client, pytest.raises(DelegationFailedError, match=r"after 3 attempt\(s\)"):
        desk.delegation().run(client, TASK)


def test_every_attempt_stands_in_the_ledger_whatever_the_next_one_does(desk: Desk) -> None:
    desk.lies = 1
    with opened() as client:
        done = desk.delegation().run(client, TASK, operation="report-1")
        told = {outcome.operation: outcome for outcome in client.list()}
    assert told["report-1/0"].state is State.REVIEW_REQUIRED
    assert told["report-1/1"].verified
    assert [outcome.id for outcome in done.outcomes] == [told["report-1/0"].id, told["report-1/1"].id]


def test_it_is_read_again_on_its_schedule_before_the_delegate_is_sent_again(desk: Desk) -> None:
    looks: list[int] = []

    def slow(_: Mapping[str, object]) -> bool:
        looks.append(1)
        return len(looks) > 2  # what was done shows only at the third look

    with opened() as client:
        done = desk.delegation(verify=slow).run(client, TASK)
    assert (done.passed, done.attempts, len(desk.turns), len(looks)) == (True, 1, 1, 3)


def test_what_cannot_be_told_never_sends_a_delegate_again(desk: Desk) -> None:
    with opened() as client:
        done = desk.delegation(verify=lambda _: None).run(client, TASK)
    assert (done.verify_outcome, len(desk.turns)) == (VerifyOutcome.UNDETERMINED, 1)
    assert not done.passed
    assert done.exit_code != 0
    with pytest.raises(HonestyError):
        bool(done)


def test_a_delegate_without_an_answer_may_still_be_at_work_and_is_not_sent_again(desk: Desk) -> None:
    def lost(turn: Turn) -> object:
        desk.turns.append(turn)
        raise ToolTimeoutError("no answer")

    sent = delegation(name="lost", verify=lambda _: False)(lost)
    with opened() as client:
        done = sent.run(client, TASK)
    assert (done.verify_outcome, len(desk.turns)) == (VerifyOutcome.UNDETERMINED, 1)
    assert "may still be at work" in done.reason


@pytest.mark.parametrize("by_script", [True, False])
def test_a_delegate_s_answer_does_not_choose_by_which_id_it_is_looked_for(desk: Desk, by_script: bool) -> None:
    (desk.folder / "other").write_text("somebody else's work")

    def steered(turn: Turn) -> object:
        desk.turns.append(turn)
        return {"response": "Done.", "id": "other", "tool_calls": []}

    script = 'def run(result):\n    return fs.exists(args["folder"] + "/" + result["id"])\n'
    look = script if by_script else lambda result: (desk.folder / str(result["id"])).exists()
    sent = delegation(
        name="steered", verify=look, allow={"fs": [str(desk.folder)]}, max_verify_retries=0, within="100ms"
    )(steered)
    with opened() as client, pytest.raises(DelegationFailedError):
        sent.run(client, TASK, operation="mine", args={"folder": str(desk.folder)})


@pytest.mark.parametrize("given", [{"task": None}, {"task": 7}, {"task": TASK, "args": ["x"]}])
def test_a_task_and_arguments_that_are_none_are_refused_before_anything_is_sent(
    desk: Desk, given: dict[str, Any]
) -> None:
    with opened() as client, pytest.raises(ArgumentError):
        desk.delegation().run(client, **given)
    assert desk.turns == []


@pytest.mark.parametrize("verify", [None, lambda _: True])
@pytest.mark.parametrize("lost", [ToolTimeoutError("no answer"), ConnectionResetError("gone")])
def test_a_delegate_without_an_answer_is_not_sent_again_by_a_system_of_record_either(
    desk: Desk, lost: Exception, verify: Any
) -> None:
    @reader(source="folder", consistency="strong", independence="other_client")
    def report(ctx: Context, delegation: str) -> Reading:
        return Reading.of({"there": desk.file.exists(), "target": ctx.target, "tenant": ctx.tenant})

    def sent(turn: Turn) -> object:
        desk.turns.append(turn)
        raise lost

    made = delegation(
        name="lost",
        verify=verify,
        readers=[report],
        ensure={"there": "authoritative.there == true"},
        identity={"target": "authoritative.target", "tenant": "authoritative.tenant"},
        late_window="0s",
    )(sent)
    with opened() as client:
        done = made.run(client, TASK)
    assert (done.verify_outcome, len(desk.turns), done.passed) == (VerifyOutcome.UNDETERMINED, 1, False)
    assert done.exit_code in (3, 4)
    assert "may still be at work: there does not hold" in done.reason


def test_a_delegate_that_failed_after_it_did_the_work_did_it(desk: Desk) -> None:
    def lost(turn: Turn) -> object:
        desk.work(turn)
        raise ToolTimeoutError("no answer")

    with opened() as client:
        done = delegation(name="lost", verify=lambda _: desk.file.exists())(lost).run(client, TASK)
    assert done.passed


@pytest.mark.requirement("RALPH-verifier-error")
def test_a_verifier_that_breaks_is_an_error_and_neither_accepts_nor_sends_again(desk: Desk) -> None:
    def broken(_: Mapping[str, object]) -> object:
        raise ZeroDivisionError("division by zero")

    with opened() as client, pytest.raises(ScriptError, match="ZeroDivisionError") as ended:
        desk.delegation(verify=broken).run(client, TASK)
    assert (ended.value.exit_code, ended.value.kind, len(desk.turns)) == (5, "verification_failed", 1)
    assert ended.value.delegated.outcomes[0].why.value == "verifier_error"  # type: ignore[attr-defined]


def test_without_a_verifier_nothing_is_verified_and_that_is_said(desk: Desk) -> None:
    with opened() as client:
        done = desk.delegation(verify=None).run(client, TASK)
    assert (done.verify_outcome, done.attempts, done.passed) == (VerifyOutcome.SKIPPED, 0, False)
    assert done.response == "Done."
    assert done.exit_code == 3


def test_postconditions_over_a_system_of_record_are_verifiers_too(desk: Desk) -> None:
    @reader(source="folder", consistency="strong", independence="other_client")
    def report(ctx: Context, delegation: str) -> Reading:
        return Reading.of({"there": desk.file.exists(), "target": ctx.target, "tenant": ctx.tenant})

    desk.lies = 1
    sent = desk.delegation(
        verify=None,
        readers=[report],
        ensure={"there": "authoritative.there == true"},
        identity={"target": "authoritative.target", "tenant": "authoritative.tenant"},
        late_window="0s",  # once the delegate has answered, nothing of it lands any more
    )
    with opened() as client:
        done = sent.run(client, TASK)
    assert (done.passed, done.attempts) == (True, 2)
    assert "there does not hold: authoritative.there == true" in desk.turns[1].prompt


def test_the_same_operation_is_answered_from_the_record(desk: Desk) -> None:
    desk.lies = 1
    sent = desk.delegation()
    with opened() as client:
        first = sent.run(client, TASK, operation="report-1")
        again = sent.run(client, TASK, operation="report-1")
    assert len(desk.turns) == 2
    assert (again.attempts, again.passed, again.response) == (first.attempts, True, first.response)


def test_a_loop_that_was_cut_off_goes_on_with_the_next_attempt(desk: Desk) -> None:
    desk.lies = 1
    with opened() as client:
        with pytest.raises(DelegationFailedError):
            desk.delegation(max_verify_retries=0).run(client, TASK, operation="report-1")
        done = desk.delegation().run(client, TASK, operation="report-1")
    assert (done.passed, len(desk.turns), desk.turns[1].history) == (True, 2, ((TASK, "Done."),))


@pytest.mark.requirement("RALPH-attributes")
def test_the_attributes_of_the_span_are_told_on_every_path(desk: Desk) -> None:
    def broken(_: Mapping[str, object]) -> object:
        raise ValueError("broken")

    def told(**given: Any) -> dict[str, Any]:
        desk.turns.clear()
        desk.file.unlink(missing_ok=True)
        try:
            with opened() as client:
                desk.delegation(**given).run(client, TASK, operation="o")
        except ReadbackError:
            pass
        return desk.ends.pop()

    common = {"delegation.id": "o", "delegation.kind": "writer"}
    names = ("delegation.verify_attempts", "delegation.verify_passed", "delegation.verify_outcome")
    expected = {
        "passed": ({}, (1, True, "passed")),
        "failed": ({"verify": lambda _: False, "max_verify_retries": 1}, (2, False, "failed")),
        "skipped": ({"verify": None}, (0, False, "skipped")),
        "open": ({"verify": lambda _: None}, (1, False, "undetermined")),
        "broken": ({"verify": broken}, (1, False, "undetermined")),
        "not loaded": ({"verify": "this is not valid starlark!!"}, (0, False, "undetermined")),
    }
    for given, values in expected.values():
        assert told(**given) == {**common, **dict(zip(names, values, strict=True))}


def test_the_async_client_loops_the_same_way(desk: Desk) -> None:
    desk.lies = 1

    async def work(turn: Turn) -> object:
        return desk.work(turn)

    sent = delegation(name="writer", verify=lambda _: desk.file.exists())(work)

    async def main() -> None:
        async with opened_async() as client:
            done = await sent.run_async(client, TASK)
            assert (done.passed, done.attempts, len(desk.turns)) == (True, 2, 2)

    asyncio.run(main())


def test_what_makes_no_sense_is_refused_before_anything_is_sent(desk: Desk) -> None:
    for wrong in (-1, RETRIES_MAX + 1, True, 1.5):
        with pytest.raises(UsageError):
            desk.delegation(max_verify_retries=wrong)
    with opened() as client:
        for task in ("", "   ", "x" * 100_001):
            with pytest.raises(ArgumentError):
                desk.delegation().run(client, task)
        with pytest.raises(ArgumentError):
            desk.delegation().run(client, TASK, args={"x": object()})
    with pytest.raises(UsageError, match="need a reader"):
        desk.delegation(ensure={"there": "authoritative.there"})
    assert not desk.turns


def test_a_reason_cannot_put_words_into_the_template_and_is_bounded() -> None:
    told = prompt_again("{reason} stays", "{task} " + "x" * 9_000)
    assert told.startswith("VERIFICATION FAILED on the previous attempt: {task} xxx")
    assert told.endswith("The task:\n{reason} stays")
    assert len(told) < 2_500


def test_an_answer_that_is_too_long_to_keep_whole_is_no_answer(desk: Desk) -> None:
    with opened() as client:
        done = delegation(name="long", verify=lambda _: False)(lambda _: "x" * 300_000).run(client, TASK)
    assert done.verify_outcome is VerifyOutcome.UNDETERMINED
