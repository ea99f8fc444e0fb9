"""A contract ready to run: data, compiled predicates, and handlers.

Built when a contract is loaded, after every check without data. Every stage carries the compiled contract, and the
drivers use its handlers. Immutable, and shared between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.contract.contract import Contract
from readback.domain.contract.shadowing import NO_SHADOW, ShadowTerms
from readback.domain.normal_form import NormalForm
from readback.domain.predicate import Postcondition
from readback.ports.handlers import Handlers
from readback.ports.predicates import Predicate, PredicateEngine

Variables = Mapping[str, Json]
"""The roots of expressions by name: intended, requested, observed, before, authoritative, scope."""


@dataclass(frozen=True, slots=True)
class Check:
    """A postcondition with its evaluator: a compiled predicate, or a Python callable.

    A callable takes the roots named by its parameters, and returns True, False or None (undetermined).
    """

    postcondition: Postcondition
    predicate: Predicate | None = None
    check: Callable[..., Any] | None = None
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IdentityCheck:
    """One identity key: an expression for the found value, or (`boolean`) an expression comparing by itself.

    `form`: the contract's comparison rule. With None, the source's rule for `field` applies (a dotted path below
    `authoritative`; "" if the expression is no plain path).
    """

    key: str
    predicate: Predicate
    boolean: bool
    form: NormalForm | None = None
    field: str = ""


@dataclass(frozen=True, slots=True)
class CompiledContract:
    """All parts needed to run one contract. `revive` turns recorded JSON arguments back into Python values."""

    contract: Contract
    predicates: PredicateEngine
    target: Callable[[Variables], str]
    identity: tuple[IdentityCheck, ...]
    require: tuple[Check, ...]
    ensure: tuple[Check, ...]
    fails_when: tuple[Check, ...]
    expected_version: Predicate | None
    revive: Callable[[Mapping[str, Json]], Mapping[str, object]]
    hands: Handlers
    compensation: CompiledContract | None = None
    intermediate: tuple[Check, ...] = ()
    approval_when: Check | None = None
    """The condition for a required approval; None if the contract has none."""
    bind: Callable[[Mapping[str, Json]], tuple[Mapping[str, object], Mapping[str, Json]]] | None = None
    """Check arguments given by name or as JSON, and return both notations. None for a plan without proposals. Raises
    InputError.
    """
    reversing: Callable[[Variables], tuple[Mapping[str, object], Mapping[str, Json]]] | None = None
    """The arguments of the compensation in both notations, if they differ from the action's. Raises InputError."""
    places: Callable[[Mapping[str, Json], bool], tuple[str, ...]] | None = None
    """The locations of the target's files as subjects of freezes, by the request and by whether to freeze them. None
    for a target without files.
    """


@dataclass(frozen=True, slots=True)
class Request:
    """A bound and validated proposal: arguments in both notations, and the intent.

    `arguments`: Python values for the tool. `requested`: the same as JSON. `intended`: the goal, if separate from the
    request. `planned` names the plan's step; `task_state` and `boundary` are versions.
    """

    plan: CompiledContract
    arguments: Mapping[str, object]
    requested: Mapping[str, Json]
    operation: str
    intended: Mapping[str, Json] | None = None
    step: str = ""
    replaces: str = ""
    reverses: str = ""
    """The stamp of the action to compensate."""
    saga: str = ""
    """The saga of the action, and its region in the saga ("before", "pivot", "after"; "" for a reversal)."""
    region: str = ""
    action_id: str = ""
    """The announced id; "" to draw a fresh id."""
    ordered: bool = False
    """A reviewer ordered the action: a frozen target does not bar execution."""
    outside: bool = False
    """The caller makes the durable attempt and reports the result; the engine calls no tool."""
    upon: tuple[str, ...] = ()
    """Ids of claims behind the action. If a claim is invalid, nothing is executed."""
    ahead: bool = False
    """The call may run while its attempt becomes durable: the outcome is unknown in any case."""
    binds_goal: bool = False
    """The stated goal is part of the payload: a repetition with another goal is refused."""


@dataclass(frozen=True, slots=True)
class CallerContext:
    """The caller's tenant, principal and context, as passed to `Readback.open`."""

    tenant: str
    principal: str
    run: str = ""
    plan: str = ""
    task_state: str = ""
    boundary: str = ""
    trace: str = ""
    budget: Mapping[str, Json] | None = None
    break_glass: str = ""
    parent_span: str = ""
    """The trace span of the proposal."""
    scopes: tuple[str, ...] = ()
    """The client's permission scopes."""
    sampled: bool = True
    """False where the caller's trace is not sampled."""
    origin: Mapping[str, Json] | None = None
    """Facts about the request behind the proposal, such as its method at the gateway."""
    shadow: ShadowTerms = NO_SHADOW
    """The contracts that run in shadow mode for this client."""
