"""Imports of optional packages. A missing package is reported with the name of the extra to install."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from readback.errors import FittingError


@contextmanager
def of_extra(extra: str, what: str) -> Iterator[None]:
    """Context for imports of an extra. Raises FittingError if a package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise FittingError(f"{what} needs the extra `{extra}`.", remedy=f"Install readback-ai[{extra}].") from error


def without_answers() -> None:
    """Silence the SDK's log of malformed server answers. The log would hold the whole answer; the error names the
    cause.
    """
    logging.getLogger("mcp.client").addHandler(logging.NullHandler())
