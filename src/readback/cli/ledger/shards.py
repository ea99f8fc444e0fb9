"""`readback ledger shards`: several ledgers side by side, and the log of their checkpoints. Ledgers are only read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import click

from readback import bootstrap
from readback.audit.evidence import shards as evidence
from readback.audit.evidence.attest import key_of
from readback.audit.evidence.shards import NEW, SHARD_PROOF_MAX_BYTES, Shard, parse_shard_proof
from readback.audit.maintenance.rotate import following
from readback.audit.sealing.seal import Authority
from readback.canon import Json, parse_json
from readback.cli import options
from readback.cli.ledger.keys import rotations_at
from readback.cli.ledger.log import OUT
from readback.cli.terminal import note, print_json, safe
from readback.config import Settings
from readback.errors import NotFoundError, UsageError
from readback.log.checkpoint import parse_checkpoint
from readback.log.note import VerifierKey, parse_key, parse_note
from readback.log.rotation import parse_rotations
from readback.log.tiles import CHECKPOINT
from readback.ports.storage.store import LedgerStore, StoredEvent

KEYS: Final = click.option(
    "--key",
    "keys",
    metavar="VKEY",
    multiple=True,
    required=True,
    help="Verifier key of a shard; once for each shard.",
)
FOLLOWED: Final = click.option(
    "--rotations",
    "followed",
    metavar="FILE",
    multiple=True,
    help="Rotation statements of a shard, so that heads of earlier keys count; once for each shard with such a file.",
)
HEADS_KEY: Final = click.option(
    "--heads-key", metavar="VKEY", required=True, help="The verifier key of the log of checkpoints."
)
_KEYS_REMEDY: Final = "Pass the output of the log's `readback ledger keys show`."


@click.group("shards")
def shards() -> None:
    """Manage the log of checkpoints of several ledgers."""


@shards.command("take", short_help="Add the last checkpoint of each shard, and sign.")
@click.argument("folder", metavar="FOLDER")
@click.option("--shard", "urls", metavar="URL", multiple=True, required=True, help="A ledger; may be repeated.")
@KEYS
@FOLLOWED
@click.option("--key-file", metavar="FILE", required=True, help="Key file of the log of checkpoints.")
@options.as_json
def take(
    folder: str, urls: tuple[str, ...], keys: tuple[str, ...], followed: tuple[str, ...], key_file: str, as_json: bool
) -> int:
    """Add the last checkpoint of each ledger to the log of checkpoints in FOLDER, and sign the head.

    \b
    A missing FOLDER is created. Each ledger has a key and a name of its own, and
    so has the log of checkpoints. Keep a copy of FOLDER/checkpoint elsewhere: this
    one head proves every entry of all ledgers.

    Nothing is added unless every ledger extends its last added checkpoint. A ledger that was cut off, rewritten or
    forked is named. Of two concurrent runs on one FOLDER the second waits for the first.

    Exit code 0: added, or nothing is new; 1: a ledger does not extend its checkpoint, or a signature belongs to another
    log.
    """
    signing, known = bootstrap.log_key(Path(key_file)), _by_name(keys, followed)
    authority, place = Authority(key_of(signing), bootstrap.verify_signature), Path(folder)
    with bootstrap.tiles_alone(place) as tiles:  # two that went on from one head would sign two histories
        if (place / CHECKPOINT).is_file():
            before = evidence.read(tiles, authority)
        else:
            bootstrap.new_tiles(place)
            before = NEW
        with _shards(urls, known) as given:
            found = evidence.add(before, given, signing)
        taken = len(found.notes) - len(before.notes)
        if found is not before:
            evidence.write(tiles, found)
    if as_json:
        print_json({"taken": taken, "checkpoints": len(found.notes), "origin": signing.name})
        return 0
    print(f"{taken} checkpoints taken; {len(found.notes)} in the log of {safe(signing.name)}.")
    return 0


@shards.command("prove", short_help="Print a proof of one action under the common head.")
@click.argument("folder", metavar="FOLDER")
@click.argument("action_id", metavar="ID")
@options.settings
@KEYS
@FOLLOWED
@HEADS_KEY
@OUT
def prove(
    folder: str,
    action_id: str,
    settings: Settings,
    keys: tuple[str, ...],
    followed: tuple[str, ...],
    heads_key: str,
    out: str | None,
) -> int:
    """Print the proof that the last entry of action ID is in its ledger under an added checkpoint, and that the log of
    checkpoints in FOLDER contains this checkpoint. `readback ledger shards verify-proof` checks the proof without
    ledger and FOLDER.

    Exit code 1: no added checkpoint covers the entry; 3: the entry has no sequence number yet.
    """
    settings, by = settings, _authority(parse_key(heads_key))
    known = evidence.read(bootstrap.tiles(Path(folder)), by)
    with _reading(settings.url) as store:
        entry = _last_entry(store, action_id, settings.tenant)
        data = evidence.prove(known, entry, _shard(store, _by_name(keys, followed)), by).to_bytes()
    if out is None:
        print(data.decode(), end="")
    else:
        bootstrap.keep_file(Path(out), data)
        note(f"Entry {entry.seq} (version {entry.version} of {safe(action_id)}): {len(data)} bytes in {safe(out)}.")
    return 0


@shards.command("verify-proof", short_help="Check a shard proof without a ledger.")
@click.argument("place", metavar="FILE")
@KEYS
@FOLLOWED
@HEADS_KEY
@options.as_json
def verify_proof(place: str, keys: tuple[str, ...], followed: tuple[str, ...], heads_key: str, as_json: bool) -> int:
    """Check a proof of `readback ledger shards prove`. Neither a ledger nor the log of checkpoints is needed.

    Exit code 0: the entry is under the head signed by the key; 1: not proved; 2: FILE is no such proof.
    """
    data = bootstrap.kept_file(Path(place), SHARD_PROOF_MAX_BYTES)
    if data is None:
        raise UsageError(
            f"There is no file {safe(place)}.", remedy="Name a file written by `readback ledger shards prove`."
        )
    proof = parse_shard_proof(data)
    origin = parse_checkpoint(parse_note(proof.entry.checkpoint).text).origin
    shard = _of(origin, _by_name(keys, followed))
    covering, head = proof.check(shard, _authority(parse_key(heads_key)))
    doubt = shard.doubt(covering)
    said: dict[str, Json] = {"origin": covering.origin, "size": covering.size, "seq": proof.entry.index + 1}
    if as_json:
        over: dict[str, Json] = {"origin": head.origin, "size": head.size, "checkpoint": proof.checkpoint.index + 1}
        unchecked: list[Json] = [doubt] if doubt else []
        print_json({"ok": True, **said, "heads": over, "unchecked": unchecked, "entry": parse_json(proof.entry.entry)})
        return 0
    print(f"Entry {said['seq']} of {covering.size}, signed by {safe(covering.origin)}:")
    print(f"checkpoint {proof.checkpoint.index + 1} of {head.size}, signed by {safe(head.origin)}.")
    if doubt:
        note(f"{doubt}.")
    return 0


@contextmanager
def _shards(urls: tuple[str, ...], known: dict[str, Authority]) -> Iterator[list[Shard]]:
    with ExitStack() as stack:
        yield [_shard(stack.enter_context(_reading(url)), known) for url in urls]


@contextmanager
def _reading(url: str) -> Iterator[LedgerStore]:
    store = bootstrap.store(url, read_only=True)
    try:
        yield store
    finally:
        store.close()


def _by_name(keys: tuple[str, ...], followed: tuple[str, ...]) -> dict[str, Authority]:
    """The accepted signers of each log, by name. Raises UsageError for contradictions."""
    given = [parse_key(each) for each in keys]
    stated: dict[str, bytes] = {}
    for place in followed:
        data = rotations_at(place, None) or b""
        for each in parse_rotations(data, bootstrap.verify_signature)[:1]:
            stated[each.head.origin] = data
    names = [key.name for key in given]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise UsageError(
            f"Several --key options name the log {safe(twice)}.",
            remedy="Pass one key, and the rotation file beside the key file as --rotations FILE.",
        )
    other = next((name for name in stated if name not in names), "")
    if other:
        raise UsageError(f"No --key belongs to the log {safe(other)} of --rotations.", remedy=_KEYS_REMEDY)
    return {key.name: following(key, bootstrap.verify_signature, stated.get(key.name)) for key in given}


def _authority(key: VerifierKey) -> Authority:
    return Authority(key, bootstrap.verify_signature)


def _of(origin: str, known: dict[str, Authority]) -> Authority:
    if origin not in known:
        raise UsageError(f"No --key belongs to the log {safe(origin)}.", remedy=_KEYS_REMEDY)
    return known[origin]


def _shard(store: LedgerStore, known: dict[str, Authority]) -> Shard:
    """A ledger with the key of its name. A ledger never sealed has no name and no checkpoint yet."""
    head = store.checkpoint()
    if head is None:
        return Shard(store, next(iter(known.values())))
    return Shard(store, _of(parse_checkpoint(parse_note(head.note).text).origin, known))


def _last_entry(store: LedgerStore, action_id: str, tenant: str) -> StoredEvent:
    held = store.projection(action_id)
    events = store.events(action_id) if held is not None and held.projection.tenant == tenant else []
    if not events:
        raise NotFoundError(f"There is no action {safe(action_id)} in tenant {safe(tenant)}.")
    return events[-1]
