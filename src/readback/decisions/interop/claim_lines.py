"""Claim and verification ledgers as JSON lines: one statement a line, made again by the rule of the pattern.

Used by `readback import claims`. Verified is what was accepted *and* verified; a line that says otherwise is refused.

Source: the verification ledger pattern, "Claim Retraction".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from readback.canon import Json, sha256_hex
from readback.decisions.contracts.document import Finding
from readback.decisions.contracts.shapes import Fields, Flag, Shape, Text, Whole
from readback.decisions.interop.imported import Imported, Statement, backed, refuse_any
from readback.traces import TraceError
from readback.traces.format.strict_json import strict_json

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
    """Every line of a ledger. Raises ForeignFileError with every reason of every line."""
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
        yield "verified", "It was not accepted, so the pattern's own rule does not call it verified."


def _statement(value: dict[str, Any], where: str) -> Statement:
    subject = f"{where}: {value.get('delivery_id') or value.get('envelopeId') or 'no id'}"
    if "event_type" in value:
        evidence: dict[str, Json] = {key: value[key] for key in ("claim", "reason", "confidence")}
        return Statement(subject, "contested", evidence)
    evidence = {key: value[key] for key in _EVIDENCE if key in value}
    if value["verified"]:
        stands_on: dict[str, Json] = {key: evidence[key] for key in _STANDS_ON if key in evidence}
        notes = () if "accepted" in value else ("It does not say whether the send was accepted.",)
        return Statement(subject, "verified", evidence, backed(stands_on, passing=True), notes)
    return Statement(subject, "not verified", evidence)
