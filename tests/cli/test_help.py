"""The help of every command, to the letter, and quickly: what a user reads is what was meant.

After an intended change: `python -m tests.cli.test_help` writes the texts anew; a person then
reads the difference.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from readback.cli.cli import COMMANDS, main
from tests.golden.rewrite import rewrite

GOLDEN = Path(__file__).parent.parent / "golden" / "help"
PAGES = {
    "readback": (),
    "ledger-verify": ("ledger", "verify"),
    "ledger-checkpoint": ("ledger", "checkpoint"),
    "ledger-prove": ("ledger", "prove"),
    "ledger-verify-proof": ("ledger", "verify-proof"),
    "ledger-export": ("ledger", "export"),
    "ledger-verify-export": ("ledger", "verify-export"),
    "ledger-hold": ("ledger", "hold"),
    "ledger-shards": ("ledger", "shards"),
    "ledger-shards-take": ("ledger", "shards", "take"),
    "ledger-shards-prove": ("ledger", "shards", "prove"),
    "ledger-shards-verify-proof": ("ledger", "shards", "verify-proof"),
    "ledger-keys": ("ledger", "keys"),
    "ledger-keys-create": ("ledger", "keys", "create"),
    "contracts-check": ("contracts", "check"),
    "contracts-draft": ("contracts", "draft"),
    "contracts-list": ("contracts", "list"),
    "contracts-show": ("contracts", "show"),
    "contracts-schema": ("contracts", "schema"),
    "hook-pre": ("hook", "pre"),
    "hook-post": ("hook", "post"),
    "hook-stop": ("hook", "stop"),
    "drill-key": ("drill", "key"),
    "keys-create": ("keys", "create"),
    "keys-list": ("keys", "list"),
    "keys-show": ("keys", "show"),
    "review-list": ("review", "list"),
    "review-show": ("review", "show"),
    "review-resolve": ("review", "resolve"),
    "claims-list": ("claims", "list"),
    "claims-check": ("claims", "check"),
    "claims-retract": ("claims", "retract"),
    "claims-reinstate": ("claims", "reinstate"),
    "freezes-lift": ("freezes", "lift"),
    "incidents-list": ("incidents", "list"),
    "trace-verify": ("trace", "verify"),
    "report-check": ("report", "check"),
    "report-guard": ("report", "guard"),
    "report-cite": ("report", "cite"),
    "decisions-check": ("decisions", "check"),
    "decisions-run": ("decisions", "run"),
    "decisions-seal": ("decisions", "seal"),
    "decisions-show": ("decisions", "show"),
    "keys-sign": ("keys", "sign"),
    **{name: (name,) for name in COMMANDS},
}


def page(args: tuple[str, ...]) -> str:
    result = CliRunner().invoke(main, [*args, "--help"], terminal_width=88)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("name", PAGES)
def test_the_help_is_as_it_was_last_read(name: str) -> None:
    assert page(PAGES[name]) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_every_page_belongs_to_a_command() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(PAGES)


def test_every_command_bears_its_own_name_and_help() -> None:
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str()


def test_every_command_that_answers_has_json() -> None:
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        if isinstance(command, click.Group):
            continue
        assert command is not None
        assert "--json" in {option for each in command.params for option in each.opts}, name


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys\nfrom readback.cli.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(*(m for m in sys.modules if m.startswith('readback')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "readback.cli.cli" in loaded
    assert loaded <= {"readback", "readback.cli", "readback.cli.cli", "readback.cli.lazy_group"}


def test_the_version_is_said_in_both_ways() -> None:
    from readback import __version__

    assert CliRunner().invoke(main, ["--version"]).stdout == f"readback {__version__}\n"
    assert f'"readback": "{__version__}"' in CliRunner().invoke(main, ["version", "--json"]).stdout


if __name__ == "__main__":
    TEXTS = {GOLDEN / f"{name}.txt": page(args) for name, args in PAGES.items()}
    raise SystemExit(rewrite(TEXTS, sys.argv[1:], owned="*.txt"))


def test_the_package_is_the_command_where_its_script_is_not_on_the_path() -> None:
    done = subprocess.run([sys.executable, "-m", "readback", "lst"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Did you mean 'list'?" in done.stderr
    assert done.stderr.startswith("Usage: readback ")
