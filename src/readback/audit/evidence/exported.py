"""Audit of an exported log, from its files alone: entries, tree, signature, and the links of each action.

Called by `ledger verify-export`, without the ledger. It believes no hash that it finds: the entries are hashed, every
tile is made again and compared, and what comes out at the root has to be what the log's key signed. What it finds it
names, the first bad entry first; it repairs nothing.

Steps: 1. the checkpoint and its signature. 2. each bundle. 3. each entry: its tile, its canonical form, its links.
4. the tiles above. 5. the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from readback.audit.checks.ledger import FAULTS_KEPT_MAX, Fault, nobody
from readback.audit.evidence.attest import Progress
from readback.canon import ReadbackError, envelope_bytes, parse_json
from readback.canon.frozen import dataclass
from readback.domain.events import Opened, open_envelope
from readback.log.checkpoint import Checkpoint, open_checkpoint, parse_checkpoint
from readback.log.fault import LogFormatError, LogSignatureError
from readback.log.note import NOTE_MAX_BYTES, Check, VerifierKey, parse_note
from readback.log.tiles import (
    BUNDLE_MAX_BYTES,
    CHECKPOINT,
    TILE_BYTES,
    WIDTH,
    TileWriter,
    bundle_path,
    bundles_of,
    parse_bundle,
    parse_tile,
    tile_path,
)
from readback.log.tree import leaf_hash
from readback.ports.storage.log import Links, Tiles


@dataclass(slots=True)
class ExportReport:
    """What was read and what was found. An `ok` one says nothing of entries after the checkpoint."""

    origin: str = ""
    size: int = 0
    root: str = ""
    entries: int = 0
    faults: list[Fault] = field(default_factory=list)
    faults_total: int = 0

    @property
    def ok(self) -> bool:
        """Every entry up to the signed size is there, and is what was signed."""
        return self.faults_total == 0

    def add(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self.faults_total += 1
            if len(self.faults) < FAULTS_KEPT_MAX:
                self.faults.append(fault)


def audit_export(
    tiles: Tiles,
    keys: Sequence[VerifierKey],
    check: Check,
    links: Links,
    progress: Progress = nobody,
    stated: Iterable[Checkpoint] = (),
) -> ExportReport:
    """Reads everything that the checkpoint covers. Raises StoreError only where a file cannot be read at all.

    `stated`: heads that were stated as the log's key was rotated; as far as it goes, the log has to go on from them.
    """
    report = ExportReport()
    checkpoint = _checkpoint(tiles, keys, check, report)  # 1
    if checkpoint is None:
        return report
    report.origin, report.size, report.root = checkpoint.origin, checkpoint.size, checkpoint.root.hex()
    writer, roots = TileWriter(), {each.size: each.root for each in stated if each.size}
    for place, width in bundles_of(checkpoint.size):  # 2
        try:
            bundle = parse_bundle(_file(tiles, bundle_path(place, width), BUNDLE_MAX_BYTES), width)
        except LogFormatError as error:
            report.add([Fault("export.bundle", error.message, place * WIDTH + 1)])
            return report  # what comes after it cannot be placed
        _entries(tiles, place, bundle, (writer, roots), links, report)
        report.entries += len(bundle)
        progress(report.entries)
    report.add(_above(tiles, list(writer.finish())))
    if writer.tree.root() != checkpoint.root:  # 5
        said = f"The {checkpoint.size} entries have another root than the one that {checkpoint.origin} signed."
        report.add([Fault("export.root", said)])
    return report


def _checkpoint(tiles: Tiles, keys: Sequence[VerifierKey], check: Check, report: ExportReport) -> Checkpoint | None:
    """The checkpoint, where it can be read. One that is not signed is named, and what it says is looked at still."""
    try:
        data = _file(tiles, CHECKPOINT, NOTE_MAX_BYTES)
        found = parse_checkpoint(parse_note(data).text)
    except LogFormatError as error:
        report.add([Fault("export.checkpoint", error.message)])
        return None
    try:
        open_checkpoint(data, keys, check)
    except LogSignatureError as error:
        report.add([Fault("export.signature", error.message)])
    return found


def _file(tiles: Tiles, path: str, bytes_max: int) -> bytes:
    found = tiles.read(path, bytes_max)
    if found is None:
        raise LogFormatError(f"The file {path} is not there.")
    return found


Made = tuple[TileWriter, dict[int, bytes]]
"""The tree as it is made again, and roots by the sizes that it has to pass."""


def _entries(tiles: Tiles, place: int, bundle: list[bytes], made: Made, links: Links, report: ExportReport) -> None:
    """The entries of one bundle against their tile of hashes, and against those before them."""
    (writer, roots), first, width = made, place * WIDTH + 1, len(bundle)
    try:
        hashes = parse_tile(_file(tiles, tile_path(0, place, width), TILE_BYTES), width)
    except LogFormatError as error:
        report.add([Fault("export.tile", error.message, first)])
        hashes = [leaf_hash(entry) for entry in bundle]
    for seq, (entry, hashed) in enumerate(zip(bundle, hashes, strict=True), first):
        leaf = leaf_hash(entry)
        if leaf != hashed:
            report.add([Fault("entry.leaf", f"Entry {seq} has other bytes than its tile of hashes says.", seq)])
        report.add(_entry(entry, leaf, seq, links))  # 3
        report.add(_above(tiles, list(writer.add(entry))))  # 4
        if seq in roots and writer.tree.root() != roots[seq]:
            said = f"The first {seq} entries are not those of which the log's key was rotated: they were rewritten."
            report.add([Fault("log.rewritten", said)])


def _entry(entry: bytes, leaf: bytes, seq: int, links: Links) -> Iterator[Fault]:
    """One entry by itself, and after the one before it in its action."""
    try:
        opened = open_envelope(entry)
        canonical = envelope_bytes(parse_json(entry)) == entry
    except ReadbackError as error:
        yield Fault("entry.envelope", f"Entry {seq} cannot be read: {error.message}", seq)
        return
    if not canonical:
        yield Fault("entry.envelope", f"Entry {seq} is not in canonical form.", seq, opened.action_id)
    before = links.last(opened.action_id)
    links.met(opened.action_id, opened.version, leaf)
    said = _link(opened, before)
    if said:
        yield Fault("entry.link", f"Entry {seq} {said}", seq, opened.action_id, opened.version)


def _link(opened: Opened, before: tuple[int, bytes] | None) -> str:
    number, leaf = before or (0, b"")
    if opened.version != number + 1:
        return f"is number {opened.version} of action {opened.action_id}, and follows its number {number}."
    if opened.previous != leaf.hex():
        return f"names another entry before it than action {opened.action_id} has."
    return ""


def _above(tiles: Tiles, made: list[tuple[str, bytes]]) -> Iterator[Fault]:
    """Tiles above the lowest, made again of the entries, against those that are there."""
    for path, data in made:
        if path.startswith(("tile/0/", "tile/entries/")):
            continue  # compared entry by entry
        try:
            found = _file(tiles, path, TILE_BYTES)
        except LogFormatError as error:
            yield Fault("export.tile", error.message)
            continue
        if found != data:
            yield Fault("export.tile", f"The file {path} holds other hashes than the entries below it make.")
