"""The outcome of a saga: the reconciled result of all its steps together, and of each alone.

Returned to Python users, and printed by every interface. Like an action's outcome, with steps as its parts. The text of
a partial outcome names the done, reversed and open steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.outcome.outcome import Outcome
from readback.domain.outcome.reporting import (
    PARTS_MAX,
    USER_STATUS,
    ReportInput,
    Wording,
    model_text,
    quoted,
    report_key,
    user_text,
)
from readback.domain.state import TERMINAL, ReportKey, State
from readback.domain.verification.observation_signs import one_line
from readback.errors import CitationError

# Texts about a saga: the words of its state, and the steps' names by status.

Words = tuple[tuple[str, "StepWord"], ...]
Times = Mapping[str, int]
"""`StepOutcome.verified_us` by step; only steps with a verified effect."""
NO_TIMES: Final[Times] = MappingProxyType({})
SECOND_US: Final = 1_000_000


class StepWord(StrEnum):
    """Status of one step in texts."""

    COMPLETED = "completed"
    """Reconciled as success, and not reversed."""
    LEFT = "left"
    """Verified, and left in place by a saga in reverse: the step only read, or shows no effect of ours."""
    REVERSED = "reversed"
    """Its effect was reversed, and a reading verified the reversal."""
    REVERSING = "reversing"
    NOT_REVERSED = "not_reversed"
    """Its reversal failed, so the effect may still exist."""
    FAILED = "failed"
    """No effect of ours exists, and none can follow."""
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
"""Texts about steps for users, followed by step names. Every status, in this order."""

_DONE: Final = frozenset({_W.COMPLETED, _W.LEFT, _W.REVERSED})
_PARTIAL: Final = frozenset({State.REVIEW_REQUIRED, State.FORWARD_RECOVERY, State.ABANDONED})
"""States reported as partial where a step is done."""


def saga_user_text(report: ReportInput, words: Words, verified_us: Times = NO_TIMES) -> str:
    """The only text about a saga for users. `verified_us`: see `StepOutcome`, by step."""
    when = _when(verified_us) if report_key(report) is ReportKey.COMPLETED else ""
    return f"{_whole(report, words)}{when} {steps_text(words)}".rstrip()


def _when(verified_us: Times) -> str:
    """The times of the steps' readings. A saga does not read all steps again at its end, so its text claims no more."""
    if not verified_us:
        return ""
    first, last = _moment(min(verified_us.values())), _moment(max(verified_us.values()))
    if first == last:
        return f" Each step was read back at {first}."
    return f" Each step was read back at its own end: the first at {first}, the last at {last}."


def _moment(at_us: int) -> str:
    """A time in UTC, rounded down to the second: what happened after it is not in the reading."""
    return f"{datetime.fromtimestamp(at_us // SECOND_US, UTC):%Y-%m-%d %H:%M:%S} UTC"


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
    """The steps, grouped by status."""
    said = ((text, [name for name, each in words if each is word]) for word, text in STEP_TEXT.items())
    return " ".join(f"{text}: {_names(names)}." for text, names in said if names)


REVIEWED: Final = "It requires review by a person."


def saga_model_text(report: ReportInput, words: Words, verified_us: Times = NO_TIMES) -> str:
    """The only text about a saga for the model's next context: the action's text, and a line for the steps."""
    first, *lines, pointers, _ = model_text(_bare(report)).split("\n")
    lines = [first.replace("[action outcome]", "[saga outcome]", 1), *lines]
    if report.state is State.FORWARD_RECOVERY:
        lines = [*lines, "Recovery: the steps that are missing are completed by the system; do not begin any of them."]
    told = quoted(saga_user_text(report, words, verified_us), 4096)
    steps = [f"Steps: {_listed(words)}", *_times_listed(words, verified_us)]
    return "\n".join([*lines, *steps, pointers, f"Tell the user only: {told}"])


def _times_listed(words: Words, verified_us: Times) -> list[str]:
    shown = [f"{quoted(name, 80)} {_moment(verified_us[name])}" for name, _ in words if name in verified_us]
    if not shown:
        return []
    more = f" and {len(shown) - PARTS_MAX} more" if len(shown) > PARTS_MAX else ""
    return [f"Read back at: {', '.join(shown[:PARTS_MAX])}{more}. Changes since then are not seen."]


def _bare(report: ReportInput) -> ReportInput:
    """The outcome without its parts. The steps replace the parts."""
    return replace(report, parts_done=(), parts_open=())


def _names(names: list[str]) -> str:
    shown = ", ".join(one_line(name, 80) for name in names[:PARTS_MAX])
    return shown if len(names) <= PARTS_MAX else f"{shown} and {len(names) - PARTS_MAX} more"


def _listed(words: Iterable[tuple[str, StepWord]]) -> str:
    shown = list(words)
    listed = ", ".join(f"{quoted(name, 80)} {word.value}" for name, word in shown[:PARTS_MAX])
    return listed if len(shown) <= PARTS_MAX else f"{listed} and {len(shown) - PARTS_MAX} more"


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """One step. `word`: its status. `outcome`: its action's outcome, None before the step begins.

    `compensation`: the reversal's outcome, or None. `tries`: number of attempts under its key. `code` and `detail`: why
    the step could not be proposed. `verified_us`: time in microseconds of the last reading that verified the step, or 0
    without a standing effect. Later changes are seen only by later looks (`watch`).

    Example:
        >>> from readback import Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     step = rb.saga([switch().as_step("light")], name="evening").steps["light"]
        >>> print(step.name, step.word.value, step.outcome.verified)
        light completed True
    """

    name: str
    word: StepWord
    contract: str
    region: str
    after: tuple[str, ...] = ()
    outcome: Outcome | None = None
    compensation: Outcome | None = None
    tries: int = 0
    code: str = ""
    detail: str = ""
    verified_us: int = 0

    @property
    def state(self) -> State | None:
        """The state of its action, None before the step begins."""
        return None if self.outcome is None else self.outcome.state

    def as_json(self) -> dict[str, Json]:
        """The step's part of the saga's outcome, without the outcomes of its actions."""
        return {
            "name": self.name,
            "word": self.word.value,
            "contract": self.contract,
            "region": self.region,
            "after": list(self.after),
            "action": "" if self.outcome is None else self.outcome.id,
            "state": None if self.outcome is None else self.outcome.state.value,
            "verified": self.outcome is not None and self.outcome.verified,
            "verified_us": self.verified_us,
            "compensation": "" if self.compensation is None else self.compensation.id,
            "compensation_state": None if self.compensation is None else self.compensation.state.value,
            "compensation_verified": self.compensation is not None and self.compensation.verified,
            "tries": self.tries,
            "code": self.code,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class SagaOutcome(Outcome):
    """The outcome of a saga. `steps`: by name, in the given order. `heading`: "onward", "backward" or "forward".

    `because`: the step behind the direction or the wait.

    Example:
        >>> from readback import Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     saga = rb.saga([switch().as_step("light")], name="evening")
        >>> print(saga.verified, saga.state.value, list(saga.steps))
        True reconciled_success ['light']
    """

    steps: Mapping[str, StepOutcome] = field(default_factory=dict)
    heading: str = "onward"
    because: str = ""
    name: str = ""
    quiet: bool = False
    """No progress is near: the saga waits for a person, an approval, or an unknown result."""

    @property
    def settled(self) -> bool:
        """No progress is near: the saga has ended, is held, or waits for an unknown result."""
        return self.quiet or self.state in TERMINAL or self.state is State.UNKNOWN

    @property
    def message(self) -> str:
        """The only text for users."""
        return saga_user_text(self._report(), self._words(), self._times())

    def for_model(self) -> str:
        """The only text for the model's next context. It states whether a repetition is allowed."""
        return saga_model_text(self._report(), self._words(), self._times())

    def wording(self) -> Wording:
        """`message`, `for_model()` and `repeat_allowed` together."""
        return Wording(self.message, self.for_model(), self.repeat_allowed, self.in_doubt)

    def raise_unless_verified(self) -> SagaOutcome:
        """Return the outcome itself where every step stands as verified. Else raise NotVerifiedError with the
        outcome.
        """
        Outcome.raise_unless_verified(self)
        return self

    def cite(self, place: str = "") -> str:
        """Raise CitationError: claims belong to actions, and so do citations."""
        raise CitationError(
            f"{self.id} is a saga. Only actions can be cited.",
            code="citation.saga",
            remedy="Cite its steps: outcome.steps[...].outcome.cite().",
        )

    def _words(self) -> tuple[tuple[str, StepWord], ...]:
        return tuple((step.name, step.word) for step in self.steps.values())

    def _times(self) -> Times:
        return {step.name: step.verified_us for step in self.steps.values() if step.verified_us}

    def as_json(self, message: str = "") -> dict[str, Json]:
        """The outcome as plain data, for `--json` and for programs. `message`: the text, where it is at hand."""
        steps: list[Json] = [step.as_json() for step in self.steps.values()]
        return {
            **Outcome.as_json(self, message),
            "kind": "saga",
            "name": self.name,
            "heading": self.heading,
            "because": self.because,
            "steps": steps,
        }
