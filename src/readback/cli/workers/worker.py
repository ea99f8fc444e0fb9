"""`readback worker`: stays, and goes on with whatever becomes due."""

from __future__ import annotations

import asyncio
from typing import Final

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.actions.outcome_text import exit_of
from readback.cli.failures import described
from readback.cli.sessions import load_contracts, settings_of, working
from readback.cli.terminal import note, print_json, safe
from readback.cli.workers import resume
from readback.client.operations.worker import CONCURRENCY_DEFAULT, CONCURRENCY_MAX, HANDOVER_US, Tally, Worker
from readback.config import shown
from readback.domain.state import EXIT_VERIFIER, worst_exit
from readback.errors import InputError

POLL_SECONDS_MAX: Final = 3_600
HANDOVER_SECONDS_MAX: Final = 86_400
US: Final = 1_000_000


@click.command("worker")
@click.option(
    "--concurrency",
    type=click.IntRange(1, CONCURRENCY_MAX),
    default=CONCURRENCY_DEFAULT,
    show_default=True,
    help="At most so many actions at once.",
)
@click.option(
    "--poll",
    type=click.FloatRange(0.01, POLL_SECONDS_MAX),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Look for the work of others at least so often.",
)
@click.option(
    "--handover",
    type=click.FloatRange(0, HANDOVER_SECONDS_MAX),
    metavar="SECONDS",
    help="Leave what began with another version of its contract to a worker that knows that one for so long; then it "
    "goes to review (600; with --until-idle 0).",
)
@click.option("--until-idle", is_flag=True, help="End when every action has ended, is held, or stays unknown.")
@options.contracts
@resume.tenants
@options.table
@options.as_json
def worker(
    concurrency: int,
    poll: float,
    handover: float | None,
    until_idle: bool,
    modules: tuple[str, ...],
    url: str | None,
    named: tuple[str, ...],
    all_tenants: bool,
    principal: str | None,
    table: str | None,
    as_json: bool,
) -> int:
    """Stay, and go on with whatever is due, also with what dead processes left behind. Several workers may run.

    Where it serves several tenants it takes their actions in turn, and keeps room for each: none waits behind another's
    backlog. SIGINT, SIGTERM or SIGHUP stops it: what is in hand is finished, leases are given back, and it ends with 0.
    A second one of the first two cancels the calls in hand; that they were cancelled is recorded, and their effects are
    read back by whoever goes on.
    With --json the answer is one object at the end.
    """
    from readback.cli.gc_tuning import SERVING, undisturbed
    from readback.cli.workers.worker_loop import stay, watching

    settings = settings_of(url, named[0] if named else None, principal, modules, table)
    served = resume.Served.of(named, settings.tenant, everybody=all_tenants)
    registry = load_contracts(settings, needed=True)
    left_us = (0 if until_idle else HANDOVER_US) if handover is None else int(handover * US)
    with working(settings, registry) as session:

        async def work() -> Tally:
            one = Worker(
                session,
                served=served,
                concurrency=concurrency,
                poll_us=int(poll * US),
                until_idle=until_idle,
                handover_us=left_us,
                watching=watching(quiet=as_json),
            )
            ledger = safe(shown(settings.url))
            said = f"Working for {safe(served.said)} on {ledger} with {len(session.plans)} contracts."
            return await stay(one, said, quiet=as_json)

        with undisturbed(SERVING):
            tally = asyncio.run(work())
    errors = [EXIT_VERIFIER if isinstance(e, InputError) else e.exit_code for e in tally.errors.values()]
    code = worst_exit([*map(exit_of, tally.last.values()), *errors]) if until_idle else 0
    if as_json:
        said: dict[str, Json] = {
            "advanced": tally.advanced,
            "states": dict(tally.states),
            "errors": [{"action": a, "error": described(e)} for a, e in tally.errors.items()],
            "exit_code": code,
        }
        print_json(said)
    else:
        note(f"Stopped. Steps made: {tally.advanced}.")
    return code
