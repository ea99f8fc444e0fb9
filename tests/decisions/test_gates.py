"""What an envelope stops before an action, what it lets pass and tells, and the drift that each amounts to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readback import Readback, SideEffect
from readback.agent_errors import DecisionOrderError
from readback.decisions.flow import gates
from readback.decisions.flow.gates import Asked
from readback.decisions.flow.record import Actor
from readback.decisions.model.envelope import Counts, Snapshot
from readback.decisions.model.words import CLASS_OF, TIER_OF, BlastRadius, Stage, VerificationResultWord
from readback.domain.contract.contract import Contract
from readback.domain.contract.limits import TenantLimits
from readback.errors import ArgumentError
from readback.testing.runtime_virtual import VirtualRuntime
from tests.decisions.given import COUNTS, ENVELOPE, changed, decide, kind_of, kinds, moving
from tests.sdk.given import Desk, opened, ship_of

TIERS = [tier for tier in BlastRadius if tier is not BlastRadius.NONE]


def gates_of(decided: Any) -> list[str]:
    return [each.field for each in decided.violations]


# --- blast radius ---


@pytest.mark.requirement("DT-blast-radius")
def test_every_tier_maps_to_a_class_and_every_class_to_a_tier() -> None:
    assert {tier.value: CLASS_OF[tier].value for tier in TIERS} == {
        "tiny": "low_risk_internal",
        "small": "medium_risk_write",
        "medium": "high_risk_external",
        "large": "critical_mutation",
    }
    assert set(TIER_OF) == set(SideEffect)
    assert all(TIER_OF[CLASS_OF[tier]] is tier for tier in TIERS)
    ranks = [TIER_OF[each].rank for each in sorted(SideEffect, key=lambda each: each.rank)]
    assert ranks == sorted(ranks)


def contract_of(side_effect: SideEffect, **more: Any) -> Contract:
    plan = ship_of(Desk()).plan
    return replace(plan.contract, side_effect=side_effect, **more)


@pytest.mark.requirement("DT-blast-radius", "DT-safe-action")
@pytest.mark.parametrize("most", TIERS)
@pytest.mark.parametrize("side_effect", list(SideEffect))
def test_no_action_above_the_largest_blast_radius_runs(
    tmp_path: Path, most: BlastRadius, side_effect: SideEffect
) -> None:
    kind = kind_of(tmp_path, safeAction={"blastRadiusMax": most.value, "requireRollbackAbove": "large"})
    found = [*gates.unsafe(kind.envelope, Asked(contract_of(side_effect), True))]
    assert bool(found) is (TIER_OF[side_effect].rank > most.rank)


@pytest.mark.requirement("DT-blast-radius")
@pytest.mark.parametrize("declared", TIERS)
@pytest.mark.parametrize("side_effect", list(SideEffect))
def test_a_tier_that_the_class_does_not_reach_is_refused_and_none_lowers_it(
    tmp_path: Path, declared: BlastRadius, side_effect: SideEffect
) -> None:
    kind = kind_of(tmp_path, safeAction={"blastRadiusMax": "large", "requireRollbackAbove": "large"})
    asked = Asked(contract_of(side_effect), True, declared)
    found = [each.field for each in gates.unsafe(kind.envelope, asked)]
    reads = declared is BlastRadius.TINY  # of which a class below its own is too
    assert bool(found) is (side_effect.rank < CLASS_OF[declared].rank and not reads)
    assert asked.tier is TIER_OF[side_effect]


@pytest.mark.requirement("DT-safe-action")
def test_a_rollback_is_required_strictly_above_the_threshold(tmp_path: Path) -> None:
    for threshold in BlastRadius:
        kind = kind_of(tmp_path, safeAction={"blastRadiusMax": "large", "requireRollbackAbove": threshold.value})
        for side_effect in SideEffect:
            needs = TIER_OF[side_effect].rank > threshold.rank
            none = [*gates.unsafe(kind.envelope, Asked(contract_of(side_effect), True))]
            some = [*gates.unsafe(kind.envelope, Asked(contract_of(side_effect, has_compensation=True), True))]
            assert bool(none) is needs
            assert some == []
            fixed = replace(contract_of(side_effect).execution, reversible=False)
            kept = Asked(contract_of(side_effect, has_compensation=True, execution=fixed), True)
            assert bool([*gates.unsafe(kind.envelope, kept)]) is needs, "a reversal that is forbidden is none"


# --- safe-action rules ---

UNSAFE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another-type": ({"allowedActionTypes": ["refund"]}, {}, "safeAction.allowedActionTypes"),
    "no-type-at-all": ({"allowedActionTypes": []}, {}, "safeAction.allowedActionTypes"),
    "no-operation": ({}, {"operation": None}, "safeAction.requireIdempotency"),
    "no-rollback": ({"requireRollbackAbove": "none"}, {}, "safeAction.requireRollbackAbove"),
    "declared-too-high": ({}, {"tier": "large"}, "safeAction.blastRadiusTier"),
}


@pytest.mark.requirement("DT-safe-action", "DT-drift-kinds")
@pytest.mark.parametrize(("rules", "how", "field"), UNSAFE.values(), ids=UNSAFE.keys())
def test_an_action_that_breaks_a_rule_is_not_executed(
    tmp_path: Path, rules: dict[str, Any], how: dict[str, Any], field: str
) -> None:
    desk = Desk()
    found = decide(kind_of(tmp_path, safeAction=rules), desk, **how)
    assert desk.calls == 0
    assert desk.looks == 0
    assert (found.outcome, found.proceed, found.verification) == (None, False, VerificationResultWord.NA)
    assert gates_of(found) == [field]
    assert kinds(found) == [("bypass", "red")]
    assert found.degraded.word == "abstain"
    assert found.exit_code == 1
    assert found.episode["outcome"]["code"] == "abstain"  # type: ignore[index,call-overload]
    assert found.episode["actions"] == []


def test_without_those_rules_it_runs(tmp_path: Path) -> None:
    rules = {**ENVELOPE["safeAction"], "requireIdempotency": False}
    del rules["allowedActionTypes"]
    envelope = changed()
    envelope["safeAction"] = rules
    from readback.decisions.api import DecisionType
    from tests.decisions.given import written

    kind = DecisionType.load(written(tmp_path, envelope))
    assert decide(kind, Desk(), operation=None).proceed


# --- limits ---


@pytest.mark.requirement("DT-limits", "DT-drift-kinds")
@pytest.mark.parametrize("name", ["hops", "fanout", "tool_calls", "chain_depth"])
def test_what_is_over_a_limit_is_not_executed_and_the_limit_itself_is_within(tmp_path: Path, name: str) -> None:
    most = {"hops": 3, "fanout": 6, "tool_calls": 10, "chain_depth": 4}
    kind = kind_of(tmp_path)
    within = decide(kind, Desk(), counts=Counts(**most))
    assert within.proceed
    for used in (most[name] + 1, -1):
        desk = Desk()
        found = decide(kind, desk, counts=Counts(**{**most, name: used}))
        assert (desk.calls, found.proceed, kinds(found)) == (0, False, [("fanout", "red")])


# --- freshness ---


@pytest.mark.requirement("DT-freshness", "DT-drift-kinds")
@pytest.mark.parametrize(("feature", "ttl"), [("stock", 100), ("anything", 500)])
def test_a_stale_feature_stops_the_action_and_its_time_to_live_itself_does_not(
    tmp_path: Path, feature: str, ttl: int
) -> None:
    kind = kind_of(tmp_path)
    assert decide(kind, Desk(), ages={feature: ttl}).proceed
    for age in (ttl + 1, -1):
        desk = Desk()
        found = decide(kind, desk, ages={feature: age})
        assert (desk.calls, found.proceed) == (0, False)
        assert kinds(found) == [("freshness", "red")]
        assert found.degraded.word == "abstain"
        assert found.episode["context"]["ttlBreachesCount"] == 1  # type: ignore[index,call-overload]


@pytest.mark.requirement("DT-freshness")
def test_features_grow_old_while_it_is_planned(tmp_path: Path) -> None:
    runtime, desk = VirtualRuntime(), Desk()
    with opened(runtime=runtime) as rb:
        decision = kind_of(tmp_path).begin(rb)
        decision.context(Snapshot("s", {"stock": 60}))
        runtime.sleep(0.041)
        decision.planned("Slowly.")
        found = decision.act(ship_of(desk)(order_id="o-1", carrier="dhl"), counts=COUNTS, operation="o")
    assert found is not None
    assert (desk.calls, kinds(found)) == (0, [("freshness", "red")])


@pytest.mark.requirement("DT-freshness")
def test_stale_is_let_pass_only_where_the_envelope_says_so_and_nothing_more_is_demanded(tmp_path: Path) -> None:
    stale = {"stock": 400}
    lenient = {"allowStaleIfSafe": True}
    safe = {"requiredAboveBlastRadius": "tiny"}
    passed = decide(kind_of(tmp_path, freshness=lenient, verification=safe), Desk(), ages=stale)
    assert passed.proceed
    assert kinds(passed) == [("freshness", "yellow")]
    assert not decide(kind_of(tmp_path, freshness=lenient), Desk(), ages=stale).proceed
    assert not decide(kind_of(tmp_path, verification=safe), Desk(), ages=stale).proceed


# --- time ---


@pytest.mark.requirement("DT-budgets", "DT-drift-kinds")
def test_a_stage_over_its_budget_is_told_in_yellow_and_not_stopped(tmp_path: Path) -> None:
    runtime, desk = VirtualRuntime(), Desk()
    moving(desk, runtime, 1.5)
    with opened(runtime=runtime) as rb:
        found = decide(kind_of(tmp_path), desk, rb=rb)
    assert found.proceed
    assert gates_of(found) == ["stageBudgetsMs.act"]
    assert kinds(found) == [("time", "yellow")]
    assert found.episode["telemetry"]["stageMs"]["act"] == 1_500  # type: ignore[index,call-overload]


@pytest.mark.requirement("DT-budgets", "DT-drift-kinds")
def test_a_decision_past_its_deadline_does_not_act(tmp_path: Path) -> None:
    runtime, desk = VirtualRuntime(), Desk()
    with opened(runtime=runtime) as rb:
        decision = kind_of(tmp_path, freshness={"defaultTtlMs": 60_000, "featureTtls": {}}).begin(rb)
        decision.context(Snapshot("s", {}))
        runtime.sleep(10.001)
        decision.planned("Too slowly.")
        found = decision.act(ship_of(desk)(order_id="o-1", carrier="dhl"), counts=COUNTS, operation="o")
    assert found is not None
    assert (desk.calls, found.proceed) == (0, False)
    assert ("time", "red") in kinds(found)
    assert "deadlineMs" in gates_of(found)


@pytest.mark.requirement("DT-budgets")
def test_a_deadline_that_the_tool_overran_is_told_in_red_and_the_action_stays_what_it_is(tmp_path: Path) -> None:
    runtime, desk = VirtualRuntime(), Desk()
    moving(desk, runtime, 9.5)
    with opened(runtime=runtime) as rb:
        found = decide(kind_of(tmp_path, deadlineMs=9_000), desk, rb=rb)
    assert ("time", "red") in kinds(found)
    assert found.outcome is not None
    assert found.outcome.verified


@pytest.mark.requirement("DT-ladder", "DT-drift-kinds")
def test_too_little_time_asks_for_a_faster_plan_and_its_step_may_take_its_extra_time(tmp_path: Path) -> None:
    runtime, desk = VirtualRuntime(), Desk()
    kind = kind_of(tmp_path, freshness={"defaultTtlMs": 60_000, "featureTtls": {}})
    with opened(runtime=runtime) as rb:
        decision = kind.begin(rb, spent_ms={Stage.CONTEXT: 8_000})
        decision.context(Snapshot("s", {}))
        decision.planned("By the large model.", planner="llm")
        assert decision.needed_step == "cache_bundle"
        proposal = ship_of(desk)(order_id="o-1", carrier="dhl")
        assert decision.act(proposal, counts=COUNTS, operation="o") is None
        assert desk.calls == 0
        runtime.sleep(2.5)  # over the deadline, within the step's own second
        decision.planned("By the cache.", fallback="cache_bundle")
        assert decision.needed_step == ""
        found = decision.act(proposal, counts=COUNTS, operation="o")
    assert found is not None
    assert found.proceed
    assert ("fallback", "yellow") in kinds(found)
    telemetry = found.episode["telemetry"]
    assert isinstance(telemetry, dict)
    assert (telemetry["fallbackUsed"], telemetry["fallbackStep"]) == (True, "cache_bundle")


@pytest.mark.requirement("DT-ladder")
def test_a_ladder_without_a_faster_step_goes_to_a_person(tmp_path: Path) -> None:
    desk = Desk()
    kind = kind_of(tmp_path, degradeLadder=[{"step": "bypass"}, {"step": "hitl"}])
    with opened() as rb:
        decision = kind.begin(rb, spent_ms={Stage.PLAN: 9_000})
        decision.context(Snapshot("s", {}))
        decision.planned("Late.")
        found = decision.act(ship_of(desk)(order_id="o-1", carrier="dhl"), counts=COUNTS, operation="o")
    assert found is not None
    assert (desk.calls, found.degraded.word, found.exit_code) == (0, "hitl", 4)


@pytest.mark.requirement("DT-ladder")
def test_a_bypass_is_never_taken_by_itself_and_is_told_in_red_when_it_is_asked_for(tmp_path: Path) -> None:
    kind = kind_of(tmp_path, degradeLadder=[{"step": "bypass"}])
    desk = Desk()
    stopped = decide(kind, desk, ages={"stock": 999})
    assert (stopped.degraded.word, desk.calls) == ("abstain", 0)
    lied = Desk(instead=lambda _ctx: {"success": True})
    failed = decide(kind, lied, action=ship_of(lied, late_window="0s"))
    assert failed.degraded.word == "abstain"
    assert "bypass" not in [kind for kind, _ in kinds(failed)]
    with opened() as rb:
        decision = kind.begin(rb)
        decision.context(Snapshot("s", {}))
        decision.planned("Somebody does it by hand.")
        found = decision.bypass("the desk is on fire", counts=COUNTS)
    assert (found.episode["outcome"]["code"], kinds(found)) == ("bypassed", [("bypass", "red")])  # type: ignore[index,call-overload]
    assert not found.proceed
    with opened() as rb:
        decision = kind_of(tmp_path).begin(rb)
        decision.context(Snapshot("s", {}))
        decision.planned("x")
        with pytest.raises(DecisionOrderError):
            decision.bypass("no such step", counts=COUNTS)


NAN = float("nan")
TOLD: list[dict[str, Any]] = [
    {"counts": Counts(NAN, 1, 1, 1)},  # type: ignore[arg-type]
    {"counts": Counts(1, True, 1, 1)},
    {"counts": Counts(1, 1, 1.0, 1)},  # type: ignore[arg-type]
    {"counts": Counts(1, 1, 1, "1")},  # type: ignore[arg-type]
    {"counts": (1, 1, 1, 1)},
    {"snapshot": Snapshot("s", {"stock": NAN})},  # type: ignore[dict-item]
    {"snapshot": Snapshot("s", {"stock": None})},  # type: ignore[dict-item]
    {"snapshot": Snapshot("s", [("stock", 1)])},  # type: ignore[arg-type]
    {"snapshot": Snapshot("s", {}, (b"count",))},  # type: ignore[arg-type]
    {"snapshot": Snapshot("s", {}, "count")},  # type: ignore[arg-type]
    {"snapshot": Snapshot("\ud83d", {})},
    {"summary": "half \ud83d"},
    {"summary": None},
    {"ref": {1}},
    {"spent": {Stage.PLAN: NAN}},
    {"spent": {Stage.ACT: 1}},
    {"actor": Actor("agent", "a\udc00")},
]


@pytest.mark.requirement("DT-limits", "DT-freshness", "DT-episode")
@pytest.mark.parametrize("told", TOLD, ids=repr)
def test_what_no_limit_can_be_held_against_or_no_episode_can_hold_is_refused_before_anything_runs(
    tmp_path: Path, told: dict[str, Any]
) -> None:
    desk, kind = Desk(), kind_of(tmp_path)

    def decided(rb: Readback) -> None:
        decision = kind.begin(rb, actor=told.get("actor"), spent_ms=told.get("spent"))
        decision.context(told.get("snapshot", Snapshot("s", {"stock": 1})))
        decision.planned(told.get("summary", "Ship it."), ref=told.get("ref", ""))
        proposal = ship_of(desk)(order_id="o-1", carrier="dhl")
        try:
            decision.act(proposal, counts=told.get("counts", COUNTS), operation="ship o-1")
        finally:
            proposal.mark_run()

    with opened() as rb, pytest.raises(ArgumentError):
        decided(rb)
    assert desk.calls == 0


# --- what else may come between ---


@pytest.mark.requirement("DT-drift-kinds")
def test_a_tenant_that_has_as_much_in_flight_as_it_may_is_contention(tmp_path: Path) -> None:
    desk = Desk(instead=lambda _ctx: {"status": "pending"})
    kind = kind_of(tmp_path, verification={"verifyTimeoutMs": 0})
    with opened(limits=TenantLimits(in_flight=1)) as rb:
        action = ship_of(desk)
        rb.run(action(order_id="o-9", carrier="dhl"), operation="other", wait=0)
        found = decide(kind, desk, rb=rb, action=action)
    assert (found.outcome, found.proceed) == (None, False)
    assert kinds(found) == [("contention", "yellow")]
    assert desk.calls == 1


@pytest.mark.requirement("DT-drift-kinds")
def test_an_effect_in_parts_is_a_drift_of_the_outcome(tmp_path: Path) -> None:
    def half(ctx: Any) -> object:
        desk.order().update(status="shipped", stamp=ctx.stamp, version=1)
        return {"status": "ok"}

    desk = Desk(instead=half)
    ensure = {
        "status": {"shipped": "authoritative.status == 'shipped'"},
        "carrier": {"named": "authoritative.carrier == requested.carrier"},
    }
    found = decide(kind_of(tmp_path), desk, action=ship_of(desk, ensure=ensure, late_window="0s"))
    assert ("outcome", "yellow") in kinds(found)
    assert found.episode["outcome"]["code"] == "partial"  # type: ignore[index,call-overload]


ORDER = ["act-first", "plan-first", "context-twice", "act-twice", "no-planner", "no-step", "no-tier"]


@pytest.mark.parametrize("what", ORDER)
def test_the_steps_of_a_decision_are_taken_in_their_order(tmp_path: Path, what: str) -> None:
    desk = Desk()
    with opened() as rb:
        decision = kind_of(tmp_path).begin(rb)
        action = ship_of(desk)

        def act(tier: str | None = None) -> None:
            proposal = action(order_id="o-1", carrier="dhl")
            try:
                decision.act(proposal, counts=COUNTS, operation="o", tier=tier)
            finally:
                if not proposal.used:
                    proposal.mark_run()

        if what not in ("act-first", "plan-first"):
            decision.context(Snapshot("s", {}))
        if what in ("act-twice", "no-tier"):
            decision.planned("x")
        if what == "act-twice":
            act()
        wrong: dict[str, Callable[[], object]] = {
            "act-first": act,
            "act-twice": act,
            "plan-first": lambda: decision.planned("x"),
            "context-twice": lambda: decision.context(Snapshot("s", {})),
            "no-planner": lambda: decision.planned("x", planner="dice"),
            "no-step": lambda: decision.planned("x", fallback="small_model"),
            "no-tier": lambda: act(tier="huge"),
        }
        with pytest.raises(DecisionOrderError):
            wrong[what]()
    assert desk.calls == (1 if what == "act-twice" else 0)
