"""A process that gives places or does actions on a ledger, until it is killed. Started by tests alone.

`take`: gives places once; with `hold` it stops between the function and the commit; says "taken N" afterwards, and
stays. `place`: gives places over and over. `act`: verified actions one after the other, each told with its id.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from readback.stores.postgres import open_postgres_store

PLACES_AT_ONCE = 7
PAUSE_SECONDS = 0.002


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def for_ever() -> None:
    threading.Event().wait()


def take(url: str, hold: bool) -> None:
    with open_postgres_store(url) as store:
        if hold:
            run = store._beside.run

            def held(change: Any) -> Any:
                def then_wait(connection: Any) -> None:
                    change(connection)
                    say("held")
                    for_ever()

                return run(then_wait)

            store._beside.run = held  # type: ignore[method-assign]
        say("ready")
        say("taken", store.assign_sequence_numbers(1_000))
        for_ever()


def place(url: str) -> None:
    with open_postgres_store(url) as store:
        say("ready")
        while True:
            taken = store.assign_sequence_numbers(PLACES_AT_ONCE)
            if taken:
                say("taken", taken)
            threading.Event().wait(PAUSE_SECONDS)


def act(url: str, name: str, key_file: str) -> None:
    from readback import Readback  # here, so that who only gives places starts sooner
    from tests.store_postgres.jotting import jot

    seal = {"key_file": key_file, "entries": 20, "seconds": 0.05} if Path(key_file).exists() else False
    with Readback.open(url, tenant="acme", principal=name, actions=[jot], seal=seal) as rb:
        say("ready")
        for number in range(100_000):
            done = rb.run(jot(text=f"{name}-{number}"), operation=f"{name}-{number}")
            assert done.verified
            say("did", done.id)


if __name__ == "__main__":
    role, url, *rest = sys.argv[1:]
    match role:
        case "take":
            take(url, hold="hold" in rest)
        case "place":
            place(url)
        case "act":
            act(url, *rest)
        case _:
            raise SystemExit(f"no role {role!r}")
