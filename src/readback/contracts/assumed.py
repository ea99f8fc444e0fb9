"""Defaults of a short contract; every assumption is listed with the contract.

Used by the decorators when a contract is loaded. No default raises what may be reported: the class is the lowest class
verified by reading, an unchanged record is a refusal, and identity is compared wherever the record states it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from readback.canon.frozen import dataclass
from readback.contracts.problems import Problems
from readback.domain.contract.contract import NOT_OFFERED
from readback.domain.kind import Kind
from readback.domain.side_effect import SideEffect, depth
from readback.errors import ContractFieldError

KIND: Final = Kind.SET
SIDE_EFFECT: Final = SideEffect.LOW_RISK_INTERNAL
ON_UNCHANGED: Final = "refuse"
RISKY_WORDS: Final = frozenset(
    {
        *("append", "book", "bill", "buy", "charge", "create", "credit", "debit", "deposit", "donate", "email"),
        *("insert", "invite", "invoice", "mail", "message", "notify", "order", "pay", "payout", "post", "publish"),
        *("purchase", "refund", "send", "sms", "submit", "subscribe", "transfer", "tweet", "wire", "withdraw"),
    }
)
"""Verbs of functions with a new effect on each call: make, send or charge."""
_PLACEHOLDER: Final = re.compile(r"(?<!\{)\{([A-Za-z_]\w*)\}(?!\})", re.ASCII)
_NAMED: Final = re.compile(r"(?<!\{)\{requested\.([A-Za-z_]\w*)\}(?!\})", re.ASCII)
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@dataclass(frozen=True, slots=True)
class Assumed:
    """A contract's options with the defaults in place, and the assumptions, one line each."""

    options: Mapping[str, object]
    lines: tuple[str, ...]


def with_defaults(
    options: Mapping[str, object], arguments: Sequence[str], function: str, problems: Problems, *, short: bool
) -> Assumed:
    """Fill in kind, class, `on_unchanged` and identity where a contract does not state them.

    Args:
        options: The contract's keys as its author wrote them.
        arguments: The names of the action's arguments.
        function: The name of the action's function. A name such as `charge_card` refuses the defaults.
        problems: Receives a fault where a create, a send or a charge lacks a key without a default.
        short: The contract is in its short form, so that identity has a default too.
    """
    filled, lines = dict(options), list[str]()
    _refuse_for_effects(filled, function, problems)
    if filled.get("kind") is None:
        filled["kind"] = KIND.value
        lines.append(f"kind: {KIND.value}")
        if filled.get("on_unchanged") is None and filled.get("noop") is None:
            filled["on_unchanged"] = ON_UNCHANGED
            lines.append(f"on_unchanged: {ON_UNCHANGED}")
    if filled.get("side_effect") is None:
        filled["side_effect"], short = SIDE_EFFECT.value, True
        lines.append(f"side_effect: {SIDE_EFFECT.value}")
    if short:
        filled["target"] = named_target(filled.get("target"), arguments)
        lines += _identity(filled, arguments)
    return Assumed(filled, tuple(lines))


def named_target(target: object, arguments: Sequence[str]) -> object:
    """Return the target's template with `{order_id}` written out as `{requested.order_id}`.

    Example:
        >>> named_target("order/{order_id}", ["order_id"])
        'order/{requested.order_id}'
    """
    if not isinstance(target, str):
        return target
    return _PLACEHOLDER.sub(lambda m: f"{{requested.{m[1]}}}" if m[1] in arguments else m[0], target)


def _refuse_for_effects(options: Mapping[str, object], function: str, problems: Problems) -> None:
    """Refuse defaults for a create, a send or a charge. Each call has an effect, so there is no safe default."""
    kind, risk = options.get("kind"), options.get("side_effect")
    words = [word.lower() for word in _WORDS.findall(function)]
    verb = next((word for word in words[:1] if word in RISKY_WORDS), "")
    if kind is None and verb:
        reason = (
            f"{function!r} names {verb!r}, and a create, a send or a charge states its kind, its class and its "
            f"operation itself. Name kind= (create, send, append, adjust; or set where a second call changes nothing), "
            "side_effect= (risk= in `verified`) and operation=."
        )
        problems.add("kind", ContractFieldError(reason))
    needs_ours = any(kind == each.value and each.needs_ours for each in Kind)
    if risk is None and (needs_ours or (verb and kind is not None)):
        reason = f"A {kind} has no default class. Choose one of: {', '.join(SideEffect)}."
        problems.add("side_effect", ContractFieldError(reason))
    if risk is None and needs_ours and not options.get("operation") and not options.get("key_fields"):
        problems.add("operation", ContractFieldError(NO_OPERATION.format(kind=kind)))


NO_OPERATION: Final = (
    "A {kind} names its operation, so that the same intent never runs twice. Write operation='... {{order_id}}' with "
    "the arguments that tell one intent from another."
)


def _identity(options: dict[str, object], arguments: Sequence[str]) -> list[str]:
    """Return identity by the record's own statements: the arguments of the target, and the tenant."""
    given = options.get("identity")
    if given is not None and not isinstance(given, Mapping):
        return []
    side_effect = next((each for each in SideEffect if each == options.get("side_effect")), None)
    if side_effect is None or options.get("unverifiable") or options.get("kind") == Kind.READ:
        return []
    row, identity, lines = depth(side_effect), dict(given or {}), list[str]()
    for key in row.identity_required:
        if key in identity or (key in row.identity_essential and key != "target"):
            continue
        assumed = {"target": _same_target(options.get("target"), arguments), "tenant": SAME_TENANT}.get(
            key, NOT_OFFERED
        )
        if not assumed:
            continue
        identity[key] = assumed
        how = "not offered by the record" if assumed == NOT_OFFERED else "compared where the record states it"
        lines.append(f"identity.{key}: {how}")
    options["identity"] = identity
    return lines


SAME_TENANT: Final = " && ".join(
    f"(!has(authoritative.{name}) || authoritative.{name} == scope.tenant)" for name in ("tenant", "tenant_id")
)


def _same_target(target: object, arguments: Sequence[str]) -> str:
    """Require that the record names no other object than the target. A target of one argument is also compared with
    `id`.
    """
    named = list(dict.fromkeys(_NAMED.findall(target))) if isinstance(target, str) else []
    named = [name for name in named if name in arguments]
    if len(named) == 1:
        name = named[0]
        other = f"(!has(authoritative.id) || authoritative.id == requested.{name})"
        return f"has(authoritative.{name}) ? authoritative.{name} == requested.{name} : {other}"
    if not named:
        return "authoritative != null"
    return " && ".join(f"(!has(authoritative.{n}) || authoritative.{n} == requested.{n})" for n in named)
