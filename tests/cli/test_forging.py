"""A forger who makes every hash anew: what still gives him away, and what an escalation may do.

He has the file, and knows the format: each entry he changes is sealed again, and so is every later one of the action.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from readback import bootstrap
from readback.audit.checks.ledger import Fault, audit
from readback.canon import envelope_bytes, sha256_hex
from readback.domain.action.action import Action
from readback.domain.state import State, can
from readback.engine.effects import Lease, Leased
from readback.engine.stages.escalate import TO_REVIEW, escalate
from readback.errors import InvariantError
from readback.log.tree import leaf_hash
from tests.cli.conftest import Desk

Edit = Callable[[dict[str, Any]], None]


def reforge(path: Path, action_id: str, edit: Edit) -> None:
    """Every entry of the action is edited and sealed anew, links and columns included."""
    connection = apsw.Connection(str(path))
    connection.execute("drop trigger event_is_never_changed")
    previous = ""
    rows = list(
        connection.execute("select seq, envelope from event where action_id = ? order by version", (action_id,))
    )
    for seq, envelope in rows:
        entry = json.loads(envelope)
        edit(entry)
        entry["prev"] = previous
        sealed = envelope_bytes(entry)
        leaf = leaf_hash(sealed)
        connection.execute(
            "update event set envelope = ?, leaf = ?, kind = ?, at_us = ? where seq = ?",
            (sealed, leaf, entry["kind"], entry["at"], seq),
        )
        previous = leaf.hex()
    connection.close()


def faults(path: Path) -> list[Fault]:
    store = bootstrap.store(f"sqlite:///{path}", read_only=True)
    try:
        return audit(store).faults
    finally:
        store.close()


def of_first(change: Edit) -> Edit:
    def edit(entry: dict[str, Any]) -> None:
        if entry["version"] == 1:
            change(entry)

    return edit


def evidence(path: Path, old: str, body: bytes) -> str:
    """Other evidence in the place of the old, under its own digest."""
    digest = sha256_hex(body)
    connection = apsw.Connection(str(path))
    row = (bytes.fromhex(digest), body, bytes.fromhex(old))
    connection.execute("update payload set digest = ?, body = ? where digest = ?", row)
    connection.close()
    return digest


@pytest.mark.requirement("L22")
@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("stamp", "rb-another", "bears the stamp"),
        ("contract_hash", "0" * 64, "stores another contract"),
        ("request_hash", "0" * 64, "a request that does not match its request hash"),
        ("key_hash", "0" * 64, "a key that does not match its tenant, contract and operation"),
        ("operation", "another", "a key that does not match its tenant, contract and operation"),
    ],
)
def test_l22_ids_that_follow_from_others_are_made_again(desk: Desk, field: str, value: str, said: str) -> None:
    outcome = desk.run("annotate", "--operation", "a", order_id="o-17", note="x", code=0).json

    def change(entry: dict[str, Any]) -> None:
        entry["data"][field] = value

    reforge(desk.ledger, outcome["id"], of_first(change))
    connection = apsw.Connection(str(desk.ledger))
    if field != "request_hash":
        connection.execute(f"update action set {field} = ?", (value,))
    if field in ("key_hash", "request_hash"):
        connection.execute(f"update idempotency set {field} = ?", (value,))
    connection.close()
    assert said in " ".join(fault.what for fault in faults(desk.ledger))


def test_a_redacted_request_hides_its_hash_and_not_the_key(desk: Desk) -> None:
    outcome = desk.ship("a", pin="1234", code=0)
    assert faults(desk.ledger) == []

    def change(entry: dict[str, Any]) -> None:
        entry["data"]["operation"] = "another"

    reforge(desk.ledger, outcome["id"], of_first(change))
    connection = apsw.Connection(str(desk.ledger))
    connection.execute("update action set operation = 'another'")
    connection.close()
    assert "a key that does not match" in faults(desk.ledger)[0].what


def test_another_request_under_a_digest_of_its_own_is_found(desk: Desk) -> None:
    outcome = desk.ship("a", code=0)
    events = desk("show", outcome["id"], "--json").json["events"]
    old = events[0]["refs"]["request"]
    body = json.dumps({"requested": {"order_id": "o-17", "carrier": "ups"}, "target": "order/o-17"}).encode()
    digest = evidence(desk.ledger, old, body)

    def change(entry: dict[str, Any]) -> None:
        entry["refs"]["request"] = digest

    reforge(desk.ledger, outcome["id"], of_first(change))
    assert [f.code for f in faults(desk.ledger)] == ["evidence"]


def test_a_history_that_no_transition_allows_cannot_be_told(desk: Desk) -> None:
    outcome = desk.ship("a", how="wrong", code=4)

    def succeed(entry: dict[str, Any]) -> None:
        if entry["kind"] == "judged":
            entry["path"] = ["reconciled_success"]
            entry["data"]["verdict"] = "verified"

    reforge(desk.ledger, outcome["id"], succeed)
    found = faults(desk.ledger)
    assert found[0].code == "action.fold"
    assert "No such transition exists" in found[0].what


def test_an_entry_that_lacks_what_its_kind_needs_is_a_fault_and_no_crash(desk: Desk) -> None:
    outcome = desk.ship("a", code=0)

    def cut(entry: dict[str, Any]) -> None:
        if entry["kind"] == "attempted":
            del entry["data"]["attempt"]

    reforge(desk.ledger, outcome["id"], cut)
    assert faults(desk.ledger)[0].code == "action.fold"


def test_an_action_that_does_not_begin_with_a_proposal_is_found(desk: Desk) -> None:
    outcome = desk.ship("a", code=0)

    def rename(entry: dict[str, Any]) -> None:
        entry["kind"] = "validated"

    reforge(desk.ledger, outcome["id"], of_first(rename))
    assert not any(fault.code == "entry.leaf" for fault in faults(desk.ledger))
    assert faults(desk.ledger)


def test_a_key_that_was_given_to_another_action_is_looked_at(desk: Desk) -> None:
    """Legal only where the earlier action had ended, and the other has the same key."""
    first, second = desk.ship("a", code=0), desk.ship("b", "--wait", "0", how="lie", carrier="ups", code=3)
    connection = apsw.Connection(str(desk.ledger))
    connection.execute("update idempotency set action_id = ? where action_id = ?", (second["id"], first["id"]))
    connection.close()
    assert "which has another key" in " ".join(fault.what for fault in faults(desk.ledger))
    connection = apsw.Connection(str(desk.ledger))
    connection.execute("update idempotency set action_id = 'nobody' where action_id = ?", (second["id"],))
    connection.close()
    assert "which is not there" in " ".join(fault.what for fault in faults(desk.ledger))


def test_an_action_that_began_after_the_scan_is_left_to_the_next_audit(desk: Desk) -> None:
    desk.ship("a", code=0)
    desk.ship("b", code=0, carrier="ups")
    store = bootstrap.store(f"sqlite:///{desk.ledger}", read_only=True)
    whole = list(store.scan())
    cut = next(i for i, each in enumerate(whole) if i and each.version == 1)

    def shorter(after_seq: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        return [(each.seq, each.envelope, each.leaf) for each in whole[after_seq:cut]][:limit]

    store.entries = shorter  # type: ignore[method-assign]
    report = audit(store)
    assert report.faults == []
    assert (report.events, report.actions) == (cut, 2)
    store.close()


def test_an_entry_that_belongs_to_no_action_is_found(desk: Desk) -> None:
    desk.ship("a", code=0)
    store = bootstrap.store(f"sqlite:///{desk.ledger}", read_only=True)
    events, histories = store.events, list(store.histories())
    store.events = lambda action_id: events(action_id)[:-1]  # type: ignore[method-assign]
    store.histories = lambda: iter([(held, own[:-1]) for held, own in histories])  # type: ignore[method-assign]
    assert not audit(store).ok
    store.close()


# --- escalation ----------------------------------------------------------------------------------------------


def test_every_way_to_review_is_legal_and_every_state_that_can_be_due_has_one() -> None:
    for state, path in TO_REVIEW.items():
        for before, after in zip((state, *path), path, strict=False):
            assert can(before, after), (before, after)
        assert (path or (state,))[-1] is State.REVIEW_REQUIRED
    ended = {State.RECONCILED_SUCCESS, State.FAILED, State.COMPENSATED, State.ROLLED_BACK, State.ABANDONED}
    assert set(TO_REVIEW) == set(State) - ended


@pytest.mark.parametrize("state", [State.RECONCILED_SUCCESS, State.FAILED, State.ABANDONED])
def test_what_has_ended_cannot_be_escalated(state: State) -> None:
    with pytest.raises(InvariantError):
        next(escalate(Action("x", "t", state=state), "me", "", 0))


@pytest.mark.parametrize("leased", [Leased(None, 3, 0), Leased(2, 4, 0)])
def test_an_action_that_somebody_else_moves_on_is_left_alone(leased: Leased) -> None:
    work = escalate(Action("x", "t", state=State.PENDING, version=3), "me", "", 0)
    assert isinstance(next(work), Lease)
    with pytest.raises(StopIteration) as end:
        work.send(leased)
    assert end.value.value is False
