"""What the type checker knows of an action: its signature less the context, and every hand's.

Nothing here is run. Each line that must not pass says so with the code of its error; an unused mark is an error too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Concatenate, assert_type

from readback import Context, Lookup, Proposal, Reading, action
from readback.client.authoring.action import ActionDefinition
from readback.client.authoring.evaluation import Evaluated
from readback.contracts.functions.verifiers import invariant_check, read_after_write


@action(
    kind="create",
    side_effect="high_risk_external",
    target="charge/{requested.account}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "account": "authoritative.account"},
    ensure={
        "money": {**read_after_write("amount")},
        "books": {"booked": lambda authoritative: True, **invariant_check("sum", "authoritative.sum == 0")},
    },
    execute={"timeout": timedelta(seconds=5), "honours_key": True},
    within="2m",
)
async def charge(ctx: Context, account: str, amount: int, *, note: str = "") -> object:
    return {"ctx": ctx.stamp, "account": account, "amount": amount, "note": note}


@charge.read(source="gateway", consistency="session", independence="other_client", attributes=True)
async def charged(ctx: Context, account: str, amount: int, *, note: str = "") -> Reading:
    return Reading.absent()


@charge.read(source="ledger", consistency="strong", independence="other_system")
def booked(ctx: Context, account: str, amount: int, *, note: str = "") -> Reading:
    return Reading.absent()


@charge.find
async def charges(ctx: Context, account: str, amount: int, *, note: str = "") -> Sequence[Reading]:
    return [await charged(ctx, account, amount, note=note)]


@charge.lookup
def became(ctx: Context, account: str, amount: int, *, note: str = "") -> Lookup:
    return Lookup.pending()


@charge.rollback
async def undone(ctx: Context, account: str, amount: int, *, note: str = "") -> None:
    return None


@charge.compensate(kind="create", ensure={"refunded": "authoritative.refunded == true"})
async def refund(ctx: Context, account: str, amount: int, *, note: str = "") -> object:
    return None


def what_is_known() -> None:
    assert_type(charge("acc", 7), Proposal)
    assert_type(charge(account="acc", amount=7, note="x"), Proposal)
    assert_type(refund("acc", 7), Proposal)
    assert_type(charge.evaluate(requested={"account": "acc", "amount": 7}), Evaluated)
    assert_type(booked(Context("", "", "", "", "", "", ""), "acc", 7), Reading)
    bare: Callable[Concatenate[Context, ...], object] = charge.unverified
    bare(Context("", "", "", "", "", "", ""), "acc", 7)
    again: Awaitable[Reading] = charged(Context("", "", "", "", "", "", ""), "acc", 7)
    assert again is not None


def mistakes_of_who_proposes(ctx: Context) -> None:
    charge("acc")  # type: ignore[call-arg]
    charge("acc", "7")  # type: ignore[arg-type]
    charge("acc", 7, "positional")  # type: ignore[call-arg]
    charge(acount="acc", amount=7)  # type: ignore[call-arg]
    charge(ctx, "acc", 7)  # type: ignore[call-arg, arg-type]
    assert charge("acc", 7).state  # type: ignore[attr-defined]


def mistakes_of_who_writes_the_hands() -> None:
    @charge.read(source="s", consistency="strong", independence="other_client")  # type: ignore[arg-type]
    def fewer(ctx: Context, account: str) -> Reading:
        return Reading.absent()

    @charge.read(source="s", consistency="strong", independence="other_client")  # type: ignore[arg-type]
    def otherwise(ctx: Context, account: str, amount: str, *, note: str = "") -> Reading:
        return Reading.absent()

    @charge.read(source="s", consistency="strong", independence="other_client")  # type: ignore[type-var]
    def no_reading(ctx: Context, account: str, amount: int, *, note: str = "") -> dict[str, str]:
        return {}

    @charge.read(source="s", consistency="strongest", independence="other_client")  # type: ignore[call-overload, untyped-decorator]
    def too_strong(ctx: Context, account: str, amount: int, *, note: str = "") -> Reading:
        return Reading.absent()

    @charge.find  # type: ignore[type-var]
    def one(ctx: Context, account: str, amount: int, *, note: str = "") -> Reading:
        return Reading.absent()

    @charge.lookup  # type: ignore[arg-type]
    def renamed(ctx: Context, account: str, sum_of_money: int, *, note: str = "") -> Lookup:
        return Lookup.pending()

    @charge.compensate(kind="create", ensure={"a": "authoritative.a == 1"})  # type: ignore[arg-type]
    def other(ctx: Context, account: str) -> object:
        return None


def mistakes_of_who_writes_the_keys() -> None:
    keys = {"ensure": {"a": "authoritative.a == 1"}}
    action(kind="set", side_effect="read_only", target="t")  # type: ignore[call-arg]
    action(kind="sett", side_effect="read_only", target="t", ensure=keys["ensure"])  # type: ignore[arg-type]
    action(kind="set", side_effect="harmless", target="t", ensure=keys["ensure"])  # type: ignore[arg-type]
    action(kind="set", side_effect="read_only", target="t", ensure=keys["ensure"], whithin="1s")  # type: ignore[call-arg]
    action(kind="set", side_effect="read_only", target="t", ensure=keys["ensure"], within=10)  # type: ignore[arg-type]
    action(kind="set", side_effect="read_only", target="t", ensure=keys["ensure"], execute={"retry": 1})  # type: ignore[typeddict-unknown-key]
    action(kind="set", side_effect="read_only", target="t", ensure=keys["ensure"], approval="required")
    action(kind="set", side_effect="read_only", target="t", ensure=keys["ensure"], approval={"people": 2})
    action(kind="set", side_effect="read_only", target="t", ensure=keys["ensure"], approval="maybe")  # type: ignore[arg-type]
    action(kind="set", side_effect="read_only", target="t", ensure=keys["ensure"], approval={"who": 1})  # type: ignore[arg-type]


def a_definition_is_generic_over_its_parameters(given: ActionDefinition[[str, int]]) -> None:
    assert_type(given("a", 1), Proposal)
    given("a")  # type: ignore[call-arg]
