"""justonce: the tool as an effect under one operation key; the caller retries, as the documents' first example has it.

`retry_on_failure` keeps its default: an exception releases the claim. A key in flight or unknown is told as unknown.
"""

from __future__ import annotations

from justonce.core import Idempotent
from justonce.errors import OperationInFlightError
from justonce.keys import operation_key
from justonce.stores.sqlite import SqliteStore

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.tasks import FAILED, SUCCESS, UNKNOWN, Task
from bench.hallucinated_success.world import ORDER

CALLS_MAX = 4


def run(task: Task) -> str:
    engine = Idempotent(SqliteStore(str(task.world.path.with_suffix(".effects"))))
    for _ in range(CALLS_MAX):
        try:
            engine.run(operation_key(task.kind, ORDER), lambda: task.call(ORDER), payload={"order": ORDER})
        except OperationInFlightError:
            return UNKNOWN
        except OSError:
            continue
        return SUCCESS
    return FAILED


if __name__ == "__main__":
    serve(run)
