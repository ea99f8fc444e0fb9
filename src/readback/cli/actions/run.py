"""`readback run`: one verified action from the shell, through the same engine as Python.

An interrupt or SIGTERM during a wait leaves the action in the ledger and prints the next command. An interrupt during
the tool call first records a cancelled call.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.actions.arguments import read_arguments, read_object
from readback.cli.sessions import action_named, again_with, load_contracts, settings_of, working
from readback.cli.terminal import note, print_json
from readback.client.proposal import Proposal
from readback.client.session import Session
from readback.config import Settings
from readback.domain.outcome.outcome import Outcome
from readback.drivers.driver_sync import SyncDriver
from readback.drivers.interpreter import Parked
from readback.engine import coordinator
from readback.errors import NotFoundError, UnknownOutcomeError
from readback.views.outcome_text import lines

EXIT_NOTHING_DONE = 1
EXIT_OPEN = 3


@click.command("run")
@click.argument("tool")
@options.request
@click.option("--wait", type=click.FloatRange(min=0), metavar="SECONDS", help="Answer pending after this many seconds.")
@options.purpose
@options.contracts
@options.ledger
@options.table
@options.as_json
def run(
    tool: str,
    texts: tuple[str, ...],
    jsons: tuple[str, ...],
    operation: str | None,
    wait: float | None,
    intended: str | None,
    step: str,
    run_id: str,
    trace: str,
    modules: tuple[str, ...],
    url: str | None,
    tenant: str | None,
    principal: str | None,
    table: str | None,
    as_json: bool,
) -> int:
    """Execute the action TOOL once, read back the result, and print the verified outcome.

    \b
    --arg k=v       v is text if the parameter accepts text, and JSON otherwise:
                    a str keeps "7", an int receives 7.
    --arg-json k=v  v is always JSON; for null, or where both types fit.

    Without --wait the command waits until the outcome is settled. Every contract of the modules is checked before the
    action runs.
    """
    settings = settings_of(url, tenant, principal, modules, table)
    registry = load_contracts(settings, needed=True)
    assert registry is not None
    definition = action_named(registry, tool)
    arguments = read_arguments(definition.arguments.schema, texts, jsons)
    goal = read_object("--intended", intended)
    with working(settings, registry, run=run_id, trace=trace) as session, sigterm_interrupts():
        proposal = definition(**arguments)
        return _run(session, settings, proposal, (operation, wait, goal, step), as_json=as_json)


def _run(
    session: Session,
    settings: Settings,
    proposal: Proposal,
    how: tuple[str | None, float | None, dict[str, Json] | None, str],
    *,
    as_json: bool,
) -> int:
    operation, wait, goal, step = how
    ticket = coordinator.ActionHandle()
    driver = SyncDriver(session.store, session.runtime, session.courier)
    try:
        until_us = session.give_up_us(wait)
        request = session.request(proposal, operation, goal, step)
        work = coordinator.begin(session.engine, request, session.scope, session.plan_of, ticket)
        told = driver.drive(work, until_us)
    except UnknownOutcomeError as error:
        session.report_unknown_outcome(error)
        raise
    except KeyboardInterrupt:
        return interrupted(session, driver, ticket, settings, as_json=as_json)
    finally:
        if not proposal.used:
            proposal.mark_run()  # refused: the error says so, a warning about an unused proposal would only confuse
        driver.close()
    outcome = look(session, driver, ticket.action_id, replayed=ticket.replayed) if isinstance(told, Parked) else told
    return tell(outcome, settings, as_json=as_json)


def look(
    session: Session, driver: SyncDriver, action_id: str, *, replayed: bool = False, tenant: str | None = None
) -> Outcome:
    """The present outcome from the ledger. `tenant`: a tenant other than the session's; "" for any."""
    told = driver.drive(session.look(action_id, replayed=replayed, tenant=tenant))
    assert not isinstance(told, Parked)
    return told


def tell(outcome: Outcome, settings: Settings, *, as_json: bool) -> int:
    """Print the outcome and the next command."""
    if as_json:
        print_json(outcome.as_json())
    else:
        print("\n".join(lines(outcome)))
    if not outcome.verified:
        note(f"Next: readback explain {outcome.id}{again_with(settings)}")
    return outcome.exit_code


def interrupted(
    session: Session, driver: SyncDriver, ticket: coordinator.ActionHandle, settings: Settings, *, as_json: bool
) -> int:
    """Handle Ctrl-C: the ledger keeps the action, and a worker continues."""
    try:
        outcome = look(session, driver, ticket.action_id) if ticket.action_id else None
    except NotFoundError:
        outcome = None
    if outcome is None:
        note("Interrupted before anything was executed; nothing was recorded.")
        if as_json:
            said = {"code": "interrupted", "message": "Interrupted before anything was executed.", "remedy": ""}
            print_json({"error": {**said, "details": {}, "exit_code": EXIT_NOTHING_DONE}})
        return EXIT_NOTHING_DONE
    note(f"Interrupted. The ledger keeps the action {outcome.id} as {outcome.state.value}:")
    note(f"Next: readback resume{again_with(settings, contracts=True)}")
    code = tell(outcome, settings, as_json=as_json)
    return code if outcome.settled else EXIT_OPEN


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Inside the block SIGTERM ends a wait like Ctrl-C, after pending records are durable. SIGHUP of a closed terminal
    does the same, once, unless ignored (nohup).
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a shell that ends and its terminal send one each
        raise KeyboardInterrupt

    heard = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heard.append(signal.SIGHUP)
    before = [(number, signal.signal(number, interrupt)) for number in heard]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
