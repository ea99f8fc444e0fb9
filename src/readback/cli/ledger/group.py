"""`readback ledger`: evidence commands, and `verify`, which recomputes the whole log. Repairs nothing."""

from __future__ import annotations

import re
from dataclasses import asdict

import click

from readback import bootstrap
from readback.audit.checks.entries import Heads
from readback.audit.checks.ledger import AuditReport, Fault, audit
from readback.canon import Json
from readback.cli import options
from readback.cli.gc_tuning import READING, undisturbed
from readback.cli.ledger.anchors import anchors, compared
from readback.cli.ledger.backup import backup, restore
from readback.cli.ledger.erase import erase
from readback.cli.ledger.export import export, verify_export
from readback.cli.ledger.keys import log_keys, trusted, verifier
from readback.cli.ledger.log import checkpoint, hold, kept_checkpoint, prove, verify_proof
from readback.cli.ledger.records import evidence, schema
from readback.cli.ledger.shards import shards
from readback.cli.progress import measured
from readback.cli.sessions import settings_of
from readback.cli.terminal import BAD, OK, console, mark, note, print_json, safe
from readback.client.approving import approvals_of
from readback.config import shown
from readback.errors import UsageError

EXIT_FAULT = 1
_LEAF = re.compile("[0-9a-f]{64}")


@click.group("ledger")
def ledger() -> None:
    """Verify the ledger, sign its head, and prove entries."""


@ledger.command("verify", short_help="Recompute and compare the whole log.")
@click.option("--url", metavar="URL", help="The ledger (READBACK_URL; else sqlite:///readback.db).")
@click.option("--head", metavar="SEQ:LEAF", help="A head stored elsewhere; the log must still contain this head.")
@click.option("--checkpoint", "kept", metavar="FILE", multiple=True, help="A checkpoint kept elsewhere.")
@click.option("--anchor", "places", metavar="URL", multiple=True, help="An anchor with checkpoints; see [seal].")
@verifier
@options.as_json
def verify(
    url: str | None,
    head: str | None,
    kept: tuple[str, ...],
    places: tuple[str, ...],
    key: str | None,
    as_json: bool,
) -> int:
    """Recompute every hash, fold every action again, and compare all derived data with the entries.

    \b
    Checked: sequence numbers without gaps, leaf hashes, canonical envelopes,
    versions and links of each action, projections, digests of evidence, requests
    and keys, idempotency records, approvals and signatures (by the approvers of
    the settings), the sealed log (every tile and checkpoint), and the store's
    own files.

    Exit code 0: sound; 1: a fault; 6: the ledger cannot be read. A log cut off at its end, or rewritten as a whole,
    looks sound from inside. Keep the signed `ledger checkpoint` (or the printed head) elsewhere, and pass it as
    --checkpoint (or
    --head) later. Several checkpoints must all be covered. --anchor compares with an anchor's checkpoints; a witness
    reports whether the log extends its last seen head.
    """
    kept_head, settings = _head(head), settings_of(url)
    asked = bool(kept or places or key is not None or settings.signing_key_file)
    authority = trusted(key) if asked else None
    outside = [kept_checkpoint(place, authority).checkpoint for place in kept] if authority is not None else []
    outside += authority.stated if authority is not None else ()
    known = approvals_of(settings.approvers) if settings.approvers else None
    store = bootstrap.store(settings.url, read_only=True)
    try:
        faults: list[Fault] = []
        if authority is not None and places:
            found, faults = compared(store, places, settings.seal.secret, authority)
            outside += [each.checkpoint for each in found if each.checkpoint is not None]
        total = 2 * store.last_seq()
        with undisturbed(READING), measured("reading the ledger", enabled=not as_json) as bar:
            report = audit(
                store, lambda done: bar(done, total), kept_head, known, Heads(outside) if outside else None, authority
            )
            report.add(faults)
            report.add(Fault("store.damage", line) for line in bootstrap.store_damage(store))
            report.not_compared += bootstrap.store_not_compared(store)
    finally:
        store.close()
    if as_json:
        print_json(_described(report, shown(settings.url)))
    else:
        _tell(report, shown(settings.url))
    return 0 if report.ok else EXIT_FAULT


def _head(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    seq, colon, leaf = text.partition(":")
    if not colon or not seq.isascii() or not seq.isdigit() or not _LEAF.fullmatch(leaf):
        raise UsageError(
            f"{text!r} is no head of a log.", remedy="Pass the head as SEQ:LEAF, as printed by `ledger verify`."
        )
    return int(seq), leaf


def _described(report: AuditReport, url: str) -> dict[str, Json]:
    return {
        "ok": report.ok,
        "url": url,
        "events": report.events,
        "actions": report.actions,
        "evidence": report.evidence,
        "erased": report.erased,
        "keys": report.keys,
        "checkpoints": report.checkpoints,
        "sealed": report.sealed,
        "unplaced": report.unsequenced,
        "head": {"seq": report.head_seq, "leaf": report.head_leaf},
        "faults": [asdict(fault) for fault in report.faults],
        "faults_total": report.faults_total,
        "truncation": report.truncation,
        "signatures": {"kept": report.signatures.kept, "not_kept": report.signatures.not_kept},
        "unchecked": list(report.unchecked),
    }


def _tell(report: AuditReport, url: str) -> None:
    from rich.text import Text

    out = console()
    word = "sound" if report.ok else f"{report.faults_total} faults"
    out.print(Text.assemble(mark(OK if report.ok else BAD), " ", (f"The ledger {safe(url)}: {word}", "bold")))
    counted = f"{report.events} entries, {report.actions} actions, {report.evidence} pieces of evidence"
    gone = f" ({report.erased} of them erased)" if report.erased else ""
    out.print(Text(f"  {counted}{gone}, {report.keys} idempotency records"))
    if report.unsequenced:
        out.print(Text(f"  {report.unsequenced} further entries have no position in the log yet; this is not a fault"))
    if report.checkpoints:
        out.print(Text(f"  {report.checkpoints} checkpoints, the last of {report.sealed} entries"))
    if report.faults:
        first = report.faults[0]
        out.print(Text(f"  first: entry {first.seq or '-'}: {first.code}: {safe(first.what)}"), soft_wrap=True)
    for fault in report.faults[1:]:
        out.print(Text(f"  also:  entry {fault.seq or '-'}: {fault.code}: {safe(fault.what)}"), soft_wrap=True)
    hidden = report.faults_total - len(report.faults)
    if hidden:
        out.print(Text(f"  and {hidden} more"))
    out.print(Text(f"  head: {report.head_seq}:{report.head_leaf}"), soft_wrap=True)
    for said in (report.truncation, *report.unchecked):
        out.print(Text(f"  {said}"))
    if not report.ok:
        note("Nothing was changed. Next: leave the file unchanged, and compare the file with the last backup.")


_COMMANDS = (
    anchors,
    backup,
    checkpoint,
    erase,
    evidence,
    export,
    hold,
    log_keys,
    prove,
    restore,
    schema,
    shards,
    verify_export,
    verify_proof,
)
for each in _COMMANDS:
    ledger.add_command(each)
