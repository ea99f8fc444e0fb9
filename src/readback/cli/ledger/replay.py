"""`readback replay`: recompute the verdicts of a bundle. Opens no ledger, calls no tool and asks no clock."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from readback import bootstrap
from readback.audit.evidence.attest import covering
from readback.audit.record.bundle import BUNDLE_MAX_BYTES, open_bundle
from readback.canon import Json
from readback.cli import options
from readback.cli.ledger.keys import ROTATIONS, ROTATIONS_FILE, trusted
from readback.cli.sessions import load_contracts, settings_of
from readback.cli.terminal import BAD, OK, OPEN, console, mark, moment, note, print_json, safe, value
from readback.client.operations.replaying import replay_bundle
from readback.contracts.documents.recovery_tables import load_table
from readback.domain.records.replayed import Comparison, ReplayedJudgement, ReplayResult
from readback.domain.state import worst_exit
from readback.engine.compiled_contract import CompiledContract
from readback.errors import BundleError, UsageError
from readback.log.proof import parse_proof

EXIT_OF: Final = {Comparison.SAME: 0, Comparison.DIFFERS: 1, Comparison.NOT_EVALUATED: 5}
_SIGNS: Final = {Comparison.SAME: OK, Comparison.DIFFERS: BAD, Comparison.NOT_EVALUATED: OPEN}
_WORDS: Final = {
    Comparison.SAME: "the same result",
    Comparison.DIFFERS: "another result",
    Comparison.NOT_EVALUATED: "not evaluated as a whole",
}


@click.command("replay", short_help="Recompute the verdicts of a bundle.")
@click.argument("files", metavar="BUNDLE...", nargs=-1, required=True)
@options.contracts
@click.option("--table", metavar="FILE", help="Decide by this recovery table instead of the recorded table.")
@click.option("--key", metavar="VKEY", help="Check the bundle's proof with this verifier key of the log.")
@ROTATIONS_FILE
@options.as_json
def replay(files: tuple[str, ...], modules: tuple[str, ...], table: str | None, key: str | None, as_json: bool) -> int:
    """Recompute the verdicts of a bundle (`readback ledger export --bundle`) with this installation's verification
    logic.

    \b
    Every hash is recomputed and the entries are folded. The recorded contract and
    table judge the recorded observation and readings. The command compares each
    judgement's verdict, class, recovery row, states and postconditions with the
    record.

    Nothing is read, called or awaited; the bundle is enough. With --contracts, a loaded contract of the same name
    replaces the recorded text: for postconditions that are Python callables, or to test a new version against old
    evidence.

    Exit code 0: equal; 1: a difference, named; 2: no bundle, or a damaged bundle; 5: a value cannot be evaluated here
    (a callable that is not loaded, a redacted or erased value), named. For several bundles: the first of 5, 1, 0.
    """
    if key is None and click.get_current_context().meta.get(ROTATIONS):
        said = "--rotations requires --key."
        raise UsageError(said, remedy="Pass --key with the verifier key of the log, too.")
    plans, decides_by = _plans(modules), load_table(table) if table else None
    told: list[Json] = []
    codes: list[int] = []
    for file in files:
        data = _bundle(file)
        proved, doubt = _proved(data, key)
        found = replay_bundle(data, bootstrap.predicate_engine(), plans.get, decides_by)
        codes.append(EXIT_OF[found.comparison])
        if as_json:
            told.append({**found.as_json(), "proved": proved, "unchecked": [doubt] if doubt else []})
        else:
            _tell(found, proved, doubt)
    if as_json:
        print_json(told[0] if len(files) == 1 else told)
    return worst_exit(codes)


def _bundle(file: str) -> bytes:
    data = bootstrap.kept_file(Path(file), BUNDLE_MAX_BYTES)
    if data is None:
        raise UsageError(f"There is no file {safe(file)}.", remedy="Name a file written by `ledger export --bundle`.")
    return data


def _plans(modules: tuple[str, ...]) -> dict[str, CompiledContract]:
    """Use contracts only if requested on the command line. Contracts of the environment would replace recorded texts
    unnoticed.
    """
    if not modules:
        return {}
    registry = load_contracts(settings_of(modules=modules), needed=True)
    return dict(registry.load()) if registry is not None else {}


def _proved(data: bytes, key: str | None) -> tuple[bool | None, str]:
    """Whether a head signed by the log's key covers the last entry (None without a request), and the reason why the
    head cannot be compared with the rotation statement ("" if comparable).

    Raises BundleError, LogError.
    """
    if key is None:
        return None, ""
    bundle, authority = open_bundle(data), trusted(key)
    if bundle.proof is None:
        raise BundleError("The bundle has no proof.", remedy="Export the bundle again with a key of the log.")
    proof = parse_proof(bundle.proof)
    covered = covering(proof, authority)
    if not proof.entry or proof.entry != bundle.last_envelope:
        raise BundleError("The bundle's proof belongs to another entry than the bundle's last entry.")
    return True, authority.doubt(covered)


def _tell(found: ReplayResult, proved: bool | None, doubt: str) -> None:
    from rich.text import Text

    out = console()
    word = _WORDS[found.comparison]
    out.print(Text.assemble(mark(_SIGNS[found.comparison]), " ", (f"{safe(found.action_id)}: {word}", "bold")))
    out.print(Text(f"  {safe(found.contract)} {safe(found.contract_version)}, {found.entries} entries, {found.state}"))
    out.print(Text(f"  bundle {found.bundle_id}"), soft_wrap=True)
    if proved:
        out.print(Text("  the last entry is in the log signed with the key"))
    if doubt:
        out.print(Text(f"  not compared: {doubt}"), soft_wrap=True)
    for line in found.notes:
        out.print(Text(f"  note: {safe(line)}"), soft_wrap=True)
    for each in found.judgements:
        for line in _lines(each):
            out.print(Text(line), soft_wrap=True)
    if found.comparison is Comparison.NOT_EVALUATED:
        note("Next: pass --contracts for callables. Redacted and erased values can no longer be judged.")


def _lines(each: ReplayedJudgement) -> list[str]:
    said = " ".join(part for part in (each.verdict, each.row, each.state) if part)
    sign = {Comparison.SAME: "same", Comparison.DIFFERS: "DIFFERS", Comparison.NOT_EVALUATED: "not evaluated"}
    lines = [f"  entry {each.version} {each.what} at {moment(each.at_us)}: {safe(said)}: {sign[each.comparison]}"]
    lines += [f"    {safe(d.field)}: {value(d.recorded)} then, {value(d.replayed)} now" for d in each.differences]
    lines += [f"    missing: {safe(one)}" for one in each.missing]
    lines += [f"    taken as recorded: {safe(one)}" for one in each.given]
    return lines
