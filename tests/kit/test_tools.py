"""Tools of a kit as frameworks take them, and mistakes at construction."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from readback import Readback, from_step
from readback.agent_errors import UnknownToolError
from readback.canon import ReadbackError
from readback.client.step import SagaStep
from readback.errors import ContractFileError, SettingsError, UsageError
from readback.kit import Kit, UngovernedToolsWarning, saga
from tests.kit.shop import ENTER_SCHEMA, Shop, key_of


@pytest.mark.requirement("KIT-tools")
def test_a_tool_has_the_name_description_and_schema_of_its_action(kit: Kit) -> None:
    tool = kit.tool("ship_order")
    assert (tool.name, tool.description) == ("ship_order", "Ship an order with a carrier.")
    assert tool.schema["required"] == ["order_id"]
    assert list(kit.tools)[-2:] == ["readback_wait", "readback_status"]
    assert [name for name, each in kit.tools.items() if each.may_park] == ["pay"]
    assert [name for name, each in kit.tools.items() if each.foreign] == ["enter"]
    assert [name for name, each in kit.tools.items() if each.asks] == ["readback_wait", "readback_status"]


@pytest.mark.requirement("KIT-tools")
def test_a_schema_is_a_copy_that_a_framework_may_rewrite(kit: Kit, shop: Shop) -> None:
    for name in kit.tools:
        before = kit.tool(name).schema
        kit.tool(name).schema["properties"].clear()
        assert kit.tool(name).schema == before
    assert kit.tool("ship_order").run({"order_id": "o-1"}).ok


@pytest.mark.requirement("KIT-tools")
def test_a_model_has_the_schema_and_gives_the_arguments(kit: Kit, shop: Shop) -> None:
    for name, tool in kit.tools.items():
        assert tool.model.model_json_schema() == tool.schema, name
        assert tool.model is tool.model
    made = kit.tool("enter").model(name="ann", amount=2).model_dump(by_alias=True, exclude_unset=True)
    assert made == {"name": "ann", "amount": 2}
    assert kit.tool("enter").run(made).ok
    for wrong in ({"name": "ann"}, {"name": "ann", "amount": "2"}, {"name": "ann", "amount": 2, "more": 1}):
        with pytest.raises(ValidationError):
            kit.tool("enter").model.model_validate(wrong)


def test_a_governed_tool_takes_the_description_of_its_host_first(kit: Kit, shop: Shop) -> None:
    assert kit.tool("enter").description == "Enter an amount."
    assert kit.govern("enter", ENTER_SCHEMA).description == "Enters an amount."
    defined = {"name": "enter", "description": "Of the server.", "inputSchema": ENTER_SCHEMA}
    assert kit.govern("enter", definition=defined).description == "Of the server."
    assert kit.governs("write_off")
    assert not kit.governs("ship_order")


@pytest.mark.requirement("KIT-usage")
@pytest.mark.parametrize(
    "wrong",
    [
        {"wait": "soon"},
        {"wait": -1},
        {"final": "maybe"},
        {"content_max": 10},
        {"run": "a\nb"},
        {"actions": [print]},
        {"actions": "ship_order"},
        {"actions": ["ship_order"]},
        {"contracts": "book.yaml"},
        {"contracts": [7]},
    ],
)
def test_wrong_parameters_are_typed_errors(shop: Shop, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Kit.open(**shop.opened(**wrong))
    assert (caught.value.code, bool(caught.value.remedy)) == ("input.usage", True)


@pytest.mark.requirement("KIT-usage")
def test_mistakes_of_names_are_typed_errors(kit: Kit, shop: Shop) -> None:
    with pytest.raises(UnknownToolError, match="ship_order") as caught:
        kit.tool("ship_ordr")
    assert (caught.value.code, bool(caught.value.remedy)) == ("kit.unknown-tool", True)
    with pytest.raises(UnknownToolError, match="enter"):
        kit.govern("entr", ENTER_SCHEMA)
    for name, schema, call in (("ship_order", {}, None), ("enter", [], None), ("", {}, None), ("enter", {}, "call")):
        with pytest.raises(UsageError):
            kit.govern(name, schema, call)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        kit.add_reader_tool("look", "call")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="name 'ship_order'"):
        Kit.open(**shop.opened(actions=[shop.ship_order, shop.ship_order]))
    with pytest.raises(UsageError):
        Kit.over("rb")  # type: ignore[arg-type]


@pytest.mark.requirement("KIT-usage")
def test_a_contract_that_acts_by_itself_governs_no_foreign_tool(tmp_path: Path, shop: Shop) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        shop.book.read_text().replace(
            "    description: Enters an amount.",
            "    arguments: {name: string, amount: integer}\n    execute: {command: {argv: [/bin/true]}}",
        )
    )
    with Kit.open(**shop.opened(contracts=[own])) as kit, pytest.raises(UsageError, match="governs no tool"):
        kit.govern("enter", ENTER_SCHEMA)


@pytest.mark.requirement("KIT-usage")
def test_a_faulty_or_missing_contract_file_is_told_at_the_start(tmp_path: Path, shop: Shop) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(shop.book.read_text().replace("kind: set", "kind: sett"))
    with pytest.raises(ContractFileError, match=r"bad\.yaml"):
        Kit.open(**shop.opened(contracts=[bad]))
    with pytest.raises(SettingsError, match="missing"):
        Kit.open(**shop.opened(contracts=[tmp_path / "missing.yaml"]))


def test_a_contract_that_does_not_fit_the_schema_is_told_at_governing(kit: Kit) -> None:
    with pytest.raises(ContractFileError, match="amount"):
        kit.govern("enter", {"type": "object", "properties": {"name": {"type": "string"}}})
    assert kit.tool("enter").run({"name": "ann", "amount": 1}).ok


def test_ungoverned_tools_are_warned_of_once(kit: Kit) -> None:
    with pytest.warns(UngovernedToolsWarning, match=r"Some framework: no contract governs 'a', 'b'\."):
        assert kit.warn_ungoverned("Some framework", ["b", "enter", "a", "write_off", "pay", "b"]) == ("b", "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kit.warn_ungoverned("Some framework", ["a"]) == ("a",)


def test_a_kit_over_an_open_client_leaves_the_client_open(shop: Shop) -> None:
    known = shop.opened()
    actions, contracts = known.pop("actions"), known.pop("contracts")
    known.pop("wait")
    with Readback.open(**known) as rb:
        with Kit.over(rb, actions=actions, contracts=contracts) as kit:
            assert kit.current_run == "chat-1"
            done = kit.tool("ship_order").run({"order_id": "o-1"})
        assert rb.get(done.action).verified


def test_a_closed_kit_refuses_and_does_not_raise(shop: Shop) -> None:
    with Kit.open(**shop.opened()) as kit:
        tool = kit.tool("ship_order")
    assert (tool.run({"order_id": "o-1"}).status, shop.acted("ship_order")) == ("refused", 0)
    assert not kit.final("Done.").ok


# --- sagas ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def saga_kit(shop: Shop) -> Iterator[Kit]:
    @saga(operation="settle {to}", actions=[shop.pay])
    def settle(to: str, amount: int) -> list[SagaStep]:
        """Settle a debt."""
        return [shop.pay(to, amount).as_step("pay", pivot=True)]

    with Kit.open(**shop.opened(actions=[settle])) as made:
        yield made


@pytest.mark.requirement("KIT-tools")
def test_a_saga_is_a_tool(saga_kit: Kit, shop: Shop) -> None:
    tool = saga_kit.tool("settle")
    assert (tool.description, tool.schema["required"]) == ("Settle a debt.", ["to", "amount"])
    found = [tool.run({"to": "ann", "amount": 5}) for _ in range(2)]
    assert [each.status for each in found] == ["verified", "verified"]
    assert (found[0].action, shop.acted("pay")) == (found[1].action, 1)
    assert found[0].text.startswith("[saga outcome]")
    assert tool.run({"to": "bob"}).status == "refused"
    assert tool.begin({"to": "bob", "amount": 5}).result.status == "refused"


@pytest.mark.requirement("KIT-parked")
def test_a_saga_whose_step_waits_for_an_approval_is_parked(saga_kit: Kit, shop: Shop) -> None:
    tool = saga_kit.tool("settle")
    parked = tool.run({"to": "bob", "amount": 500}, wait=1)
    assert (parked.status, shop.acted("pay")) == ("parked", 0)
    assert parked.packet is not None
    step = str(parked.packet["action"])
    assert step != parked.action
    token = key_of(shop.home).approve(saga_kit.client.approval(step), "alice")
    done = saga_kit.decide(parked.action, token)
    assert (done.status, done.action, shop.acted("pay")) == ("verified", parked.action, 1)


@pytest.mark.requirement("KIT-usage")
def test_a_saga_without_steps_or_with_a_wrong_operation_is_told() -> None:
    with pytest.raises(UsageError, match="operation"):
        saga(operation="move {nothing}")(lambda sku: [])
    for wrong in (None, [], ["step"], [from_step("a", "b")]):
        with pytest.raises(ReadbackError):
            _saga_of(wrong)()


def _saga_of(found: Any) -> Any:
    def wrong() -> Any:
        return found

    return saga(wrong)
