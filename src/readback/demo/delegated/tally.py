"""The reckoning of the delegation: the reports after each attempt, compared with the truth at the time of the answer.

All counts come from truth and reports; the code does not know which attempt succeeds. `tally` counts repeated calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.demo import naive
from readback.demo.delegated.chapter import OPERATION, Sent
from readback.demo.facts import Fact
from readback.demo.naive import Claim, Told
from readback.demo.overheard import Heard
from readback.demo.tally import claim_of, said

NAIVE_FALSE_SUCCESSES_MIN = 2
"""With fewer, the delegate did not lie as scripted, and the chapter would show nothing."""
NO_ANSWER = Fact(False, "it gave no answer")


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt: prompt, answer, truth at that time, and the reports of both agents."""

    id: str
    told: str
    said: str
    fact: Fact
    naive: Told
    readback: Told
    state: str
    discrepancy: str

    @property
    def naive_false(self) -> bool:
        """A believer of the delegate would report a false success."""
        return self.naive.claim is Claim.DONE and not self.fact.done

    @property
    def readback_false(self) -> bool:
        """Readback reported a false success."""
        return self.readback.claim is Claim.DONE and not self.fact.done

    @property
    def missed(self) -> bool:
        """The task is done, and Readback did not report success."""
        return self.fact.done and self.readback.claim is not Claim.DONE


@dataclass(frozen=True, slots=True)
class AttemptTotals:
    """The final counts of the chapter."""

    attempts: int
    naive_false_successes: int
    readback_false_successes: int
    missed_successes: int
    done: bool
    """The last attempt completed the task, and the report says so."""

    @property
    def good(self) -> bool:
        """Whether the delegate lied often enough, was never believed, and completed its task."""
        ours = (self.readback_false_successes, self.missed_successes)
        return self.done and not any(ours) and self.naive_false_successes >= NAIVE_FALSE_SUCCESSES_MIN


def reckon_attempts(sent: Sent, heard: Sequence[Heard]) -> list[AttemptRow]:
    """One row for each attempt, in order."""
    rows = []
    for number, outcome in enumerate(sent.delegated.outcomes):
        answers = [each for each in heard if each.stamp == outcome.stamp]
        answered = sent.answered.get(number)
        rows.append(
            AttemptRow(
                id=outcome.id,
                told=answered.prompt if answered is not None else "",
                said=said(answers, called=outcome.attempts > 0),
                fact=answered.fact if answered is not None else NO_ANSWER,
                naive=naive.tell(OPERATION, answers),
                readback=Told(claim_of(outcome), outcome.message),
                state=outcome.state.value,
                discrepancy=outcome.discrepancy.value if outcome.discrepancy else "",
            )
        )
    return rows


def count_attempts(rows: Sequence[AttemptRow]) -> AttemptTotals:
    """The totals."""
    return AttemptTotals(
        attempts=len(rows),
        naive_false_successes=sum(row.naive_false for row in rows),
        readback_false_successes=sum(row.readback_false for row in rows),
        missed_successes=sum(row.missed for row in rows),
        done=bool(rows) and rows[-1].fact.done and rows[-1].readback.claim is Claim.DONE,
    )


def attempts_as_json(rows: Sequence[AttemptRow], totals: AttemptTotals) -> dict[str, Json]:
    """The delegation's part of `readback demo --json`."""
    return {"attempts": [_row_json(row) for row in rows], "attempt_totals": asdict(totals)}


def _row_json(row: AttemptRow) -> dict[str, Json]:
    return {
        "id": row.id,
        "told": row.told,
        "delegate_said": row.said,
        "truth": row.fact.text,
        "truly_done": row.fact.done,
        "naive_said": row.naive.words,
        "readback_said": row.readback.words,
        "state": row.state,
        "discrepancy": row.discrepancy or None,
    }
