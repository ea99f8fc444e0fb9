"""Texts that a new user reads first: what is wrong, where it is, and what to do next."""

from __future__ import annotations

from typing import Any

import pytest

from readback import Context, action, verified
from readback.domain.side_effect import SideEffect
from readback.errors import ContractError, ContractFieldError
from tests.front.given import Shop, opened


def shipping(shop: Shop, **more: Any) -> Any:
    return verified(
        shop.ship, **{"read": shop.shown, "strong": True, "id": "order_id", "expect": {"status": "shipped"}, **more}
    )


def test_a_replay_says_that_nothing_was_executed_and_how_to_start_anew() -> None:
    shop = Shop()
    with opened() as rb:
        rb.run(shipping(shop)("o-17"), operation="ship it")
        again = rb.run(shipping(shop)("o-17"), operation="ship it")
    assert "nothing was executed again" in again.message
    assert "To start anew, ask for it under another operation." in again.message
    assert shop.calls == 1


def test_a_replay_in_doubt_does_not_propose_another_operation() -> None:
    shop = Shop()
    with opened() as rb:
        rb.run(shipping(shop, strong=False)("o-17"), operation="ship it")
        again = rb.run(shipping(shop, strong=False)("o-17"), operation="ship it")
    assert again.replayed
    assert "another operation" not in again.message


def test_an_unchanged_record_of_an_ephemeral_write_is_not_told_as_changed() -> None:
    shop = Shop()
    shop.lies = True
    with opened() as rb:
        outcome = rb.run(shipping(shop, risk="ephemeral_write", within="1s")("o-17"))
    assert not outcome.verified
    assert "changed, but" not in outcome.message + outcome.for_model()


def test_a_wrong_class_lists_the_classes_and_proposes_none() -> None:
    with pytest.raises(ContractError) as caught:
        shipping(Shop(), risk="low_risk").load()
    assert all(each.value in caught.value.message for each in SideEffect)
    assert "Did you mean" not in caught.value.message


def test_a_mistake_in_the_tool_is_told_with_its_file_and_line() -> None:
    def ship(order_id: str) -> None:
        undefined_name(order_id)  # type: ignore[name-defined]  # noqa: F821 - the mistake

    with opened() as rb:
        outcome = rb.run(verified(ship, read=Shop().shown, strong=True, expect={"a": 1}, within="1s")("o-17"), wait=0)
    assert outcome.observation is not None
    assert "NameError" in outcome.observation.detail
    assert f"test_texts.py:{ship.__code__.co_firstlineno + 1}" in outcome.observation.detail


@pytest.mark.parametrize(
    ("expression", "advice"),
    [
        ("authoritative.a == 1 and authoritative.b == 2", "`&&`"),
        ("authoritative.a is None", "`== null`"),
        ("authoritative.a == True", "`true`"),
        ("not authoritative.a", "`!`"),
    ],
)
def test_python_in_an_expression_is_answered_with_what_is_written_there(expression: str, advice: str) -> None:
    with pytest.raises(ContractError, match="ensure") as caught:
        shipping(Shop(), expect=expression).load()
    assert advice in caught.value.message


def test_a_method_is_explained() -> None:
    class Desk:
        def ship(self, order_id: str) -> None: ...

    with pytest.raises(ContractFieldError, match="static method"):
        verified(Desk.ship, read=lambda order_id: None, expect={"a": 1}).load()


def test_a_reversal_inherits_no_reader_that_searches_by_its_own_stamp() -> None:
    @action(
        "note/{text}",
        kind="create",
        side_effect="low_risk_internal",
        ensure="authoritative != null",
        operation="{text}",
    )
    def write(text: str) -> None: ...

    @write.read(strong=True, attributes=True)
    def note(ctx: Context) -> object:
        return {"stamp": ctx.stamp}

    @write.compensate(kind="delete", ensure={"gone": "authoritative == null"})
    def erase(text: str) -> None: ...

    with pytest.raises(ContractError, match=r"ctx\.subject_stamp"):
        write.load()
