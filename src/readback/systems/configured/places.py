"""Which system a fitting of a contract file reaches, where a reference decides that: for what is sent again.

Asked by `sdk.fittings`. The answer is a digest without credentials: a service knows a key by its own address and
account, and a password that was changed leaves both as they were.
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
    """None where the contract itself says which system it is."""
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
    """An address without who logs in and what is asked; anything else as it is."""
    if "://" not in value:
        return value
    try:
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.hostname}:{parts.port}{parts.path.rstrip('/')}"
    except ValueError:
        return value.partition("://")[0]
