"""What has to be said whoever listens: a line on standard error, where there is one.

Called with what is raised, or gone on with, in any case: a service may have no standard error, and the reader of a pipe
may be gone. Neither may take the place of what was to be said.
"""

from __future__ import annotations

import sys
from contextlib import suppress


def warn(text: str) -> None:
    """Raises nothing."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # its pipe is broken, or it was closed
            sys.stderr.write(f"readback: {text}\n")
