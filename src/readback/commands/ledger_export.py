"""`readback ledger export --tiles` and `verify-export`: the whole log as files, and their check without the ledger."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from readback import bootstrap
from readback.commands import options
from readback.commands.counting import counted
from readback.commands.ledger_keys import KEY_FILE, VERIFIER, signer, trusted
from readback.commands.ledger_log import URL
from readback.commands.opening import settings_of
from readback.commands.terminal import BAD, OK, console, mark, note, print_json, safe
from readback.lifecycle import attest
from readback.lifecycle.audit_export import ExportReport, audit_export

EXIT_FAULT = 1


@click.command("export", short_help="The whole log as files, to be checked offline.")
@click.option("--tiles", "folder", metavar="FOLDER", required=True, help="A folder that is empty, or not there yet.")
@URL
@KEY_FILE
@options.as_json
def export(folder: str, url: str | None, key_file: str | None, as_json: bool) -> int:
    """Write every entry, the hash tiles over them and a signed checkpoint into FOLDER (C2SP tlog-tiles).

    \b
    The entries hold ids, targets, times and decisions of every tenant;
    requests, answers and readings are named by their hashes, and stay behind.

    The checkpoint is written last: a folder without one was broken off. Exit code 6: an entry is damaged, or something
    cannot be written.
    """
    signing = signer(key_file)
    store = bootstrap.store(settings_of(url).url, read_only=True)
    try:
        tiles = bootstrap.new_tiles(Path(folder))
        with counted("exporting the ledger", enabled=not as_json) as step:
            found = attest.export(store, signing, tiles, step).checkpoint
    finally:
        store.close()
    if as_json:
        print_json({"folder": folder, "origin": found.origin, "size": found.size, "root": found.root.hex()})
        return 0
    print(f"{found.size} entries of {safe(found.origin)} in {safe(folder)}")
    note(f"Next: readback ledger verify-export {safe(folder)} --key {safe(attest.key_of(signing))}")
    return 0


@click.command("verify-export", short_help="Check an exported log, without the ledger.")
@click.argument("folder", metavar="FOLDER")
@VERIFIER
@options.as_json
def verify_export(folder: str, key: str | None, as_json: bool) -> int:
    """Check an exported log from its files alone: every entry, hash and link, the tree, and the signature.

    Exit code 0: every entry up to the signed size is there as it was signed; 1: something is not, and the first bad
    entry is named; 2: there is no such folder.
    """
    authority = trusted(key)
    tiles, links = bootstrap.tiles(Path(folder)), bootstrap.links()
    try:
        with counted("reading the export", enabled=not as_json) as step:
            report = audit_export(tiles, [authority.key], authority.check, links, step)
    finally:
        links.close()
    if as_json:
        print_json({"ok": report.ok, "folder": folder, **asdict(report)})
    else:
        _tell(report, folder)
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
        note("It says nothing of entries after its checkpoint: compare that with one that was kept elsewhere.")
    else:
        note("Next: keep the folder as it is, and export the ledger again.")
