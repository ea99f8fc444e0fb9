"""The installed command: the command line in `cli`, and a short path for plain hook calls.

A coding agent starts two processes for each tool call. After a hook's answer is written and the ledger is closed, the
process exits at once and skips the interpreter's shutdown.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Final, NoReturn

GIVE_UP_SECONDS: Final = 50
"""Time limit of the hook before a tool; then the hook blocks the tool. The limit is below the timeout that `init`
writes into the agent's settings, because an agent runs the tool after a hook timeout.
"""


def main() -> NoReturn:
    """Run `sys.argv` and exit with the exit code."""
    if sys.argv[1:2] == ["hook"]:
        code = _hook(sys.argv[2:])
        if code is not None:
            os._exit(code)
    from readback.cli.cli import main as whole

    sys.exit(whole())


def _hook(arguments: list[str]) -> int | None:
    """Run a plain hook call. Return None if the full command line must parse the arguments, such as for help."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if arguments[:1] == ["pre"]:
        _hold_back_in_time()
    from readback.cli.agents.hook_command import plain

    code = plain(arguments)
    with contextlib.suppress(
        OSError, ValueError
    ):  # the reader may be gone; the answer was flushed before the exit code
        sys.stderr.flush()
    return code


def _hold_back_in_time() -> None:
    """End the process if no decision was made in time. An exception could be caught by mistake, so the process exits
    directly. A durable attempt of such a process was not handed out, and is read back.
    """
    if not hasattr(signal, "setitimer"):
        return

    def give_up(number: int, frame: object) -> None:
        with contextlib.suppress(OSError):
            os.write(2, f"readback: Nothing was decided within {GIVE_UP_SECONDS} s.\n".encode())
        os._exit(2)

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, GIVE_UP_SECONDS)
