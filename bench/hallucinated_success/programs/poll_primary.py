"""Read back with care, by hand: the primary is polled until the question holds or the stated time is over."""

from __future__ import annotations

import time
from contextlib import suppress

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.tasks import FAILED, PATIENCE_S, SUCCESS, UNKNOWN, Task

PAUSE_S = 0.05


def run(task: Task) -> str:
    with suppress(OSError):  # what the tool raised decides nothing: the reading does
        task.call()
    until = time.monotonic() + PATIENCE_S
    answered = False
    while time.monotonic() < until:
        try:
            found = task.look(fresh=True)
        except ConnectionError:
            time.sleep(PAUSE_S)
            continue
        answered = True
        if task.holds(found):
            return SUCCESS
        time.sleep(PAUSE_S)
    return FAILED if answered else UNKNOWN


if __name__ == "__main__":
    serve(run)
