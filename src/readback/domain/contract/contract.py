"""The contract: the action, the conditions afterwards, and their source.

The contract compiler makes it from decorators or files, and every stage reads it. It holds data only; the driver holds
the callables. An action keeps its first contract version.

Source: the action verification specification, "Verification Depth"; docs/reference lists the keys.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import StrEnum

from readback.canon import Json, envelope_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.domain.contract.approval import ApprovalTerms
from readback.domain.contract.freezing import DEFAULT_SCOPES, FreezeScope
from readback.domain.contract.shadowing import Mode
from readback.domain.contract.watch import WatchTerms
from readback.domain.idempotency import KEY_KEPT_US
from readback.domain.kind import Kind
from readback.domain.normal_form import NormalForm
from readback.domain.predicate import Postcondition
from readback.domain.side_effect import Consistency, Depth, Independence, SideEffect, depth

IDENTITY_KEYS = ("target", "tenant", "actor", "region", "account", "permission_scope", "stamp", "version")
NOT_OFFERED = "not_offered"
SECOND_US = 1_000_000
ATTEMPTS_MAX = 3
POLLS_MAX = 64
LATE_POLLS_MAX = 24


class Noop(StrEnum):
    """The meaning of a call without any change: the key `on_unchanged`. Contracts record these values."""

    ALLOW = "allow"
    """Success, where every postcondition held before the call already. Contracts write `accept`."""
    REFUSE = "refuse"
    """The request demands a change. Without a change it is refuted, even where every postcondition holds."""
    EQUIVALENT = "equivalent"
    """For effects required to be our own: a second effect of one operation leaves the same state as the first alone."""


@dataclass(frozen=True, slots=True)
class ReaderTerms:
    """One reader, or a search: its name, its source, and its declarations. `timeout_us` bounds one call."""

    name: str
    source: str
    consistency: Consistency
    independence: Independence
    timeout_us: int
    whole_region: bool = False
    """A reading covers everything the call may change. An equal reading then proves no change."""
    declared: bool = True
    """The author declares the reader's consistency and independence. Other readers verify nothing."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The rules for calling the tool. `honours_key`: a second call under the same key has no second effect."""

    timeout_us: int
    honours_key: bool = False
    reversible: bool = True
    key_valid_for_us: int = 0
    """Microseconds of the key's validity in the tool, from the first attempt; 0: not declared."""


@dataclass(frozen=True, slots=True)
class Contract:
    """The engine's knowledge of an action before a run. Durations in microseconds."""

    name: str
    version: str
    kind: Kind
    side_effect: SideEffect
    target: str
    identity: tuple[tuple[str, str], ...]
    require: tuple[Postcondition, ...]
    expected_version: str
    execution: Execution
    readers: tuple[ReaderTerms, ...]
    quorum: int
    ensure: tuple[Postcondition, ...]
    fails_when: tuple[Postcondition, ...]
    may_change: tuple[str, ...] | None
    noop: Noop
    within_us: int
    polls_us: tuple[int, ...]
    stable_for_us: int
    deadline_us: int
    late_window_us: int | None
    key_fields: tuple[str, ...]
    principals: tuple[str, ...]
    redact: tuple[str, ...]
    tell: tuple[str, ...]
    unverifiable: str
    proves: str
    has_find: bool
    has_lookup: bool
    has_compensation: bool
    has_rollback: bool
    schema_hash: str
    freeze: tuple[FreezeScope, ...] = DEFAULT_SCOPES
    """Scopes to freeze besides the target, when a freeze is due."""
    key_kept_us: int = KEY_KEPT_US
    """How long, in microseconds, a settled idempotency record answers. An open record never expires."""
    approval: ApprovalTerms | None = None
    """The approval required before an attempt; None without any."""
    scopes: tuple[str, ...] = ()
    """The permission scopes required of a client, all of them."""
    watch: WatchTerms | None = None
    """The looks after success; None without a watch."""
    find_terms: ReaderTerms | None = None
    """The declarations of the search; None without any. The search then counts like the first reader."""
    intermediate: tuple[Postcondition, ...] = ()
    """States on the way to the required state: not yet as required, and not wrong."""
    find_complete: bool = False
    """The search shows every effect, in every place the tool can write; see domain.key_release."""
    lookup_terms: ReaderTerms | None = None
    """The declarations of the look-up by key; None without any."""
    forms: tuple[tuple[str, NormalForm], ...] = ()
    """The comparison rule of an identity key, as declared by the contract (`as`)."""
    verifiers: str = ""
    """The digest of the scripts and hooks that judge inside a reading; "" without any."""
    assumed: tuple[str, ...] = ()
    """Defaults in place of the author's omissions; one line each."""
    mode: Mode | None = None
    """The mode stated by the author; None for none. See domain.contract.shadowing."""
    names_before: bool = False
    """A clause judges `before`, or the contract has `noop: refuse`, so a reading before the call is needed.

    The hash covers the clauses and not this field.
    """
    hash: str = ""
    body: bytes = b""
    """The canonical form under `hash`; stored as evidence with every action."""
    depth: Depth = field(init=False)
    """The verification depth of its class."""
    needs_before: bool = field(init=False)
    """A reading before execution is needed: the kind compares, and the class, the frame or the version requires one."""
    whole_readers: frozenset[str] = field(init=False)
    """The readers of the whole region that the call may change, by name."""

    def __post_init__(self) -> None:
        # Derived once, since every action reads these values.
        by_class = self.kind.compares_before and depth(self.side_effect).needs_before
        weak = self.side_effect is SideEffect.EPHEMERAL_WRITE and all(
            terms.consistency is not Consistency.STRONG for terms in self.readers
        )
        asked = (
            by_class
            or (weak and self.kind.mutates)
            or self.may_change is not None
            or bool(self.expected_version)
            or self.names_before
        )
        object.__setattr__(self, "depth", depth(self.side_effect))
        object.__setattr__(self, "needs_before", bool(self.readers) and asked)
        whole = frozenset(terms.name for terms in self.readers if terms.whole_region)
        object.__setattr__(self, "whole_readers", whole)

    @property
    def target_form(self) -> NormalForm:
        """The comparison rule of the target, as declared by the contract."""
        return dict(self.forms).get("target", NormalForm.EXACT)

    @property
    def groups(self) -> tuple[str, ...]:
        """Effect groups, in the order of their first postcondition."""
        return tuple(dict.fromkeys(p.group for p in self.ensure if p.group is not None))

    def sealed(self) -> Contract:
        """The same contract with its canonical form and hash."""
        body = envelope_bytes(describe(self))
        return replace(self, hash=sha256_hex(body), body=body)


def describe(contract: Contract) -> dict[str, Json]:
    """The contract as plain data: the hashed content, printed by `show`."""
    described: dict[str, Json] = {
        "name": contract.name,
        "version": contract.version,
        "kind": contract.kind.value,
        "side_effect": contract.side_effect.value,
        "target": contract.target,
        "identity": dict(contract.identity),
        "require": _clauses(contract.require),
        "expected_version": contract.expected_version,
        "execute": {
            "timeout_us": contract.execution.timeout_us,
            "honours_key": contract.execution.honours_key,
            "reversible": contract.execution.reversible,
        },
        "readers": [_terms(each) for each in contract.readers],
        "quorum": contract.quorum,
        "ensure": _clauses(contract.ensure),
        "fails_when": _clauses(contract.fails_when),
        "may_change": None if contract.may_change is None else list(contract.may_change),
        "noop": contract.noop.value,
        "within_us": contract.within_us,
        "polls_us": list(contract.polls_us),
        "stable_for_us": contract.stable_for_us,
        "deadline_us": contract.deadline_us,
        "late_window_us": contract.late_window_us,
        "key_fields": list(contract.key_fields),
        "key_kept_us": contract.key_kept_us,
        "principals": list(contract.principals),
        "redact": list(contract.redact),
        "tell": list(contract.tell),
        "unverifiable": contract.unverifiable,
        "proves": contract.proves,
        "find": contract.has_find,
        "lookup": contract.has_lookup,
        "compensate": contract.has_compensation,
        "rollback": contract.has_rollback,
        "freeze": [scope.value for scope in contract.freeze],
        "arguments": contract.schema_hash,
    }
    if contract.approval is not None:  # omitted when unset, so that older contracts keep their hash
        terms = contract.approval
        described["approval"] = {"people": terms.people, "expires_us": terms.expires_us, "when": terms.when}
    if contract.scopes:  # as above
        described["scopes"] = list(contract.scopes)
    if contract.watch is not None:  # as above
        described["watch"] = contract.watch.as_json()
    if contract.forms:  # as above
        described["identity_as"] = {key: form.value for key, form in contract.forms}
    if contract.execution.key_valid_for_us:  # as above
        described["key_valid_for_us"] = contract.execution.key_valid_for_us
    if contract.intermediate:  # as above
        described["intermediate"] = _clauses(contract.intermediate)
    if contract.find_complete:  # as above
        described["find_complete"] = True
    for use, by in (("find_by", contract.find_terms), ("lookup_by", contract.lookup_terms)):
        if by is not None:  # as above
            described[use] = _terms(by)
    if contract.assumed:  # as above
        described["assumed"] = list(contract.assumed)
    if contract.verifiers:  # as above
        described["verifiers"] = contract.verifiers
    if contract.mode is not None:  # as above
        described["mode"] = contract.mode.value
    return described


def _terms(of: ReaderTerms) -> dict[str, Json]:
    described: dict[str, Json] = {
        "name": of.name,
        "source": of.source,
        "consistency": of.consistency.value,
        "independence": of.independence.value,
        "timeout_us": of.timeout_us,
    }
    if of.whole_region:  # omitted when undeclared, so that older contracts keep their hash
        described["whole_region"] = True
    if not of.declared:  # as above
        described["declared"] = False
    return described


def _clauses(clauses: tuple[Postcondition, ...]) -> list[Json]:
    return [[c.name, c.source, c.group or ""] for c in clauses]
