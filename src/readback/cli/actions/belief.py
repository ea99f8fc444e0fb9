"""`readback belief`: what may be believed of a run, from the ledger alone."""

from __future__ import annotations

from typing import Final

import click

from readback.cli import options
from readback.cli.sessions import reading, settings_of
from readback.cli.terminal import note, print_json, safe
from readback.client.session import Session
from readback.domain.belief.text import MODEL_BYTES_DEFAULT, MODEL_BYTES_MIN
from readback.errors import NotFoundError
from readback.ports.storage.store import ActionFilter

LOOKED_AT_MAX: Final = 1_000
"""So many of the newest actions are looked through for the newest run."""
BYTES_MAX: Final = 1_048_576


@click.command("belief")
@click.option("--run", "run_id", metavar="ID", help="The run; the newest one where it is left away.")
@click.option("--model", is_flag=True, help="The text for the model's next context, in place of the one for a person.")
@click.option(
    "--max-bytes",
    type=click.IntRange(MODEL_BYTES_MIN, BYTES_MAX),
    default=MODEL_BYTES_DEFAULT,
    show_default=True,
    help="With --model: at most so many bytes; the oldest settled results are left out first.",
)
@options.ledger
@options.as_json
def belief(
    run_id: str | None,
    model: bool,
    max_bytes: int,
    url: str | None,
    tenant: str | None,
    principal: str | None,
    as_json: bool,
) -> int:
    """Say what may be believed of a run: verified facts, what is unresolved, and what may be done next.

    Only reconciled outcomes are in it; what tools answered is not. It needs no contracts.
    """
    from readback.client.client import Readback

    settings = settings_of(url, tenant, principal)
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
    """The run of the newest action that belongs to one."""
    page = session.store.page(ActionFilter(session.scope.tenant, limit=LOOKED_AT_MAX))
    found = next((stored.projection.run for stored in page if stored.projection.run), "")
    if not found:
        raise NotFoundError(
            f"None of the newest actions of tenant {session.scope.tenant!r} belongs to a run.",
            remedy="Name a run where actions are made: Readback.open(run=...), or `readback run --run ID`.",
        )
    return found
