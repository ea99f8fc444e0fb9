"""The final reckoning: the truth of each step, compared with the reports of both agents.

Runs after all systems are idle. All counts come from truth and reports; the code does not know a step's intended end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from readback import Outcome, State
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.demo import naive
from readback.demo.agent import NOT_ON_RECORD, Done
from readback.demo.facts import Fact
from readback.demo.naive import Claim, Told
from readback.demo.overheard import Heard
from readback.demo.systems.truth import Truth

NAIVE_FALSE_SUCCESSES_MIN = 8
"""With fewer, the faults did not work as scripted, and the comparison would show nothing."""
SAID_MAX = 160


@dataclass(frozen=True, slots=True)
class Row:
    """One step: the tool's answer, the truth, and the reports of both agents."""

    id: str
    name: str
    pattern: str
    spoiled: str
    tool_said: str
    fact: Fact
    naive: Told
    readback: Told
    state: str
    discrepancy: str
    review: str
    first_said: str

    @property
    def naive_false(self) -> bool:
        """The naive agent reported a false success."""
        return self.naive.claim is Claim.DONE and not self.fact.done

    @property
    def readback_false(self) -> bool:
        """Readback reported a false success or a false reversal."""
        said = self.readback.claim
        return (said is Claim.DONE and not self.fact.done) or (said is Claim.REVERSED and not self.fact.undone)

    @property
    def naive_wrong(self) -> bool:
        """The naive agent reported a false success, or a failure of a true success."""
        return self.naive_false or (self.naive.claim is Claim.FAILED and self.fact.done)

    @property
    def missed(self) -> bool:
        """The effect is true, the system is readable again, and Readback did not report success."""
        return self.fact.done and self.readback.claim is not Claim.DONE


@dataclass(frozen=True, slots=True)
class Totals:
    """The final counts of the demo."""

    actions: int
    naive_false_successes: int
    readback_false_successes: int
    duplicated_effects: int
    """Extra effects of repeated calls by Readback. Effects doubled by a tool or a provider do not count."""
    missed_successes: int
    ledger_ok: bool

    @property
    def good(self) -> bool:
        """Whether Readback held its promises, and the faults were numerous enough to show it."""
        ours = (self.readback_false_successes, self.duplicated_effects, self.missed_successes)
        return self.ledger_ok and not any(ours) and self.naive_false_successes >= NAIVE_FALSE_SUCCESSES_MIN


def reckon(done: Sequence[Done], truth: Truth, heard: Sequence[Heard]) -> list[Row]:
    """One row for each step, in the order of the morning."""
    return [_row(each, truth, _heard_of(each.outcome, heard)) for each in done]


def _heard_of(outcome: Outcome | None, heard: Sequence[Heard]) -> list[Heard]:
    return [] if outcome is None else [each for each in heard if each.stamp == outcome.stamp]


def count(rows: Sequence[Row], truth: Truth, heard: Sequence[Heard], *, ledger_ok: bool) -> Totals:
    """The totals."""
    calls = [each.stamp for each in heard]
    called_again = {stamp for stamp in calls if calls.count(stamp) > 1}
    return Totals(
        actions=len(rows),
        naive_false_successes=sum(row.naive_false for row in rows),
        readback_false_successes=sum(row.readback_false for row in rows),
        duplicated_effects=sum(truth.repeated(stamp) for stamp in called_again),
        missed_successes=sum(row.missed for row in rows),
        ledger_ok=ledger_ok,
    )


def as_json(rows: Sequence[Row], totals: Totals) -> dict[str, Json]:
    """The morning's part of `readback demo --json`."""
    return {"actions": [_row_json(row) for row in rows], "totals": asdict(totals)}


def _row_json(row: Row) -> dict[str, Json]:
    return {
        "id": row.id or None,
        "name": row.name,
        "pattern": row.pattern or None,
        "spoiled": row.spoiled or None,
        "tool_said": row.tool_said if len(row.tool_said) <= SAID_MAX else row.tool_said[: SAID_MAX - 1] + "…",
        "truth": row.fact.text,
        "truly_done": row.fact.done,
        "naive_said": row.naive.words,
        "naive_claim": row.naive.claim.value,
        "readback_said": row.readback.words,
        "readback_said_at_first": row.first_said or None,
        "readback_claim": row.readback.claim.value,
        "state": row.state or None,
        "discrepancy": row.discrepancy or None,
    }


def _row(done: Done, truth: Truth, heard: Sequence[Heard]) -> Row:
    step, outcome = done.step, done.outcome
    phantom = step.propose is None
    return Row(
        id=outcome.id if outcome is not None else "",
        name=step.name,
        pattern=step.pattern,
        spoiled=step.spoiled,
        tool_said=said(heard, called=outcome is not None and outcome.attempts > 0),
        fact=step.truth(truth),
        naive=naive.repeat(step.name) if phantom else naive.tell(step.name, heard),
        readback=Told(claim_of(outcome), outcome.message if outcome is not None else NOT_ON_RECORD),
        state=outcome.state.value if outcome is not None else "",
        discrepancy=outcome.discrepancy.value if outcome is not None and outcome.discrepancy else "",
        review=outcome.review if outcome is not None else "",
        first_said=done.first,
    )


def claim_of(outcome: Outcome | None) -> Claim:
    """The claim in the words of an outcome."""
    if outcome is None:
        return Claim.FAILED
    if outcome.state is State.RECONCILED_SUCCESS and outcome.standing:
        return Claim.DONE
    match outcome.state:
        case State.COMPENSATED | State.ROLLED_BACK:
            return Claim.REVERSED
        case State.FAILED:
            return Claim.FAILED
        case _:
            return Claim.OPEN


def said(heard: Sequence[Heard], *, called: bool) -> str:
    """The first answer, as received by both agents."""
    if not heard:
        return "nothing: its process was killed" if called else "nothing: it was not called"
    answer = heard[0]
    if "Timeout" in answer.raised:
        return "timed out"
    if answer.raised:
        return "no answer" if "connection" in answer.text else f"raised {answer.raised.split()[0]}"
    return answer.text if answer.status is None else f"{answer.status} {answer.text}"
