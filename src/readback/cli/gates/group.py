"""`readback gates`: the group with its commands, each imported on call."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

COMMANDS: Final = {
    "check": ("readback.cli.gates.check:check", "Run all gates and write the reports."),
    "replay": ("readback.cli.gates.check:replay", "Judge recorded actions again (gate 1)."),
    "diff": ("readback.cli.gates.check:diff", "Show changed predicates and affected actions (gate 2)."),
    "capture": ("readback.cli.gates.capture:capture", "Write a corpus of recorded actions from a ledger."),
    "promote": ("readback.cli.gates.promote:promote", "Decide whether these contracts may be released."),
    "report-schema": ("readback.cli.gates.promote:report_schema", "Print the JSON Schema of the result."),
}
"""The module and the help line of each command. `--help` imports no command."""


class Gates(click.Group):
    """A group that imports a command on call."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group("gates", cls=Gates)
def gates() -> None:
    """Check new contracts, recovery tables and releases before promotion.

    Verification logic is production logic: a looser predicate lets false success through. Each gate passes, fails, or
    stays undetermined. Undetermined is never a pass.

    \b
    Exit code 0: passed; 1: failed; 2: bad input; 3: undetermined; 5: a contract
    or the verifier has a fault.
    """
