"""The installed command: everything is the command line's (`cli`), but the plain form of a hook, which goes by itself.

A coding agent starts two processes for each call of a tool. When the work of a hook ends, its answer is out and its
ledger closed: the process ends at once then, without the interpreter taking down what it loaded.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Final, NoReturn

GIVE_UP_SECONDS: Final = 50
"""How long the hook before a tool may take until it holds the tool back by itself: less than what `init` gives it in
the agent's settings, since an agent that gives up on a hook lets the tool run.
"""


def main() -> NoReturn:
    """Runs `sys.argv`, and ends with its exit code."""
    if sys.argv[1:2] == ["hook"]:
        code = _hook(sys.argv[2:])
        if code is not None:
            os._exit(code)
    from readback.cli.cli import main as whole

    sys.exit(whole())


def _hook(arguments: list[str]) -> int | None:
    """None where the command line has to look at it: for help, and for what is no plain form."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if arguments[:1] == ["pre"]:
        _hold_back_in_time()
    from readback.cli.agents.hook_command import plain

    code = plain(arguments)
    with contextlib.suppress(OSError, ValueError):  # nobody reads it any more; an answer was flushed before its code
        sys.stderr.flush()
    return code


def _hold_back_in_time() -> None:
    """Ends the process where nothing was decided in time, whatever it is in the middle of: nobody may take what is
    raised for something else. An attempt that is durable by then was not handed out, and is read.
    """
    if not hasattr(signal, "setitimer"):
        return

    def give_up(number: int, frame: object) -> None:
        with contextlib.suppress(OSError):
            os.write(2, f"readback: Nothing was decided within {GIVE_UP_SECONDS} s.\n".encode())
        os._exit(2)

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, GIVE_UP_SECONDS)
