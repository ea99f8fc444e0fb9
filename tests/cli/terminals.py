"""A person, or an agent, at a terminal of their own: commands as processes, with or without a controlling terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cli.conftest import Answer
from tests.workers import forks

PATIENCE_SECONDS = 60.0
READBACK = str(Path(sys.executable).with_name("readback"))


@dataclass(frozen=True, slots=True)
class Spoken:
    """How a command ended, and all that stood on the terminal."""

    answer: Answer
    screen: str


def at_terminal(
    args: Sequence[str], folder: Path, environment: Mapping[str, str], says: Sequence[tuple[str, str]]
) -> Spoken:
    """A command with a terminal. `says`: what is typed once something stands on the screen, in this order."""
    master, slave = pty.openpty()
    name = os.ttyname(slave)
    process = forks.start(
        [READBACK, *args],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        terminal=name,
    )
    try:
        screen, left = "", list(says)
        while process.poll() is None or select.select([master], [], [], 0)[0]:
            if select.select([master], [], [], 0.02)[0]:
                screen += os.read(master, 65_536).decode(errors="replace")
            if left and left[0][0] in screen:
                os.write(master, (left.pop(0)[1] + "\n").encode())
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return Spoken(Answer(process.returncode, out, err), screen.replace("\r\n", "\n"))
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)


def without_terminal(
    args: Sequence[str], folder: Path, environment: Mapping[str, str], typed: str = "", program: str = READBACK
) -> Answer:
    """A command without any, as an agent's shell starts it; `typed` is piped in."""
    done = forks.run(
        [program, *args],
        cwd=folder,
        env=dict(environment),
        said=typed,
        start_new_session=True,
        timeout=PATIENCE_SECONDS,
    )
    return Answer(done.returncode, done.stdout, done.stderr)
