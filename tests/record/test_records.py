"""`readback ledger export`: each action of a ledger as one action ledger entry."""

from __future__ import annotations

import json
import os
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from readback.audit.record.action import bundle_id
from readback.canon import sha256_hex
from readback.log.tree import leaf_hash
from readback.ports.storage.store import LedgerStore
from tests.record.conftest import VALIDATOR, Desk, record, streams

MOMENTS = ("proposed_at", "validated_at", "executed_at", "verified_at", "reconciled_at")


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def exported(untouched: Path, desk: Desk) -> list[dict[str, Any]]:
    return lines(desk("ledger", "export", "--url", f"sqlite:///{untouched}", code=0).out)


@pytest.mark.requirement("LEDGER-record")
def test_every_action_of_a_rich_ledger_satisfies_the_schema(exported: list[dict[str, Any]], rich: LedgerStore) -> None:
    assert [each["action_id"] for each in exported] == [events[0].action_id for events in streams(rich)]
    for each in exported:
        VALIDATOR.validate(each)
        for name in MOMENTS:
            at = each["timestamps"][name]
            assert at is None or datetime.fromisoformat(at).tzinfo is not None
    said = {(each["execution"]["status"], each["verification"]["status"]) for each in exported}
    assert len(said) >= 6, "not rich enough to show anything"


@pytest.mark.requirement("LEDGER-record-honest")
def test_success_is_said_of_what_was_verified_alone(exported: list[dict[str, Any]], rich: LedgerStore) -> None:
    verdicts = {h.projection.action_id: h.projection.verdict for h in rich.projections()}
    for each in exported:
        verified = verdicts[each["action_id"]] == "verified"
        assert (each["verification"]["status"] == "VERIFIED") == verified
        assert each["reconciliation"]["status"] != "RECONCILED_SUCCESS" or verified
        assert (each["timestamps"]["executed_at"] is None) == (each["execution"]["attempt_count"] == 0)


def test_with_json_what_was_written_to_a_file_is_counted_on_stdout(desk: Desk) -> None:
    desk.run("ship", order_id="o-17", carrier="dhl", code=0)
    answer = desk("ledger", "export", "--out", "records.jsonl", "--json", code=0)
    assert answer.json == {"file": "records.jsonl", "records": 1, "sagas": 0}
    assert answer.err == ""


def test_a_pipe_or_a_device_is_written_to_and_nothing_takes_its_place(desk: Desk) -> None:
    told = desk.run("ship", order_id="o-17", carrier="dhl", code=0).json
    pipe = desk.folder / "pipe"
    os.mkfifo(pipe)
    assert "cannot be written" in desk("ledger", "export", "--out", "pipe", code=6).err, "nobody reads it"
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        desk("ledger", "export", "--out", "pipe", code=0)
        assert [each["action_id"] for each in lines(os.read(reader, 1 << 20).decode())] == [told["id"]]
        desk("ledger", "export", "--bundle", told["id"], "--out", "pipe", code=0)
        assert told["id"] in os.read(reader, 1 << 20).decode()
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_is_followed_and_a_file_keeps_its_rights(desk: Desk) -> None:
    desk.run("ship", order_id="o-17", carrier="dhl", code=0)
    kept, link = desk.folder / "kept.jsonl", desk.folder / "link.jsonl"
    kept.write_text("older")
    kept.chmod(0o600)
    link.symlink_to("kept.jsonl")
    desk("ledger", "export", "--out", "link.jsonl", code=0)
    assert link.is_symlink()
    assert len(lines(kept.read_text())) == 1
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_every_word_of_one_record(desk: Desk) -> None:
    told = desk.run("ship", "--operation", "op", "--run", "run-7", order_id="o-17", carrier="dhl", code=0).json
    (each,) = lines(desk("ledger", "export", code=0).out)
    assert each["action_id"] == told["id"]
    assert (each["workflow_run_id"], each["tenant_id"], each["principal_id"]) == ("run-7", "default", "agent:local")
    assert each["tool_contract"]["name"] == "ship"
    assert each["side_effect_class"] == "LOW_RISK_INTERNAL"
    assert each["intended_outcome"] == {
        "target_resource": "order/o-17",
        "expected_predicates": [
            "shipped: authoritative.status == 'shipped'",
            "carrier: authoritative.carrier == requested.carrier",
        ],
    }
    assert each["requested_operation"]["operation_kind"] == "set"
    assert each["execution"]["status"] == "COMMITTED"
    assert each["execution"]["attempt_count"] == 1
    assert each["verification"]["status"] == "VERIFIED"
    assert each["verification"]["source"] == "orders-file"
    assert each["reconciliation"] == {
        "status": "RECONCILED_SUCCESS",
        "discrepancy_class": None,
        "recovery_decision": "RB-verified: accept",
    }
    assert each["idempotency"]["status"] == "COMPLETED"
    assert each["approval"] == {
        "required": False,
        "approval_id": None,
        "approver_id": None,
        "payload_hash": None,
        "expires_at": None,
    }
    assert set(each["recovery"].values()) == {None}
    assert None not in each["timestamps"].values()
    assert each["policy_context"]["autonomy_boundary_version"] == "none"
    assert each["policy_context"]["approval_policy_version"] == "none"
    assert len(each["policy_context"]["recovery_policy_version"]) == 64
    assert len(each["trace"]["replay_bundle_id"]) == 64


@pytest.mark.requirement("LEDGER-evidence-pointers")
def test_every_pointer_resolves_to_what_it_names(untouched: Path, desk: Desk, exported: list[dict[str, Any]]) -> None:
    seen: dict[str, str] = {}
    for each in exported:
        named = (each["execution"]["observation_pointer"], *(each["verification"][k] for k in POINTERS))
        seen |= {pointer: each["tenant_id"] for pointer in named if pointer is not None}
    kinds = [pointer.partition(":")[0] for pointer in seen]
    assert kinds.count("evidence") > 5
    assert kinds.count("entry") > 5
    for pointer, tenant in seen.items():
        found = desk("ledger", "evidence", pointer, "--tenant", tenant, "--url", f"sqlite:///{untouched}")
        if found.code:
            assert "was erased" in found.err
            continue
        body = found.out.removesuffix("\n").encode()
        digest = leaf_hash(body).hex() if pointer.startswith("entry:") else sha256_hex(body)
        assert digest == pointer.rpartition(":")[2]


POINTERS = ("query_pointer", "verified_state_pointer")


@pytest.mark.requirement("LEDGER-evidence-pointers")
def test_a_pointer_that_is_none_or_leads_nowhere_is_said_to_be_so(desk: Desk) -> None:
    told = desk.ship("op", code=0)
    assert "is not a pointer" in desk("ledger", "evidence", "sha256:00", code=2).err
    assert "no evidence" in desk("ledger", "evidence", f"evidence:sha256:{'0' * 64}", code=2).err
    assert "no entry" in desk("ledger", "evidence", f"entry:{told['id']}:99:sha256:{'0' * 64}", code=2).err
    assert "another hash" in desk("ledger", "evidence", f"entry:{told['id']}:1:sha256:{'0' * 64}", code=2).err
    (each,) = lines(desk("ledger", "export", code=0).out)
    pointer = each["execution"]["observation_pointer"]
    assert "no evidence" in desk("ledger", "evidence", pointer, "--tenant", "other", code=2).err
    named = desk("ledger", "evidence", pointer, "--action", told["id"], code=0).out
    assert named == desk("ledger", "evidence", pointer, code=0).out
    assert "no evidence" in desk("ledger", "evidence", pointer, "--action", "another", code=2).err
    desk("ledger", "evidence", pointer, "--out", "body.json", code=0)
    assert json.loads(Path("body.json").read_text())["status"] == "ok"


@pytest.mark.requirement("LEDGER-evidence-pointers")
def test_a_pointer_to_what_was_erased_says_so(desk: Desk) -> None:
    desk.ship("op", code=0)
    (each,) = lines(desk("ledger", "export", code=0).out)
    desk("ledger", "erase", "--all", "--reason", "Asked for.", "--who", "human:eve", code=0)
    pointer = each["execution"]["observation_pointer"]
    assert "was erased" in desk("ledger", "evidence", pointer, code=1).err
    assert "was erased" in desk("ledger", "evidence", pointer, "--action", each["action_id"], code=1).err
    (after,) = lines(desk("ledger", "export", code=0).out)
    VALIDATOR.validate(after)
    assert after["execution"] == each["execution"]
    assert after["trace"]["replay_bundle_id"] != each["trace"]["replay_bundle_id"], "it has one entry more"


def test_show_says_the_same_as_the_record(desk: Desk) -> None:
    desk.ship("verified", code=0)
    desk.ship("missing", "--wait", "0", order_id="o-99", how="lie", code=3)
    desk.run("wipe", "--operation", "held", order_id="o-17", code=4)
    for each in lines(desk("ledger", "export", code=0).out):
        shown = desk("show", each["action_id"], "--json").json["status"]
        assert shown == {name: each[name]["status"] for name in ("execution", "verification", "reconciliation")}


def test_a_file_is_whole_or_as_it_was(desk: Desk) -> None:
    desk.ship("op", code=0)
    Path("records.jsonl").write_text("before", encoding="utf-8")
    desk("ledger", "export", "--out", "records.jsonl", "--id", "nobody", code=2)
    assert Path("records.jsonl").read_text(encoding="utf-8") == "before"
    assert not list(Path().glob("*.being-written"))
    desk("ledger", "export", "--out", "records.jsonl", code=0)
    assert len(lines(Path("records.jsonl").read_text(encoding="utf-8"))) == 1
    assert "cannot be written" in desk("ledger", "export", "--out", "nowhere/records.jsonl", code=6).err


def test_records_are_chosen_by_id_tenant_and_time(desk: Desk) -> None:
    first = desk.ship("one", code=0)["id"]
    desk.runtime.advance(3600)
    second = desk.ship("two", carrier="ups", code=0)["id"]
    made = {each["action_id"]: each["timestamps"]["proposed_at"] for each in lines(desk("ledger", "export").out)}

    def ids(*args: str) -> list[str]:
        return [each["action_id"] for each in lines(desk("ledger", "export", *args, code=0).out)]

    assert ids("--id", second) == [second]
    assert ids("--since", made[second]) == [second]
    assert ids("--until", made[second]) == [first]
    assert ids("--tenant", "other") == []
    assert ids("--tenant", "default") == [first, second]
    assert "no moment" in desk("ledger", "export", "--since", "soon", code=2).err
    assert "no action" in desk("ledger", "export", "--id", first, "--tenant", "other", code=2).err


def test_an_expired_key_is_said_to_be_expired(desk: Desk) -> None:
    desk.ship("op", code=0)
    desk.runtime.advance(40 * 24 * 3600)
    (each,) = lines(desk("ledger", "export", code=0).out)
    assert each["idempotency"]["status"] == "EXPIRED"


def test_a_saga_is_no_record_and_its_steps_are(untouched: Path, desk: Desk, rich: LedgerStore) -> None:
    told = desk("ledger", "export", "--url", f"sqlite:///{untouched}", code=0)
    sagas = [held.projection.action_id for held in rich.projections() if held.projection.kind == "saga"]
    assert sagas
    assert f"{len(sagas)} sagas are omitted" in told.err
    assert not set(sagas) & {each["action_id"] for each in lines(told.out)}


@pytest.mark.requirement("TENANT-invisible")
def test_an_empty_tenant_is_none_and_not_every_one(desk: Desk) -> None:
    """As `--tenant "$TENANT"` of a variable that is not set: all records were written then."""
    desk.ship("op", code=0)
    for name in ("", " "):
        refused = desk("ledger", "export", "--tenant", name, "--out", "records.jsonl", code=2)
        assert "The tenant is missing" in refused.err
        assert not Path("records.jsonl").exists()


def test_a_damaged_entry_is_not_exported(desk: Desk, tmp_path: Path) -> None:
    import apsw

    desk.ship("op", code=0)
    connection = apsw.Connection(str(desk.ledger))
    connection.execute("drop trigger event_is_never_changed")
    connection.execute("update event set envelope = cast(envelope || ' ' as blob) where version = 1")
    connection.close()
    assert desk("ledger", "export", "--out", "records.jsonl", code=6).out == ""
    assert not Path("records.jsonl").exists()


@pytest.mark.parametrize("version", [2, 6], ids=["one between", "the last one"])
def test_an_action_that_lacks_an_entry_is_not_exported(desk: Desk, version: int) -> None:
    """Without its last entries it was exported as it had been before them: what withdrew it was left out."""
    import apsw

    action_id = desk.ship("op", code=0)["id"]
    connection = apsw.Connection(str(desk.ledger))
    connection.execute("drop trigger event_is_never_removed")
    assert connection.execute("select max(version) from event").get == 6
    connection.execute("delete from event where version = ?", (version,))
    connection.close()
    for more in ((), ("--id", action_id), ("--bundle", action_id)):
        said = desk("ledger", "export", "--out", "file", *more, code=6)
        assert f"Action {action_id} was recorded with" in said.err
        assert not Path("file").exists()


def test_the_bundle_id_is_the_same_whoever_makes_it(rich: LedgerStore) -> None:
    found = set()
    for events in streams(rich):
        trace = record(rich, events)["trace"]
        assert isinstance(trace, dict)
        assert trace["replay_bundle_id"] == bundle_id(events)
        found.add(trace["replay_bundle_id"])
    assert len(found) == len(list(streams(rich)))
