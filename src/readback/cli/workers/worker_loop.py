"""A worker behind the command line: signal handling, and progress on stderr."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from readback.canon import ReadbackError
from readback.cli.terminal import note, quoted_name, safe
from readback.cli.workers.resume import name_error
from readback.client.operations.worker import Tally, Watching, Worker
from readback.domain.state import EXIT_VERIFIED
from readback.ports.storage.store import Projection
from readback.views.labels import state_label
from readback.views.outcome_text import exit_of, shown_verdict

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
SAID_MAX_CHARACTERS: Final = 1_000


def watching(*, quiet: bool) -> Watching:
    """`quiet`: report errors only, for --json."""

    def advanced(p: Projection) -> None:
        if not quiet:
            label, verdict = state_label(p.state, standing=exit_of(p) == EXIT_VERIFIED, hold=p.hold), shown_verdict(p)
            words = label if label == verdict else f"{label} ({verdict})"
            note(f"{p.action_id}  {safe(p.contract)} on {quoted_name(p.target)}: {words}")

    def refused(action_id: str, error: ReadbackError) -> None:
        name_error(action_id, error)

    return Watching(_silent if quiet else _said, advanced, refused)


async def stay(worker: Worker, greeting: str, *, quiet: bool) -> Tally:
    """Run until a signal or the worker's own end.

    `greeting` is printed after the signal handlers are installed, so a reader of the greeting may send a signal.
    """
    loop, say = asyncio.get_running_loop(), _silent if quiet else _said

    def signalled() -> None:
        """First signal: start nothing new, and finish actions in progress. Second signal: cancel calls, on record."""
        if not worker.stopping:
            say("Stopping after the actions in progress. Signal again to cancel their calls.")
            worker.stop()
            return
        say("Cancelling the calls in progress. Their effects are unknown until read back.")
        _deaf(loop)  # a third one ends the process where it stands
        worker.cancel()

    def hung_up() -> None:
        """The terminal was closed. SIGHUP may arrive several times and counts as one first signal."""
        if not worker.stopping:
            signalled()

    for number in SIGNALS:
        loop.add_signal_handler(number, signalled)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        loop.add_signal_handler(signal.SIGHUP, hung_up)
    note(greeting)
    try:
        return await worker.stay()
    finally:
        _deaf(loop)


def _deaf(loop: asyncio.AbstractEventLoop) -> None:
    for number in (*SIGNALS, signal.SIGHUP):
        loop.remove_signal_handler(number)


def _said(text: str) -> None:
    note(safe(text, SAID_MAX_CHARACTERS))


def _silent(text: str) -> None:
    """Prints nothing."""
