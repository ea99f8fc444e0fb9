"""A function that returns the steps of a saga, as one tool for a model.

The parameters of the function are the tool's arguments. Decorating only collects; a call proposes the steps.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, overload

from readback.canon import Json
from readback.client.proposal import Definition
from readback.client.step import SagaStep
from readback.contracts.assumed import named_target
from readback.contracts.functions.arguments import ArgumentSchema
from readback.contracts.functions.callables import argument_schema
from readback.contracts.problems import Problems
from readback.contracts.templates import Template, compile_template
from readback.errors import SagaError, TemplateError, UsageError

STEPS_MAX: Final = 64


class ProposedSaga(NamedTuple):
    """The steps of one call, the requested arguments as JSON, and the saga's own operation ("" for none)."""

    steps: list[SagaStep]
    requested: dict[str, Json]
    operation: str


class SagaDefinition:
    """A saga as a tool, made by `saga`. Calling the definition returns the steps; nothing happens yet.

    Example:
        >>> from readback import verified
        >>> from readback.kit import Kit, saga
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> @saga(actions=[switch])
        ... def evening(): return [switch().as_step("light")]
        >>> with Kit.open("memory:", actions=[evening]) as kit:
        ...     kit.tool("evening").run({}).status
        'verified'
    """

    def __init__(
        self, function: Callable[..., Iterable[SagaStep]], name: str, operation: str, actions: Iterable[Definition]
    ) -> None:
        if not callable(function):
            raise UsageError(f"`saga` takes a function, not a {type(function).__name__}.")
        self.name = name or function.__name__
        self.description = inspect.cleandoc(function.__doc__ or "")
        self.actions = tuple(actions)
        """The actions of the steps, so that a saga can be resumed after a restart."""
        problems = Problems(where=self.name)
        self.arguments: ArgumentSchema = argument_schema(function, problems)
        self._operation = self._named(operation, problems)
        self.__doc__ = function.__doc__
        self._function = function
        if problems.found:
            said = "; ".join(f"{key}: {error.message}" for key, error in problems.found)
            raise UsageError(f"The saga {self.name!r} cannot be a tool. {said}", remedy="Correct the named parts.")

    def _named(self, operation: str, problems: Problems) -> Template | None:
        if not operation:
            return None
        try:
            named = str(named_target(operation, self.arguments.names))
            return compile_template(named, arguments=self.arguments.names)
        except TemplateError as error:
            problems.add("operation", error)
            return None

    @property
    def names_operations(self) -> bool:
        """Whether the definition names its operations itself."""
        return self._operation is not None

    def __call__(self, **arguments: object) -> list[SagaStep]:
        """Return the steps of a call. Raises ArgumentError, OversizeError, and the function's own errors."""
        return self.propose(arguments).steps

    def propose(self, arguments: Mapping[str, object]) -> ProposedSaga:
        """Bind the arguments, and ask the function for the steps. Raises ArgumentError, OversizeError, SagaError."""
        bound, requested = self.arguments.bind((), arguments)
        found: Any = self._function(**bound)
        steps = [*found] if isinstance(found, Iterable) else []
        if not steps or len(steps) > STEPS_MAX or not all(isinstance(each, SagaStep) for each in steps):
            raise SagaError(
                f"The saga {self.name!r} must return 1 to {STEPS_MAX} steps.",
                remedy="Return a list of proposals, each with `.as_step(name)`.",
            )
        named = "" if self._operation is None else self._operation({"requested": dict(requested)})
        return ProposedSaga(steps, requested, named)

    def __repr__(self) -> str:
        return f"<saga {self.name}>"


Steps = Callable[..., Iterable[SagaStep]]


@overload
def saga(function: Steps, /) -> SagaDefinition: ...


@overload
def saga(
    *, name: str = "", operation: str = "", actions: Iterable[Definition] = ()
) -> Callable[[Steps], SagaDefinition]: ...


def saga(
    *function: Steps, name: str = "", operation: str = "", actions: Iterable[Definition] = ()
) -> SagaDefinition | Callable[[Steps], SagaDefinition]:
    """Make a tool of a function that returns the steps of a saga.

    Args:
        function: The function. Left out, `saga(...)` is a decorator.
        name: The tool's name; the function's own where left out.
        operation: A template for the operation, such as "move {sku}". One operation never acts twice.
        actions: The actions of the steps, so that the saga can be resumed after a restart.

    Raises:
        UsageError: a parameter without a schema, or an operation that names no argument.

    Example:
        >>> from readback import verified
        >>> from readback.kit import Kit, saga
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> @saga(actions=[switch])
        ... def light_up():
        ...     return [switch().as_step("on", pivot=True)]
        >>> with Kit.open("memory:", actions=[light_up]) as kit:
        ...     kit.tool("light_up").run({}).status
        'verified'
    """

    def make(given: Steps) -> SagaDefinition:
        return SagaDefinition(given, name, operation, actions)

    return make(*function) if function else make
