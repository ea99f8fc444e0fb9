"""`readback belief`: the verified facts of a run, from the ledger alone."""

from __future__ import annotations

from typing import Final

import click

from readback.cli import options
from readback.cli.sessions import reading
from readback.cli.terminal import note, print_json, safe
from readback.client.session import Session
from readback.config import Settings
from readback.domain.belief.text import MODEL_BYTES_DEFAULT, MODEL_BYTES_MIN
from readback.errors import NotFoundError
from readback.ports.storage.store import ActionFilter

LOOKED_AT_MAX: Final = 1_000
"""Number of newest actions searched for the newest run."""
BYTES_MAX: Final = 1_048_576


@click.command("belief")
@click.option("--run", "run_id", metavar="ID", help="The run (default: the newest run).")
@click.option(
    "--model", is_flag=True, help="Print the text for the model's next context instead of the text for people."
)
@click.option(
    "--max-bytes",
    type=click.IntRange(MODEL_BYTES_MIN, BYTES_MAX),
    default=MODEL_BYTES_DEFAULT,
    show_default=True,
    help="With --model: maximum size in bytes; the oldest settled results are dropped first.",
)
@options.settings
@options.as_json
def belief(
    run_id: str | None,
    model: bool,
    max_bytes: int,
    settings: Settings,
    as_json: bool,
) -> int:
    """Print the verified facts of a run, the open questions, and the permitted next steps.

    Only reconciled outcomes count; tool answers do not. No contracts are needed.
    """
    from readback.client.client import Readback

    with reading(settings) as session:
        named = run_id or _newest(session)
        if run_id is not None and not session.store.page(ActionFilter(session.scope.tenant, run=named, limit=1)):
            raise NotFoundError(
                f"No action of tenant {session.scope.tenant!r} belongs to the run {named!r}.",
                remedy="Look at `readback list --json` for the runs that there are.",
            )
        if run_id is None:
            note(f"The newest run is {safe(named)}.")
        believed = Readback(session).belief(named)
        if as_json:
            print_json(believed.as_json())
        else:
            print(believed.for_model(max_bytes) if model else believed.message)
    return 0


def _newest(session: Session) -> str:
    """The run of the newest action with a run."""
    page = session.store.page(ActionFilter(session.scope.tenant, limit=LOOKED_AT_MAX))
    found = next((stored.projection.run for stored in page if stored.projection.run), "")
    if not found:
        raise NotFoundError(
            f"None of the newest actions of tenant {session.scope.tenant!r} belongs to a run.",
            remedy="Name a run where actions are made: Readback.open(run=...), or `readback run --run ID`.",
        )
    return found
