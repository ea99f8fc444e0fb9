"""What may be said of a saga: the words of its state, and the names of the steps that each word is true of.

Called with a reconciled outcome and nothing else. The statement about the whole is `reporting`'s, with its one gate for
completion; here the steps are told beside it, so that a partial success is told as partial, by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.domain.outcome.reporting import PARTS_MAX, USER_STATUS, ReportInput, model_text, quoted, user_text
from readback.domain.state import ReportKey, State
from readback.domain.verification.observation_signs import one_line

Words = tuple[tuple[str, "StepWord"], ...]


class StepWord(StrEnum):
    """What may be said of one step."""

    COMPLETED = "completed"
    """Reconciled as success, and not reversed."""
    LEFT = "left"
    """Verified, and left as it is by a saga that turned back: it only read, or no effect of ours is shown."""
    REVERSED = "reversed"
    """Its effect was reversed, and that was read back."""
    REVERSING = "reversing"
    NOT_REVERSED = "not_reversed"
    """Its reversal failed: the effect has to be expected to be there still."""
    FAILED = "failed"
    """It has no effect of ours, and none can follow."""
    UNKNOWN = "unknown"
    REVIEW = "review"
    HELD = "held"
    PENDING = "pending"
    NOT_BEGUN = "not_begun"


_W = StepWord
STEP_TEXT: Final = MappingProxyType(
    {
        _W.COMPLETED: "Completed and verified",
        _W.LEFT: "Verified, nothing of ours to reverse",
        _W.REVERSED: "Reversed, verified",
        _W.REVERSING: "Being reversed",
        _W.NOT_REVERSED: "Not reversed, the effect may still be there",
        _W.FAILED: "Failed",
        _W.UNKNOWN: "Unknown, being verified",
        _W.REVIEW: "To be reviewed by a person",
        _W.HELD: "Not executed, held",
        _W.PENDING: "In progress",
        _W.NOT_BEGUN: "Not begun",
    }
)
"""What a user may be told of steps, followed by their names. Every word, in this order."""

_DONE: Final = frozenset({_W.COMPLETED, _W.LEFT, _W.REVERSED})
_PARTIAL: Final = frozenset({State.REVIEW_REQUIRED, State.FORWARD_RECOVERY, State.ABANDONED})
"""The states in which a saga with something done is told as partial, and not by its state alone."""


def saga_user_text(report: ReportInput, words: Words) -> str:
    """The only words about a saga that a user may be told."""
    return f"{_whole(report, words)} {steps_text(words)}".rstrip()


def _whole(report: ReportInput, words: Words) -> str:
    said = user_text(_bare(report))
    standing = any(word is StepWord.COMPLETED for _, word in words)
    if report.state not in _PARTIAL or not standing:
        return said
    unresolved = [name for name, word in words if word not in _DONE]
    if not unresolved:
        return said
    partial = f"{USER_STATUS[ReportKey.PARTIAL]}: {_names(unresolved)}."
    return partial if report.state is not State.REVIEW_REQUIRED else f"{partial} {REVIEWED}"


def steps_text(words: Words) -> str:
    """The steps by what is true of them."""
    said = ((text, [name for name, each in words if each is word]) for word, text in STEP_TEXT.items())
    return " ".join(f"{text}: {_names(names)}." for text, names in said if names)


REVIEWED: Final = "It requires review by a person."


def saga_model_text(report: ReportInput, words: Words) -> str:
    """The only text about a saga that goes into the model's next context: the action's, and a line for the steps."""
    first, *lines, pointers, _ = model_text(_bare(report)).split("\n")
    lines = [first.replace("[action outcome]", "[saga outcome]", 1), *lines]
    if report.state is State.FORWARD_RECOVERY:
        lines = [*lines, "Recovery: the steps that are missing are completed by the system; do not begin any of them."]
    told = quoted(saga_user_text(report, words), 4096)
    return "\n".join([*lines, f"Steps: {_listed(words)}", pointers, f"Tell the user only: {told}"])


def _bare(report: ReportInput) -> ReportInput:
    """Without the parts, which are told as steps."""
    return replace(report, parts_done=(), parts_open=())


def _names(names: list[str]) -> str:
    shown = ", ".join(one_line(name, 80) for name in names[:PARTS_MAX])
    return shown if len(names) <= PARTS_MAX else f"{shown} and {len(names) - PARTS_MAX} more"


def _listed(words: Iterable[tuple[str, StepWord]]) -> str:
    shown = list(words)
    listed = ", ".join(f"{quoted(name, 80)} {word.value}" for name, word in shown[:PARTS_MAX])
    return listed if len(shown) <= PARTS_MAX else f"{listed} and {len(shown) - PARTS_MAX} more"
