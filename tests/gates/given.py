"""A contract file, a world that keeps or breaks its word, and ledgers of actions in that world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench import assurance
from readback import Readback
from readback.client.files import contract_files
from readback.domain.context import Context
from readback.ports.system_factory import Given
from readback.testing.runtime_virtual import VirtualRuntime

CONTRACT = "ship_order"
TEXT = """\
apiVersion: readback/v1
kind: Contracts
contracts:
  ship_order:
    kind: set
    side_effect: low_risk_internal
    target: order/{requested.order_id}
    arguments: {order_id: string, carrier: string}
    identity:
      target: authoritative.id
      tenant: authoritative.tenant
      stamp: authoritative.stamp
    execute:
      http:
        url: http://127.0.0.1:1
        method: POST
        path: /orders/{requested.order_id}
        json: {order: "{requested.order_id}", carrier: "{requested.carrier}"}
    readers:
      - http: {url: "http://127.0.0.1:1", path: "/orders/{requested.order_id}", stamp: /stamp}
        source: orders
        consistency: strong
        attributes: true
    ensure:
      shipped: authoritative.status == 'shipped'
      carrier: authoritative.carrier == requested.carrier
    within: 4s
    late_window: 4s
"""
Behaviour = Callable[[dict[str, Any]], None]


def silent(order: dict[str, Any]) -> None:
    """The tool answers, and nothing happens."""
    order.clear()


def packed(order: dict[str, Any]) -> None:
    """The order is packed, and never shipped."""
    order["status"] = "packed"


def honest(order: dict[str, Any]) -> None:
    """The order is shipped."""


def other_tenant(order: dict[str, Any]) -> None:
    """The order lands in another tenant."""
    order["tenant"] = "other"


class World(assurance.World):
    """The benchmark's orders in memory, with a tool that does as `behaviour` says."""

    def __init__(self) -> None:
        super().__init__()
        self.behaviour: Behaviour = honest

    def execute(self, ctx: Context, given: Given) -> object:
        asked: Any = given["json"]
        order = {"id": asked["order"], "tenant": ctx.tenant, "carrier": asked["carrier"], "stamp": ctx.stamp}
        order["status"] = "shipped"
        self.behaviour(order)
        if order:
            self.orders[asked["order"]] = order
        return {"status": "ok"}


def ledger(place: Path | str, file: Path, many: Mapping[Behaviour, int], *, tenant: str = "acme", seed: int = 1) -> str:
    """A ledger with this many actions of each behaviour, and its URL."""
    world = World()
    ship = contract_files(file, fittings=world)[CONTRACT]
    url = place if isinstance(place, str) else f"sqlite:///{place}"
    with Readback.open(url, tenant=tenant, principal="agent:desk", runtime=VirtualRuntime(seed=seed)) as rb:
        for behaviour, number in many.items():
            world.behaviour = behaviour
            for each in range(number):
                name = f"{behaviour.__name__}-{seed}-{each}"
                rb.run(ship(order_id=name, carrier="post"), operation=name)
    return url


def file_of(folder: Path, text: str = TEXT, name: str = "contracts.yaml") -> Path:
    """A contract file with this text."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def edited(old: str, new: str, text: str = TEXT) -> str:
    """The contract file with one part replaced."""
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times"
    return text.replace(old, new)
