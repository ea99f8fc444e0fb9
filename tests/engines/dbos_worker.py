"""A DBOS application in a process of its own: `run ORDER`, `recover ORDER`, `rewind ORDER` or `fork ORDER`."""

from __future__ import annotations

import sys

from dbos import DBOS, DBOSConfig, SetWorkflowID

from readback.frameworks.durable.dbos import may_retry, operation
from tests.engines import shop


@DBOS.step(retries_allowed=True, should_retry=may_retry, interval_seconds=0.1, max_attempts=20)
def ship(order: str) -> str:
    return shop.ship_once(order, operation(), wait=0 if order.startswith("late") else 20)


@DBOS.workflow()
def ship_order(order: str) -> str:
    return ship(order)


def follow(command: str, order: str) -> None:
    name = f"wf-{order}"
    match command:
        case "run":
            with SetWorkflowID(name):
                handle = DBOS.start_workflow(ship_order, order)
        case "rewind":
            handle = DBOS.rewind_workflow(name)
        case "fork":
            handle = DBOS.fork_workflow(name, 1)
        case _:
            handle = DBOS.retrieve_workflow(name)
    try:
        print(handle.get_result())
    except Exception as error:
        print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    config: DBOSConfig = {
        "name": "shop",
        "system_database_url": f"sqlite:///{shop.HOME / 'dbos.db'}",
        "application_version": "1",
        "executor_id": "worker",
        "run_admin_server": False,
    }
    DBOS(config=config)
    DBOS.launch()
    follow(*sys.argv[1:])
    DBOS.destroy()
