"""The decorator that makes a function into an action, and the parts declared by the action's author.

Used by authors of contracts. Decorating only collects: nothing is compiled, and neither the expression engine nor
pydantic is imported, until the first proposal or `load()`. Nothing here runs an action; only `Readback.run` does.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from threading import RLock
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Never,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    overload,
)

from readback.canon import Json
from readback.client.authoring.contract_keys import (
    ActionOptions,
    CompensationOptions,
    ConsistencyName,
    Duration,
    IndependenceName,
    signature_of_action,
    ungrouped,
)
from readback.client.authoring.decorating import (
    built_hand,
    place_of,
    refuse_any_but,
    refuse_any_but_functions,
    refuse_foreign_stamps,
    refuse_unknown_terms,
    target_of,
)
from readback.client.proposal import Proposal
from readback.client.raised import watched_reader, watched_tool
from readback.contracts.assumed import Assumed, named_target, with_defaults
from readback.contracts.functions.arguments import ArgumentSchema
from readback.contracts.functions.callables import (
    ContractParts,
    Reader,
    argument_names,
    argument_schema,
    hand,
    reader_of,
)
from readback.contracts.functions.key_use import why_keyless
from readback.contracts.problems import Problems
from readback.contracts.sandbox_actions import SafeTarget
from readback.contracts.templates import Template, compile_template
from readback.domain.context import Context
from readback.domain.contract.contract import Contract
from readback.domain.side_effect import Consistency, Independence
from readback.domain.verification.reading import Lookup, Reading
from readback.engine.compiled_contract import CompiledContract
from readback.errors import ContractError, ContractFieldError, TemplateError, UsageError

if TYPE_CHECKING:
    from readback.client.authoring.evaluation import Evaluated

_LOADING = RLock()
"""One lock for all actions: loading an action loads its compensation, and two locks in two orders would deadlock."""

P = ParamSpec("P")
ReadResult = TypeVar("ReadResult", bound="Reading | Awaitable[Reading]")
FindResult = TypeVar("FindResult", bound="Sequence[object] | Awaitable[Sequence[object]]")
LookupResult = TypeVar("LookupResult", bound="Lookup | Awaitable[Lookup]")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., object])


class ActionDefinition(Generic[P]):
    """A decorated function: the contract's keys and handlers. Calling the definition proposes; nothing happens yet.

    Immutable after loading, and from then on safe to share between threads.
    """

    def __init__(
        self,
        function: Callable[..., object],
        options: Mapping[str, object],
        *,
        verifiers: Callable[[], str] | None = None,
        short: bool = False,
        named_by: tuple[str, ...] = (),
    ) -> None:
        refuse_any_but_functions(function, again=isinstance(function, ActionDefinition))
        self._verifiers = verifiers
        self._short, self._named_by = short, named_by
        self.unverified = function
        """The bare function: a call acts, and nothing is recorded or verified."""
        self.options = ungrouped(options)
        self.options.setdefault("name", getattr(function, "__name__", ""))
        self._readers: list[Reader] = []
        self._find: Callable[..., object] | None = None
        self._find_complete = False
        self._lookup: Callable[..., object] | None = None
        self._rollback: Callable[..., object] | None = None
        self._compensation: ActionDefinition[P] | None = None
        self._twin: SafeTarget | None = None
        self._inherits: ActionDefinition[P] | None = None
        self._loaded: tuple[CompiledContract, ArgumentSchema] | None = None
        self._operation: Template | None = None
        self._loading = False
        self.__name__ = getattr(function, "__name__", "action")
        self.__qualname__ = getattr(function, "__qualname__", "action")
        self.__module__ = getattr(function, "__module__", "")
        self.__doc__ = function.__doc__

    # --- proposing ---

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Proposal:
        """Propose. Raises ArgumentError, OversizeError; ContractError where the contract cannot be loaded."""
        loaded = self._loaded or self._load()
        arguments, requested = loaded[1].bind(args, kwargs)
        operation = self._operation_of(requested) if self._operation is not None else ""
        caller = sys._getframe(1)  # noqa: SLF001 - for the warning
        return Proposal(self, arguments, requested, proposed_in=caller, operation=operation)

    def _operation_of(self, requested: Mapping[str, Json]) -> str:
        assert self._operation is not None
        return self._operation({"requested": dict(requested)})

    @property
    def name(self) -> str:
        """The contract's name."""
        return str(self.options["name"])

    @property
    def description(self) -> str:
        """The docstring of the function, for a model's list of tools; "" without a docstring."""
        return inspect.cleandoc(self.__doc__ or "")

    @property
    def plan(self) -> CompiledContract:
        """The compiled contract with its handlers. Compiles at first use; raises ContractError."""
        return (self._loaded or self._load())[0]

    @property
    def contract(self) -> Contract:
        """The contract's data."""
        return self.plan.contract

    @property
    def arguments(self) -> ArgumentSchema:
        """The argument schema."""
        return (self._loaded or self._load())[1]

    @property
    def compensation(self) -> ActionDefinition[P] | None:
        """The action that reverses this one."""
        return self._compensation

    @property
    def declared_twin(self) -> SafeTarget | None:
        """The safe target for drills."""
        return self._twin

    def load(self) -> CompiledContract:
        """Compile and check everything that needs no data. Raises ContractError with all faults."""
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
        """Evaluate given states, for unit tests. A state is JSON, or a Reading; null is an absent object.

        Example:
            >>> from readback import action
            >>> @action("order/{order_id}", ensure="authoritative.status == 'shipped'")
            ... def ship_order(order_id: str) -> None: ...
            >>> @ship_order.read(strong=True)
            ... def order(order_id: str) -> dict[str, str] | None: ...
            >>> ship_order.evaluate(requested={"order_id": "o-17"}, authoritative={"status": "open"}).verdict.value
            'refuted'
        """
        from readback.client.authoring.evaluation import judge

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

    @overload
    def read(self, function: Function, /) -> Function: ...

    @overload
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
    ) -> Callable[[Callable[Concatenate[Context, P], ReadResult]], Callable[Concatenate[Context, P], ReadResult]]: ...

    @overload
    def read(
        self,
        *,
        strong: bool = False,
        source: str = "",
        timeout: Duration | None = None,
        attributes: bool = False,
        whole_region: bool = False,
        name: str = "",
    ) -> Callable[[Function], Function]: ...

    def read(self, *function: Any, **terms: Any) -> Any:
        """Declare the reader: a function for the system of record, with any subset of the action's arguments.

        A reader returns a mapping, a dataclass, a pydantic model, a row with column names, None (absent) or a Reading.
        A bare `@ship.read` declares nothing: its readings inform and verify nothing.

        Args:
            function: The reader. Left out, `read(...)` is a decorator.
            strong: Declares that the reader reads the system of record itself, past caches, by another path than the
                action.
            consistency, independence: Declare both properties in words.
            attributes: Readings name the author of the state, by `stamp=`.
            whole_region: A reading shows everything that a call may change.
            timeout: The time limit of one reading (default 10 s).

        Example:
            >>> from readback import action
            >>> @action("order/{order_id}", ensure="authoritative.status == 'shipped'")
            ... def ship_order(order_id: str) -> None: ...
            >>> @ship_order.read(strong=True)
            ... def order(order_id: str) -> dict[str, str] | None:
            ...     return {"status": "shipped"}
            >>> ship_order.contract.readers[0].consistency.value
            'strong'
        """

        def add(given: Callable[..., object]) -> Callable[..., object]:
            self._once("read", None, given)
            made = reader_of(given, **terms)
            with self._collecting():
                self._readers.append(made)
            return given

        refuse_unknown_terms(terms)
        return add(*function) if function else add

    @overload
    def find(
        self, function: Callable[Concatenate[Context, P], FindResult], /
    ) -> Callable[Concatenate[Context, P], FindResult]: ...

    @overload
    def find(
        self, *, complete: bool = False
    ) -> Callable[[Callable[Concatenate[Context, P], FindResult]], Callable[Concatenate[Context, P], FindResult]]: ...

    def find(self, *function: Any, complete: bool = False) -> Any:
        """Declare the search: a function that lists every effect with the context's stamp, as readings.

        `complete`: the search covers every place writable by the tool, and returns every page. An empty list means
        absence only for a complete search, and only after the search has found an effect of this contract by stamp.
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
        """Declare the look-up: a function that returns the fate of an attempt by idempotency key, as a Lookup."""
        with self._collecting():
            self._once("lookup", self._lookup, function)
            self._lookup = function
        return function

    def rollback(
        self, function: Callable[Concatenate[Context, P], Result]
    ) -> Callable[Concatenate[Context, P], Result]:
        """Declare the rollback of a local boundary. Called at most once an attempt, and verified by reading."""
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
        """Declare the reversing action, with the same parameters and a contract of its own.

        `ship.compensate(unship)` names an existing action. `@ship.compensate(kind=..., ensure=...)` makes an action of
        the function below. The new action inherits target, class, identity and readers where the decorator names none.
        """
        if action:
            if len(action) > 1 or options:
                raise UsageError("`compensate` takes one action, or the keys of a contract.")
            self._compensates(action[0])
            return action[0]

        def make(function: Callable[Concatenate[Context, P], object]) -> ActionDefinition[P]:
            made: ActionDefinition[P] = ActionDefinition(function, options, short=self._short)
            made._inherits = self
            self._compensates(made)
            return made

        return make

    def twin(self, *action: ActionDefinition[P], **fixed: object) -> None:
        """Declare a safe target for drills; a drill runs nothing else.

        `charge.twin(charge_in_sandbox)` names another action of the same code, made by the same function for another
        target. `charge.twin(account="sandbox")` fixes arguments that always mean a safe target. Every argument of the
        contract's target must be fixed.
        """
        if len(action) > 1 or bool(action) is bool(fixed):
            raise UsageError("`twin` takes one action, or the arguments that make this one safe.")
        if self._twin is not None:
            raise UsageError(f"The action {self.name!r} already has a twin.")
        if action:
            refuse_any_but(ActionDefinition, "twin", action[0], "Pass an action, or fix arguments by name.")
        self._twin = SafeTarget(action[0] if action else None, fixed)

    def _compensates(self, action: ActionDefinition[P]) -> None:
        refuse_any_but(
            ActionDefinition, "compensate", action, "Pass an action, or write @name.compensate(kind=..., ensure=...)."
        )
        if action is self:
            raise UsageError(f"The action {self.name!r} cannot compensate itself.")
        with self._collecting():
            self._once("compensate", self._compensation, action)
            if not action.options.get("target") and action._inherits is None and action._loaded is None:
                action._inherits, action._short = self, action._short or self._short
            self._compensation = action

    def _once(self, what: str, present: object, function: object) -> None:
        if not callable(function):
            raise UsageError(f"`{what}` takes a function, not a {type(function).__name__}.")
        if present is not None:
            raise UsageError(f"The action {self.name!r} already has a {what}.")

    def _collecting(self) -> RLock:
        if self._loaded is not None:
            raise UsageError(
                f"The action {self.name!r} is already loaded.", remedy="Decorate the action before its first proposal."
            )
        return _LOADING

    # --- loading ---

    def _load(self) -> tuple[CompiledContract, ArgumentSchema]:
        from readback.bootstrap import predicate_engine
        from readback.contracts.compile import compile_contract

        with _LOADING:
            if self._loaded is not None:
                return self._loaded
            if self._loading:
                raise ContractFieldError(f"The compensation of {self.name!r} is circular.")
            self._loading = True
            try:
                problems = Problems(where=place_of(self.unverified))
                schema = self._schema(problems)
                options = self._defaulted(schema, problems)
                parts = self._parts(schema, options.lines, problems)
                plan = compile_contract(options.options, parts, predicate_engine(), problems)
                self._loaded = (plan, schema.withholding(plan.contract.redact))
            finally:
                self._loading = False
            return self._loaded

    def _schema(self, problems: Problems) -> ArgumentSchema:
        """Return the argument schema. A compensation with fewer parameters is proposed with all of its action's
        arguments.
        """
        own = argument_schema(self.unverified, problems)
        if self._inherits is None or problems.found:
            return own
        whole = argument_schema(self._inherits.unverified, Problems())
        return whole if own.names != whole.names and set(own.names) <= set(whole.names) else own

    def _defaulted(self, schema: ArgumentSchema, problems: Problems) -> Assumed:
        """Return the keys with a short contract's defaults. The operation is a key of the decorator alone."""
        made = with_defaults(self._inherited(), schema.names, self.__name__, problems, short=self._short)
        options = dict(made.options)
        operation = options.pop("operation", None)
        if operation is None:
            return Assumed(options, made.lines)
        named = named_target(operation, schema.names)
        try:
            if not isinstance(named, str):
                raise TemplateError(f"Must be text (got {operation!r:.40}).")
            self._operation = compile_template(named, arguments=schema.names)
            if not any(path[0] == "requested" for path in self._operation.paths):
                raise TemplateError("Every call would have the same operation. Name an argument, as in '{order_id}'.")
        except TemplateError as error:
            problems.add("operation", error)
        return Assumed(options, made.lines)

    def _inherited(self) -> dict[str, object]:
        if self._inherits is None:
            return self._with_target()
        of = self._inherits._with_target()  # noqa: SLF001 - of its own kind
        taken = ["target", "side_effect", "identity", *([] if self._readers else ["readers"])]
        return {key: of[key] for key in taken if key in of} | self.options

    def _with_target(self) -> dict[str, object]:
        """Return the action's own keys. A short contract without a target has the target of its reader."""
        if "target" in self.options or not (self._short or self.options.get("side_effect") is None):
            return self.options
        named: Any = self.options.get("readers", ())
        readers = [*self._readers, *(each for each in named if isinstance(each, Reader))]
        return {**self.options, "target": target_of(self.unverified, readers, self._named_by)}

    def _parts(self, schema: ArgumentSchema, assumed: tuple[str, ...], problems: Problems) -> ContractParts:
        readers = tuple(self._readers)
        if not readers and not self.options.get("readers") and self._inherits is not None:
            readers = tuple(self._inherits._readers)  # noqa: SLF001 - of its own kind
            refuse_foreign_stamps(self.name, readers, problems)
        compensation, reversing = self._compensation, None
        if compensation is not None:
            try:
                reversing = compensation.plan
            except ContractError as error:
                problems.add("compensate", error)
            theirs = argument_names(compensation.unverified)
            mismatch = compensation._inherits is not self or not set(theirs) <= set(schema.names)  # noqa: SLF001
            if theirs != schema.names and mismatch:
                reason = f"The parameters ({', '.join(theirs)}) differ from the action's ({', '.join(schema.names)})."
                problems.add("compensate", ContractFieldError(reason))
        return ContractParts(
            execute=hand(self.unverified, watched_tool),
            arguments=schema,
            readers=tuple(map(watched_reader, readers)),
            find=built_hand("find", self._find, schema, problems),
            lookup=built_hand("lookup", self._lookup, schema, problems),
            find_complete=self._find_complete,
            keyless=why_keyless(self.unverified),
            rollback=built_hand("rollback", self._rollback, schema, problems),
            compensation=reversing,
            assumed=assumed,
            verifiers="" if self._verifiers is None else self._verifiers(),
        )

    def __repr__(self) -> str:
        return f"<action {self.name}>"


class ActionDecorator(Protocol):
    """Makes an action of a function, with or without a Context as its first parameter."""

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], object], /) -> ActionDefinition[P]: ...

    @overload
    def __call__(self, function: Callable[P, object], /) -> ActionDefinition[P]: ...


def action(about: str = "", /, *misplaced: Never, **options: Unpack[ActionOptions]) -> ActionDecorator:
    """Make an action of a sync or async function, with a contract of these keys.

    The first argument is the target in short form, `"order/{order_id}"`. The function receives the Context where a
    parameter is annotated with `Context`; the other parameters are the action's arguments. The function's return value
    is evidence, not truth. Defaults: `kind` is "set" with `on_unchanged="refuse"`, `side_effect` is
    "low_risk_internal", and identity comes from the record. `readback contracts check` lists every assumption.

    Raises:
        ContractFieldError: keys are given by position, or a key is given twice.

    Example:
        >>> from readback import action
        >>> @action("order/{order_id}", ensure="authoritative.status == 'shipped'")
        ... def ship_order(order_id: str) -> None: ...
        >>> ship_order
        <action ship_order>
    """
    if callable(about):
        raise ContractFieldError("`@action` needs a contract.", remedy=_ACTION_REMEDY)
    if misplaced or not isinstance(about, str):
        raise ContractFieldError("Pass the keys of a contract by name.", remedy=_ACTION_REMEDY)
    given: dict[str, object] = dict(options)
    if about and "target" in given:
        raise ContractFieldError(
            "The target is given twice: as first argument and as target=. Keep one.", remedy="Write it once."
        )
    if about:
        given["target"] = about

    def make(function: Callable[..., object]) -> ActionDefinition[Any]:
        return ActionDefinition(function, given, short=bool(about))

    return make


_COMPENSATE_REMEDY = "Pass an action, or write @name.compensate(kind=..., ensure=...)."
_ACTION_REMEDY = 'Write @action("order/{order_id}", ensure="authoritative.status == \'shipped\'").'
action.__signature__ = signature_of_action("ActionDecorator")  # type: ignore[attr-defined]
