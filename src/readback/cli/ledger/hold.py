"""`readback ledger hold`: for a ledger that other tools put back, or that lost its end; `restore` does it by itself."""

from __future__ import annotations

import click

from readback import bootstrap
from readback.audit.maintenance.restore import hold_in_flight
from readback.cli import options
from readback.cli.ledger.log import URL, existing
from readback.cli.operator_identity import signing
from readback.cli.progress import counted
from readback.cli.terminal import note, print_json
from readback.drivers.ledger_time import in_ledger_time


@click.command("hold", short_help="Hold what was in flight, where a ledger lost its end.")
@click.option("--reason", metavar="TEXT", default="The ledger lost its end.", help="Why; it stays in the record.")
@click.option("--who", metavar="NAME", help="Who does it (else human: and the name of this account).")
@URL
@options.as_json
def hold(reason: str, who: str | None, url: str | None, as_json: bool) -> int:
    """Hold for review what was in flight in a ledger that a database's own tools put back (a dump, a base backup), or
    that a standby took over without its last commits. `ledger restore` does so by itself.

    \b
    What was done after its end is not in it. So every action and saga that was
    in flight, or had failed so that it might have been asked for again, counts
    as executed and waits for a person; none of them is executed by itself.
    What was first asked for after the ledger's end is not known here: its
    operations would be executed again.

    End all that works on the ledger first, and start it again afterwards.

    Exit code 0: all of it is held; 6: somebody is at work on it, or it cannot be written.
    """
    person, store = signing(who), existing(url)
    try:
        now_us = in_ledger_time(store, bootstrap.runtime()).now_us()
        with counted("holding what was in flight", enabled=not as_json) as step:
            held = hold_in_flight(store, person, reason, now_us, step)
    finally:
        store.close()
    if as_json:
        print_json({"held": {"actions": held.actions, "sagas": held.sagas}})
        return 0
    print(f"{held.actions} actions and {held.sagas} sagas were in flight, or may have been run again.")
    note("They wait for a person: readback review list")
    note(
        "What was first asked for after the ledger's end is not known here, and its operations would be executed again:"
    )
    note("look at the systems of record before any of them is run.")
    return 0
