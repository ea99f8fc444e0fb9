"""The keys of a contract for the type checker and the editor, and two groups of keys.

Used by the decorators. The keys of `Timing` and `Policy` are also keys of the contract itself. A contract uses either
the group or the single keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Required, TypeAlias, TypedDict

from readback.canon.frozen import dataclass
from readback.contracts.functions.callables import Reader
from readback.domain.kind import Kind
from readback.domain.side_effect import SideEffect
from readback.errors import ContractFieldError

if TYPE_CHECKING:
    from readback.contracts.functions.verifiers import Invariant

Duration: TypeAlias = str | timedelta
Condition: TypeAlias = "str | Callable[..., object] | Invariant"
KindName: TypeAlias = Literal["read", "set", "create", "append", "adjust", "delete", "send"]
SideEffectName: TypeAlias = Literal[
    "read_only", "ephemeral_write", "low_risk_internal", "medium_risk_write", "high_risk_external", "critical_mutation"
]
ConsistencyName: TypeAlias = Literal["cached", "replica", "session", "strong"]
IndependenceName: TypeAlias = Literal["same_call", "same_client", "other_client", "other_system"]


class ExecuteOptions(TypedDict, total=False):
    """Limits on calling the tool; see `Execution`."""

    timeout: Duration
    honours_key: bool
    key_valid_for: Duration
    reversible: bool


Compared = TypedDict(
    "Compared",
    {"path": Required[str], "as": Literal["exact", "nfc", "casefold", "uuid", "email", "path"]},
    total=False,
)
"""An identity key with its comparison rule; see `readback.domain.normal_form.NormalForm`."""


class ApprovalOptions(TypedDict, total=False):
    """Terms of approval: the number of people (1 or 2), the deadline, and a condition; see `ApprovalTerms`."""

    people: int
    expires: Duration
    when: str


WatchOptions = TypedDict(
    "WatchOptions", {"after": Duration, "every": Duration, "for": Duration, "ensure": Sequence[str]}, total=False
)
"""Times of further readings after success; see `readback.domain.contract.watch.WatchTerms`."""


class ContractOptions(TypedDict, total=False):
    """The optional keys of a contract."""

    name: str
    version: str
    identity: Mapping[str, str | Compared]
    require: Condition | Mapping[str, Condition]
    expected_version: str
    execute: ExecuteOptions
    readers: Sequence[Reader]
    quorum: int
    fails_when: Condition | Mapping[str, Condition]
    intermediate: Condition | Mapping[str, Condition]
    may_change: Sequence[str]
    on_unchanged: Literal["accept", "refuse", "equivalent"]
    noop: Literal["allow", "refuse", "equivalent"]
    within: Duration
    polls: Sequence[Duration]
    stable_for: Duration
    deadline: Duration
    late_window: Duration
    key_fields: Sequence[str]
    key_kept: Duration
    key_valid_for: Duration
    principals: Sequence[str]
    scopes: Sequence[str]
    redact: Sequence[str]
    tell: Sequence[str]
    unverifiable: str
    proves: Literal["submitted", "delivered"]
    approval: Literal["required"] | ApprovalOptions
    watch: Duration | WatchOptions
    mode: Literal["enforced", "shadow"]
    operation: str
    timing: Timing
    policy: Policy


class ActionOptions(ContractOptions, total=False):
    """All keys of a contract. `kind` defaults to "set", and `side_effect` to "low_risk_internal"."""

    ensure: Required[Condition | Mapping[str, Condition | Mapping[str, Condition]]]
    kind: KindName | Kind
    side_effect: SideEffectName | SideEffect
    target: str


class CompensationOptions(ContractOptions, total=False):
    """The keys of a compensation. Target, class and identity default to the action's."""

    kind: Required[KindName | Kind]
    ensure: Required[Mapping[str, Condition | Mapping[str, Condition]]]
    side_effect: SideEffectName | SideEffect
    target: str


@dataclass(frozen=True, slots=True)
class Timing:
    """Group the times of a contract for `@action(..., timing=Timing(...))`.

    Durations are text with a unit ("10s", "2m") or a `timedelta`. Other times have the defaults of the class.

    Example:
        >>> from readback import Timing
        >>> Timing(within="10s", polls=["0s", "1s"]).within
        '10s'
    """

    within: Duration | None = None
    polls: Sequence[Duration] | None = None
    stable_for: Duration | None = None
    deadline: Duration | None = None
    late_window: Duration | None = None
    watch: Duration | WatchOptions | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Group the principals, approvals and redactions of a contract, for `@action(..., policy=Policy(...))`.

    Example:
        >>> from readback import Policy
        >>> Policy(principals=["agent:ops"], redact=["requested.card"]).principals
        ['agent:ops']
    """

    principals: Sequence[str] | None = None
    scopes: Sequence[str] | None = None
    approval: Literal["required"] | ApprovalOptions | None = None
    redact: Sequence[str] | None = None
    tell: Sequence[str] | None = None


GROUPS: Final[Mapping[str, type[Timing | Policy]]] = {"timing": Timing, "policy": Policy}


def ungrouped(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options with the groups' keys as single keys.

    Raises:
        ContractFieldError: a group has another type, or repeats a single key.
    """
    flat = {key: value for key, value in options.items() if key not in GROUPS}
    for name, group in GROUPS.items():
        given: Any = options.get(name)
        if given is None:
            continue
        if not isinstance(given, group):
            raise ContractFieldError(
                f"{name}= takes a {group.__name__}, not {given!r:.40}.",
                remedy=f"Write {name}={group.__name__}(...), or the single keys.",
            )
        for each in fields(group):
            value = getattr(given, each.name)
            if value is None:
                continue
            if flat.get(each.name) is not None:
                raise ContractFieldError(
                    f"{each.name!r} is given in {name}= and as a single key. Keep one.", remedy="Write it once."
                )
            flat[each.name] = value
    return flat


def signature_of_action(returns: object) -> inspect.Signature:
    """Return the keys of a contract as parameters, for `help(action)` and editors."""
    keys = {**ContractOptions.__annotations__, **ActionOptions.__annotations__}
    first = inspect.Parameter("target", inspect.Parameter.POSITIONAL_OR_KEYWORD, default="", annotation="str")
    named = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if name == "ensure" else None,
            annotation=_plain(annotation),
        )
        for name, annotation in sorted(keys.items(), key=lambda each: ORDER.index(each[0]) if each[0] in ORDER else 99)
        if name != "target"
    ]
    return inspect.Signature([first, *named], return_annotation=returns)


ORDER: Final = ("ensure", "kind", "side_effect", "operation", "identity", "within", "timing", "policy")
"""The keys of a short contract come first."""


def _plain(annotation: object) -> object:
    text = str(getattr(annotation, "__forward_arg__", annotation))
    return text.removeprefix("Required[").removesuffix("]") if text.startswith("Required[") else text
