"""Verification by an envelope: what passes, what fails, what is inconclusive, and what of that may proceed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from readback import Context, Outcome, Readback, State, Verdict, action
from readback.agent_errors import BindingError
from readback.decisions.model.words import VerificationResultWord
from readback.domain.verdict import Why
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.decisions.given import ABSENT, CORPUS, COUNTS, asking, decide, kind_of, kinds, verifier
from tests.sdk.given import TERMS, Desk, opened, opened_async, ship_async_of, ship_of

WHO = {"tenant": "acme", "principal": "agent:ops"}
BLIND: dict[str, Any] = {
    "name": "ship",
    "kind": "set",
    "side_effect": "low_risk_internal",
    "target": "x",
    "ensure": {"sent": "authoritative.sent == true"},
    "unverifiable": "no record",
}
SEED = """
from engine.verifier_base import VerificationResult

def verify(context: dict) -> VerificationResult:
    target_id = context["action"]["targetRefs"][0]["id"]
    # ... check the resource
    ok = fetch_status(target_id) == "active"
    return VerificationResult(
        outcome="pass" if ok else "fail",
        detail=f"Status check for {target_id}: {'ok' if ok else 'failed'}",
    )
"""
ANSWERING = """
from readback import VerificationResult

def verify(context):
    return VerificationResult(outcome={outcome!r}, detail="looked")
"""


def methods(decided: Any) -> dict[str, Any]:
    return dict(decided.episode["verification"]["details"]["methods"])


def told(outcome: Outcome | None) -> Outcome:
    assert outcome is not None
    return outcome


@pytest.mark.requirement("DT-proceed", "DT-inconclusive-safe")
@pytest.mark.parametrize("answers", ["pass", "fail"])
def test_what_was_verified_before_without_a_verifier_does_not_proceed_under_an_envelope_that_asks_for_it(
    tmp_path: Path, answers: str
) -> None:
    folder = verifier(tmp_path, ANSWERING.format(outcome=answers))
    kind = kind_of(tmp_path, folder, verification=asking("read_after_write", "my_verifier"))
    desk = Desk()
    with opened() as rb:
        assert rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="ship o-1").verified
        found = decide(kind, desk, rb=rb)
    assert desk.calls == 1
    assert (found.verification, found.proceed, found.exit_code) == (VerificationResultWord.INCONCLUSIVE, False, 3)
    assert [methods(found)[name]["result"] for name in ("read_after_write", "my_verifier")] == ["pass", "inconclusive"]
    assert "without my_verifier" in str(found.episode["outcome"])


@pytest.mark.requirement("DT-proceed", "DT-inconclusive-safe")
def test_what_was_verified_before_its_contract_had_the_invariant_does_not_proceed_as_if_it_held(tmp_path: Path) -> None:
    kind = kind_of(tmp_path, verification=asking("invariant_check"))
    desk = Desk()
    with opened() as rb:
        assert rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="ship o-1").verified
        ensure = {**TERMS["ensure"], "stocked": "authoritative.version >= 100"}
        found = decide(kind, desk, rb=rb, action=ship_of(desk, ensure=ensure))
    assert desk.calls == 1
    assert (found.verification, found.proceed, found.exit_code) == (VerificationResultWord.INCONCLUSIVE, False, 3)
    assert methods(found) == {"invariant_check": {"result": "inconclusive"}}
    assert "without stocked" in str(found.episode["outcome"])


# --- read_after_write ---


@pytest.mark.requirement("DT-read-after-write", "DT-proceed")
def test_what_is_read_back_in_time_passes_and_proceeds(tmp_path: Path) -> None:
    desk = Desk()
    found = decide(kind_of(tmp_path), desk)
    assert (found.verification, found.proceed, found.exit_code) == (VerificationResultWord.PASS, True, 0)
    assert methods(found) == {"read_after_write": {"result": "pass"}}
    assert found.drifts == ()
    assert desk.calls == 1


@pytest.mark.requirement("DT-drift", "DT-proceed")
def test_a_tool_that_lies_fails_with_a_yellow_drift(tmp_path: Path) -> None:
    desk = Desk(instead=lambda _ctx: {"status": "ok", "success": True})
    found = decide(kind_of(tmp_path), desk, action=ship_of(desk, late_window="0s"))
    assert (found.verification, found.proceed) == (VerificationResultWord.FAIL, False)
    assert told(found.outcome).verdict is Verdict.REFUTED
    assert ("verify", "yellow") in kinds(found)
    assert found.degraded.word == "hitl"
    assert found.exit_code != 0
    assert desk.calls == 1


@pytest.mark.requirement("DT-drift", "DT-inconclusive-safe")
def test_a_source_that_does_not_answer_is_inconclusive_and_looked_at_no_longer_than_its_time(tmp_path: Path) -> None:
    def down(_ctx: Any) -> None:
        if desk.calls:
            raise ConnectionError("no answer")

    desk = Desk(looking=down)
    runtime = VirtualRuntime()
    with opened(runtime=runtime) as rb:
        began = runtime.now_us()
        found = decide(kind_of(tmp_path), desk, rb=rb)
        assert runtime.now_us() - began <= 2_000_000 + 1
    assert (found.verification, found.proceed) == (VerificationResultWord.INCONCLUSIVE, False)
    assert told(found.outcome).verdict is Verdict.UNDETERMINED
    assert [each for each in kinds(found) if each[0] == "verify"] == [("verify", "yellow")]
    assert desk.calls == 1


@pytest.mark.requirement("DT-drift")
def test_what_does_not_come_in_time_is_a_timeout_and_told_in_red(tmp_path: Path) -> None:
    desk = Desk(instead=lambda _ctx: {"status": "accepted"})
    runtime, store = VirtualRuntime(), MemoryStore()
    kind = kind_of(tmp_path, verification={"verifyTimeoutMs": 0}, deadlineMs=5_000)
    with opened(store, runtime) as rb:
        began = runtime.now_us()
        found = decide(kind, desk, rb=rb, action=ship_of(desk, within="20s"))
        assert runtime.now_us() - began == 5_000_000
    assert (found.verification, found.proceed) == (VerificationResultWord.INCONCLUSIVE, False)
    assert ("verify", "red") in kinds(found)


@pytest.mark.requirement("DT-inconclusive-safe")
def test_what_is_still_open_goes_on_under_its_envelope_in_another_process_and_is_not_executed_again(
    tmp_path: Path,
) -> None:
    desk = Desk(instead=lambda _ctx: {"status": "accepted"})
    runtime, url = VirtualRuntime(), f"sqlite:///{tmp_path / 'ledger.db'}"
    open_end = {"verifyTimeoutMs": 0}
    with Readback.open(url, runtime=runtime, **WHO) as rb:
        action = ship_of(desk, within="20s")
        first = decide(kind_of(tmp_path, verification=open_end, deadlineMs=5_000), desk, rb=rb, action=action)
        assert not told(first.outcome).settled
    desk.order().update(status="shipped", carrier="dhl", stamp=told(first.outcome).stamp, version=1)
    with Readback.open(url, runtime=runtime.sibling("virtual/2"), **WHO) as rb:
        again = decide(
            kind_of(tmp_path, verification=open_end, deadlineMs=5_000),
            desk,
            rb=rb,
            action=ship_of(desk, within="20s"),
        )
    assert (again.verification, desk.calls) == (VerificationResultWord.PASS, 1)
    assert told(again.outcome).id == told(first.outcome).id


@pytest.mark.requirement("DT-proceed")
def test_what_waits_for_an_approval_is_held_and_has_nothing_to_verify(tmp_path: Path) -> None:
    desk = Desk()
    found = decide(kind_of(tmp_path), desk, action=ship_of(desk, approval="required"))
    assert (found.verification, found.proceed, found.exit_code) == (VerificationResultWord.NA, False, 4)
    assert (found.degraded.word, desk.calls) == ("hitl", 0)
    assert found.episode["actions"] == []


@pytest.mark.requirement("DT-drift")
def test_what_is_verified_too_late_is_a_timeout_and_the_action_stays_verified(tmp_path: Path) -> None:
    runtime = VirtualRuntime()

    def slow(_ctx: Any) -> None:
        if desk.calls:
            runtime.sleep(3)

    desk = Desk(looking=slow)
    with opened(runtime=runtime) as rb:
        found = decide(kind_of(tmp_path), desk, rb=rb)
    assert told(found.outcome).verified
    assert (found.verification, found.proceed, found.exit_code) == (VerificationResultWord.INCONCLUSIVE, False, 3)
    assert ("verify", "red") in kinds(found)
    assert found.episode["verification"]["details"]["timedOut"] is True  # type: ignore[index,call-overload]


def test_what_lands_within_the_time_is_waited_for(tmp_path: Path) -> None:
    runtime = VirtualRuntime()
    began = runtime.now_us()

    def late(_ctx: Any) -> object:
        return {"status": "accepted"}

    def landing(ctx: Any) -> None:
        if runtime.now_us() - began >= 500_000 and desk.calls:
            desk.order().update(status="shipped", carrier="dhl", stamp=ctx.stamp, version=1)

    desk = Desk(instead=late, looking=landing)
    with opened(runtime=runtime) as rb:
        found = decide(kind_of(tmp_path), desk, rb=rb)
    assert (found.verification, desk.calls) == (VerificationResultWord.PASS, 1)


@pytest.mark.requirement("DT-methods")
def test_a_contract_that_reads_nothing_back_is_not_bound(tmp_path: Path) -> None:
    desk = Desk()
    action = ship_of(desk, ensure={"stock": "size(authoritative) > 0"})
    kind = kind_of(tmp_path, verification=asking("read_after_write", "invariant_check"))
    assert decide(kind, desk, action=action).proceed  # a condition on the reading alone is both
    with pytest.raises(BindingError, match="invariant_check"):
        decide(kind, desk, action=ship_of(desk, ensure={"c": "authoritative.carrier == requested.carrier"}))


@pytest.mark.requirement("DT-methods")
def test_the_window_and_the_readings_are_narrowed_to_the_time_for_verification(tmp_path: Path) -> None:
    kind = kind_of(tmp_path, verification={"verifyTimeoutMs": 700})
    plan = ship_of(Desk()).plan
    narrowed = kind.plan_of(plan).contract
    assert (narrowed.within_us, narrowed.deadline_us) == (700_000, 700_000)
    assert narrowed.readers[0].timeout_us == 700_000
    assert narrowed.execution.timeout_us <= 10_000_000
    assert narrowed.hash != plan.contract.hash
    assert kind.envelope.sha256[:12] in narrowed.version
    assert kind.plan_of(plan) is kind.plan_of(plan)


@pytest.mark.requirement("DT-methods", "L25")
def test_a_contract_that_cannot_be_verified_as_asked_is_not_bound(tmp_path: Path) -> None:
    folder = verifier(tmp_path, ANSWERING.format(outcome="pass"))
    custom = asking("my_verifier")
    desk = Desk()
    for terms, asked, said in (
        ({"stable_for": "3s"}, asking("read_after_write"), "stable_for"),
        ({"kind": "delete", "ensure": {"gone": "authoritative == null"}}, custom, "a deleted target has no record"),
    ):
        with pytest.raises(BindingError, match=said):
            kind_of(tmp_path, folder, verification=asked).plan_of(ship_of(desk, **terms).plan)

    @action(**BLIND)
    def blind(ctx: Context) -> None: ...

    with pytest.raises(BindingError) as raised:
        kind_of(tmp_path, folder, verification=custom).plan_of(blind.plan)
    problems = raised.value.details["problems"]
    assert isinstance(problems, list)
    assert [each["key"] for each in problems] == ["unverifiable", "readers"]


@pytest.mark.requirement("DT-inconclusive-safe")
def test_a_worker_without_the_envelope_hands_an_open_action_to_a_person(tmp_path: Path) -> None:
    desk = Desk(instead=lambda _ctx: {"status": "accepted"})
    runtime, url = VirtualRuntime(), f"sqlite:///{tmp_path / 'ledger.db'}"
    action_ = ship_of(desk, within="20s")
    with Readback.open(url, runtime=runtime, **WHO) as rb:
        kind = kind_of(tmp_path, verification={"verifyTimeoutMs": 0}, deadlineMs=5_000)
        found = decide(kind, desk, rb=rb, action=action_)
    runtime.sleep(60)
    with Readback.open(url, runtime=runtime.sibling("virtual/2"), actions=[ship_of(desk, within="20s")], **WHO) as rb:
        rb.resume()
        assert rb.get(told(found.outcome).id).state is State.REVIEW_REQUIRED
    assert desk.calls == 1


# --- invariant_check ---


@pytest.mark.requirement("DT-invariant-check", "DT-drift")
def test_an_invariant_that_is_false_fails_with_a_yellow_drift(tmp_path: Path) -> None:
    from readback import invariant_check

    desk = Desk()
    stock = {"left": 1}

    def enough(_ctx: Any) -> bool:
        return stock["left"] >= 0

    ensure = {"carrier": "authoritative.carrier == requested.carrier"}
    action = ship_of(desk, ensure={**ensure, **invariant_check("stock", enough, source="stock")}, late_window="0s")
    kind = kind_of(tmp_path, verification=asking("invariant_check"))
    assert decide(kind, desk, action=action).proceed
    desk.during = lambda _ctx: stock.update(left=-1)
    found = decide(kind, Desk(), action=ship_of(desk, ensure={**ensure, **invariant_check("s", enough, source="s")}))
    assert (found.verification, found.proceed) == (VerificationResultWord.FAIL, False)
    assert ("verify", "yellow") in kinds(found)


# --- custom verifiers ---


@pytest.mark.requirement("DT-custom")
@pytest.mark.parametrize(
    ("status", "said"), [("active", VerificationResultWord.PASS), ("suspended", VerificationResultWord.FAIL)]
)
def test_the_specifications_own_example_runs_with_its_import_pointed_here(
    tmp_path: Path, status: str, said: VerificationResultWord
) -> None:
    body = SEED.replace("from engine.verifier_base import", "from readback import")
    fetching = f"def fetch_status(target_id):\n    assert target_id == 'o-1'\n    return {status!r}\n"
    folder = verifier(tmp_path, fetching + body)
    kind = kind_of(tmp_path, folder, verification=asking("my_verifier", verifyTimeoutMs=5_000))
    found = decide(kind, Desk())
    assert (found.verification, found.proceed) == (said, said is VerificationResultWord.PASS)
    assert methods(found)["my_verifier"]["detail"].startswith("Status check for o-1")


@pytest.mark.requirement("DT-inconclusive-safe", "DT-inconclusive")
def test_an_inconclusive_verifier_does_not_proceed_is_never_repeated_and_stays_itself(tmp_path: Path) -> None:
    folder = verifier(tmp_path, ANSWERING.format(outcome="inconclusive"))
    kind = kind_of(tmp_path, folder, verification=asking("my_verifier"))
    desk = Desk()
    runtime, store = VirtualRuntime(), MemoryStore()
    with opened(store, runtime) as rb:
        action = ship_of(desk, execute={"honours_key": True}, late_window="0s")
        found = decide(kind, desk, rb=rb, action=action)
        assert (found.verification, found.proceed) == (VerificationResultWord.INCONCLUSIVE, False)
        assert found.exit_code in (3, 4)
        assert found.episode["verification"]["result"] == "inconclusive"  # type: ignore[index,call-overload]
        assert methods(found)["my_verifier"]["said"] == "inconclusive"
        assert [k for k, _ in kinds(found)].count("verify") == 1
        runtime.sleep(3_600)
        rb.resume()
        again = decide(kind, desk, rb=rb, action=action)
    assert desk.calls == 1
    assert again.verification is VerificationResultWord.INCONCLUSIVE
    assert not again.proceed


IMPORT = "from readback import VerificationResult"
HOSTILE = {
    "raises": "def verify(context):\n    raise RuntimeError('broken')",
    "exits": "def verify(context):\n    raise SystemExit(0)",
    "true": "def verify(context):\n    return True",
    "one": "def verify(context):\n    return 1",
    "the-word": "def verify(context):\n    return 'pass'",
    "nothing": "def verify(context):\n    return None",
    "a-dict": "def verify(context):\n    return {'outcome': 'pass'}",
    "another-word": f"{IMPORT}\ndef verify(context):\n    return VerificationResult('ok')",
    "a-truth": f"{IMPORT}\ndef verify(context):\n    return VerificationResult(True)",
    "forged": (
        "from readback import VerificationResult\n"
        "class Sly(VerificationResult):\n    pass\n"
        "def verify(context):\n    return Sly('pass')"
    ),
    "bent": (
        "from readback import VerificationResult\n"
        "def verify(context):\n"
        "    made = VerificationResult('fail')\n"
        "    object.__setattr__(made, 'outcome', True)\n"
        "    return made"
    ),
    "sly-word": (
        f"{IMPORT}\n"
        "class Word(str):\n"
        "    def __eq__(self, other): return True\n"
        "    def __hash__(self): return hash('pass')\n"
        "def verify(context):\n    return VerificationResult(Word('fail'))"
    ),
    "no-text": (
        "from readback import VerificationResult\ndef verify(context):\n    return VerificationResult('pass', detail=7)"
    ),
    "deep": "def verify(context):\n    return verify(context)",
    "spends": "def verify(context):\n    context.clear()\n    return context",
}


@pytest.mark.requirement("DT-custom", "DT-inconclusive-safe")
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_verifier_at_fault_is_an_error_of_the_verifier_and_never_a_pass(tmp_path: Path, body: str) -> None:
    kind = kind_of(tmp_path, verifier(tmp_path, body), verification=asking("my_verifier"))
    desk = Desk()
    found = decide(kind, desk)
    assert (found.verification, found.proceed) == (VerificationResultWord.INCONCLUSIVE, False)
    assert told(found.outcome).why is Why.VERIFIER_ERROR
    assert found.exit_code == 5
    assert desk.calls == 1


@pytest.mark.requirement("DT-custom", "DT-drift")
def test_a_verifier_that_hangs_is_given_up_on_with_a_red_drift(tmp_path: Path) -> None:
    folder = verifier(tmp_path, "def verify(context):\n    while True:\n        pass")
    kind = kind_of(tmp_path, folder, verification=asking("my_verifier", verifyTimeoutMs=30))
    found = decide(kind, Desk())
    assert (found.verification, found.proceed) == (VerificationResultWord.INCONCLUSIVE, False)
    assert ("verify", "red") in kinds(found)


@pytest.mark.requirement("DT-custom")
def test_a_verifier_sees_the_episode_and_changes_nothing_by_writing_into_it(tmp_path: Path) -> None:
    body = (
        "from readback import VerificationResult\n"
        "SEEN = []\n"
        "def verify(context):\n"
        "    SEEN.append((sorted(context), context['action']['targetRefs'], context['authoritative']['status']))\n"
        "    context['authoritative'].clear()\n"
        "    context['action']['arguments'].clear()\n"
        "    return VerificationResult('pass')\n"
    )
    kind = kind_of(tmp_path, verifier(tmp_path, body), verification=asking("my_verifier"))
    found = decide(kind, Desk())
    assert found.proceed
    assert told(found.outcome).authoritative["status"] == "shipped"  # type: ignore[index,call-overload]
    seen = kind.loaded.verifiers["my_verifier"].verify.__globals__["SEEN"]  # type: ignore[attr-defined]
    assert len(seen) == 1, "it is asked after the action only"
    assert seen[0][1:] == ([{"type": "order", "id": "o-1"}], "shipped")
    assert {"episodeId", "decisionType", "action", "before", "observed"} <= set(seen[0][0])


@pytest.mark.requirement("DT-custom")
@pytest.mark.parametrize("outcome", ["pass", "fail", "inconclusive"])
def test_the_async_client_decides_the_same(tmp_path: Path, outcome: str) -> None:
    from readback.decisions.model.envelope import Snapshot

    folder = verifier(tmp_path, ANSWERING.format(outcome=outcome))
    kind = kind_of(
        tmp_path, folder, verification=asking("my_verifier"), safeAction={"allowedActionTypes": ["ship_async"]}
    )
    desk = Desk()

    async def main() -> Any:
        async with opened_async() as rb:
            decision = kind.begin(rb)
            decision.context(Snapshot("s", {}))
            decision.planned("Ship.")
            action = ship_async_of(desk)
            return await decision.act_async(action(order_id="o-1", carrier="dhl"), counts=COUNTS, operation="o")

    found = asyncio.run(main())
    assert (found.verification, found.proceed, desk.calls) == (outcome, outcome == "pass", 1)


@ABSENT
@pytest.mark.requirement("DT-methods")
def test_the_published_envelope_is_enforced_once_its_method_is_there(tmp_path: Path) -> None:
    from readback.decisions.api import DecisionType

    text = (CORPUS / "deepsigma" / "dte" / "account_quarantine.dte.yaml").read_text(encoding="utf-8")
    file = tmp_path / "a.dte.yaml"
    file.write_text(text, encoding="utf-8")
    folder = verifier(tmp_path, ANSWERING.format(outcome="pass"), "health_check")
    desk = Desk()
    found = decide(DecisionType.load(file, verifiers=folder), desk, action=ship_of(desk, name="quarantine_account"))
    assert found.proceed
    assert found.episode["verification"]["method"] == "read_after_write+health_check"  # type: ignore[index,call-overload]
    refused = decide(DecisionType.load(file, verifiers=folder), desk)
    assert not refused.proceed
    assert refused.outcome is None
    assert told(found.outcome).state is State.RECONCILED_SUCCESS


@pytest.mark.requirement("DT-custom", "DT-drift")
def test_under_the_async_client_a_verifier_that_hangs_is_left_behind(tmp_path: Path) -> None:
    from readback import AsyncReadback
    from readback.decisions.model.envelope import Snapshot

    body = "import threading\nGATE = threading.Event()\ndef verify(context):\n    GATE.wait()\n"
    kind = kind_of(
        tmp_path,
        verifier(tmp_path, body),
        verification=asking("my_verifier", verifyTimeoutMs=30),
        safeAction={"allowedActionTypes": ["ship_async"]},
    )

    async def main() -> Any:
        async with AsyncReadback.open(store=MemoryStore(), tenant="acme", principal="agent:ops") as rb:
            decision = kind.begin(rb)
            decision.context(Snapshot("s", {}))
            decision.planned("Ship.")
            action = ship_async_of(Desk())
            return await decision.act_async(action(order_id="o-1", carrier="dhl"), counts=COUNTS, operation="o")

    try:
        found = asyncio.run(main())
    finally:
        kind.loaded.verifiers["my_verifier"].verify.__globals__["GATE"].set()  # type: ignore[attr-defined]
    assert (found.verification, found.proceed) == (VerificationResultWord.INCONCLUSIVE, False)
    assert ("verify", "red") in kinds(found)
