"""What adapters share: the place of a call in a conversation, and the governed tools of an agent."""

from __future__ import annotations

import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from readback.frameworks.agent_tools import AgentTools, name_of
from readback.frameworks.history import CALLS_MAX, History, RecentCalls, Turn
from readback.kit import Kit, ShownCall, UngovernedToolsWarning
from tests.kit.shop import ENTER_SCHEMA, Shop

SHIP = {"order_id": "o-1"}


def two_messages() -> History:
    """A first call with a result, and then a message with three calls, two of them equal."""
    history = History()
    history.begin_message(by_person=True)
    history.begin_message()
    history.add_call("c1", "ship_order", SHIP)
    history.add_result("c1", "done", "01ACTION")
    history.begin_message()
    for call_id, arguments in (("c2", SHIP), ("c3", {"order_id": "o-2"}), ("c4", '{"order_id": "o-1"}')):
        history.add_call(call_id, "ship_order", arguments)
    return history


def test_a_place_is_what_the_model_had_been_shown_and_the_position_among_equal_calls() -> None:
    history = two_messages()
    shown = [ShownCall("ship_order", SHIP, "done")]
    places = {call_id: history.place(call_id) for call_id in ("c1", "c2", "c3", "c4", "c5")}
    assert places["c1"] == {"call_id": "c1", "shown": [], "ordinal": 0}
    assert places["c2"] == {"call_id": "c2", "shown": shown, "ordinal": 0}
    assert places["c3"] == {"call_id": "c3", "shown": shown, "ordinal": 0}
    assert places["c4"] == {"call_id": "c4", "shown": shown, "ordinal": 1}
    assert places["c5"] == {"call_id": "c5"}
    history.add_result("c2", "done")  # as in a step that runs a second time: its own result does not count
    assert history.place("c2") == places["c2"]
    assert (history.beside("c3"), history.beside("c5"), history.last_calls) == (
        ["ship_order"] * 3,
        [],
        ["c2", "c3", "c4"],
    )


def test_the_latest_message_with_an_id_counts_and_a_result_without_a_call_was_not_shown() -> None:
    history = two_messages()
    history.add_result("nobody", "done")
    history.begin_message()
    history.add_call("c1", "pay", "no object")
    assert history.place("c1") == {"call_id": "c1", "shown": history.shown, "ordinal": 0}
    assert history.made("c1") == ShownCall("pay", "no object")
    assert (len(history.shown), history.made("c9")) == (1, None)


def test_calls_and_actions_count_since_the_last_message_of_the_person() -> None:
    history = two_messages()
    assert history.since_person(["ship_order"]) == ["c1", "c2", "c3", "c4"]
    assert (history.since_person(["pay"]), history.actions) == ([], ["01ACTION"])
    history.begin_message(by_person=True)
    assert (history.since_person(["ship_order"]), history.actions) == ([], [])


def test_a_turn_counts_equal_calls_in_their_order_also_in_threads() -> None:
    turn = Turn(two_messages())
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: turn.begin("ship_order", SHIP)["ordinal"], range(20))]
    assert sorted(found) == [*range(20)]
    assert turn.begin("ship_order", {"order_id": "o-2"}) == {"shown": two_messages().shown, "ordinal": 0}


def test_a_call_of_a_turn_is_begun_once_and_ends_with_what_the_model_is_shown() -> None:
    turn = Turn(ids_are_unique=True)
    assert [turn.begin("pay", SHIP, each)["ordinal"] for each in ("a", "b", "a")] == [0, 1, 0]
    turn.end("a", "done")
    assert turn.begin("pay", SHIP, "b") == {"shown": [ShownCall("pay", SHIP, "done")], "ordinal": 0}
    assert turn.begin("pay", SHIP, "a")["shown"] == []  # the call's own earlier result does not count
    turn.end("a")
    turn.end("b")  # deferred: as if never made
    assert turn.begin("pay", SHIP, "c") == {"shown": [ShownCall("pay", SHIP, "done")], "ordinal": 0}


def test_a_repeated_id_is_a_new_call_where_a_model_counts_its_ids_anew() -> None:
    history = History()
    history.add_call("c1", "pay", SHIP)
    history.add_result("c1", "done")
    assert Turn(history).begin("pay", SHIP, "c1") == {"shown": history.shown, "ordinal": 0}
    assert Turn(history, ids_are_unique=True).begin("pay", SHIP, "c1") == {"shown": [], "ordinal": 0}


def test_recent_calls_have_places_and_actions_and_the_oldest_are_forgotten(kit: Kit) -> None:
    recent, history, tool = RecentCalls(kit), two_messages(), kit.tool("ship_order")
    named = asyncio.run(recent.operation(tool, SHIP, "c2"))
    assert named == kit.operation(tool, SHIP, call_id="c2")
    recent.note(history)
    assert asyncio.run(recent.operation(tool, SHIP, "c2")) == kit.operation(tool, SHIP, shown=history.shown)
    for call_id in history.since_person(kit.tools):
        assert recent.about(history) is None
        recent.remember(call_id, f"of {call_id}")
    assert recent.about(history) == ["of c1", "of c2", "of c3", "of c4"]
    assert recent.about(history, run="chat-2") is None
    for number in range(CALLS_MAX):
        recent.remember(f"more {number}", "01ACTION")
    assert recent.about(history) is None


def described(tool: Any) -> tuple[Any, str | None]:
    return tool.schema, tool.description


def test_a_foreign_tool_is_governed_once_and_again_where_its_definition_changed(kit: Kit, shop: Shop) -> None:
    agent = AgentTools(kit, "my framework", described)
    before = kit.tool("enter")
    first = SimpleNamespace(name="enter", schema=ENTER_SCHEMA, description="First.")
    assert agent.governed("enter", first) is before  # the host governed it, perhaps by a stricter definition
    assert agent.governed("enter", SimpleNamespace(**vars(first))) is before
    changed = agent.governed("enter", SimpleNamespace(name="enter", schema=ENTER_SCHEMA, description=None))
    assert changed is not before
    assert changed is not None
    assert changed.run({"name": "ann", "amount": 2}, call=shop.enter).ok


def test_an_own_tool_is_known_by_its_class_and_no_tool_is_no_tool(kit: Kit) -> None:
    own = type("OwnTool", (), {"governed": kit.tool("pay")})
    agent = AgentTools(kit, "my framework", described, own)
    assert agent.governed("pay", own()) is kit.tool("pay")
    assert agent.governed("enter", None) is None


def test_a_call_of_a_tool_without_a_contract_is_warned_of_once(kit: Kit) -> None:
    agent = AgentTools(kit, "my framework", described)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UngovernedToolsWarning)
        assert agent.governed("peek", object()) is None
        agent.warn(["peek", {"type": "web_search"}, SimpleNamespace(name="look")])
        agent.warn([{"name": "look"}])
    told = [str(each.message) for each in caught]
    assert len(told) == 2
    assert "my framework: no contract governs 'peek'." in told[0]
    assert "'look', 'web_search'" in told[1]
    assert name_of(object()) == "object"


@pytest.mark.parametrize("schema", [ENTER_SCHEMA, type("Model", (), {"model_json_schema": lambda: ENTER_SCHEMA})])
def test_a_schema_may_be_a_model(shop: Shop, schema: Any) -> None:
    with Kit.open(**shop.opened()) as kit:
        agent = AgentTools(kit, "my framework", described)
        governed = agent.governed("enter", SimpleNamespace(schema=schema, description="Enters."))
        assert governed is not None
        assert governed.schema["required"] == ["name", "amount"]
