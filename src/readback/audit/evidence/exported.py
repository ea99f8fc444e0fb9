"""Audit of an exported log from its files alone: entries, tree, signature, and the links of each action.

Called by `ledger verify-export`, without the ledger. No stored hash is trusted: entries are hashed, every tile is built
again and compared, and the resulting root must equal the signed root. The report lists faults, the first bad entry
first. Nothing is repaired.

Steps:
1. The checkpoint and its signature.
2. Each bundle.
3. Each entry: tile, canonical form, links.
4. The upper tiles.
5. The root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from readback.audit.checks.ledger import FAULTS_KEPT_MAX, Fault, no_progress
from readback.audit.evidence.attest import Progress
from readback.canon import ReadbackError, envelope_bytes, parse_json
from readback.canon.frozen import dataclass
from readback.domain.events import ParsedEnvelope, open_envelope
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
    """The extent of the audit and its faults. An `ok` report says nothing of entries after the checkpoint."""

    origin: str = ""
    size: int = 0
    root: str = ""
    entries: int = 0
    faults: list[Fault] = field(default_factory=list)
    faults_total: int = 0

    @property
    def ok(self) -> bool:
        """Return whether every entry up to the signed size exists and equals the signed entry."""
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
    progress: Progress = no_progress,
    stated: Iterable[Checkpoint] = (),
) -> ExportReport:
    """Read all files under the checkpoint. Raises StoreError only for an unreadable file.

    `stated`: heads from key rotations. Within its size, the log must extend them.
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
            return report  # later bundles have no known position
        _entries(tiles, place, bundle, (writer, roots), links, report)
        report.entries += len(bundle)
        progress(report.entries)
    report.add(_above(tiles, list(writer.finish())))
    if writer.tree.root() != checkpoint.root:  # 5
        said = f"The {checkpoint.size} entries do not lead to the root {checkpoint.origin} signed."
        report.add([Fault("export.root", said)])
    return report


def _checkpoint(tiles: Tiles, keys: Sequence[VerifierKey], check: Check, report: ExportReport) -> Checkpoint | None:
    """Return the readable checkpoint. An unsigned checkpoint is reported, and its content still used."""
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
"""The rebuilt tree, and its roots at the sizes to compare."""


def _entries(tiles: Tiles, place: int, bundle: list[bytes], made: Made, links: Links, report: ExportReport) -> None:
    """Compare the entries of one bundle with their hash tile and with earlier entries."""
    (writer, roots), first, width = made, place * WIDTH + 1, len(bundle)
    try:
        hashes = parse_tile(_file(tiles, tile_path(0, place, width), TILE_BYTES), width)
    except LogFormatError as error:
        report.add([Fault("export.tile", error.message, first)])
        hashes = [leaf_hash(entry) for entry in bundle]
    for seq, (entry, hashed) in enumerate(zip(bundle, hashes, strict=True), first):
        leaf = leaf_hash(entry)
        if leaf != hashed:
            report.add([Fault("entry.leaf", f"Entry {seq} does not match its tile of hashes.", seq)])
        report.add(_entry(entry, leaf, seq, links))  # 3
        report.add(_above(tiles, list(writer.add(entry))))  # 4
        if seq in roots and writer.tree.root() != roots[seq]:
            said = f"The first {seq} entries differ from those at the rotation of the log's key: they were rewritten."
            report.add([Fault("log.rewritten", said)])


def _entry(entry: bytes, leaf: bytes, seq: int, links: Links) -> Iterator[Fault]:
    """Check one entry, and its link to the previous entry of its action."""
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


def _link(opened: ParsedEnvelope, before: tuple[int, bytes] | None) -> str:
    number, leaf = before or (0, b"")
    if opened.version != number + 1:
        return f"is number {opened.version} of action {opened.action_id}, and follows its number {number}."
    if opened.previous != leaf.hex():
        return f"names another previous entry than action {opened.action_id} has."
    return ""


def _above(tiles: Tiles, made: list[tuple[str, bytes]]) -> Iterator[Fault]:
    """Compare the upper tiles, built again from the entries, with the files."""
    for path, data in made:
        if path.startswith(("tile/0/", "tile/entries/")):
            continue  # already compared entry by entry
        try:
            found = _file(tiles, path, TILE_BYTES)
        except LogFormatError as error:
            yield Fault("export.tile", error.message)
            continue
        if found != data:
            yield Fault("export.tile", f"The file {path} does not match the entries below.")
