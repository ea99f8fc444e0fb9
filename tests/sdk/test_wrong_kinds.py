"""Whoever hands over the wrong kind of thing is told so: a typed error, with a code and what belongs there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from readback import AsyncReadback, Context, Readback
from readback.client.authoring.action import ActionDefinition, action
from readback.errors import ContractFieldError, ReadbackError, StoreError, UsageError
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import TERMS, Desk, opened, opened_async, ship_of

OPENINGS: dict[str, tuple[str, Any]] = {
    "a path": ("url", Path("ledger.db")),
    "bytes": ("url", b"sqlite:///ledger.db"),
    "a number": ("budget", 3),
    "a text": ("budget", "euros"),
    "one action": ("actions", 3),
    "a function": ("actions", [print]),
    "names of actions": ("actions", {"ship": object()}),
    "a name": ("approvers", ["alice"]),
    "one name": ("approvers", "alice"),
    "a mapping": ("limits", {"in_flight": 1}),
    "a table's rows": ("recovery_table", {}),
}


@pytest.mark.parametrize("wrong", OPENINGS.values(), ids=OPENINGS)
def test_a_client_that_is_opened_with_the_wrong_kind_says_what_belongs_there(wrong: tuple[str, Any]) -> None:
    name, value = wrong
    with pytest.raises(ReadbackError) as refused:
        opened(MemoryStore(), **{name: value})
    assert refused.value.code in ("input.usage", "settings")
    assert refused.value.exit_code in (2, 5)
    assert refused.value.remedy


@pytest.mark.parametrize("kind", [Readback, AsyncReadback])
def test_a_client_is_opened_and_not_made_of_an_address(kind: Any) -> None:
    with pytest.raises(ReadbackError, match="the constructor takes a Session") as refused:
        kind("sqlite:///ledger.db")
    assert refused.value.code == "input.usage"


NAMING: dict[str, Callable[[Any, Any], object]] = {
    "get": lambda rb, it: rb.get(it),
    "get_saga": lambda rb, it: rb.get_saga(it),
    "wait": lambda rb, it: rb.wait(it, wait=0),
    "cancel": lambda rb, it: rb.cancel(it),
    "signal": lambda rb, it: rb.signal(it),
    "approval": lambda rb, it: rb.approval(it),
    "review": lambda rb, it: rb.review(it),
    "claim": lambda rb, it: rb.claim(it),
    "claims": lambda rb, it: rb.claims(it),
    "is_claim_standing": lambda rb, it: rb.is_claim_standing(it),
    "resume": lambda rb, it: rb.resume(it),
    "list": lambda rb, it: rb.list(limit=it),
}


@pytest.mark.parametrize("name", NAMING)
def test_an_outcome_in_the_place_of_its_id_is_told_apart(name: str) -> None:
    ship = ship_of(Desk())
    with opened(MemoryStore()) as rb:
        outcome = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
        for wrong in (outcome, [outcome.id], 3.5):
            with pytest.raises(ReadbackError) as refused:
                NAMING[name](rb, wrong)
            assert (refused.value.code, refused.value.exit_code) == ("input.usage", 2)
            assert refused.value.remedy


def test_the_async_client_says_the_same() -> None:
    async def go(rb: Any, wrong: object) -> None:
        await rb.get(wrong)

    async def all_of_them() -> None:
        async with opened_async() as rb:
            for wrong in (b"x", ["x"], object()):
                with pytest.raises(ReadbackError, match="The id of an action must be text"):
                    await go(rb, wrong)

    asyncio.run(all_of_them())


SAYING: dict[str, tuple[str, Callable[[Any, Any, str], object]]] = {
    "why it is retracted": ("input.usage", lambda rb, it, one: rb.retract(one, who="human:eve", reason=it)),
    "why it is erased": ("input.usage", lambda rb, it, one: rb.erase(one, who="human:eve", reason=it)),
    "before when": ("input.usage", lambda rb, it, one: rb.erase(before=it or 0, who="human:eve", reason="Asked for.")),
    "how many at once": ("input.usage", lambda rb, it, one: rb.work(concurrency=it, until_idle=True)),
    "whose": ("input.usage", lambda rb, it, one: rb.work(tenants=it, until_idle=True)),
    "an approval": ("approval.forged", lambda rb, it, one: rb.approve(one, it)),
    "a claim": ("input.usage", lambda rb, it, one: rb.submit("ship", {}, operation="two", upon=it)),
}


@pytest.mark.parametrize("name", SAYING)
def test_what_is_said_in_the_wrong_kind_is_refused(name: str) -> None:
    ship = ship_of(Desk())
    code, say = SAYING[name]
    with opened(MemoryStore()) as rb:
        outcome = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
        for wrong in (None, 3.5, object()):
            with pytest.raises(ReadbackError) as refused:
                say(rb, wrong, outcome.id)
            assert refused.value.code == code
            assert refused.value.remedy
        assert rb.get(outcome.id) == outcome


@pytest.mark.requirement("TENANT-invisible")
@pytest.mark.parametrize("named", [[""], [" "], ["globex", ""], [None], "", "acme"], ids=repr)
def test_a_tenant_that_is_none_stands_for_nobody_and_not_for_everybody(named: Any) -> None:
    """`",".split(...)` of a variable that is not set is [""]: a worker so begun acted for each tenant of the ledger."""
    store, desk = MemoryStore(), Desk()
    ship = ship_of(desk)
    with opened(store, tenant="acme", actions=[ship]) as theirs:
        held = theirs.submit("ship", {"order_id": "o-1", "carrier": "dhl"}, operation="one")
        with opened(store, tenant="globex", actions=[ship]) as ours:
            with pytest.raises(ReadbackError) as refused:
                ours.work(tenants=named, until_idle=True)
            assert refused.value.code in ("input.usage", "input.unknown-tenant")
            assert theirs.get(held).attempts == 0


def test_a_state_that_there_is_not_is_no_empty_list() -> None:
    with opened(MemoryStore()) as rb:
        assert rb.list(state="unknown") == []
        with pytest.raises(ReadbackError, match="'unknwon' is not a state") as refused:
            rb.list(state="unknwon")
    assert "reconciled_success" in str(refused.value.remedy)


def test_a_saga_of_nothing_that_has_steps_is_refused() -> None:
    wrong: Any = None
    with opened(MemoryStore()) as rb, pytest.raises(ReadbackError, match="saga takes steps"):
        rb.saga(wrong, name="s", operation="s")


# --- what an action is made of ---


def ship(ctx: Context, order_id: str, carrier: str) -> object:
    return None


def yielding(ctx: Context, order_id: str, carrier: str) -> Iterator[object]:
    yield None


BARE: Any = ship


class Shop:
    def ship(self, ctx: Context, order_id: str, carrier: str) -> object:
        return None


def test_the_keys_of_a_contract_are_given_by_name() -> None:
    bare: Any = action
    for wrong, said in (((ship,), "needs a contract"), (("order", "set"), "by name"), ((7,), "by name")):
        with pytest.raises(ContractFieldError, match=said) as refused:
            bare(*wrong)
        assert "@action(" in str(refused.value.remedy)


@pytest.mark.parametrize(
    "wrong", [None, "ship", classmethod(BARE), "again"], ids=["none", "text", "classmethod", "again"]
)
def test_an_action_is_made_of_a_function(wrong: Any) -> None:
    given: Any = ActionDefinition(ship, TERMS) if wrong == "again" else wrong
    with pytest.raises(ContractFieldError, match="An action needs a function") as refused:
        action(**TERMS)(given)
    assert refused.value.code == "contract.field"


@pytest.mark.parametrize(
    ("function", "said"),
    [(yielding, "A generator does nothing when called"), (Shop.ship, "A method has its object as its first")],
    ids=["generator", "method"],
)
def test_a_function_that_could_never_act_is_refused_when_it_is_loaded(function: Any, said: str) -> None:
    with pytest.raises(ContractFieldError) as refused:
        action(**TERMS)(function)(order_id="o-1", carrier="dhl")
    problems: Any = refused.value.details["problems"]
    assert any(said in str(each) for each in problems)
    assert "recursion" not in str(refused.value)


def read_of(made: ActionDefinition[Any], function: Any) -> Any:
    return made.read(source="shop", consistency="strong", independence="other_client")(function)


@pytest.mark.parametrize("hand", ["read", "find", "lookup", "rollback", "compensate", "twin"])
@pytest.mark.parametrize("wrong", [None, "ship", 3])
def test_a_hand_that_is_no_function_is_refused_where_it_is_given(hand: str, wrong: Any) -> None:
    made: Any = action(**TERMS)(ship)
    with pytest.raises(UsageError, match=f"`{hand}` takes a"):
        read_of(made, wrong) if hand == "read" else getattr(made, hand)(wrong)


def test_a_compensation_without_its_keys_is_refused() -> None:
    """`@ship.compensate` above a function: it has no kind, and says nothing of what has to be true after it."""
    made: Any = action(**TERMS)(ship)
    with pytest.raises(UsageError, match="takes an action") as refused:
        made.compensate(ship)
    assert "compensate(kind=" in str(refused.value.remedy)


@pytest.mark.parametrize("hand", ["read", "find", "lookup", "rollback"])
def test_a_hand_that_yields_is_refused_when_it_is_loaded(hand: str) -> None:
    """It would never look, and each action of it would go to a person."""
    made: Any = action(**TERMS)(ship)
    read_of(made, yielding if hand == "read" else ship)
    if hand != "read":
        getattr(made, hand)(yielding)
    with pytest.raises(ContractFieldError) as refused:
        made(order_id="o-1", carrier="dhl")
    assert "A generator does nothing when called" in str(refused.value)


# --- a working folder that is gone ---


def test_a_ledger_with_a_whole_address_is_opened_where_the_working_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    Readback.open(f"sqlite:///{tmp_path / 'ledger.db'}", tenant="acme", principal="agent:ops").close()
    with pytest.raises(StoreError, match="the working folder was deleted") as refused:
        Readback.open("sqlite:///ledger.db", tenant="acme", principal="agent:ops")
    assert refused.value.code == "store.no-folder"
