"""Detection of further pages in a service's list, by the usual signs in the answer. Pure.

Called by searches before counting: an object on another page would count as absent. A sign with another meaning in some
service only makes the search undetermined.
"""

from __future__ import annotations

from typing import Final

from readback.canon import Json

_CURSORS: Final = frozenset(
    {"nextcursor", "nextpagetoken", "nextpage", "nexttoken", "nextlink", "@odata.nextlink", "next"}
)
"""Names of references to the next page, lower-case without underscores. A non-empty value means a next page."""
_FLAGS: Final = frozenset({"hasmore", "hasnext", "hasnextpage", "truncated", "istruncated"})
"""Names of flags for further results."""
_HOLDERS: Final = frozenset({"pagination", "paging", "pageinfo", "meta", "metadata", "links", "_links", "page"})
"""Names of objects with such signs one level below."""


def has_another_page(document: Json) -> bool:
    """The answer names a next page, or reports further results. A bare list has no room for such signs."""
    if not isinstance(document, dict):
        return False
    if _says_more(document):
        return True
    below = [value for name, value in document.items() if name.lower() in _HOLDERS]
    return any(isinstance(each, dict) and _says_more(each) for each in below)


def _says_more(holder: dict[str, Json]) -> bool:
    for name, value in holder.items():
        plain = name.replace("_", "").replace("-", "").lower()
        if plain in _FLAGS and value is True:
            return True
        if plain in _CURSORS and value not in (None, "", False, 0):
            return True
    return False
