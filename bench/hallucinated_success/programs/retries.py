"""Three retries: after an exception the tool is called again, four times in all. Nothing is read."""

from __future__ import annotations

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.tasks import FAILED, SUCCESS, Task

CALLS_MAX = 4


def run(task: Task) -> str:
    for _ in range(CALLS_MAX):
        try:
            task.call()
        except OSError:
            continue
        return SUCCESS
    return FAILED


if __name__ == "__main__":
    serve(run)
