"""Python callables as postconditions: named, versioned, and looked at before anything runs.

Used by authors (`postcondition`) and by clauses. A callable names as its parameters the roots it judges, and answers
True, False or None (it cannot tell). It must not read the world: that is a reader's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Final, TypeVar

from readback.canon.frozen import dataclass
from readback.contracts.functions.callable_digest import source_digest
from readback.contracts.functions.callables import is_async
from readback.contracts.problems import did_you_mean
from readback.domain.errors import ContractFieldError, ExpressionError
from readback.ports.predicates import ROOTS

_MARK: Final = "__readback_condition__"
VERSION_MAX_CHARS: Final = 128
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class CallableCheck:
    """What is known of a callable: its name, its version, and the roots it takes."""

    name: str
    version: str
    parameters: tuple[str, ...]


def postcondition(*, version: str, name: str = "") -> Callable[[F], F]:
    """Gives a callable its version (and name): `@postcondition(version="2")`. Needed for a lambda.

    Without it, the version is "1" with a digest of the function's source, so that another body is another contract.
    """

    def mark(function: F) -> F:
        try:
            setattr(function, _MARK, (name, version))
        except AttributeError as error:
            raise ContractFieldError(f"{function!r:.80} cannot carry a version; wrap it in a function.") from error
        return function

    return mark


def version_given(function: Callable[..., object]) -> str:
    """The version that `postcondition` gave a function; "" where it gave none."""
    return str(getattr(function, _MARK, ("", ""))[1])


def inspected(check: Callable[..., object]) -> CallableCheck:
    """Name, version and parameters. Raises ContractFieldError, or ExpressionError for a name that is no root."""
    name, version = getattr(check, _MARK, ("", ""))
    own = getattr(check, "__qualname__", "")
    if not version and (own.endswith("<lambda>") or not own):
        raise ContractFieldError("A lambda has no name of its own: use `postcondition(name=..., version=...)`.")
    if not name and (own.endswith("<lambda>") or not own):
        raise ContractFieldError("A lambda needs a name beside its version: `postcondition(name=..., version=...)`.")
    if is_async(check):
        raise ContractFieldError("A postcondition judges given values and is not async; what reads is a reader.")
    full = name or f"{check.__module__}.{own}"
    return CallableCheck(full, version or f"1+{source_digest(check)}", _parameters(check))


def _parameters(check: Callable[..., object]) -> tuple[str, ...]:
    parameters = inspect.signature(check).parameters.values()
    for each in parameters:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise ContractFieldError(f"The parameter {str(each)!r} has no name to be given by; name the roots.")
        if each.name not in ROOTS:
            raise ExpressionError(
                f"The parameter {each.name!r} is none of the roots.{did_you_mean(each.name, ROOTS)}",
                code="expression.unknown-name",
            )
    names = tuple(each.name for each in parameters)
    if not names:
        raise ContractFieldError(f"It takes none of the roots ({', '.join(ROOTS)}), so it can judge nothing.")
    return names
