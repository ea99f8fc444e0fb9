"""Identify the system behind a fitting where a reference decides the address, for repeated sends.

The answer is a digest without credentials. A service knows an idempotency key by address and account, and a changed
password leaves both unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from readback.canon import ReadbackError, payload_bytes
from readback.ports.system_factory import Fixed, Reference
from readback.systems.configured.settings import Settled

WHERE: Final = (
    "url", "host", "port", "endpoint", "bucket", "region", "database", "repository", "remote", "root", "user",
    "access_key",
)  # fmt: skip
UNRESOLVED: Final = "unresolved"


def place_of(kind: str, fixed: Fixed, settle: Callable[[], Settled]) -> Callable[[], str] | None:
    """Return the place, or None where the contract itself names the system."""
    if not any(isinstance(fixed.get(key), Reference) for key in WHERE):
        return None

    def place() -> str:
        try:
            settled = settle()
        except (ReadbackError, OSError):
            return UNRESOLVED
        found = {key: _bare(str(settled.get(key))) for key in WHERE if settled.get(key) is not None}
        return sha256(payload_bytes([kind, found])).hexdigest()

    return place


def _bare(value: str) -> str:
    """Return an address without login and query. Other text is unchanged."""
    if "://" not in value:
        return value
    try:
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.hostname}:{parts.port}{parts.path.rstrip('/')}"
    except ValueError:
        return value.partition("://")[0]
