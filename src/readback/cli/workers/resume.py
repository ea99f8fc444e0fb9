"""`readback resume`: process every due action once.

An error of one action delays no other action. Each error is named, and the exit code is the worst of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, TypeVar

import click

from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.cli import options
from readback.cli.actions.run import look, sigterm_interrupts
from readback.cli.failures import described
from readback.cli.sessions import again_with, load_contracts, settings_of, working
from readback.cli.terminal import note, print_json, safe
from readback.client.operations.tenants import Served as Served
from readback.client.operations.worker import OF_ONE_ACTION
from readback.client.session import Session
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import EXIT_VERIFIER, worst_exit
from readback.drivers.driver_sync import SyncDriver
from readback.errors import InputError, StoreError, UnknownOutcomeError
from readback.views.outcome_text import lines

# Tenant options of `readback worker` and `readback resume`.

F = TypeVar("F", bound=Callable[..., Any])


def tenants(command: F) -> F:
    """Ledger, tenants and principal, like `options.ledger` with any number of tenants."""
    for option in (
        click.option("--principal", metavar="ID", help="The acting principal (READBACK_PRINCIPAL; else agent:local)."),
        click.option("--all-tenants", is_flag=True, help="Process the actions of every tenant."),
        click.option(
            "--tenant",
            "named",
            metavar="ID",
            multiple=True,
            help="The tenant; may be repeated (READBACK_TENANT; else default).",
        ),
        click.option("--url", metavar="URL", help="The ledger (READBACK_URL; else sqlite:///readback.db)."),
    ):
        command = option(command)
    return command


PAGE: Final = 256
ERRORS_TOLD_MAX: Final = 20


@dataclass(slots=True)
class Resumed:
    """The result of one pass."""

    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[tuple[str, ReadbackError]] = field(default_factory=list)
    interrupted: bool = False

    def name(self, action_id: str, error: ReadbackError) -> None:
        """Record an action that could not be processed, and print the first few."""
        self.errors.append((action_id, error))
        if len(self.errors) <= ERRORS_TOLD_MAX:
            name_error(action_id, error)
        elif len(self.errors) == ERRORS_TOLD_MAX + 1:
            note("Error: more errors follow; --json names all.")

    @property
    def exit_code(self) -> int:
        """The worst code of all actions. An action that cannot be resumed counts as a contract's fault."""
        said = [outcome.exit_code for outcome in self.outcomes]
        said += [EXIT_VERIFIER if isinstance(error, InputError) else error.exit_code for _, error in self.errors]
        return worst_exit([*said, *([3] if self.interrupted else [])])


@click.command("resume")
@options.contracts
@tenants
@options.table
@options.as_json
def resume(
    modules: tuple[str, ...],
    url: str | None,
    named: tuple[str, ...],
    all_tenants: bool,
    principal: str | None,
    table: str | None,
    as_json: bool,
) -> int:
    """Process every due action of the tenant once, including actions of dead processes.

    Several tenants take turns, so no tenant waits behind another's backlog. An action goes to review if its contract
    changed after the start. An action whose contract is not loaded here is named and left unchanged. Nothing is
    executed twice: attempted actions are read back.
    """
    settings = settings_of(url, named[0] if named else None, principal, modules, table)
    served = Served.of(named, settings.tenant, everybody=all_tenants)
    registry = load_contracts(settings, needed=False)
    with working(settings, registry, new=False) as session, sigterm_interrupts():
        resumed = go_on_with_all(session, served, quiet=as_json)
        if as_json:
            print_json(_described(resumed))
            return resumed.exit_code
        if not resumed.outcomes and not resumed.errors:
            print("Nothing is due in any tenant." if not served.tenants else f"Nothing is due in {safe(served.said)}.")
        where = again_with(settings)
        for outcome in resumed.outcomes:
            if not outcome.verified:
                note(f"Next: readback explain {outcome.id}{where}")
    return resumed.exit_code


def go_on_with_all(session: Session, served: Served, *, quiet: bool) -> Resumed:
    """Process every due action once. A store failure ends the pass, because nothing more could be recorded."""
    resumed, seen = Resumed(), set[str]()
    driver = SyncDriver(session.store, session.runtime, session.courier)
    session.courier.sweep()
    try:
        while fresh := [each for each in session.due(2 * len(seen) + PAGE, served.due) if each not in seen]:
            for action_id in fresh:
                seen.add(action_id)
                _go_on(session, driver, action_id, resumed, served.one, quiet=quiet)
    except KeyboardInterrupt:
        resumed.interrupted = True
        note("Interrupted. Recorded work stays; the rest is still due.")
    finally:
        driver.close()
    return resumed


def _go_on(session: Session, driver: SyncDriver, action_id: str, resumed: Resumed, tenant: str, *, quiet: bool) -> None:
    try:
        driver.drive(session.advance(action_id, tenant))
        outcome = look(session, driver, action_id, tenant=tenant)
    except UnknownOutcomeError as error:
        session.report_unknown_outcome(error)
        raise
    except StoreError as error:
        if error.code not in OF_ONE_ACTION:
            raise
        resumed.name(action_id, error)
    except ReadbackError as error:
        resumed.name(action_id, error)
    else:
        resumed.outcomes.append(outcome)
        if not quiet:
            print("\n".join(lines(outcome)))


def name_error(action_id: str, error: ReadbackError) -> None:
    """Print two lines on stderr: the fault of this action and the next step."""
    note(f"Error: action {action_id}: {safe(error.message)}")
    if error.remedy:
        note(f"Next: {safe(error.remedy)}")


def _described(resumed: Resumed) -> dict[str, Json]:
    return {
        "actions": [outcome.as_json() for outcome in resumed.outcomes],
        "errors": [{"action": action_id, "error": described(error)} for action_id, error in resumed.errors],
        "interrupted": resumed.interrupted,
        "exit_code": resumed.exit_code,
    }
