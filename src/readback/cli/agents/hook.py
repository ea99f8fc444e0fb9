"""`readback hook`: run by a coding agent before and after each tool, and at the end of a turn.

Only the command line; `hook_command` does the work.
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


_shadow = click.option(
    "--shadow",
    is_flag=True,
    help="Report nothing to the agent: only judge the contracts that the settings allow in shadow mode.",
)


@click.group("hook")
def hook() -> None:
    """Answer hooks of coding agents in the JSON of Claude Code. `readback init --claude-code` installs the hooks.

    \b
    Exit codes follow the hook protocol: 0 with an answer on stdout; 2 blocks the
    tool, with the reason on stderr; 1 (stop only) if the turn ends although
    nothing could be checked.
    """


@hook.command("pre")
@_file
@_shadow
@options.ledger
def pre(hook_file: str | None, shadow: bool, url: str | None, tenant: str | None, principal: str | None) -> int:
    """Before a tool: record the attempt durably, or deny the call (PreToolUse)."""
    return hook_command.pre(hook_file, url, tenant, principal, shadow=shadow)


@hook.command("post")
@_file
@_shadow
@options.ledger
def post(hook_file: str | None, shadow: bool, url: str | None, tenant: str | None, principal: str | None) -> int:
    """After a tool: read back the effect and report to the model (PostToolUse, PostToolUseFailure)."""
    return hook_command.post(hook_file, url, tenant, principal, shadow=shadow)


@hook.command("stop")
@_file
@_shadow
@options.ledger
def stop(hook_file: str | None, shadow: bool, url: str | None, tenant: str | None, principal: str | None) -> int:
    """At the end of a turn: continue the turn once if an action is not verified (Stop, SubagentStop)."""
    return hook_command.stop(hook_file, url, tenant, principal, shadow=shadow)
