"""Every bound of this room, with its unit last. What is over one is refused, and says so."""

from __future__ import annotations

from typing import Final

TRACE_MAX_BYTES: Final = 2_147_483_648
"""A trace."""
LINE_MAX_BYTES: Final = 8_388_608
"""One line of a trace: it is parsed whole."""
PLAN_MAX_BYTES: Final = 8_388_608
"""A plan."""
RUN_FILE_MAX_BYTES: Final = 8_388_608
"""A run's specification, manifest, description or recorded report; a policy."""
PROVENANCE_MAX_BYTES: Final = 268_435_456
"""One file of documents, of chunks, or of the index."""
EVIDENCE_MAX_BYTES: Final = 4_194_304
"""One piece of a trace's evidence."""
EVIDENCE_KEPT_MAX: Final = 256
"""Files of evidence that are kept at hand between two claims that cite them."""
EVIDENCE_KEPT_MAX_BYTES: Final = 8_388_608
"""What these hold together."""
CITED_MAX_BYTES: Final = 17_179_869_184
"""What is read and hashed again for the supports of all claims; a byte of a trace's own line counts eight times."""
DEPTH_MAX_LEVELS: Final = 64
"""Nesting of the JSON of a run."""
INTEGER_MAX_DIGITS: Final = 19
"""An integer in the JSON of a run."""
FAILURES_KEPT_MAX: Final = 200
"""Failures that a report on a trace lists; the rest is counted."""
TEXT_SHOWN_MAX_CHARACTERS: Final = 200
"""A value of a run in a message."""
FILES_MAX: Final = 200_000
"""Entries of a run's folder."""
EVENTS_MAX: Final = 4_000_000_000
"""Lines of a trace: as many as thirty-two bits can name."""
