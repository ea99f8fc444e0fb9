"""The outcome of a saga: what is reconciled of all its steps together, and of each by itself.

Made by lifecycle.saga.report; given to Python users, and printed by every surface. It is an outcome like an action's,
whose parts are the steps; a partial one is told by the names of what is done, reversed and open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.errors.citation import CitationError
from readback.domain.outcome.outcome import Outcome
from readback.domain.outcome.reporting import Wording
from readback.domain.saga.reporting import StepWord, saga_model_text, saga_user_text
from readback.domain.state import TERMINAL, State


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """One step. `word` is what may be said of it; `outcome` is its action's, None where it was not begun, and
    `compensation` its reversal's, None where there is none. `tries`: how often it was begun under its one key.
    `code` and `detail` say why it could not even be proposed.
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

    @property
    def state(self) -> State | None:
        """The state of its action, None where it was not begun."""
        return None if self.outcome is None else self.outcome.state

    def as_json(self) -> dict[str, Json]:
        """Its part of the saga's outcome, less what its actions' own outcomes say."""
        return {
            "name": self.name,
            "word": self.word.value,
            "contract": self.contract,
            "region": self.region,
            "after": list(self.after),
            "action": "" if self.outcome is None else self.outcome.id,
            "state": None if self.outcome is None else self.outcome.state.value,
            "verified": self.outcome is not None and self.outcome.verified,
            "compensation": "" if self.compensation is None else self.compensation.id,
            "compensation_state": None if self.compensation is None else self.compensation.state.value,
            "compensation_verified": self.compensation is not None and self.compensation.verified,
            "tries": self.tries,
            "code": self.code,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class SagaOutcome(Outcome):
    """What became of a saga. `steps` by name, in the order in which they were given; `heading` is which way it goes
    ("onward", "backward", "forward"), `because` the step for which it turned or on which it waits.
    """

    steps: Mapping[str, StepOutcome] = field(default_factory=dict)
    heading: str = "onward"
    because: str = ""
    name: str = ""
    quiet: bool = False
    """Nothing more is going to happen soon: it waits for a person, an approval, or for what is unknown."""

    @property
    def settled(self) -> bool:
        """Nothing more is going to happen soon: it has ended, is held, or waits for what stays unknown."""
        return self.quiet or self.state in TERMINAL or self.state is State.UNKNOWN

    @property
    def message(self) -> str:
        """The only words a user may be told."""
        return saga_user_text(self._report(), self._words())

    def for_model(self) -> str:
        """The only text that goes into the model's next context. It says whether repeating is allowed."""
        return saga_model_text(self._report(), self._words())

    def wording(self) -> Wording:
        """`message`, `for_model()` and `repeat_allowed` at once."""
        return Wording(self.message, self.for_model(), self.repeat_allowed)

    def raise_unless_verified(self) -> SagaOutcome:
        """Itself, where every step stands as verified. Raises NotVerifiedError, which carries it, for all else."""
        Outcome.raise_unless_verified(self)
        return self

    def cite(self, place: str = "") -> str:
        """Raises CitationError: claims are of actions, and so are citations."""
        raise CitationError(
            f"{self.id} is a saga, and citations are of actions.",
            code="citation.saga",
            remedy="Cite its steps: outcome.steps[...].outcome.cite().",
        )

    def _words(self) -> tuple[tuple[str, StepWord], ...]:
        return tuple((step.name, step.word) for step in self.steps.values())

    def as_json(self) -> dict[str, Json]:
        """The outcome as plain data, for `--json` and for programs."""
        steps: list[Json] = [step.as_json() for step in self.steps.values()]
        return {
            **Outcome.as_json(self),
            "kind": "saga",
            "name": self.name,
            "heading": self.heading,
            "because": self.because,
            "steps": steps,
        }
