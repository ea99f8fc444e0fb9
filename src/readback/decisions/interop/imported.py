"""Statements of another system's file with their evidence, and never a verdict of ours.

Used by every importer and by `readback import`. The verdict of a statement is `not_checked`, since nothing was read
back. A pass without evidence is `undetermined` with the reason `unverifiable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from readback.agent_errors import ForeignFileError
from readback.canon import Json, sha256_hex
from readback.canon.frozen import dataclass
from readback.decisions.contracts.document import Finding
from readback.decisions.contracts.shapes import Fields, Flag, Shape, Text, Whole
from readback.domain.verdict import Verdict, Why
from readback.traces import TraceError
from readback.traces.format.strict_json import strict_json

FORMAT: Final = 1
FINDINGS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of the file. `said` is the file's word, and `evidence` its stated evidence."""

    subject: str
    said: str
    evidence: Mapping[str, Json] = field(default_factory=dict)
    why: Why = Why.NONE
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict: never verified and never refuted."""
        return Verdict.NOT_CHECKED if self.why is Why.NONE else Verdict.UNDETERMINED

    def as_json(self) -> dict[str, Json]:
        """Return plain data for `--json` and for programs."""
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
    """One file. `seal` is the matching rule, "" without a match, None for a format without seals.

    `sound` covers the file's own integrity alone: its seal, or its trace's checks.
    """

    kind: str
    sha256: str
    statements: tuple[Statement, ...]
    facts: Mapping[str, Json] = field(default_factory=dict)
    seal: str | None = None
    sound: bool = True
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Return plain data for `--json` and for programs."""
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
    """Raise ForeignFileError with every reason, if any."""
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
    """Return the reason against a check of a statement: a pass without any named evidence."""
    return Why.UNVERIFIABLE if passing and not any(_holds_something(each) for each in evidence.values()) else Why.NONE


def _holds_something(value: Json) -> bool:
    """Whether some leaf is neither empty nor false. A blank form is no evidence."""
    if isinstance(value, dict | list):
        return any(_holds_something(each) for each in (value.values() if isinstance(value, dict) else value))
    return value not in (None, "", False)


# Claim and verification ledgers as JSON lines: one statement a line, made again by the rule of the pattern.

LINES_MAX: Final = 100_000
LINE_MAX_BYTES: Final = 65_536
LEDGER_MAX_BYTES: Final = 16_777_216
RETRACTION: Final = "claim.retracted"
_MOMENT: Final = Text(moment=True)
_WHAT: Final[dict[str, Shape]] = {"to": Text(), "subject": Text(), "delivery_id": Text(), "sourceAgent": Text()}

_RETRACTED: Final = Fields(
    {
        **_WHAT,
        "recordedAt": _MOMENT,
        "event_type": Text(among=(RETRACTION,)),
        "alias": Text(among=("claim_retracted",)),
        "claim": Text(least=1),
        "verdict": Text(among=("contested",)),
        "reason": Text(),
        "recommended_action": Text(),
    },
    ("recordedAt", "event_type", "claim", "verdict", "confidence", "reason", "delivery_id"),
    open=True,
)
_RETRACTED_KEYS: Final = frozenset({*_RETRACTED.keys, "confidence"})

_VERIFIED: Final = Fields(
    {
        **_WHAT,
        "recordedAt": _MOMENT,
        "accepted": Flag(),
        "verified": Flag(),
        "attempt": Whole(1),
        "attempts": Whole(1),
        "envelopeId": Text(),
        "verificationMethod": Text(),
        "verificationFolder": Text(),
        "error": Text(),
    },
    ("verified",),
)
_EVIDENCE: Final = ("envelopeId", "verificationMethod", "verificationFolder", "attempt", "attempts", "error")
_STANDS_ON: Final = ("envelopeId", "verificationMethod", "verificationFolder")


def import_claims(content: bytes, name: str) -> Imported:
    """Read every line of a ledger. Raises ForeignFileError with every reason of every line."""
    findings: list[Finding] = []
    statements: list[Statement] = []
    if len(content) > LEDGER_MAX_BYTES:
        refuse_any([Finding("", f"The file is over {LEDGER_MAX_BYTES} bytes.")], "ledger of claims", name)
    lines = content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if not lines or len(lines) > LINES_MAX:
        findings.append(Finding("", f"It has {len(lines)} lines, and takes 1 to {LINES_MAX}."))
    for number, line in enumerate(lines[:LINES_MAX], 1):
        where = f"line {number}"
        try:
            value = strict_json(line, where, bytes_max=LINE_MAX_BYTES)
        except TraceError as error:
            findings.append(Finding(where, error.message))
            continue
        wrong = [*_faults(value)]
        findings += [Finding(f"{where}.{path}" if path else where, said) for path, said in wrong]
        if not wrong:
            statements.append(_statement(value, where))
    refuse_any(findings, "ledger of claims", name)
    said: dict[str, Json] = {"lines": len(statements)}
    for each in statements:
        said[each.said] = int(str(said.get(each.said, 0))) + 1
    return Imported("claims", sha256_hex(content), tuple(statements), said)


def _faults(value: Json) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and "event_type" in value:
        yield from _RETRACTED.faults(value, "")
        for key in value:
            if key not in _RETRACTED_KEYS:
                yield key, "There is no such key."
        confidence = value.get("confidence", 0)
        if type(confidence) not in (int, float) or not 0 <= float(str(confidence)) <= 1:
            yield "confidence", "It is a number from 0 to 1."
        return
    yield from _VERIFIED.faults(value, "")
    if isinstance(value, dict) and value.get("verified") is True and value.get("accepted") is False:
        yield "verified", "The send was not accepted, so the pattern's own rule does not count the send as verified."


def _statement(value: dict[str, Any], where: str) -> Statement:
    subject = f"{where}: {value.get('delivery_id') or value.get('envelopeId') or 'no id'}"
    if "event_type" in value:
        evidence: dict[str, Json] = {key: value[key] for key in ("claim", "reason", "confidence")}
        return Statement(subject, "contested", evidence)
    evidence = {key: value[key] for key in _EVIDENCE if key in value}
    if value["verified"]:
        stands_on: dict[str, Json] = {key: evidence[key] for key in _STANDS_ON if key in evidence}
        notes = () if "accepted" in value else ("The line does not state whether the send was accepted.",)
        return Statement(subject, "verified", evidence, backed(stands_on, passing=True), notes)
    return Statement(subject, "not verified", evidence)
