"""A contract made ready to run: its data, its compiled predicates, and its hands.

Built by contracts when a contract is loaded (every check that needs no data is done by then), carried through every
stage, read by the drivers for the hands. Immutable, and shared between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.contract.contract import Contract
from readback.domain.normal_form import NormalForm
from readback.domain.predicate import Postcondition
from readback.ports.handlers import Handlers
from readback.ports.predicates import Predicate, PredicateEngine

Variables = Mapping[str, Json]
"""The roots of expressions by name: intended, requested, observed, before, authoritative, scope."""


@dataclass(frozen=True, slots=True)
class Check:
    """A postcondition with what evaluates it: a compiled predicate, or a Python callable.

    A callable is called with the roots that it names as parameters, and answers True, False or None (undetermined).
    """

    postcondition: Postcondition
    predicate: Predicate | None = None
    check: Callable[..., Any] | None = None
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IdentityCheck:
    """One identity key: an expression that gives the value found, or (`boolean`) that compares by itself.

    `form`: the rule that the contract names for it; None where it names none, and what the source says of its field
    `field` (a dotted path below `authoritative`, "" where the expression is no plain path) counts.
    """

    key: str
    predicate: Predicate
    boolean: bool
    form: NormalForm | None = None
    field: str = ""


@dataclass(frozen=True, slots=True)
class CompiledContract:
    """Everything that a run of one contract needs. `revive` turns recorded JSON arguments back into Python ones."""

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
    """The condition under which a person has to approve it; None where the contract has none."""
    bind: Callable[[Mapping[str, Json]], tuple[Mapping[str, object], Mapping[str, Json]]] | None = None
    """Arguments by name and as JSON, checked and in both notations; None for a plan that nothing is proposed by. Raises
    InputError.
    """
    reversing: Callable[[Variables], tuple[Mapping[str, object], Mapping[str, Json]]] | None = None
    """What the compensation is given, in both notations, where that is not what the action was. Raises InputError."""
    places: Callable[[Mapping[str, Json], bool], tuple[str, ...]] | None = None
    """Where its files lie, as subjects of freezes, by the request and by whether they are to be frozen; None where its
    target is no file.
    """


@dataclass(frozen=True, slots=True)
class Request:
    """A proposal, bound and validated: what was asked, in both notations, and what for.

    `arguments`: Python values for the tool; `requested`: the same as JSON; `intended`: the goal, where it was given
    apart from the request. `planned` names the plan's step, `task_state` and `boundary` their versions.
    """

    plan: CompiledContract
    arguments: Mapping[str, object]
    requested: Mapping[str, Json]
    operation: str
    intended: Mapping[str, Json] | None = None
    step: str = ""
    replaces: str = ""
    reverses: str = ""
    """The stamp of the action that this one compensates."""
    saga: str = ""
    """The saga that it belongs to, and in which of its regions ("before", "pivot", "after"; "" for a reversal)."""
    region: str = ""
    action_id: str = ""
    """The id that was announced for it; "" to draw a fresh one."""
    ordered: bool = False
    """A person ordered it in review: it is executed also where its target is frozen."""
    outside: bool = False
    """Whoever asked makes the attempt, once it is durable, and reports how it ended: no tool is called from here."""
    upon: tuple[str, ...] = ()
    """Ids of the claims that it is planned upon: where one does not stand, nothing is executed."""
    ahead: bool = False
    """Its call may be made while its attempt becomes durable: it is told as unknown whatever comes of it."""


@dataclass(frozen=True, slots=True)
class CallerContext:
    """For whom and under what an action runs: what `Readback.open` was given."""

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
    """The span of the trace under which the action was proposed."""
    scopes: tuple[str, ...] = ()
    """The permission scopes that the client holds."""
