"""`readback replay`: what is on record, judged again; the same result, or what differs, by name."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readback import bootstrap
from readback.canon import parse_json, sha256_hex, stored_bytes
from readback.client.operations.replaying import replay_bundle
from readback.contracts.documents.recovery_tables import table_yaml
from readback.contracts.registry import registry_of
from readback.domain.finding import Finding
from readback.domain.records.replayed import Comparison, Difference, ReplayResult
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, RecoveryTable
from readback.engine.compiled_contract import CompiledContract
from readback.ports.storage.store import LedgerStore
from tests.architecture.tree import ROOT
from tests.record.conftest import Desk, bundle_of, hold_to_the_record, streams

PATIENCE_SECONDS = 120
SHOP = "tests.record.shop"


def mine(desk: Desk, tool: str, *arguments: str) -> Any:
    """One action of the contracts beside this file; its outcome."""
    given = [part for each in arguments for part in ("--arg", each)]
    return desk("run", tool, "--contracts", SHOP, "--operation", "op", "--json", *given, code=0).json


def replayed(data: bytes, **more: Any) -> ReplayResult:
    return replay_bundle(data, bootstrap.predicate_engine(), **more)


# --- the same ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("LEDGER-replay-bundle")
def test_every_action_of_a_rich_ledger_comes_to_the_same_again(rich: LedgerStore) -> None:
    same = judgements = 0
    for events in streams(rich):
        found = replayed(bundle_of(rich, events))
        hold_to_the_record(found)
        assert found.notes == ()
        same += found.comparison is Comparison.SAME
        judgements += len(found.judgements)
    assert same > 20
    assert judgements > 35


@pytest.mark.requirement("LEDGER-replay-bundle")
def test_another_process_with_an_empty_home_comes_to_the_same(rich: LedgerStore, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    files = []
    for events in streams(rich):
        file = tmp_path / f"{events[0].action_id}.json"
        file.write_bytes(bundle_of(rich, events))
        files.append(str(file))
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "readback.cli.cli", "replay", "--json", *files],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    here = [replayed(Path(file).read_bytes()) for file in files]
    assert done.returncode == (5 if any(each.comparison is not Comparison.SAME for each in here) else 0), done.stderr
    told = json.loads(done.stdout)
    assert told == [{**each.as_json(), "proved": None, "unchecked": []} for each in here]
    assert list(home.iterdir()) == [], "it left something behind"


def test_a_file_with_payloads_is_its_owner_s_alone_and_one_that_was_there_keeps_its_rights(desk: Desk) -> None:
    told = desk.ship("op", code=0)
    desk("ledger", "export", "--bundle", told["id"], "--out", "b.json", code=0)
    desk("ledger", "export", "--out", "records.jsonl", code=0)
    (record,) = (desk.folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    pointer = next(each for each in _texts(json.loads(record)) if each.startswith("evidence:"))
    desk("ledger", "evidence", pointer, "--out", "payload.json", code=0)
    names = ("b.json", "payload.json", "records.jsonl")
    before = os.umask(0)
    os.umask(before)
    modes = [stat.S_IMODE((desk.folder / name).stat().st_mode) for name in names]
    assert modes == [0o600, 0o600, 0o666 & ~before]
    (desk.folder / "b.json").chmod(0o640)
    desk("ledger", "export", "--bundle", told["id"], "--out", "b.json", code=0)
    assert stat.S_IMODE((desk.folder / "b.json").stat().st_mode) == 0o640


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def test_a_person_reads_each_judgement(desk: Desk) -> None:
    told = desk.ship("op", code=0)
    made = desk("ledger", "export", "--bundle", told["id"], "--out", "b.json", "--json", code=0).json
    said = desk("replay", "b.json", code=0).out
    assert "the same result" in said
    assert "verified RB-verified reconciled_success: same" in said
    assert made["bundle"] in said
    assert json.loads(desk("ledger", "export", "--bundle", told["id"], code=0).out)["id"] == made["bundle"]
    (record,) = desk("ledger", "export", code=0).out.splitlines()
    assert json.loads(record)["trace"]["replay_bundle_id"] == made["bundle"]


# --- something else ------------------------------------------------------------------------------------------------


def otherwise(finding: Finding, action: RecoveryAction) -> RecoveryTable:
    """The default table with another action in each row of a finding."""
    rows = (
        replace(row, action=action, id=row.id + "x") if row.finding is finding else row for row in DEFAULT_TABLE.rows
    )
    return RecoveryTable(tuple(rows))


@pytest.mark.requirement("LEDGER-replay-differs")
def test_another_table_is_said_row_by_row(rich: LedgerStore) -> None:
    other = otherwise(Finding.DUPLICATE_SIDE_EFFECT, RecoveryAction.FAIL)
    differing = 0
    for events in streams(rich):
        found = replayed(bundle_of(rich, events), table=other)
        named = {d.field for j in found.judgements for d in j.differences}
        assert (found.comparison is Comparison.DIFFERS) == bool(named)
        differing += "row" in named
        assert not named or {"row", "recovery"} <= named
        assert any(other.version in note for note in found.notes)
    assert differing


def ship_plan(**ensure: str) -> CompiledContract:
    """The shop's contract of shipping with other postconditions."""
    plan = registry_of(["tests.cli.shop"]).get("ship").load()
    checks = []
    for check in plan.ensure:
        source = ensure.get(check.postcondition.name, check.postcondition.expression)
        predicate = plan.predicates.compile(source)
        checks.append(
            replace(check, postcondition=replace(check.postcondition, expression=source), predicate=predicate)
        )
    contract = replace(plan.contract, ensure=tuple(c.postcondition for c in checks), hash="0" * 64)
    return replace(plan, ensure=tuple(checks), contract=contract)


@pytest.mark.requirement("LEDGER-replay-differs")
def test_another_contract_is_said_by_verdict_row_states_and_postcondition(desk: Desk) -> None:
    told = desk.ship("op", code=0)
    desk("ledger", "export", "--bundle", told["id"], "--out", "b.json", code=0)
    data = Path("b.json").read_bytes()
    other = ship_plan(shipped="authoritative.status == 'delivered'")
    found = replayed(data, plans={"ship": other}.get)
    assert found.comparison is Comparison.DIFFERS
    (judged,) = found.judgements
    named = {d.field: (d.recorded, d.replayed) for d in judged.differences}
    assert named["verdict"] == ("verified", "undetermined")
    assert named["row"][0] == "RB-verified"
    assert named["states"][0] == ["committed", "reconciled_success"]
    assert named["postcondition shipped"] == ("holds", "violated")
    assert "postcondition carrier" not in named
    assert "another than the recorded one" in found.notes[0]
    assert replayed(data, plans={"ship": registry_of(["tests.cli.shop"]).get("ship").load()}.get).notes == ()


@pytest.mark.requirement("LEDGER-replay-differs")
def test_a_difference_is_an_exit_code_and_words(desk: Desk) -> None:
    told = desk.ship("op", code=0)
    desk("ledger", "export", "--bundle", told["id"], "--out", "b.json", code=0)
    text = table_yaml(DEFAULT_TABLE, "t").replace("id: RB-verified\n", "id: own-verified\n")
    Path("table.yaml").write_text(text, encoding="utf-8")
    said = desk("replay", "b.json", "--table", "table.yaml", code=1).out
    assert "another result" in said
    assert 'row: "RB-verified" then, "own-verified" now' in said
    assert desk("replay", "b.json", "--table", "table.yaml", "--json", code=1).json["comparison"] == "differs"


@pytest.mark.requirement("LEDGER-replay-differs")
def test_a_forged_judgement_differs_even_where_every_hash_was_made_again(desk: Desk) -> None:
    """Whoever can write a ledger anew can make its hashes: what was judged does not follow from what was read."""
    from readback.audit.record.bundle import make_bundle
    from readback.domain.events import open_envelope, seal
    from readback.ports.storage.store import StoredEvent

    told = desk.ship("late", "--wait", "0", how="lie", carrier="ups", code=3)
    store = bootstrap.store(f"sqlite:///{desk.ledger}", read_only=True)
    events, previous, forged = store.events(told["id"]), "", []
    for stored in events:
        opened = open_envelope(stored.envelope)
        event = opened.event
        if event.kind.value == "judged":
            event = replace(event, data={**event.data, "verdict": "verified", "finding": "verified"})
        envelope, leaf = seal(event, opened.action_id, opened.tenant, opened.version, previous)
        previous = leaf.hex()
        forged.append(
            StoredEvent(stored.seq, stored.action_id, stored.version, stored.kind, stored.at_us, envelope, leaf)
        )
    data = make_bundle(forged, lambda digest: _body(store, digest), [DEFAULT_TABLE])
    store.close()
    found = replayed(data)
    assert Difference("verdict", "verified", "undetermined") in found.judgements[-1].differences


def _body(store: LedgerStore, digest: str) -> bytes | None:
    kept = store.evidence("default", store.keeper("default", digest) or "", digest)
    return None if kept is None else kept.body


# --- not to be evaluated here --------------------------------------------------------------------------------------


@pytest.mark.requirement("LEDGER-replay-bundle")
def test_a_callable_is_named_and_judged_where_it_is_loaded(desk: Desk) -> None:
    told = mine(desk, "stamp", "order_id=o-17")
    desk("ledger", "export", "--bundle", told["id"], "--out", "b.json", code=0)
    found = desk("replay", "b.json", "--json", code=5).json
    assert found["comparison"] == "not_evaluated"
    assert "is not loaded" in found["judgements"][-1]["missing"][0]
    assert "missing" in desk("replay", "b.json", code=5).out
    assert desk("replay", "b.json", "--contracts", SHOP, "--json", code=0).json["comparison"] == "same"


def test_what_was_redacted_is_named(desk: Desk) -> None:
    told = mine(desk, "hush", "order_id=o-17", "word=open sesame")
    desk("ledger", "export", "--bundle", told["id"], "--out", "b.json", code=0)
    found = desk("replay", "b.json", "--json", code=5).json
    assert any("requested.word: redacted" in each for each in found["judgements"][-1]["missing"])
    assert b"sesame" not in Path("b.json").read_bytes()


def test_what_was_erased_is_named(desk: Desk) -> None:
    told = desk.ship("op", code=0)
    desk("ledger", "erase", "--all", "--reason", "Asked for.", "--who", "human:eve", code=0)
    desk("ledger", "export", "--bundle", told["id"], "--out", "b.json", code=0)
    found = desk("replay", "b.json", "--json", code=5).json
    assert any(said.endswith("erased") for said in found["judgements"][-1]["missing"])


def test_of_several_bundles_the_worst_counts(desk: Desk) -> None:
    one = desk.ship("op", code=0)["id"]
    two = mine(desk, "stamp", "order_id=o-17")["id"]
    for name, action_id in (("one", one), ("two", two)):
        desk("ledger", "export", "--bundle", action_id, "--out", name, code=0)
    assert [each["comparison"] for each in desk("replay", "one", "two", "--json", code=5).json] == [
        "same",
        "not_evaluated",
    ]
    Path("two").write_bytes(Path("two").read_bytes().replace(b"o-17", b"o-18"))
    assert "does not match its hash" in desk("replay", "one", "two", code=2).err


# --- no bundle, and its proof --------------------------------------------------------------------------------------


def test_what_is_no_bundle_is_refused(desk: Desk) -> None:
    told = desk.ship("op", code=0)
    assert "no file" in desk("replay", "nowhere", code=2).err
    Path("b.json").write_text("{}", encoding="utf-8")
    assert "no replay bundle" in desk("replay", "b.json", code=2).err
    assert "no action" in desk("ledger", "export", "--bundle", "nobody", code=2).err
    assert "three different exports" in desk("ledger", "export", "--bundle", told["id"], "--id", "x", code=2).err


def test_a_saga_has_no_bundle_of_its_own(untouched: Path, desk: Desk, rich: LedgerStore) -> None:
    saga = next(h.projection.action_id for h in rich.projections() if h.projection.kind == "saga")
    assert "is a saga" in desk("ledger", "export", "--url", f"sqlite:///{untouched}", "--bundle", saga, code=2).err


def test_the_proof_of_the_last_entry_is_checked_by_the_logs_key(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    key = desk("ledger", "keys", "create", "--key-file", "log.key", "--name", "example.com/log", code=0).out.strip()
    one, two = desk.ship("one", code=0)["id"], desk.ship("two", carrier="ups", code=0)["id"]
    desk("ledger", "export", "--bundle", one, "--out", "bare", code=0)
    assert "no proof" in desk("replay", "bare", "--key", key, code=2).err
    monkeypatch.setenv("READBACK_SIGNING_KEY_FILE", "log.key")
    for name, action_id in (("one", one), ("two", two)):
        desk("ledger", "export", "--bundle", action_id, "--out", name, code=0)
    assert desk("replay", "one", "--key", key, "--json", code=0).json["proved"] is True
    assert "is in the log" in desk("replay", "one", "--key", key, code=0).out
    other = desk("ledger", "keys", "create", "--key-file", "other.key", "--name", "example.com/log", code=0).out.strip()
    desk("replay", "one", "--key", other, code=1)
    whole, swapped = parse_json(Path("one").read_bytes()), parse_json(Path("two").read_bytes())
    assert isinstance(whole, dict)
    assert isinstance(swapped, dict)
    rest = {name: value for name, value in whole.items() if name != "sha256"} | {"proof": swapped["proof"]}
    Path("one").write_bytes(stored_bytes({**rest, "sha256": sha256_hex(stored_bytes(rest))}))
    assert "another entry" in desk("replay", "one", "--key", key, code=2).err
