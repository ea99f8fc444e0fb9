"""The gates of surfaces: run on every installed surface, and each planted fault of a surface has a name."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from readback.assurance.drills.surface_gates import false_success, unknown_state
from readback.assurance.gate_input import GateInput, VerificationLogic
from readback.assurance.results import Standing
from readback.assurance.surfaces import Behaviour, Probe, Told
from readback.cli.cli import main
from readback.cli.gates.surfaces import FRAMEWORKS, Framework, installed_surfaces
from readback.cli.gates.surfaces.http import HttpServer
from readback.cli.gates.surfaces.processes import McpServer
from readback.cli.gates.surfaces.programs import SyncSdk
from readback.domain.outcome.reporting import USER_STATUS
from readback.domain.state import ReportKey
from readback.errors import UsageError

RUN = ("sdk-sync", "sdk-async", "command-line", "kit", "gateway", "http-server", "hooks")


def examined(*surfaces: Any) -> GateInput:
    return GateInput(VerificationLogic({}), surfaces=surfaces)


@pytest.mark.slow
@pytest.mark.requirement("GATE-false-success-guard", "SURFACE-guard")
@pytest.mark.parametrize("name", RUN)
def test_no_installed_surface_tells_completion_before_reconciliation(name: str) -> None:
    (surface,) = (each for each in installed_surfaces() if each.name == name)
    result = false_success(examined(surface))
    assert [(each.code, each.standing) for each in result.findings] == [("guard.held", Standing.PASSED)], (
        result.findings
    )


@pytest.mark.slow
@pytest.mark.requirement("GATE-unknown-state", "SURFACE-unknown")
@pytest.mark.parametrize("name", RUN)
def test_an_unknown_blocks_the_second_mutation_on_each_installed_surface(name: str) -> None:
    (surface,) = (each for each in installed_surfaces() if each.name == name)
    result = unknown_state(examined(surface))
    found = [(each.code, each.standing) for each in result.findings]
    assert found == [("unknown.blocked", Standing.PASSED)], result.findings


class Flattering(SyncSdk):
    """A surface that believes the tool."""

    name = "flattering"

    def ask(self, probe: Probe, slot: str) -> Told:
        told = super().ask(probe, slot)
        return Told(told.words, completed=True)


class Wordy(SyncSdk):
    """A surface without a sign, whose words claim completion."""

    name = "wordy"

    def ask(self, probe: Probe, slot: str) -> Told:
        told = super().ask(probe, slot)
        return Told(USER_STATUS[ReportKey.COMPLETED], told.completed)


class Retrying(SyncSdk):
    """A surface that calls the tool itself where the result is unknown."""

    name = "retrying"

    def ask(self, probe: Probe, slot: str) -> Told:
        told = super().ask(probe, slot)
        if not told.completed:
            with (probe.folder / "calls").open("a") as calls:  # type: ignore[attr-defined]
                calls.write(f"{slot}\n")
        return told


class Silent(SyncSdk):
    """A surface that never tells completion."""

    name = "silent"

    def ask(self, probe: Probe, slot: str) -> Told:
        super().ask(probe, slot)
        return Told("Something happened.", completed=False)


class Broken(SyncSdk):
    """A surface that cannot be run."""

    name = "broken"

    def ask(self, probe: Probe, slot: str) -> Told:
        raise OSError("There is no such program.")


@pytest.mark.requirement("SURFACE-guard")
@pytest.mark.parametrize("surface", [Flattering(), Wordy()], ids=lambda each: each.name)
def test_a_surface_that_believes_the_tool_fails_the_guard(surface: Any) -> None:
    result = false_success(examined(surface, SyncSdk()))
    assert result.standing is Standing.FAILED
    failed = {(each.code, each.case) for each in result.findings if each.standing is Standing.FAILED}
    assert failed == {("guard.outran", surface.name)}


@pytest.mark.requirement("SURFACE-unknown")
def test_a_surface_that_calls_again_fails_the_unknown_state_test() -> None:
    result = unknown_state(examined(Retrying()))
    assert result.standing is Standing.FAILED
    assert "unknown.repeated" in {each.code for each in result.findings}


@pytest.mark.requirement("SURFACE-listed")
def test_a_surface_that_shows_nothing_is_undetermined_and_one_without_its_extra_is_listed() -> None:
    for gate, code in ((false_success, "guard.not-run"), (unknown_state, "unknown.not-run")):
        broken = gate(examined(SyncSdk(), Broken()))
        assert broken.standing is Standing.UNDETERMINED
        assert code in {each.code for each in broken.findings}
    assert [each.code for each in false_success(examined(Silent())).findings] == ["guard.silent"]
    absent = Framework("imagined", "no-such-framework-at-all", _without_a_word)
    listed = false_success(examined(SyncSdk(), absent))
    assert (listed.standing, listed.counts["not_installed"]) == (Standing.PASSED, 1)
    assert listed.counts["not run: framework:imagined"] == 1
    assert {each.case for each in listed.findings} == {SyncSdk().name}, "a surface without a run has no finding"
    assert false_success(examined(absent)).standing is Standing.UNDETERMINED, "no surface was run"
    present = Framework("imagined", "click", _without_a_word)
    shown = false_success(examined(SyncSdk(), present))
    assert (shown.standing, shown.counts["not_installed"]) == (Standing.UNDETERMINED, 0)


async def _without_a_word(kit: object, arguments: object) -> Told:
    raise KeyError("The framework has another shape.")


class FlatteringServer(HttpServer):
    """A server whose answer claims verification."""

    name = "flattering-server"

    def ask(self, probe: Probe, slot: str) -> Told:
        return Told(super().ask(probe, slot).words, completed=True)


@pytest.mark.requirement("SURFACE-guard", "SURFACE-unknown")
def test_a_server_that_believes_the_tool_fails_the_guard_and_reaches_no_unknown_state() -> None:
    result = false_success(examined(FlatteringServer()))
    assert [each.code for each in result.findings] == ["guard.outran"] * 3
    reached = unknown_state(examined(FlatteringServer()))
    assert [each.code for each in reached.findings] == ["unknown.not-reached"]


@pytest.mark.requirement("SURFACE-unknown")
def test_the_probe_of_the_server_reads_and_decides_through_the_api() -> None:
    surface = HttpServer()
    probe = surface.probe()
    try:
        probe.behave(Behaviour.BLIND)
        assert '"verified": false' in surface.ask(probe, "s").words
        assert not surface.settled(probe, "s").completed
        probe.behave(Behaviour.HONEST)
        probe.wake()
        assert surface.settled(probe, "s").completed
        assert probe.calls("s") == 1
        with pytest.raises(UsageError, match="review"):
            probe.decide_not_done("s")
    finally:
        surface.close(probe)


@pytest.mark.requirement("SURFACE-listed")
@pytest.mark.parametrize(("surface", "module"), [(HttpServer(), "uvicorn"), (McpServer(), "mcp_types")])
def test_a_surface_with_a_part_of_its_extra_is_not_run(
    surface: Any, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert surface.missing() == ""
    monkeypatch.setitem(sys.modules, module, None)
    assert "extra" in surface.missing()
    assert false_success(examined(surface)).counts[f"not run: {surface.name}"] == 1


@pytest.mark.slow
@pytest.mark.requirement("SURFACE-listed")
def test_the_command_lists_every_surface_of_the_release() -> None:
    said = CliRunner().invoke(main, ["gates", "false-success", "--json"])
    (gate,) = json.loads(said.stdout)["gates"]
    listed = {each["case"] for each in gate["findings"]}
    listed |= {name.removeprefix("not run: ") for name in gate["counts"] if name.startswith("not run: ")}
    assert listed == {*RUN, *(f"framework:{each}" for each in FRAMEWORKS)}
    assert said.exit_code in (0, 3)
    assert (said.exit_code == 0) == all(each["standing"] == "passed" for each in gate["findings"])
