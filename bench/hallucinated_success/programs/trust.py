"""Trusting the tool: an answer is a success, and an exception is a failure. Nothing is read."""

from __future__ import annotations

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.tasks import FAILED, SUCCESS, Task


def run(task: Task) -> str:
    try:
        task.call()
    except OSError:  # TimeoutError and ConnectionError among them
        return FAILED
    return SUCCESS


if __name__ == "__main__":
    serve(run)
