"""The examined logic: candidate contracts and table from files, and the incumbent from a git ref, folder or ledger.

Called by the command line. Contract files give the place of every key, for findings with line and column. Loading
reaches no system and runs no tool.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import readback.bootstrap as bootstrap
from readback.assurance.faults import IncumbentError
from readback.assurance.gate_input import VerificationLogic
from readback.assurance.history.recorded import is_ledger, ledger_url
from readback.assurance.results import Place
from readback.canon import ReadbackError, parse_json
from readback.client.files import contract_files
from readback.config import is_contract_file, shown
from readback.contracts.documents.recovery_tables import KIND as TABLE_KIND
from readback.contracts.documents.recovery_tables import parsed, read_table
from readback.contracts.files.assembly import Draft, assembled, drafted, read_draft
from readback.contracts.files.document import Written, read_document
from readback.contracts.files.tools.listing import Toolbox
from readback.contracts.files.vocabulary import KIND as CONTRACTS_KIND
from readback.contracts.packs import is_pack
from readback.contracts.recorded import recorded_plan
from readback.contracts.registry import registry_of
from readback.domain.events import open_envelope
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.engine.compiled_contract import CompiledContract
from readback.ports.storage.store import ActionFilter, StoredEvent
from readback.systems.configured.factory import BuiltInSystems

GIT_TIMEOUT_SECONDS: Final = 60
LEVELS_MAX: Final = 3
"""Depth of the places inside a contract: `readers.order-service.consistency`."""
_SUFFIXES: Final = (".yaml", ".yml")


def candidate_of(names: Sequence[str], table: str = "", pins: Mapping[str, str] | None = None) -> VerificationLogic:
    """Load the candidate: contract files, packs and modules, and a table's file ("" for the default table).

    Raises ContractError and SettingsError. Faults of the table are kept, so a gate can report each with its place.
    """
    files = [each for each in names if is_contract_file(each)]
    modules = [each for each in names if each not in files]
    plans: dict[str, CompiledContract] = dict(registry_of(modules).load()) if modules else {}
    places: dict[str, Mapping[str, Place]] = {}
    if files:
        plans |= {name: action.plan for name, action in contract_files(*files, pins=dict(pins or {})).items()}
        for file in files:
            if not is_pack(file):
                places |= places_of(read_draft(file))
    if not table:
        return VerificationLogic(plans, DEFAULT_TABLE, places)
    found, faults = parsed(read_table(table))
    return VerificationLogic(plans, found or DEFAULT_TABLE, places, table_path=table, table_faults=faults)


def places_of(draft: Draft) -> dict[str, Mapping[str, Place]]:
    """Return the place of each contract of a file (key "") and of each key inside."""
    found: dict[str, Mapping[str, Place]] = {}
    for name, entry in draft.contracts.items():
        home = entry.home.file
        keys = {key: Place(home, at.line, at.column) for key, at in _keys(entry.node, "", LEVELS_MAX)}
        found[name] = {"": Place(home, entry.place.line, entry.place.column), **keys}
    return found


def _keys(node: Written, above: str, levels: int) -> Iterator[tuple[str, Place]]:
    if not levels:
        return
    for name, value in (node.mapping or {}).items():
        at, path = node.keys.get(name, node.place), f"{above}.{name}" if above else name
        yield path, Place("", at.line, at.column)
        yield from _keys(value, path, levels - 1)
        for each in value.listed or ():
            source = (each.mapping or {}).get("source")
            named = "" if source is None else str(source.plain())
            if named:  # a reader of a list is known by its source
                yield f"{path}.{named}", Place("", each.place.line, each.place.column)
                yield from _keys(each, f"{path}.{named}", levels - 1)


# --- the incumbent -------------------------------------------------------------------------------------------------


def incumbent_of(
    against: str, candidate: VerificationLogic, names: Sequence[str], table: str = ""
) -> VerificationLogic:
    """Load the contracts in force from a ledger, a folder, a file or a git ref, in this order of recognition.

    `names` and `table`: the candidate's files, which a git ref holds in an earlier form. Raises IncumbentError.
    """
    try:
        if is_ledger(against):
            return _of_ledger(ledger_url(against), candidate)
        if Path(against).exists():
            return _of_path(Path(against))
        return _of_ref(against, names, table)
    except IncumbentError:
        raise
    except ReadbackError as error:
        raise IncumbentError(
            f"The contracts in force cannot be read from {shown(against)!r}: {error.message}",
            code="gates.against-unusable",
            remedy=error.remedy or "Correct the incumbent, or name another with --against.",
            details={"against": shown(against), "cause": error.code},
        ) from error


def _compiled(drafts: list[Draft], table: RecoveryTable) -> VerificationLogic:
    loaded = assembled(drafts, bootstrap.predicate_engine(), BuiltInSystems(), Toolbox()).sound()
    places: dict[str, Mapping[str, Place]] = {}
    for draft in drafts:
        places |= places_of(draft)
    return VerificationLogic({name: each.plan for name, each in loaded.contracts.items()}, table, places)


def _of_path(path: Path) -> VerificationLogic:
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES)
    drafts: list[Draft] = []
    tables: list[Path] = []
    for file in files:
        kind = _kind_of(file)
        if kind == CONTRACTS_KIND:
            drafts.append(read_draft(str(file)))
        elif kind == TABLE_KIND:
            tables.append(file)
    if not drafts:
        raise IncumbentError(f"There is no contract file in {str(path)!r}.")
    if len(tables) > 1:
        raise IncumbentError(f"There are {len(tables)} recovery tables in {str(path)!r}, and one can be in force.")
    return _compiled(drafts, _table_of(read_table(str(tables[0])), str(tables[0])) if tables else DEFAULT_TABLE)


def _kind_of(file: Path) -> str:
    root, _ = read_document(bootstrap.kept_file(file, 2**20) or b"")
    kind = (root.mapping or {}).get("kind") if root is not None else None
    return "" if kind is None else str(kind.plain())


def _table_of(content: bytes, named: str) -> RecoveryTable:
    found, faults = parsed(content)
    if found is None:
        raise IncumbentError(f"{named}:{faults[0].line}:{faults[0].column}: {faults[0].said}")
    return found


# --- git -----------------------------------------------------------------------------------------------------------


def _of_ref(ref: str, names: Sequence[str], table: str) -> VerificationLogic:
    files = [each for each in names if is_contract_file(each) and not is_pack(each)]
    if not files:
        raise IncumbentError(
            f"The git ref {ref!r} needs contract files, and the candidate has none.",
            remedy="Pass --contracts with files of the repository, or --against with a ledger.",
        )
    commit = _git(Path(files[0]).absolute().parent, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    if commit is None:
        raise IncumbentError(
            f"{ref!r} is neither a ledger nor a folder, and no git ref of the repository of {files[0]!r}."
        )
    drafts = []
    for file in files:
        content = _blob(commit.decode().strip(), Path(file))
        if content is not None:
            drafts.append(drafted(file, content, str(Path(file).absolute().parent)))
    stored = _blob(commit.decode().strip(), Path(table)) if table else None
    return _compiled(drafts, _table_of(stored, f"{ref}:{table}") if stored is not None else DEFAULT_TABLE)


def _blob(commit: str, file: Path) -> bytes | None:
    """Return the file's content in a commit; None where the commit has no such file."""
    place = file.absolute()
    return _git(place.parent, "cat-file", "blob", f"{commit}:./{place.name}")


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Return the output of a git command that reads objects alone; None where it fails. Raises IncumbentError."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            check=False,
            timeout=GIT_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise IncumbentError(f"git cannot be run: {error}.", remedy="Install git, or name a folder.") from error
    return done.stdout if done.returncode == 0 else None


# --- a ledger ------------------------------------------------------------------------------------------------------


def _of_ledger(url: str, candidate: VerificationLogic) -> VerificationLogic:
    """Return the contract of the newest recorded action, for each candidate contract."""
    plans: dict[str, CompiledContract] = {}
    tables: dict[str, str] = {}
    store = bootstrap.store(url, read_only=True)
    try:
        for name, plan in candidate.plans.items():
            for held in store.page(ActionFilter(contract=name, limit=1)):
                version = _table_version(store.events(held.projection.action_id))
                tables = max(tables, {held.projection.action_id: version}, key=lambda each: max(each, default=""))
                digest = held.projection.contract_hash
                kept = store.evidence(held.projection.tenant, "", digest)
                body = parse_json(kept.body) if kept is not None else None
                if not isinstance(body, dict):
                    raise IncumbentError(f"The ledger lacks the text of the contract {name!r}.")
                if digest == plan.contract.hash:
                    plans[name] = plan
                else:
                    plans[name] = recorded_plan(body, digest, (), bootstrap.predicate_engine())
    finally:
        store.close()
    if not plans:
        raise IncumbentError("The ledger has no action of any candidate contract.")
    version = next(iter(tables.values()), "")
    known = {each.version: each for each in (DEFAULT_TABLE, candidate.table)}
    unknown = version if version and version not in known else ""
    return VerificationLogic(plans, known.get(version, candidate.table), unknown_table=unknown)


def _table_version(events: list[StoredEvent]) -> str:
    """Return the version of the table at the time of an action's proposal; "" where none is recorded."""
    said = (open_envelope(each.envelope).event.data.get("recovery_table") for each in events[:2])
    return str(next((each for each in said if each), ""))
