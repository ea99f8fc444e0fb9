"""Python callables as postconditions: named, versioned, and inspected before anything runs.

Used by authors (`postcondition`) and by clauses. The parameters of a callable name the judged roots. The callable
returns True, False or None (undetermined), and must not read the world; reading is a reader's task.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Final, TypeVar

from readback.canon import Json, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.contracts.functions.callables import is_async
from readback.contracts.problems import did_you_mean
from readback.errors import ContractFieldError, ExpressionError
from readback.ports.predicates import ROOTS

# The digest of a Python callable, so that a contract's hash covers a function that judges.

NESTED_MAX: Final = 8
"""The depth limit for captured functions."""


def source_digest(check: Callable[..., object]) -> str:
    """Return the digest of a function's source text, or of the byte code without a text.

    Raises ContractFieldError where both are missing.
    """
    bare = inspect.unwrap(check)
    try:
        body = textwrap.dedent(inspect.getsource(bare)).strip().encode()
    except (OSError, TypeError):
        code = getattr(bare, "__code__", None)
        if code is None:
            raise ContractFieldError("The source is not available. Set a version with `postcondition`.") from None
        body = b"\0".join([code.co_code, repr((code.co_names, _constants(code))).encode()])
    return sha256_hex(body)[:16]


def callable_digest(function: Callable[..., object]) -> str:
    """Return the digest of a function with its defaults and captured values. Raises ContractFieldError."""
    return sha256_hex(payload_bytes(_described(function, NESTED_MAX)))


def _described(function: object, left: int) -> Json:
    if isinstance(function, functools.partial):
        parts = [_value(each, left - 1) for each in function.args]
        named: dict[str, Json] = {name: _value(each, left - 1) for name, each in function.keywords.items()}
        return ["partial", _described(function.func, left - 1), parts, named]
    if inspect.ismethod(function):
        return ["method", _type(function.__self__), _described(function.__func__, left - 1)]
    if not inspect.isfunction(function):
        call = type(function).__call__ if callable(function) else None
        if not inspect.isfunction(call):
            return ["built-in", _type(function), str(getattr(function, "__qualname__", ""))]
        return ["object", _type(function), _described(call, left - 1)]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    captured: dict[str, Json] = {name: _cell(cell, left - 1) for name, cell in cells}
    defaults = [_value(each, left - 1) for each in function.__defaults__ or ()]
    named = {name: _value(each, left - 1) for name, each in (function.__kwdefaults__ or {}).items()}
    wrapped = getattr(function, "__wrapped__", None)
    inner = _described(wrapped, left - 1) if wrapped is not None and left > 0 else None
    return ["function", source_digest(function), defaults, named, captured, inner]


def _cell(cell: object, left: int) -> Json:
    try:
        value = cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:  # The name is bound later.
        return ["unbound"]
    return _value(value, left)


def _value(value: object, left: int) -> Json:
    """Return a plain value unchanged; a function by digest; any other object by type."""
    if left <= 0:
        return ["deep", _type(value)]
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return [type(value).__name__, repr(value)]
    if isinstance(value, tuple):
        return ["tuple", *(_value(each, left - 1) for each in value)]
    if isinstance(value, frozenset):
        return ["frozenset", *sorted(repr(_value(each, left - 1)) for each in value)]
    if inspect.isfunction(value) or inspect.ismethod(value) or isinstance(value, functools.partial):
        return _described(value, left)
    return ["object", _type(value)]


def _type(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _constants(code: object) -> tuple[object, ...]:
    """Return constants without addresses, which change from run to run."""
    found = getattr(code, "co_consts", ())
    return tuple(_constants(c) if hasattr(c, "co_consts") else c for c in found)


_MARK: Final = "__readback_condition__"
VERSION_MAX_CHARS: Final = 128
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class CallableCheck:
    """The inspected facts of a callable: the name, the version, and the roots."""

    name: str
    version: str
    parameters: tuple[str, ...]


def postcondition(*, version: str, name: str = "") -> Callable[[F], F]:
    """Give a callable a version (and a name): `@postcondition(version="2")`. Required for a lambda.

    Without the decorator, the version is "1" with a digest of the function's source, so that another body is another
    contract.

    Raises:
        ContractFieldError: the callable cannot carry a version.

    Example:
        >>> from readback import postcondition
        >>> @postcondition(version="2")
        ... def is_shipped(authoritative): return authoritative["status"] == "shipped"
        >>> inspected(is_shipped).version
        '2'
    """

    def mark(function: F) -> F:
        try:
            setattr(function, _MARK, (name, version))
        except AttributeError as error:
            raise ContractFieldError(
                f"{function!r:.80} cannot carry a version. Wrap the callable in a function."
            ) from error
        return function

    return mark


def version_given(function: Callable[..., object]) -> str:
    """Return the version set by `postcondition`; "" for none."""
    return str(getattr(function, _MARK, ("", ""))[1])


def inspected(check: Callable[..., object]) -> CallableCheck:
    """Return name, version and parameters. Raises ContractFieldError, or ExpressionError for an unknown root."""
    name, version = getattr(check, _MARK, ("", ""))
    own = getattr(check, "__qualname__", "")
    if not version and (own.endswith("<lambda>") or not own):
        raise ContractFieldError("A lambda has no name. Use `postcondition(name=..., version=...)`.")
    if not name and (own.endswith("<lambda>") or not own):
        raise ContractFieldError("A lambda also needs a name: `postcondition(name=..., version=...)`.")
    if is_async(check):
        raise ContractFieldError("A postcondition judges given values and cannot be async. Use a reader to read.")
    full = name or f"{check.__module__}.{own}"
    return CallableCheck(full, version or f"1+{source_digest(check)}", _parameters(check))


def _parameters(check: Callable[..., object]) -> tuple[str, ...]:
    parameters = inspect.signature(check).parameters.values()
    for each in parameters:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise ContractFieldError(f"The parameter {str(each)!r} cannot be passed by name. Name the roots.")
        if each.name not in ROOTS:
            raise ExpressionError(
                f"The parameter {each.name!r} is not a root.{did_you_mean(each.name, ROOTS)}",
                code="expression.unknown-name",
            )
    names = tuple(each.name for each in parameters)
    if not names:
        raise ContractFieldError(f"The callable takes none of the roots ({', '.join(ROOTS)}), so it can judge nothing.")
    return names
