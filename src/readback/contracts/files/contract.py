"""One contract of a file, compiled: the same options, parts and plan that a decorator leads to, by the same compiler.

Called by `assembly`, which knows the other contracts. Faults go where they stand in the file. Nothing is reached: a
fitting is made for each source and executor, and is used when an action runs or a reader is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Protocol

from readback.canon import Json, json_value
from readback.canon.frozen import dataclass
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

GATEWAY: Final = "it is a tool of a server, and is called through a gateway in front of that server"


@dataclass(frozen=True, slots=True)
class Home:
    """A contract's file. `server`: the one that its tools belong to; `servers`: others that are named."""

    file: str
    folder: str
    sha256: str
    version: str = ""
    server: ServerTerms | None = None
    servers: Mapping[str, ServerTerms] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """A contract as it stands in its file, under its name."""

    name: str
    home: Home
    node: Written
    place: Place
    findings: Diagnostics
    inside: str = ""
    """Where it stands within another contract; "" for one of its own."""
    takes: str = ""
    """The tool whose arguments it takes, where that is the one of the contract that it stands in."""

    @property
    def path(self) -> str:
        return self.inside or f"contracts.{self.name}"


class Asked(Protocol):
    """A source that is asked on an event loop, with what its templates know of a call."""

    async def read(self, ctx: Context, values: Values) -> Reading: ...


@dataclass(frozen=True, slots=True)
class FittedReader:
    """A reader with what it was made of: for running, and for finding out beforehand whether it can read.

    `fitting`: a built-in source; `tool`: a server's tool, which is asked on an event loop. One of them is there.
    """

    reader: Reader
    spec: Spec
    fitting: SourceAdapter | None
    place: Place
    tool: Asked | None = None


@dataclass(frozen=True, slots=True)
class FileContract:
    """A contract of a file, compiled. `uncallable`: why it cannot be called from here; "" where it can."""

    name: str
    home: Home
    place: Place
    plan: CompiledContract
    arguments: ArgumentSchema
    predicates: PredicateEngine
    readers: tuple[FittedReader, ...] = ()
    searches: Mapping[str, Spec] = field(default_factory=dict)
    """What stands under `find` and `lookup`, as far as they are there."""
    sought: Mapping[str, SourceAdapter | None] = field(default_factory=dict)
    """Their built-in sources, for finding out beforehand whether they can be asked; None for a server's tool."""
    execute: Spec | None = None
    compensation: FileContract | None = None
    operation: CompiledTemplate | None = None
    twin: Mapping[str, object] = field(default_factory=dict)
    description: str = ""
    uncallable: str = ""
    arguments_known: bool = True
    """False where the file gives no argument schema, and the server's is not known either."""
    unsent: frozenset[str] = frozenset()
    """Arguments that its tool is not sent where they were not given; null cannot be said by them."""
    tool: str = ""
    """The tool that the contract governs: of the file's own server, under its own name; "" for none."""
    tool_sha256: str = ""
    """What the tool's definition has to hash to; "" where the file pins none."""
    raised: str = ""
    """The tool's own hint that raised the class, or dropped `honours_key`; "" for none."""

    @property
    def left_to_server(self) -> tuple[str, ...]:
        """Where the tool's schema has keywords that nobody checks before its server does."""
        return self.arguments.left if isinstance(self.arguments, ToolArguments) else ()

    @property
    def looks(self) -> tuple[Spec, ...]:
        """Every source that it asks."""
        return (*(each.spec for each in self.readers), *self.searches.values())

    def load(self) -> CompiledContract:
        """The plan; it was compiled with the file."""
        return self.plan

    def operation_for(self, requested: Mapping[str, Json]) -> str:
        """What the contract's `operation` comes to; "" where it has none. Raises TemplateError."""
        if self.operation is None:
            return ""
        named = self.operation.text(Values(self.predicates, {"requested": dict(requested)}))
        if not named.strip():  # it would be another operation each time
            raise TemplateError(f"{self.operation.source!r:.80} comes to nothing here.")
        return named

    def as_json(self) -> dict[str, Json]:
        """What it acts with and reads, without credentials: a reference stands for itself."""
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
    """What templates know of one call."""
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
    """The tool. What cannot be rendered was not sent, and that is certain."""

    def call(ctx: Context, arguments: Mapping[str, object]) -> object:
        try:
            given = spec.given(values_of(engine, ctx, arguments))
        except TemplateError as error:
            raise NotDispatchedError(f"{name!r} was not called: {error.message}") from error
        return fitting.execute(ctx, given)

    return Handler(name, call, place=fitting.place)


def uncalled(name: str) -> Handler:
    """A tool that only a gateway can call."""

    def call(ctx: Context, arguments: Mapping[str, object]) -> object:
        raise NotDispatchedError(f"{name!r} was not called: {GATEWAY}.")

    return Handler(name, call)


UNNAMED: Final = "There is no answer of the tool that would name what to look at."


def looking(spec: Spec, fitting: SourceAdapter, engine: PredicateEngine, use: str) -> Look:
    """`use`: read, find or lookup."""
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
    """What `looking` reads, for an event loop."""

    def glance(ctx: Context, arguments: Mapping[str, object]) -> Reading | None:
        return fitting.glance(ctx, lambda: spec.given(values_of(engine, ctx, arguments)))

    return glance
