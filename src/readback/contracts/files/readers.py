"""The readers and searches of one contract: each with its source, and no claim beyond the source's own maximum.

Called by `build`. No system is reached: each source gets a fitting for later runs and checks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from readback.canon.frozen import dataclass
from readback.contracts.compile import READER_TIMEOUT_US
from readback.contracts.files.contract import Entry, FittedReader, glancing, looking
from readback.contracts.files.document import Written
from readback.contracts.files.system_options import Diagnostics, Spec, SpecReader, joined
from readback.contracts.files.tool_handlers import ToolSource, tool_look
from readback.contracts.files.vocabulary import COMPLETE, READER_KEYS, SEARCH_KEYS, SOURCE, SourceKind
from readback.contracts.functions.callables import Reader
from readback.contracts.functions.calling import Look
from readback.contracts.options import microseconds
from readback.contracts.problems import did_you_mean
from readback.domain.side_effect import Consistency, Independence
from readback.errors import ContractError, ContractFieldError, FittingError, WeakReaderError
from readback.ports.handlers import Handler
from readback.ports.predicates import PredicateEngine
from readback.ports.system_factory import Reference, SourceAdapter, SystemFactory, ToolAdapter

TOOL: Final = "tool"
NOTHING: Final = "The key has no value. Write a value, or omit the key."


FOLDERS: Final = frozenset({"root", "repository", "database"})
"""Settings with paths relative to the contract file's folder."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search under `find` or `lookup`. `declared`: the declarations; None without any.

    `fitting`: a built-in source; None for a tool.
    """

    spec: Spec
    hand: Handler
    declared: Reader | None
    fitting: SourceAdapter | None
    complete: bool = False
    """The search shows every effect, in every place writable by the tool."""


@dataclass(frozen=True, slots=True)
class ReaderMaker:
    """Makes the readers of one contract. `execute`: the executor; None for one with faults."""

    entry: Entry
    specs: SpecReader
    findings: Diagnostics
    fittings: SystemFactory
    engine: PredicateEngine
    execute: Spec | None

    def readers(self, node: Written | None) -> list[FittedReader]:
        """Return the sound readers of the key `readers`."""
        if node is None:
            return []
        path = joined(self.entry.path, "readers")
        if node.listed is None:
            self.findings.add(node, path, "Must be a list of readers.")
            return []
        made = [self._reader(each, f"{path}[{number}]") for number, each in enumerate(node.listed)]
        return _numbered([each for each in made if each is not None])

    def search(self, use: str, node: Written) -> Search | None:
        """Return the search under `find` or `lookup`; None, with a fault, if unsound."""
        path = joined(self.entry.path, use)
        keys = (*SEARCH_KEYS, COMPLETE) if use == "find" else SEARCH_KEYS
        kind, inner = self.specs.one(node, path, SOURCE, keys)
        if inner is None:
            return None
        spec = self.specs.source(kind, inner, joined(path, kind), use)
        said = node.mapping or {}
        if spec is None or not self._terms_sound(said, path) or not self._within(SOURCE[kind], spec, said, path):
            return None
        terms: dict[str, object] = {name: said[name].value for name in SEARCH_KEYS if name in said}
        system, name = str(terms.get("source", system_of(spec))), f"{self.entry.name}.{use}"
        timeout = span(terms.get("timeout"), READER_TIMEOUT_US)
        asks, fitting = kind == TOOL, None
        if asks:
            if not server_known(spec, self.entry, self.findings, inner, joined(path, kind)):
                return None
            tool = ToolSource(system, spec, tool_fitting(self.fittings, spec, timeout), spec.fixed)
            look = tool_look(tool, self.engine, use)
        else:
            fitting = self._source(spec, system, timeout, node, path)
            if fitting is None:
                return None
            look = looking(spec, fitting, self.engine, use)
        declared = self._declared(name, look, asks, system, spec, terms) if terms or asks else None
        complete = COMPLETE in spec.fixed or (COMPLETE in said and said[COMPLETE].value is True)
        return Search(
            spec,
            Handler(name, look, asks, place=None if fitting is None else fitting.place),
            declared,
            fitting,
            complete,
        )

    def _declared(
        self, name: str, look: Look, asks: bool, system: str, spec: Spec, terms: Mapping[str, object]
    ) -> Reader:
        row = SOURCE[spec.kind]
        return Reader(
            name,
            look,
            asks,
            system,
            terms.get("consistency", row.consistency.value),
            terms.get("independence", self._usual(row, spec).value),
            terms.get("timeout"),
            terms.get("attributes") is True,
            whole_region=terms.get("whole_region") is True,
        )

    def _source(self, spec: Spec, name: str, timeout_us: int, node: Written, path: str) -> SourceAdapter | None:
        """Return a built-in source; None, with a fault, if unavailable."""
        try:
            return self.fittings.source(spec.kind, name, spec.fixed, self.entry.home.folder, timeout_us)
        except ContractError as error:
            self.findings.add(node, path, error)
            return None

    def _reader(self, node: Written, path: str) -> FittedReader | None:
        kind, inner = self.specs.one(node, path, SOURCE, READER_KEYS)
        if inner is None:
            return None
        spec = self.specs.source(kind, inner, joined(path, kind), "read")
        said = node.mapping or {}
        if spec is None or not self._terms_sound(said, path) or not self._within(SOURCE[kind], spec, said, path):
            return None
        terms: dict[str, object] = {name: said[name].value for name in READER_KEYS if name in said}
        source = str(terms.get("source", system_of(spec)))
        timeout = span(terms.get("timeout"), READER_TIMEOUT_US)
        asked: ToolSource | None = None
        fitting: SourceAdapter | None = None
        if kind == TOOL:
            if not server_known(spec, self.entry, self.findings, inner, joined(path, kind)):
                return None
            asked = ToolSource(source, spec, tool_fitting(self.fittings, spec, timeout), spec.fixed)
        else:
            fitting = self._source(spec, source, timeout, node, path)
            if fitting is None:
                return None
        look = tool_look(asked, self.engine) if asked else None
        if look is None:
            assert fitting is not None
            look = looking(spec, fitting, self.engine, "read")
        reader = self._declared(str(terms.get("name", kind)), look, asked is not None, source, spec, terms)
        if fitting is not None:
            reader = replace(reader, glance=glancing(spec, fitting, self.engine), place=fitting.place)
        return FittedReader(reader, spec, fitting, node.place, asked)

    def _terms_sound(self, said: Mapping[str, Written], path: str) -> bool:
        for name in [name for name in READER_KEYS if name in said and said[name].value is None]:
            self.findings.add(said[name], joined(path, name), NOTHING)
            return False
        for name in ("name", "source"):
            if name in said and not (isinstance(said[name].value, str) and str(said[name].value).strip()):
                self.findings.add(said[name], joined(path, name), "Must be text.")
                return False
        for name in [name for name in ("attributes", "whole_region", COMPLETE) if name in said]:
            if not isinstance(said[name].value, bool):
                self.findings.add(said[name], joined(path, name), "Must be true or false.")
                return False
        return True

    # --- how much may be said of it --------------------------------------------------------------------------------

    def _usual(self, row: SourceKind, spec: Spec) -> Independence:
        return min(row.independence, self._most(row, spec), key=lambda level: level.rank)

    def _most(self, row: SourceKind, spec: Spec) -> Independence:
        most = row.at_most[1]
        if row.name == TOOL and self._same_server(spec):
            return Independence.SAME_CLIENT
        if self.execute is not None and self._same_system(row, spec):
            return min(most, Independence.OTHER_CLIENT, key=lambda level: level.rank)
        return most

    def _within(self, row: SourceKind, spec: Spec, said: Mapping[str, Written], path: str) -> bool:
        """Check that the file claims no more than the source's maximum. The compiler reports an unknown word."""
        independence = self._most(row, spec)
        usual = {"consistency": row.consistency.value, "independence": self._usual(row, spec).value}
        sound = True
        for name, most in (("consistency", row.at_most[0]), ("independence", independence)):
            node = said.get(name)
            kind = Consistency if name == "consistency" else Independence
            known = {member.value: member.rank for member in kind}
            claimed = node.value if node is not None else usual[name]
            if isinstance(claimed, str) and known.get(claimed, -1) > most.rank:
                reason = f"A {row.name} source{_where(row, most)} is at most {most.value} (got {claimed})."
                at = node if node is not None else said[row.name]
                self.findings.add(at, joined(path, name), WeakReaderError(reason))
                sound = False
        return sound

    def _same_server(self, spec: Spec) -> bool:
        """Return whether two names mean one server: a server started in the same way is the same server."""
        home = self.entry.home
        mine = str(self.execute.fixed.get("server", "")) if self.execute and self.execute.kind == TOOL else ""
        theirs = str(spec.fixed.get("server", ""))
        if mine == theirs:
            return True
        one, other = (home.servers.get(each) if each else home.server for each in (mine, theirs))
        return one is not None and other is not None and replace(one, key="") == replace(other, key="")

    def _same_system(self, row: SourceKind, spec: Spec) -> bool:
        assert self.execute is not None
        if self.execute.kind != spec.kind:
            return False
        mine = [_place(self.execute.fixed, name) for name in row.where]
        return mine == [_place(spec.fixed, name) for name in row.where]


def tool_fitting(fittings: SystemFactory, spec: Spec, timeout_us: int) -> ToolAdapter | None:
    """Return the tool of a server; None for a tool not callable from here."""
    try:
        return fittings.tool(str(spec.fixed.get("server", "")), str(spec.fixed["name"]), timeout_us)
    except FittingError:
        return None


def server_known(spec: Spec, entry: Entry, findings: Diagnostics, node: Written, path: str) -> bool:
    """Return whether the file names the tool's server."""
    name = spec.fixed.get("server")
    if name is None or name in entry.home.servers:
        return True
    said = f"The file names no server {name!r:.60} under `servers`.{did_you_mean(str(name), entry.home.servers)}"
    findings.add((node.mapping or {}).get("server", node), joined(path, "server"), said)
    return False


def system_of(spec: Spec) -> str:
    """Return the system's name, where the file gives none: the source's word and place."""
    row = SOURCE[spec.kind]
    where = [spec.fixed[name] for name in row.where if name in spec.fixed]
    first = where[0] if where else "."
    if isinstance(first, list):
        first = first[0] if first else ""
    said = str(first) if isinstance(first, Reference) or "://" not in str(first) else urlsplit(str(first)).netloc
    return f"{spec.kind}:{said}"


def span(value: object, default: int) -> int:
    """Return a duration; the compiler reports a malformed one."""
    try:
        return microseconds(value) or default
    except ContractFieldError:
        return default


def _place(fixed: Mapping[str, object], name: str) -> object:
    """Return a setting with a place; a folder in one spelling, or the contract file's folder without a name."""
    value = fixed.get(name, "." if name == "root" else None)
    return os.path.normpath(value) if name in FOLDERS and isinstance(value, str) else value


def _where(row: SourceKind, most: Consistency | Independence) -> str:
    if row.name == TOOL:
        return " of the same server that acts" if most is Independence.SAME_CLIENT else ""
    return " of the system written to" if most is Independence.OTHER_CLIENT else ""


def _numbered(readers: list[FittedReader]) -> list[FittedReader]:
    """Name the readers without a name by their source's word; further readers of one source get a number too."""
    seen: dict[str, int] = {}
    found: list[FittedReader] = []
    for each in readers:
        name = each.reader.name
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1 and name == each.spec.kind:
            each = replace(each, reader=replace(each.reader, name=f"{name}-{seen[name]}"))
        found.append(each)
    return found
