"""Encoding of many rows as a few parameters: a text or an array for each column.

Called by the transaction. A column of texts is one text, split by the server. A column of bytes is an array in
PostgreSQL's own binary form. Either costs a fraction of one parameter for each value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, Final, cast

from psycopg.adapt import Dumper
from psycopg.pq import Format

from readback.stores.postgres.connection import rows

_ARRAY: Final = Struct(">iiiii").pack
_LENGTH: Final = Struct(">i").pack
BYTEA_OID, BYTEA_ARRAY_OID, TEXT_OID = 17, 1001, 25

for_life = rows.life_values


class Texts(bytes):
    r"""Many texts as one, each followed by `rows.BETWEEN`. In SQL: `string_to_array(%s, E'\x1f')`, with one surplus
    element.
    """


class Bodies(bytes):
    """An array of bytea."""


class TextsDumper(Dumper):
    format = Format.BINARY
    oid = TEXT_OID

    def dump(self, obj: bytes) -> bytes:
        return obj


class BodiesDumper(TextsDumper):
    oid = BYTEA_ARRAY_OID


def texts(many: Sequence[str]) -> Texts:
    """Encode a column of texts."""
    one = rows.BETWEEN.join(many) + rows.BETWEEN
    if "\x00" in one or rows.ESCAPE in one or one.count(rows.BETWEEN) != len(many):
        one = rows.BETWEEN.join(map(rows.kept, many)) + rows.BETWEEN
    return Texts(one.encode())


def numbers(many: Iterable[int | None]) -> Texts:
    """Encode a column of numbers. In SQL: `string_to_array(%s, ',', '')::bigint[]`."""
    return Texts(",".join(["" if number is None else str(number) for number in many]).encode())


def bodies(many: Sequence[bytes]) -> Bodies:
    """Encode a column of bytes."""
    parts = [_ARRAY(1, 0, BYTEA_OID, len(many), 1)]
    for body in many:
        parts += (_LENGTH(len(body)), body)
    return Bodies(b"".join(parts))


def raw(digest: str) -> bytes | None:
    """Return the bytes of a digest in hex. None for an invalid digest."""
    try:
        return bytes.fromhex(digest)
    except ValueError:
        return None


def columns(kinds: str, many: Sequence[rows.Row]) -> list[Any]:
    """Transpose rows to columns. `kinds` has a letter for each: t(ext), n(umber), b(ytes)."""
    packs = {"t": texts, "n": numbers, "b": bodies}
    return [cast("Any", packs[kind])(column) for kind, column in zip(kinds, zip(*many, strict=True), strict=True)]


def events(many: Sequence[rows.Row]) -> list[Any]:
    return columns(rows.EVENT_KINDS, many)


def keys(many: Sequence[rows.Row]) -> list[Any]:
    return columns(rows.KEY_KINDS if len(many[0]) == len(rows.KEY_KINDS) else rows.KEY_KINDS + "t", many)


def settled(many: Sequence[tuple[tuple[str, str, str], tuple[str, int]]]) -> list[Any]:
    return columns("ttttn", [(*name, *value) for name, value in many])


def contracts(many: Sequence[rows.Row]) -> list[Any]:
    """Encode rows of body, media, object, bytes outside, digest and tenant."""
    return columns(rows.TEXT_KINDS, many)


def payloads(many: Sequence[rows.Row]) -> list[Any]:
    """Encode the same columns with the action."""
    return columns(rows.PAYLOAD_KINDS, many)
