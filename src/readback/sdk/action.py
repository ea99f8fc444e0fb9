"""The decorator that makes a function into an action, and what its author may say about it.

Used by authors of contracts. Decorating only collects: nothing is compiled, and neither the expression engine nor
pydantic is imported, until the first proposal, or `load()`. It must not run anything; only `Readback.run` does.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from threading import RLock
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    Never,
    ParamSpec,
    Required,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from readback.contracts.arguments import ArgumentSchema
from readback.contracts.hands import Parts, Reader, accepts, argument_schema, hand, reader_of
from readback.contracts.problems import Problems
from readback.contracts.reach import why_keyless
from readback.contracts.twins import Twin
from readback.domain.context import Context
from readback.domain.contract import Contract
from readback.domain.errors import ContractError, ContractFieldError, UsageError
from readback.domain.kind import Kind
from readback.domain.reading import Lookup, Reading
from readback.domain.side_effect import Consistency, Independence, SideEffect
from readback.lifecycle.plan import Plan
from readback.ports.acting import Hand
from readback.sdk.proposal import Proposal

if TYPE_CHECKING:
    from readback.contracts.verifiers import Invariant
    from readback.sdk.evaluation import Evaluated

_LOADING = RLock()
"""One for all: loading an action loads its compensation, and two locks taken in two orders would block for ever."""

P = ParamSpec("P")
ReadResult = TypeVar("ReadResult", bound="Reading | Awaitable[Reading]")
FindResult = TypeVar("FindResult", bound="Sequence[Reading] | Awaitable[Sequence[Reading]]")
LookupResult = TypeVar("LookupResult", bound="Lookup | Awaitable[Lookup]")
Result = TypeVar("Result")

Duration: TypeAlias = str | timedelta
Condition: TypeAlias = "str | Callable[..., object] | Invariant"
KindName: TypeAlias = Literal["read", "set", "create", "append", "adjust", "delete", "send"]
SideEffectName: TypeAlias = Literal[
    "read_only", "ephemeral_write", "low_risk_internal", "medium_risk_write", "high_risk_external", "critical_mutation"
]
ConsistencyName: TypeAlias = Literal["cached", "replica", "session", "strong"]
IndependenceName: TypeAlias = Literal["same_call", "same_client", "other_client", "other_system"]


class ExecuteOptions(TypedDict, total=False):
    """How the tool may be called; see `Execution`."""

    timeout: Duration
    honours_key: bool
    key_valid_for: Duration
    reversible: bool


Compared = TypedDict(
    "Compared",
    {"path": Required[str], "as": Literal["exact", "nfc", "casefold", "uuid", "email", "path"]},
    total=False,
)
"""An identity key with the rule by which it is compared; see `readback.domain.normal_form.NormalForm`."""


class ApprovalOptions(TypedDict, total=False):
    """Who has to approve it: how many people (1 or 2), until when, and for which requests; see `ApprovalTerms`."""

    people: int
    expires: Duration
    when: str


WatchOptions = TypedDict(
    "WatchOptions", {"after": Duration, "every": Duration, "for": Duration, "ensure": Sequence[str]}, total=False
)
"""When to look again after success; see `readback.domain.watch.WatchTerms`."""


class _Options(TypedDict, total=False):
    """The keys of a contract that are never required."""

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


class ActionOptions(_Options, total=False):
    """All keys of a contract."""

    kind: Required[KindName | Kind]
    side_effect: Required[SideEffectName | SideEffect]
    target: Required[str]
    ensure: Required[Mapping[str, Condition | Mapping[str, Condition]]]


class CompensationOptions(_Options, total=False):
    """The same for a compensation, which takes target, class and identity from its action where it says nothing."""

    kind: Required[KindName | Kind]
    ensure: Required[Mapping[str, Condition | Mapping[str, Condition]]]
    side_effect: SideEffectName | SideEffect
    target: str


class ActionDefinition(Generic[P]):
    """A decorated function: its contract's keys and its hands. Calling it proposes; nothing happens yet.

    Immutable once it is loaded, and safe to share between threads from then on.
    """

    def __init__(
        self,
        function: Callable[Concatenate[Context, P], object],
        options: Mapping[str, object],
        *,
        verifiers: Callable[[], str] | None = None,
    ) -> None:
        _refuse_any_but_functions(function)
        self._verifiers = verifiers
        self.unverified = function
        """The bare function: calling it acts, and nothing is recorded or verified."""
        self.options = dict(options)
        self.options.setdefault("name", getattr(function, "__name__", ""))
        self._readers: list[Reader] = []
        self._find: Callable[..., object] | None = None
        self._find_complete = False
        self._lookup: Callable[..., object] | None = None
        self._rollback: Callable[..., object] | None = None
        self._compensation: ActionDefinition[P] | None = None
        self._twin: Twin | None = None
        self._inherits: ActionDefinition[P] | None = None
        self._loaded: tuple[Plan, ArgumentSchema] | None = None
        self._loading = False
        self.__name__ = getattr(function, "__name__", "action")
        self.__qualname__ = getattr(function, "__qualname__", "action")
        self.__module__ = getattr(function, "__module__", "")
        self.__doc__ = function.__doc__

    # --- proposing ---

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Proposal:
        """Proposes. Raises ArgumentError, OversizeError; ContractError where the contract cannot be loaded."""
        loaded = self._loaded or self._load()
        arguments, requested = loaded[1].bind(args, kwargs)
        return Proposal(self, arguments, requested, proposed_in=sys._getframe(1))  # noqa: SLF001 - for the warning

    @property
    def name(self) -> str:
        """The contract's name."""
        return str(self.options["name"])

    @property
    def plan(self) -> Plan:
        """The compiled contract with its hands. Compiles at the first use; raises ContractError."""
        return (self._loaded or self._load())[0]

    @property
    def contract(self) -> Contract:
        """The contract's data."""
        return self.plan.contract

    @property
    def arguments(self) -> ArgumentSchema:
        """The schema of its arguments."""
        return (self._loaded or self._load())[1]

    @property
    def compensation(self) -> ActionDefinition[P] | None:
        """The action that reverses this one."""
        return self._compensation

    @property
    def declared_twin(self) -> Twin | None:
        """Where it may be drilled."""
        return self._twin

    def load(self) -> Plan:
        """Compiles and checks everything that needs no data. Raises ContractError with all faults."""
        return self.plan

    def evaluate(
        self,
        *,
        requested: Mapping[str, object],
        authoritative: object = None,
        before: object = None,
        observed: object = None,
        intended: Mapping[str, object] | None = None,
        scope: Mapping[str, object] | None = None,
    ) -> Evaluated:
        """Judges given states, as a unit test has them. A state is JSON, or a Reading; null is an absent object."""
        from readback.sdk.evaluation import judge

        states = {
            "requested": requested,
            "authoritative": authoritative,
            "before": before,
            "observed": observed,
            "intended": intended,
            "scope": scope,
        }
        return judge(self.plan, states)

    # --- what its author adds ---

    def read(
        self,
        *,
        source: str,
        consistency: ConsistencyName | Consistency,
        independence: IndependenceName | Independence,
        timeout: Duration | None = None,
        attributes: bool = False,
        whole_region: bool = False,
        name: str = "",
    ) -> Callable[[Callable[Concatenate[Context, P], ReadResult]], Callable[Concatenate[Context, P], ReadResult]]:
        """Decorator: the readback, from a system of record. It takes the action's own parameters.

        `attributes`: its readings say whose doing the state is, by `stamp=`.
        `whole_region`: a reading shows everything that a call may change, so that an equal reading proves that the call
        changed nothing. `timeout` bounds one reading; ten seconds where it is left away.
        """

        def add(
            function: Callable[Concatenate[Context, P], ReadResult],
        ) -> Callable[Concatenate[Context, P], ReadResult]:
            self._once("read", None, function)
            made = reader_of(
                function,
                source=source,
                consistency=consistency,
                independence=independence,
                timeout=timeout,
                attributes=attributes,
                whole_region=whole_region,
                name=name,
            )
            with self._collecting():
                self._readers.append(made)
            return function

        return add

    @overload
    def find(
        self, function: Callable[Concatenate[Context, P], FindResult], /
    ) -> Callable[Concatenate[Context, P], FindResult]: ...

    @overload
    def find(
        self, *, complete: bool = False
    ) -> Callable[[Callable[Concatenate[Context, P], FindResult]], Callable[Concatenate[Context, P], FindResult]]: ...

    def find(self, *function: Any, complete: bool = False) -> Any:
        """Decorator: every effect that bears the context's stamp, wherever it landed, as a list of readings.

        `complete`: the search covers every place that the tool can write, and returns every page. Only then, and once
        it has found an effect of this contract by the stamp, does an empty list mean that nothing happened.
        """

        def add(found: Callable[Concatenate[Context, P], FindResult]) -> Callable[Concatenate[Context, P], FindResult]:
            with self._collecting():
                self._once("find", self._find, found)
                self._find, self._find_complete = found, complete
            return found

        return add(*function) if function else add

    def lookup(
        self, function: Callable[Concatenate[Context, P], LookupResult]
    ) -> Callable[Concatenate[Context, P], LookupResult]:
        """Decorator: what became of the attempt with the context's idempotency key, as a Lookup."""
        with self._collecting():
            self._once("lookup", self._lookup, function)
            self._lookup = function
        return function

    def rollback(
        self, function: Callable[Concatenate[Context, P], Result]
    ) -> Callable[Concatenate[Context, P], Result]:
        """Decorator: puts a local boundary back. Called at most once an attempt, and verified by reading."""
        with self._collecting():
            self._once("rollback", self._rollback, function)
            self._rollback = function
        return function

    @overload
    def compensate(self, action: ActionDefinition[P], /) -> ActionDefinition[P]: ...

    @overload
    def compensate(
        self, **options: Unpack[CompensationOptions]
    ) -> Callable[[Callable[Concatenate[Context, P], object]], ActionDefinition[P]]: ...

    def compensate(self, *action: ActionDefinition[P], **options: Any) -> Any:
        """The action that reverses this one, with the same parameters and a contract of its own.

        `ship.compensate(unship)` names an action that exists; `@ship.compensate(kind=..., ensure=...)` makes one of
        the function below it, which takes target, class, identity and readers from this action unless it has its own.
        """
        if action:
            if len(action) > 1 or options:
                raise UsageError("`compensate` takes one action, or the keys of a contract.")
            self._compensates(action[0])
            return action[0]

        def make(function: Callable[Concatenate[Context, P], object]) -> ActionDefinition[P]:
            made: ActionDefinition[P] = ActionDefinition(function, options)
            made._inherits = self
            self._compensates(made)
            return made

        return make

    def twin(self, *action: ActionDefinition[P], **fixed: object) -> None:
        """Declares where a drill may try this action out; a drill runs nothing else.

        `charge.twin(charge_in_sandbox)` names another action of the same code, made by the same function for another
        target; `charge.twin(account="sandbox")` fixes arguments that only ever mean a safe one, among them all that the
        contract's target names.
        """
        if len(action) > 1 or bool(action) is bool(fixed):
            raise UsageError("`twin` takes one action, or the arguments that make this one safe.")
        if self._twin is not None:
            raise UsageError(f"The action {self.name!r} has a twin already.")
        if action:
            _refuse_any_but_actions("twin", action[0], "Name an action, or fix arguments by their names.")
        self._twin = Twin(action[0] if action else None, fixed)

    def _compensates(self, action: ActionDefinition[P]) -> None:
        _refuse_any_but_actions(
            "compensate", action, "Name an action, or write @name.compensate(kind=..., ensure=...)."
        )
        if action is self:
            raise UsageError(f"The action {self.name!r} cannot compensate itself.")
        with self._collecting():
            self._once("compensate", self._compensation, action)
            self._compensation = action

    def _once(self, what: str, present: object, function: object) -> None:
        if not callable(function):
            raise UsageError(f"`{what}` takes a function, and not a {type(function).__name__}.")
        if present is not None:
            raise UsageError(f"The action {self.name!r} has a {what} already.")

    def _collecting(self) -> RLock:
        if self._loaded is not None:
            raise UsageError(
                f"The action {self.name!r} is loaded already.", remedy="Decorate it before it is first proposed."
            )
        return _LOADING

    # --- loading ---

    def _load(self) -> tuple[Plan, ArgumentSchema]:
        from readback.bootstrap import predicate_engine
        from readback.contracts.compile import compile_contract

        with _LOADING:
            if self._loaded is not None:
                return self._loaded
            if self._loading:
                raise ContractFieldError(f"The compensation of {self.name!r} leads back to itself.")
            self._loading = True
            try:
                problems = Problems()
                schema = argument_schema(self.unverified, problems)
                parts = self._parts(schema, problems)
                plan = compile_contract(self._inherited(), parts, predicate_engine(), problems)
                self._loaded = (plan, schema.withholding(plan.contract.redact))
            finally:
                self._loading = False
            return self._loaded

    def _inherited(self) -> dict[str, object]:
        of = {} if self._inherits is None else self._inherits.options
        taken = ["target", "side_effect", "identity", *([] if self._readers else ["readers"])]
        return {key: of[key] for key in taken if key in of} | self.options

    def _parts(self, schema: ArgumentSchema, problems: Problems) -> Parts:
        readers = tuple(self._readers)
        if not readers and not self.options.get("readers") and self._inherits is not None:
            readers = tuple(self._inherits._readers)  # noqa: SLF001 - of its own kind
        compensation, reversing = self._compensation, None
        if compensation is not None:
            try:
                reversing = compensation.plan
            except ContractError as error:
                problems.add("compensate", error)
            theirs = tuple(inspect.signature(compensation.unverified).parameters)[1:]
            if theirs != schema.names:
                reason = f"It takes ({', '.join(theirs)}), and its action takes ({', '.join(schema.names)})."
                problems.add("compensate", ContractFieldError(reason))
        return Parts(
            execute=hand(self.unverified),
            arguments=schema,
            readers=readers,
            find=_hand("find", self._find, schema, problems),
            lookup=_hand("lookup", self._lookup, schema, problems),
            find_complete=self._find_complete,
            keyless=why_keyless(self.unverified),
            rollback=_hand("rollback", self._rollback, schema, problems),
            compensation=reversing,
            verifiers="" if self._verifiers is None else self._verifiers(),
        )

    def __repr__(self) -> str:
        return f"<action {self.name}>"


def _hand(what: str, function: Callable[..., object] | None, schema: ArgumentSchema, problems: Problems) -> Hand | None:
    if function is None:
        return None
    why = accepts(function, schema.names)
    if why:
        problems.add(what, ContractFieldError(why))
    return hand(function)


def _refuse_any_but_actions(what: str, given: object, remedy: str) -> None:
    if not isinstance(given, ActionDefinition):
        raise UsageError(f"`{what}` takes an action, and not a {type(given).__name__}.", remedy=remedy)


def _refuse_any_but_functions(given: object) -> None:
    again = isinstance(given, ActionDefinition)
    if callable(given) and not again:
        return
    what = "an action already" if again else f"a {type(given).__name__}"
    raise ContractFieldError(
        f"An action is made of a function whose first parameter is the context; this is {what}.",
        remedy="Decorate the function itself, once: a plain one, a static method or a bound method.",
    )


def action(
    *misplaced: Never,
    **options: Unpack[ActionOptions],
) -> Callable[[Callable[Concatenate[Context, P], object]], ActionDefinition[P]]:
    """Decorator: the function, sync or async, becomes an action with a contract of these keys.

    Its first parameter is the Context; the rest are the action's arguments. What it returns is evidence, not truth.
    """
    if misplaced:
        raise ContractFieldError(
            "The keys of a contract are given by name.", remedy="Write @action(kind=..., side_effect=..., ...)."
        )

    def make(function: Callable[Concatenate[Context, P], object]) -> ActionDefinition[P]:
        return ActionDefinition(function, options)

    return make
