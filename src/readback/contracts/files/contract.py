"""One compiled contract of a file: the same options, parts, plan and compiler as for a decorator.

Called by `assembly`, which knows the other contracts. Faults are reported at their places in the file. No system is
reached: each source and executor gets a fitting for later runs and reader checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Protocol

from readback.canon import Json, json_value
from readback.canon.frozen import dataclass
from readback.contracts.examples import Example
from readback.contracts.files.document import Place, Written
from readback.contracts.files.system_options import Diagnostics, Spec, json_of
from readback.contracts.files.templates.template import ASKS_OBSERVED, CompiledTemplate, Values
from readback.contracts.files.tools.tool_schema import ToolArguments
from readback.contracts.functions.arguments import ArgumentSchema
from readback.contracts.functions.callables import Reader
from readback.contracts.functions.calling import Look
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.engine.compiled_contract import CompiledContract
from readback.errors import NotDispatchedError, TemplateError
from readback.ports.handlers import Glance, Handler
from readback.ports.predicates import PredicateEngine
from readback.ports.system_factory import ExecutorAdapter, ServerTerms, SourceAdapter

GATEWAY: Final = "the tool belongs to a server, and only a gateway in front of the server can call it"


@dataclass(frozen=True, slots=True)
class Home:
    """A contract's file. `server`: the server of the file's own tools; `servers`: other named servers."""

    file: str
    folder: str
    sha256: str
    version: str = ""
    server: ServerTerms | None = None
    servers: Mapping[str, ServerTerms] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """A contract as written in a file, with its name."""

    name: str
    home: Home
    node: Written
    place: Place
    findings: Diagnostics
    inside: str = ""
    """The place within another contract; "" for a separate contract."""
    takes: str = ""
    """The tool of the arguments, if the same as the enclosing contract's tool."""

    @property
    def path(self) -> str:
        return self.inside or f"contracts.{self.name}"


class Asked(Protocol):
    """A source called on an event loop, with the template values of a call."""

    async def read(self, ctx: Context, values: Values) -> Reading: ...


@dataclass(frozen=True, slots=True)
class FittedReader:
    """A reader with its origin: for running, and for a test of whether the reader can read.

    `fitting`: a built-in source; `tool`: a server's tool, called on an event loop. Exactly one is set.
    """

    reader: Reader
    spec: Spec
    fitting: SourceAdapter | None
    place: Place
    tool: Asked | None = None


@dataclass(frozen=True, slots=True)
class FileContract:
    """A compiled contract of a file. `uncallable`: why the contract cannot be called from here; "" if callable."""

    name: str
    home: Home
    place: Place
    plan: CompiledContract
    arguments: ArgumentSchema
    predicates: PredicateEngine
    readers: tuple[FittedReader, ...] = ()
    searches: Mapping[str, Spec] = field(default_factory=dict)
    """The searches under `find` and `lookup`, if any."""
    sought: Mapping[str, SourceAdapter | None] = field(default_factory=dict)
    """The built-in sources of the searches, for a test beforehand; None for a server's tool."""
    execute: Spec | None = None
    compensation: FileContract | None = None
    operation: CompiledTemplate | None = None
    twin: Mapping[str, object] = field(default_factory=dict)
    description: str = ""
    uncallable: str = ""
    arguments_known: bool = True
    """False where both the file and the server give no argument schema."""
    unsent: frozenset[str] = frozenset()
    """Arguments not sent to the tool where null only stands for a missing value."""
    tool: str = ""
    """The governed tool of the file's own server, under the server's name; "" for none."""
    tool_sha256: str = ""
    """The required hash of the tool's definition; "" without a pin."""
    raised: str = ""
    """The tool's own hint that raised the class, or dropped `honours_key`; "" for none."""
    examples: tuple[Example, ...] = ()
    """States with the verdict expected of each, in the order of the file."""
    survivors: Mapping[str, str] = field(default_factory=dict)
    """The reasons for mutants that may survive the examples, by the mutant's name or its beginning."""

    @property
    def left_to_server(self) -> tuple[str, ...]:
        """The places of schema keywords checked only by the server."""
        return self.arguments.left if isinstance(self.arguments, ToolArguments) else ()

    @property
    def looks(self) -> tuple[Spec, ...]:
        """Every source of the contract."""
        return (*(each.spec for each in self.readers), *self.searches.values())

    def load(self) -> CompiledContract:
        """Return the plan, compiled together with the file."""
        return self.plan

    def operation_for(self, requested: Mapping[str, Json]) -> str:
        """Return the contract's rendered `operation`; "" for none. Raises TemplateError."""
        if self.operation is None:
            return ""
        named = self.operation.text(Values(self.predicates, {"requested": dict(requested)}))
        if not named.strip():  # it would be another operation each time
            raise TemplateError(f"{self.operation.source!r:.80} has no value here.")
        return named

    def as_json(self) -> dict[str, Json]:
        """Return the executor and readers without credentials: a reference stands for itself."""
        read: list[Json] = [json_of(each.spec) for each in self.readers]
        return {
            "file": self.home.file,
            "line": self.place.line,
            "sha256": self.home.sha256,
            "description": self.description,
            "takes": self.arguments.schema,
            "acts_with": json_of(self.execute),
            "reads_with": read,
            "searches_with": {use: json_of(spec) for use, spec in self.searches.items()},
            "operation": self.operation.source if self.operation is not None else "",
            "reversed_by": self.compensation.name if self.compensation is not None else "",
            "twin": json_value(dict(self.twin)),
            "uncallable": self.uncallable,
            "tool": self.tool,
            "tool_sha256": self.tool_sha256,
            "raised_by": self.raised,
            "checked_by_the_server_alone": [*self.left_to_server],
        }


# --- hands ---------------------------------------------------------------------------------------------------------


def values_of(engine: PredicateEngine, ctx: Context, arguments: Mapping[str, object]) -> Values:
    """Return the template values of one call."""
    roots: dict[str, Json] = {
        "requested": json_value(dict(arguments)),
        "observed": ctx.observed,
        "before": ctx.before,
        "scope": {
            "tenant": ctx.tenant,
            "principal": ctx.principal,
            "operation": ctx.operation,
            "action_id": ctx.action_id,
            "target": ctx.target,
            "stamp": ctx.stamp,
            "idempotency_key": ctx.idempotency_key,
            "attempt": ctx.attempt,
            "run": ctx.run,
            "trace": ctx.trace,
            "reverses": ctx.reverses,
        },
    }
    return Values(engine, roots)


def acting(name: str, spec: Spec, fitting: ExecutorAdapter, engine: PredicateEngine) -> Handler:
    """Return the acting handler. A call that fails to render was certainly not sent."""

    def call(ctx: Context, arguments: Mapping[str, object]) -> object:
        try:
            given = spec.given(values_of(engine, ctx, arguments))
        except TemplateError as error:
            raise NotDispatchedError(f"{name!r} was not called: {error.message}") from error
        return fitting.execute(ctx, given)

    return Handler(name, call, place=fitting.place)


def uncalled(name: str) -> Handler:
    """Return a handler for a tool that only a gateway can call."""

    def call(ctx: Context, arguments: Mapping[str, object]) -> object:
        raise NotDispatchedError(f"{name!r} was not called: {GATEWAY}.")

    return Handler(name, call)


UNNAMED: Final = "There is no answer of the tool that would name what to look at."


def looking(spec: Spec, fitting: SourceAdapter, engine: PredicateEngine, use: str) -> Look:
    """Return a source's reading function. `use`: read, find or lookup."""
    ask: Mapping[str, Any] = {"read": fitting.read, "find": fitting.find, "lookup": fitting.lookup}

    def look(ctx: Context, arguments: Mapping[str, object]) -> object:
        try:
            given = spec.given(values_of(engine, ctx, arguments))
        except TemplateError as error:
            if use == "read" and ctx.observed is None and error.details.get(ASKS_OBSERVED):
                return Reading.not_visible(UNNAMED)
            raise
        return ask[use](ctx, given)

    return look


def glancing(spec: Spec, fitting: SourceAdapter, engine: PredicateEngine) -> Glance:
    """Return the reading function of `looking` for an event loop."""

    def glance(ctx: Context, arguments: Mapping[str, object]) -> Reading | None:
        return fitting.glance(ctx, lambda: spec.given(values_of(engine, ctx, arguments)))

    return glance
