"""`readback ledger export` and `verify-export`: records, a bundle or the whole log as files, and the check of a log."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from readback import bootstrap
from readback.audit.evidence import attest
from readback.audit.evidence import sealed as attest_sealed
from readback.audit.evidence.exported import ExportReport, audit_export
from readback.audit.record.action import bundle_id, is_action
from readback.audit.record.bundle import make_bundle
from readback.audit.sealing.seal import place_all, seal_all
from readback.canon import Json
from readback.cli import options
from readback.cli.gc_tuning import READING, undisturbed
from readback.cli.ledger.keys import KEY_FILE, authority_of, signer, signing_with, trusted, verifier
from readback.cli.ledger.log import URL, existing, kept_checkpoint, proof_now
from readback.cli.ledger.records import STDOUT, Wanted, entries_of, moment_us, write_records
from readback.cli.progress import counted
from readback.cli.sessions import settings_of
from readback.cli.terminal import BAD, OK, console, mark, note, print_json, safe
from readback.client.recovery_table import table_in_force
from readback.client.session import check_id
from readback.domain.recovery.table import DEFAULT_TABLE
from readback.errors import NotFoundError, StoreCorruptError, UnknownTenantError, UsageError
from readback.log.checkpoint import Checkpoint
from readback.log.tiles import CHECKPOINT

if TYPE_CHECKING:
    from readback.ports.storage.store import LedgerStore, StoredEvent


# `readback ledger export --bundle`: one action with all that is needed to reconcile it again elsewhere.


def write_bundle(
    url: str | None, action_id: str, out: str | None, table: str | None, key_file: str | None, *, as_json: bool
) -> int:
    """Write the bundle of one action. With a log key, the bundle includes the proof of the last entry."""
    settings = settings_of(url, table=table)
    tables = (DEFAULT_TABLE, table_in_force(None, settings))
    signs = bool(key_file or settings.signing_key_file)
    store = bootstrap.store(settings.url, read_only=True)
    try:
        held = store.projection(action_id)
        if held is None:
            raise NotFoundError(f"There is no action {safe(action_id)} here.")
        events, tenant = entries_of(store, held), held.projection.tenant
        if not is_action(events):
            raise UsageError(f"{safe(action_id)} is a saga.", remedy="Export the saga's steps: each step is an action.")
        proof = None
        if signs:
            with counted("reading the ledger", enabled=not as_json) as step:
                proof = proof_now(store, events[-1], key_file, step).to_bytes()
        data = make_bundle(events, lambda digest: _body(store, tenant, action_id, digest), tables, proof)
    finally:
        store.close()
    return _put(data, events, out, as_json=as_json)


def _body(store: LedgerStore, tenant: str, action_id: str, digest: str) -> bytes | None:
    found = store.evidence(tenant, action_id, digest)
    if found is None and not store.erased(tenant, action_id, digest):
        raise StoreCorruptError(f"The evidence {digest} is missing, and no entry records an erasure.")
    return None if found is None else found.body


def _put(data: bytes, events: list[StoredEvent], out: str | None, *, as_json: bool) -> int:
    named = bundle_id(events)
    if out is None and as_json:
        raise UsageError("A bundle is JSON itself.", remedy="Name a file with --out, or leave out --json.")
    if out in (None, STDOUT):
        print(data.decode())
        return 0
    assert out is not None
    bootstrap.keep_file(Path(out), data, private=True)
    if as_json:
        print_json({"file": out, "bundle": named, "action": events[0].action_id, "entries": len(events)})
    else:
        note(f"Bundle {named}: {len(events)} entries of {safe(events[0].action_id)} in {safe(out)}.")
        note(f"Next: readback replay {safe(out)}")
    return 0


EXIT_FAULT = 1


@click.command("export", short_help="Export records, one replay bundle, or the log.")
@click.option("--out", metavar="FILE", help="Output file; - is stdout (the default for records).")
@click.option("--tenant", metavar="ID", help="Records: only this tenant's.")
@click.option("--since", metavar="MOMENT", help="Records: only actions proposed at this moment or later.")
@click.option("--until", metavar="MOMENT", help="Records: only actions proposed before this moment.")
@click.option("--id", "ids", metavar="ID", multiple=True, help="Records: only this action; may be repeated.")
@click.option("--bundle", metavar="ID", help="Instead of records: the replay bundle of this action.")
@click.option(
    "--tiles",
    "folder",
    metavar="FOLDER",
    help="Instead of records: the whole log, into an empty folder; into an earlier export, only new entries.",
)
@options.table
@URL
@KEY_FILE
@options.as_json
def export(
    out: str | None,
    tenant: str | None,
    since: str | None,
    until: str | None,
    ids: tuple[str, ...],
    bundle: str | None,
    folder: str | None,
    table: str | None,
    url: str | None,
    key_file: str | None,
    as_json: bool,
) -> int:
    """Write each action as one action ledger entry (JSON lines; `readback ledger schema` prints the JSON Schema).

    \b
    `readback ledger evidence POINTER` prints the evidence of a record. A saga has
    no record, because a saga calls no tool; each step is an action of its own.

    With --bundle: one action with everything needed to reconcile it on another machine (`readback replay`): entries,
    evidence, contract, and the tables used for decisions.

    With --tiles: every entry, the hash tiles and a signed checkpoint, into FOLDER (C2SP tlog-tiles). The entries hold
    ids, targets, times and decisions of every tenant, without requests, answers and readings. The checkpoint is written
    last: a folder without a checkpoint is incomplete.

    Exit code 2: nothing was written, because the request cannot be met; 6: an entry is damaged, or a file cannot be
    written.
    """
    chosen = {"--tiles": folder is not None, "--bundle": bundle is not None}
    narrowed = tenant is not None or bool(since or until or ids)
    if all(chosen.values()) or (any(chosen.values()) and narrowed) or (folder is not None and out is not None):
        raise UsageError("Records, a bundle and the whole log are three different exports.", remedy="Ask for one.")
    if folder is not None:
        return _tiles(folder, url, key_file, as_json=as_json)
    if bundle is not None:
        return write_bundle(url, bundle, out, table, key_file, as_json=as_json)
    if tenant is not None:
        check_id("tenant", tenant, UnknownTenantError)  # an empty one would be every tenant's
    wanted = Wanted(tenant or "", ids, moment_us("--since", since), moment_us("--until", until))
    return write_records(url, wanted, out or STDOUT, as_json=as_json)


def _tiles(folder: str, url: str | None, key_file: str | None, *, as_json: bool) -> int:
    authority, place = authority_of(signer(key_file), key_file), Path(folder)
    there = place / CHECKPOINT
    before = kept_checkpoint(str(there), authority).checkpoint if there.is_file() else None
    store = existing(url)
    try:
        place_all(store)
        with signing_with(key_file) as signing:
            signed = seal_all(store, signing, authority_of(signing, key_file), bootstrap.runtime().now_us())
        tiles = bootstrap.tiles(place) if before is not None else bootstrap.new_tiles(place)
        with undisturbed(READING), counted("exporting the ledger", enabled=not as_json) as step:
            written = attest_sealed.export(store, signed, tiles, before, step)
        found = signed.checkpoint
    finally:
        store.close()
    if as_json:
        said: dict[str, Json] = {"folder": folder, "origin": found.origin, "size": found.size, "written": written}
        print_json({**said, "root": found.root.hex()})
        return 0
    print(f"{found.size} entries of {safe(found.origin)} in {safe(folder)}")
    if before is not None:
        note(f"The export of {before.size} entries was gone on with: {written} entries were written.")
    note(f"Next: readback ledger verify-export {safe(folder)} --key {safe(attest.key_of(signing))}")
    return 0


@click.command("verify-export", short_help="Check an exported log, without the ledger.")
@click.argument("folder", metavar="FOLDER")
@verifier
@options.as_json
def verify_export(folder: str, key: str | None, as_json: bool) -> int:
    """Check an exported log from the files alone: every entry, hash and link, the tree, and the signature.

    Exit code 0: every entry up to the signed size is present and unchanged; 1: an entry is missing or changed, and the
    first is named; 2: no such folder.
    """
    authority = trusted(key)
    tiles, links = bootstrap.tiles(Path(folder)), bootstrap.links()
    try:
        with undisturbed(READING), counted("reading the export", enabled=not as_json) as step:
            report = audit_export(tiles, authority.keys, authority.check, links, step, authority.stated)
    finally:
        links.close()
    doubt = authority.doubt(Checkpoint(report.origin, report.size, b"")) if report.ok else ""
    if as_json:
        print_json({"ok": report.ok, "folder": folder, **asdict(report), "unchecked": [doubt] if doubt else []})
    else:
        _tell(report, folder)
        if doubt:
            note(f"{doubt}.")
    return 0 if report.ok else EXIT_FAULT


def _tell(report: ExportReport, folder: str) -> None:
    from rich.text import Text

    out = console()
    word = "sound" if report.ok else f"{report.faults_total} faults"
    out.print(Text.assemble(mark(OK if report.ok else BAD), " ", (f"The export {safe(folder)}: {word}", "bold")))
    out.print(Text(f"  {report.entries} of {report.size} entries of {safe(report.origin) or 'no log'} read"))
    for number, fault in enumerate(report.faults):
        said = f"  {'also: ' if number else 'first:'} entry {fault.seq or '-'}: {fault.code}: {safe(fault.what)}"
        out.print(Text(said), soft_wrap=True)
    hidden = report.faults_total - len(report.faults)
    if hidden:
        out.print(Text(f"  and {hidden} more"))
    if report.ok:
        out.print(Text(f"  root: {report.root}"), soft_wrap=True)
        note("Entries after the checkpoint are unchecked: compare it with a checkpoint stored elsewhere.")
    else:
        note("Next: leave the folder unchanged, and export the ledger again.")
