"""`readback gates promote`: decide whether exactly the examined logic may be released."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from readback import __version__, bootstrap
from readback.assurance.faults import ResultError
from readback.assurance.reports.document import RESULT_MAX_BYTES, open_document, schema_text
from readback.assurance.results import Finding, Standing, worst
from readback.assurance.run import refusals
from readback.cli import options
from readback.cli.gates.inputs import logic_of
from readback.cli.sessions import reading, settings_of
from readback.cli.terminal import note, print_json, safe
from readback.errors import StoreError, UsageError


@click.command("promote", short_help="Decide whether these contracts may be released.")
@click.argument("result", metavar="RESULT")
@options.contracts
@options.table
@click.option("--url", metavar="URL", help="The ledger that recorded the result (READBACK_URL).")
@click.option("--record", "bundle", metavar="FILE", help="Use record.bundle.json in place of the ledger. Needs --key.")
@click.option("--key", metavar="VKEY", help="The verifier key of the log that signed the record.")
@click.option("--unrecorded", is_flag=True, help="Accept a result that no ledger recorded.")
@options.as_json
def promote(
    result: str,
    modules: tuple[str, ...],
    table: str | None,
    url: str | None,
    bundle: str | None,
    key: str | None,
    unrecorded: bool,
    as_json: bool,
) -> int:
    """Decide whether the contracts and the table named here may be released, by the RESULT of `readback gates check`.

    \b
    Promotion needs all of:
    - each contract, the recovery table and the package have the examined hash;
    - trace replay, canary, failure injection and ledger schema have passed;
    - every other gate has run and has not failed;
    - the ledger holds the verified record of this result, or --record names a
      copy of the record with a proof by the log's key.

    Nothing is changed by this command. Exit code 0: may be released; 1: refused; 2: RESULT is no result, or was edited;
    3: refused, because something is undetermined; 5: the verifier failed.
    """
    data = bootstrap.kept_file(Path(result), RESULT_MAX_BYTES)
    if data is None:
        raise ResultError(f"There is no file {safe(result)}.")
    report, sha256 = open_document(data)
    found = [*refusals(report, logic_of(modules, table), __version__)]
    if bundle is not None:
        found += _of_bundle(bundle, key, sha256)
    elif not unrecorded:
        found += _unrecorded(url, sha256)
    standing = worst(each.standing for each in found) if found else Standing.PASSED
    if as_json:
        listed = [each.as_json() for each in found]
        print_json({"promote": not found, "standing": standing.value, "result": sha256, "refusals": listed})
        return standing.exit_code
    for each in found:
        named = f"{each.contract}: " if each.contract else ""
        print(safe(f"{each.standing.value}: {named}{each.message} [{each.code}]"))
    if found:
        note("Nothing is promoted. Next: correct the logic, and run `readback gates check` on it again.")
    else:
        print(
            f"May be released: {len(report.contracts)} contracts, table {report.table[:16]}, package {report.package}."
        )
    return standing.exit_code


def _unrecorded(url: str | None, sha256: str) -> list[Finding]:
    """Return the reasons against the record of the result."""
    from readback.assurance.recording import OTHER_CONTRACT, contract_hash, recorded
    from readback.client.client import Readback
    from readback.engine.resume import fold

    try:
        with reading(settings_of(url)) as session:
            outcome = recorded(Readback(session), sha256)
            action = None if outcome is None else fold(session.store.events(outcome.id))
    except StoreError as error:
        said = f"The ledger cannot be read, so the record of the result is not known: {error.message}"
        return [Finding("promotion", "promote.ledger", Standing.UNDETERMINED, said)]
    if outcome is None:
        said = "The ledger has no record of this result."
        return [Finding("promotion", "promote.unrecorded", Standing.FAILED, said)]
    if action is None or action.contract_hash != contract_hash():
        return [Finding("promotion", "promote.unrecorded", Standing.FAILED, OTHER_CONTRACT)]
    if not outcome.verified:
        said = f"The record {outcome.id} of this result is {outcome.state.value}."
        return [Finding("promotion", "promote.unverified", Standing.UNDETERMINED, said)]
    return []


def _of_bundle(file: str, key: str | None, sha256: str) -> list[Finding]:
    """Return the reasons against a copy of the record. Raises BundleError, LogError, UsageError."""
    from readback.assurance.recording import record_fault
    from readback.audit.evidence.attest import covering
    from readback.audit.record.bundle import BUNDLE_MAX_BYTES, open_bundle
    from readback.cli.ledger.keys import trusted
    from readback.log.proof import parse_proof

    authority = trusted(key)
    data = bootstrap.kept_file(Path(file), BUNDLE_MAX_BYTES)
    if data is None:
        raise UsageError(f"There is no file {safe(file)}.", remedy="Name record.bundle.json beside the result.")
    record = open_bundle(data)
    said = record_fault(record, sha256)
    if said:
        return [Finding("promotion", "promote.unrecorded", Standing.FAILED, said)]
    if record.proof is None:
        said = "The record has no proof. Set the key of the log for `readback gates check`."
        return [Finding("promotion", "promote.unsigned", Standing.FAILED, said)]
    proof = parse_proof(record.proof)
    covering(proof, authority)
    if proof.entry != record.last_envelope:
        said = "The proof of the record is of another entry."
        return [Finding("promotion", "promote.unsigned", Standing.FAILED, said)]
    return []


@click.command("report-schema", short_help="Print the JSON Schema of the result.")
def report_schema() -> int:
    """Print the JSON Schema (2020-12) of result.json."""
    sys.stdout.write(schema_text())
    return 0
