"""The spans of an action follow from its entries: the chain, its attributes, its links and its stretches."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from readback.agent_errors import DelegationFailedError
from readback.domain.context import Context
from readback.domain.events import EventKind, open_envelope
from readback.domain.state import State
from readback.domain.tracing import names
from readback.domain.tracing.attributes import tenant_hash
from readback.domain.tracing.trace_context import first_span_id, step_span_id, trace_id_of
from readback.domain.verification.reading import Reading
from readback.engine.compiled_contract import CallerContext
from readback.telemetry.projector import Projector
from readback.telemetry.spans import Relation, Span, Stretch
from readback.testing.driver_virtual import CallHangs
from tests.delegations.given import TASK, Desk, opened
from tests.lifecycle.approving import ASKED, CRITICAL, approve, listed
from tests.lifecycle.house import STAMPED, TENANT, House
from tests.lifecycle.reviewing import resolve
from tests.lifecycle.scenes import SCENES, Scene
from tests.lifecycle.test_outside import hand_out, report, ship
from tests.lifecycle.trip import Trip
from tests.lifecycle.watching import DAY, change, on, watched
from tests.telemetry.chains import STAGES, chain, check_each, check_links, spans_in, stage_of

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
by_name: dict[str, Any] = {"ids": lambda scene: scene.name}


def called(run: str = "run-1", trace: str = TRACE, parent: str = CALLER) -> CallerContext:
    return CallerContext(TENANT, "agent:ops", run=run, plan="plan-1", trace=trace, parent_span=parent)


def roots(spans: list[Span]) -> list[Span]:
    return [span for span in spans if span.root]


@pytest.mark.requirement("TRACE-span-chain")
def test_a_verified_action_has_the_whole_chain_below_the_caller_each_span_linked_to_the_one_before() -> None:
    house = House(scope=called())
    told = house.run(house.action())
    spans = spans_in(house.store)
    check_each(spans)
    check_links(spans, [CALLER])
    found = chain(spans, "ship")
    assert list(found) == [*STAGES[:5]]
    root = spans[-1]
    assert (root.name, root.span_id, root.parent_id) == ("readback.call ship", first_span_id(told.id), CALLER)
    assert root.remote
    assert {span.parent_id for span in found.values() if span.name != "execute_tool ship"} == {root.span_id}
    assert found["execute_tool"].parent_id == CALLER
    linked = [found[stage].links[0] for stage in found]
    assert [link.span_id for link in linked] == [CALLER, *(found[stage].span_id for stage in list(found)[:-1])]
    assert [link.relation for link in linked] == [Relation.INFERENCE, *[Relation.PREVIOUS] * 4]
    assert {span.trace_id for span in spans} == {TRACE}


@pytest.mark.requirement(
    "TRACE-action-id",
    "TRACE-workflow-run-id",
    "TRACE-tool-name-version",
    "TRACE-verification-policy-version",
    "TRACE-recovery-policy-version",
    "TRACE-side-effect-class",
    "TRACE-idempotency-key-hash",
    "TRACE-reconciliation-status",
    "TRACE-discrepancy-class",
    "TRACE-ledger-entry-id",
)
def test_each_span_has_the_required_attributes_with_the_ledgers_values() -> None:
    house = House(scope=called())
    told = house.run(house.action())
    proposed = house.events(told.id)[0].data
    last = house.store.events(told.id)[-1]
    for span in spans_in(house.store):
        given = span.attributes
        assert given["action.id"] == told.id
        assert given["workflow.run_id"] == "run-1"
        assert (given["tool.name"], given["tool.version"]) == ("ship", proposed["contract_version"])
        assert given["verification.policy_version"] == proposed["verification_table"]
        assert given["recovery.policy_version"] == proposed["recovery_table"]
        assert given["side_effect_class"] == "LOW_RISK_INTERNAL"
        assert given["idempotency.key_hash"] == proposed["key_hash"]
        assert given["approval.id"] == given["discrepancy.class"] == names.NOT_GIVEN
        assert given["readback.tenant.hash"] == tenant_hash(TENANT)
    assert given["reconciliation.status"] == "RECONCILED_SUCCESS"
    assert given["ledger.entry_id"] == f"entry:{told.id}:{last.version}:sha256:{last.leaf.hex()}"
    assert (given["readback.state"], given["readback.verdict"]) == ("reconciled_success", "verified")
    assert given["readback.ledger.position"] == last.seq
    assert TENANT not in {value for span in spans_in(house.store) for value in span.attributes.values()}


@pytest.mark.parametrize("scene", SCENES, **by_name)
@pytest.mark.requirement("SPAN-rules", "SPAN-stretches")
def test_every_kind_of_history_keeps_the_rules_and_no_root_covers_a_wait(scene: Scene) -> None:
    house = House(scope=called())
    house.run(scene.set_up(house))
    house.work(40 * DAY / 40)
    spans = spans_in(house.store)
    check_each(spans)
    check_links(spans, [CALLER])
    waits = [
        (event.at_us, event.data["due"])
        for each in house.store.scan()
        if (event := open_envelope(each.envelope).event).kind in (EventKind.JUDGED, EventKind.OBSERVED)
        and isinstance(event.data.get("due"), int)
    ]
    contracts = {span.attributes[names.ACTION_ID] for span in spans}
    assert len(contracts) >= 1
    for root in roots(spans):
        for rested, due in waits:
            own = root.attributes[names.ACTION_ID]
            if isinstance(due, int) and root.start_us <= rested and due > rested:
                same = [each for each in house.store.events(str(own)) if each.at_us == rested]
                assert not same or root.end_us <= due or root.start_us >= due, f"{root.name} covers a wait"


@pytest.mark.parametrize("scene", SCENES, **by_name)
@pytest.mark.requirement("SPAN-deterministic")
def test_the_same_entries_give_the_same_spans_in_any_pieces_and_from_any_position(scene: Scene) -> None:
    house = House(scope=called())
    house.run(scene.set_up(house))
    house.work(DAY)
    whole = spans_in(house.store, piece=1_000)
    assert spans_in(house.store, piece=1) == whole
    assert spans_in(house.store, piece=3) == whole
    for start in range(house.store.last_seq()):
        rest = spans_in(house.store, start=start)
        assert rest == whole[len(whole) - len(rest) :]
    each = [
        span
        for stored in house.store.projections()
        for span in Projector(house.store).of_action(stored.projection.action_id)
    ]
    assert {span.span_id for span in each} == {span.span_id for span in whole}


@pytest.mark.requirement("SPAN-stretches")
def test_a_later_look_is_a_root_of_its_own_with_a_link_to_the_first_span() -> None:
    house = House(scope=called())
    told = house.run(house.action(polls=["3s", "2s"]))
    call, look = roots(spans_in(house.store))
    assert (call.name, look.name) == ("readback.call ship", "readback.look ship")
    assert look.parent_id == ""
    assert [(link.span_id, link.relation) for link in look.links] == [(first_span_id(told.id), Relation.FIRST)]
    assert call.end_us < look.start_us
    assert call.attributes["reconciliation.status"] == "NOT_STARTED"


@pytest.mark.requirement("SPAN-status")
def test_only_a_refuted_result_is_an_error_and_an_unknown_or_pending_one_is_not() -> None:
    house = House(scope=called())
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    house.run(house.action(polls=["3s", "2s"], **STAMPED))
    made = [one for one in roots(spans_in(house.store)) if one.attributes["readback.stretch"] != "claim"]
    pending, refuted = made[0], made[-1]
    assert (pending.error, pending.attributes["readback.verdict"]) == ("", "not_checked")
    assert refuted.error.startswith("refuted: ")
    found = chain(spans_in(house.store), "ship")
    assert found["execute_tool"].error == ""
    assert found[names.VERIFICATION].error == found[names.RECONCILIATION].error == refuted.error

    def hangs(ctx: Context, args: Any) -> object:
        raise CallHangs

    unknown = House(scope=called())
    unknown.shop.tool = hangs
    unknown.shop.eyes = lambda ctx, args: Reading.unavailable("down") if unknown.shop.calls else unknown.shop.show(args)
    unknown.run(unknown.action(), wait_s=100)
    assert {span.error for span in spans_in(unknown.store)} == {""}
    execution = chain(spans_in(unknown.store), "ship")["execute_tool"]
    assert execution.attributes["error.type"] == "timeout"


@pytest.mark.requirement("SPAN-status")
def test_a_broken_verifier_is_an_error_of_the_machinery() -> None:
    house = House(scope=called())

    def breaks(ctx: Context, args: Any) -> object:
        if not house.shop.calls:
            return house.shop.show(args)
        raise ValueError("no such column")

    house.shop.eyes = breaks
    house.run(house.action(), wait_s=60)
    assert "verifier_error" in {span.error for span in roots(spans_in(house.store))}


@pytest.mark.requirement("SPAN-evaluations")
def test_each_postcondition_is_an_evaluation_event_of_the_verification() -> None:
    house = House(scope=called())
    house.run(
        house.action(ensure={"status": "authoritative.status == requested.status", "id": "authoritative.id == 'x'"})
    )
    event, other = [
        each.attributes
        for each in chain(spans_in(house.store), "ship")[names.VERIFICATION].events
        if each.name == "gen_ai.evaluation.result"
    ]
    assert (event["gen_ai.evaluation.name"], event["gen_ai.evaluation.score.label"]) == ("ship.status", "verified")
    assert (other["gen_ai.evaluation.name"], other["gen_ai.evaluation.score.label"]) == ("ship.id", "refuted")


@pytest.mark.requirement("SPAN-conventions")
def test_an_execution_follows_the_conventions_for_generative_ai() -> None:
    house = House(scope=called())
    house.run(house.action())
    given = chain(spans_in(house.store), "ship")["execute_tool"].attributes
    assert given["gen_ai.operation.name"] == "execute_tool"
    assert given["gen_ai.tool.name"] == "ship"
    assert given["gen_ai.tool.type"] == "function"
    assert given["gen_ai.agent.name"] == "agent:ops"
    assert given["gen_ai.conversation.id"] == "run-1"
    assert given["gen_ai.workflow.name"] == "plan-1"
    assert "error.type" not in given


@pytest.mark.requirement("SPAN-payloads")
def test_arguments_and_results_are_left_out_unless_asked_for_and_then_as_redacted() -> None:
    house = House(scope=called())
    told = house.run(house.action(redact=["requested.status"]))
    plain = Projector(house.store).of_action(told.id)
    whole = Projector(house.store, payloads=True).of_action(told.id)
    assert not any("gen_ai.tool.call.arguments" in span.attributes for span in plain)
    assert not any("o-1" in str(value) for span in plain for value in span.attributes.values())
    (execution,) = [span for span in whole if stage_of(span) == "execute_tool"]
    assert '"o-1"' in str(execution.attributes["gen_ai.tool.call.arguments"])
    assert "shipped" not in str(execution.attributes["gen_ai.tool.call.arguments"])
    assert execution.attributes["gen_ai.tool.call.result"] == '{"status": "ok"}'


@pytest.mark.requirement("TRACE-approval-id", "SPAN-stretches")
def test_an_approved_action_names_its_approval_and_the_decision_is_a_root_of_its_own() -> None:
    house = listed(House(scope=called()))
    asked = house.run(house.action(**CRITICAL, **ASKED))
    approve(house, asked.id)
    house.work(60)
    spans = spans_in(house.store)
    check_each(spans)
    check_links(spans, [CALLER])
    kinds = [span.attributes["readback.stretch"] for span in roots(spans)]
    assert kinds[:2] == [Stretch.CALL, Stretch.DECISION]
    approval = house.folded(asked.id).approval
    assert approval is not None
    assert {span.attributes["approval.id"] for span in spans} == {approval.id}
    assert roots(spans)[1].attributes["readback.decision"] == "approved"


@pytest.mark.requirement("SPAN-stretches")
def test_a_late_look_that_finds_drift_is_a_root_of_its_own_and_an_error() -> None:
    house = House(scope=called())
    watched(house)
    change(house, status="open", author="agent:other")
    on(house, 2)
    spans = spans_in(house.store)
    check_each(spans)
    late = [span for span in roots(spans) if span.attributes["readback.stretch"] == Stretch.LATE_LOOK]
    assert late
    assert late[0].error.startswith("refuted")
    assert late[0].links[0].relation is Relation.FIRST


@pytest.mark.requirement("SPAN-stretches", "TRACE-span-chain")
def test_a_compensation_is_a_recovery_span_with_a_link_to_the_reversing_action() -> None:
    house = House(scope=called())
    scene = next(each for each in SCENES if each.name == "compensated")
    told = house.run(scene.set_up(house))
    assert told.state is State.COMPENSATED
    spans = spans_in(house.store)
    check_links(spans, [CALLER])
    recoveries = [span for span in spans if span.name == names.RECOVERY_SPAN]
    child = house.folded(told.id).compensation_id
    assert [link.span_id for link in recoveries[-1].links if link.relation is Relation.COMPENSATION] == [
        first_span_id(child)
    ]
    (undo,) = [span for span in roots(spans) if span.span_id == first_span_id(child)]
    assert (first_span_id(told.id), Relation.REVERSES) in [(link.span_id, link.relation) for link in undo.links]
    assert undo.trace_id == TRACE


@pytest.mark.requirement("SPAN-stretches")
def test_a_persons_resolution_is_a_decision() -> None:
    house = House(scope=called())
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    scene = next(each for each in SCENES if each.name == "high risk")
    made = scene.set_up(house)
    house.shop.eyes = lambda ctx, args: Reading.unavailable("down")
    told = house.run(made)
    house.work(40 * DAY)
    assert house.get(told.id).review
    resolve(house, told.id, "abandon")
    last = roots(spans_in(house.store))[-1]
    assert (last.attributes["readback.stretch"], last.attributes["readback.decision"]) == (
        Stretch.DECISION,
        "abandon",
    )


# --- trace ids ---


@pytest.mark.requirement("SPAN-trace-id")
def test_the_trace_is_the_callers_or_follows_from_the_callers_text_or_from_the_action() -> None:
    for given, expected in ((TRACE, TRACE), ("0af76519-16cd-43dd-8448-eb211c80319c", TRACE), ("trace-1", "")):
        house = House(scope=called(trace=given, parent=""))
        house.run(house.action())
        spans = spans_in(house.store)
        assert {span.trace_id for span in spans} == {expected or trace_id_of("trace-1", "")}
        text = {span.attributes.get("readback.caller.trace") for span in spans}
        assert text == ({None} if expected else {"trace-1"})
        assert spans[-1].parent_id == ""
    house = House(scope=called(trace="", parent=CALLER))
    told = house.run(house.action())
    spans = spans_in(house.store)
    assert {span.trace_id for span in spans} == {trace_id_of("", told.id)}
    assert spans[-1].parent_id == ""  # a parent without its trace names no span
    check_links(spans)


# --- sagas ---


@pytest.mark.requirement("SPAN-sagas")
def test_a_saga_has_a_span_for_each_step_and_each_steps_action_is_below_it_in_one_trace() -> None:
    trip = Trip(scope=called())
    told = trip.run()
    assert told.state is State.RECONCILED_SUCCESS
    spans = spans_in(trip.store)
    check_each(spans)
    check_links(spans, [CALLER])
    assert {span.trace_id for span in spans} == {TRACE}
    steps = {span.attributes["readback.saga.step"]: span for span in spans if "readback.saga.step" in span.attributes}
    assert list(steps) == ["flight", "hotel", "car", "charge", "ticket"]
    for name, span in steps.items():
        action = str(span.attributes["action.id"])
        assert span.span_id == step_span_id(told.id, action)
        assert span.attributes["tool.name"] == name
        (call,) = [one for one in spans if one.span_id == first_span_id(action)]
        assert call.parent_id == span.span_id
        assert call.attributes["readback.saga.id"] == told.id
    assert steps["charge"].attributes["readback.saga.region"] == "pivot"
    saga = next(span for span in spans if span.span_id == first_span_id(told.id))
    assert (saga.name, saga.parent_id) == ("readback.call saga:trip", CALLER)


@pytest.mark.requirement("SPAN-sagas")
def test_a_saga_without_a_trace_gives_its_steps_one_trace_and_its_reversals_are_recovery_spans() -> None:
    trip = Trip(scope=called(trace="", parent=""))
    trip.world.faults["car"] = "wrong"
    told = trip.run()
    assert told.state is State.COMPENSATED
    spans = spans_in(trip.store)
    check_each(spans)
    check_links(spans)
    assert {span.trace_id for span in spans} == {trace_id_of("", told.id)}
    reversed_ = [span.name for span in spans if span.name.startswith("readback.recovery ")]
    assert sorted(reversed_) == ["readback.recovery flight", "readback.recovery hotel"]
    turned = [span for span in spans if "readback.saga.direction" in span.attributes]
    assert {span.attributes["readback.saga.direction"] for span in turned} == {"backward"}


# --- delegations, and attempts by a coding agent ---


@pytest.mark.requirement("SPAN-delegations", "RALPH-attributes")
@pytest.mark.parametrize(("lies", "outcomes"), [(0, ["passed"]), (1, ["failed", "passed"]), (9, ["failed"] * 3)])
def test_each_attempt_of_a_delegation_has_a_span_with_the_four_attributes(
    tmp_path: Path, lies: int, outcomes: list[str]
) -> None:
    desk = Desk(tmp_path, lies=lies)
    with opened() as client:
        with contextlib.suppress(DelegationFailedError):
            desk.delegation().run(client, TASK)
        spans = spans_in(client._session.store)
    check_each(spans)
    check_links(spans)
    made = [span.attributes for span in spans if span.name == "delegation.execute"]
    assert [given["delegation.verify_outcome"] for given in made] == outcomes
    assert [given["delegation.verify_attempts"] for given in made] == [1, 2, 3][: len(outcomes)]
    assert [given["delegation.verify_passed"] for given in made] == [each == "passed" for each in outcomes]
    assert {given["delegation.kind"] for given in made} == {"writer"}
    last = desk.ends[-1]
    assert {name: made[-1][name] for name in last} == last


@pytest.mark.requirement("SPAN-delegations")
def test_a_delegation_without_a_verifier_is_skipped_and_not_passed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with opened() as client:
        desk.delegation(verify=None).run(client, TASK, wait=0)
        (made,) = [span for span in spans_in(client._session.store) if span.name == "delegation.execute"]
    assert made.attributes["delegation.verify_outcome"] == desk.ends[-1]["delegation.verify_outcome"] == "skipped"
    assert made.attributes["delegation.verify_passed"] is False


@pytest.mark.requirement("SPAN-hooks", "SPAN-stretches")
def test_an_attempt_by_the_caller_ends_the_call_and_its_report_is_a_root_of_its_own() -> None:
    house = House(scope=called())
    handed = hand_out(house, house.action(), "toolu_17")
    house.driver._jump(house.runtime.now_us() + 5_000_000)
    ship(house, handed)
    report(house, handed.outcome.id)
    spans = spans_in(house.store)
    check_each(spans)
    check_links(spans, [CALLER])
    execution = chain(spans, "ship")["execute_tool"]
    assert execution.attributes["readback.handed_out"] is True
    assert execution.attributes["gen_ai.tool.call.id"] == "toolu_17"
    call, reported = roots(spans)[:2]
    assert (call.attributes["readback.stretch"], reported.attributes["readback.stretch"]) == ("call", "resume")
    assert call.end_us < reported.start_us
