"""What only an extra brings: told by its name where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from readback.domain.errors.files import FittingError


@contextmanager
def of_extra(extra: str, what: str) -> Iterator[None]:
    """Around imports. Raises FittingError where a package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise FittingError(f"{what} needs the extra `{extra}`.", remedy=f"Install readback[{extra}].") from error
