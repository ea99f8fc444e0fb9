"""The installed command: everything is the command line's (`cli`), but the plain form of a hook, which goes by itself.

A coding agent starts two processes for each call of a tool. When the work of a hook ends, its answer is out and its
ledger closed: the process ends at once then, without the interpreter taking down what it loaded.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs `sys.argv`, and ends with its exit code."""
    if sys.argv[1:2] == ["hook"]:
        code = _hook(sys.argv[2:])
        if code is not None:
            os._exit(code)
    from readback.commands.cli import main as whole

    sys.exit(whole())


def _hook(arguments: list[str]) -> int | None:
    """None where the command line has to look at it: for help, and for what is no plain form."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    from readback.commands.hooking import plain

    code = plain(arguments)
    with contextlib.suppress(OSError, ValueError):  # nobody reads it any more; an answer was flushed before its code
        sys.stderr.flush()
    return code
