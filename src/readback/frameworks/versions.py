"""Checks of an adapter's framework: the extra is installed, and the version lies in the tested range.

Each adapter calls these functions at import. A missing package is an error with the name of the extra. A version
outside the tested range is one warning with all versions, and the adapter continues.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Final

from readback.agent_errors import MissingFrameworkError

_LEADING: Final = re.compile("[0-9]{1,9}")
_PARTS_MAX: Final = 3
"""Compared parts of a version: major, minor and patch."""


class UntestedVersionWarning(RuntimeWarning):
    """The installed framework is older or newer than the versions tested with the adapter."""


@contextmanager
def of_framework(extra: str, framework: str) -> Iterator[None]:
    """Import a framework inside this context.

    Args:
        extra: The extra of the adapter, such as "langchain".
        framework: The framework's name for people, such as "LangChain".

    Raises:
        MissingFrameworkError: a package of the framework is not installed.

    Example:
        >>> from readback.frameworks.versions import of_framework
        >>> with of_framework("langchain", "LangChain"):
        ...     import json
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingFrameworkError(
            f"The adapter for {framework} needs the package {error.name!r}, and it is not installed.",
            remedy=f"Install readback-ai[{extra}].",
        ) from error


def check_version(framework: str, *, distribution: str, lowest: str, below: str) -> str:
    """Return the installed version of a distribution, and warn where the version is outside the tested range.

    Args:
        framework: The framework's name for people, such as "LangChain".
        distribution: The distribution's name on the package index.
        lowest: The lowest tested version.
        below: The first untested version above.

    Example:
        >>> from readback.frameworks.versions import check_version
        >>> bool(check_version("pydantic", distribution="pydantic", lowest="2", below="1000"))
        True
    """
    try:
        installed = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        installed = ""  # a framework without metadata, such as a source tree
    if not _numbers(lowest) <= _numbers(installed) < _numbers(below):
        warnings.warn(
            f"{framework} {installed or 'of unknown version'} is installed. This adapter is tested with"
            f" {distribution}>={lowest},<{below}. Install a version of that range, or run the adapter's scenarios.",
            UntestedVersionWarning,
            stacklevel=3,
        )
    return installed


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version. A part without a number ends the version."""
    numbers: list[int] = []
    for part in version.split(".")[:_PARTS_MAX]:
        leading = _LEADING.match(part)
        if leading is None:
            break
        numbers.append(int(leading.group()))
    return tuple(numbers)
