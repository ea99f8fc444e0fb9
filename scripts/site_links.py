"""Turn links of documents to files outside `docs/` into names, for the site alone; a hook of MkDocs.

On a code host `[the test](../tests/x.py)` is a link. The site holds the documents only, so that the same words become
"the test (`tests/x.py`)" there.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<path>\.\./[^)#\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace each link that leaves the documents' folder."""
    folder = posixpath.dirname(page.file.src_uri)

    def name(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, found["path"]))
        if path.startswith("docs/"):
            return found[0]
        text = found["text"]
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    return _LINK.sub(name, markdown)
