"""A contract against the servers' real tools: the names, the inputs, and the outputs.

Called when a contract is compiled with known tools. Every fault is reported with the contract's key. A fact that needs
a call is not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from readback.canon import CanonError, Json
from readback.canon.frozen import dataclass
from readback.contracts.files.contract import FittedReader
from readback.contracts.files.schemas.sample_values import made_up, referred
from readback.contracts.files.system_options import Spec
from readback.contracts.files.templates.template import Values
from readback.contracts.files.tool_handlers import sent
from readback.contracts.files.tools.listing import Tool, Toolbox
from readback.contracts.files.tools.tool_schema import ToolArguments, unfit
from readback.contracts.functions.arguments import ArgumentSchema
from readback.contracts.problems import did_you_mean
from readback.domain.contract.contract import NOT_OFFERED, Contract, ReaderTerms
from readback.domain.predicate import Path
from readback.domain.side_effect import Consistency
from readback.engine.compiled_contract import Check, CompiledContract
from readback.errors import ContractError, TemplateError, WeakReaderError
from readback.ports.predicates import Predicate, PredicateEngine

# Whether a contract's readers can ever verify anything: a reading that is not strong counts when it is later than the

_STAMPED: Final = frozenset({"imap"})
"""Sources that search the stamp itself."""


def never_later(contract: Contract, readers: Sequence[FittedReader]) -> Iterator[tuple[str, ContractError]]:
    """Report readers unable to prove anything, where too few others remain, at the compiler's places."""
    if not contract.readers or not contract.depth.needs_after_evidence or not contract.kind.mutates:
        return
    identity = dict(contract.identity)
    if identity.get("stamp", NOT_OFFERED) != NOT_OFFERED:
        return
    numbered = identity.get("version", NOT_OFFERED) != NOT_OFFERED
    unable = {
        terms.name: reason
        for terms, each in zip(contract.readers, readers, strict=False)
        if (reason := _why(contract, terms, each, numbered=numbered))
    }
    if len(contract.readers) - len(unable) >= contract.quorum:
        return
    for name, reason in unable.items():
        yield f"readers.{name}", WeakReaderError(reason)


def _why(contract: Contract, terms: ReaderTerms, each: FittedReader, *, numbered: bool) -> str:
    """Return why this reader never verifies anything; "" where it may."""
    fixed = each.spec.fixed
    if terms.consistency is Consistency.STRONG or each.spec.kind in _STAMPED or fixed.get("stamp"):
        return ""
    if numbered or fixed.get("version"):
        if contract.needs_before:
            return ""
        said = "its version is compared with that of a reading before the action, and this contract takes none"
    else:
        said = "an ETag says that two readings differ, and not which of them is later"
    return (
        f"It is {terms.consistency.value}, and nothing that it shows can prove that a reading is later than the "
        f"action, so that nothing would ever be verified: {said}. Write `consistency: strong` where the source shows "
        "every write at once; else `version` where it numbers what it shows, or `stamp` (or `identity.stamp`) where it "
        "shows the attempt's stamp."
    )


Tell = Callable[[str, str], None]
"""Receives each fault: the contract's key, and the fault."""
_TEXT: Final[Mapping[str, Any]] = {
    "type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False,
}  # fmt: skip
_UNKNOWN: Final = object()


@dataclass(frozen=True, slots=True)
class ToolCheck:
    """Checks one contract."""

    arguments: ArgumentSchema
    arguments_known: bool
    execute: Spec | None
    readers: tuple[FittedReader, ...]
    searches: Mapping[str, Spec]
    engine: PredicateEngine
    toolbox: Toolbox
    tell: Tell

    def look(self, plan: CompiledContract | None) -> None:
        """Report every fault. `plan`: None for a contract with earlier faults."""
        acts = self._acts()
        for each in self.readers:
            if each.tool is not None:
                self._reads(each.spec, f"readers.{each.reader.name}")
        for use, spec in self.searches.items():
            if spec.kind == "tool":
                self._reads(spec, use)
        if plan is not None:
            self._expressions(plan, self._shapes(acts))

    # --- what acts, and what reads ---------------------------------------------------------------------------------

    def _acts(self) -> Tool | None:
        spec = self.execute
        if spec is None or spec.kind != "tool":
            return None
        tool = self._tool(spec, "execute")
        if tool is None:
            return None
        if "arguments" in spec.asked:
            self._given(spec, tool, "execute.tool.arguments")
        elif not isinstance(self.arguments, ToolArguments):
            self._names(tool, frozenset(self.arguments.names), "arguments")
        return tool

    def _reads(self, spec: Spec, key: str) -> None:
        tool = self._tool(spec, key)
        if tool is None:
            return
        if tool.hints.get("readOnlyHint") is False:
            self.tell(key, f"The tool {tool.name!r} declares that it writes. A reader must change nothing.")
        self._given(spec, tool, f"{key}.tool.arguments")

    def _tool(self, spec: Spec, key: str) -> Tool | None:
        server, name = str(spec.fixed.get("server", "")), str(spec.fixed["name"])
        names = self.toolbox.names(server)
        if names is None:
            return self.toolbox.tool(server, name)
        if name not in names:
            whose = f"The server {server!r}" if server else "The server"
            lacks = f"{whose} has no tool {name!r}.{did_you_mean(name, names)}"
            found = () if server else self.toolbox.having(name)
            several = f"Several servers have a tool {name!r} ({', '.join(map(repr, found))}). Select one with `server`."
            self.tell(key, several if len(found) > 1 else lacks)
        return self.toolbox.tool(server, name)

    def _given(self, spec: Spec, tool: Tool, key: str) -> None:
        """Check the templates with made-up arguments: the names, the missing ones, and the types."""
        try:
            given = sent(spec, self._values({"requested": made_up(self.arguments.schema)}))
        except (TemplateError, CanonError):
            return  # it takes a real call to know
        self._names(tool, frozenset(given), key)
        properties = tool.takes.get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        for where, said in unfit(tool.takes, given):
            name = where.partition(".")[0].partition("[")[0]
            if name in known and name in given and said.startswith("It takes ") and self._typed(spec, name):
                self.tell(key, f"{where}: {said}")

    def _typed(self, spec: Spec, name: str) -> bool:
        """Return whether every part of an argument has a known type."""
        mentioned = spec.names
        properties = self.arguments.schema.get("properties")
        shapes = properties if isinstance(properties, Mapping) else {}
        return all(_single(shapes.get(each), self.arguments.schema) for each in mentioned)

    def _names(self, tool: Tool, given: frozenset[str], key: str) -> None:
        properties, required = tool.takes.get("properties"), tool.takes.get("required")
        known = [str(name) for name in properties] if isinstance(properties, Mapping) else []
        if known and not tool.takes.get("additionalProperties"):
            for name in sorted(given - set(known)):
                self.tell(key, f"The tool {tool.name!r} takes no {name!r}.{did_you_mean(name, known)}")
        for name in required if isinstance(required, list) else []:
            if isinstance(name, str) and name not in given:
                self.tell(key, f"The tool {tool.name!r} needs {name!r}.")

    # --- expressions -----------------------------------------------------------------------------------------------

    def _shapes(self, acts: Tool | None) -> dict[str, Mapping[str, Any]]:
        """Return the known shapes of the expressions' roots."""
        known: dict[str, Mapping[str, Any]] = {}
        if self.arguments_known:
            takes = self.arguments.schema
            known |= {"requested": takes, "intended": takes}
        if acts is not None and acts.gives is not None:
            known["observed"] = {
                "type": "object",
                "properties": {
                    "content": {"type": "array"}, "isError": {"type": "boolean"}, "structuredContent": acts.gives,
                },
                "additionalProperties": True,
            }  # fmt: skip
        if len(self.readers) == 1:
            shape = self._shown(self.readers[0])
            known |= {} if shape is None else {"authoritative": shape, "before": shape}
        return known

    def _shown(self, reader: FittedReader) -> Mapping[str, Any] | None:
        """Return the shape of a reader's tool; None if the server gives none."""
        if reader.tool is None:
            return None
        fixed = reader.spec.fixed
        tool = self.toolbox.tool(str(fixed.get("server", "")), str(fixed["name"]))
        shape: object = _TEXT if fixed.get("shows") == "text" else None if tool is None else tool.gives
        if not isinstance(shape, Mapping):
            return None
        found = _at(shape, tuple(str(fixed.get("value", "")).split("/")[1:]))
        return found if isinstance(found, Mapping) and found is not _UNKNOWN else None

    def _expressions(self, plan: CompiledContract, shapes: Mapping[str, Mapping[str, Any]]) -> None:
        for key, predicate in _predicates(plan):
            sure = True
            for path in predicate.paths:
                shape = shapes.get(path.root)
                found = _UNKNOWN if shape is None else _at(shape, path.steps[1:])
                if isinstance(found, str):
                    self.tell(key, f"{path.text!r:.120} is not in the server's schema.{found}")
                    sure = False
                sure = sure and shape is not None and _single(found, shape)
            if sure:
                self._tried(key, predicate, shapes)

    def _tried(self, key: str, predicate: Predicate, shapes: Mapping[str, Mapping[str, Any]]) -> None:
        """Evaluate with made-up values of the right types: a type mismatch is the same for every value."""
        roots: dict[str, Json] = {root: made_up(shape) for root, shape in shapes.items()}
        found = predicate.evaluate(self.engine.bind(roots))
        if found.kind == "type":
            self.tell(key, f"The expression has no value with the types of the server's schema: {found.error}")

    def _values(self, roots: Mapping[str, Json]) -> Values:
        scope: dict[str, Json] = dict.fromkeys(_SCOPE, "x")
        return Values(self.engine, {"observed": None, "before": None, "scope": scope, **roots})


_SCOPE: Final = (
    "tenant", "principal", "operation", "action_id", "target", "stamp", "idempotency_key", "run", "trace", "reverses",
)  # fmt: skip


def paths_of(plan: CompiledContract) -> Iterator[Path]:
    """Return every path mentioned in the expressions of a contract."""
    for _, predicate in _predicates(plan):
        yield from predicate.paths


def _predicates(plan: CompiledContract) -> Iterator[tuple[str, Predicate]]:
    named: tuple[tuple[str, tuple[Check, ...]], ...] = (
        ("require", plan.require), ("ensure", plan.ensure), ("fails_when", plan.fails_when),
        ("intermediate", plan.intermediate),
    )  # fmt: skip
    for key, checks in named:
        for each in checks:
            if each.predicate is not None:
                yield f"{key}.{each.postcondition.name}", each.predicate
    for one in plan.identity:
        yield f"identity.{one.key}", one.predicate
    if plan.expected_version is not None:
        yield "expected_version", plan.expected_version


def _at(shape: Mapping[str, Any], steps: tuple[str | int, ...]) -> object:
    """Return the shape of a path: `_UNKNOWN` without a schema, a text for a path that the schema rules out."""
    here: object = referred(shape, shape)
    for step in steps:
        if not isinstance(here, Mapping):
            return _UNKNOWN
        if isinstance(step, int):
            here = referred(here.get("items", _UNKNOWN), shape)
            continue
        properties = here.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return _UNKNOWN
        if step not in properties:
            open_ = here.get("additionalProperties") or "patternProperties" in here
            return _UNKNOWN if open_ else did_you_mean(step, [str(each) for each in properties])
        here = referred(properties[step], shape)
    return here


def _single(shape: object, root: Mapping[str, Any]) -> bool:
    """Return whether a shape has one type for every value."""
    found = referred(shape, root)
    return isinstance(found, Mapping) and isinstance(found.get("type"), str) and found["type"] != "null"
