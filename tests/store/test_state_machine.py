"""The store in memory and the one on SQLite get the same calls and give the same answers, through crashes.

Two handles of the SQLite store are open on one file, as two processes would have it; each call goes to one
of them. A crash is the file and its log as they lie there, opened elsewhere without the shared memory.
"""

from __future__ import annotations

import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import ActionFilter, Append, Count
from readback.stores.sqlite import SqliteStore, open_sqlite_store
from readback.testing.conformance.store_work import everything
from readback.testing.store_memory import MemoryStore
from readback.testing.store_samples import (
    TENANT,
    sample_append,
    sample_evidence,
    sample_projection,
    sample_reservation,
)

ACTIONS = ["a1", "a2", "a3", "a4"]
OWNERS = ["w1", "w2"]
TIMES = st.integers(0, 6)

actions = st.sampled_from(ACTIONS)
knowns = st.builds(
    ContractFilter,
    st.frozensets(st.sampled_from(["c1", "c2"])),
    st.frozensets(st.sampled_from(["h1", "h2"])),
    TIMES,
)
owners = st.sampled_from(OWNERS)
counts = st.lists(
    st.builds(Count, st.sampled_from(["s1", "s2"]), st.sampled_from(["n1", "n2"]), st.sampled_from([1, 2, None])),
    max_size=2,
)


@st.composite
def appends(draw: st.DrawFn) -> dict[str, Any]:
    """An append without its version and fence, which are right or off by as much as is drawn here."""
    name = draw(actions)
    held = sample_projection(
        name,
        tenant="other" if name == "a4" else TENANT,  # an action never passes to another tenant
        state=draw(st.sampled_from(["PENDING", "UNKNOWN", "reconciled_success"])),
        contract=draw(st.sampled_from(["c1", "c1", "c2"])),
        contract_hash=draw(st.sampled_from(["h1", "h1", "h2", ""])),
        kind=draw(st.sampled_from(["create", "create", "set", "saga"])),
        run=draw(st.sampled_from(["r1", "r1", ""])),
        stamp=draw(st.sampled_from([f"s-{name}", f"s-{name}", ""])),
        key_hash=draw(st.sampled_from(["k1", "k2"])),
        due_us=draw(st.none() | TIMES),
        lease_owner=draw(st.sampled_from(["", "", *OWNERS])),
        lease_until_us=draw(TIMES),
    )
    return {
        "off": draw(st.sampled_from([0, 0, 0, 0, 1, -1])),
        "fence_off": draw(st.sampled_from([0, 0, 0, 0, 1])),
        "events": draw(st.integers(1, 3)),
        "projection": held,
        "reserve": sample_reservation(held) if draw(st.booleans()) else None,
        "replaces": draw(st.sampled_from(["", "", *ACTIONS])),
        "settle": draw(st.none() | st.tuples(st.sampled_from(["done", "lost"]), TIMES)),
        "counts": tuple(draw(counts)),
        "evidence": tuple(sample_evidence(f"evidence of {name}".encode()) for _ in range(draw(st.integers(0, 2)))),
    }


class InStep(RuleBasedStateMachine):
    """Every rule asks both stores the same and compares."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="readback-store-"))
        self.crashes = 0
        self.path = self.folder / "0.db"
        self.memory = MemoryStore()
        self.handles = [open_sqlite_store(self.path), open_sqlite_store(self.path)]

    def teardown(self) -> None:
        for handle in self.handles:
            handle.close()
        shutil.rmtree(self.folder)

    def _one(self, which: bool) -> SqliteStore:
        return self.handles[which]

    @rule(which=st.booleans(), drawn=st.lists(appends(), min_size=1, max_size=6))
    def append(self, which: bool, drawn: list[dict[str, Any]]) -> None:
        batch = [self._append(parts, drawn[:place]) for place, parts in enumerate(drawn)]
        assert self._one(which).append(batch) == self.memory.append(batch)

    def _append(self, parts: dict[str, Any], before: list[dict[str, Any]]) -> Append:
        held = parts["projection"]
        stored = self.memory.projection(held.action_id)
        version, fence = (stored.version, stored.fence) if stored else (0, 0)
        # Counts on the earlier ones of its action in the batch being kept; often they are.
        version += sum(p["events"] for p in before if p["projection"].action_id == held.action_id)
        rest = {name: parts[name] for name in ("reserve", "replaces", "settle", "counts", "evidence")}
        return sample_append(
            held.action_id,
            max(version + parts["off"], 0),
            fence=fence + parts["fence_off"],
            events=parts["events"],
            projection=held,
            **rest,
        )

    @rule(which=st.booleans(), name=actions, owner=owners, now=TIMES, length=TIMES, dead=st.sampled_from(["", *OWNERS]))
    def lease(self, which: bool, name: str, owner: str, now: int, length: int, dead: str) -> None:
        found = self._one(which).lease(name, owner, now, now + length, dead)
        assert found == self.memory.lease(name, owner, now, now + length, dead)

    @rule(which=st.booleans(), name=actions, at=TIMES)
    def make_due(self, which: bool, name: str, at: int) -> None:
        assert self._one(which).make_due(name, at) == self.memory.make_due(name, at)

    @rule(which=st.booleans(), owner=owners)
    def release(self, which: bool, owner: str) -> None:
        self._one(which).release(owner)
        self.memory.release(owner)

    @rule(
        which=st.booleans(),
        now=TIMES,
        limit=st.integers(0, 4),
        tenant=st.sampled_from(["", TENANT, "other"]),
        known=st.none() | knowns,
    )
    def due(self, which: bool, now: int, limit: int, tenant: str, known: ContractFilter | None) -> None:
        handle = self._one(which)
        assert handle.due(now, limit, tenant, known) == self.memory.due(now, limit, tenant, known)
        assert handle.next_due_us(tenant) == self.memory.next_due_us(tenant)

    @rule(
        which=st.booleans(),
        query=st.builds(
            ActionFilter,
            tenant=st.sampled_from(["", TENANT, "other"]),
            state=st.sampled_from(["", "PENDING"]),
            contract=st.sampled_from(["", "c1"]),
            run=st.sampled_from(["", "r1"]),
            before_id=st.sampled_from(["", *ACTIONS]),
            after_id=st.sampled_from(["", *ACTIONS]),
            limit=st.integers(0, 4),
            oldest=st.booleans(),
        ),
    )
    def page(self, which: bool, query: ActionFilter) -> None:
        assert self._one(which).page(query) == self.memory.page(query)
        assert self._one(which).counted(query) == self.memory.counted(query)

    @rule(which=st.booleans())
    def reopen(self, which: bool) -> None:
        self.handles[which].close()
        self.handles[which] = open_sqlite_store(self.path)

    @rule()
    def crash(self) -> None:
        self.crashes += 1
        there = self.folder / f"{self.crashes}.db"
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{self.path}{suffix}", f"{there}{suffix}")
        for handle in self.handles:
            handle.close()
        self.path = there
        self.handles = [open_sqlite_store(there), open_sqlite_store(there)]

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "handles"):
            return
        expected = everything(self.memory)
        for handle in self.handles:
            assert everything(handle) == expected
            assert handle.owners() == self.memory.owners()
            assert [handle.events(name) for name in ACTIONS] == [self.memory.events(name) for name in ACTIONS]
            for name in ACTIONS:
                assert handle.by_stamp(TENANT, f"s-{name}") == self.memory.by_stamp(TENANT, f"s-{name}")
            for key_hash in ("k1", "k2"):
                assert handle.key(TENANT, key_hash) == self.memory.key(TENANT, key_hash)


TestInStep: type[unittest.TestCase] = InStep.TestCase
# Bounded, since every step writes to a disk.
TestInStep.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)  # type: ignore[attr-defined]
