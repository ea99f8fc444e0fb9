"""What a `postgresql://` URL says: where the database is, and which of its schemas holds the ledger.

Called by the store when it is opened. It connects to nothing.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from readback.canon.frozen import dataclass
from readback.domain.errors import UsageError

SCHEMA_DEFAULT: Final = "readback"
OBJECTS_OVER_BYTES: Final = 262_144
_OURS: Final = frozenset({"schema", "objects", "objects_over"})
SCHEMES: Final = ("postgresql", "postgres")
OVER_DIGITS_MAX: Final = 12
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class Address:
    """`url` is libpq's; `schema` the ledger's own; `shown` the address without its password. `objects`: the URL under
    which evidence of more than `objects_over` bytes is kept; "" for none.
    """

    url: str
    schema: str
    shown: str
    objects: str = ""
    objects_over: int = OBJECTS_OVER_BYTES


def address_of(url: str) -> Address:
    """Splits a URL into libpq's part and ours. Raises UsageError for what is no PostgreSQL address."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise UsageError(
            "The address is no postgresql:// URL.",
            remedy="Write postgresql://user@host:5432/database, and ?schema=NAME for a schema of its own.",
        )
    options = parse_qsl(parts.query, keep_blank_values=True)
    named = [value for name, value in options if name == "schema"]
    schema = named[-1] if named else SCHEMA_DEFAULT
    if not _NAME.fullmatch(schema):
        raise UsageError(
            f"The schema {schema!r} is no name for one.",
            remedy="Use small letters, digits and underscores, 48 at most, and begin with a letter.",
        )
    rest = [(name, value) for name, value in options if name not in _OURS]
    host = parts.netloc.rpartition("@")[2]
    user = unquote(parts.username or "")
    secret = [(name, value) for name, value in rest if name not in ("password", "sslpassword")]
    shown = f"{parts.scheme}://{user + '@' if user else ''}{host}{parts.path}"
    where = next((value for name, value in secret if name == "host"), "")
    return Address(
        url=f"postgresql://{parts.netloc}{parts.path}?{urlencode(rest)}",
        schema=schema,
        shown=f"{shown} ({where + ', ' if where else ''}schema {schema})",
        objects=dict(options).get("objects", ""),
        objects_over=_bytes_of(dict(options).get("objects_over", str(OBJECTS_OVER_BYTES))),
    )


def _bytes_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= OVER_DIGITS_MAX):
        raise UsageError(f"objects_over={text!r} is no number of bytes.", remedy="Write it in digits.")
    return int(text)
