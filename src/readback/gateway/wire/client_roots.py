"""Remove folders with Readback's own files from a client's `roots`.

Applied to every client answer before a server receives the answer. A server with access to such a folder could change
contracts, settings, the ledger or keys, like a server started there. Source: Model Context Protocol, "Roots".
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from readback.contracts.documents.own_files import held_below

log = logging.getLogger(__name__)

METHOD: Final = "roots/list"
_SCHEME: Final = "file:"


def permitted(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer to `roots/list` without folders of own files.

    The answer is written anew: its original text could name a folder twice.
    """
    roots = answer.get("roots")
    if not isinstance(roots, list):
        return dict(answer)
    return {**answer, "roots": [dict(each) if isinstance(each, dict) else each for each in roots if not _reaches(each)]}


def permitted_in(params: dict[str, Any]) -> dict[str, Any]:
    """Apply the same rule to answers inside a request's parameters."""
    answers = params.get("inputResponses")
    if not isinstance(answers, Mapping) or not any(_offers(each) for each in answers.values()):
        return params
    return {
        **params,
        "inputResponses": {key: permitted(each) if _offers(each) else each for key, each in answers.items()},
    }


def _offers(answer: object) -> bool:
    return isinstance(answer, Mapping) and "roots" in answer


def _reaches(root: object) -> bool:
    uri = root.get("uri") if isinstance(root, Mapping) else None
    if not isinstance(uri, str):
        return False
    for path in _paths(uri):
        found = held_below(os.path.expanduser(path))
        if found:
            log.warning("The client's root %.200r goes to no server: Readback's own %.200r lies there.", uri, found)
            return True
    return False


def _paths(uri: str) -> Iterator[str]:
    """Return every path possibly meant by the address. Servers decode and truncate differently."""
    text = uri.strip()
    if not text.lower().startswith(_SCHEME):
        yield text
        return
    rest = text[len(_SCHEME) :]
    bare = rest.removeprefix("//")
    try:
        cut = urlsplit(text).path
    except ValueError:  # no address, and a path to a server that looks for none
        cut = bare
    for path in (rest, bare, cut):
        yield path
        yield unquote(path)
