"""The HTTP headers of `readback mcp --header`: named on the command line, their values given by reference.

A value never stands on the command line, where every user of the machine could read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from readback.cli.terminal import safe
from readback.config import secret_at
from readback.domain.errors import SettingsError, UsageError

REMEDY: Final = "Write --header NAME=@FILE (or =env:VARIABLE); of several servers --header SERVER:NAME=@FILE."
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS: Final = re.compile(r"(?i)host|connection|content-.*|transfer-encoding|accept|last-event-id|mcp-.*|te|upgrade")
"""Headers that the gateway writes itself: with another value the server would read another request."""
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")


def server_headers(given: Sequence[str], keys: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the headers for each server, by its key ("" where it is the only one).

    Raises:
        UsageError: A header is not written as it has to be, or names no server.
        SettingsError: A reference names no value. The message never holds one.
    """
    found: dict[str, dict[str, str]] = {}
    for each in given:
        key, name, reference = _parted(each, keys)
        if name.lower() in (known.lower() for known in found.get(key, {})):
            raise UsageError(f"The header {safe(name)} is given twice.", remedy="Give it once.")
        found.setdefault(key, {})[name] = _value(name, reference)
    return found


def _parted(given: str, keys: Sequence[str]) -> tuple[str, str, str]:
    """Server, name and reference. What is no header is not repeated: it may hold the value itself."""
    head, _, named = given.partition("=")
    server, colon, name = head.rpartition(":")
    reference = f"file:{named[1:]}" if named.startswith("@") else named
    kind, _, where = reference.partition(":")
    if not where or kind not in ("file", "env") or not _NAME.fullmatch(name):
        raise UsageError("What --header gives is no header by reference.", remedy=REMEDY)
    if _OURS.fullmatch(name):
        raise UsageError(f"The header {safe(name)} is the gateway's own.", remedy="Leave it out.")
    if colon and server not in keys:
        raise UsageError(f"--header names the server {safe(server)}, and no --url has this name.", remedy=REMEDY)
    if not colon and len(keys) > 1:
        raise UsageError(f"The header {safe(name)} does not say for which server it is.", remedy=REMEDY)
    return server if colon else keys[0], name, reference


def _value(name: str, reference: str) -> str:
    """What the reference stands for, less the line's end."""
    try:
        value = secret_at(reference).decode("ascii")
    except UnicodeDecodeError:
        value = ""
    if not _VALUE.fullmatch(value):
        raise SettingsError(
            f"{safe(reference)} holds no value of the header {safe(name)}.",
            remedy="Put one line of printable characters into it.",
        )
    return value
