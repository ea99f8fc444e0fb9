"""`readback ledger checkpoint`, `prove`, `verify-proof`: signed heads, and proofs of single actions.

The commands open the ledger read-only. Every printed head was recomputed, and every printed proof was checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from readback import bootstrap
from readback.audit.evidence import attest
from readback.audit.evidence import sealed as attest_sealed
from readback.audit.evidence.attest import Authority
from readback.audit.maintenance.restore import hold_in_flight
from readback.audit.sealing.seal import place_all, seal_all
from readback.canon import Json, parse_json
from readback.cli import options
from readback.cli.ledger.keys import KEY_FILE, authority_of, signer, signing_with, trusted, verifier
from readback.cli.progress import counted
from readback.cli.prompt import signing
from readback.cli.sessions import settings_of
from readback.cli.terminal import moment, note, print_json, safe, value
from readback.config import Settings
from readback.domain.events import ParsedEnvelope, open_envelope
from readback.drivers.ledger_time import in_ledger_time
from readback.errors import NotFoundError, UsageError
from readback.log.checkpoint import SignedCheckpoint, open_checkpoint
from readback.log.fault import LogFormatError
from readback.log.note import NOTE_MAX_BYTES
from readback.log.proof import PROOF_MAX_BYTES, EntryProof, parse_proof
from readback.log.tiles import CHECKPOINT, TILE_BYTES

if TYPE_CHECKING:
    from readback.ports.anchor import Anchor
    from readback.ports.storage.store import LedgerStore, StoredEvent


URL = click.option("--url", metavar="URL", help="The ledger (READBACK_URL; else sqlite:///readback.db).")
OUT = click.option("--out", metavar="FILE", help="Write to this file, and replace its content.")


def kept_checkpoint(place: str, authority: Authority) -> SignedCheckpoint:
    """The checkpoint in a file, with the signature checked. Raises UsageError, LogFormatError, LogSignatureError."""
    data = bootstrap.kept_file(Path(place), NOTE_MAX_BYTES)
    if data is None:
        raise UsageError(f"There is no file {safe(place)}.", remedy="Name a stored checkpoint.")
    return open_checkpoint(data, authority.keys, authority.check)


def existing(url: str | None) -> LedgerStore:
    """The ledger, for writing. Raises StoreError without a ledger."""
    named = settings_of(url).url
    bootstrap.store(named, read_only=True).close()
    return bootstrap.store(named)


@click.command("checkpoint", short_help="Sign the head of the log, for a copy elsewhere.")
@URL
@KEY_FILE
@OUT
@click.option(
    "--witness", metavar="FILE", help="A file elsewhere with the last checkpoint; the command checks and replaces it."
)
@options.as_json
def checkpoint(url: str | None, key_file: str | None, out: str | None, witness: str | None, as_json: bool) -> int:
    """Sign the head of the log with the log's own key, store the checkpoint in the ledger, and print it.

    The tree extends the previous checkpoint. Sealed entries are not read again, and nothing is signed if the log does
    not extend them (`readback ledger verify` recomputes everything).

    \b
    Keep the checkpoint out of reach of the ledger's writers. Only such a copy
    later shows that no earlier entry was cut off or changed.

    With --witness nothing is signed unless the log still begins with the entries covered by the checkpoint in FILE; the
    new checkpoint then replaces FILE. FILE may be missing the first time.

    Exit code 0: signed; 1: the log does not extend its last checkpoint or the witness's; 6: an entry is damaged, or
    another process wrote FILE meanwhile.
    """
    with signing_with(key_file) as signing:
        authority = authority_of(signing, key_file)
        kept = bootstrap.anchor(Path(witness).absolute().as_uri()) if witness is not None else None
        seen = _seen(kept, authority)
        before = [seen.checkpoint] if seen else []
        store = existing(url)
        try:
            place_all(store)
            signed = seal_all(store, signing, authority, bootstrap.runtime().now_us(), before)
        finally:
            store.close()
    data, found = signed.to_bytes(), signed.checkpoint
    if kept is not None:
        kept.take(data, found.size, lambda _: [])  # fails if another process replaced the file meanwhile
    if out is not None:
        bootstrap.keep_file(Path(out), data)
    if as_json:
        said: dict[str, Json] = {"origin": found.origin, "size": found.size, "root": found.root.hex()}
        print_json({**said, "checkpoint": data.decode(), "goes_on_from": seen.checkpoint.size if seen else None})
        return 0
    print(data.decode(), end="")
    if seen is not None:
        note(f"The log continues the witness's checkpoint of {seen.checkpoint.size} entries.")
    note(f"Signed: {found.size} entries of {safe(found.origin)}. Store the file out of reach of the ledger's writers.")
    return 0


def _seen(kept: Anchor | None, authority: Authority) -> SignedCheckpoint | None:
    """The witness's last checkpoint, or None for a new witness."""
    note = kept.last() if kept is not None else None
    return None if note is None else open_checkpoint(note, authority.keys, authority.check)


@click.command("prove", short_help="Print a proof of one action for an offline check.")
@click.argument("action_id", metavar="ID")
@click.option(
    "--version", metavar="N", type=click.IntRange(min=1), help="Number of the entry (default: the last entry)."
)
@options.settings
@KEY_FILE
@OUT
@click.option(
    "--checkpoint", "kept", metavar="FILE", help="Prove against this checkpoint (default: the last checkpoint)."
)
@click.option("--tiles", "folder", metavar="FOLDER", help="Read hashes and checkpoint from this export.")
@verifier
def prove(
    action_id: str,
    version: int | None,
    settings: Settings,
    key_file: str | None,
    out: str | None,
    kept: str | None,
    folder: str | None,
    key: str | None,
) -> int:
    """Print the proof (C2SP tlog-proof) that the log contains the last entry of action ID: the entry, the path to the
    root, and the signed checkpoint. `readback ledger verify-proof`, or any other checker of this format, verifies the
    proof.

    For a sealed entry the command reads a few tiles, for any length of the log. Otherwise it also reads the entries
    since the last checkpoint.
    """
    if kept is not None and folder is not None:
        raise UsageError("An export contains its own checkpoint.", remedy="Pass --checkpoint or --tiles, not both.")
    store = bootstrap.store(settings.url, read_only=True)
    try:
        entry = _entry(store, action_id, settings.tenant, version)
        proof = _proof(store, entry, key_file, kept, folder, key)
    finally:
        store.close()
    data = proof.to_bytes()
    if out is not None:
        bootstrap.keep_file(Path(out), data)
        note(f"Entry {entry.seq} (version {entry.version} of {safe(action_id)}): {len(data)} bytes in {safe(out)}.")
    else:
        print(data.decode(), end="")
    return 0


def _entry(store: LedgerStore, action_id: str, tenant: str, version: int | None) -> StoredEvent:
    held = store.projection(action_id)
    events = store.events(action_id) if held is not None and held.projection.tenant == tenant else []
    if not events:
        raise NotFoundError(f"There is no action {safe(action_id)} in tenant {safe(tenant)}.")
    if version is not None and version > len(events):
        raise NotFoundError(f"Action {safe(action_id)} has {len(events)} entries, and no entry {version}.")
    return events[-1 if version is None else version - 1]


def _proof(
    store: LedgerStore, entry: StoredEvent, key_file: str | None, kept: str | None, folder: str | None, key: str | None
) -> EntryProof:
    if folder is not None:
        authority = trusted(key)
        tiles = bootstrap.tiles(Path(folder))
        signed = kept_checkpoint(str(Path(folder) / CHECKPOINT), authority)

        def fetch(path: str) -> bytes:
            found = tiles.read(path, TILE_BYTES)
            if found is None:
                raise LogFormatError(f"The export has no file {path}.")
            return found

        return attest.prove_from_tiles(fetch, entry, authority, signed)
    with counted("reading the ledger", enabled=True) as step:
        if kept is not None:
            authority = trusted(key)
            covering = kept_checkpoint(kept, authority)
            sealed = attest_sealed.prove_at(store, entry, authority, covering)
            return sealed or attest.prove_by_reading(store, entry, authority, covering, step)
        return proof_now(store, entry, key_file, step)


def proof_now(store: LedgerStore, entry: StoredEvent, key_file: str | None, step: attest.Progress) -> EntryProof:
    """The proof against the last checkpoint, or against a new one. Only a new checkpoint uses the key."""
    sealed = attest_sealed.prove_sealed(store, entry, authority_of(signer(key_file), key_file))
    if sealed is not None:
        return sealed
    with signing_with(key_file) as signing:
        return attest.prove_now(store, entry, authority_of(signing, key_file), signing, step)


@click.command("verify-proof", short_help="Check a proof without the ledger.")
@click.argument("place", metavar="FILE")
@verifier
@options.as_json
def verify_proof(place: str, key: str | None, as_json: bool) -> int:
    """Check a proof of `readback ledger prove` and print the proved facts. No ledger is needed.

    Exit code 0: the entry is in the log signed by the key; 1: not proved; 2: FILE is no proof.
    """
    data = bootstrap.kept_file(Path(place), PROOF_MAX_BYTES)
    if data is None:
        raise UsageError(f"There is no file {safe(place)}.", remedy="Name a file written by `readback ledger prove`.")
    authority = trusted(key)
    proof = parse_proof(data)
    covering = attest.covering(proof, authority)
    opened, doubt = open_envelope(proof.entry), authority.doubt(covering)
    if as_json:
        said = {"ok": True, "origin": covering.origin, "size": covering.size, "seq": proof.index + 1}
        print_json({**said, "unchecked": [doubt] if doubt else [], "entry": parse_json(proof.entry)})
        return 0
    print(f"Entry {proof.index + 1} of {covering.size}, signed by {safe(covering.origin)}:")
    for line in _said(opened):
        print(f"  {line}")
    note("The entry is in the log as signed. No proof can show whether the entry was true when written.")
    if doubt:
        note(f"{doubt}.")
    return 0


def _said(opened: ParsedEnvelope) -> list[str]:
    event = opened.event
    states = " > ".join(state.value for state in event.path) or "-"
    return [
        f"action {safe(opened.action_id)}, version {opened.version}, tenant {safe(opened.tenant)}",
        f"{event.kind.value} at {moment(event.at_us)}; states {states}",
        f"data {value(event.data)}",
    ]


# `readback ledger hold`: for a ledger that other tools put back, or that lost its end; `restore` does it by itself.


@click.command("hold", short_help="Hold actions in flight for review after a ledger lost its end.")
@click.option("--reason", metavar="TEXT", default="The ledger lost its end.", help="The reason, for the record.")
@click.option("--who", metavar="NAME", help="The operator (default: human: and the name of this account).")
@URL
@options.as_json
def hold(reason: str, who: str | None, url: str | None, as_json: bool) -> int:
    """Hold actions in flight for review after the database's own tools restored the ledger (a dump, a base backup), or
    after a standby took over without the last commits. `ledger restore` does the same by itself.

    \b
    Work after the end of such a ledger is missing from it. So every action and
    saga that was in flight, or that had failed and could have been requested
    again, counts as executed and is held for review; none is executed by itself.
    Operations first requested after the ledger's end are unknown here and would
    be executed again.

    Stop every process on the ledger first, and start the processes again afterwards.

    Exit code 0: all are held; 6: another process uses the ledger, or the ledger cannot be written.
    """
    person, store = signing(who), existing(url)
    try:
        now_us = in_ledger_time(store, bootstrap.runtime()).now_us()
        with counted("holding actions in flight", enabled=not as_json) as step:
            held = hold_in_flight(store, person, reason, now_us, step)
    finally:
        store.close()
    if as_json:
        print_json({"held": {"actions": held.actions, "sagas": held.sagas}})
        return 0
    print(f"{held.actions} actions and {held.sagas} sagas were in flight, or may have been run again.")
    note("They await review: readback review list")
    note("Operations first requested after the ledger's end are unknown here and would be executed again:")
    note("check the systems of record before running any of them.")
    return 0
