"""Read back once: the tool is called, the default read path is asked, and the question decides at once."""

from __future__ import annotations

from contextlib import suppress

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.tasks import FAILED, SUCCESS, UNKNOWN, Task


def run(task: Task) -> str:
    with suppress(OSError):  # what the tool raised decides nothing: the reading does
        task.call()
    try:
        found = task.look()
    except ConnectionError:
        return UNKNOWN
    return SUCCESS if task.holds(found) else FAILED


if __name__ == "__main__":
    serve(run)
