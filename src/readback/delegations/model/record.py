"""A delegation's record: each attempt's outcome, what they came to, and the four attributes of its span.

Made by `sdk.delegating` on every path, errors too; given to callers, and printed. What was answered is a claim: only
`passed` says that it was read back.
"""

from __future__ import annotations

from dataclasses import field
from typing import NoReturn

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.delegations.model import words
from readback.delegations.model.words import VerifyOutcome
from readback.domain.errors import HonestyError
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import EXIT_FAILED, EXIT_UNDETERMINED


@dataclass(slots=True)
class Delegated:
    """What became of a delegation. It has no truth value: ask `passed`.

    `result` is the delegate's last answer, as hooks rewrote it; None where it was withheld or there is none.
    `attempts`: how often what the delegate did was verified. `withheld`: why a hook kept an accepted result back.
    """

    id: str
    task: str
    kind: str = ""
    verify_outcome: VerifyOutcome = VerifyOutcome.UNDETERMINED
    attempts: int = 0
    reason: str = ""
    result: dict[str, Json] | None = None
    withheld: str = ""
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """The last attempt was read back and accepted, and nothing kept its result back."""
        return self.verify_outcome is VerifyOutcome.PASSED and not self.withheld

    @property
    def response(self) -> str:
        """The delegate's last words."""
        return str((self.result or {}).get("response", ""))

    @property
    def attributes(self) -> dict[str, Json]:
        """The attributes of the span `delegation.execute`."""
        return {
            words.ATTRIBUTE_ID: self.id,
            words.ATTRIBUTE_KIND: self.kind,
            words.ATTRIBUTE_ATTEMPTS: self.attempts,
            words.ATTRIBUTE_PASSED: self.verify_outcome is VerifyOutcome.PASSED,
            words.ATTRIBUTE_OUTCOME: self.verify_outcome.value,
        }

    @property
    def exit_code(self) -> int:
        """The command line's: 0 only where it passed."""
        if self.passed:
            return 0
        if self.withheld or self.verify_outcome is VerifyOutcome.FAILED:
            return EXIT_FAILED
        last = self.outcomes[-1] if self.outcomes else None
        if last is None or (last.attempted and last.exit_code == EXIT_FAILED):
            return EXIT_UNDETERMINED  # what was refuted, and may still be at work
        return last.exit_code or EXIT_UNDETERMINED

    def as_json(self) -> dict[str, Json]:
        """For `--json` and for programs."""
        return {
            "id": self.id,
            "passed": self.passed,
            "verify_outcome": self.verify_outcome.value,
            "attempts": self.attempts,
            "reason": self.reason,
            "withheld": self.withheld,
            "result": self.result,
            "attributes": self.attributes,
            "actions": [each.id for each in self.outcomes],
            "exit_code": self.exit_code,
        }

    def __bool__(self) -> NoReturn:
        raise HonestyError("A delegation is neither true nor false.", remedy="Ask `.passed`, or `.verify_outcome`.")
