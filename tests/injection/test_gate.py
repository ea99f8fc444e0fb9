"""The failure-injection gate: findings by contract and fault, from modules and worlds files, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback.assurance.drills.failure_injection import failure_injection
from readback.assurance.drills.worlds import WorldsFileError, load_worlds, read_worlds
from readback.assurance.gate_input import GateInput, VerificationLogic
from readback.assurance.results import NOT_RUN, Standing
from readback.cli.cli import main
from readback.contracts.registry import Registry
from readback.testing import Fault, inject
from readback.testing.faults.fault import INJECTED
from tests.injection import shop

WORLD = """
apiVersion: readback/v1
kind: Worlds
worlds:
  ship:
    arguments: {item: o-17}
    before: {id: o-17, tenant: "{tenant}", author: someone, stamp: "", status: open, invoice: none}
    after: {id: o-17, tenant: "{tenant}", author: "{principal}", stamp: "{stamp}", status: shipped, invoice: sent}
"""


def examined(*definitions: Any, **worlds: Any) -> GateInput:
    return GateInput(VerificationLogic(Registry(definitions).load()), worlds=worlds)


@pytest.mark.requirement("INJECT-gate")
def test_sound_contracts_with_worlds_pass_and_their_reversals_need_no_world() -> None:
    result = failure_injection(examined(*shop.ACTIONS, **shop.WORLDS))
    assert result.standing is Standing.PASSED, [
        each for each in result.findings if each.standing is not Standing.PASSED
    ]
    assert result.counts["contracts"] == len(shop.ACTIONS)
    skipped = {name for name in result.counts if name.startswith(NOT_RUN)}
    assert len(skipped) == result.counts["not_applicable"] > 0
    assert result.counts["injections"] == len(result.findings) == len(shop.ACTIONS) * len(INJECTED) - len(skipped)
    assert "undo_create@1" not in {each.contract for each in result.findings}


@pytest.mark.requirement("INJECT-gate", "INJECT-holes")
def test_a_planted_hole_fails_the_gate_by_name_beside_sound_contracts() -> None:
    given = examined(shop.ship, shop.no_find, ship=shop.ship_world, no_find=shop.renamed(shop.create_world, "no_find"))
    result = failure_injection(given)
    assert result.standing is Standing.FAILED
    (failed,) = (each for each in result.findings if each.standing is Standing.FAILED)
    assert (failed.code, failed.contract.partition("@")[0], failed.case) == (
        "inject.duplicate-accepted",
        "no_find",
        "duplicate",
    )


@pytest.mark.requirement("INJECT-gate", "INJECT-undetermined")
def test_a_contract_without_a_world_leaves_the_gate_undetermined() -> None:
    result = failure_injection(examined(shop.ship, shop.create, ship=shop.ship_world))
    assert result.standing is Standing.UNDETERMINED
    assert [each.code for each in result.findings if each.standing is not Standing.PASSED] == ["inject.no-world"]
    assert failure_injection(examined()).standing is Standing.UNDETERMINED, "no contract at all is no pass"


@pytest.mark.requirement("INJECT-worlds")
def test_a_worlds_file_states_a_world(tmp_path: Path) -> None:
    file = tmp_path / "worlds.yaml"
    file.write_text(WORLD)
    result = failure_injection(examined(shop.ship, **read_worlds(str(file))))
    assert result.standing is Standing.PASSED


@pytest.mark.requirement("INJECT-worlds")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Worlds\n", "does not begin with"),
        ("apiVersion: readback/v1\nkind: Worlds\n", "states no worlds"),
        ("apiVersion: readback/v1\nkind: Worlds\nworlds: {ship: {befor: 1}}\n", "unknown key 'befor'"),
        ("apiVersion: readback/v1\nkind: Worlds\nworlds: {ship: {arguments: {}}}\n", "neither `before` nor `after`"),
        ("apiVersion: readback/v1\nkind: Worlds\nworlds: {ship: [1]}\n", "no mapping"),
        ("apiVersion: readback/v1\nkind: Worlds\nworlds: {ship: {after: 1, after: 2}}\n", ":3:"),
        ("apiVersion: [readback/v1\n", "not valid YAML"),
        ("apiVersion: readback/v1\nkind: Worlds\nworlds: {ship: {after: 1, stamps: 3}}\n", "neither true nor false"),
    ],
)
def test_a_malformed_worlds_file_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "worlds.yaml"
    file.write_text(text)
    with pytest.raises(WorldsFileError, match=r"worlds\.yaml") as refused:
        read_worlds(str(file))
    assert said in refused.value.message
    assert (refused.value.code, refused.value.exit_code) == ("input.worlds", 2)


@pytest.mark.requirement("INJECT-worlds")
def test_a_module_holds_worlds_beside_its_actions_and_a_missing_file_is_refused() -> None:
    assert load_worlds([], ["tests.injection.shop"]) == shop.WORLDS
    with pytest.raises(WorldsFileError, match="cannot be read"):
        load_worlds(["/no/such/file.yaml"])


@pytest.mark.requirement("INJECT-gate")
def test_the_command_prints_each_finding_and_ends_with_the_code_of_the_standing() -> None:
    said = CliRunner().invoke(main, ["gates", "inject", "--contracts", "tests.injection.shop", "--json"])
    document = json.loads(said.stdout)
    (gate,) = document["gates"]
    failed = {
        (each["contract"].partition("@")[0], each["code"]) for each in gate["findings"] if each["standing"] == "failed"
    }
    assert failed == set()
    assert said.exit_code == 3, "the contracts with holes have no world in the module"
    without = {each["contract"].partition("@")[0] for each in gate["findings"] if each["code"] == "inject.no-world"}
    assert without == {"no_find", "no_tenant", "half"}


@pytest.mark.requirement("INJECT-worlds", "INJECT-packs")
@pytest.mark.parametrize(
    "pack",
    ["pack:filesystem?root={}", "pack:memory?file={}/m.json", "pack:sqlite?database={}/d.db", "pack:git?repository={}"],
)
def test_every_contract_of_the_shipped_packs_holds_in_the_world_of_its_examples(pack: str, tmp_path: Path) -> None:
    said = CliRunner().invoke(main, ["gates", "inject", "--contracts", pack.format(tmp_path), "--json"])
    (gate,) = json.loads(said.stdout)["gates"]
    assert [each for each in gate["findings"] if each["standing"] != "passed"] == []
    assert said.exit_code == 0
    assert gate["counts"]["held"] >= 8 * gate["counts"]["contracts"]


@pytest.mark.requirement("INJECT-worlds")
def test_a_field_set_to_an_argument_is_a_part_and_two_effect_groups_are_parts() -> None:
    flat = shop.contract(
        "flat",
        "set",
        ensure={
            "status": "authoritative.status == requested.status",
            "amount": "authoritative.amount == requested.amount",
        },
    )
    world = shop.SimulatedWorld(
        "flat",
        {"item": "o-17", "status": "shipped", "amount": 7},
        {**shop.OPEN, "status": "open", "amount": 0},
        {**shop.DONE, "status": "shipped", "amount": 7},
    )
    assert world._part(flat.plan) == {**shop.DONE, "status": "shipped", "amount": 0}
    assert shop.ship_world._part(shop.ship.plan) == {**shop.DONE, "status": "shipped", "invoice": "none"}
    found = inject(flat.plan, world, Fault.PARTIAL_COMMIT)
    assert found.discrepancy == "value_mismatch", found
