"""What a `postgresql://` URL says: where the database is, and which of its schemas holds the ledger.

Called by the store when it is opened. It connects to nothing.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from readback.canon.frozen import dataclass
from readback.domain.errors import UsageError

SCHEMA_DEFAULT: Final = "readback"
OBJECTS_OVER_BYTES: Final = 262_144
_OURS: Final = frozenset({"schema", "objects", "objects_over"})
WHICH: Final = "target_session_attrs"
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


def address_of(url: str, *, primary: bool = False) -> Address:
    """Splits a URL into libpq's part and ours. Raises UsageError for what is no PostgreSQL address.

    `primary`: of several hosts only the one that is the primary will do, unless the URL says which others.
    """
    scheme, found, rest = url.partition("://")
    if scheme not in SCHEMES or not found:
        raise UsageError(
            "The address is no postgresql:// URL.",
            remedy="Write postgresql://user@host:5432/database, and ?schema=NAME for a schema of its own.",
        )
    # As libpq takes it apart: who comes before an @ that is before any slash, whatever else his password holds, and a
    # plus stands for itself. What is not ours is handed on as it is written.
    who, at, after = rest.partition("@") if "@" in rest.partition("/")[0] else ("", "", rest)
    where, _, query = after.partition("?")
    if "@" in where:
        raise UsageError(
            "The address has an @ or a slash in its password.",
            remedy="Write %40 for @ and %2F for /; or keep the password in PGPASSFILE.",
        )
    user = unquote(who.partition(":")[0])
    written = [one for one in query.split("&") if one]
    options = {_named(one): unquote(one.partition("=")[2]) for one in written}
    schema = options.get("schema", SCHEMA_DEFAULT)
    if not _NAME.fullmatch(schema):
        raise UsageError(
            f"The schema {schema!r} is no name for one.",
            remedy="Use small letters, digits and underscores, 48 at most, and begin with a letter.",
        )
    host = options.get("host", "")
    kept = [one for one in written if _named(one) not in _OURS]
    if primary and WHICH not in options and "," in where.partition("/")[0] + host + options.get("hostaddr", ""):
        kept.append(f"{WHICH}=primary")
    theirs = "&".join(kept)
    return Address(
        url=f"postgresql://{who}{at}{where}{'?' if theirs else ''}{theirs}",
        schema=schema,
        shown=f"{scheme}://{user + '@' if user else ''}{where} ({host + ', ' if host else ''}schema {schema})",
        objects=options.get("objects", ""),
        objects_over=_bytes_of(options.get("objects_over", str(OBJECTS_OVER_BYTES))),
    )


def _named(option: str) -> str:
    return unquote(option.partition("=")[0])


def _bytes_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= OVER_DIGITS_MAX):
        raise UsageError(f"objects_over={text!r} is no number of bytes.", remedy="Write it in digits.")
    return int(text)
