"""Drafts from watched calls: what is proposed with which support, what a lie does to it, and what is refused."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from readback import Readback, contract_files
from readback.assurance.faults import WatchedCallsError
from readback.assurance.watched.calls import Look, WatchedCall
from readback.assurance.watched.proposals import Proposal, proposed
from readback.canon import Json
from readback.cli.cli import main
from readback.contracts.files.undecided import MARK
from tests.contract_files.writing import faults, loaded, written
from tests.quality.test_mutation import FORGETS, HONEST, LYING
from tests.shadow.given import allow


def call(
    number: int,
    requested: dict[str, Json],
    before: Json,
    after: Json,
    *,
    verdict: str = "verified",
    tenant: str = "acme",
) -> WatchedCall:
    """One watched call of a tool without a contract, or with one."""

    def look(value: Json, at_us: int) -> Look:
        return Look("rows", "orders", "absent" if value is None else "present", value, 1_000, at_us)

    return WatchedCall(
        f"a{number}", "set_status", "", "", tenant, f"order/{requested['id']}", requested, look(before, 1_000),
        (look(after, 2_400_000),), verdict, None, "success", "", 1_000_000, 200_000, 3_000_000, f"rb-{number}", verdict,
    )  # fmt: skip


def watched(many: int = 6) -> list[WatchedCall]:
    tenants = ("acme", "globex")
    return [
        call(
            n,
            {"id": f"o{n}", "status": ("shipped", "held")[n % 2], "count": n + 1},
            {"id": f"o{n}", "tenant": tenants[n % 2], "status": "open", "stock": 10, "by": "", "note": "x"},
            {"id": f"o{n}", "tenant": tenants[n % 2], "status": ("shipped", "held")[n % 2], "stock": 9 - n,
             "by": "agent", "note": "x"},
            tenant=tenants[n % 2],
        )
        for n in range(many)
    ]  # fmt: skip


def texts(found: Sequence[Proposal]) -> dict[str, str]:
    return {each.key: each.text for each in found}


@pytest.mark.requirement("QUAL-watched")
def test_postconditions_identity_frame_and_times_are_proposed_with_their_support() -> None:
    found = proposed("set_status", watched())
    assert texts(found.ensure) == {
        "ensure.there": "authoritative != null",
        "ensure.id": "authoritative.id == requested.id",
        "ensure.status": "authoritative.status == requested.status",
        "ensure.stock": "authoritative.stock == before.stock - requested.count",
        "ensure.by": 'authoritative.by == "agent"',
    }
    assert texts(found.identity) == {
        "identity.tenant": "authoritative.tenant", "identity.target": "authoritative.id",
    }  # fmt: skip
    assert found.kind.text == "adjust"
    assert found.target.text == "order/{requested.id}"
    assert found.frame is not None
    assert found.frame.text == "by, status, stock"
    assert found.within.text == "2500ms"
    assert found.timeout.text == "5s"
    assert all(len(each.support) == 6 for each in found.ensure)


@pytest.mark.requirement("QUAL-watched")
def test_a_lie_is_a_counterexample_and_a_refuted_call_is_told_apart() -> None:
    calls = watched(10)
    lie = calls[3]
    old = lie.before
    assert old is not None
    calls[3] = replace(lie, after=(replace(lie.after[0], value=old.value),))
    status = next(each for each in proposed("t", calls).ensure if each.key == "ensure.status")
    assert (len(status.support), status.against, status.refuted) == (9, ("a3",), ())
    calls[3] = replace(calls[3], verdict="refuted", judged="refuted")
    status = next(each for each in proposed("t", calls).ensure if each.key == "ensure.status")
    assert (status.against, status.refuted) == ((), ("a3",))


@pytest.mark.requirement("QUAL-watched")
def test_a_regularity_without_enough_support_is_not_proposed() -> None:
    calls = watched(10)
    for n in (0, 2, 4):
        after = calls[n].after[0]
        assert isinstance(after.value, dict)
        calls[n] = replace(calls[n], after=(replace(after, value={**after.value, "status": "lost"}),))
    assert "ensure.status" not in texts(proposed("t", calls).ensure)


@pytest.mark.requirement("QUAL-watched")
def test_a_weak_proposal_says_why_it_is_weak() -> None:
    one = [replace(each, tenant="acme") for each in watched(10)[::2]]
    found = proposed("t", one)
    assert "one tenant" in found.identity[0].why
    status = next(each for each in found.ensure if each.key == "ensure.status")
    assert status.why == "All calls had one value of the argument."


@pytest.mark.requirement("QUAL-watched")
@pytest.mark.parametrize(("before", "after", "kind"), [(None, {"id": "o"}, "create"), ({"id": "o"}, None, "delete")])
def test_the_kind_follows_the_presence_before_and_after(before: Json, after: Json, kind: str) -> None:
    calls = [call(n, {"id": "o"}, before, after) for n in range(5)]
    found = proposed("t", calls)
    assert found.kind.text == kind
    if kind == "delete":
        assert texts(found.ensure) == {"ensure.gone": "authoritative == null"}


@pytest.mark.requirement("QUAL-watched-few")
def test_fewer_than_five_watched_calls_are_a_typed_error() -> None:
    with pytest.raises(WatchedCallsError) as refused:
        proposed("set_status", watched(4))
    assert refused.value.code == "input.watched-calls"
    assert refused.value.exit_code == 2
    assert "has 4 watched calls" in refused.value.message
    assert refused.value.remedy


# --- the command, over a real ledger ---


def ledger(folder: Path, many: int) -> str:
    """Verified actions of a contract on SQLite."""
    with closing(sqlite3.connect(folder / "orders.db")) as db, db:
        db.execute("create table orders (id text primary key, tenant text, status text, note text)")
        db.executemany("insert into orders values (?, 'acme', 'open', '')", [(f"o{n}",) for n in range(many)])
    url = f"sqlite:///{folder / 'ledger.db'}"
    actions = contract_files(str(written(folder / "orders.yaml", LYING.format(statement=HONEST))))
    with Readback.open(url, tenant="acme", principal="agent:ops") as rb:
        for n in range(many):
            assert rb.run(actions["set_status"](id=f"o{n}", status="shipped", note=f"note {n}")).verified
    return url


@pytest.mark.requirement("QUAL-watched-marked")
def test_a_draft_from_a_ledger_is_marked_and_in_force_only_once_a_person_has_accepted_it(tmp_path: Path) -> None:
    url = ledger(tmp_path, 6)
    out = tmp_path / "drafted.yaml"
    done = CliRunner().invoke(main, ["contracts", "draft", "--from", url, "--out", str(out)])
    assert done.exit_code == 0, done.output
    text = out.read_text(encoding="utf-8")
    contract = yaml.safe_load(text)["contracts"]["set_status"]
    assert contract["ensure"]["status"] == f"{MARK} authoritative.status == requested.status"
    assert contract["ensure"]["note"] == f"{MARK} authoritative.note == requested.note"
    assert "Support: 6 of 6 calls." in text
    refused = CliRunner().invoke(main, ["contracts", "check", "--offline", str(out)])
    assert refused.exit_code == 5
    assert all("undecided" in line for line in faults(text))
    reader = '      - sql: {database: orders.db, query: "select * from orders where id = {requested.id}"}'
    executor = (
        '      sql: {database: orders.db, statement: "update orders set status = {requested.status}, '
        'note = {requested.note} where id = {requested.id}"}'
    )
    accepted = re.sub(rf"readers: {MARK}\n", f"readers:\n{reader}\n", text)
    accepted = accepted.replace("    execute:\n", f"    execute:\n{executor}\n")
    accepted = accepted.replace(f"{MARK} ", "")
    assert loaded(accepted).faults == ()


@pytest.mark.requirement("QUAL-watched-few")
def test_the_command_refuses_a_ledger_with_too_few_calls_and_an_unknown_tool(tmp_path: Path) -> None:
    url = ledger(tmp_path, 4)
    few = CliRunner().invoke(main, ["contracts", "draft", "--from", url])
    assert few.exit_code == 2
    assert "No tool on record has 5 watched calls" in few.output
    by_path = CliRunner().invoke(main, ["contracts", "draft", "--from", url.removeprefix("sqlite:///")])
    assert (by_path.exit_code, by_path.output) == (few.exit_code, few.output)
    address = CliRunner().invoke(main, ["contracts", "draft", "--url", "notes.example/mcp"])
    assert (address.exit_code, "notes.example/mcp is no address." in address.output) == (2, True)
    named = CliRunner().invoke(main, ["contracts", "draft", "--from", url, "--tool", "set_status"])
    assert "'set_status' has 4 watched calls" in named.output
    unknown = CliRunner().invoke(main, ["contracts", "draft", "--from", url, "--tool", "close"])
    assert "No call of 'close' is on record" in unknown.output
    both = CliRunner().invoke(main, ["contracts", "draft", "--from", url, "--", "true"])
    assert both.exit_code == 2


# --- shadow mode ---


@pytest.mark.requirement("QUAL-watched-shadow")
def test_calls_of_a_tool_without_a_contract_that_shadow_mode_watched_give_a_draft(tmp_path: Path) -> None:
    notes = pytest.importorskip("tests.shadow.notes")

    async def work(desk: Any) -> None:
        for n in range(7):
            await desk.write(f"note {n}", f"text {n}" if n != 3 else "a lost text")

    notes.at_a_desk(tmp_path, work)
    done = CliRunner().invoke(main, ["contracts", "draft", "--from", f"sqlite:///{tmp_path}/readback.db"])
    assert done.exit_code == 0, done.output
    contract = yaml.safe_load(done.stdout)["contracts"]["write_note"]
    assert contract["ensure"]["result"] == f"{MARK} authoritative.result == requested.text"
    assert set(contract["arguments"]) == {"name", "text"}
    assert "read_note" in done.stdout


@pytest.mark.requirement("QUAL-watched-shadow")
def test_a_contract_in_shadow_mode_counts_by_the_judgement_of_the_enforced_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, tmp_path, 'shadow = ["set_status"]\n')
    ledger(tmp_path, 0)
    with closing(sqlite3.connect(tmp_path / "orders.db")) as db, db:
        db.executemany("insert into orders values (?, 'acme', 'open', '')", [(f"o{n}",) for n in range(7)])
    url = f"sqlite:///{tmp_path / 'shadowed.db'}"
    for statement, ids in ((HONEST, range(6)), (FORGETS, (6,))):
        actions = contract_files(str(written(tmp_path / "orders.yaml", LYING.format(statement=statement))))
        with Readback.open(url, tenant="acme", principal="agent:ops", shadow=True) as rb:
            for n in ids:
                assert not rb.run(actions["set_status"](id=f"o{n}", status="shipped", note=f"note {n}")).verified
    done = CliRunner().invoke(main, ["contracts", "draft", "--from", url])
    assert done.exit_code == 0, done.output
    note = done.stdout.partition("note: DECIDE authoritative")[0].rpartition("#")[2]
    assert "Support: 6 of 7 calls. Not in calls that were refuted:" in " ".join(note.split())
