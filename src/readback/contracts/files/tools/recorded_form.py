"""The form of a tool's definition, short enough for the record of each call: the arguments by name, type and hash.

Written by the gateway into the context of a governed call. Compared by `readback contracts drift` with the live tool.
Texts for the reader, such as descriptions, count only in the hash of the whole definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from readback.canon import CanonError, Json, json_value, payload_bytes, sha256_hex
from readback.contracts.files.tools.listing import fingerprint

ARGUMENTS_MAX: Final = 64
"""Most arguments of a recorded form. A tool with more is recorded by its hashes only."""
HASH_CHARACTERS: Final = 16
_TEXTS: Final = frozenset({"title", "description", "examples", "$comment", "deprecated"})
_NAMED: Final = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose keys are names chosen by the author."""
_DATA: Final = frozenset({"enum", "const", "default"})
_DEFINITIONS: Final = ("$defs", "definitions")


def form_of_tool(definition: Mapping[str, Any]) -> dict[str, Json]:
    """Return the form of a definition; an empty form for a definition without a canonical form.

    `sha256`: of the whole definition. `takes`: for each argument its type, whether the argument is required, and a hash
    of its schema. `gives`: a hash of the answer's schema; "" for none.

    Example:
        >>> form_of_tool({"name": "pay", "inputSchema": {"properties": {"to": {"type": "string"}}}})["gives"]
        ''
    """
    takes, gives = definition.get("inputSchema"), definition.get("outputSchema")
    schema = takes if isinstance(takes, Mapping) else {}
    properties = schema.get("properties")
    named = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    needed = {str(each) for each in required} if isinstance(required, list | tuple) else set()
    shared = {key: schema[key] for key in _DEFINITIONS if key in schema}
    try:
        form: dict[str, Json] = {"sha256": fingerprint(definition)}
        form["gives"] = "" if gives is None else _hash(gives)
        if len(named) <= ARGUMENTS_MAX:
            form["takes"] = {
                str(name): [_type(each), str(name) in needed, _hash([each, shared] if _refers(each) else each)]
                for name, each in named.items()
            }
    except (CanonError, RecursionError):
        return {}
    return form


def _type(schema: Any) -> str:
    """Return the stated types in a word; "any" for no statement."""
    found = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(found, list | tuple):
        return " or ".join(sorted(map(str, found)))
    return str(found) if found else "any"


def _refers(schema: Any) -> bool:
    """Return whether a schema refers to definitions beside it."""
    if isinstance(schema, Mapping):
        return "$ref" in schema or any(map(_refers, schema.values()))
    return isinstance(schema, list | tuple) and any(map(_refers, schema))


def _hash(schema: Any) -> str:
    return sha256_hex(payload_bytes(json_value(_bare(schema))))[:HASH_CHARACTERS]


def _bare(schema: Any) -> Any:
    """Return a schema without texts. Chosen names and data stay, even when equal to a keyword."""
    if isinstance(schema, list | tuple):
        return [_bare(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            found[key] = {name: _bare(each) for name, each in value.items()}
        elif key not in _TEXTS:
            found[key] = value if key in _DATA else _bare(value)
    return found
