"""JSON pointers (RFC 6901): a single value out of a document.

Called by sources with JSON answers. Unrelated to `records.pointer`, the pointers from records to their basis.
"""

from __future__ import annotations

from readback.canon import Json
from readback.errors import ReaderTypeError


def pointed(document: Json, pointer: str, nothing: str) -> Json:
    """Return the value at a JSON pointer. Raises ReaderTypeError with the text `nothing` for a missing value."""
    found = document
    steps = pointer.split("/")
    if steps[0]:
        raise ReaderTypeError(f"{pointer!r} is not a JSON pointer. Begin the pointer with a slash.")
    for step in steps[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            raise ReaderTypeError(nothing)
    return found
