"""Collects every fault of a contract before raising an error. The author sees all faults together.

Used by all of `contracts`. The callers decide what counts as a fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from difflib import get_close_matches

from readback.canon.frozen import dataclass
from readback.errors import ContractError, ExpressionError

PROBLEMS_MAX = 100


@dataclass(slots=True)
class Problems:
    """The faults of one contract, in the order of discovery; the first decides the raised error."""

    found: list[tuple[str, ContractError]] = field(default_factory=list)
    where: str = ""
    """The file and line of the author's own code; "" if unknown."""

    def add(self, key: str, error: ContractError) -> None:
        """Add a fault. `key`: the dotted place in the contract: `ensure.shipped`, `execute.timeout`."""
        self.found.append((key, error))

    def raise_any(self, contract: str) -> None:
        """Raises the first fault's child of ContractError; `details["problems"]` holds all faults."""
        if not self.found:
            return
        shown = self.found[:PROBLEMS_MAX]
        problems = [_described(key, error) for key, error in shown]
        lines = "; ".join(f"{key}: {error.message}" for key, error in shown)
        many = "" if len(self.found) == 1 else f" ({len(self.found)} problems)"
        first = self.found[0][1]
        place = f" Defined at {self.where}." if self.where else ""
        message = f"The contract {contract!r} cannot be loaded{many}. {lines}{place}"
        remedy = first.remedy if len({error.remedy for _, error in shown}) == 1 else "Correct every listed fault."
        details = {"contract": contract, "problems": problems}
        if isinstance(first, ExpressionError):
            raise ExpressionError(
                message,
                source=first.source,
                column=first.column,
                remedy=remedy,
                details=details,
                code=first.code,
            ) from None  # the first fault is in the message: a chain of tracebacks would only hide it
        raise type(first)(message, remedy=remedy, details=details, code=first.code) from None


def _described(key: str, error: ContractError) -> dict[str, object]:
    said: dict[str, object] = {"key": key, "reason": error.message, "code": error.code}
    if isinstance(error, ExpressionError):
        said |= {"source": error.source, "column": error.column}
    return said


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence with the nearest known word, or the list of words; empty without any word."""
    words = sorted({str(each) for each in known})
    near = get_close_matches(word, words, n=1, cutoff=0.6)
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" There are: {', '.join(words)}." if words and len(words) <= 40 else ""
