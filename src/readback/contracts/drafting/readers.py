"""Possible readers for a tool's effect: a built-in source suggested by the arguments, or a read-only tool.

Called by `draft`. Each proposal comes with a reason, and states the identity and the postconditions of its readings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from readback.canon.frozen import dataclass
from readback.contracts.drafting.guesses import nouns, words_of
from readback.contracts.drafting.tools import NAME_MAX_CHARS, Argument, Tool
from readback.contracts.drafting.writing import Line, shown
from readback.contracts.files.undecided import marked
from readback.contracts.files.vocabulary import SOURCE
from readback.domain.side_effect import Consistency, Independence

IDENTIFIERS: Final = words_of(
    "id uid uuid key name path file filename title uri url slug sku email number handle login repository repo bucket "
    "branch tag table ref channel to recipient account user source destination from"
)
PATHS: Final = ("path", "file_path", "filepath", "file", "filename", "directory", "folder", "destination", "dest")
CONTENTS: Final = ("content", "contents", "text", "data", "body")
REPOSITORIES: Final = ("repo_path", "repository_path", "repository", "repo")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposed reader. `keys`: the arguments that select the record; `identity`: the identity of a reading, as an
    expression ("" if unknown); `ensure`: the parts of the request visible in a reading, by name.
    """

    line: Line
    why: str
    independence: Independence
    keys: tuple[str, ...]
    identity: str
    ensure: Mapping[str, str]


def candidates(tool: Tool, reading: Sequence[Tool], roots: Sequence[str]) -> list[Candidate]:
    """Return built-in sources first, then tools by the number of shared arguments. `roots`: folders in the server's own
    command.
    """
    built_in = [found for make in (_file, _git, _s3, _sql) if (found := make(tool, roots)) is not None]
    return [*built_in, *_same_server(tool, reading)]


def identifying(tool: Tool) -> tuple[str, ...]:
    """Return the arguments likely to identify the target."""
    named = [each for each in tool.required if each.names_something and _identifies(each.name)]
    exact = [each.name for each in named]
    if exact:
        return tuple(exact[:3])
    first = [each.name for each in tool.required if each.names_something]
    return tuple(first[:1])


def equality(argument: Argument, path: str) -> str:
    """Return the condition that a reading equals the request; an argument left out is unconstrained."""
    same = f"authoritative.{path} == requested.{argument.name}"
    if argument.required:
        return same
    null = f" || requested.{argument.name} == null" if argument.null_by_default else ""
    return f"!has(requested.{argument.name}){null} || {same}"


def _identifies(name: str) -> bool:
    last = name.lower().replace("-", "_").rpartition("_")[2]
    return last in IDENTIFIERS or name.endswith(("Id", "ID", "Key", "Name", "Path"))


# --- built-in sources ----------------------------------------------------------------------------------------------


def _first(tool: Tool, names: Iterable[str]) -> Argument | None:
    found = (tool.argument(name) for name in names)
    return next((each for each in found if each is not None and each.kind in ("string", "")), None)


def _file(tool: Tool, roots: Sequence[str]) -> Candidate | None:
    """A file below a folder, where an argument is a path."""
    path = _first(tool, PATHS)
    if path is None or not path.required or _first(tool, REPOSITORIES) is not None:
        return None
    root = marked(roots[0]) if len(roots) == 1 else marked()
    ensure = {}
    content = _first(tool, CONTENTS)
    if content is not None and content.required:
        ensure["same bytes"] = f"authoritative.sha256 == sha256(requested.{content.name})"
    same = f"requested.{path.name}"
    return Candidate(
        Line("", [Line("file", [Line("root", root), Line("path", f"{{{same}}}")])]),
        f"`{path.name}` looks like a path: the folder is read by itself, past the server. `root`: the server's folder.",
        SOURCE["file"].independence,
        (path.name,),
        f"{same}.endsWith(authoritative.path)",
        ensure,
    )


def _git(tool: Tool, roots: Sequence[str]) -> Candidate | None:
    """A repository's own plumbing."""
    repository = _first(tool, REPOSITORIES)
    words = set(tool.words)
    if repository is None or not (words & _GIT.keys() or "git" in words) or _first(tool, _HOSTED) is not None:
        return None
    show = next((shows for word, shows in _GIT.items() if word in words), "")
    message = _first(tool, ("message",))
    told = {} if message is None or show != "commit" else {"message": equality(message, "subject")}
    keys = [Line("repository", marked()), Line("show", marked(show))]
    keys += [Line("branch", marked())] if show == "commit" else []
    return Candidate(
        Line("", [Line("git", keys)]),
        f"`{repository.name}` looks like a repository, whose own plumbing is asked, past the server.",
        SOURCE["git"].independence,
        (repository.name,),
        "",
        told,
    )


_HOSTED: Final = ("owner", "organization", "org", "workspace", "project_id")
"""With these arguments, a repository belongs to a host and is no local folder."""
_GIT: Final[Mapping[str, str]] = {
    "commit": "commit", "merge": "commit", "reset": "index", "add": "index", "stage": "index", "checkout": "head",
    "switch": "head", "push": "remote", "branch": "commit",
}  # fmt: skip


def _sql(tool: Tool, roots: Sequence[str]) -> Candidate | None:
    """A row of a database, past the server."""
    table = _first(tool, ("table", "table_name", "sql", "statement"))
    query = _first(tool, ("query",)) if {"sql", "database", "db", "table", "row", "query"} & set(tool.words) else None
    named = table or query
    if named is None:
        return None
    return Candidate(
        Line("", [Line("sql", [Line("database", marked()), Line("query", marked())])]),
        f"`{named.name}` points at a database, which is asked by itself (`database`: SQLite; or `url`: PostgreSQL).",
        SOURCE["sql"].independence,
        tuple(name for name in identifying(tool) if name != "sql"),
        "",
        {},
    )


def _s3(tool: Tool, roots: Sequence[str]) -> Candidate | None:
    """An object in a bucket."""
    bucket, key = _first(tool, ("bucket", "bucket_name", "Bucket")), _first(tool, ("key", "object_key", "Key"))
    if bucket is None or key is None or not key.required:
        return None
    return Candidate(
        Line("", [Line("s3", [Line("bucket", marked()), Line("key", f"{{requested.{key.name}}}")])]),
        f"`{bucket.name}` and `{key.name}` look like an object of an S3 store, which is asked by itself.",
        SOURCE["s3"].independence,
        (key.name,),
        "",
        {},
    )


_FRESH: Final = (
    "Whether it shows everything that was changed before it was asked, and no copy that may be behind. What is only "
    "`session` verifies nothing unless its readings bear a version or a time (`attributes`)."
)
_ABSENT: Final = (
    "How it answers where there is no such thing: the whole text of its error, `*` for what differs; or `at` and `is`."
)

# --- tools of the same server --------------------------------------------------------------------------------------


def _same_server(tool: Tool, reading: Sequence[Tool]) -> list[Candidate]:
    scored = [(score, each) for each in reading if (score := _score(tool, each)) > 0]
    scored.sort(key=lambda pair: (-pair[0], pair[1].name))
    return [_asking(tool, each) for _, each in scored[:3]]


def _score(tool: Tool, other: Tool) -> int:
    """Return how likely the tool shows the change; 0 where the arguments cannot call the tool."""
    if any(not _same(tool, each) for each in other.required):
        return 0
    keyed = sum(1 for each in other.required if _identifies(each.name))
    if not keyed:
        return 0
    common = set(nouns(tool)) & set(nouns(other))
    shown = len(_shared(tool, other))
    if not common and not shown:
        return 0
    one = 1 if other.words[:1] and other.words[0] in ("get", "read", "fetch", "show", "describe") else 0
    return 4 * len(common) + 3 * keyed + 2 * min(shown, 3) + one


def _same(tool: Tool, argument: Argument) -> bool:
    mine = tool.argument(argument.name)
    return mine is not None and (mine.kind == argument.kind or not mine.kind or not argument.kind)


def _shared(tool: Tool, other: Tool) -> dict[str, str]:
    """Return the arguments that appear in the other tool's output under the same name, with their paths."""
    found: dict[str, str] = {}
    for argument in tool.arguments:
        for path, kind in sorted(other.fields.items(), key=lambda each: (each[0].count("."), each[0])):
            if path.rpartition(".")[2] == argument.name and (kind == argument.kind or not kind or not argument.kind):
                found[argument.name] = path
                break
    return found


def _asking(tool: Tool, other: Tool) -> Candidate:
    keys = tuple(each.name for each in other.required)
    shared = _shared(tool, other)
    told = [f"authoritative.{shared[name]} == requested.{name}" for name in keys if name in shared]
    identity = f"authoritative.{shared[keys[0]]}" if len(keys) == 1 and told else " && ".join(told)
    ensure = {
        each.name: equality(each, shared[each.name])
        for each in tool.arguments
        if each.name in shared and each.name not in keys
    }
    asked = [Line(name, f"{{requested.{name}}}") for name in keys]
    absent = [Line("error_matches", marked(), (_ABSENT,))]
    source = [Line("name", marked(other.name)), Line("arguments", asked), Line("absent", absent)]
    return Candidate(
        Line("", [Line("tool", source), Line("consistency", marked(Consistency.STRONG.value), (_FRESH,))]),
        f"{shown(other.name, NAME_MAX_CHARS)} only reads, and takes what this one is given ({', '.join(keys)}). It is "
        "the same server's word.",
        Independence.SAME_CLIENT,
        keys,
        identity,
        ensure,
    )
