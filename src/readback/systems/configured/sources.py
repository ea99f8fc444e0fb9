"""How each source of a contract file reads, through the classes of `readback.systems`.

`configured.factory` calls these functions with resolved settings and rendered values. Each row opens its
adapter for one call and closes the adapter, so nothing survives between two readings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Final

import readback.systems as systems
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.domain.verification.reading import Lookup, Presence, Reading
from readback.errors import ReaderTypeError, SandboxEscapeError, SettingsError, UsageError
from readback.ports.system_factory import Given, TemplateParts
from readback.systems.configured.databases import bound, connection
from readback.systems.configured.settings import Settled

TRIAL_PART: Final = 0.8
"""Part of a reading's time for the trial. The rest lets the reading report the end of the trial."""
NEAR_MAX_BYTES: Final = 65_536
"""Larger files are read and hashed in a thread, off the event loop."""
SQLITE_BESIDE: Final = ("-journal", "-wal", "-shm")
"""Files opened by SQLite together with a database. SQLite would wait forever on a pipe."""
_MARKS: Final = ("version", "stamp", "author")


def _no_find(settled: Settled, ctx: Context, given: Given) -> list[Reading]:
    raise UsageError(f"The source {settled.name!r} cannot be searched.")


def _no_lookup(settled: Settled, ctx: Context, given: Given) -> Lookup:
    raise UsageError(f"The source {settled.name!r} supports no lookup by key.")


@dataclass(frozen=True, slots=True)
class Near:
    """How to read one file briefly, if the file is on a local disk and small enough.

    `read` gives up on slow reads. `beside`: endings of the name under which `read` opens further files.
    """

    file: Callable[[Settled, Given], str]
    read: Callable[[Settled, Context, Given], Reading]
    most_bytes: int | None = None
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """The operations of one source."""

    read: Callable[[Settled, Context, Given], Reading]
    ping: Callable[[Settled], None]
    find: Callable[[Settled, Context, Given], list[Reading]] = _no_find
    lookup: Callable[[Settled, Context, Given], Lookup] = _no_lookup
    near: Near | None = None


# --- files ---


def below(root: str, path: str) -> str:
    """Return a path in the form of the adapters: an absolute path below the root loses the root."""
    import os

    if not path.startswith("/"):
        return path.removeprefix("./")
    for known in (os.path.abspath(root), os.path.realpath(root)):
        if path.startswith(known.rstrip("/") + "/"):
            return path[len(known.rstrip("/")) + 1 :]
    raise SandboxEscapeError(f"The path {path!r:.200} leads out of its folder.")


def _file(settled: Settled) -> Any:
    return systems.FileSource(settled.name, settled.path("root"), names=settled.get("names", "exact"))


def resolved(base: str, path: str) -> str:
    """Resolve a path like a program with working folder `base`: `~`, `.` and `..` by text, links unresolved.

    Two leading slashes, unchanged by `normpath`, mean the same place as one slash.
    """
    import os

    whole = os.path.normpath(os.path.join(base, os.path.expanduser(path)))
    return whole[1:] if whole.startswith("//") else whole


def _read_file(settled: Settled, ctx: Context, given: Given) -> Reading:
    files, show = _file(settled), settled.get("show", "stat")
    inside = _inside(settled, given["path"])
    more = (_matching(given), settled.some("by")) if show == "lines" else ((), {})
    found = getattr(files, show)(inside, *more[0], **more[1])
    assert isinstance(found, Reading)
    also = given.get("also")
    if isinstance(also, dict) and isinstance(found.value, dict):
        found = _with_others(settled, files, found, {str(name): _inside(settled, path) for name, path in also.items()})
    return found if settled.get("times", True) else _timeless(found)


def _file_at(settled: Settled, given: Given) -> str:
    """Return the single file to read, or "" where there may be several."""
    import os

    return "" if given.get("also") else os.path.join(settled.path("root"), _inside(settled, given["path"]))


def _inside(settled: Settled, path: object) -> str:
    """Return a path below the root, without the root."""
    whole, root = str(path), settled.path("root")
    if settled.get("base") is not None:
        whole = resolved(settled.path("base"), whole)
    return "." if whole in (root, root.rstrip("/")) else below(root, whole)


def in_folder(settled: Settled, path: str) -> str:
    """Return the place of a path of a file source or executor. Raises SandboxEscapeError."""
    import os

    return os.path.join(settled.path("root"), _inside(settled, path))


def _with_others(settled: Settled, files: Any, found: Reading, others: Mapping[str, str]) -> Reading:
    """Add the content at other paths, a folder with its manifest. Shows nothing unless all paths are visible."""
    shown: dict[str, Json] = {}
    leads: dict[str, Json] = {}
    for name, path in others.items():
        if (to := files.leads(path)) is not None:
            leads[name] = to
        other: Reading = files.stat(path)
        if isinstance(other.value, dict) and other.value.get("kind") == "directory":
            other = files.tree(path)
        if other.presence not in (Presence.PRESENT, Presence.ABSENT) or not other.complete:
            return other
        value = _timeless(other).value
        told = value if isinstance(value, dict) else None
        shown[name] = told and {key: each for key, each in told.items() if key not in ("path", "link")}
    assert isinstance(found.value, dict)
    return replace(found, value={**found.value, "also": shown, "links": [*leads], "leads": leads})


def _matching(given: Given) -> list[Any]:
    """Return the objects to match lines against. Nested lists are flattened. Raises ReaderTypeError."""
    if "match" not in given:
        return []
    match = given["match"] if isinstance(given["match"], list) else [given["match"]]
    flat = [one for each in match for one in (each if isinstance(each, list) else [each])]
    if not all(isinstance(each, dict) for each in flat):
        raise ReaderTypeError("`match` must give a list of objects.")
    return [flat]


def _timeless(found: Reading) -> Reading:
    """Remove the parts that change when the same bytes are written again."""
    value = found.value
    if isinstance(value, dict):
        value = {key: each for key, each in value.items() if key != "mtime_us"}
    return replace(found, value=value, version=None)


# --- databases ---


def _sql(settled: Settled, *, briefly: bool = False) -> Any:
    apart = "" if briefly or settled.get("database") is None else settled.path("database")
    return systems.SqlSource(
        settled.name, connection(settled, briefly=briefly), timeout_s=settled.timeout_s, database=apart
    )


def _query(settled: Settled, given: Given) -> tuple[str, tuple[object, ...]]:
    return bound(settled, given["query"])


def _read_sql(settled: Settled, ctx: Context, given: Given, *, briefly: bool = False) -> Reading:
    found = _sql(settled, briefly=briefly).one(*_query(settled, given), **settled.some(*_MARKS, "booleans"))
    assert isinstance(found, Reading)
    return found


def _glance_sql(settled: Settled, ctx: Context, given: Given) -> Reading:
    return _read_sql(settled, ctx, given, briefly=True)


def _database(settled: Settled, given: Given) -> str:
    """Return the database's file, or "" for a server."""
    return "" if settled.get("database") is None else settled.path("database")


def _find_sql(settled: Settled, ctx: Context, given: Given) -> list[Reading]:
    return list(_sql(settled).all(*_query(settled, given), **settled.some(*_MARKS, "booleans")))


def _lookup_sql(settled: Settled, ctx: Context, given: Given) -> Lookup:
    found = _read_sql(settled, ctx, given)
    if found.presence is Presence.ABSENT:
        return Lookup.unknown_key()
    column = str(settled.get("status"))
    if not isinstance(found.value, dict) or column not in found.value:
        raise ReaderTypeError(f"The lookup in {settled.name!r} shows no {column!r}: {found.detail or 'no row'}")
    landed, failed = settled.get("landed", []), settled.get("failed", [])
    return Lookup.by_word(found.value[column], landed, failed, found.value)


def _tables(settled: Settled) -> Any:
    most_s = settled.timeout_s * TRIAL_PART
    return systems.TablesSource(settled.name, settled.path("database"), timeout_s=most_s)


def _read_tables(settled: Settled, ctx: Context, given: Given) -> Reading:
    found = _tables(settled).state(str(given.get("foresee", "")))
    assert isinstance(found, Reading)
    return found


# --- services ---


def addressed(pieces: object) -> tuple[str, dict[str, Any]]:
    """Return a path with placeholders, and their values. The adapter encodes the values."""
    assert isinstance(pieces, TemplateParts)
    path = pieces.texts[0]
    params: dict[str, Any] = {}
    for number, (value, text) in enumerate(zip(pieces.values, pieces.texts[1:], strict=True)):
        params[f"v{number}"] = value
        path += f"{{v{number}}}{text}"
    return path, params


def headers_of(settled: Settled, given: Given) -> dict[str, str]:
    """Return the headers from references, and the headers from templates."""
    rendered = given.get("headers")
    return {**settled.get("headers", {}), **(rendered if isinstance(rendered, dict) else {})}


def _http(settled: Settled, headers: Mapping[str, str], *, canary: bool = True) -> Any:
    return systems.HttpSource(
        settled.name,
        settled.get("url"),
        hosts=settled.get("hosts"),
        headers=dict(headers),
        timeout_s=settled.timeout_s,
        canary=settled.get("canary") if canary else None,
        as_of_header=settled.get("as_of_header"),
    )


def _read_http(settled: Settled, ctx: Context, given: Given) -> Reading:
    path, params = addressed(given["path"])
    marks = settled.some("value", *_MARKS)
    with _http(settled, headers_of(settled, given)) as http:
        found = http.get(ctx, path, params=params, query=given.get("query"), **marks)
    assert isinstance(found, Reading)
    return found


def _find_http(settled: Settled, ctx: Context, given: Given) -> list[Reading]:
    path, params = addressed(given["path"])
    more = settled.some("value", "items", "complete", *_MARKS)
    with _http(settled, headers_of(settled, given)) as http:
        return list(http.all(ctx, path, params=params, query=given.get("query"), **more))


def _lookup_http(settled: Settled, ctx: Context, given: Given) -> Lookup:
    path, params = addressed(given["path"])
    words = settled.some("status", "landed", "failed", "value")
    with _http(settled, headers_of(settled, given)) as http:
        found = http.lookup(ctx, path, params=params, query=given.get("query"), **words)
    assert isinstance(found, Lookup)
    return found


def _ping_http(settled: Settled) -> None:
    # Only a call knows the headers for the canary. A reading asks for the canary.
    with _http(settled, settled.get("headers", {}), canary=False) as http:
        http.ping()


# --- mailboxes ---


def _imap(settled: Settled) -> Any:
    return systems.ImapSource(
        settled.name,
        settled.get("host"),
        settled.number("port"),
        user=settled.get("user"),
        password=settled.get("password"),
        proves=settled.get("proves"),
        timeout_s=settled.timeout_s,
        **settled.some("folders", "security", "overlapping"),
    )


def _read_imap(settled: Settled, ctx: Context, given: Given) -> Reading:
    found = _imap(settled).by_stamp(ctx, **settled.some("header"))
    assert isinstance(found, Reading)
    return found


def _find_imap(settled: Settled, ctx: Context, given: Given) -> list[Reading]:
    return list(_imap(settled).find(ctx, **settled.some("header")))


# --- stores of objects ---


def _s3(settled: Settled) -> Any:
    if find_spec("boto3") is None:
        raise SettingsError("An S3 store needs an extra.", remedy="Run: pip install 'readback-ai[s3]'.")
    access = settled.some("endpoint", "region", "access_key", "secret_key")
    return systems.S3Source(settled.name, settled.get("bucket"), timeout_s=settled.timeout_s, **access)


def _read_s3(settled: Settled, ctx: Context, given: Given) -> Reading:
    with _s3(settled) as store:
        if settled.get("show") == "versions":
            found = store.versions(ctx, str(given["key"]))
        else:
            found = store.head(ctx, str(given["key"]), read_bytes=settled.get("bytes", False))
    assert isinstance(found, Reading)
    return found


def _find_s3(settled: Settled, ctx: Context, given: Given) -> list[Reading]:
    with _s3(settled) as store:
        return list(store.find(ctx, str(given["prefix"])))


def _ping_s3(settled: Settled) -> None:
    with _s3(settled) as store:
        store.ping()


# --- repositories ---


def _git(settled: Settled, at: str = "") -> Any:
    return systems.GitSource(settled.name, at or settled.path("repository"), timeout_s=settled.timeout_s)


def _repository(settled: Settled, at: object) -> str:
    """Return the repository of a call: from the settings, or below that folder. Raises SandboxEscapeError."""
    import os

    root = os.path.realpath(settled.path("repository"))
    found = os.path.realpath(resolved(settled.folder, str(at)))
    if found != root and not found.startswith(root.rstrip("/") + "/"):
        raise SandboxEscapeError(f"{str(at)!r:.200} is not a repository within {settled.name!r}.")
    return found


def _read_git(settled: Settled, ctx: Context, given: Given) -> Reading:
    git = _git(settled, _repository(settled, given["at"]) if "at" in given else "")
    branch, path = str(given.get("branch", "")), str(given.get("path", ""))
    match settled.get("show", "commit"):
        case "blob":
            found = git.blob(branch, path)
        case "index":
            found = git.index(path)
        case "head":
            found = git.head()
        case "tip":
            found = git.tip()
        case "status":
            paths, files = given.get("paths", []), given.get("files")
            for name, listed in (("paths", paths), ("files", [] if files is None else files)):
                if not isinstance(listed, list) or not all(isinstance(each, str) and each for each in listed):
                    raise ReaderTypeError(f"`{name}` must give a list of texts.")
            found = git.status(paths, revision=str(given.get("revision", "")), files=files)
        case "remote":
            found = git.remote(str(settled.get("remote")), branch)
        case _:
            found = git.commit(branch)
    assert isinstance(found, Reading)
    return found


# --- programs ---


def _command(settled: Settled) -> Any:
    return systems.CommandSource(
        settled.name,
        cwd=settled.path("cwd"),
        env=settled.get("env", {}),
        absent=settled.get("absent", ()),
        timeout_s=settled.timeout_s,
    )


def _read_command(settled: Settled, ctx: Context, given: Given) -> Reading:
    found = _command(settled).read(ctx, settled.command(given["argv"]), **settled.some(*_MARKS))
    assert isinstance(found, Reading)
    return found


def _find_command(settled: Settled, ctx: Context, given: Given) -> list[Reading]:
    return list(_command(settled).find(ctx, settled.command(given["argv"]), **settled.some(*_MARKS)))


def _lookup_command(settled: Settled, ctx: Context, given: Given) -> Lookup:
    words = {name: settled.get(name, []) for name in ("landed", "failed")}
    found = _command(settled).lookup(ctx, settled.command(given["argv"]), status=settled.get("status"), **words)
    assert isinstance(found, Lookup)
    return found


SOURCES: Final[Mapping[str, Row]] = {
    "file": Row(_read_file, lambda settled: _file(settled).ping(), near=Near(_file_at, _read_file, NEAR_MAX_BYTES)),
    "sql": Row(
        _read_sql,
        lambda settled: _sql(settled).ping(),
        _find_sql,
        _lookup_sql,
        near=Near(_database, _glance_sql, beside=SQLITE_BESIDE),
    ),
    "tables": Row(_read_tables, lambda settled: _tables(settled).ping()),
    "http": Row(_read_http, _ping_http, _find_http, _lookup_http),
    "imap": Row(_read_imap, lambda settled: _imap(settled).ping(), _find_imap),
    "s3": Row(_read_s3, _ping_s3, _find_s3),
    "git": Row(_read_git, lambda settled: _git(settled).ping()),
    "command": Row(
        _read_command,
        lambda settled: _command(settled).ping(settled.command(settled.get("argv"))),
        _find_command,
        _lookup_command,
    ),
}
