"""The JSON Schema of contract files (draft 2020-12), made of the checker's own tables.

Published with the package as `contracts.schema.json`, and printed by `readback contracts schema`. The schema covers one
file without compiling. The checker also knows expressions, other files and the side-effect classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from readback.canon.limits import ID_MAX_BYTES
from readback.contracts.files.build import CONTRACT_KEYS
from readback.contracts.files.examples import EXAMPLES_MAX, EXPECTED
from readback.contracts.files.schemas.json_schema import ARGUMENT, argument_schema, arguments_schema
from readback.contracts.files.system_options import ENTRIES_MAX as ENTRIES_OF_SPEC_MAX
from readback.contracts.files.system_options import TEXT_MAX_CHARS
from readback.contracts.files.templates.injection_checks import HEADER, SELECTS, VARIABLE
from readback.contracts.files.vocabulary import (
    API_VERSION,
    COMPLETE,
    EXECUTORS,
    KIND,
    NEEDS,
    POINTED,
    POINTERS,
    SEARCH_KEYS,
    SOURCES,
    USUAL,
    ExecutorKind,
    Key,
    Shape,
    SourceKind,
)
from readback.contracts.options import (
    DOTTED,
    ENTRIES_MAX,
    NAME_MAX_CHARS,
    PROVES,
    REASON_MAX_CHARS,
    REDACT_ROOTS,
    UNCHANGED,
)
from readback.contracts.templates import TEMPLATE_MAX_CHARS
from readback.domain.contract.contract import IDENTITY_KEYS, Noop
from readback.domain.contract.freezing import FreezeScope
from readback.domain.contract.shadowing import Mode
from readback.domain.discrepancy import Discrepancy
from readback.domain.kind import Kind
from readback.domain.normal_form import NormalForm
from readback.domain.side_effect import Consistency, Independence, SideEffect

PUBLISHED: Final = "contracts.schema.json"
_TEXT: Final[Mapping[str, Any]] = {"type": "string", "pattern": "\\S"}
_LINE: Final[Mapping[str, Any]] = {**_TEXT, "maxLength": ID_MAX_BYTES}
_PLAIN: Final[Mapping[str, Any]] = {
    "type": ["string", "integer"],
    "pattern": "^(?=.*\\S)[^\\u0000-\\u001f\\u007f]*$",
    "maxLength": TEXT_MAX_CHARS,
}
_POINTER: Final[Mapping[str, Any]] = {"type": "string", "pattern": "^/", "maxLength": TEXT_MAX_CHARS}
_URL: Final[Mapping[str, Any]] = {
    "type": "string",
    "pattern": "^[A-Za-z][A-Za-z0-9+.-]*://",
    "maxLength": TEXT_MAX_CHARS,
}
_FLAG: Final[Mapping[str, Any]] = {"type": "boolean"}
_TEMPLATE: Final[Mapping[str, Any]] = {"type": ["string", "integer", "number"]}
_ONE_LINE: Final = "^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$"
_SPANS: Final = "( *[0-9]{1,12}(\\.[0-9]{1,6})? *(us|ms|s|m|h|d))+ *$"
_SPAN: Final[Mapping[str, Any]] = {"type": "string", "pattern": f"^{_SPANS}"}
_SOME_SPAN: Final[Mapping[str, Any]] = {"type": "string", "pattern": f"^(?=.*[1-9]){_SPANS}"}
_WORDS: Final[Mapping[str, Any]] = {
    "type": "array",
    "items": _LINE,
    "maxItems": ENTRIES_MAX,
    "uniqueItems": True,
}
_DOTTED_PATH: Final[Mapping[str, Any]] = {"type": "string", "pattern": f"^{DOTTED.pattern}$", "maxLength": ID_MAX_BYTES}
_PATHS: Final[Mapping[str, Any]] = {**_WORDS, "items": _DOTTED_PATH}
_SECRETS: Final[Mapping[str, Any]] = {
    **_WORDS,
    "items": {**_DOTTED_PATH, "allOf": [{"pattern": f"^({'|'.join(REDACT_ROOTS)})\\."}]},
}
_CONDITIONS: Final[Mapping[str, Any]] = {
    "type": "object",
    "propertyNames": _LINE,
    "additionalProperties": {"$ref": "#/$defs/condition"},
}
_CONDITION_S: Final[Mapping[str, Any]] = {"oneOf": [_TEXT, _CONDITIONS]}
_REFERENCE: Final[Mapping[str, Any]] = {"$ref": "#/$defs/reference"}
_CONTRACT_NAME: Final[Mapping[str, Any]] = {"pattern": "^[A-Za-z_][A-Za-z0-9_.\\-]*$", "maxLength": NAME_MAX_CHARS}
_HEADERS: Final[Mapping[str, Any]] = {"pattern": f"^{HEADER.pattern}$"}
_VARIABLES: Final[Mapping[str, Any]] = {"pattern": f"^{VARIABLE.pattern}$"}
_READ: Final[Mapping[str, Any]] = {"properties": {"readers": {"minItems": 1}}, "required": ["readers"]}


def _words(kind: type[StrEnum]) -> dict[str, Any]:
    return {"enum": [member.value for member in kind]}


_TERMS: Final[Mapping[str, Any]] = {
    "name": {**_TEXT, "description": "The reader's name; default: the source's word."},
    "source": {**_TEXT, "description": "The system's name, for the record."},
    "consistency": {**_words(Consistency), "description": "At most the source's own maximum."},
    "independence": {**_words(Independence), "description": "At most the source's own maximum."},
    "timeout": {**_SPAN, "description": "The time limit of one reading."},
    "attributes": {**_FLAG, "description": "Readings name the author of the state."},
    "whole_region": {**_FLAG, "description": "Readings show every part that the call may change."},
}
"""The declarations of a reader beside the source; a search has a part of them."""

OPTIONS: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "version": (
        {**_TEXT, "maxLength": NAME_MAX_CHARS},
        "The contract's version; default: the version of the file's metadata.",
    ),
    "kind": (_words(Kind), "The operation's effect on its target."),
    "side_effect": (_words(SideEffect), "The side-effect class; sets the depth of verification."),
    "target": ({**_TEXT, "maxLength": TEMPLATE_MAX_CHARS}, "The target; `{requested.x}` stands for an argument."),
    "identity": (
        {
            "type": "object",
            "propertyNames": {"enum": [*IDENTITY_KEYS]},
            "additionalProperties": {"oneOf": [_TEXT, {"$ref": "#/$defs/compared"}]},
        },
        "Expressions for the identity of a reading, or `not_offered`; `as` sets the comparison rule.",
    ),
    "require": (_CONDITION_S, "Conditions required before execution."),
    "expected_version": (_TEXT, "An expression for the target's expected version."),
    "quorum": ({"type": "integer", "minimum": 1, "maximum": ENTRIES_MAX}, "The number of agreeing readings."),
    "ensure": (
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": _LINE,
            "additionalProperties": {"oneOf": [{"$ref": "#/$defs/condition"}, {**_CONDITIONS, "minProperties": 1}]},
        },
        "Conditions required after execution, by name; or effect groups of conditions.",
    ),
    "fails_when": (_CONDITION_S, "Conditions that mean final failure."),
    "intermediate": (_CONDITION_S, "Conditions that mean the effect is still in progress."),
    "may_change": (_PATHS, "The only fields allowed to change."),
    "on_unchanged": ({"enum": [*UNCHANGED]}, "The meaning of a call without a change."),
    "noop": (_words(Noop), "The older name of `on_unchanged`; `allow` stands for `accept`."),
    "within": (_SOME_SPAN, "The time for the effect to become visible."),
    "polls": ({"type": "array", "items": _SPAN, "minItems": 1}, "The times of further readings."),
    "stable_for": (_SPAN, "How long the result must hold."),
    "deadline": (_SOME_SPAN, "When looking ends."),
    "late_window": (_SPAN, "The time during which an effect may still land."),
    "key_fields": (_WORDS, "The arguments of the idempotency key."),
    "key_kept": (_SOME_SPAN, "How long a settled key returns its outcome."),
    "key_valid_for": (_SOME_SPAN, "How long the tool remembers a key, from the first attempt."),
    "principals": ({**_WORDS, "minItems": 1}, "Who may act."),
    "scopes": (_WORDS, "The permission scopes required of a client."),
    "redact": (_SECRETS, "Paths of values that must not be stored."),
    "tell": (_PATHS, "Fields of the reading that may be reported."),
    "unverifiable": (
        {**_TEXT, "maxLength": REASON_MAX_CHARS},
        "Why nothing can be read; it caps what may be claimed. A critical mutation may have it beside fewer sources "
        "than its class asks for: those are read for the person who decides, and verify nothing.",
    ),
    "proves": ({"enum": [*PROVES]}, "The proof given by reading a message."),
    "approval": (
        {
            "oneOf": [
                {"const": "required"},
                {
                    "type": "object",
                    "properties": {
                        "people": {"type": "integer", "minimum": 1, "maximum": 2},
                        "expires": _SOME_SPAN,
                        "when": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
            ]
        },
        "The approvers, and the condition for approval.",
    ),
    "freeze": ({"type": "array", "items": _words(FreezeScope), "minItems": 1}, "What a freeze covers."),
    "watch": (
        {
            "oneOf": [
                _SOME_SPAN,
                {
                    "type": "object",
                    "properties": {
                        **dict.fromkeys(("after", "every", "for"), _SOME_SPAN),
                        "ensure": {**_WORDS, "minItems": 1},
                    },
                    "dependentRequired": {"every": ["for"], "for": ["every"]},
                    "anyOf": [{"required": ["after"]}, {"required": ["every"]}],
                    "additionalProperties": False,
                },
            ]
        },
        "The times of readings after success.",
    ),
    "mode": (_words(Mode), "`shadow`: judged for the operator alone, where the settings allow it."),
}
"""The keys of every notation, as JSON Schema and in words."""

_OWN: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "description": ({"type": "string", "maxLength": 2_000}, "The purpose, in words."),
    "arguments": (arguments_schema(), "JSON Schema of the arguments, or names with types."),
    "operation": (_TEXT, "A template for the operation's id, from the request."),
    "compensate": (
        {"oneOf": [_TEXT, {"$ref": "#/$defs/named_reversal"}, {"$ref": "#/$defs/reversal"}]},
        "The reversing contract, by name or written out; `contract` with `arguments` for other arguments.",
    ),
    "twin": ({"type": "object", "minProperties": 1}, "Arguments that always mean a safe target, for drills."),
    "execute": ({"$ref": "#/$defs/execute"}, "The executor, with `timeout` and so on."),
    "readers": ({"type": "array", "items": {"$ref": "#/$defs/reader"}}, "The readers of the system of record."),
    "find": ({"$ref": "#/$defs/find"}, "Finds every effect with the attempt's stamp."),
    "lookup": ({"$ref": "#/$defs/lookup"}, "Returns the result of the attempt with this key."),
    "rollback": ({"$ref": "#/$defs/act"}, "Restores a local boundary."),
    "tool_sha256": (
        {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "The required hash of the server's tool definition.",
    ),
    "examples": (
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": EXAMPLES_MAX,
            "additionalProperties": {"$ref": "#/$defs/example"},
        },
        "States with the verdict expected of each, by name; `readback contracts check` judges them.",
    ),
    "survivors": (
        {"type": "object", "additionalProperties": _TEXT},
        "Mutants that may survive the examples, with the reason; a name may end in `*`.",
    ),
}

_EXAMPLE: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "expect": ({"enum": [*EXPECTED]}, "The expected verdict."),
    "discrepancy": (_words(Discrepancy), "The expected class of the discrepancy."),
    "like": (_TEXT, "An example above with the same values, save for the keys here."),
    "but": ({"type": "object", "minProperties": 1}, "Changed values by path, such as `state.status`."),
    "requested": ({"type": "object"}, "The arguments of the call."),
    "before": ({}, "The state before the call; null for absent. Without the key, nothing was read before."),
    "state": ({}, "The state after the call; null for absent."),
    "readings": ({"type": "object"}, "The state after the call by reader, where readers differ."),
    "found": ({"type": "array"}, "The effects found by the stamp; default: the state itself."),
    "observed": ({}, "The tool's answer; default: a success."),
    "tenant": (_LINE, "The tenant of the call."),
    "stamped": (_FLAG, "Whether the state bears the action's stamp."),
    "complete": (_FLAG, "Whether the reading shows all of the target."),
    "free": ({"type": "object", "additionalProperties": _TEXT}, "Fields that may have any value, with the reason."),
}
"""The keys of one example."""


def contract_schema() -> dict[str, Any]:
    """Return the schema of a contract file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Readback contract file",
        "type": "object",
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "metadata": {
                "type": "object",
                "properties": {name: {**_TEXT, "maxLength": 500} for name in ("name", "version", "description")},
                "additionalProperties": False,
            },
            "server": {"$ref": "#/$defs/server"},
            "servers": {
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_\\-]{0,63}$"},
                "additionalProperties": {"$ref": "#/$defs/server"},
                "description": "Other servers, by the names used in a tool's `server`.",
            },
            "overrides": {
                "type": "array",
                "items": _TEXT,
                "description": "Contracts of earlier files replaced by this file's.",
            },
            "contracts": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": _CONTRACT_NAME,
                "additionalProperties": {"$ref": "#/$defs/contract"},
            },
        },
        "required": ["apiVersion", "kind", "contracts"],
        "additionalProperties": False,
        "$defs": {
            **_contracts(),
            ARGUMENT: argument_schema(),
            "compared": {
                "type": "object",
                "properties": {
                    "path": {**_TEXT, "description": "The expression for the found value."},
                    "as": {**_words(NormalForm), "description": "The system's own rule for comparing such names."},
                },
                "required": ["path"],
                "additionalProperties": False,
                "description": "An identity key, and the normal form in which two spellings of it are one.",
            },
            "example": {
                "type": "object",
                "properties": {name: {**each, "description": said} for name, (each, said) in _EXAMPLE.items()},
                "required": ["expect"],
                "anyOf": [{"required": ["state"]}, {"required": ["readings"]}, {"required": ["like"]}],
                "dependentRequired": {"but": ["like"]},
                "additionalProperties": False,
                "description": "One state with the verdict expected of it.",
            },
            "condition": {**_TEXT, "description": "An expression that is true or false."},
            "reference": _reference(),
            **_acts(),
            "reader": _reader(),
            "find": _asked("find"),
            "lookup": _asked("lookup"),
            "server": _server(),
        },
    }


def _contracts() -> dict[str, Any]:
    """Return the schema of a contract, and of the values of `compensate`."""
    every = {**OPTIONS, **_OWN}
    assert set(every) == set(CONTRACT_KEYS)
    return {
        "keys": {
            "type": "object",
            "properties": {name: {**every[name][0], "description": every[name][1]} for name in CONTRACT_KEYS},
        },
        "contract": {
            "$ref": "#/$defs/keys",
            "propertyNames": {"enum": [*CONTRACT_KEYS]},
            "required": ["kind", "side_effect", "target", "ensure"],
            "oneOf": [_READ, {"required": ["unverifiable"]}],
        },
        "reversal": {
            "$ref": "#/$defs/keys",
            "properties": {"name": {**_CONTRACT_NAME, "description": "What it is called; else as its action."}},
            "propertyNames": {"enum": ["name", *CONTRACT_KEYS]},
            "required": ["kind", "ensure"],
            "anyOf": [{"properties": _READ["properties"]}, {"required": ["unverifiable"]}],
        },
        "named_reversal": {
            "type": "object",
            "properties": {"contract": _TEXT, "arguments": {"type": "object", "maxProperties": 100}},
            "required": ["contract"],
            "additionalProperties": False,
        },
    }


def _acts() -> dict[str, Any]:
    """Return the schema of `execute`, and of `rollback`."""
    terms: dict[str, Any] = {
        "timeout": {**_SOME_SPAN, "description": "The time limit of a call."},
        "honours_key": {**_FLAG, "description": "The tool answers a second call under one key from the first."},
        "key_valid_for": {**_SOME_SPAN, "description": "How long the tool remembers a key, from the first attempt."},
        "reversible": {**_FLAG, "description": "The effect can be reversed."},
    }
    acts = {row.name: _spec(row, "execute") for row in EXECUTORS}
    one_act = [{"required": [name]} for name in acts]
    return {
        "execute": {
            "type": "object",
            "properties": {**acts, **terms},
            "oneOf": [*one_act, {"not": {"anyOf": one_act}}],
            "additionalProperties": False,
        },
        "act": {
            "type": "object",
            "properties": acts,
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        },
    }


def published_schema() -> str:
    """Return the schema's text in the package."""
    from importlib.resources import files  # it brings archives and temporary files along

    return (files("readback.contracts.files") / PUBLISHED).read_text(encoding="utf-8")


def _reference() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"env": {"type": "string", "pattern": f"^{VARIABLE.pattern}$"}, "file": _TEXT},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "description": "A reference to a value outside the file.",
    }


def _reader() -> dict[str, Any]:
    kinds = {row.name: _spec(row, "read") for row in SOURCES if "read" in row.uses}
    one = [{"required": [name]} for name in kinds]
    return {"type": "object", "properties": {**kinds, **_TERMS}, "oneOf": one, "additionalProperties": False}


def _asked(use: str) -> dict[str, Any]:
    rows: Iterable[SourceKind] = (row for row in SOURCES if use in row.uses)
    kinds = {row.name: _spec(row, use) for row in rows}
    one = [{"required": [name]} for name in kinds]
    said = "The search shows every effect, in every place writable by the tool."
    whole = {COMPLETE: {**_FLAG, "description": said}} if use == "find" else {}
    return {
        "type": "object",
        "properties": {**kinds, **{name: _TERMS[name] for name in SEARCH_KEYS}, **whole},
        "oneOf": one,
        "additionalProperties": False,
    }


def _server() -> dict[str, Any]:
    named = {"oneOf": [{"type": "string", "pattern": _ONE_LINE}, _REFERENCE]}
    return {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            "url": {"oneOf": [_URL, _REFERENCE]},
            "env": {"type": "object", "propertyNames": _VARIABLES, "additionalProperties": named},
            "headers": {"type": "object", "propertyNames": _HEADERS, "additionalProperties": named},
            "cwd": {"oneOf": [_TEXT, _REFERENCE]},
        },
        "oneOf": [{"required": ["command"]}, {"required": ["url"]}],
        "additionalProperties": False,
    }


def _spec(row: SourceKind | ExecutorKind, use: str) -> dict[str, Any]:
    known = [key for key in row.keys if not key.uses or use in key.uses]
    made: dict[str, Any] = {
        "type": "object",
        "description": row.said,
        "properties": {key.name: {**_shape(key, row.name), "description": key.said} for key in known},
        "additionalProperties": False,
    }
    required = [key.name for key in known if key.required]
    if use == "lookup" and row.name != "http":
        required.append("status")
    if row.name == "imap":
        required += ["user", "password"]
    if required:
        made["required"] = required
    if row.either:
        made["oneOf"] = [{"required": [name]} for name in row.either]
    if use == "lookup":
        made["anyOf"] = [{"required": ["landed"]}, {"required": ["failed"]}]
    if row.name == "smtp":
        made["dependentRequired"] = {"user": ["password"], "password": ["user"]}
    together = [*_needed(row), *_staged(row)]
    if together:
        made["allOf"] = together
    return made


def _needed(row: SourceKind | ExecutorKind) -> Iterator[dict[str, Any]]:
    """Return the keys required by a choice."""
    chooser = "do" if isinstance(row, ExecutorKind) else "show"
    for (kind, word), names in NEEDS.items():
        if kind == row.name and any(key.name == chooser and word in key.choices for key in row.keys):
            chosen: dict[str, Any] = {"properties": {chooser: {"const": word}}}
            if USUAL.get(row.name) != word:
                chosen["required"] = [chooser]
            yield {"if": chosen, "then": {"required": [*names]}}


def _staged(row: SourceKind | ExecutorKind) -> Iterator[dict[str, Any]]:
    if isinstance(row, ExecutorKind) and any(key.name == "stage" for key in row.keys):
        staged = {"properties": {"stage": {"const": True}}, "required": ["stage"]}
        needs = {"required": ["look"]} if row.name == "sql" else {"properties": {"do": {"const": "write"}}}
        yield {"if": staged, "then": needs}


def _shape(key: Key, kind: str) -> dict[str, Any]:
    if key.shape is Shape.CHOICE:
        return {"enum": [*key.choices]}
    if key.name == "url":
        return {"oneOf": [_URL, _REFERENCE]}
    if kind in POINTED and key.name in POINTERS:
        pointer = {**_POINTER, "pattern": "^(/|$)"} if key.name == "items" else dict(_POINTER)
        return pointer if key.shape is Shape.WRITTEN else {"oneOf": [pointer, _REFERENCE]}
    if key.shape is Shape.STATEMENT and key.name != "statement":
        return {"type": "string", "pattern": f"^{SELECTS}"}
    return dict(_SHAPES[key.shape])


_DATA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"value": {"type": "string"}, "argument": {"const": "data"}},
    "required": ["value", "argument"],
    "additionalProperties": False,
}
_MANY: Final[Mapping[str, Any]] = {"maxItems": ENTRIES_OF_SPEC_MAX}
_NAMED: Final[Mapping[str, Any]] = {"type": "object", "maxProperties": ENTRIES_OF_SPEC_MAX}
_SHAPES: Final[Mapping[Shape, Mapping[str, Any]]] = {
    Shape.FIXED: {"oneOf": [_PLAIN, _REFERENCE]},
    Shape.WRITTEN: _PLAIN,
    Shape.NUMBER: {"oneOf": [{"type": "integer", "minimum": 1, "maximum": 65_535}, _REFERENCE]},
    Shape.SECRET: _REFERENCE,
    Shape.FLAG: _FLAG,
    Shape.WORDS: {"type": "array", "items": _PLAIN, **_MANY},
    Shape.CODES: {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}, **_MANY},
    Shape.ENVIRONMENT: {**_NAMED, "propertyNames": _VARIABLES, "additionalProperties": {"oneOf": [_PLAIN, _REFERENCE]}},
    Shape.TEXT: _TEMPLATE,
    Shape.TEXTS: {"type": "array", "items": _TEMPLATE, **_MANY},
    Shape.NAMED: {**_NAMED, "additionalProperties": _TEMPLATE},
    Shape.HEADERS: {
        **_NAMED,
        "propertyNames": _HEADERS,
        "additionalProperties": {"oneOf": [{**_TEMPLATE, "pattern": _ONE_LINE}, _REFERENCE]},
    },
    Shape.VALUE: {},
    Shape.STATEMENT: {"type": "string", "pattern": "[A-Za-z]"},
    Shape.ADDRESS: {"type": "string", "pattern": "^/(?!/)"},
    Shape.ARGUMENTS: _NAMED,
    Shape.ABSENCE: {
        "type": "object",
        "properties": {"error_matches": {**_TEMPLATE, "pattern": "^ *[^\\s*{]"}, "at": _POINTER, "is": True},
        "dependentRequired": {"at": ["is"], "is": ["at"]},
        "minProperties": 1,
        "additionalProperties": False,
    },
    Shape.ARGV: {
        "type": "array",
        "prefixItems": [{**_TEMPLATE, "minLength": 1}],
        "items": {"oneOf": [_TEMPLATE, _DATA]},
        "minItems": 1,
        **_MANY,
    },
    Shape.INPUT: {"oneOf": [_TEMPLATE, _DATA]},
}
"""The schema of every shape but a choice; a choice's words stand in the key."""
