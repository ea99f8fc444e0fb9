"""Pairs of a writing and a reading tool of one server, by schemas, names and hints.

Called by the gateway before a call, and by `readback shadow pairs`. A tool definition comes from the server and is not
trusted: a pair is a proposal, and the gateway calls only reading tools named by the operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass

READS_MAX: Final = 3
"""Most reading tools called around one call."""
READING_WORDS: Final = frozenset(
    {
        "check", "count", "describe", "diff", "exists", "fetch", "find", "get", "history", "info", "inspect", "list",
        "log", "lookup", "open", "query", "read", "retrieve", "search", "show", "stat", "status", "tree", "view",
    }
)  # fmt: skip
"""Words in the names of reading tools."""
WRITING_WORDS: Final = frozenset(
    {
        "add", "append", "apply", "archive", "cancel", "clear", "close", "commit", "copy", "create", "delete", "drop",
        "edit", "execute", "insert", "merge", "move", "patch", "post", "publish", "put", "remove", "rename", "reset",
        "run", "save", "send", "set", "store", "submit", "update", "upload", "write",
    }
)  # fmt: skip
"""Words in the names of writing tools. A writing word outweighs a reading word."""
REMOVING_WORDS: Final = frozenset({"archive", "cancel", "clear", "close", "delete", "drop", "remove", "unset"})
"""Words in the names of removing tools."""
NAMING_WORDS: Final = frozenset(
    {
        "account", "branch", "bucket", "channel", "collection", "database", "db", "dir", "directory", "email", "file",
        "filename", "folder", "id", "identifier", "key", "name", "namespace", "number", "owner", "path", "project",
        "repo", "repository", "slug", "table", "title", "topic", "uri", "url", "user", "username", "uuid", "workspace",
    }
)  # fmt: skip
"""Words in the names of arguments that name an object. A reading tool receives no other argument of a call: a statement
or a command would be executed by the reading.
"""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NOUN_SCORE: Final = 3
_KEY_SCORE: Final = 4
_HINT_SCORE: Final = 1

Definition = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Pair:
    """A proposed pair. `keys`: the arguments with the same name in both tools.

    Example:
        >>> from readback.shadow.pairs import Pair
        >>> Pair("write_note", "read_note", ("name",), 8).read
        'read_note'
    """

    write: str
    read: str
    keys: tuple[str, ...]
    score: int


@dataclass(frozen=True, slots=True)
class AllowedRead:
    """A reading tool allowed by the operator. `shows`: the writing tool of a named pair, or "" for any."""

    name: str
    shows: str = ""


def words_of(name: str) -> frozenset[str]:
    """Return the words of a tool's name in lower case, without a plural's `s`.

    >>> sorted(words_of("listNotes"))
    ['list', 'note']
    """
    return frozenset(_singular(word.lower()) for word in _WORD.findall(name))


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def says_it_writes(tool: Definition) -> bool:
    """Return whether a tool's own hints contradict reading: not read-only, or destructive."""
    hints = tool.get("annotations")
    return isinstance(hints, dict) and (hints.get("readOnlyHint") is False or hints.get("destructiveHint") is True)


def may_read(tool: Definition) -> bool:
    """Return whether a tool looks like a reading tool: by its hint, else by its name."""
    hints = tool.get("annotations")
    if isinstance(hints, dict) and hints.get("readOnlyHint") is True:
        return True
    words = words_of(name_of(tool))
    return not says_it_writes(tool) and bool(words & READING_WORDS) and not words & WRITING_WORDS


def name_of(tool: Definition) -> str:
    """Return the tool's name."""
    return str(tool.get("name", ""))


def removes(name: str) -> bool:
    """Return whether a tool's name speaks of taking something away."""
    return bool(words_of(name) & REMOVING_WORDS)


def pairs_of(tools: Sequence[Definition]) -> list[Pair]:
    """Return the proposed pairs, the best first for each writing tool, at most READS_MAX each."""
    reading = [tool for tool in tools if may_read(tool)]
    found = []
    for tool in tools:
        if not may_read(tool):
            found += _ranked(tool, reading)[:READS_MAX]
    return found


def reads_for(
    tool: Definition, arguments: Mapping[str, Json], known: Mapping[str, Definition], allowed: Iterable[AllowedRead]
) -> list[dict[str, Json]]:
    """Return the readings around one call: tool, arguments, and whether the operator named the pair.

    `known`: the server's tools by name. A reading tool is left out if the call lacks a required argument.
    """
    named = {each.name: each for each in allowed if each.shows in ("", name_of(tool))}
    stated = {name for name, each in named.items() if each.shows}
    # The operator's own pairs come first, and are used alone.
    chosen = [known[name] for name in (stated or named) if name in known]
    found: list[dict[str, Json]] = []
    for pair in _ranked(tool, chosen):
        given: dict[str, Json] = {key: arguments[key] for key in pair.keys if key in arguments}
        if _needed(known[pair.read]) <= given.keys():
            found.append({"tool": pair.read, "arguments": given, "stated": pair.read in stated})
    return found[:READS_MAX]


def _ranked(tool: Definition, reading: Sequence[Definition]) -> list[Pair]:
    pairs = [pair for each in reading if (pair := _pair(tool, each)) is not None]
    return sorted(pairs, key=lambda pair: (-pair.score, pair.read))


def _pair(tool: Definition, reading: Definition) -> Pair | None:
    """Return the pair, or None where the writing tool lacks a required argument of the reading tool."""
    has, takes = _properties(tool), _properties(reading)
    keys = tuple(sorted(key for key in has.keys() & takes.keys() if _names(key) and _alike(has[key], takes[key])))
    needed = _needed(reading)
    if not needed <= set(keys):
        return None
    nouns = (words_of(name_of(tool)) & words_of(name_of(reading))) - READING_WORDS - WRITING_WORDS
    hints = reading.get("annotations")
    hinted = isinstance(hints, dict) and hints.get("readOnlyHint") is True
    score = _KEY_SCORE * len(needed) + _NOUN_SCORE * len(nouns) + _HINT_SCORE * hinted
    return Pair(name_of(tool), name_of(reading), keys, score)


def _names(key: str) -> bool:
    """Return whether an argument names an object."""
    return bool(words_of(key) & NAMING_WORDS)


def _schema(tool: Definition) -> Mapping[str, Json]:
    schema = tool.get("inputSchema")
    return schema if isinstance(schema, dict) else {}


def _properties(tool: Definition) -> Mapping[str, Json]:
    found = _schema(tool).get("properties")
    return found if isinstance(found, dict) else {}


def _needed(tool: Definition) -> set[str]:
    found = _schema(tool).get("required")
    return {str(each) for each in found} if isinstance(found, list) else set()


def _alike(one: Json, other: Json) -> bool:
    """Return whether two argument schemas may accept the same value. A schema without a type accepts any value."""
    types = [each.get("type") if isinstance(each, dict) else None for each in (one, other)]
    return None in types or types[0] == types[1]
