"""Many envelopes at once, read into values of one type: for who reads a whole log, and does nothing as often.

Called where a log is audited. It says only of envelopes that are sound that they are: whatever it does not know to be
so is looked at by itself, by `canonical.is_envelope`, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from readback.canon.limits import ENVELOPE_MAX_BYTES, INTEGER_SAFE_MAX

Read = TypeVar("Read")

Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-INTEGER_SAFE_MAX, le=INTEGER_SAFE_MAX)]
"""A whole number that an envelope may hold."""
_Leaf: TypeAlias = str | Whole | bool | None
_Lower: TypeAlias = _Leaf | list[_Leaf] | dict[str, _Leaf]
_Upper: TypeAlias = _Leaf | list[_Lower] | dict[str, _Lower]
Filled: TypeAlias = dict[str, _Leaf | list[_Upper] | dict[str, _Upper]]
"""What others filled in, as nearly all of it is: no floats, and not nested deeper than this."""


class EnvelopeReader(Generic[Read]):
    """Reads envelopes into structs of `kind`, whose fields stand in the order of their names, as they are written."""

    __slots__ = ("_decode", "_encode")

    def __init__(self, kind: type[Read]) -> None:
        self._decode: Final = msgspec.json.Decoder(kind).decode_lines
        self._encode: Final = msgspec.json.Encoder(order="deterministic").encode_lines

    def read(self, envelopes: Sequence[bytes]) -> list[Read] | None:
        """Each of them, where each is the canonical form of what was read; None where one may not be.

        They are written again, a line each, and compared: a canonical form has no line break, so that none can end
        elsewhere than it ended before.
        """
        lines = b"\n".join([*envelopes, b""])
        if not lines.isascii() or max(map(len, envelopes), default=0) > ENVELOPE_MAX_BYTES:
            return None
        try:
            found: list[Any] = self._decode(lines)
        except msgspec.DecodeError:
            return None
        return found if len(found) == len(envelopes) and self._encode(found) == lines else None
