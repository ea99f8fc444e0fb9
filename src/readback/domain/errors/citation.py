"""What is raised about citations of a final report. Beside `errors`, since only reports know of it.

CitationError (2)                   something was to be cited that cannot be, or what was given is no citation
"""

from __future__ import annotations

from readback.domain.errors import InputError


class CitationError(InputError):
    """Nothing can be cited as asked. Codes: citation.not-standing, .erased, .place,
    .saga."""

    code = "citation"
    remedy_default = "Cite what is verified and stands; say of everything else what its outcome's message says."
