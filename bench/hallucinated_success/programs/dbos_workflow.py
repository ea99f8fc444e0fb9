"""DBOS: a workflow with the tool as a step that retries, as the documents on steps say.

The end of the workflow is the result. SQLite as the system database. The workflow id is the operation.
"""

from __future__ import annotations

from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID
from dbos._error import DBOSMaxStepRetriesExceeded

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.tasks import FAILED, SUCCESS, Task

TASKS: list[Task] = []
"""The task in progress: steps take recorded values only."""


@DBOS.step(retries_allowed=True, max_attempts=4, interval_seconds=0.01)
def tool_step(order_id: str) -> Any:
    """The tool."""
    return TASKS[0].call(order_id)


@DBOS.workflow()
def change_order(order_id: str) -> Any:
    """The action."""
    return tool_step(order_id)


def run(task: Task) -> str:
    TASKS[:] = [task]
    with SetWorkflowID(task.name):
        try:
            change_order("o1")
        except (OSError, DBOSMaxStepRetriesExceeded):
            return FAILED
    return SUCCESS


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        config: DBOSConfig = {
            "name": "bench", "system_database_url": f"sqlite:///{folder}/dbos.db", "log_level": "CRITICAL",
        }  # fmt: skip
        DBOS(config=config)
        DBOS.launch()
        serve(run)
        DBOS.destroy()
