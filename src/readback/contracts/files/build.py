"""Builds one contract out of its keys in a file: which go to the compiler as they are, and which become hands.

Called by `assembly`. No key has a meaning of its own here that a decorator's keyword does not have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from readback.contracts.arguments import ArgumentSchema
from readback.contracts.clauses import fields_of
from readback.contracts.compile import READER_TIMEOUT_US, compile_contract
from readback.contracts.durations import microseconds
from readback.contracts.files.contract import (
    GATEWAY,
    Entry,
    FileContract,
    FittedReader,
    acting,
    looking,
    uncalled,
)
from readback.contracts.files.document import Fault, Place, Written
from readback.contracts.files.fill import Fill, compile_fill
from readback.contracts.files.shapes import arguments_named, arguments_of
from readback.contracts.files.spec import Spec, SpecReader, joined
from readback.contracts.files.words import EXECUTOR, OWN_KEYS, READER_KEYS, SOURCE, SourceKind
from readback.contracts.hands import Parts, Reader
from readback.contracts.options import EXECUTE_KEYS, OPTION_KEYS
from readback.contracts.problems import Problems, did_you_mean
from readback.domain.errors import ContractError, ContractFieldError, ExpressionError, WeakReaderError
from readback.domain.side_effect import Consistency, Independence, SideEffect, depth
from readback.ports.acting import Hand
from readback.ports.fittings import ExecutorFitting, Fittings, Reference, SourceFitting
from readback.ports.predicates import PredicateEngine

CONTRACT_KEYS: Final = (*(key for key in OPTION_KEYS if key != "name"), *OWN_KEYS)
DESCRIPTION_MAX_CHARS: Final = 2_000
TIMEOUT_US: Final = 30_000_000
_TARGET_NAME: Final = re.compile(r"\{requested\.([A-Za-z_]\w*)")
_OURS: Final = frozenset({"readers", "execute", *OWN_KEYS})


class Builder:
    """One contract on its way. `schema`: what is known of the tool's arguments elsewhere; it wins over the file."""

    def __init__(self, entry: Entry, engine: PredicateEngine, fittings: Fittings, schema: object = None) -> None:
        self.entry = entry
        self.engine = engine
        self.fittings = fittings
        self._findings = entry.findings
        self._began = len(entry.findings.faults)
        known = self._findings.keys(entry.node, entry.path, "A contract", CONTRACT_KEYS)
        self.keys = {name: node for name, node in known.items() if node.value is not None}
        self._timeout_us = self._timeout()
        self.arguments, self.arguments_known = self._arguments(schema)
        self._specs = SpecReader(engine, self.arguments.names if self.arguments_known else None, self._findings)
        self.execute, self._execute_hand = self._execute()
        self.readers: tuple[FittedReader, ...] = tuple(self._readers())
        self._find = self._hand("find")
        self._lookup = self._hand("lookup")
        self._rollback = self._put_back()
        self._operation = self._operation_fill()
        self._twin = self._fixed_twin()
        self._description = self._said()
        if not self.arguments_known:
            self.arguments = arguments_named(self._mentioned())

    def compiled(self, compensation: FileContract | None) -> FileContract | None:
        """The contract; None where anything is wrong with it, which its file's findings then say."""
        problems = Problems()
        parts = Parts(
            execute=self._execute_hand,
            arguments=self.arguments,
            readers=tuple(each.reader for each in self.readers),
            find=self._find,
            lookup=self._lookup,
            rollback=self._rollback,
            compensation=None if compensation is None else compensation.plan,
        )
        plan = None
        try:
            plan = compile_contract(self._options(), parts, self.engine, problems)
        except ContractError as error:
            found = problems.found or [("", error)]
            self._tell(found)
        if plan is None or len(self._findings.faults) > self._began:
            return None
        entry = self.entry
        return FileContract(
            name=entry.name,
            home=entry.home,
            place=entry.place,
            plan=plan,
            arguments=self.arguments,
            predicates=self.engine,
            readers=self.readers,
            execute=self.execute,
            compensation=compensation,
            operation=self._operation,
            twin=self._twin,
            description=self._description,
            uncallable=GATEWAY if self.execute is None else "",
            arguments_known=self.arguments_known,
        )

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
        """The compiler's problems, where they stand; what only follows from a fault that was told is left out."""
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

    def _told(self) -> list[Fault]:
        return self._findings.faults[self._began :]

    def _located(self, key: str) -> tuple[Written | Place, str]:
        """The node that a dotted key of the compiler means, or the nearest above it."""
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

    def _arguments(self, schema: object) -> tuple[ArgumentSchema, bool]:
        node = self.keys.get("arguments")
        if node is None and schema is None:
            known = "execute" in self.keys or not self.entry.home.server
            return ArgumentSchema(()), known
        path = joined(self.entry.path, "arguments")
        before = len(self._findings.faults)

        def report(steps: tuple[str, ...], said: str) -> None:
            at, where = _below(node, path, steps) if node is not None else (self.entry.place, path)
            self._findings.add(at, where, ContractFieldError(said))

        made = arguments_of(schema if schema is not None else node.plain() if node is not None else None, report)
        return made, len(self._findings.faults) == before

    def _mentioned(self) -> frozenset[str]:
        """The arguments that the contract names anywhere: all that is known of a tool without its schema."""
        found = set(_TARGET_NAME.findall(str(self._plain("target"))))
        for key in ("identity", "require", "ensure", "fails_when", "expected_version"):
            for text in _texts_in(self._plain(key)):
                found |= self._names(text)
        approval = self._plain("approval")
        if isinstance(approval, dict):
            found |= self._names(str(approval.get("when", "")))
        found |= {str(each) for each in self._listed("key_fields")} | self._specs_names()
        for each in self._listed("redact"):
            root, _, rest = str(each).partition(".")
            found |= {rest.partition(".")[0]} if root == "requested" and rest else set()
        return frozenset(name for name in found if name.isidentifier())

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

    def _timeout(self) -> int:
        """What one call of the tool may take, as the compiler will say too."""
        execute = self.keys.get("execute")
        said = execute.mapping.get("timeout") if execute is not None and execute.mapping is not None else None
        if said is not None:
            return _span(said.value, TIMEOUT_US)
        words = [str(member) for member in SideEffect]
        named = self._plain("side_effect")
        return depth(SideEffect(str(named))).default_timeout_us if named in words else TIMEOUT_US

    def _execute(self) -> tuple[Spec | None, Hand]:
        name = self.entry.name
        node = self.keys.get("execute")
        path = joined(self.entry.path, "execute")
        told = node.mapping if node is not None and node.mapping is not None else {}
        if node is None or (self.entry.home.server and node.mapping is not None and not set(told) - set(EXECUTE_KEYS)):
            if not self.entry.home.server:
                said = f"Nothing acts: give `execute` with one of {', '.join(EXECUTOR)}, or the file's `server`."
                self._findings.add(node if node is not None else self.entry.place, path, said)
            return None, uncalled(name)
        spec = self._executor(node, path, EXECUTE_KEYS)
        if spec is None:
            return None, uncalled(name)
        made = self._acts(spec, node, path)
        return spec, uncalled(name) if made is None else acting(name, spec, made, self.engine)

    def _executor(self, node: Written, path: str, beside: Collection[str] = ()) -> Spec | None:
        kind, inner = self._one(node, path, EXECUTOR, beside)
        return None if inner is None else self._specs.executor(kind, inner, joined(path, kind))

    def _put_back(self) -> Hand | None:
        node = self.keys.get("rollback")
        path = joined(self.entry.path, "rollback")
        spec = None if node is None else self._executor(node, path)
        if spec is None:
            return None
        self._also |= spec.names
        made = self._acts(spec, node, path)
        return None if made is None else acting(f"{self.entry.name}.rollback", spec, made, self.engine)

    def _acts(self, spec: Spec, node: Written | None, path: str) -> ExecutorFitting | None:
        entry = self.entry
        try:
            return self.fittings.executor(spec.kind, entry.name, spec.fixed, entry.home.folder, self._timeout_us)
        except ContractError as error:
            self._findings.add(node if node is not None else entry.place, path, error)
            return None

    def _looks(self, spec: Spec, name: str, timeout_us: int, node: Written, path: str) -> SourceFitting | None:
        try:
            return self.fittings.source(spec.kind, name, spec.fixed, self.entry.home.folder, timeout_us)
        except ContractError as error:
            self._findings.add(node, path, error)
            return None

    def _hand(self, use: str) -> Hand | None:
        node = self.keys.get(use)
        path = joined(self.entry.path, use)
        if node is None:
            return None
        kind, inner = self._one(node, path, SOURCE, ())
        spec = None if inner is None else self._specs.source(kind, inner, joined(path, kind), use)
        if spec is None:
            return None
        self._also |= spec.names
        made = self._looks(spec, _system(spec), READER_TIMEOUT_US, node, path)
        return None if made is None else Hand(f"{self.entry.name}.{use}", looking(spec, made, self.engine, use))

    def _readers(self) -> list[FittedReader]:
        node = self.keys.get("readers")
        if node is None:
            return []
        path = joined(self.entry.path, "readers")
        if node.listed is None:
            self._findings.add(node, path, "It is a list of readers.")
            return []
        made = [self._reader(each, f"{path}[{number}]") for number, each in enumerate(node.listed)]
        found = [each for each in made if each is not None]
        return _numbered(found)

    def _reader(self, node: Written, path: str) -> FittedReader | None:
        kind, inner = self._one(node, path, SOURCE, READER_KEYS)
        if inner is None:
            return None
        spec = self._specs.source(kind, inner, joined(path, kind), "read")
        if spec is None:
            return None
        said = node.mapping or {}
        terms = {name: said[name].value for name in READER_KEYS if name in said}
        for name in ("name", "source"):
            if name in terms and not (isinstance(terms[name], str) and str(terms[name]).strip()):
                self._findings.add(said[name], joined(path, name), "It is a text.")
                return None
        if "attributes" in terms and not isinstance(terms["attributes"], bool):
            self._findings.add(said["attributes"], joined(path, "attributes"), "It is true or false.")
            return None
        if not self._within(SOURCE[kind], spec, said, path):
            return None
        source = str(terms.get("source", _system(spec)))
        timeout = _span(terms.get("timeout"), READER_TIMEOUT_US)
        fitting = self._looks(spec, source, timeout, node, path)
        if fitting is None:
            return None
        name = str(terms.get("name", kind))
        reader = Reader(
            name,
            looking(spec, fitting, self.engine, "read"),
            False,
            source,
            terms.get("consistency", SOURCE[kind].consistency.value),
            terms.get("independence", SOURCE[kind].independence.value),
            terms.get("timeout"),
            terms.get("attributes") is True,
        )
        return FittedReader(reader, spec, fitting, node.place)

    def _within(self, row: SourceKind, spec: Spec, said: Mapping[str, Written], path: str) -> bool:
        """A file says no more of a source than the source can be; a word that is none is the compiler's to tell."""
        consistency, independence = row.at_most
        if self.execute is not None and self._same_system(row, spec):
            independence = min(independence, Independence.OTHER_CLIENT, key=lambda level: level.rank)
        sound = True
        for name, most in (("consistency", consistency), ("independence", independence)):
            node = said.get(name)
            kind = Consistency if name == "consistency" else Independence
            known = {member.value: member.rank for member in kind}
            claimed = node.value if node is not None else getattr(row, name).value
            if isinstance(claimed, str) and known.get(claimed, -1) > most.rank:
                where = " of the very system that is written to" if most is Independence.OTHER_CLIENT else ""
                reason = f"A {row.name} source{where} is {most.value} at most, and not {claimed}."
                at = node if node is not None else said[row.name]
                self._findings.add(at, joined(path, name), WeakReaderError(reason))
                sound = False
        return sound

    def _same_system(self, row: SourceKind, spec: Spec) -> bool:
        assert self.execute is not None
        if self.execute.kind != spec.kind:
            return False
        mine = [self.execute.fixed.get(name) for name in row.where]
        return mine == [spec.fixed.get(name) for name in row.where]

    def _one(
        self, node: Written, path: str, known: Mapping[str, object], beside: Collection[str]
    ) -> tuple[str, Written | None]:
        """The one word of a table that a mapping has, with what stands behind it."""
        what = "A source" if known is SOURCE else "An executor"
        found = self._findings.keys(node, path, what, [*known, *beside])
        named = [name for name in found if name in known]
        if len(named) != 1:
            if node.mapping is not None and len(named) + len(node.mapping) > 0 and not set(node.mapping) - set(found):
                said = f"It names {len(named)} of {', '.join(known)}, and takes one."
                self._findings.add(node, path, said)
            elif node.mapping == {}:
                self._findings.add(node, path, f"It takes one of {', '.join(known)}.")
            return "", None
        return named[0], found[named[0]]

    # --- what is only a file's -------------------------------------------------------------------------------------

    def _operation_fill(self) -> Fill | None:
        node = self.keys.get("operation")
        if node is None:
            return None
        path = joined(self.entry.path, "operation")
        try:
            if not isinstance(node.value, str):
                raise ContractFieldError("It is a template, such as 'ship {requested.order_id}'.")
            fill = compile_fill(node.value, self.engine, self.arguments.names if self.arguments_known else None)
            for hole in fill.holes:
                if any(not path_.startswith("requested") for path_ in hole.predicate.paths):
                    raise ContractFieldError("An operation is named by what is requested, and by nothing else.")
                self._also |= fields_of(hole.predicate, "requested")
            if not fill.holes:
                raise ContractFieldError("Every call would be the same operation; name an argument.")
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
            self._findings.add(node, path, "It is a mapping of arguments to the values that are safe to drill.")
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
            said = f"It is a text of at most {DESCRIPTION_MAX_CHARS} characters."
            self._findings.add(node, joined(self.entry.path, "description"), said)
            return ""
        return node.value


# --- single values -------------------------------------------------------------------------------------------------


def _below(node: Written, path: str, steps: tuple[str, ...]) -> tuple[Written, str]:
    """The node that these keys lead to, or the nearest above it."""
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


def _span(value: object, default: int) -> int:
    """A duration; where it is none, the compiler tells."""
    try:
        return microseconds(value) or default
    except ContractFieldError:
        return default


def _numbered(readers: list[FittedReader]) -> list[FittedReader]:
    """Readers without a name bear their source's word; of several such, each after the first bears its number too."""
    seen: dict[str, int] = {}
    found: list[FittedReader] = []
    for each in readers:
        name = each.reader.name
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1 and name == each.spec.kind:
            each = replace(each, reader=replace(each.reader, name=f"{name}-{seen[name]}"))
        found.append(each)
    return found


def _system(spec: Spec) -> str:
    """The name of the system, where the file gives none: what is asked, and where."""
    row = SOURCE[spec.kind]
    where = [spec.fixed[name] for name in row.where if name in spec.fixed]
    first = where[0] if where else "."
    if isinstance(first, list):
        first = first[0] if first else ""
    said = str(first) if isinstance(first, Reference) or "://" not in str(first) else urlsplit(str(first)).netloc
    return f"{spec.kind}:{said}"
