"""Detect the installed distribution: `readback-ai` is ours; `readback` on the package index is another project.

Runs before each command, and in `version` and `doctor`. The check reads file names and one header, and imports neither
distribution.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import readback

NAME: Final = "readback-ai"
SUMMARY: Final = "The outcome layer for AI agents"
_HEADER_MAX_BYTES: Final = 16_384
_OTHER: Final = ("readback-*.dist-info/METADATA", "readback-*.egg-info/PKG-INFO")


def folders() -> tuple[Path, ...]:
    """The environment's folders of distributions, and the folder of this package."""
    paths = sysconfig.get_paths()
    found = (Path(paths["purelib"]), Path(paths["platlib"]), Path(readback.__file__).parent.parent)
    return tuple(dict.fromkeys(found))


def unrelated(inside: Iterable[Path] | None = None) -> str:
    """The warning for an installed unrelated distribution `readback`, or ""."""
    for folder in folders() if inside is None else inside:
        for header in _headers(folder):
            version = _version_of_another(header)
            if version:
                return (
                    f"Warning: the distribution 'readback' {version} is installed in this environment. It is "
                    f"another project, and its files may replace those of '{NAME}'. Next: pip uninstall readback, "
                    f"then pip install --force-reinstall {NAME}."
                )
    return ""


def _headers(folder: Path) -> list[Path]:
    """Return the headers of distributions with the other project's name. An unreadable folder shows none."""
    try:
        return [header for pattern in _OTHER for header in folder.glob(pattern)]
    except OSError:  # a user without the right to list the environment may still run a command
        return []


def _version_of_another(header: Path) -> str:
    """The version of the other project, or "" for an older checkout of ours under the same name."""
    try:
        with header.open("rb") as file:
            said = file.read(_HEADER_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
    fields = dict(line.split(": ", 1) for line in said.split("\n\n", 1)[0].splitlines() if ": " in line)
    if fields.get("Summary", "").startswith(SUMMARY):
        return ""
    return fields.get("Version", "of an unknown version")
