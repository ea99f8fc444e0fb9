"""The arguments of a server's tool: checked by the server's own schema as far as that can be, and left as they came.

Nothing is converted, filled in or left out: what is proposed, recorded and sent is what was given. Called for a
contract that gives no `arguments` of its own; those of a file are strict (`shapes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from readback.canon import Json, UnsupportedValueError, ValueTooLargeError, json_value, payload_bytes, sha256_hex
from readback.contracts.files.tools.tool_schema import left_to_server, unfit
from readback.contracts.functions.arguments import ArgumentSchema, Bound, Parameter
from readback.contracts.problems import did_you_mean
from readback.domain.errors import ArgumentError, OversizeError
from readback.domain.saga.fold import Reference

_ANY: Final[Mapping[str, Any]] = {"type": "object"}
_HASH: Final = sha256_hex(payload_bytes(dict(_ANY)))
"""One for all: a server's words about its arguments are no part of a contract, which pins them by `tool_sha256`."""


class ToolArguments(ArgumentSchema):
    """Keeps `ArgumentSchema`. `open`: names that the schema does not have are taken too."""

    __slots__ = ("_given", "left", "open")

    def __init__(self, schema: Mapping[str, Any], names: Iterable[str] = ()) -> None:
        """`names`: arguments that are known by their use alone, where there is no schema."""
        found = schema.get("properties")
        properties = found if isinstance(found, Mapping) else {}
        required = schema.get("required")
        needed = {each for each in required if isinstance(each, str)} if isinstance(required, list) else set()
        every = dict.fromkeys([*map(str, properties), *names])
        super().__init__(Parameter(name, Any, *(() if name in needed else (None,))) for name in every)
        self._given = schema
        self.open = schema.get("additionalProperties") is not False or "patternProperties" in schema
        self.left = tuple(left_to_server(schema))
        """The keywords that the server alone checks."""
        used: dict[str, Json] = {"type": "object", "properties": {name: {} for name in every}}
        self.schema = dict(schema) or used
        self.schema_hash = _HASH

    @classmethod
    def unknown(cls, names: Iterable[str]) -> ToolArguments:
        """Of a tool whose schema only its server knows."""
        return cls({}, sorted(names))

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Bound:
        """Checks what can be checked, and takes a snapshot. Raises ArgumentError, OversizeError."""
        if args:
            raise _unfit([("", "A tool's arguments are given by name.")])
        references = {name: value for name, value in kwargs.items() if isinstance(value, Reference)}
        try:
            given = json_value({name: value for name, value in kwargs.items() if name not in references})
            payload_bytes(given)
        except ValueTooLargeError as error:
            raise OversizeError(f"The arguments are too large. {error.message}", details=error.details) from error
        except UnsupportedValueError as error:
            raise _unfit([(str(error.details.get("path", "$")).removeprefix("$."), error.message)]) from error
        assert isinstance(given, dict)
        faults = [each for each in unfit(self._given, given) if each != _missing(each[0]) or each[0] not in references]
        if faults:
            raise _unfit([(where, self._near(where, said)) for where, said in faults])
        return Bound({**_copied(given), **references}, given)

    def revive(self, requested: Mapping[str, Json]) -> dict[str, object]:
        """What was recorded is what was given. Raises ArgumentError where the tool does not take it any more."""
        faults = unfit(self._given, dict(requested))
        if faults:
            raise _unfit(faults)
        return _copied(dict(requested))

    def _near(self, where: str, said: str) -> str:
        return said + did_you_mean(where, self.names) if said == "There is no such argument." else said


def _missing(name: str) -> tuple[str, str]:
    return name, "It is missing."


def _copied(given: dict[str, Json]) -> dict[str, object]:
    copy = json_value(given)
    assert isinstance(copy, dict)
    return dict(copy)


def _unfit(faults: list[tuple[str, str]]) -> ArgumentError:
    said = "; ".join(f"{where}: {reason}" if where else reason for where, reason in faults)
    problems = [{"argument": where, "reason": reason} for where, reason in faults]
    return ArgumentError(f"The arguments do not fit. {said}", details={"problems": problems})
