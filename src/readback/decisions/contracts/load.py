"""Loads an envelope from its file, with every fault at once and its position. A faulty envelope is never used.

Called by the client and by `decisions check`. Unknown keys, words and verification methods are faults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from readback.agent_errors import EnvelopeError
from readback.canon import Json, sha256_hex
from readback.canon.frozen import dataclass
from readback.decisions.contracts.document import Document, Finding, read_text
from readback.decisions.contracts.formats import ENVELOPE
from readback.decisions.contracts.verifiers import Verifier, methods_found, shadows
from readback.decisions.model.envelope import (
    Counts,
    Envelope,
    Freshness,
    LadderStep,
    SafeAction,
    VerificationTerms,
)
from readback.decisions.model.words import BlastRadius, DegradeStep, Stage

FINDINGS_MAX: Final = 100
VERSION_MAX_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class LoadedEnvelope:
    """An envelope with its custom verifiers. `file` is the name of the call."""

    envelope: Envelope
    verifiers: Mapping[str, Verifier]
    file: str


def load_envelope(content: bytes, name: str, folder: Path | None = None) -> LoadedEnvelope:
    """Load an envelope. `folder` holds the custom verifiers. Raises EnvelopeError with every fault of the file."""
    document = read_text(content, name)
    value = document.value
    findings = [*document.findings]
    verifiers: Mapping[str, Verifier] = {}
    if value is not None or not findings:
        findings += [document.at(path, said) for path, said in ENVELOPE.faults(value, "")]
        findings += [document.at(path, said) for path, said in _contradictions(value)]
        verifiers, unknown = methods_found(_methods(value), folder)
        findings += [document.at(f"verification.methods[{n}]", error.message) for n, error in unknown]
        findings += [_shadow(document, each) for each in shadows(folder)]
    if findings:
        raise refused(findings, name)
    assert isinstance(value, dict)
    return LoadedEnvelope(envelope_of(value, sha256_hex(content)), verifiers, name)


def refused(findings: list[Finding], name: str) -> EnvelopeError:
    """Return the error with all faults."""
    shown = findings[:FINDINGS_MAX]
    many = "" if len(findings) == 1 else f" ({len(findings)} faults)"
    lines = "; ".join(each.line(name) for each in shown)
    details = {"problems": [each.as_json(name) for each in shown], "faults": len(findings)}
    return EnvelopeError(f"The envelope cannot be enforced{many}. {lines}", details=details)


def envelope_of(value: Mapping[str, Any], sha256: str = "") -> Envelope:
    """Return the envelope of a value in the right shape."""
    fresh, asked, safe = value["freshness"], value["verification"], value["safeAction"]
    limits, policy = value["limits"], value.get("policyPack", {})
    allowed = safe.get("allowedActionTypes")
    return Envelope(
        decision_type=value["decisionType"],
        version=value["version"],
        deadline_ms=value["deadlineMs"],
        stage_budgets_ms={stage: value["stageBudgetsMs"][stage] for stage in Stage},
        freshness=Freshness(
            fresh["defaultTtlMs"], dict(fresh.get("featureTtls", {})), fresh.get("allowStaleIfSafe", False)
        ),
        limits=Counts(limits["maxHops"], limits["maxFanout"], limits["maxToolCalls"], limits["maxChainDepth"]),
        ladder=tuple(
            LadderStep(DegradeStep(each["step"]), each.get("maxExtraMs", 0)) for each in value["degradeLadder"]
        ),
        verification=VerificationTerms(
            BlastRadius(asked["requiredAboveBlastRadius"]),
            tuple(asked.get("methods", ())),
            asked.get("verifyTimeoutMs", 0),
        ),
        safe_action=SafeAction(
            safe["requireIdempotency"],
            BlastRadius(safe["requireRollbackAbove"]),
            BlastRadius(safe["blastRadiusMax"]),
            None if allowed is None else tuple(allowed),
        ),
        description=value.get("description", ""),
        policy_hash=policy.get("policyPackHash", ""),
        policy_version=policy.get("policyPackVersion", ""),
        sha256=sha256,
    )


def _contradictions(value: Json) -> Iterator[tuple[str, str]]:
    """Return the well-formed but unenforceable parts. Only parts in the right shape are examined."""
    ladder = _part(value, "degradeLadder", list)
    yield from _repeated("degradeLadder", [each.get("step") if isinstance(each, dict) else None for each in ladder])
    yield from _repeated("verification.methods", _part(value, "verification", dict).get("methods"))
    safe = _part(value, "safeAction", dict)
    yield from _repeated("safeAction.allowedActionTypes", safe.get("allowedActionTypes"))
    threshold = _part(value, "verification", dict).get("requiredAboveBlastRadius")
    most = safe.get("blastRadiusMax")
    words = {tier.value for tier in BlastRadius}
    if isinstance(threshold, str) and isinstance(most, str) and {threshold, most} <= words:
        if BlastRadius(most).above(BlastRadius(threshold)) and not _methods(value):
            yield (
                "verification",
                f"Actions up to {most!r} are allowed and above {threshold!r} verified, and there are no methods.",
            )
    for key in ("decisionType", "version"):
        text = value.get(key) if isinstance(value, dict) else None
        if isinstance(text, str) and (len(text) > VERSION_MAX_CHARS or not text.isprintable()):
            yield key, f"The text has over {VERSION_MAX_CHARS} characters, or unprintable characters."


def _repeated(path: str, words: object) -> Iterator[tuple[str, str]]:
    if isinstance(words, list):
        for number, word in enumerate(words):
            if isinstance(word, str) and word in words[:number]:
                yield f"{path}[{number}]", f"{word!r:.60} stands there twice."


def _methods(value: Json) -> tuple[str, ...]:
    named = _part(value, "verification", dict).get("methods")
    return tuple(each if isinstance(each, str) else "" for each in named) if isinstance(named, list) else ()


def _part(value: Json, key: str, kind: type[Any]) -> Any:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else kind()


def _shadow(document: Document, name: str) -> Finding:
    return document.at(
        "verification.methods", f"A file {name}.py in the folder of verifiers hides the built-in verifier."
    )
