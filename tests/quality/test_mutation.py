"""The mutation test: which mutants a contract's examples and history kill, which survive, and what would kill those."""

from __future__ import annotations

import json
import shlex
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from readback import Readback, bootstrap, contract_files
from readback.assurance.mutation.trial import Trial, run_trial
from readback.assurance.results import Standing
from readback.cli.cli import main
from readback.client.files import loaded_files
from readback.contracts.packs import PACKS
from tests.contract_files.writing import written
from tests.quality.files import ORDER, SHIPPED, WHOLE, compiled, order


def tried(text: str) -> Trial:
    contract = compiled(text)
    return run_trial(contract.plan, contract.examples, bootstrap.expression_mutants, accepted=contract.survivors)


@pytest.mark.requirement("QUAL-mutate")
def test_a_dropped_identity_check_survives_examples_without_another_tenant() -> None:
    found = {each.name: each for each in tried(order(SHIPPED)).open}
    assert "ignore identity:tenant" in found
    assert '"state.tenant":"readback-other"' in found["ignore identity:tenant"].remedy
    assert not any(each.name.startswith("ignore identity") for each in tried(order(WHOLE)).open)


@pytest.mark.requirement("QUAL-mutate")
def test_the_example_that_is_proposed_kills_the_survivor() -> None:
    survivor = next(each for each in tried(order(SHIPPED)).open if each.name == "ignore identity:tenant")
    proposed = survivor.remedy.removeprefix("examples: {").removesuffix("}")
    again = tried(order(SHIPPED + f"    {proposed}\n"))
    assert survivor.name not in {each.name for each in again.open}
    assert again.wrong == ()


@pytest.mark.requirement("QUAL-mutate-world")
def test_a_field_that_no_clause_judges_survives_with_the_clause_that_would_judge_it() -> None:
    found = next(each for each in tried(order(WHOLE)).open if each.name == "field changed:total")
    assert found.remedy == "ensure: before == null || authoritative.total == before.total"
    clause = f"ensure: {{status: authoritative.status == requested.status, total: {found.remedy[len('ensure: ') :]}}}"
    base = ORDER.replace("    ensure:\n      status: authoritative.status == requested.status\n", "")
    again = tried(order(WHOLE, clause, base=base))
    assert "field changed:total" not in {each.name for each in again.survivors}


@pytest.mark.requirement("QUAL-mutate-world")
def test_an_accepted_survivor_needs_a_reason_and_is_no_open_one() -> None:
    free = WHOLE.replace(
        "      expect: verified\n", "      expect: verified\n      free: {total: counted elsewhere}\n", 1
    )
    found = tried(order(free))
    accepted = {each.name: each.accepted for each in found.survivors}
    assert accepted["field changed:total"] == "counted elsewhere"
    assert found.open == ()
    assert found.standing is Standing.PASSED


@pytest.mark.requirement("QUAL-mutate")
def test_a_reason_for_a_mutant_that_is_gone_is_told() -> None:
    found = tried(order(WHOLE, 'survivors: {"drop:gone": "no more"}'))
    assert found.unused == ("drop:gone",)


@pytest.mark.requirement("QUAL-mutate")
def test_nothing_is_mutated_while_an_example_is_wrong() -> None:
    found = tried(order(SHIPPED + "    wrong: {like: it is shipped, expect: refuted}\n"))
    assert found.standing is Standing.FAILED
    assert [each.example.name for each in found.wrong] == ["wrong"]
    assert found.killed == {}


@pytest.mark.requirement("QUAL-mutate")
def test_without_examples_and_history_the_result_is_undetermined() -> None:
    assert tried(order("")).standing is Standing.UNDETERMINED


LYING = """
apiVersion: readback/v1
kind: Contracts
metadata: {{name: orders, version: 1.0.0}}
contracts:
  set_status:
    kind: set
    side_effect: low_risk_internal
    target: order/{{requested.id}}
    arguments: {{id: string, status: string, note: string}}
    execute:
      sql: {{database: orders.db, statement: "{statement}"}}
    readers:
      - sql: {{database: orders.db, query: "select * from orders where id = {{requested.id}}"}}
    identity: {{tenant: authoritative.tenant, target: authoritative.id}}
    ensure:
      status: authoritative.status == requested.status
      note: authoritative.note == requested.note
    within: 300ms
"""
HONEST = "update orders set status = {requested.status}, note = {requested.note} where id = {requested.id}"
FORGETS = "update orders set status = {requested.status} where id = {requested.id}"


def recorded(folder: Path) -> str:
    """A ledger with verified actions, and one whose tool forgot the note."""
    with sqlite3.connect(folder / "orders.db") as db:
        db.execute("create table orders (id text primary key, tenant text, status text, note text)")
        db.executemany("insert into orders values (?, 'acme', 'open', '')", [(f"o{n}",) for n in range(3)])
    url = f"sqlite:///{folder / 'ledger.db'}"
    for statement, ids in ((HONEST, ("o0", "o1")), (FORGETS, ("o2",))):
        file = written(folder / "orders.yaml", LYING.format(statement=statement))
        actions = contract_files(str(file))
        with Readback.open(url, tenant="acme", principal="agent:ops") as rb:
            for each in ids:
                rb.run(actions["set_status"](id=each, status="shipped", note="by air"))
    return url


@pytest.mark.requirement("QUAL-mutate-history")
def test_recorded_actions_kill_the_mutants_that_would_have_judged_otherwise(tmp_path: Path) -> None:
    url = recorded(tmp_path)
    file = tmp_path / "orders.yaml"
    done = CliRunner().invoke(main, ["contracts", "test", "--mutate", str(file), "--history", url, "--json"])
    found = json.loads(done.stdout)["contracts"][0]
    assert found["history"] == 3
    survived = {each["name"] for each in found["survivors"]}
    path = url.removeprefix("sqlite:///")  # a path of the ledger is the same, as in `gates --history`
    again = CliRunner().invoke(main, ["contracts", "test", "--mutate", str(file), "--history", path, "--json"])
    assert again.stdout == done.stdout
    assert "drop:note" not in survived, "the action whose tool forgot the note would have been verified"
    assert "ignore identity:tenant" in survived, "no recorded action was of another tenant"
    assert done.exit_code == 1


@pytest.mark.requirement("QUAL-mutate-history")
def test_recorded_actions_with_another_verdict_today_are_counted_and_test_nothing(tmp_path: Path) -> None:
    url = recorded(tmp_path)
    changed = LYING.format(statement=HONEST).replace("== requested.note", "!= requested.note")
    file = written(tmp_path / "changed.yaml", changed)
    done = CliRunner().invoke(main, ["contracts", "test", "--mutate", str(file), "--history", url, "--json"])
    found = json.loads(done.stdout)["contracts"][0]
    assert (found["history"], found["unlike"], found["standing"]) == (0, 3, "undetermined")
    assert done.exit_code == 3


@pytest.mark.requirement("QUAL-mutate-packs")
@pytest.mark.parametrize("name", PACKS)
def test_the_examples_of_each_pack_kill_every_mutant_or_say_why_one_survives(name: str) -> None:
    given = "&".join(f"{each.name}=/tmp/readback-pack" for each in PACKS[name].parameters if not each.default)
    loaded = loaded_files([f"pack:{name}?{given}"])
    for each in loaded.sound().contracts.values():
        found = run_trial(each.plan, each.examples, bootstrap.expression_mutants, accepted=each.survivors)
        assert found.standing is Standing.PASSED, f"{each.name}: {found.wrong or found.open}"
        assert found.unused == ()
        assert sum(found.killed.values()) >= 10


@pytest.mark.requirement("QUAL-mutate")
def test_the_command_names_each_survivor_with_its_remedy(tmp_path: Path) -> None:
    file = written(tmp_path / "orders.yaml", order(WHOLE))
    done = CliRunner().invoke(main, shlex.split(f"contracts test --mutate {file}"))
    assert done.exit_code == 1
    assert "survived: world: field changed:total (example 'it is shipped')" in done.stdout
    assert "would kill it: ensure: before == null || authoritative.total == before.total" in done.stdout
    done = CliRunner().invoke(main, shlex.split(f"contracts test --history x {file}"))
    assert done.exit_code == 2
