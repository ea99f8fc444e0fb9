"""The static report of an action or a run: the console's facts in a single file without scripts and requests.

The report names the signed head that covers its entries, and holds the proof of each action's last entry.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from markupsafe import Markup, escape

from readback.client.session import Session
from readback.domain.saga.outcome import STEP_TEXT
from readback.errors import NotFoundError
from readback.ports.storage.store import ActionFilter, StoredProjection
from readback.server.console.action_view import action_view
from readback.server.console.rendering import PageFacts, page
from readback.views.action import abbreviated
from readback.views.proof import ProofView, proof_of
from readback.views.text import safe

DISTRIBUTION: Final = "readback-ai"
ACTIONS_MAX: Final = 200
"""Most actions of a run in a report, the newest first."""


def report_of_action(session: Session, named: str) -> str:
    """Return the report of an action or saga, with the saga's steps. Raises NotFoundError, StoreError, LogError."""
    action_id = abbreviated(session, named)
    steps = session.store.page(ActionFilter(session.scope.tenant, saga=action_id, oldest=True, limit=ACTIONS_MAX))
    ids = [action_id, *(each.projection.action_id for each in steps)]
    return _report(session, f"Report of {'saga' if steps else 'action'} {action_id}", ids, steps, "")


def report_of_run(session: Session, run: str) -> str:
    """Return the report of the actions of a run, the oldest first. Raises as `report_of_action`."""
    found = session.store.page(ActionFilter(session.scope.tenant, run=run, limit=ACTIONS_MAX + 1))
    if not found:
        raise NotFoundError(f"There is no action of run {safe(run)!r} in tenant {session.scope.tenant!r}.")
    shown = sorted(found[:ACTIONS_MAX], key=lambda each: each.projection.action_id)
    left_out = f"Only the newest {ACTIONS_MAX} actions of the run are here." if len(found) > ACTIONS_MAX else ""
    ids = [each.projection.action_id for each in shown]
    return _report(session, f"Report of run {run}", ids, shown, left_out)


def _report(session: Session, title: str, ids: list[str], rows: list[StoredProjection], left_out: str) -> str:
    views = [(action_view(session, each), proof_of(session, each)) for each in ids]
    proof = views[0][1]
    return page(
        "report.html",
        PageFacts(session.scope.tenant, session.scope.principal, offline=True),
        title=title,
        made_us=session.runtime.now_us(),
        release=version(DISTRIBUTION),
        head=proof.name,
        head_at_us=proof.head_at_us,
        keys=proof.keys,
        note=proof.note,
        views=views,
        summary=rows,
        left_out=left_out,
        step_text=STEP_TEXT,
        proof_text=_proof_text,
    )


def _proof_text(proof: ProofView) -> Markup:
    """The proof file as text. The parts are base64 and a signed note, and are escaped all the same."""
    return escape("" if proof.proof is None else proof.proof.to_bytes().decode("utf-8", "replace"))
