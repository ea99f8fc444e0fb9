"""The ledger's server as a drill has it: ended as a crash ends it, and started again."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from readback.testing.postgres_server import PostgresPair

GONE_TIMEOUT_S = 20.0


def crash(server: PostgresPair) -> None:
    """kill -9 of the primary and all its processes at once, and a start from what is on the disk.

    All of them: a process that outlives its postmaster would go on writing beside the next one.
    """
    (data,) = [path for path in server.home.iterdir() if path.name == "first"]
    master = int((data / "postmaster.pid").read_text().split()[0])
    children = _children(master)
    os.kill(master, signal.SIGSTOP)  # it starts no other one meanwhile
    for pid in (*children, *_children(master)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.kill()
    give_up = time.monotonic() + GONE_TIMEOUT_S
    while any(Path(f"/proc/{pid}").exists() and not _is_zombie(pid) for pid in children):
        if time.monotonic() > give_up:
            raise TimeoutError("processes of the server outlive it")
        time.sleep(0.005)
    server.start_again()


def _children(master: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if path.read_text().rpartition(")")[2].split()[1] == str(master):
                found.append(int(path.parent.name))
    return found


def _is_zombie(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True
