"""Builds one contract from its keys in a file: some keys go to the compiler unchanged, others become handlers.

Called by `assembly`. Each key means the same as the decorator's keyword.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

from readback.canon import CanonError, Json, json_value
from readback.contracts.compile import compile_contract
from readback.contracts.conditions_compiler import fields_of
from readback.contracts.examples import Example
from readback.contracts.files.checks.tool_check import ToolCheck, never_later, paths_of
from readback.contracts.files.contract import (
    GATEWAY,
    Entry,
    FileContract,
    FittedReader,
    acting,
    uncalled,
)
from readback.contracts.files.document import Fault, Place, Written
from readback.contracts.files.examples import read_examples, read_survivors
from readback.contracts.files.readers import NOTHING, TOOL, ReaderMaker, Search, server_known, span, tool_fitting
from readback.contracts.files.schemas.json_schema import arguments_named, arguments_of
from readback.contracts.files.system_options import Spec, SpecReader, joined
from readback.contracts.files.templates.template import CompiledTemplate, Values, compile_fill
from readback.contracts.files.tool_handlers import tool_hand
from readback.contracts.files.tools.listing import Toolbox, drops_key, raised_class
from readback.contracts.files.tools.tool_schema import ToolArguments
from readback.contracts.files.vocabulary import EXECUTOR, OWN_KEYS
from readback.contracts.functions.arguments import ArgumentSchema
from readback.contracts.functions.callables import ContractParts
from readback.contracts.options import EXECUTE_KEYS, OPTION_KEYS
from readback.contracts.problems import Problems, did_you_mean
from readback.contracts.templates import compile_template
from readback.contracts.verification_levels import covered, hidden_under
from readback.domain.predicate import Path
from readback.domain.side_effect import SideEffect, depth
from readback.engine.compiled_contract import CompiledContract
from readback.errors import ArgumentError, ContractError, ContractFieldError, ExpressionError, TemplateError
from readback.ports.handlers import Handler
from readback.ports.predicates import PredicateEngine
from readback.ports.system_factory import ExecutorAdapter, SystemFactory

# What a compensation that takes other arguments is given: templates over what was asked and what was read back.

REVERSAL_ROOTS: Final = ("requested", "before", "authoritative", "scope")
Reversing = Callable[[Mapping[str, Json]], tuple[Mapping[str, object], Mapping[str, Json]]]


def reversal_of(specs: SpecReader, node: Written, path: str, compensation: FileContract) -> Reversing | None:
    """Return the function for the compensating contract's arguments; None, with faults, for unsound ones."""
    try:
        render, names = specs.values(node, path)
    except ContractError as error:
        specs.findings.add(node, path, error)
        return None
    before = len(specs.findings.faults)
    if compensation.arguments_known:
        takes = compensation.arguments
        for name in names:
            if name not in takes.names:
                said = f"{compensation.name!r} has no argument {name!r}.{did_you_mean(name, takes.names)}"
                specs.findings.add((node.mapping or {})[name], joined(path, name), said)
        for each in takes.parameters:
            if each.required and each.name not in names:
                specs.findings.add(node, path, f"{compensation.name!r} needs {each.name!r}.")
    if len(specs.findings.faults) > before:
        return None

    def made(variables: Mapping[str, Json]) -> tuple[Mapping[str, object], Mapping[str, Json]]:
        values = Values(specs.engine, {root: variables.get(root) for root in REVERSAL_ROOTS})
        try:
            rendered = json_value(render(values))
        except (TemplateError, CanonError) as error:
            raise ArgumentError(
                f"The arguments of {compensation.name!r} cannot be rendered: {error.message}"
            ) from error
        assert isinstance(rendered, dict)
        bound = compensation.arguments.bind((), rendered)
        return bound.arguments, bound.requested

    return made


CONTRACT_KEYS: Final = (*(key for key in OPTION_KEYS if key != "name"), *OWN_KEYS)
DESCRIPTION_MAX_CHARS: Final = 2_000
TIMEOUT_US: Final = 30_000_000
_SHA256: Final = re.compile("[0-9a-f]{64}")
_OURS: Final = frozenset({"readers", "execute", *OWN_KEYS})


class Builder:
    """Builds one contract. `toolbox`: the known tools of servers."""

    def __init__(self, entry: Entry, engine: PredicateEngine, fittings: SystemFactory, toolbox: Toolbox) -> None:
        self.entry = entry
        self.engine = engine
        self.fittings = fittings
        self._findings = entry.findings
        self._began = len(entry.findings.faults)
        known = self._findings.keys(entry.node, entry.path, "A contract", CONTRACT_KEYS)
        for name in [name for name, node in known.items() if node.value is None or _is_blank(name, node)]:
            self._findings.add(entry.node.keys[name], joined(entry.path, name), NOTHING)
        self.keys = {name: node for name, node in known.items() if node.value is not None}
        self.toolbox = toolbox.of(entry.home.file)
        self.served = entry.home.server is not None or self.toolbox.own is not None or self.toolbox.partial
        """Whether the file's tools belong to a server."""
        self.callable = True
        self._timeout_us = self._timeout()
        self.arguments, self.arguments_known = self._arguments()
        self._specs = SpecReader(engine, self.arguments.names if self.arguments_known else None, self._findings)
        self.execute, self._execute_hand = self._execute()
        self._making = ReaderMaker(entry, self._specs, self._findings, fittings, engine, self.execute)
        self.readers: tuple[FittedReader, ...] = tuple(self._making.readers(self.keys.get("readers")))
        self._find = self._search("find")
        self._lookup = self._search("lookup")
        self._rollback = self._put_back()
        self._operation = self._operation_fill()
        self._twin = self._fixed_twin()
        self._description = self._said()
        if not self.arguments_known:
            mentioned = self._mentioned()
            self.arguments = ToolArguments.unknown(mentioned) if self.served else arguments_named(mentioned)

    def compiled(self, compensation: FileContract | None, given: Written | None = None) -> FileContract | None:
        """Return the contract; None with faults in the file's diagnostics.

        `given`: the compensation's arguments, if different from the action's.
        """
        problems = Problems()
        reversal = None
        if given is not None and compensation is not None:
            names = self.arguments.names if self.arguments_known else None
            specs = SpecReader(self.engine, names, self._findings, roots=REVERSAL_ROOTS)
            reversal = reversal_of(specs, given, joined(self.entry.path, "compensate.arguments"), compensation)
        parts = ContractParts(
            execute=self._execute_hand,
            arguments=self.arguments,
            readers=tuple(each.reader for each in self.readers),
            find=None if self._find is None else self._find.hand,
            lookup=None if self._lookup is None else self._lookup.hand,
            rollback=self._rollback,
            compensation=None if compensation is None else compensation.plan,
            find_as=None if self._find is None else self._find.declared,
            keyless=self._keyless(),
            find_complete=self._find is not None and self._find.complete,
            lookup_as=None if self._lookup is None else self._lookup.declared,
        )
        plan = None
        options, raised = self._careful(self._options())
        try:
            plan = compile_contract(options, parts, self.engine, problems)
        except ContractError as error:
            found = problems.found or [("", error)]
            self._tell(found)
            if raised:
                said = f"The tool says of itself {raised}: what follows from that is asked of the contract too."
                self._findings.add(
                    self.keys.get("side_effect", self.entry.place), f"{self.entry.path}.side_effect", said
                )
        known, acts = self.arguments_known, self.execute
        sought = {use: each for use, each in (("find", self._find), ("lookup", self._lookup)) if each}
        searches = {use: each.spec for use, each in sought.items()}
        check = ToolCheck(self.arguments, known, acts, self.readers, searches, self.engine, self.toolbox, self._tell_at)
        check.look(plan)
        if plan is not None:
            self._tell(list(never_later(plan.contract, self.readers)))
        if plan is None or len(self._findings.faults) > self._began:
            return None
        plan = plan if reversal is None else replace(plan, reversing=reversal)
        entry = self.entry
        examples, survivors = self._examples(plan)
        made = FileContract(
            name=entry.name,
            home=entry.home,
            place=entry.place,
            plan=plan,
            arguments=self.arguments,
            predicates=self.engine,
            readers=self.readers,
            searches=searches,
            sought={use: each.fitting for use, each in sought.items()},
            execute=self.execute,
            compensation=compensation,
            operation=self._operation,
            twin=self._twin,
            description=self._description,
            uncallable="" if self.callable else GATEWAY,
            arguments_known=self.arguments_known,
            unsent=self._unsent,
            tool=self._governed(),
            tool_sha256=self._pin(),
            raised=raised,
            examples=examples,
            survivors=survivors,
        )
        self._shown_as(made)
        return made if len(self._findings.faults) == self._began else None

    def _examples(self, plan: CompiledContract) -> tuple[tuple[Example, ...], Mapping[str, str]]:
        """Return the contract's examples, and the reasons for mutants that no example has to kill."""
        given, kept = self.keys.get("examples"), self.keys.get("survivors")
        examples: tuple[Example, ...] = ()
        if given is not None:
            path = joined(self.entry.path, "examples")
            examples = read_examples(
                given, path, self._findings, plan, self.arguments, arguments_known=self.arguments_known
            )
        if kept is None:
            return examples, {}
        return examples, read_survivors(kept, joined(self.entry.path, "survivors"), self._findings)

    def _keyless(self) -> str:
        if self.execute is None or self.execute.bears_key:
            return ""
        return "The call does not carry the idempotency key: write `{scope.idempotency_key}` where the tool takes it."

    def _careful(self, options: dict[str, object]) -> tuple[dict[str, object], str]:
        """Apply the tool's own hints: a higher class, and no trust in its keys. Return these hints too."""
        tool = self.toolbox.tool("", self._governed()) if self._governed() else None
        words = {str(member): member for member in SideEffect}
        named = str(options.get("side_effect"))
        if tool is None or named not in words:
            return options, ""
        raised, by = raised_class(words[named], tool.hints)
        terms = options.get("execute")
        drops = drops_key(tool.hints) and isinstance(terms, dict) and terms.get("honours_key") is True
        if by:
            options = {**options, "side_effect": raised.value}
        if drops and isinstance(terms, dict):
            options = {**options, "execute": {**terms, "honours_key": False}}
        return options, ", ".join([*([by] if by else []), *(["idempotentHint: false"] if drops else [])])

    def _pin(self) -> str:
        node = self.keys.get("tool_sha256")
        if node is None:
            return ""
        path = joined(self.entry.path, "tool_sha256")
        if not isinstance(node.value, str) or _SHA256.fullmatch(node.value) is None:
            self._findings.add(node, path, "Must be a SHA-256: 64 hexadecimal digits, in lower case.")
        elif not self._governed():
            self._findings.add(node, path, "The pin needs a governed server's tool, and the contract governs none.")
        return str(node.value)

    def _shown_as(self, made: FileContract) -> None:
        """Refuse a text with optional JSON: the content could choose its own comparison."""
        unsure = [each for each in made.readers if each.tool and not {"shows", "value"} & set(each.spec.fixed)]
        if unsure and any(_is_text(path) for path in paths_of(made.plan)):
            path = f"{self.entry.path}.readers"
            said = "`authoritative.text` is compared: say `shows: text` of the tool, or `shows: json`."
            self._findings.add(unsure[0].place, path, said)
        spec = made.searches.get("lookup")
        status = None if spec is None or spec.kind != TOOL or "shows" in spec.fixed else spec.fixed.get("status")
        if str(status).split("/")[:2] == ["", "text"]:
            said = "A word at `/text` is asked for: say `shows: text` of the tool, or `shows: json`."
            self._findings.add(self.keys["lookup"], f"{self.entry.path}.lookup", said)

    # --- what the compiler is given --------------------------------------------------------------------------------

    def _options(self) -> dict[str, object]:
        options = {name: node.plain() for name, node in self.keys.items() if name not in _OURS}
        execute = self.keys.get("execute")
        if execute is not None and execute.mapping is not None:
            terms = {name: node.plain() for name, node in execute.mapping.items() if name in EXECUTE_KEYS}
            options["execute"] = terms
        if self.entry.home.version:
            options.setdefault("version", self.entry.home.version)
        return {"name": self.entry.name, **options}

    def _tell(self, found: list[tuple[str, ContractError]]) -> None:
        """Report the compiler's problems at their places, without consequences of faults already reported."""
        damaged = {fault.path.removeprefix(self.entry.path + ".").split(".")[0] for fault in self._told()}
        damaged = {name.partition("[")[0] for name in damaged}
        hidden = {"readers", "quorum", "identity.stamp"} if damaged & {"readers", "find", "lookup"} else set()
        for key, error in found:
            first = key.partition(".")[0]
            if key in hidden or first in hidden:
                continue
            if "arguments" in damaged and "no argument" in error.message:
                continue
            at, path = self._located(key)
            self._findings.add(at, path, error)

    def _tell_at(self, key: str, said: str) -> None:
        at, path = self._located(key)
        self._findings.add(at, path, said)

    def _told(self) -> list[Fault]:
        return self._findings.faults[self._began :]

    def _located(self, key: str) -> tuple[Written | Place, str]:
        """Return the node of a dotted compiler key, or the nearest node above."""
        here, path, rest = self.entry.node, self.entry.path, key
        if rest.startswith("readers."):
            for number, each in enumerate(self.readers):
                name = f"readers.{each.reader.name}"
                if rest == name or rest.startswith(name + "."):
                    return each.place, f"{path}.readers[{number}]{rest[len(name) :]}"
        at: Written | Place = self.entry.place
        while rest and here.mapping:
            known = [name for name in here.mapping if rest == name or rest.startswith(f"{name}.")]
            if not known:
                return at, joined(path, rest)
            name = max(known, key=len)
            here, path, rest = here.mapping[name], joined(path, name), rest[len(name) + 1 :]
            at = here
        return at, joined(path, rest) if rest else path

    # --- arguments -------------------------------------------------------------------------------------------------

    @property
    def tool_name(self) -> str:
        """Return the tool of the contract's arguments: the tool under `execute`, else the contract's own name."""
        execute = self.keys.get("execute")
        inner = (execute.mapping or {}).get(TOOL) if execute is not None else None
        named = (inner.mapping or {}).get("name") if inner is not None else None
        own = inner is not None and not {"arguments", "server"} & set(inner.mapping or {})
        return str(named.value) if own and named is not None else self.entry.name

    def _governed(self) -> str:
        """Return the governed tool; "" for a tool that no client calls by this name."""
        spec = self.execute
        if spec is None or spec.kind != TOOL or "arguments" in spec.asked or "server" in spec.fixed:
            return ""
        return str(spec.fixed["name"])

    def _arguments(self) -> tuple[ArgumentSchema, bool]:
        """Return the argument schema: strict from the file, else as stated by the server, else by use."""
        node = self.keys.get("arguments")
        if node is None:
            execute = self.keys.get("execute")
            acts = set(execute.mapping or {}) & set(EXECUTOR) if execute is not None else set()
            if not self.served or acts - {TOOL}:
                return ArgumentSchema(()), True
            tool = self.toolbox.tool("", self.entry.takes or self.tool_name)
            return (ArgumentSchema(()), False) if tool is None else (ToolArguments(tool.takes), True)
        path = joined(self.entry.path, "arguments")
        before = len(self._findings.faults)

        def report(steps: tuple[str, ...], said: str) -> None:
            at, where = _below(node, path, steps)
            self._findings.add(at, where, ContractFieldError(said))

        return arguments_of(node.plain(), report), len(self._findings.faults) == before

    def _mentioned(self) -> frozenset[str]:
        """Return the arguments mentioned in the contract: all known arguments of a tool without a schema."""
        found = _named_by(str(self._plain("target")))
        for key in ("identity", "require", "ensure", "fails_when", "intermediate", "expected_version"):
            for text in _texts_in(self._plain(key)):
                found |= self._names(text)
        approval = self._plain("approval")
        if isinstance(approval, dict):
            found |= self._names(str(approval.get("when", "")))
        found |= {str(each) for each in self._listed("key_fields")} | self._specs_names()
        for each in self._listed("redact"):
            root, _, rest = str(each).partition(".")
            found |= {rest.partition(".")[0]} if root == "requested" and rest else set()
        return frozenset(name for name in found if self.served or name.isidentifier())

    def _names(self, expression: str) -> frozenset[str]:
        try:
            return fields_of(self.engine.compile(expression, boolean=False), "requested")
        except ExpressionError:
            return frozenset()  # it is told by the compiler, with its place

    def _specs_names(self) -> set[str]:
        found = {name for each in self.readers for name in each.spec.names}
        return found | self._also

    def _plain(self, key: str) -> object:
        return self.keys[key].plain() if key in self.keys else None

    def _listed(self, key: str) -> list[object]:
        found = self._plain(key)
        return found if isinstance(found, list) else []

    # --- hands -----------------------------------------------------------------------------------------------------

    _also: frozenset[str] = frozenset()
    _unsent: frozenset[str] = frozenset()

    def _timeout(self) -> int:
        """Return the time limit of one call, as the compiler computes it."""
        execute = self.keys.get("execute")
        said = execute.mapping.get("timeout") if execute is not None and execute.mapping is not None else None
        if said is not None:
            return span(said.value, TIMEOUT_US)
        words = [str(member) for member in SideEffect]
        named = self._plain("side_effect")
        return depth(SideEffect(str(named))).default_timeout_us if named in words else TIMEOUT_US

    def _execute(self) -> tuple[Spec | None, Handler]:
        name = self.entry.name
        node = self.keys.get("execute")
        path = joined(self.entry.path, "execute")
        told = node.mapping if node is not None and node.mapping is not None else {}
        if node is None or (self.served and node.mapping is not None and not set(told) - set(EXECUTE_KEYS)):
            if not self.served:
                said = f"Nothing acts. Add `execute` with one of {', '.join(EXECUTOR)}, or the file's `server`."
                self._findings.add(node if node is not None else self.entry.place, path, said)
                return None, uncalled(name)
            return self._calls(Spec(TOOL, {"name": self.tool_name}), node, path)
        spec = self._executor(node, path, EXECUTE_KEYS)
        if spec is None:
            return None, uncalled(name)
        if spec.kind == TOOL:
            return self._calls(spec, told[TOOL], joined(path, TOOL))
        made = self._acts(spec, node, path)
        return spec, uncalled(name) if made is None else acting(name, spec, made, self.engine)

    def _calls(self, spec: Spec, node: Written | None, path: str) -> tuple[Spec | None, Handler]:
        """Return a server's tool as the acting handler."""
        name, at = self.entry.name, node if node is not None else self.entry.place
        spec = replace(spec, fixed={"name": self.tool_name, **spec.fixed})
        if "server" not in spec.fixed and not self.served:
            self._findings.add(at, path, "No server has this tool. Add the file's `server`, or name one of `servers`.")
            return None, uncalled(name)
        if node is not None and not server_known(spec, self.entry, self._findings, node, path):
            return None, uncalled(name)
        self._also |= spec.names
        fitting = tool_fitting(self.fittings, spec, self._timeout_us)
        self.callable = fitting is not None
        self._unsent = self._left_out(spec)
        return spec, tool_hand(name, spec, fitting, self.engine, self._unsent)

    def _left_out(self, spec: Spec) -> frozenset[str]:
        """Return arguments of the file's own schema with a null default; such nulls are not sent to a tool."""
        if isinstance(self.arguments, ToolArguments) or "arguments" in spec.asked:
            return frozenset()
        own = self.arguments.parameters
        return frozenset(each.name for each in own if not each.required and each.default is None)

    def _executor(self, node: Written, path: str, beside: Collection[str] = ()) -> Spec | None:
        kind, inner = self._specs.one(node, path, EXECUTOR, beside)
        return None if inner is None else self._specs.executor(kind, inner, joined(path, kind))

    def _put_back(self) -> Handler | None:
        node = self.keys.get("rollback")
        path = joined(self.entry.path, "rollback")
        spec = None if node is None else self._executor(node, path)
        if spec is None:
            return None
        self._also |= spec.names
        name = f"{self.entry.name}.rollback"
        if spec.kind == TOOL:
            spec = replace(spec, fixed={"name": self.tool_name, **spec.fixed})
            return tool_hand(name, spec, tool_fitting(self.fittings, spec, self._timeout_us), self.engine)
        made = self._acts(spec, node, path)
        return None if made is None else acting(name, spec, made, self.engine)

    def _acts(self, spec: Spec, node: Written | None, path: str) -> ExecutorAdapter | None:
        entry = self.entry
        try:
            return self.fittings.executor(spec.kind, entry.name, spec.fixed, entry.home.folder, self._timeout_us)
        except ContractError as error:
            self._findings.add(node if node is not None else entry.place, path, error)
            return None

    def _search(self, use: str) -> Search | None:
        node = self.keys.get(use)
        made = None if node is None else self._making.search(use, node)
        if made is not None:
            self._also |= made.spec.names
        return made

    # --- what is only a file's -------------------------------------------------------------------------------------

    def _operation_fill(self) -> CompiledTemplate | None:
        node = self.keys.get("operation")
        if node is None:
            return None
        path = joined(self.entry.path, "operation")
        try:
            if not isinstance(node.value, str):
                raise ContractFieldError("Must be a template, such as 'ship {requested.order_id}'.")
            fill = compile_fill(node.value, self.engine, self.arguments.names if self.arguments_known else None)
            hidden = hidden_under(map(str, self._listed("redact")), "requested", "intended")
            for hole in fill.holes:
                if any(path_.root != "requested" for path_ in hole.predicate.paths):
                    raise ContractFieldError("An operation may name only `requested`.")
                named = fields_of(hole.predicate, "requested")
                for name in sorted(each for each in named if covered(each, hidden)):
                    raise ContractFieldError(
                        f"{name!r} is redacted, but the operation is stored. Use another argument."
                    )
                self._also |= named
            if not fill.holes:
                raise ContractFieldError("Every call would have the same operation. Name an argument.")
        except ContractError as error:
            self._findings.add(node, path, error)
            return None
        return fill

    def _fixed_twin(self) -> Mapping[str, object]:
        node = self.keys.get("twin")
        if node is None:
            return {}
        path = joined(self.entry.path, "twin")
        if not node.mapping:
            self._findings.add(node, path, "Must be a mapping of arguments to values safe for drills.")
            return {}
        for name, each in node.mapping.items():
            if self.arguments_known and name not in self.arguments.names:
                said = f"The action has no argument {name!r}.{did_you_mean(name, self.arguments.names)}"
                self._findings.add(each, joined(path, name), said)
        return {name: each.plain() for name, each in node.mapping.items()}

    def _said(self) -> str:
        node = self.keys.get("description")
        if node is None:
            return ""
        if not isinstance(node.value, str) or len(node.value) > DESCRIPTION_MAX_CHARS:
            said = f"Must be text of at most {DESCRIPTION_MAX_CHARS} characters."
            self._findings.add(node, joined(self.entry.path, "description"), said)
            return ""
        return node.value


# --- single values -------------------------------------------------------------------------------------------------


def _named_by(target: str) -> set[str]:
    """Return the arguments in a target; none for a malformed target, which the compiler reports."""
    try:
        return {path[1] for path in compile_template(target).paths if path[0] == "requested"}
    except TemplateError:
        return set()


def _is_text(path: Path) -> bool:
    return path.root in ("authoritative", "before") and path.steps[1:2] == ("text",)


def _is_blank(name: str, node: Written) -> bool:
    """Return whether a text is empty where the compiler would read a missing key. Descriptions may be empty."""
    return node.value == "" and name != "description"


def _below(node: Written, path: str, steps: tuple[str, ...]) -> tuple[Written, str]:
    """Return the node under these keys, or the nearest node above."""
    for step in steps:
        inner = (node.mapping or {}).get(step)
        if inner is None:
            break
        node, path = inner, joined(path, step)
    return node, path


def _texts_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts_in(each)]
    return []
