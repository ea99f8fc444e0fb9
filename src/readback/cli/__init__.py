"""Public: the command line. Commands read flags and print text, and decide nothing.

`COMMANDS` names each command with its module and its help line. `group` is the click group of all commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readback.cli.cli import COMMANDS
    from readback.cli.cli import main as group

__all__ = ["COMMANDS", "group"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from readback.cli import cli

    return cli.COMMANDS if name == "COMMANDS" else cli.main
