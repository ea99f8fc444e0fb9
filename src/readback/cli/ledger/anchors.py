"""`readback ledger anchors`: the anchors of checkpoints and the newest checkpoint of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import click

from readback import bootstrap
from readback.audit.checks.ledger import Fault
from readback.audit.sealing.anchor import Compared, compare, hand_over
from readback.audit.sealing.seal import Authority
from readback.canon import Json, ReadbackError
from readback.cli import options
from readback.cli.ledger.keys import KEY_FILE, authority_of, signer
from readback.cli.ledger.log import URL
from readback.cli.sessions import settings_of
from readback.cli.terminal import BAD, OK, console, mark, moment, note, print_json, safe
from readback.log.fault import LogError
from readback.ports.storage.log import AnchorMark
from readback.ports.storage.store import LedgerStore


@click.command("anchors", short_help="List anchors and their newest checkpoints.")
@click.option("--offer", is_flag=True, help="Send the last checkpoint to each anchor now.")
@URL
@KEY_FILE
@options.as_json
def anchors(offer: bool, url: str | None, key_file: str | None, as_json: bool) -> int:
    """List the anchors of the settings' [seal] and earlier anchors: the size of each one's last checkpoint, and the
    reason for a missing later checkpoint.

    Exit code 0: every anchor has the last checkpoint; 1: an anchor lags, or holds another log; 6: the ledger cannot be
    read.
    """
    settings = settings_of(url)
    bootstrap.store(settings.url, read_only=True).close()
    store = bootstrap.store(settings.url, read_only=not offer)
    try:
        refused = _offered(store, settings.seal.anchors, settings.seal.secret, key_file) if offer else {}
        known = {mark.name: mark for mark in store.anchors()}
        for name in settings.seal.anchors:
            known.setdefault(name, AnchorMark(name, 0, 0, refused.get(name, "")))
        head = store.checkpoint()
    finally:
        store.close()
    size = head.size if head is not None else 0
    behind = [each for each in known.values() if each.size < size or each.said]
    if as_json:
        listed: list[Json] = [asdict(each) for each in known.values()]
        print_json({"size": size, "anchors": listed, "behind": len(behind)})
    else:
        _tell(sorted(known.values(), key=lambda each: each.name), size)
    return 1 if behind else 0


def _offered(store: LedgerStore, urls: Iterable[str], secret: str, key_file: str | None) -> dict[str, str]:
    """Send the last checkpoint to each anchor. Returns the error codes by name."""
    authority, refused = authority_of(signer(key_file), key_file), dict[str, str]()
    at_us = bootstrap.runtime().now_us()
    for url in urls:
        anchor = bootstrap.anchor(url, secret)
        try:
            hand_over(store, anchor, authority, at_us)
        except ReadbackError as error:
            refused[anchor.name] = error.code
            size = next((each.size for each in store.anchors() if each.name == anchor.name), 0)
            store.mark(AnchorMark(anchor.name, size, at_us, error.code))
            note(f"Error: {safe(anchor.name)}: {error.code}: {safe(error.message)}")
            note(f"Next: {safe(error.remedy)}")
    return refused


def _tell(known: list[AnchorMark], size: int) -> None:
    from rich.text import Text

    out = console()
    if not known:
        print("[seal] names no anchor, and no anchor has a checkpoint of this ledger.")
        note("Next: add anchors = [...] under [seal] to the settings; only an anchor shows a cut of the log.")
        return
    for each in known:
        fine = each.size == size and not each.said
        since = f", {moment(each.at_us)}" if each.at_us else ""
        said = f"; {each.said}" if each.said else ""
        line = f" {safe(each.name)}: {each.size} of {size} entries{since}{said}"
        out.print(Text.assemble(mark(OK if fine else BAD), line), soft_wrap=True)


def compared(
    store: LedgerStore, urls: Iterable[str], secret: str, authority: Authority
) -> tuple[list[Compared], list[Fault]]:
    """The checkpoints of each anchor and the faults they show. Raises AnchorError if an anchor does not answer."""
    found: list[Compared] = []
    faults: list[Fault] = []
    for url in urls:
        anchor = bootstrap.anchor(url, secret)
        try:
            found.append(compare(store, anchor, authority))
        except LogError as error:
            faults.append(Fault(error.code, f"The anchor {anchor.name}: {error.message}"))
    for each in found:
        if each.size < each.took:
            held = f"a checkpoint of {each.size}" if each.size else "no checkpoint"
            said = f"The anchor {each.name} was set back: after a checkpoint of {each.took} entries it shows {held}."
            faults.append(Fault("log.anchor", said))
    return found, faults
