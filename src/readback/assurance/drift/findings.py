"""The findings of a drift check: changed, gone or new, with the clauses at risk. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from readback.assurance.results import Standing, worst
from readback.canon import Json
from readback.canon.frozen import dataclass


class Change(StrEnum):
    """The kind of a difference."""

    CHANGED = "changed"
    GONE = "gone"
    NEW = "new"
    UNSEEN = "unseen"
    """Not compared: the source or the server gave no answer, or the record has nothing to compare with."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference.

    Attributes:
        subject: The examined part: `tool`, `argument`, `field`, `reader`, `answer`, `error` or `latency`.
        name: The name of the part, such as a field's path.
        at_risk: The contract's clauses that depend on the part, such as `ensure.status`; empty for none.
    """

    change: Change
    subject: str
    name: str
    said: str
    at_risk: tuple[str, ...] = ()

    @property
    def standing(self) -> Standing:
        """Failed for a difference with clauses at risk, undetermined for a part without a comparison."""
        if self.change is Change.UNSEEN:
            return Standing.UNDETERMINED
        return Standing.FAILED if self.at_risk else Standing.PASSED

    def as_json(self) -> dict[str, Json]:
        """Return the difference as plain data."""
        return {
            "change": self.change.value, "subject": self.subject, "name": self.name, "said": self.said,
            "at_risk": [*self.at_risk], "standing": self.standing.value,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class ContractDrift:
    """All differences of one contract. `last`: the id of the last verified action; "" for none on record."""

    contract: str
    last: str
    last_us: int
    found: tuple[Drift, ...] = ()
    compared: Mapping[str, int] = field(default_factory=dict)
    """The number of compared parts, by subject."""

    @property
    def standing(self) -> Standing:
        """The worst standing of the differences; undetermined without any comparison."""
        if not self.compared and not self.found:
            return Standing.UNDETERMINED
        return worst([Standing.PASSED, *(each.standing for each in self.found)])

    def as_json(self) -> dict[str, Json]:
        """Return the result as plain data."""
        return {
            "contract": self.contract,
            "standing": self.standing.value,
            "last_verified": self.last,
            "last_verified_us": self.last_us,
            "compared": dict(self.compared),
            "found": [each.as_json() for each in self.found],
        }


NEVER: Final = "No verified action of this contract is on record, so there is nothing to compare with."
