"""The naive agent: believes and reports the answers of tools.

The naive agent receives the same answers of the same calls as Readback. Its rules are common among agents. Nothing here
knows the faults:

    the tool returned, and no HTTP status says otherwise    done
    the tool answered with an HTTP status of 400 or more    failed
    the tool timed out, or never answered                   failed, and tried again
    the tool raised anything else                           failed
    the model itself claims success                         done
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from readback.canon.frozen import dataclass
from readback.demo.overheard import Heard


class Claim(StrEnum):
    """A report to the user about an action."""

    DONE = "done"
    REVERSED = "reversed"
    FAILED = "failed"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Told:
    """A claim and its words."""

    claim: Claim
    words: str


def tell(task: str, heard: Sequence[Heard]) -> Told:
    """The naive agent's report about a task, from the first answer."""
    if not heard:
        return Told(Claim.FAILED, f"No answer, trying again: {task}.")
    answer = heard[0]
    if "Timeout" in answer.raised:
        return Told(Claim.FAILED, f"Timed out, trying again: {task}.")
    if answer.raised or (answer.status is not None and answer.status >= 400):
        return Told(Claim.FAILED, f"Failed: {task}.")
    return Told(Claim.DONE, f"Done: {task}.")


def repeat(task: str) -> Told:
    """The naive agent's report of an action claimed by the model. The agent does not check for a call."""
    return Told(Claim.DONE, f"Done: {task}.")
