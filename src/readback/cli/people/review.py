"""`readback review`: actions awaiting review, the facts for a decision, and the decision.

The module shows the ledger and records decisions. `domain.people.review` defines the permitted decisions.
"""

from __future__ import annotations

from typing import Final

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.prompt import operator, signed, signing
from readback.cli.sessions import again_with, load_contracts, reading, settings_of, working
from readback.cli.terminal import console, moment, note, print_json, safe
from readback.client.operations import reviewing as reviews
from readback.config import Settings
from readback.domain.people.review import Decision, resolution_bytes
from readback.domain.state import State
from readback.drivers.driver_sync import SyncDriver
from readback.drivers.interpreter import Parked
from readback.ports.storage.store import StoredProjection
from readback.views.outcome_text import lines, plain

LIMIT_MAX: Final = 10_000
SECONDS: Final = len("2026-01-01 00:00:00")
WIDE_CHARACTERS: Final = 110
"""A narrower screen shows fewer columns; `review show` and --json show everything."""


@click.group("review")
def review() -> None:
    """List and resolve actions awaiting review.

    An action awaits review if held, lastingly unknown, mismatched, not reversible or not verifiable. A person's
    decision is recorded as a decision: the decision frees or keeps the key, and never makes an action verified.
    """


@review.command("list", short_help="List actions awaiting review.")
@click.option(
    "--limit", type=click.IntRange(1, LIMIT_MAX), default=50, show_default=True, help="Maximum number of rows."
)
@options.settings
@options.as_json
def list_reviews(limit: int, settings: Settings, as_json: bool) -> int:
    """List the tenant's actions awaiting review, newest first."""
    with reading(settings) as session:
        page = reviews.queue(session, limit)
    if as_json:
        print_json([_row(stored) for stored in page])
    elif not page:
        note(f"No action awaits review in tenant {safe(settings.tenant)}.")
    else:
        _draw(page)
        note(f"Next: readback review show ID{again_with(settings)}")
        if len(page) == limit:
            note(f"The newest {limit} are shown; --limit shows more.")
    return 0


@review.command("show", short_help="Show one action awaiting review.")
@click.argument("action", metavar="ID")
@options.settings
@options.as_json
def show(action: str, settings: Settings, as_json: bool) -> int:
    """Show intent, request, answer and readings of an action, the differences, and the effect of each decision.

    All facts come from the ledger. A long value is cut and replaced by length and digest.
    """
    with reading(settings) as session:
        packet = reviews.review_packet(session, action)
    if as_json:
        print_json(packet.as_json())
        return 0
    from readback.cli.people.review_view import draw

    draw(packet, console(), again_with(settings))
    return 0


@review.command("resolve", short_help="Resolve one action awaiting review.")
@click.argument("action", metavar="ID")
@click.option(
    "--decision",
    required=True,
    type=click.Choice([one.value for one in Decision]),
    metavar="DECISION",
    help=f"One of {', '.join(one.value for one in Decision)}; `review show` says what each will do.",
)
@click.option("--expect-version", required=True, type=click.IntRange(1), metavar="N", help="The version you examined.")
@click.option("--reason", required=True, metavar="TEXT", help="The reason, for the record.")
@operator
@options.contracts
@options.ledger
@options.as_json
def resolve(
    action: str,
    decision: str,
    expect_version: int,
    reason: str,
    who: str | None,
    key: str | None,
    modules: tuple[str, ...],
    url: str | None,
    tenant: str | None,
    principal: str | None,
    as_json: bool,
) -> int:
    """Resolve an action awaiting review. Exit code 0: the decision is recorded; 2: refused, and nothing was changed.

    If the contract is loaded here, the consequences run at once, and otherwise with the next process that resumes the
    action. For a critical mutation only an approver may decide, signing with --key.
    """
    settings = settings_of(url, tenant, principal, modules)
    registry = load_contracts(settings, needed=False)
    with working(settings, registry, new=False) as session:
        action_id = session.action_id(action)
        name = signing(who)
        message = resolution_bytes(action_id, session.scope.tenant, expect_version, decision, name, reason)
        order = reviews.resolution(
            session,
            action_id,
            decision,
            expect_version=expect_version,
            who=name,
            reason=reason,
            signature=signed(message, key),
        )
        driver = SyncDriver(session.store, session.runtime, session.courier)
        try:
            driver.drive(reviews.resolving(session, order))
            outcome = driver.drive(session.look(action_id))
        finally:
            driver.close()
        assert not isinstance(outcome, Parked)
        waits = outcome.due_us is not None and registry is None
    if as_json:
        print_json({"decision": decision, "outcome": outcome.as_json()})
        return 0
    print(f"Recorded: {plain(decision)}, by {safe(name)}.")
    print("\n".join(lines(outcome)))
    if waits:
        note(f"Next: readback resume{again_with(settings, contracts=True)}")
    return 0


def _row(stored: StoredProjection) -> dict[str, Json]:
    p = stored.projection
    return {
        "id": p.action_id,
        "version": stored.version,
        "review": p.review,
        "state": p.state,
        "hold": p.hold,
        "discrepancy": p.discrepancy or None,
        "incident": p.incident or None,
        "contract": p.contract,
        "side_effect": p.side_effect,
        "target": p.target,
        "operation": p.operation,
        "tenant": p.tenant,
        "principal": p.principal,
        "at_us": p.created_us,
        "updated_us": p.updated_us,
    }


def _draw(page: list[StoredProjection]) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = console()
    wide = screen.width >= WIDE_CHARACTERS
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("id", "version", "since (UTC)") if wide else ("id", "version"):
        table.add_column(name, no_wrap=True)
    for name in ("why", "state", "class", "contract", "target") if wide else ("why", "contract", "target"):
        table.add_column(name, overflow="fold")
    for stored in page:
        p = stored.projection
        since = [moment(p.updated_us)[:SECONDS]] if wide else []
        kinds = [plain(State(p.state)), plain(p.side_effect)] if wide else []
        shown = [Text(safe(text, 120)) for text in (plain(p.review), *kinds, p.contract, p.target)]
        table.add_row(p.action_id, str(stored.version), *since, *shown)
    screen.print(table)
