"""An outcome in a few lines, the same after `run`, `resume` and `worker`, with verified claims only."""

from __future__ import annotations

from typing import Final

from readback.domain.discrepancy import DISCREPANCIES
from readback.domain.outcome.outcome import Outcome
from readback.domain.predicate import Truth
from readback.domain.state import EXIT_FAILED, EXIT_UNDETERMINED, EXIT_VERIFIED, State, exit_code
from readback.domain.verdict import Verdict
from readback.ports.storage.store import Projection
from readback.views.labels import ATTRIBUTION, outcome_label
from readback.views.text import BAD, NONE, OK, OPEN, json_or_text, quoted_name, safe, value

MARK_OF_TRUTH: Final = {Truth.HOLDS: OK, Truth.VIOLATED: BAD, Truth.UNDETERMINED: OPEN}
MARK_OF_EXIT: Final = {EXIT_VERIFIED: OK, EXIT_FAILED: BAD}
VALUES_SHOWN_MAX: Final = 8


def verdict_text(verdict: str, why: str) -> str:
    """The verdict with the reason for an open verdict."""
    words = verdict.replace("_", " ")
    return f"{words} ({why.replace('_', ' ')})" if why else words


def mark_of(outcome: Outcome) -> str:
    """The mark of an exit code: verified, not verified, or open."""
    if outcome.verdict is Verdict.NOT_CHECKED and outcome.exit_code != EXIT_FAILED:
        return NONE
    return MARK_OF_EXIT.get(outcome.exit_code, OPEN)


def headline(outcome: Outcome) -> str:
    """One line: the label of the state, contract, target."""
    return f"{outcome_label(outcome).upper()}  {safe(outcome.contract)} on {quoted_name(outcome.target)}"


def lines(outcome: Outcome) -> list[str]:
    """The known facts of an outcome, one a line."""
    said = [headline(outcome), f"  {outcome.message}"]
    said.append(f"  verdict: {verdict_text(outcome.verdict, outcome.why)}; cause: {ATTRIBUTION[outcome.attribution]}")
    if outcome.discrepancy is not None:
        row = DISCREPANCIES[outcome.discrepancy]
        said.append(f"  discrepancy: {outcome.discrepancy.value} ({outcome.discrepancy.code}): {row.definition}")
    for each in outcome.postconditions:
        if each.truth is not Truth.HOLDS:
            values = ", ".join(
                f"{safe(path, 80)} = {value(json_or_text(v))}" for path, v in each.values[:VALUES_SHOWN_MAX]
            )
            said.append(
                f"  {each.truth.value}: {safe(each.name)}: {safe(each.source)}" + (f"  [{values}]" if values else "")
            )
    if outcome.row:
        said.append(f"  decision: {outcome.row}: {plain(outcome.recovery)}")
    said += [f"  {line}" for line in shadow_lines(outcome)]
    if outcome.detail:
        said.append(f"  detail: {safe(outcome.detail)}")
    if outcome.code:
        said.append(f"  code: {safe(outcome.code)}")
    replay = ", replayed" if outcome.replayed else ""
    said.append(f"  id: {outcome.id}, operation: {safe(outcome.operation)}{replay}")
    return said


def verdict_of(projection: Projection) -> Verdict:
    """The reportable verdict. An unknown state refutes nothing, even after a contrary reading."""
    return Verdict.UNDETERMINED if projection.state == State.UNKNOWN else Verdict(projection.verdict)


def shown_verdict(projection: Projection) -> str:
    """The reportable verdict, in words."""
    return plain(verdict_of(projection))


def exit_of(projection: Projection) -> int:
    """The exit code of an action from the projection, equal to the outcome's code."""
    p = projection
    if p.state == State.RECONCILED_SUCCESS and (p.verdict != Verdict.VERIFIED or p.claim in ("contested", "retracted")):
        return EXIT_FAILED if p.claim == "retracted" else EXIT_UNDETERMINED
    return exit_code(State(p.state), held=bool(p.hold))


def shadow_lines(outcome: Outcome) -> list[str]:
    """The facts about an action in shadow mode; none for an enforced action."""
    if not outcome.mode:
        return []
    if outcome.shadow is None:
        return ["shadow mode: not judged yet"]
    judged = outcome.shadow
    found = f", {plain(judged.discrepancy.value)}" if judged.discrepancy is not None else ""
    refused = f"refused ({safe(judged.refused)})" if judged.refused else plain(judged.verdict.value)
    return [f"shadow mode: enforced, the verdict would have been {refused}{found}", safe(judged.conditional)]


def plain(word: str) -> str:
    """A vocabulary word with spaces."""
    return str(word).replace("_", " ")
