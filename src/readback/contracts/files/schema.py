"""The JSON Schema of contract files (draft 2020-12), made of the very tables that the checker reads.

Published with the package as `contracts.schema.json`, and printed by `readback contracts schema`. It says what can be
said of one file without compiling: the checker also knows expressions, other files and the side-effect classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from readback.contracts.files.build import CONTRACT_KEYS
from readback.contracts.files.words import (
    API_VERSION,
    EXECUTORS,
    KIND,
    SEARCH_KEYS,
    SOURCES,
    Key,
    Shape,
    SourceKind,
)
from readback.contracts.options import PROVES
from readback.domain.contract import IDENTITY_KEYS, Noop
from readback.domain.freezing import FreezeScope
from readback.domain.kind import Kind
from readback.domain.side_effect import Consistency, Independence, SideEffect

PUBLISHED: Final = "contracts.schema.json"
_TEXT: Final[Mapping[str, Any]] = {"type": "string", "minLength": 1}
_PLAIN: Final[Mapping[str, Any]] = {"type": ["string", "integer"]}
_FLAG: Final[Mapping[str, Any]] = {"type": "boolean"}
_TEMPLATE: Final[Mapping[str, Any]] = {"type": ["string", "integer", "number"]}
_SPAN: Final[Mapping[str, Any]] = {"type": "string", "pattern": "^( *[0-9]+(\\.[0-9]+)?(us|ms|s|m|h|d) *)+$"}
_WORDS: Final[Mapping[str, Any]] = {"type": "array", "items": _TEXT, "maxItems": 64}
_CONDITIONS: Final[Mapping[str, Any]] = {"type": "object", "additionalProperties": {"$ref": "#/$defs/condition"}}
_CONDITION_S: Final[Mapping[str, Any]] = {"oneOf": [_TEXT, _CONDITIONS]}
_REFERENCE: Final[Mapping[str, Any]] = {"$ref": "#/$defs/reference"}


def _words(kind: type[StrEnum]) -> dict[str, Any]:
    return {"enum": [member.value for member in kind]}


_TERMS: Final[Mapping[str, Any]] = {
    "name": {**_TEXT, "description": "The reader's name; its source's word where it is left away."},
    "source": {**_TEXT, "description": "The system's name, for the record."},
    "consistency": {**_words(Consistency), "description": "At most what the source can be."},
    "independence": {**_words(Independence), "description": "At most what the source can be."},
    "timeout": {**_SPAN, "description": "How long one reading may take."},
    "attributes": {**_FLAG, "description": "Its readings say whose doing the state is."},
}
"""What is said of a reader beside its source; a part of it of a search."""

OPTIONS: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "version": (_TEXT, "The contract's version; that of the file's metadata where it is left away."),
    "kind": (_words(Kind), "What the operation does to its target."),
    "side_effect": (_words(SideEffect), "The class, which sets how deep it is verified."),
    "target": (_TEXT, "What it acts on; `{requested.x}` stands for an argument."),
    "identity": (
        {"type": "object", "propertyNames": {"enum": [*IDENTITY_KEYS]}, "additionalProperties": _TEXT},
        "Expressions that say of whom a reading is, or `not_offered`.",
    ),
    "require": (_CONDITION_S, "What has to hold before it is executed."),
    "expected_version": (_TEXT, "An expression for the version that the target has to have before."),
    "quorum": ({"type": "integer", "minimum": 1}, "How many readings have to agree."),
    "ensure": (
        {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"oneOf": [{"$ref": "#/$defs/condition"}, _CONDITIONS]},
        },
        "What has to hold afterwards, by name; or effect groups of such.",
    ),
    "fails_when": (_CONDITION_S, "What means that it failed for good."),
    "may_change": (_WORDS, "The only fields that may differ from before."),
    "noop": (_words(Noop), "What it means that everything held before already."),
    "within": (_SPAN, "How long the effect may take to be seen."),
    "polls": ({"type": "array", "items": _SPAN, "minItems": 1}, "When it is read again."),
    "stable_for": (_SPAN, "How long it has to hold."),
    "deadline": (_SPAN, "When looking ends."),
    "late_window": (_SPAN, "How long an effect may still land."),
    "key_fields": (_WORDS, "The arguments that the idempotency key is made of."),
    "key_kept": (_SPAN, "How long a settled key answers."),
    "principals": (_WORDS, "Who may act."),
    "scopes": (_WORDS, "The permission scopes that a client has to hold."),
    "redact": (_WORDS, "Paths whose values are not stored."),
    "tell": (_WORDS, "Fields of the reading that may be told."),
    "unverifiable": (_TEXT, "Why nothing can be read; it caps what may be claimed."),
    "proves": ({"enum": [*PROVES]}, "What the reading of a message proves."),
    "approval": (
        {
            "oneOf": [
                {"const": "required"},
                {
                    "type": "object",
                    "properties": {
                        "people": {"type": "integer", "minimum": 1, "maximum": 2},
                        "expires": _SPAN,
                        "when": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
            ]
        },
        "Who has to approve it, and when.",
    ),
    "freeze": ({"type": "array", "items": _words(FreezeScope), "minItems": 1}, "What a freeze covers."),
    "watch": (
        {
            "oneOf": [
                _SPAN,
                {
                    "type": "object",
                    "properties": {"after": _SPAN, "every": _SPAN, "for": _SPAN, "ensure": _WORDS},
                    "additionalProperties": False,
                },
            ]
        },
        "When it is looked at again after success.",
    ),
}
"""The keys that every notation has, as JSON Schema and in words."""

_OWN: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "description": ({"type": "string", "maxLength": 2_000}, "What it is for, in words."),
    "arguments": ({"type": "object"}, "JSON Schema of the arguments, or names with types."),
    "operation": (_TEXT, "A template for the operation's id, from what is requested."),
    "compensate": (
        {"oneOf": [_TEXT, {"type": "object"}]},
        "The contract that reverses it, by name or written out; `contract` with `arguments` for other arguments.",
    ),
    "twin": ({"type": "object", "minProperties": 1}, "Arguments that only ever mean a safe target, for drills."),
    "execute": ({"$ref": "#/$defs/execute"}, "What acts: one of the executors, with `timeout` and so on."),
    "readers": ({"type": "array", "items": {"$ref": "#/$defs/reader"}}, "What reads the system of record."),
    "find": ({"$ref": "#/$defs/find"}, "Finds every effect with the attempt's stamp."),
    "lookup": ({"$ref": "#/$defs/lookup"}, "Says what became of the attempt with this key."),
    "rollback": ({"$ref": "#/$defs/act"}, "Puts a local boundary back."),
    "tool_sha256": (
        {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "What the definition of the server's tool has to hash to.",
    ),
}


def contract_schema() -> dict[str, Any]:
    """The schema of a contract file."""
    every = {**OPTIONS, **_OWN}
    assert set(every) == set(CONTRACT_KEYS)
    execute_terms: dict[str, Any] = {
        "timeout": {**_SPAN, "description": "How long a call may take."},
        "honours_key": {**_FLAG, "description": "The tool answers a second call under one key from the first."},
        "reversible": {**_FLAG, "description": "What it does can be reversed."},
    }
    acts = {row.name: _spec(row.keys, "execute", row.said, row.either) for row in EXECUTORS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Readback contract file",
        "type": "object",
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "metadata": {
                "type": "object",
                "properties": dict.fromkeys(("name", "version", "description"), _TEXT),
                "additionalProperties": False,
            },
            "server": {"$ref": "#/$defs/server"},
            "servers": {
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_\\-]{0,63}$"},
                "additionalProperties": {"$ref": "#/$defs/server"},
                "description": "Other servers, by the names that `server` of a tool takes.",
            },
            "overrides": {**_WORDS, "description": "Contracts of earlier files that this one's take the place of."},
            "contracts": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_.\\-]*$", "maxLength": 128},
                "additionalProperties": {"$ref": "#/$defs/contract"},
            },
        },
        "required": ["apiVersion", "kind", "contracts"],
        "additionalProperties": False,
        "$defs": {
            "contract": {
                "type": "object",
                "properties": {name: {**every[name][0], "description": every[name][1]} for name in CONTRACT_KEYS},
                "required": ["kind", "side_effect", "target", "ensure"],
                "additionalProperties": False,
            },
            "condition": {"type": "string", "minLength": 1, "description": "An expression that is true or false."},
            "reference": _reference(),
            "execute": {"type": "object", "properties": {**acts, **execute_terms}, "additionalProperties": False},
            "act": {"type": "object", "properties": acts, "minProperties": 1, "maxProperties": 1,
                    "additionalProperties": False},
            "reader": _reader(),
            "find": _asked("find"),
            "lookup": _asked("lookup"),
            "server": _server(),
        },
    }  # fmt: skip


def published_schema() -> str:
    """The text that comes with the package."""
    from importlib.resources import files  # it brings archives and temporary files along

    return (files("readback.contracts.files") / PUBLISHED).read_text(encoding="utf-8")


def _reference() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"env": _TEXT, "file": _TEXT},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "description": "Where a value is that no file holds.",
    }


def _reader() -> dict[str, Any]:
    kinds = {row.name: _spec(row.keys, "read", row.said, row.either) for row in SOURCES if "read" in row.uses}
    one = [{"required": [name]} for name in kinds]
    return {"type": "object", "properties": {**kinds, **_TERMS}, "oneOf": one, "additionalProperties": False}


def _asked(use: str) -> dict[str, Any]:
    rows: Iterable[SourceKind] = (row for row in SOURCES if use in row.uses)
    kinds = {row.name: _spec(row.keys, use, row.said, row.either) for row in rows}
    one = [{"required": [name]} for name in kinds]
    return {
        "type": "object",
        "properties": {**kinds, **{name: _TERMS[name] for name in SEARCH_KEYS}},
        "oneOf": one,
        "additionalProperties": False,
    }


def _server() -> dict[str, Any]:
    named = {"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}, _REFERENCE]}}
    return {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": _TEXT, "minItems": 1},
            "url": {"oneOf": [_TEXT, _REFERENCE]},
            "env": named,
            "headers": named,
            "cwd": {"oneOf": [_TEXT, _REFERENCE]},
        },
        "oneOf": [{"required": ["command"]}, {"required": ["url"]}],
        "additionalProperties": False,
    }


def _spec(keys: tuple[Key, ...], use: str, said: str, either: tuple[str, ...]) -> dict[str, Any]:
    known = [key for key in keys if not key.uses or use in key.uses]
    made: dict[str, Any] = {
        "type": "object",
        "description": said,
        "properties": {key.name: {**_shape(key), "description": key.said} for key in known},
        "additionalProperties": False,
    }
    required = [key.name for key in known if key.required]
    if required:
        made["required"] = required
    if either:
        made["oneOf"] = [{"required": [name]} for name in either]
    return made


def _shape(key: Key) -> dict[str, Any]:
    if key.shape is Shape.CHOICE:
        return {"enum": [*key.choices]}
    return dict(_SHAPES[key.shape])


_SHAPES: Final[Mapping[Shape, Mapping[str, Any]]] = {
    Shape.FIXED: {"oneOf": [_PLAIN, _REFERENCE]},
    Shape.NUMBER: {"oneOf": [{"type": "integer", "minimum": 1, "maximum": 65_535}, _REFERENCE]},
    Shape.SECRET: _REFERENCE,
    Shape.FLAG: _FLAG,
    Shape.WORDS: {"type": "array", "items": _PLAIN, "maxItems": 100},
    Shape.CODES: {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}, "maxItems": 100},
    Shape.ENVIRONMENT: {"type": "object", "additionalProperties": {"oneOf": [_PLAIN, _REFERENCE]}},
    Shape.TEXT: _TEMPLATE,
    Shape.TEXTS: {"type": "array", "items": _TEMPLATE, "maxItems": 100},
    Shape.NAMED: {"type": "object", "additionalProperties": _TEMPLATE},
    Shape.HEADERS: {"type": "object", "additionalProperties": {"oneOf": [_TEMPLATE, _REFERENCE]}},
    Shape.VALUE: {},
    Shape.STATEMENT: {"type": "string", "minLength": 1},
    Shape.ADDRESS: {"type": "string", "pattern": "^/"},
    Shape.ARGUMENTS: {"type": "object"},
    Shape.ABSENCE: {
        "type": "object",
        "properties": {"error_matches": _TEXT, "at": {"type": "string", "pattern": "^/"}, "is": {}},
        "dependentRequired": {"at": ["is"], "is": ["at"]},
        "minProperties": 1,
        "additionalProperties": False,
    },
    Shape.ARGV: {"type": "array", "items": _TEMPLATE, "minItems": 1, "maxItems": 100},
}
"""Of every shape that the checker knows, but for a choice, whose words stand in the key."""
