"""A worker behind the command line: signals stop it, and what it does is said on stderr."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from readback.canon import ReadbackError
from readback.cli.actions.outcome_text import plain, shown_verdict
from readback.cli.terminal import note, quoted_name, safe
from readback.cli.workers.resume import name_error
from readback.client.operations.worker import Tally, Watching, Worker
from readback.ports.storage.store import Projection

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
SAID_MAX_CHARACTERS: Final = 1_000


def watching(*, quiet: bool) -> Watching:
    """`quiet`: with --json only errors are told on the way."""

    def advanced(p: Projection) -> None:
        if not quiet:
            note(f"{p.action_id}  {safe(p.contract)} on {quoted_name(p.target)}: {plain(p.state)} ({shown_verdict(p)})")

    def refused(action_id: str, error: ReadbackError) -> None:
        name_error(action_id, error)

    return Watching(_silent if quiet else _said, advanced, refused)


async def stay(worker: Worker, greeting: str, *, quiet: bool) -> Tally:
    """Until a signal, or until the worker ends by itself.

    `greeting` is said once signals are heard: whoever waits for it may send one.
    """
    loop, say = asyncio.get_running_loop(), _silent if quiet else _said

    def signalled() -> None:
        """First: nothing new, and what is in hand is finished. Again: calls in hand are cancelled, on record."""
        if not worker.stopping:
            say("Stopping: what is in hand is finished first. Once more to cancel it.")
            worker.stop()
            return
        say("Cancelling what is in hand; its effects are unknown until they are read back.")
        _deaf(loop)  # a third one ends the process where it stands
        worker.cancel()

    def hung_up() -> None:
        """The terminal is closed, of which one may be told more than once: as the first of the others."""
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
    """Nothing is said."""
