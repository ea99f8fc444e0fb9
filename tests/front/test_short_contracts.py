"""The smallest contract: its defaults, what a reader may return, and what no default may raise."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readback import Context, Discrepancy, Policy, Reading, State, Timing, Verdict, action, arg, verified
from readback.client.authoring.action import ActionDefinition
from readback.domain.side_effect import SideEffect
from readback.errors import (
    ContractError,
    ContractFieldError,
    MissingPostconditionError,
    MissingReaderError,
    UsageError,
)
from tests.front.given import SHAPES, Shop, opened, opened_async

SHIPPED = "authoritative.status == 'shipped'"


def shipping(shop: Shop, shape: str = "mapping", **terms: Any) -> ActionDefinition[Any]:
    """The short contract of the first page over this shop."""

    @action("order/{order_id}", ensure=SHIPPED, within="1s")
    def ship_order(order_id: str) -> object:
        return shop.ship(order_id)

    @ship_order.read(**terms)
    def order(order_id: str) -> object:
        return shop.shown(order_id, shape)

    return ship_order


@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_strong_reader_of_any_shape_verifies_the_short_contract(shape: str) -> None:
    with opened() as rb:
        outcome = rb.run(shipping(Shop(), shape, strong=True)("o-17"))
    assert outcome.verified
    assert outcome.value == {"order_id": "o-17", "status": "shipped"}


@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_reader_that_declares_nothing_matches_and_verifies_nothing(shape: str) -> None:
    shop = Shop()
    with opened() as rb:
        outcome = rb.run(shipping(shop, shape)("o-17"), operation="ship o-17")
        again = rb.run(shipping(shop, shape)("o-17"), operation="ship o-17")
    assert outcome.verdict is Verdict.UNDETERMINED
    assert "matches; the reader is not declared independent" in outcome.message
    assert "@ship_order.read(strong=True)" in outcome.message
    assert not outcome.verified
    assert not outcome.repeat_allowed
    assert (shop.calls, again.replayed) == (1, True)  # the key stays taken


def test_nothing_found_by_a_reader_that_declares_nothing_is_not_absence() -> None:
    shop = Shop()
    shop.lies = True
    with opened() as rb:
        outcome = rb.run(shipping(shop)("o-99"), operation="ship o-99")
        again = rb.run(shipping(shop)("o-99"), operation="ship o-99")
    assert outcome.state not in (State.FAILED, State.RECONCILED_SUCCESS)
    assert outcome.verdict is Verdict.UNDETERMINED
    assert "does not show absence" in outcome.message
    assert not outcome.may_repeat
    assert (shop.calls, again.replayed) == (1, True)


def test_a_lie_is_no_success_with_any_reader() -> None:
    for terms in ({}, {"strong": True}):
        shop = Shop()
        shop.lies = True
        with opened() as rb:
            outcome = rb.run(shipping(shop, **terms)("o-17"))
        assert not outcome.verified
        assert outcome.state is not State.RECONCILED_SUCCESS


def test_an_unchanged_record_is_refused_by_default() -> None:
    shop = Shop()
    shop.orders["o-17"] = "shipped"
    with opened() as rb:
        outcome = rb.run(shipping(shop, strong=True)("o-17"))
    assert not outcome.verified
    assert outcome.discrepancy is Discrepancy.NO_OP_FAILURE


@pytest.mark.parametrize("field", ["tenant", "tenant_id"])
def test_a_record_of_another_tenant_verifies_nothing(field: str) -> None:
    shop = Shop()
    for terms in ({}, {"strong": True}):
        made = verified(
            shop.ship,
            read=lambda order_id: {"order_id": order_id, "status": shop.orders[order_id], field: "other"},
            target="order/{order_id}",
            expect={"status": "shipped"},
            within="1s",
            **terms,
        )
        with opened() as rb:
            outcome = rb.run(made("o-17"))
        assert outcome.verdict is not Verdict.VERIFIED, terms
        assert not outcome.verified


@pytest.mark.parametrize("field", ["order_id", "id"])
def test_the_record_of_another_order_verifies_nothing(field: str) -> None:
    made = verified(
        lambda order_id: None,
        name="ship",
        read=lambda order_id: {field: "o-18", "status": "shipped"},
        strong=True,
        target="order/{order_id}",
        expect={"status": "shipped"},
        within="1s",
    )
    with opened() as rb:
        assert not rb.run(made("o-17")).verified


def _generator() -> Iterator[dict[str, str]]:
    yield {"status": "shipped"}


async def _coroutine() -> dict[str, str]:
    return {"status": "shipped"}


def _raises() -> object:
    raise LookupError("no such table")


WRONG: dict[str, Callable[[], object]] = {
    "a list": lambda: [{"status": "shipped"}],
    "an empty list": list,
    "a tuple": lambda: ("o-17", "shipped"),
    "a text": lambda: "shipped",
    "a flag": lambda: True,
    "a number": lambda: 7,
    "NaN": lambda: math.nan,
    "NaN in a record": lambda: {"status": "shipped", "weight": math.nan},
    "a class": lambda: dict,
    "a generator": _generator,
    "a coroutine": _coroutine,
    "an error": _raises,
    "a set": lambda: {"shipped"},
    "a record with a number as name": lambda: {7: "shipped"},
}


@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("what", list(WRONG))
def test_what_is_no_record_is_never_a_success(what: str, strong: bool) -> None:
    shop = Shop()
    made = verified(
        shop.ship,
        read=lambda order_id: WRONG[what](),
        strong=strong,
        target="order/{order_id}",
        expect={"status": "shipped"},
        within="1s",
    )
    with opened() as rb:
        outcome = rb.run(made("o-17"), wait=5)
    assert outcome.verdict is not Verdict.VERIFIED
    assert outcome.verdict is not Verdict.REFUTED
    assert not outcome.verified


@settings(max_examples=60, deadline=None)
@given(
    answer=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    ),
    strong=st.booleans(),
)
def test_only_a_record_that_holds_the_expectation_is_a_success(answer: object, strong: bool) -> None:
    """Whatever a reader returns after the call: success means that the very field was read, by a declared reader."""
    state: list[object] = [{"status": "open"}]

    def work() -> None:
        state[0] = answer

    made = verified(work, read=lambda: state[0], strong=strong, expect={"status": "shipped"}, target="it", within="1s")
    with opened() as rb:
        outcome = rb.run(made(), wait=5)
    holds = isinstance(answer, dict) and answer.get("status") == "shipped"
    assert not outcome.verified or (holds and strong)


def test_async_and_sync_functions_mix_under_both_clients() -> None:
    shop = Shop()

    async def ship_later(order_id: str) -> object:
        return shop.ship(order_id)

    async def look_later(order_id: str) -> object:
        return shop.shown(order_id)

    async def under_async(made: ActionDefinition[Any]) -> bool:
        async with opened_async() as rb:
            return (await rb.run(made("o-17"))).verified

    for work in (shop.ship, ship_later):
        for look in (shop.shown, look_later):
            for run in (lambda made: opened().run(made("o-17")).verified, lambda made: asyncio.run(under_async(made))):
                shop.orders["o-17"] = "open"
                made = verified(work, read=look, strong=True, id="order_id", expect={"status": "shipped"})
                assert run(made)


def test_the_context_is_passed_where_it_is_annotated_and_nowhere_else() -> None:
    seen: list[object] = []
    shop = Shop()

    @action("order/{order_id}", ensure=SHIPPED)
    def ship(order_id: str, marks: Context) -> object:
        seen.append(marks)
        return shop.ship(order_id)

    @ship.read(strong=True)
    def order(look: Context) -> object:
        seen.append(look)
        return shop.shown("o-17")

    with opened() as rb:
        assert rb.run(ship(order_id="o-17")).verified
    assert seen
    assert all(isinstance(each, Context) for each in seen)


def test_what_is_assumed_is_listed_with_the_contract() -> None:
    assumed = shipping(Shop()).contract.assumed
    assert "side_effect: low_risk_internal" in assumed
    assert any(line.startswith("readers.order") for line in assumed)
    assert not any(line.startswith("readers") for line in shipping(Shop(), strong=True).contract.assumed)


@pytest.mark.parametrize("name", ["create_order", "send_mail", "charge", "chargeCard", "pay_invoice", "refund"])
def test_what_makes_sends_or_charges_names_its_kind_and_its_class(name: str) -> None:
    def work(order_id: str) -> None: ...

    work.__name__ = name
    with pytest.raises(ContractFieldError, match="states its kind, its class and its operation"):
        verified(work, read=lambda order_id: None, expect={"status": "x"}).load()


@pytest.mark.parametrize("kind", ["create", "send", "append", "adjust"])
def test_a_create_names_its_class_and_its_operation(kind: Any) -> None:
    made = verified(
        lambda order_id: None, name="work", read=lambda order_id: None, find=lambda ctx: [], kind=kind, expect={"a": 1}
    )
    with pytest.raises(ContractError) as caught:
        made.load()
    found = caught.value.details["problems"]
    assert isinstance(found, list)
    assert {"side_effect", "operation"} <= {each["key"] for each in found}
    reason = next(each["reason"] for each in found if each["key"] == "side_effect")
    assert all(each.value in reason for each in SideEffect)


def test_the_operation_of_a_contract_names_the_intent() -> None:
    shop = Shop()
    made = verified(
        shop.ship,
        read=shop.shown,
        strong=True,
        id="order_id",
        expect={"status": "shipped"},
        operation="ship {order_id}",
    )
    with opened() as rb:
        first = rb.run(made("o-17"))
        again = rb.run(made("o-17"))
        found = rb.find_operation("ship o-17", made)
    assert (first.operation, again.replayed, shop.calls) == ("ship o-17", True, 1)
    assert found is not None
    assert found.id == first.id


def test_a_reversal_takes_a_part_of_the_arguments_and_inherits_the_reader() -> None:
    shop = Shop()

    def ship(order_id: str, carrier: str) -> object:
        return shop.ship(order_id)

    def unship(order_id: str) -> None:
        shop.orders[order_id] = "open"

    made = verified(
        ship,
        read=shop.shown,
        strong=True,
        id="order_id",
        expect={"status": "shipped"},
        undo=verified(unship, expect={"status": "open"}),
    )
    assert made.contract.has_compensation
    with opened() as rb:
        done = rb.run(made("o-17", "dhl"))
        assert done.verified
        assert rb.cancel(done.id).contract == "ship"


WRONG_WORDS: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "read is called": (ContractFieldError, {"read": {"status": "x"}}),
    "read is a class": (ContractFieldError, {"read": dict}),
    "nothing is expected": (ContractFieldError, {"expect": {}}),
    "expect is left out": (ContractFieldError, {}),
    "expect is a list": (ContractFieldError, {"expect": ["shipped"]}),
    "expect has no names": (ContractFieldError, {"expect": {7: "x"}}),
    "expect is NaN": (ContractFieldError, {"expect": {"weight": math.nan}}),
    "expect holds a function": (ContractFieldError, {"expect": {"status": len}}),
    "expect names no argument": (ContractError, {"expect": {"status": arg("nobody")}}),
    "strong is a word": (ContractFieldError, {"expect": {"a": 1}, "strong": "yes"}),
    "risk is unknown": (ContractError, {"expect": {"a": 1}, "risk": "harmless"}),
    "kind is unknown": (ContractError, {"expect": {"a": 1}, "kind": "sett"}),
    "id is a number": (ContractFieldError, {"expect": {"a": 1}, "id": 7}),
    "id names no argument": (ContractError, {"expect": {"a": 1}, "id": "nobody"}),
    "within is a number": (ContractError, {"expect": {"a": 1}, "within": 10}),
    "operation names nothing": (ContractError, {"expect": {"a": 1}, "operation": "always the same"}),
    "operation names no argument": (ContractError, {"expect": {"a": 1}, "operation": "ship {nobody}"}),
    "operation is a number": (ContractError, {"expect": {"a": 1}, "operation": 7}),
    "undo of a set": (ContractFieldError, {"expect": {"a": 1}, "undo": len}),
    "the reader asks for more": (ContractError, {"expect": {"a": 1}, "read": lambda order_id, nobody: None}),
    "there is no reader": (MissingReaderError, {"expect": {"a": 1}, "read": None}),
    "nothing reads the record": (MissingPostconditionError, {"expect": "requested.order_id == 'o-17'"}),
}


@pytest.mark.parametrize("what", list(WRONG_WORDS))
def test_a_wrong_word_is_a_typed_error_that_names_the_fix(what: str) -> None:
    fault, words = WRONG_WORDS[what]
    with pytest.raises(fault) as caught:
        verified(Shop().ship, **{"read": Shop().shown, **words}).load()
    assert isinstance(caught.value, ContractError)
    assert caught.value.remedy


def test_a_contract_is_written_in_groups_or_by_single_keys() -> None:
    made = action(
        "order/{order_id}",
        ensure=SHIPPED,
        timing=Timing(within="5s", polls=["0s", "1s"]),
        policy=Policy(principals=["agent:ops"], tell=["status"]),
    )(Shop().ship)
    made.read(strong=True)(Shop().shown)
    assert made.contract.within_us == 5_000_000
    assert (made.contract.principals, made.contract.tell) == (("agent:ops",), ("status",))
    with pytest.raises(ContractFieldError, match="Write it once"):
        action("order/{order_id}", ensure=SHIPPED, within="1s", timing=Timing(within="5s"))(Shop().ship)
    wrong: Any = {"within": "5s"}
    with pytest.raises(ContractFieldError, match="Timing"):
        action("order/{order_id}", ensure=SHIPPED, timing=wrong)(Shop().ship)


def test_the_decorator_is_not_used_bare_and_takes_its_target_once() -> None:
    misused: Any = action
    with pytest.raises(ContractFieldError, match="needs a contract"):
        misused(Shop().ship)
    with pytest.raises(ContractFieldError, match="by name"):
        misused("order/{order_id}", "set", ensure=SHIPPED)
    with pytest.raises(ContractFieldError, match="twice"):
        misused("order/{order_id}", target="order/{order_id}", ensure=SHIPPED)
    with pytest.raises(UsageError, match="Did you mean 'strong'"):
        shipping(Shop(), strongg=True)


def test_a_fault_names_the_line_of_its_author_and_no_other_traceback() -> None:
    with pytest.raises(ContractError) as caught:
        verified(Shop().ship, read=Shop().shown, expect={"status": arg("nobody")}).load()
    assert "given.py:" in caught.value.message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_reading_may_lower_what_its_reader_declares_and_never_raise_it() -> None:
    shop = Shop()

    def replica(order_id: str) -> object:
        return Reading.of({"status": shop.orders[order_id]}, consistency="strong")

    made = verified(shop.ship, read=replica, id="order_id", expect={"status": "shipped"}, within="1s")
    with opened() as rb:
        assert not rb.run(made("o-17")).verified
    assert replace(made.contract, assumed=()).readers[0].declared is False
