"""The vocabulary of a contract file: every source and executor with its keys, as data.

The checker and the published schema are both made from these tables, so neither has a key unknown to the other. A
source's row also limits the claims about the source; a file may claim less, and never more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.side_effect import Consistency, Independence

API_VERSION: Final = "readback/v1"
KIND: Final = "Contracts"


class Shape(StrEnum):
    """The form of a key's value. The second half holds templates."""

    FIXED = "fixed"
    """A text or a whole number, or a reference."""
    WRITTEN = "written"
    """A text or a whole number in the file itself, no reference."""
    NUMBER = "number"
    """A whole number, or a reference."""
    SECRET = "secret"
    """A reference only."""
    FLAG = "flag"
    CHOICE = "choice"
    WORDS = "words"
    """A list of texts."""
    CODES = "codes"
    """A list of exit codes."""
    ENVIRONMENT = "environment"
    """Names with texts or references."""
    TEXT = "text"
    TEXTS = "texts"
    """A list of templates."""
    NAMED = "named"
    """Names with templates."""
    HEADERS = "headers"
    """Names of headers with templates or references."""
    VALUE = "value"
    """Any value, with templates in its texts."""
    STATEMENT = "statement"
    """SQL; each expression in braces is bound as a parameter."""
    ADDRESS = "address"
    """A path below the address; each expression in braces is one encoded segment, or a part of one."""
    ARGV = "argv"
    """A program and its arguments, one element each. A value is a whole element, declared as data."""
    INPUT = "input"
    """A text without values, or one value declared as data."""
    ARGUMENTS = "arguments"
    """Names with values of any form, with templates in their texts."""
    ABSENCE = "absence"
    """The signs of absence: an error's whole text, or a value in the answer."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a source or an executor. `uses`: the uses with this key; empty for all."""

    name: str
    shape: Shape
    said: str
    required: bool = False
    choices: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceKind:
    """One built-in source: its keys, its uses, and the maximum claims about it.

    `consistency` and `independence` are a reader's defaults; `at_most` is the maximum claim in a file. `where`: the
    keys that name the system; `either`: exactly one of these keys is given.
    """

    name: str
    said: str
    keys: tuple[Key, ...]
    uses: tuple[str, ...]
    consistency: Consistency
    independence: Independence
    at_most: tuple[Consistency, Independence]
    where: tuple[str, ...]
    either: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecutorKind:
    """One built-in executor: its keys. `where`, `either`: as a source's."""

    name: str
    said: str
    keys: tuple[Key, ...]
    where: tuple[str, ...]
    either: tuple[str, ...] = ()


_DATABASE: Final = (
    Key("database", Shape.FIXED, "The file of an SQLite database, from the contract file's folder on."),
    Key("url", Shape.FIXED, "The address of a PostgreSQL database, without a password (extra `postgres`)."),
    Key("user", Shape.FIXED, "Who logs in."),
    Key("password", Shape.SECRET, "A reference to the password."),
)
_SERVICE: Final = (
    Key("url", Shape.FIXED, "The address of the service.", required=True),
    Key("hosts", Shape.WORDS, "The allowed hosts; default: only the host of `url`."),
    Key("headers", Shape.HEADERS, "Headers of each request; credentials by reference."),
    Key("path", Shape.ADDRESS, "The path below the address; values are encoded.", required=True),
    Key("query", Shape.NAMED, "The query, encoded."),
)
_MAILBOX: Final = (
    Key("host", Shape.FIXED, "The server.", required=True),
    Key("port", Shape.NUMBER, "Its port.", required=True),
    Key("security", Shape.CHOICE, "How the line is kept; else `tls`.", False, ("tls", "starttls", "none")),
    Key("user", Shape.FIXED, "Who logs in."),
    Key("password", Shape.SECRET, "A reference to the password."),
)  # fmt: skip
_PROGRAM: Final = (
    Key("argv", Shape.ARGV, "The program (by path if it receives values) and its arguments.", required=True),
    Key("cwd", Shape.FIXED, "The working folder; default: the contract file's."),
    Key("env", Shape.ENVIRONMENT, "The environment beside PATH, HOME, LANG and TZ; credentials by reference."),
)
_OWN_CWD: Final = {"cwd": "The working folder, without contracts, settings, ledger or keys."}
_MARKS: Final = (
    Key(
        "version",
        Shape.FIXED,
        "The place of the reading's version: a column, or a JSON pointer.",
        uses=("read", "find"),
    ),
    Key("stamp", Shape.FIXED, "The place of the stamp.", uses=("read", "find")),
    Key("author", Shape.FIXED, "The place of the author.", uses=("read", "find")),
)
"""For readings; a look-up's answer is a word."""
_WORDS_OF_KEYS: Final = (
    Key("status", Shape.FIXED, "The place of the attempt's status word.", uses=("lookup",)),
    Key("landed", Shape.WORDS, "Status words for a final effect.", uses=("lookup",)),
    Key("failed", Shape.WORDS, "Status words for a final end without effect.", uses=("lookup",)),
)
_SERVER: Final = Key("server", Shape.WRITTEN, "A name of the file's `servers`; default: the file's own `server`.")
_ROOT: Final = Key("root", Shape.FIXED, "The folder that confines every path; default: the contract file's folder.")

SOURCES: Final = (
    SourceKind(
        "file",
        "A file or a folder below `root`: kind, size, SHA-256, mode; with its text, or as a manifest.",
        (
            _ROOT,
            Key("path", Shape.TEXT, "The path below `root`.", required=True),
            Key(
                "base",
                Shape.FIXED,
                "Where a relative path begins; then `~`, `.` and `..` count as for a program there.",
            ),
            Key(
                "names",
                Shape.CHOICE,
                "equivalent: a name that is not there stands for the one in another Unicode form.",
                choices=("exact", "equivalent"),
            ),
            Key("show", Shape.CHOICE, "The content of the reading.", choices=("stat", "text", "tree", "lines")),
            Key(
                "also",
                Shape.NAMED,
                "Names with other paths, shown under `also`; null: nothing is there. `links` names the links, `leads` "
                "shows what each of them says.",
            ),
            Key("times", Shape.FLAG, "False: a write of the same bytes is no change."),
            Key("match", Shape.VALUE, "For `lines`, JSON in each: a list of objects that a shown line is like."),
            Key("by", Shape.FIXED, "For `lines`: a field by whose values they are shown too."),
        ),
        ("read",),
        Consistency.STRONG,
        Independence.OTHER_CLIENT,
        (Consistency.STRONG, Independence.OTHER_SYSTEM),
        ("root",),
    ),
    SourceKind(
        "sql",
        "One row of an SQLite or PostgreSQL database; every row, for `find`.",
        (
            *_DATABASE,
            Key("query", Shape.STATEMENT, "A select; expressions in braces are bound.", required=True),
            *_MARKS,
            Key(
                "booleans",
                Shape.WORDS,
                "Columns that hold truth values as 0 and 1, as SQLite's do; they are shown as false and true.",
                uses=("read", "find"),
            ),
            *_WORDS_OF_KEYS,
        ),
        ("read", "find", "lookup"),
        Consistency.STRONG,
        Independence.OTHER_CLIENT,
        (Consistency.STRONG, Independence.OTHER_SYSTEM),
        ("database", "url"),
        ("database", "url"),
    ),
    SourceKind(
        "tables",
        "An SQLite database by its tables, as digests; and what a statement would make of them, tried on a copy.",
        (
            Key("database", Shape.FIXED, "The file, from the contract file's folder on.", required=True),
            Key("foresee", Shape.TEXT, "A statement; `foreseen` is what it makes anew, `left_open` what else it may."),
        ),
        ("read",),
        Consistency.STRONG,
        Independence.OTHER_CLIENT,
        (Consistency.STRONG, Independence.OTHER_SYSTEM),
        ("database",),
    ),
    SourceKind(
        "http",
        "A JSON resource by GET; a list of them, for `find`.",
        (
            *_SERVICE,
            Key("value", Shape.FIXED, "A JSON pointer to the object in the answer."),
            *_MARKS,
            Key(
                "canary",
                Shape.FIXED,
                "A path that always exists; without one, a 404 is never absence.",
                uses=("read",),
            ),
            Key("as_of_header", Shape.FIXED, "A header with the service's own microseconds.", uses=("read", "find")),
            Key(
                "items",
                Shape.FIXED,
                "A JSON pointer to the list, empty if the answer is a list; default: `/items`.",
                uses=("find",),
            ),
            Key("complete", Shape.FIXED, "A JSON pointer to a value that is true for a complete list.", uses=("find",)),
            *_WORDS_OF_KEYS,
        ),
        ("read", "find", "lookup"),
        Consistency.SESSION,
        Independence.OTHER_CLIENT,
        (Consistency.STRONG, Independence.OTHER_SYSTEM),
        ("url",),
    ),
    SourceKind(
        "imap",
        "The message with the attempt's stamp, in folders of one mailbox.",
        (
            *_MAILBOX,
            Key("folders", Shape.WORDS, "The searched folders; default: INBOX."),
            Key("proves", Shape.CHOICE, "The proof given by a message there.", True, ("submitted", "delivered")),
            Key("header", Shape.FIXED, "The header with the stamp; default: X-Readback-Stamp."),
            Key("overlapping", Shape.FLAG, "The folders show the same messages."),
        ),
        ("read", "find"),
        Consistency.STRONG,
        Independence.OTHER_SYSTEM,
        (Consistency.STRONG, Independence.OTHER_SYSTEM),
        ("host", "port"),
    ),
    SourceKind(
        "s3",
        "An object of an S3 store by its head: size, SHA-256, version, metadata (extra `s3`).",
        (
            Key("bucket", Shape.FIXED, "The bucket.", required=True),
            Key("endpoint", Shape.FIXED, "The store's address, if not Amazon's."),
            Key("region", Shape.FIXED, "Its region."),
            Key("access_key", Shape.FIXED, "The access key; default: boto3's usual places."),
            Key("secret_key", Shape.SECRET, "A reference to the access key's secret."),
            Key("key", Shape.TEXT, "The object's key.", required=True, uses=("read",)),
            Key("bytes", Shape.FLAG, "Read the object's bytes, and hash them.", uses=("read",)),
            Key(
                "show",
                Shape.CHOICE,
                "head: the newest version; versions: all that the bucket keeps of the key, and its delete markers.",
                choices=("head", "versions"),
                uses=("read",),
            ),
            Key("prefix", Shape.TEXT, "Where every version is looked at.", required=True, uses=("find",)),
        ),
        ("read", "find"),
        Consistency.STRONG,
        Independence.OTHER_CLIENT,
        (Consistency.STRONG, Independence.OTHER_SYSTEM),
        ("endpoint", "bucket"),
    ),
    SourceKind(
        "git",
        "A repository through git's own plumbing: a commit on a branch, a blob, the index, HEAD, or a remote's ref.",
        (
            Key("repository", Shape.FIXED, "The repository's folder.", required=True),
            Key(
                "at",
                Shape.TEXT,
                "Which repository: that one, or one below it. A relative path begins at the file's folder.",
            ),
            Key(
                "show",
                Shape.CHOICE,
                "The read object.",
                choices=("commit", "blob", "index", "head", "tip", "remote", "status"),
            ),
            Key("branch", Shape.TEXT, "A branch; for commit, blob and remote."),
            Key("path", Shape.TEXT, "A file's path in the repository; for blob and index."),
            Key("paths", Shape.VALUE, "For `status`: a list of pathspecs; default: all."),
            Key("revision", Shape.TEXT, "For `status`: whose commit is shown as `means`."),
            Key("files", Shape.VALUE, "For `status`: the paths that `files` is a digest of; null: all that changed."),
            Key("remote", Shape.FIXED, "The name of one of the repository's remotes."),
        ),
        ("read",),
        Consistency.STRONG,
        Independence.OTHER_CLIENT,
        (Consistency.STRONG, Independence.OTHER_SYSTEM),
        ("repository",),
    ),
    SourceKind(
        "command",
        "A program's JSON output: an object (null for absence); a list of objects, for `find`.",
        (
            *_PROGRAM,
            Key(
                "absent",
                Shape.CODES,
                "Exit codes that mean absence; default: none.",
                uses=("read", "lookup"),
            ),
            *_MARKS,
            *_WORDS_OF_KEYS,
        ),
        ("read", "find", "lookup"),
        Consistency.SESSION,
        Independence.OTHER_CLIENT,
        (Consistency.STRONG, Independence.OTHER_SYSTEM),
        ("argv",),
    ),
    SourceKind(
        "tool",
        "Another tool's answer: of the acting server (same_client at most), or of another. By a gateway only.",
        (
            Key("name", Shape.WRITTEN, "The tool.", required=True),
            Key("arguments", Shape.ARGUMENTS, "The tool's input.", required=True),
            _SERVER,
            Key(
                "shows",
                Shape.CHOICE,
                "The answer's text as JSON, or as `text`.",
                choices=("json", "text"),
                uses=("read", "lookup"),
            ),
            Key("value", Shape.WRITTEN, "A JSON pointer to the value in the answer.", uses=("read", "find")),
            Key("absent", Shape.ABSENCE, "The signs of absence; default: no error is absence."),
            *(replace(each, shape=Shape.WRITTEN) for each in _MARKS),
            Key(
                "items",
                Shape.WRITTEN,
                "A JSON pointer to the list; default: the answer is a list.",
                uses=("find",),
            ),
            Key(
                "complete", Shape.WRITTEN, "A JSON pointer to a value that is true for a complete list.", uses=("find",)
            ),
            replace(_WORDS_OF_KEYS[0], shape=Shape.WRITTEN),
            *_WORDS_OF_KEYS[1:],
        ),
        ("read", "find", "lookup"),
        Consistency.SESSION,
        Independence.OTHER_CLIENT,
        (Consistency.STRONG, Independence.OTHER_CLIENT),
        ("server", "name"),
    ),
)

EXECUTORS: Final = (
    ExecutorKind(
        "http",
        "One request, with the attempt's key and stamp in its headers.",
        (
            *_SERVICE,
            Key("method", Shape.CHOICE, "The HTTP method.", True, ("POST", "PUT", "PATCH", "DELETE", "GET")),
            Key("json", Shape.VALUE, "The body."),
            Key("key_header", Shape.FIXED, "The header of the key; default: Idempotency-Key."),
            Key("stamp_header", Shape.FIXED, "The header of the stamp; default: X-Stamp."),
        ),
        ("url",),
    ),
    ExecutorKind(
        "sql",
        "One statement, committed; or staged, and committed only if the contract holds inside.",
        (
            *_DATABASE,
            Key("statement", Shape.STATEMENT, "Expressions in braces are bound.", required=True),
            Key("stage", Shape.FLAG, "Verify inside the open transaction first; needs `look`."),
            Key("look", Shape.STATEMENT, "The select of the resulting row."),
            Key("version", Shape.FIXED, "The column of that row with its version."),
            Key("stamp", Shape.FIXED, "The column of that row with the stamp."),
        ),
        ("database", "url"),
        ("database", "url"),
    ),
    ExecutorKind(
        "smtp",
        "One plain text message with the attempt's stamp.",
        (
            *_MAILBOX,
            Key("sender", Shape.TEXT, "The sender.", required=True),
            Key("to", Shape.TEXTS, "The recipients.", required=True),
            Key("subject", Shape.TEXT, "Its subject.", required=True),
            Key("text", Shape.TEXT, "Its text.", required=True),
            Key("headers", Shape.HEADERS, "More headers."),
        ),
        ("host", "port"),
    ),
    ExecutorKind(
        "file",
        "Writes, appends to, deletes or moves a file below `root`.",
        (
            Key(
                "root", Shape.FIXED, "The folder that confines every path, without Readback's own files.", required=True
            ),
            Key("do", Shape.CHOICE, "What is done.", True, ("write", "append", "delete", "move")),
            Key("path", Shape.TEXT, "The file.", required=True),
            Key("content", Shape.TEXT, "The new content, or the added content."),
            Key("to", Shape.TEXT, "Its new path."),
            Key("parents", Shape.FLAG, "Create the parent folders."),
            Key("overwrite", Shape.FLAG, "A move may replace another file."),
            Key("stage", Shape.FLAG, "Verify a write beside the folder before installing the file."),
            Key("staging", Shape.FIXED, "The folder for staged changes."),
        ),
        ("root",),
    ),
    ExecutorKind(
        "command",
        "Runs a program once; the output is evidence.",
        (
            *(replace(each, said=_OWN_CWD.get(each.name, each.said)) for each in _PROGRAM),
            Key("stdin", Shape.INPUT, "The standard input."),
            Key("codes", Shape.CODES, "Exit codes that claim success; default: 0."),
        ),
        ("argv",),
    ),
    ExecutorKind("agent", "A coding agent's own tool, between two hooks. It is called by the agent alone.", (), ()),
    ExecutorKind(
        "tool",
        "A tool of a server. A contract without `execute` is the tool of its own name. Behind a gateway only.",
        (
            Key("name", Shape.WRITTEN, "The tool; default: the tool of the contract's name."),
            Key("arguments", Shape.ARGUMENTS, "The tool's input; default: the call's own arguments."),
            _SERVER,
        ),
        ("server",),
    ),
)

SOURCE: Final = {each.name: each for each in SOURCES}
EXECUTOR: Final = {each.name: each for each in EXECUTORS}
READER_KEYS: Final = ("name", "source", "consistency", "independence", "timeout", "attributes", "whole_region")
"""Beside the source's own word, in an entry of `readers`."""
SEARCH_KEYS: Final = ("source", "consistency", "independence", "timeout")
"""Beside the source's own word, under `find` and `lookup`."""
COMPLETE: Final = "complete"
"""For `find` alone: the search covers every place writable by the tool."""
SENDS_KEY: Final = frozenset({"http"})
"""Executors that send the attempt's idempotency key by themselves."""
ABSENCE_KEYS: Final = ("error_matches", "at", "is")
DOCUMENT_KEYS: Final = ("apiVersion", "kind", "metadata", "server", "servers", "overrides", "contracts")
SERVER_KEYS: Final = ("command", "url", "env", "headers", "cwd")
OWN_KEYS: Final = (
    "description", "arguments", "operation", "find", "lookup", "rollback", "compensate", "twin", "tool_sha256",
    "examples", "survivors",
)  # fmt: skip
"""Keys of a contract in a file, beside the keys of every notation."""
POINTED: Final = frozenset({"http", "command", "tool"})
"""Sources with JSON answers: JSON pointers select the parts."""
POINTERS: Final = ("value", "version", "stamp", "author", "items", "complete", "status")
NEEDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("file", "write"): ("content",),
    ("file", "append"): ("content",),
    ("file", "move"): ("to",),
    ("git", "commit"): ("branch",),
    ("git", "blob"): ("branch", "path"),
    ("git", "index"): ("path",),
    ("git", "remote"): ("branch", "remote"),
}
"""Keys required by a choice: by the kind, and its `do` or `show`."""
USUAL: Final[Mapping[str, str]] = {"git": "commit"}
"""The default of `show`."""
