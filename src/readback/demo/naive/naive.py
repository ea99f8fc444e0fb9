"""The naive agent: believes what its tools answer, and tells its user so.

It hears the same answers of the same calls as Readback does. Its rules are those of many an agent, and they are all
that it has: nothing here knows which step is spoiled, or how.

    the tool returned, and no HTTP status says otherwise    it is done
    the tool answered with an HTTP status of 400 or more    it failed
    the tool timed out, or never answered                   it failed, and is tried again
    the tool raised anything else                           it failed
    the model says itself that it is done                   it is done
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from readback.canon.frozen import dataclass
from readback.demo.naive.overheard import Heard


class Claim(StrEnum):
    """What somebody tells the user about an action."""

    DONE = "done"
    REVERSED = "reversed"
    FAILED = "failed"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Told:
    """A claim, and its words."""

    claim: Claim
    words: str


def tell(task: str, heard: Sequence[Heard]) -> Told:
    """What the naive agent tells its user about a task, by the first answer to it."""
    if not heard:
        return Told(Claim.FAILED, f"No answer, trying again: {task}.")
    answer = heard[0]
    if "Timeout" in answer.raised:
        return Told(Claim.FAILED, f"Timed out, trying again: {task}.")
    if answer.raised or (answer.status is not None and answer.status >= 400):
        return Told(Claim.FAILED, f"Failed: {task}.")
    return Told(Claim.DONE, f"Done: {task}.")


def repeat(task: str) -> Told:
    """What it tells where the model says that it has acted. It does not ask whether there was a call."""
    return Told(Claim.DONE, f"Done: {task}.")
