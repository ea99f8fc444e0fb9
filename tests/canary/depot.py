"""A depot whose orders a canary watches: two versions of one contract over one system of record."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from readback import Context, Reading, action
from readback.engine.compiled_contract import CompiledContract

SHIPPED = {"shipped": "authoritative.status == 'shipped'"}
NOTED = {**SHIPPED, "noted": "authoritative.note == 'n'"}


class Depot:
    """Orders by id. The tool leaves the note of `bare` orders empty. `asked_in` names the threads of a callable."""

    def __init__(self) -> None:
        self.orders: dict[str, dict[str, Any]] = {}
        self.asked_in: list[str] = []

    def contract(self, ensure: Mapping[str, Any], version: str, **options: Any) -> Any:
        """One version of the contract."""

        @action(
            name="ship",
            version=version,
            kind="set",
            side_effect="low_risk_internal",
            target="order/{requested.order}",
            identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
            ensure=ensure,
            within="1s",
            **options,
        )
        def ship(ctx: Context, order: str) -> object:
            note = "" if order.startswith("bare") else "n"
            self.orders[order] = {"id": order, "tenant": ctx.tenant, "status": "shipped", "note": note}
            return {"status": "ok"}

        @ship.read(source="orders", consistency="strong", independence="other_client", attributes=True)
        def read(ctx: Context, order: str) -> Reading:
            found = self.orders.get(order)
            if found is None:
                return Reading.of({"id": order, "tenant": ctx.tenant, "status": "open", "note": ""}, version=1)
            return Reading.of(found, version=2)

        return ship

    @property
    def incumbent(self) -> Any:
        return self.contract(SHIPPED, "1")

    @property
    def candidate(self) -> Any:
        return self.contract(NOTED, "2")

    @property
    def same_verdicts(self) -> Any:
        """A candidate with another text and the same verdicts."""
        return self.contract({"shipped": "authoritative.status in ['shipped']"}, "2")

    def raising(self, error: BaseException) -> Any:
        """A candidate whose predicate raises this error."""

        def shipped(authoritative: Any) -> bool:
            raise error

        return self.contract({"shipped": shipped}, "2")

    def waiting(self, end: threading.Event) -> Any:
        """A candidate whose predicate does not end before the event."""

        def shipped(authoritative: Any) -> bool:
            return end.wait(60)

        return self.contract({"shipped": shipped}, "2")

    @property
    def broken(self) -> Any:
        """A candidate whose predicate raises."""

        def shipped(authoritative: Any) -> bool:
            self.asked_in.append(threading.current_thread().name)
            return bool(authoritative["no such field"])

        return self.contract({"shipped": shipped}, "2")


def plans(*definitions: Any) -> dict[str, CompiledContract]:
    """The compiled contracts by name."""
    return {each.plan.contract.name: each.plan for each in definitions}
