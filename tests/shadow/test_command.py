"""`readback shadow` and `readback mcp --shadow`, as a person types them."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from readback import Readback
from readback.cli.agents.mcp import reading_names
from readback.cli.cli import main
from readback.errors import SettingsError
from tests.shadow.given import Lamp, allow, switch_of
from tests.shadow.notes import Desk, at_a_desk

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")


@server.tool()
def write_note(name: str, text: str) -> str:
    return "Saved."


@server.tool()
def read_note(name: str) -> str:
    return ""


@server.tool()
def ring_bell() -> str:
    return ""


if __name__ == "__main__":
    server.run("stdio")
"""


def readback(*words: str) -> Result:
    return CliRunner().invoke(main, [*words], prog_name="readback")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    allow(monkeypatch, tmp_path, 'shadow = ["*"]\n')
    place = tmp_path / "servers"
    place.mkdir()
    (place / "notes.py").write_text(SERVER)
    return tmp_path


def command(folder: Path) -> tuple[str, ...]:
    return ("--", sys.executable, str(folder / "servers" / "notes.py"))


@pytest.mark.requirement("SHADOW-command")
def test_pairs_are_proposed_and_confirmed_into_a_file(folder: Path) -> None:
    told = readback("shadow", "pairs", *command(folder))
    assert (told.exit_code, told.stdout) == (0, "write_note <- read_note with the same name\n")
    assert "Without a reading tool: ring_bell." in told.stderr
    assert "readback mcp --shadow --reads read_note -- COMMAND" in told.stderr
    data = json.loads(readback("shadow", "pairs", "--json", *command(folder)).stdout)
    assert data["reads"] == ["read_note"]
    unconfirmed = readback("shadow", "pairs", "--out", "reads.txt", *command(folder))
    assert unconfirmed.exit_code == 2
    assert not Path("reads.txt").exists()
    assert readback("shadow", "pairs", "--out", "reads.txt", "--yes", *command(folder)).exit_code == 0
    assert reading_names(["@reads.txt", "a, b=c"]) == ("read_note", "a", "b=c")
    assert readback("shadow", "pairs", "--out", "reads.txt", "--yes", *command(folder)).exit_code == 2  # never over it


@pytest.mark.requirement("SHADOW-command")
def test_faulty_command_lines_are_errors_of_their_own(folder: Path) -> None:
    assert readback("shadow", "pairs").exit_code == 2
    assert "no such tool" in (told := readback("mcp", "--shadow", "--reads", "raed_note", *command(folder))).stderr or (
        "no server has such a tool. Did you mean 'read_note'?" in told.stderr
    )
    assert told.exit_code != 0
    assert "Next: Add --shadow." in readback("mcp", "--reads", "read_note", *command(folder)).stderr
    assert "records none" in readback("mcp", "--shadow", "--ungoverned", "pass", *command(folder)).stderr
    assert "--actions has no server" in readback("mcp", "--shadow", "--actions", "json").stderr
    with pytest.raises(SettingsError, match="cannot be read"):
        reading_names(["@missing.txt"])


@pytest.mark.requirement("SHADOW-keeps-checks")
def test_a_server_with_access_to_readbacks_own_files_is_refused(folder: Path) -> None:
    told = readback("mcp", "--shadow", "--ledger-url", f"sqlite:///{folder}/readback.db", *command(folder), str(folder))
    assert told.exit_code != 0
    assert "Readback's own" in told.stderr


@pytest.mark.requirement("SHADOW-command")
def test_the_report_has_three_forms_and_an_exit_code(folder: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.write("milk", "Buy milk")
        await desk.write("bank", "The lost bank")

    at_a_desk(folder, work)
    told = readback("shadow", "report")
    assert told.exit_code == 1
    assert "1 claimed successes contradicted in 2 watched calls." in told.stdout
    data = json.loads(readback("shadow", "report", "--json").stdout)
    assert (data["schema"], data["contradicted"]) == (1, 1)
    [tool] = data["tools"]
    assert (tool["calls"], tool["claimed_successes"], tool["changes_seen"], tool["nothing_changed"]) == (2, 2, 1, 1)
    assert data["calls"][0]["result"] == "contradicted"
    assert readback("shadow", "report", "--format", "html", "--out", "page.html").exit_code == 1
    made = Path("page.html")
    assert "The lost bank" in made.read_text()
    assert stat.S_IMODE(made.stat().st_mode) == 0o600  # it quotes what tools answered


@pytest.mark.requirement("SHADOW-command")
def test_calls_of_which_none_can_be_judged_are_undetermined(folder: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.call("ring_bell")

    at_a_desk(folder, work)
    assert readback("shadow", "report").exit_code == 3


@pytest.mark.requirement("SHADOW-command")
def test_show_and_list_tell_a_shadow_action_apart() -> None:
    with Readback.open("sqlite:///readback.db", shadow=True) as rb:
        told = rb.run(switch_of(Lamp())(True))
    shown = readback("show", told.id)
    assert "shadow mode: enforced, the verdict would have been verified" in shown.stdout  # fits any terminal
    shown = readback("show", "-v", told.id)
    assert "In enforced mode the text would have been: The action completed successfully." in " ".join(
        shown.stdout.split()
    )
    data = json.loads(readback("show", told.id, "--json").stdout)["outcome"]
    assert (data["mode"], data["verified"], data["shadow"]["would_verdict"]) == ("shadow", False, "verified")
    [row] = json.loads(readback("list", "--json").stdout)
    assert (row["mode"], row["verdict"]) == ("shadow", "undetermined")
    assert "shadow" in readback("list").stdout


@pytest.mark.requirement("SHADOW-command")
def test_a_ledger_without_watched_calls_is_undetermined(folder: Path) -> None:
    with Readback.open(f"sqlite:///{folder}/readback.db", tenant="default"):
        pass
    told = readback("shadow", "report", "--url", f"sqlite:///{folder}/readback.db")
    assert (told.exit_code, "0 watched calls" in told.stdout) == (3, True)
