"""A charge by HTTP, made by one function for whatever service it is given: a twin is the same code elsewhere."""

from __future__ import annotations

from typing import Any

from readback import Context, Reading, action
from readback.systems import HttpExecutor, HttpSource


def charging(url: str, **options: Any) -> Any:
    """The action against the service at that address. `options` are the contract's."""
    api = HttpExecutor(url, timeout_s=20)
    ledger = HttpSource("charges", url)

    @action(
        **{
            "name": "charge", "kind": "create", "side_effect": "medium_risk_write",
            "target": "account/{requested.account}",
            "identity": {
                "target": "authoritative.account", "tenant": "authoritative.tenant", "actor": "not_offered",
                "stamp": "authoritative.stamp",
            },
            "ensure": {"amount": "authoritative.cents == requested.cents"},
            "execute": {"honours_key": True, "timeout": "20s"},
            "within": "10s", "polls": ["0s", "100ms", "200ms"],
            **options,
        }
    )  # fmt: skip
    def charge(ctx: Context, account: str, cents: int) -> object:
        return api.post(ctx, "/charges", json={"account": account, "cents": cents, "metadata": {"stamp": ctx.stamp}})

    @charge.read(source="charges", consistency="strong", independence="other_client", attributes=True)
    def charged(ctx: Context, account: str, cents: int) -> Reading:
        found = with_stamp(ctx, account, cents)
        return found[0] if found else Reading.absent()

    @charge.find
    def with_stamp(ctx: Context, account: str, cents: int) -> list[Reading]:
        readings = ledger.all(ctx, "/charges", query={"stamp": ctx.stamp}, items="/items", complete="/complete")
        return [Reading.of(each.value, stamp=str(each.value["stamp"])) for each in readings]  # type: ignore[index,call-overload]

    return charge
