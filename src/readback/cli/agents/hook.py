"""`readback hook`: what a coding agent starts before and after its tools, and when its turn ends.

The command line alone; `hooking` does what it says.
"""

from __future__ import annotations

import click

from readback.cli import options
from readback.cli.agents import hook_command

_file = click.option(
    "--hooks",
    "hook_file",
    metavar="FILE",
    help=f"The hook file; {hook_command.FILE} of the project where it is not named.",
)


@click.group("hook")
def hook() -> None:
    """Hooks for coding agents that speak the JSON of Claude Code's; `readback init --claude-code` sets them up.

    \b
    Exit codes are those of hooks, and no others: 0 with an answer on stdout;
    2 where the tool is held back, with the reason on stderr; 1 (stop alone)
    where the turn ends although nothing could be looked at.
    """


@hook.command("pre")
@_file
@options.ledger
def pre(hook_file: str | None, url: str | None, tenant: str | None, principal: str | None) -> int:
    """Before a tool: makes the attempt durable, or denies it (PreToolUse)."""
    return hook_command.pre(hook_file, url, tenant, principal)


@hook.command("post")
@_file
@options.ledger
def post(hook_file: str | None, url: str | None, tenant: str | None, principal: str | None) -> int:
    """After a tool: reads back what it did, and tells the model (PostToolUse, PostToolUseFailure)."""
    return hook_command.post(hook_file, url, tenant, principal)


@hook.command("stop")
@_file
@options.ledger
def stop(hook_file: str | None, url: str | None, tenant: str | None, principal: str | None) -> int:
    """At the end of a turn: keeps it on once while something is not verified (Stop, SubagentStop)."""
    return hook_command.stop(hook_file, url, tenant, principal)
