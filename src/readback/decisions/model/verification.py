"""The answer of a custom verifier. Public: authors import `VerificationResult` from `readback`.

`decisions.contracts.binding` accepts no other type and checks each answer again.

Source: the decision-type specification, "Implementing a Custom Verifier".
"""

from __future__ import annotations

from typing import Final

from readback.canon.frozen import dataclass
from readback.decisions.model.words import VerificationResultWord

ANSWERS: Final = frozenset(
    {VerificationResultWord.PASS.value, VerificationResultWord.FAIL.value, VerificationResultWord.INCONCLUSIVE.value}
)
DETAIL_MAX_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """A verifier's result: `outcome` is "pass", "fail" or "inconclusive", and `detail` gives the reason in one line.

    Any other value and any exception is an error of the verifier, reported as inconclusive.

    Example:
        >>> from readback import VerificationResult
        >>> def verify(context: dict[str, object]) -> VerificationResult:
        ...     if context["result"] is None:
        ...         return VerificationResult("inconclusive", "The test report is missing.")
        ...     return VerificationResult("pass")
        >>> verify({"result": None}).outcome
        'inconclusive'
    """

    outcome: str
    detail: str = ""

    def __post_init__(self) -> None:
        why = fault_of(self)
        if why:
            raise ValueError(why)


def fault_of(answer: object) -> str:
    """Return the fault of an answer, or "". Types are exact: a truth value or a word is no answer."""
    if type(answer) is not VerificationResult:
        return f"The verifier returned {type(answer).__name__} in place of a VerificationResult."
    if type(answer.outcome) is not str or answer.outcome not in ANSWERS:
        return "The outcome must be 'pass', 'fail' or 'inconclusive'."
    return "" if type(answer.detail) is str else "The detail must be a text."
