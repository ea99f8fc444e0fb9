"""Episodes, envelopes and drift events of other decision systems, read as evidence.

Used by `readback import`. A file against its own format is refused with every reason. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from readback.canon import Json, sha256_hex
from readback.decisions.contracts.document import Finding, read_text
from readback.decisions.contracts.formats import DRIFT, ENVELOPE, EPISODE
from readback.decisions.contracts.load import envelope_of
from readback.decisions.contracts.shapes import Shape
from readback.decisions.contracts.verifiers import BUILT_IN
from readback.decisions.interop.imported import Imported, Statement, backed, refuse_any
from readback.decisions.model.drift import read_moment
from readback.decisions.model.seals import BINDING, RULE, matching_rule
from readback.decisions.model.words import DecisionEnd, VerificationResultWord

ENTRIES_MAX: Final = 100
"""The number of entries with named faults in a list at the place of an object."""


def import_episode(content: bytes, name: str) -> Imported:
    """Read a sealed episode: check its seal by every known rule, and return its statements on verification.

    Raises ForeignFileError.
    """
    value = _shaped(content, name, EPISODE, "sealed episode")
    rule = matching_rule(value)
    verification: dict[str, Any] = value["verification"]
    said = str(verification["result"])
    evidence: dict[str, Json] = {"details": verification.get("details", {})}
    notes = []
    if said == VerificationResultWord.PASS and verification["required"] is False:
        notes.append("The episode states that verification was not required.")
    statements = [
        Statement(
            f"{value['episodeId']}: verification by {verification.get('method') or 'no named method'}",
            said,
            evidence,
            backed(evidence, passing=said == VerificationResultWord.PASS),
            tuple(notes),
        ),
        Statement(
            f"{value['episodeId']}: outcome",
            str(value["outcome"]["code"]),
            {"effects": _effects(value)},
            backed({"effects": _effects(value)}, passing=value["outcome"]["code"] == DecisionEnd.SUCCESS),
        ),
    ]
    facts: dict[str, Json] = {
        key: value[key] for key in ("episodeId", "decisionType", "startedAt", "endedAt", "actor", "dteRef")
    }
    facts["actions"] = len(value["actions"])
    return Imported(
        "episode", sha256_hex(content), tuple(statements), facts, rule or "", rule in BINDING, _doubts(value, rule)
    )


def import_envelope(content: bytes, name: str) -> Imported:
    """Read the requirements of an envelope file. Enforcement is separate and needs the envelope's methods.

    Raises ForeignFileError.
    """
    value = _shaped(content, name, ENVELOPE, "envelope of a decision type")
    found = envelope_of(value, sha256_hex(content))
    unknown = [method for method in found.verification.methods if method not in BUILT_IN]
    notes = tuple(f"The method {method!r} is not built in: enforcing it takes a verifier." for method in unknown)
    facts: dict[str, Json] = {
        "decisionType": found.decision_type,
        "version": found.version,
        "deadlineMs": found.deadline_ms,
        "methods": list(found.verification.methods),
        "policyPackHash": found.policy_hash,
    }
    return Imported("envelope", found.sha256, (), facts, notes=notes)


def import_drift(content: bytes, name: str) -> Imported:
    """Read a drift event. Raises ForeignFileError."""
    value = _shaped(content, name, DRIFT, "drift event")  # a list of them is none: each has a file of its own
    said = f"{value['driftType']} {value['severity']}"
    evidence: dict[str, Json] = {"evidenceRefs": value["evidenceRefs"]}
    statement = Statement(f"{value['episodeId']}: {value['fingerprint']['key']}", said, evidence)
    facts: dict[str, Json] = {
        key: value[key] for key in ("driftId", "episodeId", "detectedAt", "recommendedPatchType", "fingerprint")
    }
    return Imported("drift", sha256_hex(content), (statement,), facts)


def shaped(content: bytes, name: str, shape: Shape, what: str) -> dict[str, Any]:
    """Return the value of a file of these formats, for commands. Raises ForeignFileError."""
    return _shaped(content, name, shape, what)


def _shaped(content: bytes, name: str, shape: Shape, what: str) -> dict[str, Any]:
    document = read_text(content, name)
    findings: list[Finding] = [*document.findings]
    if document.value is not None or not findings:
        findings += [document.at(path, said) for path, said in shape.faults(document.value, "")]
        if isinstance(document.value, list):
            for number, each in enumerate(document.value[:ENTRIES_MAX]):
                findings += [document.at(path, said) for path, said in shape.faults(each, f"[{number}]")]
    refuse_any(findings, what, name)
    assert isinstance(document.value, dict)
    return document.value


def _effects(value: Mapping[str, Any]) -> Json:
    found: Json = value["outcome"].get("effects", {})
    return found


def _doubts(value: Mapping[str, Any], rule: str | None) -> tuple[str, ...]:
    """Return well-formed but inconsistent parts."""
    said: list[str] = []
    if rule is None:
        said.append("No known rule gives the stated seal: the episode differs from the sealed episode.")
    elif rule not in BINDING:
        said.append(f"The seal {rule!r} does not cover the whole episode.")
    elif rule != RULE:
        said.append(f"The seal {rule!r} follows another rule than the rule of Readback.")
    began, over = read_moment(value["startedAt"]), read_moment(value["endedAt"])
    if began is not None and over is not None and over < began:
        said.append("The episode ended before its beginning.")
    if value["verification"]["result"] == VerificationResultWord.PASS and not value["actions"]:
        said.append("The episode states a passed verification, and names no action.")
    if value["dteRef"]["decisionType"] != value["decisionType"]:
        said.append("The episode and the envelope have different decision types.")
    return tuple(said)
