"""The two verifiers that every contract may use, and readers that several contracts share."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutine

import pytest

from readback.contracts.functions.callables import reader
from readback.contracts.functions.verifiers import INVARIANTS_KEY, Invariant, invariant_check, read_after_write
from readback.domain.context import Context
from readback.domain.predicate import Truth
from readback.domain.side_effect import Consistency, Independence
from readback.domain.verification.reading import Reading
from readback.engine.compiled_contract import CompiledContract
from readback.engine.stages.evaluate import evaluate
from readback.errors import ContractFieldError, ExpressionError, ReaderTypeError
from tests.unit.contracts_given import CONTEXT, compiled, reading, refused

ARGUMENTS = {"order_id": "o-17", "carrier": "dhl"}
ROOTS = ("intended", "requested", "observed", "before", "authoritative", "scope")


def truths(plan: CompiledContract, **states: object) -> dict[str, Truth]:
    variables = {root: states.get(root) for root in ROOTS}
    binding = plan.predicates.bind(variables)  # type: ignore[arg-type]
    return {c.postcondition.name: evaluate(c, binding, variables).truth for c in plan.ensure}  # type: ignore[arg-type]


def read(plan: CompiledContract) -> Reading:
    seen = plan.hands.readers[0].call(CONTEXT, ARGUMENTS)
    assert isinstance(seen, Reading)
    return seen


# --- read_after_write --------------------------------------------------------------------------------------------


@pytest.mark.requirement("DT-read-after-write")
def test_read_after_write_says_that_the_record_shows_what_was_asked() -> None:
    made = read_after_write("carrier", "address.city", status="'shipped'", count="requested.count + 1")
    assert made == {
        "carrier": "authoritative.carrier == requested.carrier",
        "address.city": "authoritative.address.city == requested.address.city",
        "status": "authoritative.status == ('shipped')",
        "count": "authoritative.count == (requested.count + 1)",
    }


@pytest.mark.requirement("DT-read-after-write", "L32")
def test_it_holds_over_the_target_read_again_and_not_over_the_answer() -> None:
    plan = compiled(ensure=read_after_write("carrier", status="'shipped'"))
    requested, observed = {"carrier": "dhl"}, {"carrier": "dhl", "status": "shipped"}
    shown = read(plan).value
    assert set(truths(plan, requested=requested, authoritative=shown).values()) == {Truth.HOLDS}
    old = {"carrier": "ups", "status": "open"}
    assert set(truths(plan, requested=requested, observed=observed, authoritative=old).values()) == {Truth.VIOLATED}
    assert plan.contract.polls_us[0] == 0


@pytest.mark.requirement("DT-inconclusive")
def test_a_field_that_the_record_does_not_show_is_undetermined() -> None:
    plan = compiled(ensure=read_after_write("carrier"))
    assert truths(plan, requested=ARGUMENTS, authoritative={})["carrier"] is Truth.UNDETERMINED
    assert truths(plan, requested=ARGUMENTS, authoritative={"carrier": 7})["carrier"] is Truth.UNDETERMINED


@pytest.mark.parametrize("fields", [(), ("a b",), ("a.",), ("a", "a"), ("1a",)])
def test_read_after_write_refuses_what_is_no_field(fields: tuple[str, ...]) -> None:
    with pytest.raises(ContractFieldError):
        read_after_write(*fields)


def test_read_after_write_refuses_a_field_named_twice() -> None:
    with pytest.raises(ContractFieldError, match="twice"):
        read_after_write("status", status="'x'")


def test_a_shared_reader_takes_only_the_arguments_it_names() -> None:
    asked: list[str] = []

    @reader(source="orders-db", consistency="strong", independence="other_client")
    def order_row(ctx: Context, order_id: str) -> Reading:
        asked.append(order_id)
        return Reading.of({"id": order_id})

    plan = compiled((), readers=[order_row])
    assert read(plan).value == {"id": "o-17"}
    assert asked == ["o-17"]
    assert plan.contract.readers[0].name == "order_row"


def test_a_shared_reader_that_needs_another_argument_is_refused() -> None:
    @reader(source="orders-db", consistency="strong", independence="other_client", name="row")
    def order_row(ctx: Context, order: str) -> Reading:
        return Reading.of({"id": order})

    problems = refused(ContractFieldError, (), readers=[order_row])
    assert "names 'order', but this action has no such argument" in problems["readers.row"]


# --- invariant_check ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("DT-invariant-check")
def test_an_invariant_by_expression_is_judged_over_the_reading() -> None:
    ensure = {"status": "authoritative.status == 'shipped'", **invariant_check("stock", "authoritative.stock >= 0")}
    plan = compiled(ensure=ensure)
    assert truths(plan, authoritative={"stock": -1})["stock"] is Truth.VIOLATED
    assert truths(plan, authoritative={"stock": 0})["stock"] is Truth.HOLDS


@pytest.mark.requirement("DT-invariant-check")
@pytest.mark.parametrize("root", ["requested", "intended", "observed"])
def test_an_invariant_names_no_target(root: str) -> None:
    ensure = {"a": "authoritative.a == 1", **invariant_check("odd", f"authoritative.a == {root}.order_id")}
    assert f"{root!r} is not allowed here" in refused(ExpressionError, ensure=ensure)["ensure.odd"]


def probed(answer: object, raising: Exception | None = None) -> Callable[[Context], bool | None]:
    def no_overdraft(ctx: Context) -> bool | None:
        if raising is not None:
            raise raising
        return answer  # type: ignore[return-value]

    return no_overdraft


def with_invariant(probe: Callable[[Context], bool | None], **declared: str) -> dict[str, object]:
    return {
        "status": "authoritative.status == 'shipped'",
        **invariant_check('no overdraft "at all"', probe, source="bank-db", **declared),
    }


NAME = 'no overdraft "at all"'


@pytest.mark.requirement("DT-invariant-check", "DT-inconclusive")
@pytest.mark.parametrize(
    ("answer", "truth"), [(True, Truth.HOLDS), (False, Truth.VIOLATED), (None, Truth.UNDETERMINED)]
)
def test_a_probe_is_asked_with_each_reading_and_judged_beside_the_record(answer: object, truth: Truth) -> None:
    plan = compiled(ensure=with_invariant(probed(answer)))
    seen = read(plan)
    assert isinstance(seen.value, dict)
    assert seen.value[INVARIANTS_KEY] == ({} if answer is None else {NAME: answer})
    assert truths(plan, authoritative=seen.value) == {"status": Truth.HOLDS, NAME: truth}


@pytest.mark.requirement("DT-inconclusive")
def test_a_probe_that_raises_or_answers_oddly_leaves_no_reading() -> None:
    with pytest.raises(OSError, match="down"):
        read(compiled(ensure=with_invariant(probed(True, OSError("down")))))
    with pytest.raises(ReaderTypeError):
        read(compiled(ensure=with_invariant(probed("yes"))))


def test_an_absent_record_stays_absent_and_is_not_probed() -> None:
    @reader(source="orders-db", consistency="strong", independence="other_client")
    def gone(ctx: Context) -> Reading:
        return Reading.absent()

    asked: list[Context] = []

    def probe(ctx: Context) -> bool:
        asked.append(ctx)
        return True

    plan = compiled((), readers=[gone], ensure=with_invariant(probe))
    assert read(plan) == Reading.absent()
    assert asked == []


def test_a_record_that_is_no_object_cannot_have_invariants_beside_it() -> None:
    @reader(source="orders-db", consistency="strong", independence="other_client")
    def number(ctx: Context) -> Reading:
        return Reading.of(7)

    with pytest.raises(ReaderTypeError):
        read(compiled((), readers=[number], ensure=with_invariant(probed(True))))


def test_a_reading_is_as_strong_as_its_weakest_part() -> None:
    ensure = with_invariant(probed(True), consistency="session", independence="same_client", timeout="3s")
    (terms,) = compiled(ensure=ensure).contract.readers
    assert terms.consistency is Consistency.SESSION
    assert terms.independence is Independence.SAME_CLIENT
    assert terms.source == "orders-db + bank-db"
    assert terms.timeout_us == 13_000_000


def test_a_reader_that_knows_better_at_run_time_does_not_speak_for_the_probes() -> None:
    @reader(source="orders-db", consistency="session", independence="other_client")
    def row(ctx: Context) -> Reading:
        return Reading.of({"status": "shipped"}, consistency="strong")

    weak = with_invariant(probed(True), consistency="session")
    assert read(compiled((), readers=[row], ensure=weak)).consistency is Consistency.SESSION
    assert read(compiled((), readers=[row], ensure=with_invariant(probed(True)))).consistency is Consistency.STRONG


def test_an_invariant_stays_out_of_the_frame() -> None:
    contract = compiled(ensure=with_invariant(probed(True)), may_change=["status"]).contract
    assert contract.may_change == ("status", INVARIANTS_KEY)


def test_an_invariant_alone_satisfies_a_class_that_asks_for_no_identity_and_no_other() -> None:
    alone = invariant_check("healthy", probed(True), source="health")
    contract = compiled((), ensure=alone, side_effect="ephemeral_write", identity={}).contract
    assert [(r.name, r.source, r.timeout_us) for r in contract.readers] == [("invariants", "health", 10_000_000)]
    assert "identity.target" in refused(ContractFieldError, (), ensure=alone, identity={})


def test_a_deleted_record_leaves_nothing_for_a_probe_to_stand_beside() -> None:
    assert "ensure" in refused(ContractFieldError, kind="delete", ensure=with_invariant(probed(True)))


def test_a_probe_needs_a_source() -> None:
    with pytest.raises(ContractFieldError, match="source"):
        invariant_check("healthy", probed(True))


def test_async_probes_go_with_async_readers_and_are_not_mixed() -> None:
    async def healthy(ctx: Context) -> bool:
        return True

    @reader(source="orders-db", consistency="strong", independence="other_client")
    async def row(ctx: Context) -> Reading:
        return Reading.of({"status": "shipped"})

    ensure = {"status": "authoritative.status == 'shipped'", **invariant_check("healthy", healthy, source="health")}
    plan = compiled((), readers=[row], ensure=ensure)
    hand = plan.hands.readers[0]
    assert hand.is_async
    pending = hand.call(CONTEXT, ARGUMENTS)
    assert iscoroutine(pending)
    with pytest.raises(StopIteration) as ended:
        pending.send(None)
    assert ended.value.value.value == {"status": "shipped", INVARIANTS_KEY: {"healthy": True}}
    assert "mixed" in refused(ContractFieldError, (reading(),), ensure=ensure)["ensure"]


def test_an_invariant_is_plain_data() -> None:
    assert invariant_check("a", "authoritative.a == 1") == {"a": Invariant("a", "authoritative.a == 1")}
