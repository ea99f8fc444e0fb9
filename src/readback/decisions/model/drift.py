"""Drift events: reports to an envelope's owner about a decision outside the envelope.

`as_json` is valid against the format's schema. An id follows from the episode and the fingerprint, so a repeated report
of the same drift has the same id.

Source: the decision-type specification, "Relationship to Other Contracts".
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from readback.canon import Json, sha256_hex
from readback.canon.frozen import dataclass
from readback.decisions.model.words import PATCH_OF, DriftType, Severity

# Times as the formats of decisions write them: RFC 3339, in UTC. Reads them too, without any clock.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORM: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def written_moment(at_us: int) -> str:
    """Return a time as `2026-02-11T06:34:13.250000Z`."""
    at = _EPOCH + timedelta(microseconds=at_us)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond:06d}Z"


def read_moment(text: str) -> int | None:
    """Return microseconds since the epoch, or None for a text outside RFC 3339."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[n]) for n in range(1, 7))
    away = 0
    if found[8]:
        hours, minutes = int(found[9]), int(found[10])
        if hours > 23 or minutes > 59:
            return None
        away = (hours * 60 + minutes) * (1 if found[8] == "+" else -1)
    try:
        at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
    if second > 60 or (second == 60 and (minute - away) % 60 != 59):
        return None
    micros = int((found[7] or "0").ljust(6, "0")[:6])
    leap_us = (second - min(second, 59)) * 1_000_000
    return (at - _EPOCH) // timedelta(microseconds=1) + micros + leap_us - away * 60_000_000


NOTES_MAX_CHARS: Final = 500
_WORST: Final = (Severity.RED, Severity.YELLOW, Severity.GREEN)


@dataclass(frozen=True, slots=True)
class Drift:
    """One drift. `cause` names the rule in a word. With the decision type the cause is the fingerprint."""

    kind: DriftType
    severity: Severity
    cause: str
    notes: str
    decision_type: str = ""
    version: str = ""
    episode_id: str = ""
    at_us: int = 0
    evidence: tuple[str, ...] = ()

    def of(self, *, decision_type: str, version: str, episode_id: str, at_us: int, evidence: tuple[str, ...]) -> Drift:
        """Return the drift for this episode."""
        return replace(
            self,
            decision_type=decision_type,
            version=version,
            episode_id=episode_id,
            at_us=at_us,
            evidence=evidence,
        )

    @property
    def fingerprint(self) -> str:
        """The common part of recurring drifts."""
        return f"{self.decision_type}::{self.kind.value}.{self.cause}"

    @property
    def id(self) -> str:
        """The id from the episode and the fingerprint."""
        return "dr_" + sha256_hex(f"{self.episode_id}\n{self.fingerprint}".encode())[:24]

    def as_json(self) -> dict[str, Json]:
        """Return the event in its format."""
        return {
            "driftId": self.id,
            "episodeId": self.episode_id,
            "driftType": self.kind.value,
            "severity": self.severity.value,
            "detectedAt": written_moment(self.at_us),
            "evidenceRefs": list(self.evidence),
            "recommendedPatchType": PATCH_OF[self.kind].value,
            "fingerprint": {"key": self.fingerprint, "version": self.version},
            "notes": self.notes[:NOTES_MAX_CHARS],
        }


def told_once(drifts: list[Drift]) -> tuple[Drift, ...]:
    """Return the worst drift of each kind and cause, in order of first appearance."""
    kept: dict[tuple[DriftType, str], Drift] = {}
    for each in drifts:
        known = kept.get((each.kind, each.cause))
        if known is None or _WORST.index(each.severity) < _WORST.index(known.severity):
            kept[(each.kind, each.cause)] = each
    return tuple(kept.values())
