"""Contract files read, merged and compiled together: every fault of every file is found before any is raised.

Called by `client.files` and by `readback contracts`. The files come from the operator. A later file may replace a
contract of an earlier file only with `overrides`; otherwise two contracts of one name are a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from os import PathLike, fspath
from pathlib import Path
from re import compile as pattern
from typing import Final

from readback.canon import Json, sha256_hex
from readback.canon.frozen import dataclass
from readback.contracts.documents.own_files import content_of
from readback.contracts.files.build import CONTRACT_KEYS, Builder
from readback.contracts.files.checks.places import places_of
from readback.contracts.files.contract import Entry, FileContract, Home
from readback.contracts.files.document import FAULTS_TOLD_MAX, FILE_MAX_BYTES, Fault, Written, read_document
from readback.contracts.files.servers import ServerReader
from readback.contracts.files.system_options import Diagnostics, joined
from readback.contracts.files.tools.listing import Toolbox
from readback.contracts.files.undecided import tell_undecided
from readback.contracts.files.vocabulary import API_VERSION, DOCUMENT_KEYS, KIND
from readback.contracts.packs import is_pack, pack_content
from readback.contracts.problems import did_you_mean
from readback.errors import ContractFileError, SettingsError
from readback.ports.predicates import PredicateEngine
from readback.ports.system_factory import SystemFactory

FILES_MAX: Final = 64
CONTRACTS_MAX: Final = 1_000
VERSION_MAX_CHARS: Final = 128
NAME: Final = pattern(r"[A-Za-z_][A-Za-z0-9_.\-]*")


@dataclass(slots=True)
class Draft:
    """A file after reading: the written contracts, and the faults so far."""

    home: Home
    findings: Diagnostics = field(default_factory=Diagnostics)
    contracts: dict[str, Entry] = field(default_factory=dict)
    overrides: dict[str, Written] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading files. `faults`: by file, in the order of the files; with any fault, nothing may run."""

    contracts: Mapping[str, FileContract]
    homes: tuple[Home, ...]
    faults: tuple[tuple[str, Fault], ...] = ()

    def sound(self) -> Loaded:
        """Return the object itself. Raises ContractFileError with every fault."""
        if not self.faults:
            return self
        told = self.faults[:FAULTS_TOLD_MAX]
        lines = [line_of(file, fault) for file, fault in told]
        many = f"{len(self.faults)} {'fault' if len(self.faults) == 1 else 'faults'}"
        raise ContractFileError(
            f"The contract files are not usable ({many}). {'; '.join(lines[:20])}",
            details={"problems": [described(file, fault) for file, fault in told]},
        )


def line_of(file: str, fault: Fault) -> str:
    """`file:line:column: path: reason`"""
    path = f"{fault.path}: " if fault.path else ""
    remedy = f" {fault.remedy}" if fault.remedy else ""
    return f"{file}:{fault.place.line}:{fault.place.column}: {path}{fault.said}{remedy}"


def described(file: str, fault: Fault) -> dict[str, Json]:
    """Return the faults as data."""
    return {
        "file": file,
        "line": fault.place.line,
        "column": fault.place.column,
        "path": fault.path,
        "reason": fault.said,
        "remedy": fault.remedy,
        "code": fault.code,
    }


def load_files(
    paths: Iterable[str | PathLike[str]],
    engine: PredicateEngine,
    fittings: SystemFactory,
    *,
    pins: Mapping[str, str] | None = None,
    toolbox: Toolbox | None = None,
) -> Loaded:
    """Load all contracts of the given files. Raises SettingsError for an unreadable file, or a file with another hash
    than pinned.

    `pins`: SHA-256 by absolute path. `toolbox`: the known tools of servers.
    """
    named = list(dict.fromkeys(fspath(path) for path in paths))
    if len(named) > FILES_MAX:
        raise SettingsError(
            f"More than {FILES_MAX} contract files are named.", remedy="Merge the contracts into fewer files."
        )
    drafts = [read_draft(path, (pins or {}).get(str(Path(path).absolute()), "")) for path in named]
    return assembled(drafts, engine, fittings, toolbox or Toolbox())


def read_draft(path: str, pin: str = "") -> Draft:
    """Read a file from the disk, or a pack of the package. Raises SettingsError."""
    if is_pack(path):
        return drafted(path, pack_content(path), ".")
    try:
        content = content_of(path, FILE_MAX_BYTES)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"The contract file {path!r} cannot be read: {said}.", remedy="Correct the path or the permissions."
        ) from error
    if pin and sha256_hex(content) != pin:
        raise SettingsError(
            f"The contract file {path!r} does not match the SHA-256 pinned in the settings.",
            remedy="Check the change; then pin the new hash, or restore the file.",
        )
    return drafted(path, content)


def drafted(path: str, content: bytes, folder: str = "") -> Draft:
    """Read a file's bytes: form and top keys are checked, nothing is compiled."""
    draft = Draft(Home(path, str(Path(folder or Path(path).parent).absolute()), sha256_hex(content)))
    root, faults = read_document(content)
    draft.findings.faults.extend(faults)
    if root is not None:
        _Top(draft).take(root)
    return draft


def assembled(drafts: list[Draft], engine: PredicateEngine, fittings: SystemFactory, toolbox: Toolbox) -> Loaded:
    """Merge the drafts' contracts in order, and compile."""
    entries: dict[str, Entry] = {}
    doubles = [each for draft in drafts for each in _merge(entries, draft)]
    assembly = _Assembly(entries, engine, fittings, toolbox)
    for name in [*entries]:
        assembly.compile(name)
    for each in doubles:
        assembly.examine(each)
    faults = [(draft.home.file, fault) for draft in drafts for fault in _in_order(draft.findings.faults)]
    return Loaded(assembly.in_order(), tuple(draft.home for draft in drafts), tuple(faults))


def _in_order(faults: list[Fault]) -> list[Fault]:
    return sorted(dict.fromkeys(faults), key=lambda fault: fault.place)


def _merge(entries: dict[str, Entry], draft: Draft) -> list[Entry]:
    """Add the contracts of a further file. Contracts with a name already in use are reported and returned."""
    doubles: list[Entry] = []
    for name, node in draft.overrides.items():
        if name not in entries:
            said = f"No earlier file has a contract {name!r:.80}.{did_you_mean(name, entries)}"
            draft.findings.add(node, "overrides", said)
        elif name not in draft.contracts:
            draft.findings.add(node, "overrides", f"This file has no contract {name!r:.80} as the replacement.")
    for name, entry in draft.contracts.items():
        known = entries.get(name)
        if known is not None and name not in draft.overrides:
            where = f"{known.home.file}:{known.place.line}"
            said = f"A contract of this name is in {where}. Rename one, or list the name under `overrides`."
            draft.findings.add(entry.place, entry.path, said)
            doubles.append(entry)
            continue
        entries[name] = entry
    return doubles


# --- the top of a file ---------------------------------------------------------------------------------------------


class _Top:
    """The top keys of one file."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._findings = draft.findings

    def take(self, root: Written) -> None:
        keys = self._findings.keys(root, "", "A contract file", DOCUMENT_KEYS)
        if root.mapping is None:
            return
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
            if name not in keys:
                self._findings.add(root, name, f"The key is missing. Write `{name}: {wanted}`.")
            elif keys[name].value != wanted:
                self._findings.add(keys[name], name, f"Must be {wanted!r} (got {str(keys[name].plain())!r:.60}).")
        version = self._metadata(keys["metadata"]) if "metadata" in keys else ""
        home, servers = self._draft.home, ServerReader(self._draft.home.folder, self._findings)
        own = servers.server(keys["server"], "server", "") if "server" in keys else None
        others = servers.named(keys["servers"]) if "servers" in keys else {}
        self._draft.home = Home(home.file, home.folder, home.sha256, version, own, others)
        for each in self._texts(keys.get("overrides"), "overrides"):
            self._draft.overrides[str(each.value)] = each
        if "contracts" not in keys:
            self._findings.add(root, "contracts", "The file has no contracts. Add them under `contracts`, by name.")
        else:
            self._contracts(keys["contracts"])

    def _contracts(self, node: Written) -> None:
        found = node.mapping
        if not found or len(found) > CONTRACTS_MAX:
            self._findings.add(node, "contracts", f"Must be a mapping of 1 to {CONTRACTS_MAX} contracts by name.")
            return
        for name, each in found.items():
            place = node.keys[name]
            if NAME.fullmatch(name) is None or len(name) > VERSION_MAX_CHARS:
                said = f"{name!r:.80} is not a valid name. Use letters, digits, '_', '.' and '-', and no digit first."
                self._findings.add(place, "contracts", said)
                continue
            self._draft.contracts[name] = Entry(name, self._draft.home, each, place, self._findings)

    def _metadata(self, node: Written) -> str:
        keys = self._findings.keys(node, "metadata", "The metadata", ("name", "version", "description"))
        for name, each in keys.items():
            text = each.value
            if not isinstance(text, str) or not text.strip() or not text.isprintable() or len(text) > 500:
                self._findings.add(each, joined("metadata", name), "Must be text on one line.")
        version = keys["version"].value if "version" in keys else ""
        if isinstance(version, str) and len(version) <= VERSION_MAX_CHARS:
            return version
        return ""

    def _texts(self, node: Written | None, path: str) -> list[Written]:
        if node is None:
            return []
        if node.listed is None:
            self._findings.add(node, path, "Must be a list of texts.")
            return []
        for each in node.listed:
            if not isinstance(each.value, str) or not each.value:
                self._findings.add(each, path, "Must be text.")
        return [each for each in node.listed if isinstance(each.value, str) and each.value]


# --- contracts that name each other --------------------------------------------------------------------------------


def _given(node: Written) -> Written | None:
    """Return the arguments beside the name of a compensation."""
    inside = (node.mapping or {}).get("compensate")
    found = inside.mapping if inside is not None else None
    return found.get("arguments") if found and "contract" in found else None


_INHERITED: Final = ("target", "side_effect", "identity", "readers", "arguments")


class _Assembly:
    """Compiles each contract once, a reversing contract before the reversed one."""

    def __init__(
        self, entries: Mapping[str, Entry], engine: PredicateEngine, fittings: SystemFactory, toolbox: Toolbox
    ) -> None:
        self._entries = dict(entries)
        self._engine, self._fittings, self._toolbox = engine, fittings, toolbox
        self._begun: set[str] = set()
        self.made: dict[str, FileContract] = {}

    def in_order(self) -> dict[str, FileContract]:
        """Return all compiled contracts, in the order of the files; nested contracts come last."""
        return {name: self.made[name] for name in self._entries if name in self.made}

    def compile(self, name: str) -> FileContract | None:
        """Return None for a contract with faults, or for a contract in the middle of compilation."""
        if name in self._begun:
            return self.made.get(name)
        self._begun.add(name)
        entry = self._entries[name]
        before = len(entry.findings.faults)
        if tell_undecided(entry.node, entry.path, entry.findings):
            return None
        builder = Builder(entry, self._engine, self._fittings, self._toolbox)
        compensation = self._compensation(entry, builder)
        made = builder.compiled(compensation, _given(entry.node))
        if made is not None and len(entry.findings.faults) == before:
            places = places_of(made, self._fittings)
            self.made[name] = replace(made, plan=replace(made.plan, places=places)) if places else made
        return self.made.get(name)

    def examine(self, entry: Entry) -> None:
        """Report the faults of a contract with a name in use. The author then corrects all faults together.

        The reversing contract is left out: the other contract may have a reversing contract of the same name.
        """
        if not tell_undecided(entry.node, entry.path, entry.findings):
            keys = {name: each for name, each in (entry.node.mapping or {}).items() if name != "compensate"}
            alone = replace(entry, node=replace(entry.node, value=keys if entry.node.mapping else entry.node.value))
            Builder(alone, self._engine, self._fittings, self._toolbox).compiled(None)

    def _compensation(self, entry: Entry, builder: Builder) -> FileContract | None:
        node = builder.keys.get("compensate")
        if node is None:
            return None
        path = joined(entry.path, "compensate")
        takes = "" if "arguments" in builder.keys else builder.entry.takes or builder.tool_name
        named = self._named(entry, node, path, takes)
        if named is None:
            return None
        if named == entry.name or (named in self._begun and named not in self.made):
            entry.findings.add(node, path, f"The compensation of {entry.name!r} is circular or has faults.")
            return None
        made = self.compile(named)
        if made is None:
            entry.findings.add(node, path, f"The compensating contract {named!r} has faults of its own.")
            return None
        same = made.arguments.names == builder.arguments.names or _given(entry.node) is not None
        if not same and builder.arguments_known and made.arguments_known:
            theirs, ours = ", ".join(made.arguments.names), ", ".join(builder.arguments.names)
            entry.findings.add(node, path, f"{named!r} takes ({theirs}), but its action takes ({ours}).")
            return None
        return made

    def _named(self, entry: Entry, node: Written, path: str, takes: str) -> str | None:
        """Return the name of the reversing contract; a nested contract is entered under its own name."""
        inside = node.mapping or {}
        name = node.value if isinstance(node.value, str) else None
        if "contract" in inside:
            for key in set(inside) - {"contract", "arguments"}:
                entry.findings.add(
                    node.keys[key], joined(path, key), "Both this key and `contract` are given. Keep one."
                )
            name = str(inside["contract"].plain())
        if name is not None:
            if name not in self._entries:
                said = f"There is no contract {name!r:.80}.{did_you_mean(name, self._entries)}"
                entry.findings.add(node, path, said)
                return None
            return name
        if not inside:
            said = "Must be the name of a contract, or a contract: a mapping with `kind` and `ensure`."
            entry.findings.add(node, path, said)
            return None
        return self._inline(entry, node, path, takes)

    def _inline(self, entry: Entry, node: Written, path: str, takes: str) -> str | None:
        inside, above = dict(node.mapping or {}), entry.node.mapping or {}
        own = inside.pop("name", None)
        name = str(own.plain()) if own is not None else f"{entry.name}.reversal"
        if name in self._entries or NAME.fullmatch(name) is None:
            entry.findings.add(node, path, f"{name!r:.80} is not a valid name or already in use. Add a `name`.")
            return None
        for key in set(inside) - set(CONTRACT_KEYS):
            said = f"Unknown key of a contract.{did_you_mean(key, CONTRACT_KEYS)}"
            entry.findings.add(node.keys[key], joined(path, key), said)
        taken: dict[str, Written] = {key: above[key] for key in _INHERITED if key in above and key not in inside}
        taken |= {key: value for key, value in inside.items() if key in CONTRACT_KEYS}
        whole = Written(node.place, taken, node.keys)
        self._entries[name] = Entry(name, entry.home, whole, node.place, entry.findings, path, takes)
        return name
