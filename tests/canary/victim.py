"""A worker's canary in a process of its own, which kills itself at one of its durable steps.

    python -m tests.canary.victim LEDGER STEP before|after

The step counts the durable writes of the follower. The process prints "done" where it ends before the step.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from readback import Readback
from readback.assurance.canary.follower import CanaryFollower
from tests.canary.depot import Depot, plans

WRITES = ("append", "enrol", "take_cursor", "keep_cursor")


class Mortal:
    """A store whose process dies before or after its n-th durable write."""

    def __init__(self, store: Any, step: int, when: str) -> None:
        self._store, self._left, self._when = store, step, when

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._deadly(found) if name in WRITES else found

    def _deadly(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0 and self._when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = write(*args, **named)
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped


def main(path: str, step: int, when: str) -> None:
    depot = Depot()
    with Readback.open(f"sqlite:///{path}", tenant="acme", principal="agent:ops") as rb:
        session = rb._session
        session.store = Mortal(session.store, step, when)  # type: ignore[assignment]
        follower = CanaryFollower(session, plans(depot.candidate), plans(depot.incumbent))
        while follower.round():
            pass
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
