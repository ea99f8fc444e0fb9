"""`readback gates canary`: start, show and stop the canary of a ledger (gate 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from readback.assurance.canary.control import start_canary, stop_canary
from readback.assurance.canary.records import CanaryRecords, CanaryState, runs_of
from readback.assurance.canary.tally import CanaryRun, problems
from readback.assurance.canary.terms import MINIMUM_DEFAULT, Stage
from readback.assurance.drills.canary_gate import canary_standing
from readback.assurance.results import Standing
from readback.canon import Json
from readback.cli import options
from readback.cli.sessions import load_contracts, reading, settings_of, working
from readback.cli.terminal import note, print_json, safe
from readback.engine.compiled_contract import CompiledContract

if TYPE_CHECKING:
    from readback.client.session import Session

F = TypeVar("F", bound=Callable[..., Any])
REASON_DEFAULT: Final = "by a person"
URL: Final = click.option("--url", metavar="URL", help="The ledger (READBACK_URL).")
TENANT: Final = click.option("--tenant", metavar="ID", help="Tenant of the canary's record (READBACK_TENANT).")
CANDIDATE: Final = click.option(
    "--candidate",
    "candidates",
    metavar="NAME",
    multiple=True,
    required=True,
    help="The candidate's contract files or modules; may be repeated.",
)


def plans_of(names: tuple[str, ...]) -> dict[str, CompiledContract]:
    """Load contracts by file or module, by name. Raises ContractError and UsageError."""
    registry = load_contracts(settings_of(modules=names), needed=True)
    return {} if registry is None else dict(registry.load())


@click.group("canary", short_help="Ask a candidate beside the incumbent (gate 3).")
def canary() -> None:
    """Ask a candidate contract about the verdicts of a subset, after each verdict is durable.

    A worker with --canary asks, from the record and on no action's path. Both verdicts are recorded, and only the
    incumbent decides. In a second stage (--decide) the candidate decides for the subset. A canary above a bound stops
    itself.
    """


@canary.command("start", short_help="Start the canary of a ledger.")
@CANDIDATE
@options.contracts
@click.option("--tenants", metavar="ID,...", default="", help="Only these tenants (default: all).")
@click.option(
    "--percent",
    type=float,
    default=100.0,
    show_default=True,
    help="Share of tenant and target pairs, by a stable hash.",
)
@click.option(
    "--minimum", type=int, default=MINIMUM_DEFAULT, show_default=True, help="Fewest compared actions for a decision."
)
@click.option("--mismatches", type=int, default=0, show_default=True, help="Stop above this number of other verdicts.")
@click.option("--errors", type=int, default=0, show_default=True, help="Stop above this number of candidate's errors.")
@click.option("--decide", is_flag=True, help="Second stage: the candidate decides for the subset.")
@URL
@TENANT
@options.as_json
def start(
    candidates: tuple[str, ...],
    modules: tuple[str, ...],
    tenants: str,
    percent: float,
    minimum: int,
    mismatches: int,
    errors: int,
    decide: bool,
    url: str | None,
    tenant: str | None,
    as_json: bool,
) -> int:
    """Start the canary of the candidate beside the contracts in force (--contracts).

    Workers begin to ask with `readback worker --contracts INCUMBENT --canary CANDIDATE`. One ledger has one canary at a
    time. Exit code 0: started; 2: refused, and nothing was recorded.
    """
    candidate, incumbent = plans_of(candidates), plans_of(modules)
    with working(settings_of(url, tenant), None) as session:
        state = start_canary(
            session,
            candidate,
            incumbent,
            tenants=[each.strip() for each in tenants.split(",") if each.strip()],
            percent=percent,
            minimum=minimum,
            mismatches_max=mismatches,
            errors_max=errors,
            stage=Stage.DECIDE if decide else Stage.COMPARE,
        )
    if as_json:
        print_json(_state(state))
    else:
        print(f"Canary {state.id} is running for {', '.join(safe(each) for each in state.terms.contracts)}.")
        note("Next: start the workers with --canary, then run `readback gates canary status`.")
    return 0


@canary.command("status", short_help="Show the canaries of a ledger.")
@URL
@TENANT
@options.as_json
def status(url: str | None, tenant: str | None, as_json: bool) -> int:
    """Show the newest canary: the counts, the matrix of verdicts, and the bounds.

    \b
    Exit code 0: within the bounds, with enough compared actions; 1: a bound is
    broken; 3: too few actions, or no canary.
    """
    with reading(settings_of(url, tenant)) as session:
        runs, state = _runs(session)
    standing = canary_standing(runs[0]) if runs else Standing.UNDETERMINED
    if as_json:
        print_json(
            {
                "running": state is not None and state.running,
                "standing": standing.value,
                "canaries": [_run(each) for each in runs],
            }
        )
        return standing.exit_code
    if not runs or state is None:
        print("No canary.")
        return standing.exit_code
    for line in _lines(runs[0], running=state.running):
        print(line)
    return standing.exit_code


def _runs(session: Session) -> tuple[list[CanaryRun], CanaryState | None]:
    records = CanaryRecords(session)
    return runs_of(records), records.state()


@canary.command("stop", short_help="Stop the running canary.")
@click.option("--reason", metavar="TEXT", default=REASON_DEFAULT, show_default=True, help="The reason, for the record.")
@URL
@TENANT
@options.as_json
def stop(reason: str, url: str | None, tenant: str | None, as_json: bool) -> int:
    """Stop the running canary. New actions of the subset get the incumbent; actions in flight keep their version.

    Exit code 0: stopped; 2: no canary is running.
    """
    with working(settings_of(url, tenant), None, new=False) as session:
        state = stop_canary(session, reason)
    if as_json:
        print_json(_state(state))
    else:
        print(f"Canary {state.id} is stopped: {safe(state.reason)}.")
    return 0


# --- the worker's part ---


@contextmanager
def following(session: Session, candidates: tuple[str, ...], warn: Callable[[str], None]) -> Iterator[None]:
    """Ask the canary's candidate beside a worker, and let the second stage decide."""
    from readback.assurance.canary.deciding import decide_by_candidate
    from readback.assurance.canary.follower import CanaryFollower

    candidate = plans_of(candidates)
    decide_by_candidate(session, candidate)
    incumbent = dict(session.plans)
    with CanaryFollower(session, candidate, incumbent, warn=lambda error: warn(f"Warning: {error.message}")):
        yield


# --- words ---


def _state(state: CanaryState) -> dict[str, Json]:
    return {
        "canary": state.id,
        "running": state.running,
        "reason": state.reason,
        "record": state.record,
        "terms": state.terms.as_json(),
    }


def _run(run: CanaryRun) -> dict[str, Json]:
    broken: list[Json] = [code for code, _ in problems(run.terms, run.tally)]
    return {
        "canary": run.id,
        "stopped": run.stopped,
        "terms": run.terms.as_json(),
        "tally": run.tally.as_json(),
        "broken": broken,
    }


def _lines(run: CanaryRun, *, running: bool) -> Iterator[str]:
    tally, terms = run.tally, run.terms
    word = "running" if running else f"stopped: {safe(run.stopped)}"
    yield f"Canary {run.id} ({word}), stage {terms.stage.value}"
    yield f"  contracts: {', '.join(safe(each) for each in terms.contracts)}"
    yield f"  subset: {', '.join(map(safe, terms.tenants)) or 'all tenants'}, {terms.basis_points / 100:g} %"
    yield f"  compared {tally.compared} (minimum {terms.minimum}), not evaluated {tally.not_evaluated}"
    yield f"  other verdicts {tally.mismatches} (bound {terms.mismatches_max})"
    yield f"  errors {tally.candidate_errors} (incumbent {tally.incumbent_errors}, bound {terms.errors_max})"
    yield f"  time {tally.latency_permille / 1_000:.2f} of the incumbent's"
    for pair, count in sorted(tally.matrix.items()):
        yield f"  {safe(pair)}: {count}"
    for code, said in problems(terms, tally):
        yield f"  broken: {said} [{code}]"
