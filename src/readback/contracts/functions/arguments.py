"""The argument schema of an action: the parameters' annotations, used to bind, record and restore arguments.

Made once when a contract is loaded; `bind` runs for every proposal, `revive` for every continued action. Text and
numbers are never converted ("7" and 7 are two requests). A value without a JSON type (a moment, an enumeration, a
model) may be given as the Python value or as its JSON form. Bound arguments are a snapshot: equal to the restored
record, and safe from changes by other code.

pydantic is imported only for annotations beyond plain types.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from readback.canon import (
    BYTES_KEY,
    ExactNumber,
    Json,
    NumberTooLargeError,
    UnsupportedValueError,
    ValueTooLargeError,
    decimal_of,
    json_value,
    payload_bytes,
    sha256_hex,
)
from readback.canon.frozen import dataclass
from readback.contracts.problems import did_you_mean
from readback.domain.saga.fold import Reference
from readback.errors import ArgumentError, CanonError, ContractFieldError, OversizeError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")

PROBLEMS_MAX: Final = 50
_PAYLOAD_UNCHECKED_MAX_CHARS: Final = 65_536
_MISSING: Final = object()
_ROUNDED: Final = "The number would change: the type keeps fewer digits, or the value is true or false."
_NUMBERS: Final = (int, float, ExactNumber)
_PLAIN: Final = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


class Bound(NamedTuple):
    """Arguments in both notations: Python values for the tool, JSON for the record and for expressions.

    A value of an earlier step of a saga is a `Reference` among the former, and missing among the latter.
    """

    arguments: dict[str, object]
    requested: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `kinds`: the plain types, where a type check is enough."""

    name: str
    annotation: object
    default: object = _MISSING
    kinds: frozenset[type] | None = None
    adapter: TypeAdapter[Any] | None = None

    @property
    def required(self) -> bool:
        return self.default is _MISSING


class ArgumentSchema:
    """The parameters of one action. Immutable, and safe to share between threads."""

    __slots__ = ("_defaults", "_known", "_plain", "_withheld", "names", "parameters", "schema", "schema_hash")

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        """Raises ContractFieldError for a default that does not fit its own annotation."""
        self.parameters = tuple(parameters)
        self.names = tuple(p.name for p in self.parameters)
        self._known = {p.name: p for p in self.parameters}
        self._withheld: frozenset[str] = frozenset()
        self._defaults = {p.name: p.default for p in self.parameters if not p.required}
        plain = [(p.name, p.kinds) for p in self.parameters if p.kinds is not None]
        self._plain = tuple(plain) if len(plain) == len(self.parameters) else None
        self.schema = _schema(self.parameters)
        self.schema_hash = sha256_hex(payload_bytes(self.schema))

    def withholding(self, redact: Iterable[str]) -> ArgumentSchema:
        """Return the same schema; for a redacted argument, errors leave out the validator's text, which may hold the
        value.
        """
        other = copy(self)
        paths = (path.split(".") for path in redact)
        asked_for = frozenset(rest[0] for root, *rest in paths if root == "requested" and rest)
        other._withheld = asked_for  # noqa: SLF001 - of its own kind
        return other

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Bound:
        """Check every argument, and take a snapshot. Raises ArgumentError with all problems, or OversizeError."""
        if args or self._plain is None:
            return self._bind_each(args, kwargs)
        given = {**self._defaults, **kwargs}
        if len(given) != len(self._plain):
            return self._bind_each(args, kwargs)
        size = 0
        for name, kinds in self._plain:
            value = given.get(name, _MISSING)
            if type(value) not in kinds:
                return self._bind_each(args, kwargs)
            if type(value) is str:
                size += len(value)
        return Bound(given, _written(given, size))

    def revive(self, requested: Mapping[str, Json]) -> dict[str, object]:
        """Return the Python arguments of a record's JSON. Raises ArgumentError where the values no longer fit."""
        problems: list[dict[str, str]] = []
        revived: dict[str, object] = {}
        for name, value in requested.items():
            parameter = self._known.get(name)
            if parameter is None:
                problems.append(_problem(name, "The action has no such argument."))
                continue
            try:
                revived[name] = _revive(parameter, value)
            except _UnfitError as error:
                problems += self._told(parameter, error)
        problems += [_problem(p.name, "It is missing.") for p in self.parameters if p.name not in requested]
        _raise_any(problems)
        return revived

    def _bind_each(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Bound:
        given, problems = self._named(args, kwargs)
        arguments: dict[str, object] = {}
        for parameter in self.parameters:
            value = given.get(parameter.name, parameter.default)
            if value is _MISSING:
                problems.append(_problem(parameter.name, "It is missing."))
                continue
            if isinstance(value, Reference):  # bound and validated when its step begins
                arguments[parameter.name] = value
                continue
            try:
                arguments[parameter.name] = _take(parameter, value)
            except _UnfitError as error:
                problems += self._told(parameter, error)
            except ValueTooLargeError as error:
                raise OversizeError(f"The argument {parameter.name!r} is too large. {error.message}") from error
        _raise_any(problems)
        known = {name: value for name, value in arguments.items() if not isinstance(value, Reference)}
        return Bound(arguments, _written(known, _PAYLOAD_UNCHECKED_MAX_CHARS + 1))

    def _told(self, parameter: Parameter, error: _UnfitError) -> list[dict[str, str]]:
        if parameter.adapter is None or parameter.name not in self._withheld:
            return error.problems
        return [
            _problem(
                parameter.name,
                "The value does not fit its type. Details are left out because the argument is redacted.",
            )
        ]

    def _named(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> tuple[dict[str, object], list[dict[str, str]]]:
        problems: list[dict[str, str]] = []
        if len(args) > len(self.names):
            reason = f"{len(args)} arguments are given by position, but the action takes {len(self.names)}."
            problems.append(_problem("", reason))
        given = dict(zip(self.names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self._known:
                problems.append(_problem(name, f"The action has no such argument.{did_you_mean(name, self.names)}"))
            elif name in given:
                problems.append(_problem(name, "The argument is given twice."))
            else:
                given[name] = value
        return given, problems


def parameter_of(name: str, annotation: object, default: object = _MISSING) -> Parameter:
    """Return a parameter by annotation. Raises ContractFieldError for a type without a schema."""
    kinds = _plain_kinds(annotation)
    adapter = None
    if kinds is None and annotation not in (Any, object):
        adapter = _adapter(name, annotation)
    parameter = Parameter(name, annotation, default, kinds, adapter)
    if not parameter.required:
        try:
            json_value(_take(parameter, default))
        except (_UnfitError, CanonError) as error:
            raise ContractFieldError(f"The default of {name!r} does not fit its annotation: {error}") from error
    return parameter


# --- one value ---------------------------------------------------------------------------------------------------


class _UnfitError(Exception):
    """A value that does not fit; collected within this module."""

    def __init__(self, problems: list[dict[str, str]]) -> None:
        super().__init__("; ".join(p["reason"] for p in problems))
        self.problems = problems


def _take(parameter: Parameter, value: object) -> object:
    """Return the value for the tool. Raises _UnfitError, ValueTooLargeError."""
    try:
        if parameter.kinds is not None:
            return _unrounded(parameter, value, _plain(parameter, value))
        valid = value if parameter.adapter is None else _validated(parameter, parameter.adapter, value)
        written = json_value(valid)
    except (UnsupportedValueError, NumberTooLargeError) as error:
        raise _UnfitError([_problem(parameter.name, error.message)]) from error
    if parameter.adapter is not None:
        _unrounded(parameter, value, written)
    revived = _revive(parameter, written)
    adapter = parameter.adapter
    if adapter is not None and _by_its_type(
        parameter, lambda: revived != valid and not _alike(adapter, revived, valid)
    ):
        reason = "The value changes on its way through JSON. Use a simpler type for the parameter."
        raise _UnfitError([_problem(parameter.name, reason)])
    return revived


def _alike(adapter: TypeAdapter[Any], revived: object, valid: object) -> bool:
    """Return whether values are equal, with moments compared in UTC.

    Python calls a zoned time unequal to every time of another zone while a change of clocks repeats or skips the hour.
    """
    hours: list[datetime] = []
    one, other = (_in_utc(adapter.dump_python(each), hours) for each in (revived, valid))
    return bool(hours) and one == other


def _in_utc(value: object, hours: list[datetime]) -> object:
    """Return a value with each moment in UTC. `hours` receives the moments within such an hour."""
    if isinstance(value, dict):
        return {_in_utc(key, hours): _in_utc(each, hours) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [type(value), *(_in_utc(each, hours) for each in value)]
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return value
    if value.replace(fold=0).utcoffset() != value.replace(fold=1).utcoffset():
        hours.append(value)
    return value.astimezone(UTC)


def _revive(parameter: Parameter, written: Json) -> object:
    if parameter.kinds is not None:
        return _plain(parameter, written)
    if parameter.adapter is None:
        return json_value(written)
    from_json = _decoded(written)
    if parameter.annotation is timedelta and isinstance(from_json, str):
        from_json = _span(from_json)
    from pydantic import ValidationError

    adapter = parameter.adapter
    try:
        return _by_its_type(parameter, lambda: adapter.validate_python(from_json))
    except ValidationError as error:
        raise _UnfitError(_pydantic_problems(parameter.name, error)) from error


def _by_its_type(parameter: Parameter, look: Callable[[], T]) -> T:
    """Validate a value by the type's own code. Raises ValidationError, or _UnfitError for any other error. A type's own
    bug is no fault of the caller, and must not keep an action from ending.
    """
    from pydantic import ValidationError

    try:
        return look()
    except ValidationError:
        raise
    except Exception as error:
        reason = f"The type's own code raised {type(error).__name__}."  # and no words, which may hold the value
        raise _UnfitError([_problem(parameter.name, reason)]) from error


def _plain(parameter: Parameter, value: object) -> object:
    kinds = parameter.kinds or frozenset()
    kind = type(value)
    if kind in kinds:
        return value
    if kind in (int, ExactNumber) and float in kinds:
        try:
            return float(value)  # type: ignore[arg-type]
        except OverflowError as error:
            raise _UnfitError([_problem(parameter.name, _ROUNDED)]) from error
    for plain in (str, int, float):  # a subclass, such as a StrEnum's member, is its plain value
        if plain in kinds and isinstance(value, plain) and not isinstance(value, bool):
            return plain(value.value) if hasattr(value, "value") else plain(value)
    wanted = " or ".join(sorted(_PLAIN[k] for k in kinds))
    raise _UnfitError([_problem(parameter.name, f"It takes {wanted}, and is given {kind.__name__}.")])


def _unrounded(parameter: Parameter, given: object, taken: object) -> object:
    """Return the validated value. Raises _UnfitError where a number was changed."""
    if _altered(given, taken):
        raise _UnfitError([_problem(parameter.name, _ROUNDED)])
    return taken


def _altered(given: object, taken: object) -> bool:
    """Return whether validation changed a number, or turned a truth value into a number."""
    if isinstance(given, dict) and isinstance(taken, dict):
        return any(name in taken and _altered(value, taken[name]) for name, value in given.items())
    if isinstance(given, list | tuple) and isinstance(taken, list):
        return any(map(_altered, given, taken))
    if type(given) is bool:
        return isinstance(taken, _NUMBERS) and type(taken) is not bool
    if type(given) not in _NUMBERS:
        return False
    if isinstance(taken, str):  # of a type for decimals, which JSON has as a text
        return _differs(given, taken)
    return isinstance(taken, _NUMBERS) and given != taken and decimal_of(given) != decimal_of(taken)  # type: ignore[arg-type]


def _differs(given: object, text: str) -> bool:
    """Return whether the text means another number than the input.

    Text of no number is the type's own form of an int.
    """
    try:
        return Decimal(text) != decimal_of(given)  # type: ignore[arg-type]
    except InvalidOperation:
        return type(given) is ExactNumber


def _validated(parameter: Parameter, adapter: TypeAdapter[Any], value: object) -> object:
    """Validate strictly as Python; then strictly as JSON, for types that JSON writes as text."""
    from pydantic import ValidationError

    try:
        return _by_its_type(parameter, lambda: adapter.validate_python(value, strict=True))
    except ValidationError as as_python:
        plain = value is None or type(value) in (str, int, float, bool, dict, list)
        if not plain:
            raise _UnfitError(_pydantic_problems(parameter.name, as_python)) from as_python
        if parameter.annotation is timedelta and isinstance(value, str):
            return _revive(parameter, value)
    as_bytes = payload_bytes(json_value(value))
    try:
        return _by_its_type(parameter, lambda: adapter.validate_json(as_bytes, strict=True))
    except ValidationError as as_json:
        raise _UnfitError(_pydantic_problems(parameter.name, as_json)) from as_json


def _decoded(value: Json) -> Any:
    """Return JSON with its marked bytes as bytes again."""
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    marked = value.get(BYTES_KEY)
    if len(value) == 1 and isinstance(marked, str):
        try:
            return b64decode(marked, validate=True)
        except ValueError:
            return value  # it only looks like marked bytes
    return {key: _decoded(part) for key, part in value.items()}


def _span(text: str) -> object:
    """Return a duration in canonical form (seconds with an `s`); other text is left to pydantic."""
    number = text.removesuffix("s")
    if number == text or not number.lstrip("-").replace(".", "", 1).isdecimal():
        return text
    whole, _, fraction = number.partition(".")
    micros = int(fraction.ljust(6, "0")[:6] or 0)
    span = timedelta(seconds=int(whole.lstrip("-")), microseconds=micros)
    return -span if whole.startswith("-") else span


def _written(arguments: dict[str, object], size: int) -> dict[str, Json]:
    try:
        requested = json_value(arguments)
        if size > _PAYLOAD_UNCHECKED_MAX_CHARS:
            payload_bytes(requested)
    except (UnsupportedValueError, NumberTooLargeError) as error:
        name = str(error.details.get("path", "$")).removeprefix("$").removeprefix(".")
        _raise_any([_problem(name, error.message)])
        raise
    except ValueTooLargeError as error:
        raise OversizeError(f"The arguments are too large. {error.message}", details=error.details) from error
    assert isinstance(requested, dict)
    return requested


# --- the schema --------------------------------------------------------------------------------------------------


def _plain_kinds(annotation: object) -> frozenset[type] | None:
    """Return the plain types of an annotation made of plain types alone, else None."""
    from types import UnionType
    from typing import Union, get_args, get_origin

    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    kinds = {type(None) if part is None else part for part in parts}
    return frozenset(kinds) if kinds <= _PLAIN.keys() else None


def _adapter(name: str, annotation: Any) -> TypeAdapter[Any]:
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        adapter.json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise ContractFieldError(f"The type of {name!r} has no argument schema: {first}") from error
    return adapter


def _schema(parameters: tuple[Parameter, ...]) -> dict[str, Json]:
    """Return the JSON Schema of all arguments: shown to people and models, and covered by the contract's hash."""
    properties: dict[str, Json] = {}
    for parameter in parameters:
        if parameter.kinds is not None:
            types: list[Json] = sorted(_PLAIN[kind] for kind in parameter.kinds)  # type: ignore[assignment]
            shape: dict[str, Json] = {"type": types[0] if len(types) == 1 else types}
        elif parameter.adapter is not None:
            shape = _bare(json_value(parameter.adapter.json_schema()))
        else:
            shape = {}
        if not parameter.required:
            shape = {**shape, "default": json_value(parameter.default)}
        properties[parameter.name] = shape
    required: list[Json] = [p.name for p in parameters if p.required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _bare(schema: Json) -> Any:
    """Remove titles, which only repeat names and differ between releases of pydantic."""
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _bare(part) for key, part in schema.items() if not (key == "title" and isinstance(part, str))}


# --- problems ----------------------------------------------------------------------------------------------------


def _problem(argument: str, reason: str) -> dict[str, str]:
    return {"argument": argument, "reason": reason}


def _pydantic_problems(name: str, error: ValidationError) -> list[dict[str, str]]:
    """Return pydantic's messages without the values, which may be secret."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [_problem(".".join([name, *map(str, each["loc"])]), f"{each['msg']}.") for each in found[:PROBLEMS_MAX]]


def _raise_any(problems: list[dict[str, str]]) -> None:
    if not problems:
        return
    said = "; ".join(f"{p['argument']}: {p['reason']}" if p["argument"] else p["reason"] for p in problems)
    raise ArgumentError(f"The arguments do not fit. {said}", details={"problems": problems[:PROBLEMS_MAX]})
