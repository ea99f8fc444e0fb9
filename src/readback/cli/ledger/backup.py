"""`readback ledger backup` and `restore`: copy a ledger during operation, and check a copy before use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import click

from readback import bootstrap
from readback.audit.checks.entries import Heads
from readback.audit.checks.ledger import AuditReport, Fault, audit
from readback.audit.maintenance.restore import Held, hold_in_flight, judge
from readback.audit.sealing.seal import Authority
from readback.canon import Json
from readback.cli import options
from readback.cli.gc_tuning import READING, undisturbed
from readback.cli.ledger.anchors import compared
from readback.cli.ledger.keys import trusted, verifier
from readback.cli.ledger.log import URL, kept_checkpoint
from readback.cli.progress import counted, measured
from readback.cli.prompt import signing
from readback.cli.sessions import settings_of
from readback.cli.terminal import note, print_json, safe
from readback.errors import BackupError, RestoreError, StoreError, UsageError
from readback.log.checkpoint import Checkpoint


@click.command("backup", short_help="Copy the ledger during operation.")
@click.option("--out", metavar="FILE", required=True, help="The copy; a new file.")
@click.option("--no-verify", is_flag=True, help="Do not recompute the copy. A restore always recomputes.")
@URL
@options.as_json
def backup(out: str, no_verify: bool, url: str | None, as_json: bool) -> int:
    """Copy the ledger at one moment into FILE, while other processes write.

    \b
    The copy is recomputed like `ledger verify`, and appears under its name
    complete and durable, or not at all. The copy holds the ledger's contents, so
    keep the file confidential. Later erasures do not reach the copy.

    Exit code 0: a sound copy exists; 6: no copy.
    """
    settings, place = settings_of(url), Path(out)
    with measured("copying the ledger", enabled=not as_json) as step:
        bootstrap.backup(settings.url, place, step)
    report = AuditReport()
    if not no_verify:
        report = _recomputed(f"sqlite:///{quote(str(place.absolute()))}", as_json=as_json)
        if not report.ok:
            first = report.faults[0]
            raise BackupError(
                f"The copy {safe(out)} exists and is not sound: {first.code}: {safe(first.what)}",
                remedy="Run `readback ledger verify` on the ledger. The same fault there means a damaged ledger.",
                code="backup.unsound",
            )
    if as_json:
        head: Json = None if no_verify else {"seq": report.head_seq, "leaf": report.head_leaf}
        print_json({"file": out, "bytes": place.stat().st_size, "verified": not no_verify, "head": head})
        return 0
    checked = (
        "not recomputed" if no_verify else f"{report.events} entries, sound; head {report.head_seq}:{report.head_leaf}"
    )
    print(f"{safe(out)}: {checked}")
    note("Store the copy elsewhere, with a checkpoint of the ledger: `readback ledger checkpoint --out FILE`.")
    return 0


def _recomputed(
    url: str,
    kept: Sequence[Checkpoint] = (),
    places: Sequence[str] = (),
    authority: Authority | None = None,
    *,
    as_json: bool,
) -> AuditReport:
    store, faults, outside = bootstrap.store(url), list[Fault](), [*kept]
    try:
        if authority is not None and places:
            found, faults = compared(store, places, settings_of().seal.secret, authority)
            outside += [each.checkpoint for each in found if each.checkpoint is not None]
            if not outside and not faults:
                raise UsageError("No anchor holds a checkpoint.", remedy="Pass another one, or --accept-loss alone.")
        with undisturbed(READING), counted("reading the copy", enabled=not as_json) as step:
            report = audit(store, step, heads=Heads(outside) if outside else None, authority=authority)
            report.add(faults)
            report.add(Fault("store.damage", line) for line in bootstrap.store_damage(store))
        for line in bootstrap.store_not_compared(store):
            note(f"Of the copy, {line}.")
    finally:
        store.close()
    return report


@click.command("restore", short_help="Check a backup and put it in place.")
@click.argument("file", metavar="FILE")
@click.option("--to", "to", metavar="URL", required=True, help="URL of the restored ledger; nothing may exist there.")
@click.option("--checkpoint", "kept", metavar="FILE", multiple=True, help="A checkpoint kept elsewhere.")
@click.option("--anchor", "places", metavar="URL", multiple=True, help="An anchor with checkpoints; see [seal].")
@verifier
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Continue although the end is missing, or nothing shows whether the end is missing.",
)
@click.option("--reason", metavar="TEXT", default="The ledger is lost.", help="The reason, for the record.")
@click.option("--who", metavar="NAME", help="The operator (default: human: and the name of this account).")
@options.as_json
def restore(
    file: str,
    to: str,
    kept: tuple[str, ...],
    places: tuple[str, ...],
    key: str | None,
    accept_loss: bool,
    reason: str,
    who: str | None,
    as_json: bool,
) -> int:
    """Recompute a copy of the backup FILE, compare it with the kept heads, and put it in place.

    \b
    Nothing is overwritten. The copy lacks all later work. So every action and
    saga that was in flight, or that had failed and could have been requested
    again, counts as executed and is held for review; none is executed again by
    itself. Operations first requested after the backup are unknown here and would
    be executed again. Data erased after the backup is back: erase it again.

    Exit code 0: in place; 2: no head is given, and the loss is not accepted; 6: the backup is damaged or cut, or the
    target exists.
    """
    if not (kept or places or accept_loss):
        raise UsageError(
            "Nothing says how far the ledger reached.",
            remedy="Pass the last checkpoint as --checkpoint, the checkpoint's anchor as --anchor, or --accept-loss.",
        )
    person, authority = signing(who), trusted(key) if kept or places else None
    heads = [kept_checkpoint(place, authority).checkpoint for place in kept] if authority is not None else []
    with (
        measured("copying the backup", enabled=not as_json) as copied,
        bootstrap.standing_by(Path(file), to, copied) as (beside, put),
    ):
        try:
            report = _recomputed(beside, heads, places, authority, as_json=as_json)
        except StoreError as error:
            said = f"The backup {safe(file)} cannot be read: {error.message}"
            raise RestoreError(said, remedy="Take another backup.", code="restore.damaged") from error
        lost = judge(report, accept_loss=accept_loss)
        held = _made_safe(beside, person, reason, as_json=as_json)
        put()
    _tell(to, report, lost, held, known=bool(kept or places), as_json=as_json)
    return 0


def _made_safe(url: str, who: str, reason: str, *, as_json: bool) -> Held:
    store = bootstrap.store(url)
    try:
        with counted("holding actions in flight", enabled=not as_json) as step:
            held = hold_in_flight(store, who, reason, bootstrap.runtime().now_us(), step)
        if not store.purge():
            raise RestoreError("Another process has the copy open.", code="restore.in-use")
    finally:
        store.close()
    return held


def _tell(to: str, report: AuditReport, lost: list[str], held: Held, *, known: bool, as_json: bool) -> None:
    if as_json:
        head: dict[str, Json] = {"seq": report.head_seq, "leaf": report.head_leaf}
        said: dict[str, Json] = {"url": to, "events": report.events, "head": head, "lost": [*lost]}
        print_json({**said, "checked": known, "held": {"actions": held.actions, "sagas": held.sagas}})
        return
    print(f"{safe(to)}: {report.events} entries, head {report.head_seq}:{report.head_leaf}")
    for each in lost:
        note(f"Lost: {safe(each)}")
    if not known:
        note("Without a head, missing entries cannot be detected.")
    what = f"{held.actions} actions and {held.sagas} sagas were in flight, or may have been run again."
    note(f"{what} They await review: readback review list")
    note("Operations first requested after the backup are unknown here and would be executed again:")
    note("check the systems of record before running any of them. Later erasures are undone: erase again.")
    if lost:
        note("The next checkpoint would contradict earlier checkpoints: create a key with a new log name")
        note("(`readback ledger keys create --name NAME`), and send the new name and key to the verifiers.")
