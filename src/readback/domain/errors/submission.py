"""What submitting raises: an InputError (2). Beside `errors`, since nothing else knows of it."""

from __future__ import annotations

from readback.domain.errors import InputError


class SubmissionError(InputError):
    """What may be run here may not be left to somebody else: nothing was submitted, or what was is not executed."""

    code = "input.submission"
    remedy_default = "Run it where its contract is, with `run`."
