"""Contracts of the banking tools. Every postcondition is made from the arguments; none believes what a tool answered.

The tools take no stamp and honour no key, so this is what can be said of them: an account's payments and orders are
compared with how they were before, and a new one is ours where the bank's own sequence put it after the reading before
execution. What cannot be told apart is a payment that somebody else makes from the same account, at the same moment and
with the same values: the bank does not say who was logged in.

The tools move no balance (the environment keeps it as it is), so no contract says anything of it.
"""

from __future__ import annotations

from typing import Any

from readback.client.authoring.action import ActionDefinition, action
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from tests.agentdojo import records
from tests.agentdojo.world import World

IBAN = "DE89370400440532013000"
ACCOUNT = {"tenant": "authoritative.account"}
RECORD: dict[str, Any] = {"source": "bank-records", "consistency": "strong", "independence": "other_client"}
TIMES: dict[str, Any] = {"within": "30s", "polls": ["0s", "5s", "10s"], "late_window": "3m"}
_OPTIONAL = (
    "requested.{0} == null ? authoritative.order.{0} == before.order.{0} : authoritative.order.{0} == requested.{0}"
)
_OWNER = "requested.{0} == null ? authoritative.{0} == before.{0} : authoritative.{0} == requested.{0}"


def _entry(field: str) -> str:
    return f"authoritative.newest.{field} == requested.{field}"


def actions(world: World) -> dict[str, ActionDefinition[Any]]:
    """All tools of the suite that change something, by name."""
    made = (_send_money(world), _schedule(world), _update_order(world), _password(world), _owner(world))
    return {each.name: each for each in made}


def _send_money(world: World) -> ActionDefinition[Any]:
    @action(
        kind="send",
        side_effect="high_risk_external",
        target="account/{scope.tenant}",
        identity={
            "target": "authoritative.account",
            "account": "authoritative.account == scope.tenant",
            **ACCOUNT,
        },
        ensure={
            "one payment more": "size(authoritative.payments) == size(before.payments) + 1",
            "no payment lost": "before.payments.all(p, p in authoritative.payments)",
            "recipient": _entry("recipient"),
            "amount": _entry("amount"),
            "subject": _entry("subject"),
            "date": _entry("date"),
            "not recurring": "authoritative.newest.recurring == false",
        },
        may_change=["payments", "newest", "last_id"],
        **TIMES,
    )
    def send_money(ctx: Context, recipient: str, amount: float, subject: str, date: str) -> object:
        return world.call("send_money", recipient=recipient, amount=amount, subject=subject, date=date)

    @send_money.read(**RECORD, attributes=True)
    def payments(ctx: Context, recipient: str, amount: float, subject: str, date: str) -> Reading:
        return _with_newest(world, ctx, "payments")

    @send_money.find
    def new_payments(ctx: Context, recipient: str, amount: float, subject: str, date: str) -> list[Reading]:
        return _new(world, ctx, "payments", recipient=recipient, amount=amount)

    return send_money


def _schedule(world: World) -> ActionDefinition[Any]:
    @action(
        kind="create",
        side_effect="medium_risk_write",
        target="account/{scope.tenant}",
        identity={"target": "authoritative.account", "actor": "not_offered", **ACCOUNT},
        ensure={
            "one order more": "size(authoritative.orders) == size(before.orders) + 1",
            "no order changed": "before.orders.all(o, o in authoritative.orders)",
            "recipient": _entry("recipient"),
            "amount": _entry("amount"),
            "subject": _entry("subject"),
            "date": _entry("date"),
            "recurring": _entry("recurring"),
        },
        may_change=["orders", "newest", "last_id"],
        **TIMES,
    )
    def schedule_transaction(
        ctx: Context, recipient: str, amount: float, subject: str, date: str, recurring: bool
    ) -> object:
        given = {"recipient": recipient, "amount": amount, "subject": subject, "date": date}
        return world.call("schedule_transaction", **given, recurring=recurring)

    @schedule_transaction.read(**RECORD, attributes=True)
    def orders(ctx: Context, recipient: str, amount: float, subject: str, date: str, recurring: bool) -> Reading:
        return _with_newest(world, ctx, "orders")

    @schedule_transaction.find
    def new_orders(
        ctx: Context, recipient: str, amount: float, subject: str, date: str, recurring: bool
    ) -> list[Reading]:
        return _new(world, ctx, "orders", recipient=recipient, amount=amount)

    return schedule_transaction


def _update_order(world: World) -> ActionDefinition[Any]:
    @action(
        kind="set",
        side_effect="medium_risk_write",
        target="order/{requested.id}",
        identity={"target": "authoritative.id", "actor": "not_offered", **ACCOUNT},
        require={"there is such an order": "before != null"},
        ensure={name: _OPTIONAL.format(name) for name in ("recipient", "amount", "subject", "date", "recurring")},
        may_change=["order"],
        on_unchanged="accept",  # the request names the state, and `before` stands only for what it leaves out
        **TIMES,
    )
    def update_scheduled_transaction(
        ctx: Context,
        id: int,  # noqa: A002 - the tool's own name for it
        recipient: str | None = None,
        amount: float | None = None,
        subject: str | None = None,
        date: str | None = None,
        recurring: bool | None = None,
    ) -> object:
        given = {"recipient": recipient, "amount": amount, "subject": subject, "date": date, "recurring": recurring}
        return world.call("update_scheduled_transaction", id=id, **given)

    @update_scheduled_transaction.read(**RECORD)
    def one_order(
        ctx: Context,
        id: int,  # noqa: A002
        recipient: str | None = None,
        amount: float | None = None,
        subject: str | None = None,
        date: str | None = None,
        recurring: bool | None = None,
    ) -> Reading:
        found = records.order(world.look(), id)
        return Reading.absent() if found is None else Reading.of(found)

    return update_scheduled_transaction


def _password(world: World) -> ActionDefinition[Any]:
    @action(
        kind="set",
        side_effect="medium_risk_write",
        target="owner/{scope.tenant}",
        identity={"target": "authoritative.account", "actor": "not_offered", **ACCOUNT},
        ensure={"password": "authoritative.password_sha256 == sha256(requested.password)"},
        may_change=["password_sha256"],
        redact=["requested.password", "before.password_sha256", "authoritative.password_sha256"],
        **TIMES,
    )
    def update_password(ctx: Context, password: str) -> object:
        return world.call("update_password", password=password)

    @update_password.read(**RECORD)
    def owner(ctx: Context, password: str) -> Reading:
        return Reading.of(records.profile_with_password(world.look()))

    return update_password


def _owner(world: World) -> ActionDefinition[Any]:
    @action(
        kind="set",
        side_effect="medium_risk_write",
        target="owner/{scope.tenant}",
        identity={"target": "authoritative.account", "actor": "not_offered", **ACCOUNT},
        ensure={name: _OWNER.format(name) for name in ("first_name", "last_name", "street", "city")},
        may_change=["first_name", "last_name", "street", "city"],
        **TIMES,
    )
    def update_user_info(
        ctx: Context,
        first_name: str | None = None,
        last_name: str | None = None,
        street: str | None = None,
        city: str | None = None,
    ) -> object:
        given = {"first_name": first_name, "last_name": last_name, "street": street, "city": city}
        return world.call("update_user_info", **given)

    @update_user_info.read(**RECORD)
    def owner(
        ctx: Context,
        first_name: str | None = None,
        last_name: str | None = None,
        street: str | None = None,
        city: str | None = None,
    ) -> Reading:
        return Reading.of(records.profile(world.look()))

    return update_user_info


def _with_newest(world: World, ctx: Context, which: str) -> Reading:
    whole = records.book(world.look())
    entry, is_new = records.newest(whole[which], ctx.before)
    return Reading.of({**whole, "newest": entry}, created_after_dispatch=is_new)


def _new(world: World, ctx: Context, which: str, **like: object) -> list[Reading]:
    """Every entry that the bank numbered after the reading before execution and that is like the one asked for."""
    if not isinstance(ctx.before, dict):
        raise LookupError("without the reading before execution nothing can be told to be new")
    whole, last_id = records.book(world.look()), int(str(ctx.before["last_id"]))
    new = [each for each in whole[which] if each["id"] > last_id]
    same = [each for each in new if all(each[name] == value for name, value in like.items())]
    return [Reading.of({**whole, "newest": each}, created_after_dispatch=True) for each in same]
