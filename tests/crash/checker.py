"""The independent checker: asks the world and the ledger's own rows what happened, after everybody is dead or done.

It does not go through the clients, and believes nothing that was told: what was told is what it checks.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from readback.audit.checks.ledger import audit
from readback.domain.action.action import Action
from readback.domain.idempotency import key_status
from readback.domain.state import State
from readback.engine.resume import fold
from readback.log.tree import leaf_hash
from readback.ports.storage.store import StoredProjection
from readback.stores.sqlite import open_sqlite_store
from tests.crash.world import Row, World

S = State
AFTER_EFFECT = {
    "create": {S.RECONCILED_SUCCESS},
    "assign": {S.RECONCILED_SUCCESS},
    "spoil": {S.COMPENSATED},
    "mend": {S.RECONCILED_SUCCESS},
    "stage": {S.RECONCILED_SUCCESS},
    "queue": {S.RECONCILED_SUCCESS},
    "insist": {S.RECONCILED_SUCCESS},
    "ask_again": {S.RECONCILED_SUCCESS},
}
"""The truthful ends where the world shows an effect of the action."""
WITHOUT_EFFECT = {"stage_wrongly": {S.ROLLED_BACK, S.FAILED}, "ask_again": {S.FAILED, S.REVIEW_REQUIRED}}
"""The truthful ends where it shows none; FAILED where nothing else stands. An attempt that never reached a system which
neither forgets nor refuses it, and whose contract says nothing of how late it may land, is in the end a person's."""


@dataclass(slots=True)
class Facts:
    """What is left of a story: the world, the ledger folded, and what was told."""

    effects: list[Row]
    calls: list[Row]
    thing: dict[str, object]
    actions: list[Action]
    told: list[dict[str, object]]

    def of(self, contract: str) -> list[Action]:
        return [action for action in self.actions if action.contract == contract]


def facts(folder: Path) -> Facts:
    """Everything there is to know, with the ledger checked row by row on the way."""
    world = World(folder / "world.db")
    told = folder / "told.jsonl"
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    thing = world.thing("thing/old")
    assert thing is not None
    return Facts(
        world.effects(), world.calls(), thing, ledger(folder / "ledger.db"), [json.loads(one) for one in lines]
    )


def ledger(path: Path) -> list[Action]:
    """The actions, folded from events whose hashes are computed again, each equal to its projection and its key."""
    if not path.exists():
        return []
    store = open_sqlite_store(path)
    try:
        assert store.damage() == []
        report = audit(store)
        assert report.ok, report.faults
        actions = []
        for stored in store.projections():
            events = store.events(stored.projection.action_id)
            assert [event.version for event in events] == list(range(1, len(events) + 1))
            assert all(leaf_hash(event.envelope) == event.leaf for event in events)
            action = fold(events)
            assert action is not None
            _same(action, stored)
            record = store.key(action.tenant, action.key_hash)
            if action.attempts:
                assert record is not None, "an attempt without its key"
                if record.action_id == action.id:
                    assert record.status == key_status(action.state, may_repeat=action.may_repeat).value
                    assert record.request_hash == action.request_hash
                else:
                    assert action.may_repeat, "its key was given away while it could still have an effect"
            actions.append(action)
        return actions
    finally:
        store.close()


def _same(action: Action, stored: StoredProjection) -> None:
    row = stored.projection
    assert (row.state, stored.version, row.due_us) == (action.state.value, action.version, action.due_us)
    assert (row.verdict, row.discrepancy, row.row) == (
        action.judgement.verdict, action.judgement.discrepancy, action.judgement.row,
    )  # fmt: skip
    assert (row.key_hash, row.stamp, row.target, row.operation) == (
        action.key_hash, action.stamp, action.target, action.operation,
    )  # fmt: skip


def check(found: Facts, *, settled: bool) -> None:
    """No doubled effect, no false word; where the story is over, no lost action either."""
    _nothing_twice(found)
    _nothing_false(found)
    known = {action.stamp for action in found.actions if action.attempts}
    assert {call.stamp for call in found.calls} <= known, "a tool was called for an attempt that is in no ledger"
    if settled:
        for action in found.actions:
            _ended_truthfully(found, action)


def _nothing_twice(found: Facts) -> None:
    attempts = Counter((call.stamp, call.target) for call in found.calls)
    assert set(attempts.values()) <= {1}, f"an attempt was dispatched twice: {attempts}"
    accepted = Counter(call.key for call in found.calls if call.tool == "ask_again" and not call.refused)
    assert set(accepted.values()) <= {1}, "an attempt that was taken in was repeated before it could have landed"
    effects = Counter((effect.tool, effect.key) for effect in found.effects)
    assert set(effects.values()) <= {1}, f"an operation had two effects: {effects}"


def _nothing_false(found: Facts) -> None:
    stamps = {effect.stamp for effect in found.effects}
    for told in found.told:
        if told["how"] == "run" and not told["settled"]:
            # Only where the reversal itself is unknown, which may take as long as its late window.
            assert told["state"] == "compensating", f"run came back before it was settled: {told['state']}"
            assert any(child.late_polls for child in found.of("mend"))
        if told["verified"]:
            assert told["stamp"] in stamps, f"told as done, and never done: {told}"
        if told["may_repeat"]:
            assert told["stamp"] not in stamps, f"told as repeatable, and done: {told}"
        if told["state"] in ("compensated", "rolled_back"):
            assert found.thing["value"] == "original" or len(found.of(str(told["contract"]))) > 1


def _ended_truthfully(found: Facts, action: Action) -> None:
    done = any(effect.stamp == action.stamp for effect in found.effects)
    allowed = AFTER_EFFECT[action.contract] if done else WITHOUT_EFFECT.get(action.contract, {S.FAILED})
    if not done and action.attempts and not action.may_repeat:
        allowed = {*allowed, S.REVIEW_REQUIRED}  # absence alone does not show that nothing landed: a person looks
    if action.contract == "insist":  # its tool honours the key: a request that was lost is sent again, and done
        allowed = AFTER_EFFECT["insist"]
    if action.contract == "spoil" and done and not any(effect.tool == "mend" for effect in found.effects):
        # Its reversal was attempted, died before its call, and its tool does not honour the key: nobody repeats it
        # unasked, and a person knows that the effect still stands.
        allowed = {S.REVIEW_REQUIRED}
    assert action.state in allowed, f"{action.contract} {'with' if done else 'without'} its effect: {action.state}"
    assert not action.attempt_open
    if action.state is S.COMPENSATED:
        assert found.thing["value"] == "original"
        ends = [child.state for child in found.of("mend")]
        assert ends.count(S.RECONCILED_SUCCESS) == 1, f"compensated, by {ends}"
