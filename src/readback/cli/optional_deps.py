"""What only an extra brings: told by its name where it is not installed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from readback.errors import FittingError


@contextmanager
def of_extra(extra: str, what: str) -> Iterator[None]:
    """Around imports. Raises FittingError where a package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise FittingError(f"{what} needs the extra `{extra}`.", remedy=f"Install readback-ai[{extra}].") from error


def without_answers() -> None:
    """What the SDK logs of a server's answer that is none is the answer, with all that it holds: our errors say why."""
    logging.getLogger("mcp.client").addHandler(logging.NullHandler())
