"""Names where several servers stand behind one gateway: `key__name`, and one cursor for all their lists.

With one server everything keeps its name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from readback.domain.errors import UsageError

SEPARATOR: Final = "__"
KEY_MAX_CHARS: Final = 32


class Names:
    """The names of one gateway's servers. Raises UsageError where they are no good."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)
        self.several = len(keys) > 1
        if len(set(keys)) < len(keys):
            raise UsageError("Two servers have the same name.", remedy="Give each a name of its own, as NAME=URL.")
        for key in keys if self.several else ():
            unsound = not key.replace("-", "_").isidentifier() or key.endswith("_")  # `a___x` would be `_x` of `a`
            if unsound or SEPARATOR in key or len(key) > KEY_MAX_CHARS:
                raise UsageError(
                    f"{key!r} does not name a server.",
                    remedy=f"Name it by up to {KEY_MAX_CHARS} letters, digits, - and, within, single _; letter first.",
                )

    def shown(self, index: int, name: str) -> str:
        """The name that clients use."""
        return f"{self._keys[index]}{SEPARATOR}{name}" if self.several else name

    def owner(self, shown: str) -> tuple[int, str] | None:
        """Whose it is, and by what name of its own. None where it is nobody's."""
        if not self.several:
            return 0, shown
        key, separator, name = shown.partition(SEPARATOR)
        return (self._keys.index(key), name) if separator and key in self._keys else None

    def renamed(self, index: int, items: object) -> list[dict[str, Any]]:
        """A server's tools or prompts by the names that clients use."""
        found = [dict(item) for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
        for item in found:
            if isinstance(item.get("name"), str):
                item["name"] = self.shown(index, item["name"])
        return found

    def pages(self, cursor: object) -> Mapping[int, str | None] | None:
        """Which servers are to be asked, each with its own cursor. None for a cursor that is none of ours."""
        if cursor is None:
            return dict.fromkeys(range(len(self._keys)))
        if not self.several:
            return {0: str(cursor)}
        try:
            found = json.loads(base64.urlsafe_b64decode(str(cursor).encode()))
            pages = {int(index): str(each) for index, each in found}
        except (ValueError, TypeError, OverflowError, RecursionError):  # binascii.Error is one of the first
            return None
        return pages if pages and all(0 <= index < len(self._keys) for index in pages) else None

    def cursor(self, left: Mapping[int, str]) -> str | None:
        """The cursor for what is left. None where nothing is."""
        if not left:
            return None
        if not self.several:
            return left[0]
        return base64.urlsafe_b64encode(json.dumps(sorted(left.items())).encode()).decode()
