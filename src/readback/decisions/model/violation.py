"""A rule of an envelope that was broken, with what it allowed and what there was."""

from __future__ import annotations

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.decisions.model.words import Gate


@dataclass(frozen=True, slots=True)
class Violation:
    """`hard`: nothing is executed because of it (or the decision does not proceed). A limit itself is within."""

    gate: Gate
    field: str
    limit: Json
    actual: Json
    hard: bool
    message: str

    def as_json(self) -> dict[str, Json]:
        """The form for episodes and `--json`."""
        return {
            "gate": self.gate.value,
            "field": self.field,
            "limitValue": self.limit,
            "actualValue": self.actual,
            "severity": "hard" if self.hard else "soft",
            "message": self.message,
        }
