"""The decorator: what it makes of a function, when it is loaded, and what its author can add."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import iscoroutine
from typing import Any

import pytest

from readback.client.authoring.action import ActionDefinition, action
from readback.contracts.functions.conditions import postcondition
from readback.domain.context import Context
from readback.domain.predicate import Truth
from readback.domain.side_effect import SideEffect
from readback.domain.verdict import Verdict
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import ContractError, ContractFieldError, HonestyError, MissingReaderError, UsageError

CONTEXT = Context("a-1", "acme", "agent:ops", "ship", "order/o-17", "key", "stamp")
ARGUMENTS = {"order_id": "o-17", "carrier": "dhl"}
OPTIONS: dict[str, Any] = {
    "kind": "set",
    "side_effect": "low_risk_internal",
    "target": "order/{requested.order_id}",
    "identity": {"target": "authoritative.id", "tenant": "authoritative.tenant"},
    "ensure": {
        "shipped": "authoritative.status == 'shipped'",
        "carrier": "authoritative.carrier == requested.carrier",
    },
}


def bare(**changes: Any) -> ActionDefinition[[str, str]]:
    @action(**{**OPTIONS, **changes})
    def ship_order(ctx: Context, order_id: str, carrier: str) -> object:
        """Ships."""
        return {"shipped": order_id}

    return ship_order


def complete(**changes: Any) -> ActionDefinition[[str, str]]:
    made = bare(**changes)

    @made.read(source="orders-db", consistency="strong", independence="other_client")
    def order_row(ctx: Context, order_id: str, carrier: str) -> Reading:
        return Reading.of({"id": order_id, "status": "shipped", "carrier": carrier})

    return made


# --- proposing ---------------------------------------------------------------------------------------------------


def test_calling_an_action_proposes_and_does_nothing() -> None:
    called: list[str] = []

    @action(**OPTIONS)
    def ship(ctx: Context, order_id: str, carrier: str) -> object:
        called.append(order_id)
        return None

    @ship.read(source="orders-db", consistency="strong", independence="other_client")
    def row(ctx: Context, order_id: str, carrier: str) -> Reading:
        called.append("read")
        return Reading.absent()

    proposal = ship("o-17", carrier="dhl")
    proposal.mark_run()
    assert called == []
    assert proposal.definition is ship
    assert proposal.arguments == proposal.requested == ARGUMENTS


def test_the_bare_function_stays_at_hand() -> None:
    made = complete()
    assert made.unverified(CONTEXT, "o-17", "dhl") == {"shipped": "o-17"}
    assert made.__name__ == "ship_order"
    assert made.__doc__ == "Ships."
    assert repr(made) == "<action ship_order>"


def test_the_name_is_the_functions_unless_it_is_given() -> None:
    assert complete().contract.name == "ship_order"
    assert complete(name="orders.ship").contract.name == "orders.ship"


# --- loading -----------------------------------------------------------------------------------------------------

_IMPORTS = """
import sys
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.client.authoring.action import action
from readback.contracts.functions.verifiers import read_after_write

@action(kind="set", side_effect="ephemeral_write", target="t/{requested.a}", ensure={"a": "authoritative.a == 1"})
def act(ctx: Context, a: str, b: int = 1) -> object:
    return None

@act.read(source="s", consistency="strong", independence="other_client")
def row(ctx: Context, a: str, b: int = 1) -> Reading:
    return Reading.of({"a": 1})

def heavy() -> set[str]:
    return {name.partition(".")[0] for name in sys.modules} & {"pydantic", "cel_expr_python", "re2", "httpx", "apsw"}

assert heavy() == set(), heavy()
act("x").mark_run()
assert heavy() == set(), heavy()
"""


def test_neither_decorating_nor_compiling_imports_re2_or_pydantic_and_plain_arguments_never_need_pydantic() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_contract_is_compiled_once_for_all_threads() -> None:
    made = complete()
    with ThreadPoolExecutor(8) as pool:
        plans = list(pool.map(lambda _: made.plan, range(32)))
    assert all(plan is plans[0] for plan in plans)
    assert made.load() is plans[0]


@pytest.mark.requirement("INPUT-no-reader", "L25")
def test_a_broken_contract_is_refused_at_the_first_proposal_and_every_time() -> None:
    made = bare()
    for _ in range(2):
        with pytest.raises(MissingReaderError):
            made("o-17", "dhl")
    with pytest.raises(MissingReaderError):
        made.load()


@pytest.mark.requirement("INPUT-unknown-field")
def test_an_unknown_keyword_of_the_decorator_is_a_fault_of_the_contract() -> None:
    with pytest.raises(ContractFieldError, match="Did you mean 'within'"):
        complete(whitin="5s").load()


def test_nothing_is_added_to_a_contract_that_is_loaded() -> None:
    made = complete()
    made.load()
    with pytest.raises(UsageError, match="already loaded"):
        made.find(lambda ctx, order_id, carrier: [])


# --- hands -------------------------------------------------------------------------------------------------------


def test_every_hand_finds_its_place_and_stays_callable() -> None:
    made = complete()

    @made.find
    def effects(ctx: Context, order_id: str, carrier: str) -> list[Reading]:
        return [Reading.of({"id": order_id}, stamp=ctx.stamp)]

    @made.lookup
    def became(ctx: Context, order_id: str, carrier: str) -> Lookup:
        return Lookup.landed({"key": ctx.idempotency_key})

    @made.rollback
    def back(ctx: Context, order_id: str, carrier: str) -> None:
        return None

    hands = made.plan.hands
    assert hands.find is not None
    assert hands.lookup is not None
    assert hands.rollback is not None
    assert hands.find.call(CONTEXT, ARGUMENTS) == effects(CONTEXT, "o-17", "dhl")
    assert hands.lookup.call(CONTEXT, ARGUMENTS) == became(CONTEXT, "o-17", "dhl")
    assert hands.rollback.call(CONTEXT, ARGUMENTS) is None
    contract = made.contract
    assert (contract.has_find, contract.has_lookup, contract.has_rollback) == (True, True, True)
    assert back.__name__ == hands.rollback.name == "back"


@pytest.mark.parametrize("what", ["find", "lookup", "rollback"])
def test_a_hand_is_given_once_and_takes_the_actions_arguments(what: str) -> None:
    made = complete()
    getattr(made, what)(lambda ctx, parcel: None)
    with pytest.raises(UsageError, match="already"):
        getattr(made, what)(lambda ctx, order_id, carrier: None)
    with pytest.raises(ContractFieldError, match=f"{what}: It does not take the context"):
        made.load()


def test_async_functions_are_known_as_such() -> None:
    @action(**OPTIONS)
    async def ship(ctx: Context, order_id: str, carrier: str) -> object:
        return order_id

    @ship.read(source="orders-db", consistency="strong", independence="other_client")
    async def row(ctx: Context, order_id: str, carrier: str) -> Reading:
        return Reading.absent()

    hands = ship.plan.hands
    assert hands.execute.is_async
    assert hands.readers[0].is_async
    pending = hands.execute.call(CONTEXT, ARGUMENTS)
    assert iscoroutine(pending)
    pending.close()
    assert not complete().plan.hands.execute.is_async


def test_a_reader_may_carry_a_name_a_timeout_and_the_word_that_it_attributes() -> None:
    made = bare(kind="create")

    @made.read(
        source="orders-db",
        consistency="strong",
        independence="other_client",
        timeout="2s",
        attributes=True,
        name="primary",
    )
    def row(ctx: Context, order_id: str, carrier: str) -> Reading:
        return Reading.absent()

    (terms,) = made.contract.readers
    assert (terms.name, terms.timeout_us) == ("primary", 2_000_000)


# --- compensation ------------------------------------------------------------------------------------------------


def test_a_compensation_may_be_an_action_that_exists() -> None:
    ship, unship = complete(name="ship"), complete(name="unship")
    assert ship.compensate(unship) is unship
    assert ship.plan.compensation is unship.plan
    assert ship.contract.has_compensation
    assert ship.compensation is unship


def test_a_compensation_made_in_place_takes_from_its_action_what_it_does_not_say() -> None:
    ship = complete()

    @ship.compensate(kind="set", ensure={"open": "authoritative.status == 'open'"}, within="3s")
    def reopen(ctx: Context, order_id: str, carrier: str) -> object:
        return None

    contract = reopen.contract
    assert contract.name == "reopen"
    assert contract.side_effect is SideEffect.LOW_RISK_INTERNAL
    assert contract.target == "order/{requested.order_id}"
    assert [reader.name for reader in contract.readers] == ["order_row"]
    assert contract.within_us == 3_000_000
    assert ship.plan.compensation is reopen.plan


def test_a_compensation_takes_the_same_parameters_and_its_faults_are_its_actions_too() -> None:
    ship = complete()

    @action(**{**OPTIONS, "target": "order", "ensure": {"a": "authoritative.a == 1"}, "within": 7})
    def cancel(ctx: Context, order_id: str) -> object:
        return None

    ship.compensate(cancel)  # type: ignore[arg-type]
    with pytest.raises(ContractError) as caught:
        ship.load()
    found = caught.value.details["problems"]
    assert isinstance(found, list)
    assert [each["key"] for each in found] == ["compensate", "compensate"]
    assert "'cancel' cannot be loaded" in found[0]["reason"]
    assert "(order_id)" in found[1]["reason"]


def test_compensations_do_not_go_round_in_a_circle() -> None:
    one, two = complete(name="one"), complete(name="two")
    one.compensate(two)
    two.compensate(one)
    with pytest.raises(ContractError, match="is circular"):
        one.load()
    with pytest.raises(UsageError):
        one.compensate(one)


def test_compensate_takes_one_action_or_keys() -> None:
    one, two = complete(name="one"), complete(name="two")
    with pytest.raises(UsageError):
        one.compensate(two, kind="set")  # type: ignore[call-overload]


# --- evaluate ----------------------------------------------------------------------------------------------------

SHIPPED = {"status": "shipped", "carrier": "dhl"}


@pytest.mark.parametrize(
    ("authoritative", "verdict", "carrier"),
    [
        (SHIPPED, Verdict.VERIFIED, Truth.HOLDS),
        (Reading.of(SHIPPED), Verdict.VERIFIED, Truth.HOLDS),
        ({"status": "shipped", "carrier": "ups"}, Verdict.REFUTED, Truth.VIOLATED),
        ({"status": "shipped"}, Verdict.UNDETERMINED, Truth.UNDETERMINED),
        (None, Verdict.UNDETERMINED, Truth.UNDETERMINED),
        (Reading.absent(), Verdict.UNDETERMINED, Truth.UNDETERMINED),
        (Reading.unavailable("down"), Verdict.UNDETERMINED, Truth.UNDETERMINED),
    ],
)
def test_given_states_are_judged_without_a_system(authoritative: object, verdict: Verdict, carrier: Truth) -> None:
    judged = complete().evaluate(requested=ARGUMENTS, authoritative=authoritative)
    assert judged.verdict is verdict
    assert judged.truth("carrier") is carrier


def test_what_a_reading_hides_leaves_even_absence_undetermined() -> None:
    made = complete(kind="delete", ensure={"gone": "authoritative == null"})
    assert made.evaluate(requested=ARGUMENTS, authoritative=Reading.absent()).verdict is Verdict.VERIFIED
    assert made.evaluate(requested=ARGUMENTS, authoritative=Reading.not_visible()).verdict is Verdict.UNDETERMINED


def test_all_clauses_are_judged_over_all_roots() -> None:
    @postcondition(version="1")
    def within_budget(intended: dict[str, Any], observed: dict[str, Any]) -> bool | None:
        return None if observed is None else bool(observed["cost"] <= intended["budget"])

    made = complete(
        ensure={**OPTIONS["ensure"], "cost": within_budget},
        require={"open": "before.status == 'open' && scope.tenant == 'acme'"},
        fails_when={"lost": "authoritative.status == 'lost'"},
    )
    judged = made.evaluate(
        requested=ARGUMENTS,
        authoritative=SHIPPED,
        before={"status": "open"},
        observed={"cost": 7},
        intended={"budget": 5},
        scope={"tenant": "acme"},
    )
    assert judged.truth("cost") is Truth.VIOLATED
    assert judged.truth("open") is Truth.HOLDS
    assert judged.truth("lost") is Truth.VIOLATED
    assert not judged.failed
    assert made.evaluate(requested=ARGUMENTS, authoritative={"status": "lost"}).failed
    assert made.evaluate(requested=ARGUMENTS).truth("cost") is Truth.UNDETERMINED
    with pytest.raises(KeyError):
        judged.truth("nothing")


def test_an_evaluation_has_no_truth_of_its_own() -> None:
    with pytest.raises(HonestyError):
        bool(complete().evaluate(requested=ARGUMENTS, authoritative=SHIPPED))


def _kinds() -> Iterator[Callable[..., Awaitable[object] | object]]:
    yield lambda ctx, order_id, carrier: None

    class Tool:
        async def __call__(self, ctx: Context, order_id: str, carrier: str) -> object:
            return None

    yield Tool()


def test_any_callable_may_be_an_action_where_it_has_a_name() -> None:
    function, tool = _kinds()
    with pytest.raises(ContractFieldError, match="name"):
        action(**OPTIONS)(function).load()
    made = action(**OPTIONS, name="tool")(tool)
    made.read(source="s", consistency="strong", independence="other_client")(
        lambda ctx, order_id, carrier: Reading.absent()
    )
    assert made.plan.hands.execute.is_async
