"""Examples in contract files: what is read, what is refused with its place, and what the engine says of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from readback.cli.cli import main
from readback.contracts.judging import judged
from readback.domain.verdict import Verdict
from tests.contract_files.writing import faults, written
from tests.quality.files import SHIPPED, WHOLE, compiled, order

CREATED = """
    kind: append
    side_effect: low_risk_internal
    target: payments/{requested.order_id}
    arguments: {order_id: string, cents: integer}
    execute: {command: {argv: ["true"]}}
    readers:
      - sql: {database: orders.db, query: "select * from payments where order_id = {requested.order_id}", stamp: stamp}
    find:
      sql: {database: orders.db, query: "select * from payments where stamp = {scope.stamp}", stamp: stamp}
    identity: {tenant: authoritative.tenant, target: authoritative.order_id, stamp: authoritative.stamp}
    ensure:
      amount: authoritative.cents == requested.cents
    within: 2s
"""
PAID = """
    it is paid:
      requested: {order_id: o1, cents: 300}
      before: null
      state: {order_id: o1, tenant: default, cents: 300, stamp: "{scope.stamp}"}
      expect: verified
"""


@pytest.mark.requirement("QUAL-examples")
def test_each_example_gets_the_verdict_of_the_engines_own_rules() -> None:
    contract = compiled(order(WHOLE))
    found = {one.name: judged(contract.plan, one) for one in contract.examples}
    assert [each.sound for each in found.values()] == [True] * 4
    assert found["it is not"].result.verdict is Verdict.REFUTED
    assert found["another tenant"].result.verdict is Verdict.UNDETERMINED


@pytest.mark.requirement("QUAL-examples")
def test_a_doubled_effect_is_an_example_of_the_search() -> None:
    twice = "twice: {like: it is paid, found: [%s, %s], expect: refuted, discrepancy: duplicate_side_effect}" % (
        ("{order_id: o1, tenant: default, cents: 300, stamp: '{scope.stamp}'}",) * 2
    )
    contract = compiled(order(PAID + f"    {twice}\n", base=CREATED))
    assert [judged(contract.plan, one).sound for one in contract.examples] == [True, True]


@pytest.mark.requirement("QUAL-examples")
def test_an_effect_without_our_stamp_is_not_ours() -> None:
    text = order(
        PAID + "    a guest: {like: it is paid, stamped: false, but: {state.stamp: rb-other}, expect: undetermined}\n",
        base=CREATED,
    )
    contract = compiled(text)
    said = judged(contract.plan, contract.examples[1])
    assert said.result.verdict is not Verdict.VERIFIED


@pytest.mark.requirement("QUAL-examples")
def test_examples_leave_the_contracts_hash_alone() -> None:
    assert compiled(order("")).plan.contract.hash == compiled(order(WHOLE)).plan.contract.hash


BAD = [
    ("x: {state: {id: o1}}", "An example needs 'expect'."),
    ("x: {expect: verified}", "An example needs 'state'"),
    ("x: {expect: perhaps, state: null, requested: {order_id: o1, status: s}}", "Must be one of verified, refuted"),
    ("x: {expect: verified, state: {statuss: a}, requested: {order_id: o1, status: s}}", "Did you mean 'status'?"),
    ("x: {expect: verified, state: null, requested: {order_id: o1}}", "status"),
    ("x: {expect: verified, state: null, requested: {order_id: 7, status: s}}", "order_id"),
    ("x: {expect: verified, sate: null}", "An example has no such key"),
    ("x: {expect: verified, like: y}", "No sound example above has the name 'y'."),
    ("x: {expect: verified, state: null, found: []}", "in a contract with `find`"),
    ("x: {expect: verified, state: null, complete: maybe}", "Must be true or false"),
    ("x: {expect: verified, state: null, readings: {nobody_there: {}}}", "There is no reader"),
    ("x: {expect: refuted, state: null, but: {state.id: a}}", "Add `like`."),
    ("x: 7", "An example must be a mapping"),
]


@pytest.mark.requirement("QUAL-examples-bad")
@pytest.mark.parametrize(("example", "said"), BAD, ids=[said for _, said in BAD])
def test_an_unsound_example_is_a_fault_of_the_file_with_its_place(example: str, said: str) -> None:
    found = faults(order(f"    {example}\n"))
    assert found
    assert any(said in line for line in found)
    assert all(line.split(" ")[1].startswith("contracts.one.examples.x") for line in found)
    assert all(not line.startswith(("0:", "1:")) for line in found)


@pytest.mark.requirement("QUAL-examples")
def test_check_judges_the_examples_and_names_the_wrong_one_with_its_line(tmp_path: Path) -> None:
    text = order(SHIPPED + "    a slip: {like: it is shipped, expect: refuted}\n")
    file = written(tmp_path / "orders.yaml", text)
    done = CliRunner().invoke(main, ["contracts", "check", "--offline", str(file)])
    assert done.exit_code == 1
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "a slip" in each)
    assert f"example 'a slip' at {file}:{line}:" in done.stdout
    assert "expected refuted, got verified" in done.stdout
    sound = written(tmp_path / "sound.yaml", order(WHOLE))
    done = CliRunner().invoke(main, ["contracts", "check", "--offline", str(sound)])
    assert (done.exit_code, "ok: one: 4 examples" in done.stdout) == (0, True)


@pytest.mark.requirement("QUAL-examples")
def test_a_contract_without_examples_was_not_tested(tmp_path: Path) -> None:
    file = written(tmp_path / "orders.yaml", order(""))
    assert CliRunner().invoke(main, ["contracts", "test", str(file)]).exit_code == 3
    assert CliRunner().invoke(main, ["contracts", "test", "--mutate", str(file)]).exit_code == 3
    assert CliRunner().invoke(main, ["contracts", "check", "--offline", str(file)]).exit_code == 0
