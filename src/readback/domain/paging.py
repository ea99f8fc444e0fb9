"""Whether a list that a service shows has another page, by the usual signs in its answer. Pure.

Called by searches before they count what is listed: what stands on another page would be taken for absent. A sign that
means something else in some service only leaves its search undetermined.
"""

from __future__ import annotations

from typing import Final

from readback.canon import Json

_CURSORS: Final = frozenset(
    {"nextcursor", "nextpagetoken", "nextpage", "nexttoken", "nextlink", "@odata.nextlink", "next"}
)
"""Names, without their underscores and in lower case, of what leads to the next page where it is not empty."""
_FLAGS: Final = frozenset({"hasmore", "hasnext", "hasnextpage", "truncated", "istruncated"})
"""Names of what says that there is more."""
_HOLDERS: Final = frozenset({"pagination", "paging", "pageinfo", "meta", "metadata", "links", "_links", "page"})
"""Names under which such signs stand one level below."""


def has_another_page(document: Json) -> bool:
    """The answer names a next page, or says that there is more. A bare list has no place to say so."""
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
