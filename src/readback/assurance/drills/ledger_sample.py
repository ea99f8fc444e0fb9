"""A sample of new entries: a ledger with the usual ends of actions, written by this release.

Called by the ledger-schema gate. The sample shows the form of each kind of entry, and an earlier release has to read
the sample. Time and ids are virtual, so each run writes the same entries.
"""

from __future__ import annotations

from typing import Any, Final

from readback.client.authoring.action import action
from readback.client.client import Readback
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.ports.storage.store import LedgerStore
from readback.testing.runtime_virtual import VirtualRuntime

TENANT, PRINCIPAL = "sample", "agent:sample"
HONEST, LOST, HALF, DARK = "honest", "lost", "half", "dark"
ENDS: Final = (HONEST, LOST, HALF, DARK)
"""The ends of the sample's actions, also the names of their targets."""


def _contract(rows: dict[str, dict[str, Any]]) -> Any:
    """Return the sampled contract over a table of rows."""

    @action(
        name="readback.sample",
        kind="create",
        side_effect="medium_risk_write",
        target="row/{requested.end}",
        identity={
            "target": "authoritative.id",
            "tenant": "authoritative.tenant",
            "actor": "authoritative.author",
            "stamp": "authoritative.stamp",
        },
        ensure={
            "state": {"stored": "authoritative.state == 'stored'"},
            "price": {"priced": "authoritative.price == 'set'"},
        },
        within="2s",
        late_window="3s",
        tell=["authoritative.state"],
        watch={"after": "1m", "every": "1m", "for": "3m"},
    )
    def store_row(ctx: Context, end: str) -> object:
        if end != LOST:
            marks = {"id": end, "tenant": ctx.tenant, "author": ctx.principal, "stamp": ctx.stamp}
            rows[end] = {**marks, "state": "stored", "price": "open" if end == HALF else "set"}
        return {"status": "ok"}

    @store_row.read(source="rows", consistency="strong", independence="other_client", attributes=True)
    def read(ctx: Context, end: str) -> Reading:
        if end == DARK and end in rows:
            raise ConnectionError("The table does not answer.")
        found = rows.get(end)
        return Reading.absent() if found is None else Reading.of(found, version=1, stamp=found["stamp"])

    @store_row.find(complete=True)
    def find(ctx: Context, end: str) -> list[Reading]:
        return [Reading.of(row, stamp=row["stamp"]) for row in rows.values() if row["stamp"] == ctx.subject_stamp]

    @store_row.compensate(
        name="readback.sample.undo", kind="delete", ensure={"gone": "authoritative == null"}, within="2s"
    )
    def undo(ctx: Context, end: str) -> object:
        rows.pop(end, None)
        return {"status": "ok"}

    return store_row


def write_sample(url: str, store: LedgerStore | None = None) -> list[str]:
    """Write the sample into a new ledger, and return the ids of the actions."""
    rows: dict[str, dict[str, Any]] = {}
    made, runtime = _contract(rows), VirtualRuntime()
    with Readback.open(
        url, tenant=TENANT, principal=PRINCIPAL, actions=[made], runtime=runtime, store=store, seal=False
    ) as rb:
        told = [rb.run(made(end), operation=f"sample {end}", run="sample", step="1") for end in ENDS]
        told.append(rb.run(made("planned"), operation="sample upon", upon=[told[0]]))
        steps = [made("first").as_step("first"), made("second").as_step("second", after=("first",), pivot=True)]
        saga = rb.saga(steps, operation="sample saga")
        rb.cancel(rb.submit(made("never"), operation="sample cancelled"))
        case = rb.review(told[ENDS.index(DARK)].id)
        decided = {"expect_version": case.version, "who": "human:sample", "reason": "A sample."}
        rb.resolve(case.id, "abandon", **decided)  # type: ignore[arg-type]
        runtime.advance(61)
        rb.resume()
        return [*(each.id for each in told), saga.id]
