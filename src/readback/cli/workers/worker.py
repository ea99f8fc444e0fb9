"""`readback worker`: process due actions until stopped."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Final

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.checks.metrics import labels_option, reader_of
from readback.cli.failures import described
from readback.cli.sessions import load_contracts, settings_of, working
from readback.cli.telemetry.spans import exporting, otlp
from readback.cli.terminal import note, print_json, safe
from readback.cli.workers import resume
from readback.client.operations.worker import CONCURRENCY_DEFAULT, CONCURRENCY_MAX, HANDOVER_US, Tally, Worker
from readback.config import shown
from readback.domain.state import EXIT_VERIFIER, worst_exit
from readback.errors import InputError
from readback.views.outcome_text import exit_of

if TYPE_CHECKING:
    from readback.client.session import Session
    from readback.telemetry.fold_reader import LedgerMetrics
    from readback.telemetry.prometheus import MetricsServer

POLL_SECONDS_MAX: Final = 3_600
HANDOVER_SECONDS_MAX: Final = 86_400
US: Final = 1_000_000


@click.command("worker")
@click.option(
    "--concurrency",
    type=click.IntRange(1, CONCURRENCY_MAX),
    default=CONCURRENCY_DEFAULT,
    show_default=True,
    help="Maximum number of actions in progress.",
)
@click.option(
    "--poll",
    type=click.FloatRange(0.01, POLL_SECONDS_MAX),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum interval between searches for due actions of other processes.",
)
@click.option(
    "--handover",
    type=click.FloatRange(0, HANDOVER_SECONDS_MAX),
    metavar="SECONDS",
    help=(
        "How long to leave actions of another contract version to workers that have that version. "
        "Afterwards the actions go to review (600; with --until-idle 0)."
    ),
)
@click.option("--until-idle", is_flag=True, help="End when every action has ended, is held, or stays unknown.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve /metrics for Prometheus and /healthz at this port; 0 chooses a free port.",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address of the metrics. Every client that reaches the address can read them.",
)
@click.option(
    "--canary",
    "candidates",
    metavar="NAME",
    multiple=True,
    help="The candidate of the running canary (`readback gates canary start`): a contract file or a module.",
)
@labels_option
@options.contracts
@resume.tenants
@options.table
@otlp
@options.as_json
def worker(
    concurrency: int,
    poll: float,
    handover: float | None,
    until_idle: bool,
    metrics_port: int | None,
    metrics_host: str,
    candidates: tuple[str, ...],
    by_tenant: bool,
    labels: tuple[str, ...],
    modules: tuple[str, ...],
    url: str | None,
    named: tuple[str, ...],
    all_tenants: bool,
    principal: str | None,
    table: str | None,
    otlp: str | None,
    as_json: bool,
) -> int:
    """Process due actions until stopped, including actions of dead processes. Several workers may run.

    Several tenants take turns and each has reserved room, so no tenant waits behind another's backlog.

    SIGINT, SIGTERM or SIGHUP stops the worker: actions in progress finish, leases are released, and the exit code is 0.
    A second SIGINT or SIGTERM cancels the calls in progress. The cancellation is recorded, and the next process reads
    the effects back. With --json the answer is one object at the end. With --otlp the worker also exports the spans of
    every action of the ledger; no action waits for the export.
    """
    from readback.cli.gc_tuning import SERVING, undisturbed
    from readback.cli.workers.worker_loop import stay, watching

    settings = settings_of(url, named[0] if named else None, principal, modules, table)
    served = resume.Served.of(named, settings.tenant, everybody=all_tenants)
    registry = load_contracts(settings, needed=True)
    left_us = (0 if until_idle else HANDOVER_US) if handover is None else int(handover * US)
    with ExitStack() as stack:
        session = stack.enter_context(working(settings, registry))

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
            if metrics_port is not None:
                reader = reader_of(settings, session.store, served, labels, by_tenant=by_tenant)
                stack.callback(_serve(reader, one, metrics_port, metrics_host).close)
            ledger = safe(shown(settings.url))
            said = f"Working for {safe(served.said)} on {ledger} with {len(session.plans)} contracts."
            return await stay(one, said, quiet=as_json)

        with undisturbed(SERVING), exporting(session, otlp), _canary(session, candidates):
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


def _canary(session: Session, candidates: tuple[str, ...]) -> AbstractContextManager[None]:
    """Ask the canary's candidate beside the worker. Nothing is imported without a candidate."""
    if not candidates:
        return nullcontext()
    from readback.cli.gates.canary import following

    return following(session, candidates, note)


def _serve(reader: LedgerMetrics, worker: Worker, port: int, host: str) -> MetricsServer:
    """Serve the metrics beside a worker. Raises MetricsPortError."""
    from readback.telemetry.health import answer
    from readback.telemetry.prometheus import MetricsServer

    server = MetricsServer(reader, lambda: answer(reader, lambda: not worker.stopping), port=port, host=host)
    note(f"Serving /metrics and /healthz at http://{server.host}:{server.port}.")
    return server
