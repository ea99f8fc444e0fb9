"""Citation markers in a text: `[evidence:ID:B0-B1:SHA256]`, and what only looks like one.

The grounding of claims calls it. It must not accept the older form without span and hash.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_OPENING: Final = re.compile(r"\[\s*evidence\s*:", re.IGNORECASE)
_MARKER: Final = re.compile(
    r"\[evidence:(?P<eid>[^:\]]{1,200}):(?P<b0>0|[1-9][0-9]{0,18})-(?P<b1>0|[1-9][0-9]{0,18}):(?P<sha>[0-9a-f]{64})\]"
)


class Citation(NamedTuple):
    """Bytes of one piece of evidence, counted in its own file, and their hash."""

    evidence_id: str
    start: int
    end: int
    sha256: str


def citations(text: str) -> tuple[set[Citation], int]:
    """The markers of a text, and how many places open one without being one."""
    found = {Citation(hit["eid"], int(hit["b0"]), int(hit["b1"]), hit["sha"]) for hit in _MARKER.finditer(text)}
    whole = {hit.start() for hit in _MARKER.finditer(text)}
    malformed = sum(hit.start() not in whole for hit in _OPENING.finditer(text))
    return found, malformed
