"""`readback list`: the newest actions of a tenant, from projections, without evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.sessions import reading
from readback.cli.terminal import BAD, OK, OPEN, console, mark, moment, note, print_json, safe
from readback.client.session import Session
from readback.config import Settings, shown
from readback.domain.action.claim import FALLEN, ClaimStatus
from readback.domain.events import EventKind, open_envelope
from readback.domain.saga.fold import KIND, STEPS_MAX
from readback.domain.state import EXIT_FAILED, EXIT_VERIFIED, State
from readback.ports.storage.store import ActionFilter, Projection, StoredProjection
from readback.views.labels import state_label
from readback.views.outcome_text import exit_of, plain, shown_verdict, verdict_of

LIMIT_MAX: Final = 10_000
WORD_WIDTH: Final = len("undetermined")
WORD_WIDTH_NARROW: Final = 10
ALL_COLUMNS_WIDTH: Final = 120
TABLE_WIDTH_MIN: Final = 78
"""Width of the id and four narrow columns. On a narrower terminal each action has three lines."""
SECONDS: Final = len("2026-01-01 00:00:00")
TENANTS_LOOKED_AT_MAX: Final = 20


@click.command("list")
@click.option(
    "--state", type=click.Choice([s.value for s in State]), metavar="STATE", help="Only actions in this state."
)
@click.option("--contract", default="", metavar="NAME", help="Only actions of this contract.")
@click.option("--run", "run_id", default="", metavar="ID", help="Only actions of this run.")
@click.option(
    "--limit", type=click.IntRange(1, LIMIT_MAX), default=50, show_default=True, help="Maximum number of rows."
)
@click.option("-v", "--verbose", is_flag=True, help="Show the stored state beside its label.")
@options.settings
@options.as_json
def list_actions(
    state: str | None,
    contract: str,
    run_id: str,
    limit: int,
    verbose: bool,
    settings: Settings,
    as_json: bool,
) -> int:
    """List the newest actions of the tenant, newest first."""
    with reading(settings) as session:
        page = [_with_steps(session, each) for each in session.page(state or "", contract, run_id, "", limit)]
        if as_json:
            print_json([{**_row(stored), **_marks(session, stored)} for stored in page])
            return 0
        if not page:
            _nothing(session, settings, filtered=bool(state or contract or run_id))
            return 0
        _draw(page, {s.projection.action_id: _words(session, s) for s in page}, verbose)
        if len(page) == limit:
            note(f"The newest {limit} are shown; --limit shows more.")
    return 0


def _with_steps(session: Session, stored: StoredProjection) -> StoredProjection:
    """A saga stands only on standing steps: a fallen claim of a step counts as the saga's, as in the saga's outcome."""
    p = stored.projection
    if p.kind != KIND or p.state != State.RECONCILED_SUCCESS:
        return stored
    steps = session.store.page(ActionFilter(p.tenant, saga=p.action_id, claim=True, limit=STEPS_MAX))
    fell = any(each.projection.claim in FALLEN for each in steps)
    return replace(stored, projection=replace(p, claim=ClaimStatus.CONTESTED.value)) if fell else stored


def _row(stored: StoredProjection) -> dict[str, Json]:
    p = stored.projection
    return {
        "id": p.action_id,
        "at_us": p.created_us,
        "at": moment(p.created_us),
        "updated_us": p.updated_us,
        "contract": p.contract,
        "contract_version": p.contract_version,
        "target": p.target,
        "operation": p.operation,
        "state": p.state,
        "verdict": verdict_of(p).value,
        "discrepancy": p.discrepancy or None,
        "row": p.row,
        "hold": p.hold,
        "due_us": p.due_us,
        "tenant": p.tenant,
        "principal": p.principal,
        "run": p.run,
        "stamp": p.stamp,
        "version": stored.version,
        "exit_code": exit_of(p),
    }


def _marks(session: Session, stored: StoredProjection) -> dict[str, Json]:
    """What the entries alone state: an erasure, and shadow mode. Both are rare and have no column of their own."""
    events = session.store.events(stored.projection.action_id)
    mode = str(open_envelope(events[0].envelope).event.data.get("mode", "")) if events else ""
    return {"erased": any(each.kind == EventKind.ERASED.value for each in events), "mode": mode}


def _words(session: Session, stored: StoredProjection) -> str:
    """The marks in words, after the state."""
    marks = _marks(session, stored)
    return (", shadow" if marks["mode"] else "") + (", erased" if marks["erased"] else "")


def _draw(page: list[StoredProjection], marks: dict[str, str], whole: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    if out.width < TABLE_WIDTH_MIN:
        _draw_narrow(page, marks, whole)
        return
    wide = out.width >= ALL_COLUMNS_WIDTH  # else what matters less is left out, so that nothing is cut off unseen
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("", "id", *(["when (UTC)"] if wide else [])):
        table.add_column(name, no_wrap=True)
    for name in ("contract", "target", "state", "verdict", *(["discrepancy"] if wide else [])):
        table.add_column(name, overflow="fold", min_width=WORD_WIDTH if wide else WORD_WIDTH_NARROW)
    for stored in page:
        p = stored.projection
        texts = [p.contract, p.target, _state(p, marks, whole), shown_verdict(p)]
        if wide:
            texts = [moment(p.created_us)[:SECONDS], *texts, plain(p.discrepancy)]
        table.add_row(mark(_sign(p)), p.action_id, *(Text(safe(text, 120)) for text in texts))
    out.print(table)


def _draw_narrow(page: list[StoredProjection], marks: dict[str, str], whole: bool) -> None:
    from rich.text import Text

    out = console()
    for stored in page:
        p = stored.projection
        out.print(Text.assemble(mark(_sign(p)), f" {p.action_id}"), soft_wrap=True)
        for said in (f"{p.contract} on {p.target}", _narrow_state(p, marks, whole)):
            out.print(Text(f"  {safe(said)}"), soft_wrap=True)


def _narrow_state(p: Projection, marks: dict[str, str], whole: bool) -> str:
    said, verdict = _state(p, marks, whole), shown_verdict(p)
    return said if said == verdict else f"{said} ({verdict})"


def _sign(p: Projection) -> str:
    return OK if exit_of(p) == EXIT_VERIFIED else BAD if exit_of(p) == EXIT_FAILED else OPEN


def _state(p: Projection, marks: dict[str, str], whole: bool) -> str:
    said = (
        state_label(p.state, standing=_sign(p) == OK, hold=p.hold)
        + (f" [{p.state}]" if whole else "")
        + marks.get(p.action_id, "")
    )
    if p.due_us is not None and p.state == State.RECONCILED_SUCCESS:
        said += f", looked at again {moment(p.due_us)[:SECONDS]} UTC"
    return said


def _nothing(session: Session, settings: Settings, *, filtered: bool) -> None:
    """Explain an empty list and name tenants with actions."""
    if filtered:
        note(f"No action of tenant {safe(settings.tenant)} matches.")
        return
    note(f"Tenant {safe(settings.tenant)} has no actions in {safe(shown(settings.url))}.")
    others = {s.projection.tenant for s in session.store.page(ActionFilter(limit=TENANTS_LOOKED_AT_MAX))}
    if others:
        named = ", ".join(safe(name, 80) for name in sorted(others))
        note(f"Next: pass --tenant; there are actions of: {named}.")
