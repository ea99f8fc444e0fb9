"""Options and inputs shared by the commands of `readback gates`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from readback import bootstrap
from readback.assurance.canary.records import CanaryRecords, runs_of
from readback.assurance.canary.tally import CanaryRun
from readback.assurance.drills.worlds import load_worlds
from readback.assurance.gate_input import CELL_MIN, GateInput, VerificationLogic, no_history
from readback.assurance.history.recorded import Selection, history_of, is_ledger, ledger_url
from readback.assurance.logic import candidate_of, incumbent_of
from readback.canon.frozen import dataclass
from readback.cli import options
from readback.cli.contract_modules import allow_modules
from readback.cli.gates.surfaces import installed_surfaces
from readback.cli.ledger.records import moment_us
from readback.cli.sessions import reading, settings_of
from readback.config import is_contract_file, shown
from readback.contracts.options import microseconds
from readback.errors import ContractFieldError, UsageError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Named:
    """The inputs as named on the command line."""

    contracts: tuple[str, ...]
    table: str | None
    against: str | None
    history: str | None
    tenant: str | None
    since: str | None
    limit: int
    cell_min: int
    worlds: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the names, for the result."""
        return {
            "contracts": [*self.contracts],
            "recovery_table": self.table,
            "against": None if self.against is None else shown(self.against),
            "history": None if self.history is None else shown(self.history),
            "tenant": self.tenant,
            "since": self.since,
            "sample": self.limit,
            "min_actions": self.cell_min,
            "worlds": [*self.worlds],
            "kept": [*self.kept],
        }


_OPTIONS: Final = (
    click.option(
        "--kept",
        "kept",
        metavar="FOLDER",
        multiple=True,
        help="Kept ledgers (.db, .db.gz), bundles (.json) and readers (.whl) of earlier releases; may be repeated.",
    ),
    click.option(
        "--worlds",
        "worlds",
        metavar="FILE",
        multiple=True,
        help="Simulated worlds for injected faults and drills (YAML); may be repeated. Modules may hold worlds, too.",
    ),
    click.option("--against", metavar="PLACE", help="The incumbent: a git ref, a folder, a file or a ledger."),
    click.option("--history", metavar="PLACE", help="Recorded actions: a ledger, or a folder of bundles."),
    click.option("--tenant", metavar="ID", help="Only recorded actions of this tenant."),
    click.option("--since", metavar="SPAN|MOMENT", help="Only recorded actions since then, such as 30d or 2026-01-31."),
    click.option(
        "--sample", "limit", metavar="N", type=click.IntRange(0), default=0, help="At most N actions (0: all)."
    ),
    click.option(
        "--min-actions",
        "cell_min",
        metavar="N",
        type=click.IntRange(1),
        default=CELL_MIN,
        help=f"Fewest recorded actions in each cell of contract, verdict, class and row (default {CELL_MIN}).",
    ),
)


def examined(command: F) -> F:
    """The options of the examined logic and its history."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return options.contracts(options.table(command))


def logic_of(contracts: tuple[str, ...], table: str | None) -> VerificationLogic:
    """Load the candidate by the settings. Raises UsageError without contracts, ContractError, SettingsError."""
    settings = settings_of(modules=contracts, table=table)
    if not settings.contracts:
        raise UsageError("No contracts are named.", remedy="Pass --contracts FILE, or set READBACK_CONTRACTS.")
    modules = [each for each in settings.contracts if not is_contract_file(each)]
    if modules:
        allow_modules(str(Path.cwd()), modules)
    return candidate_of(settings.contracts, settings.recovery_table, dict(settings.contract_pins))


def input_of(named: Named, *, bare: bool = False) -> GateInput:
    """Load everything that the gates examine. `bare`: the gates examine the release itself, also without contracts."""
    settings = settings_of(modules=named.contracts, table=named.table)
    without = bare and not settings.contracts
    candidate = VerificationLogic({}) if without else logic_of(named.contracts, named.table)
    incumbent = None
    if named.against is not None:
        incumbent = incumbent_of(named.against, candidate, settings.contracts, settings.recovery_table)
    selection = Selection(named.tenant or "", _since_us(named.since), named.limit)
    history = no_history if named.history is None else history_of(named.history, selection)
    modules = [each for each in settings.contracts if not is_contract_file(each)]
    files = [each for each in settings.contracts if is_contract_file(each)]
    worlds = load_worlds(named.worlds, modules, files, dict(settings.contract_pins))
    return GateInput(
        candidate,
        incumbent,
        history,
        named.cell_min,
        worlds,
        lambda: _canaries(named.history),
        named.kept,
        installed_surfaces(),
    )


def _canaries(history: str | None) -> Sequence[CanaryRun]:
    """Return the canaries of the ledger that holds the history."""
    if history is None or not is_ledger(history):
        return ()
    with reading(settings_of(ledger_url(history))) as session:
        return runs_of(CanaryRecords(session))


def _since_us(text: str | None) -> int:
    if text is None:
        return 0
    try:
        return bootstrap.runtime().now_us() - microseconds(text)
    except ContractFieldError:
        return moment_us("--since", text) or 0
