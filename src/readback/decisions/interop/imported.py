"""What an importer found in another system's file: statements with their evidence, and never a verdict of ours.

Used by every importer and by `readback import`. The verdict beside a statement is `not_checked`, for nothing was read
back here; a pass that comes without evidence is `undetermined`, and its reason is `unverifiable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.decisions.contracts.document import Finding
from readback.domain.errors.decision import ForeignFileError
from readback.domain.verdict import Verdict, Why

FORMAT: Final = 1
FINDINGS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing that the file says. `said`: its own word; `evidence`: what it gives for that, by its own word too."""

    subject: str
    said: str
    evidence: Mapping[str, Json] = field(default_factory=dict)
    why: Why = Why.NONE
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Never verified and never refuted."""
        return Verdict.NOT_CHECKED if self.why is Why.NONE else Verdict.UNDETERMINED

    def as_json(self) -> dict[str, Json]:
        """As plain data, for `--json` and for programs."""
        return {
            "subject": self.subject,
            "said": self.said,
            "evidence": dict(self.evidence),
            "verdict": self.verdict.value,
            "why": self.why.value,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Imported:
    """One file. `seal`: the rule by which it is sealed, "" where none matches, None where its format has no seal.

    `sound` is about the file's own integrity alone: its seal, or its trace's checks, hold.
    """

    kind: str
    sha256: str
    statements: tuple[Statement, ...]
    facts: Mapping[str, Json] = field(default_factory=dict)
    seal: str | None = None
    sound: bool = True
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """As plain data, for `--json` and for programs."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "sha256": self.sha256,
            "seal": self.seal,
            "sound": self.sound,
            "facts": dict(self.facts),
            "statements": [each.as_json() for each in self.statements],
            "notes": list(self.notes),
        }


def refuse_any(findings: Sequence[Finding], what: str, name: str) -> None:
    """Raises ForeignFileError with every reason, if there is one."""
    if not findings:
        return
    shown = findings[:FINDINGS_MAX]
    many = "1 reason" if len(findings) == 1 else f"{len(findings)} reasons"
    lines = "; ".join(each.line(name) for each in shown)
    raise ForeignFileError(
        f"This is no {what} ({many}). {lines}",
        details={"problems": [each.as_json(name) for each in shown], "reasons": len(findings)},
    )


def backed(evidence: Mapping[str, Json], *, passing: bool) -> Why:
    """Why a statement cannot even be checked: a pass that names nothing it stands on."""
    return Why.UNVERIFIABLE if passing and not any(_holds_something(each) for each in evidence.values()) else Why.NONE


def _holds_something(value: Json) -> bool:
    """Some leaf of it is neither empty nor false: a form that was left blank is no evidence."""
    if isinstance(value, dict | list):
        return any(_holds_something(each) for each in (value.values() if isinstance(value, dict) else value))
    return value not in (None, "", False)
