"""What a custom verifier answers. Public: authors of verifiers import `VerificationResult` from `readback`.

Read by `contracts.decisions.binding`, which believes nothing but this type, checked again when it is received.

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
    """What a verifier found: `outcome` is "pass", "fail" or "inconclusive", and `detail` says why in one line.

    Anything else that a verifier returns or raises is an error of the verifier: inconclusive, and told as that.
    """

    outcome: str
    detail: str = ""

    def __post_init__(self) -> None:
        why = fault_of(self)
        if why:
            raise ValueError(why)


def fault_of(answer: object) -> str:
    """Why this is no answer of a verifier; "" where it is one. By exact types: a truth value or a word is none."""
    if type(answer) is not VerificationResult:
        return f"It answered {type(answer).__name__}, and no VerificationResult."
    if type(answer.outcome) is not str or answer.outcome not in ANSWERS:
        return "Its outcome is none of 'pass', 'fail' and 'inconclusive'."
    return "" if type(answer.detail) is str else "Its detail is no text."
