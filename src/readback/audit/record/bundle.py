"""A replay bundle: one action with all data for reconciling the action again elsewhere, in one canonical JSON text.

Called by `readback ledger export --bundle` (make) and by replays (open). Pure. A hash binds every part: entries by
leaves and links, evidence by digest, tables by version, everything by the id, and the text as a whole by its last hash.
Any mismatch is refused before first use.

    {"format", "id", "action", "tenant",
     "entries":  [{"leaf": hex, "envelope": text}, ...],
     "evidence": {digest: text, ...}, "erased": [digest, ...],
     "tables":   {version: rows, ...},
     "proof":    a C2SP tlog-proof of the last entry, or null,
     "sha256":   of the canonical text of all the above}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import orjson

from readback.audit.record.action import FORMAT, id_of, manifest, table_versions
from readback.canon import Json, ReadbackError, parse_json, sha256_hex, stored_bytes
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope
from readback.domain.recovery.rule import version_of
from readback.domain.recovery.table import RecoveryTable
from readback.errors import BundleError, TableMissingError
from readback.log.tree import leaf_hash
from readback.ports.storage.store import StoredEvent

BUNDLE_MAX_BYTES: Final = 268_435_456
FIELDS: Final = frozenset(
    {"format", "id", "action", "tenant", "entries", "evidence", "erased", "tables", "proof", "sha256"}
)
LoadBody = Callable[[str], bytes | None]
"""Return evidence by digest. None if the bytes are gone."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle with verified hashes. `leaves`: the entries' leaf hashes in hex. `tables`: the content of each table."""

    id: str
    action_id: str
    tenant: str
    entries: tuple[ParsedEnvelope, ...]
    leaves: tuple[str, ...]
    evidence: Mapping[str, bytes]
    erased: frozenset[str]
    tables: Mapping[str, list[Json]]
    last_envelope: bytes = b""
    proof: bytes | None = None

    def json_of(self, digest: str) -> Json:
        """Return a piece of evidence. None for no evidence, and for erased evidence."""
        body = self.evidence.get(digest)
        return None if body is None else parse_json(body)


def make_bundle(
    stored: Sequence[StoredEvent], load: LoadBody, tables: Iterable[RecoveryTable], proof: bytes | None = None
) -> bytes:
    """Build the bundle of the action with these entries. Raises TableMissingError and ValueTooLargeError."""
    opened = [open_envelope(each.envelope) for each in stored]
    first, leaves = opened[0], [each.leaf.hex() for each in stored]
    content = manifest(first.action_id, first.tenant, leaves, opened)
    known = {table.version: table.content for table in tables}
    missing = sorted(table_versions(opened) - known.keys())
    if missing:
        raise TableMissingError(
            f"Action {first.action_id} was decided by table {missing[0]}, and the table is not available."
        )
    bodies = {digest: load(digest) for digest in _digests(content)}
    whole: dict[str, Json] = {
        "format": FORMAT,
        "id": id_of(content),
        "action": first.action_id,
        "tenant": first.tenant,
        "entries": [{"leaf": each.leaf.hex(), "envelope": each.envelope.decode()} for each in stored],
        "evidence": {digest: body.decode() for digest, body in bodies.items() if body is not None},
        "erased": [digest for digest, body in bodies.items() if body is None],
        "tables": {version: known[version] for version in sorted(table_versions(opened))},
        "proof": None if proof is None else proof.decode(),
    }
    written = stored_bytes(whole, bytes_max=BUNDLE_MAX_BYTES)
    return stored_bytes({**whole, "sha256": sha256_hex(written)}, bytes_max=BUNDLE_MAX_BYTES)


def _digests(content: Mapping[str, Json]) -> list[str]:
    named = content["evidence"]
    return [str(each) for each in named] if isinstance(named, list) else []


def open_bundle(data: bytes) -> Bundle:
    """Parse a bundle and recompute every hash. Raises BundleError."""
    whole = _parsed(data)
    entries, leaves = _entries(whole["entries"])
    evidence = {digest: _hashed(digest, body) for digest, body in _object(whole["evidence"], "evidence").items()}
    erased = frozenset(_text(each) for each in _list(whole["erased"], "erased"))
    tables = {version: _table(version, rows) for version, rows in _object(whole["tables"], "tables").items()}
    action_id, tenant = _text(whole["action"]), _text(whole["tenant"])
    _linked(action_id, tenant, entries, leaves)
    content = manifest(action_id, tenant, leaves, entries)
    if id_of(content) != whole["id"]:
        raise BundleError("The bundle's id does not match its entries.")
    if frozenset(_digests(content)) != evidence.keys() | erased or evidence.keys() & erased:
        raise BundleError("The bundle's evidence does not match its entries.")
    if table_versions(entries) != tables.keys():
        raise BundleError("The bundle's tables do not match its entries.")
    gone = {digest for one in entries if one.event.kind is EventKind.ERASED for digest in _erased_by(one)}
    if not erased <= gone:
        raise BundleError("The bundle lacks evidence without a recorded erasure.")
    proof = whole["proof"]
    return Bundle(
        str(whole["id"]),
        action_id,
        tenant,
        tuple(entries),
        tuple(leaves),
        evidence,
        erased,
        tables,
        _last_envelope(whole["entries"]),
        None if proof is None else _text(proof).encode(),
    )


def _parsed(data: bytes) -> dict[str, Json]:
    try:
        whole = parse_json(data, bytes_max=BUNDLE_MAX_BYTES)
        if not isinstance(whole, dict) or whole.get("format") != FORMAT:
            raise BundleError(f"The file is no replay bundle of the form {FORMAT}.")
        if whole.keys() != FIELDS:
            raise BundleError("The bundle has a field too many or too few.")
        if stored_bytes(whole, bytes_max=BUNDLE_MAX_BYTES) != data:
            raise BundleError("The bundle is not in canonical form.")
        rest = {name: value for name, value in whole.items() if name != "sha256"}
        if sha256_hex(stored_bytes(rest, bytes_max=BUNDLE_MAX_BYTES)) != whole["sha256"]:
            raise BundleError("The bundle does not match its hash.")
    except BundleError:
        raise
    except ReadbackError as error:
        raise BundleError(f"The file is no replay bundle: {error.message}") from error
    return whole


def _entries(raw: Json) -> tuple[list[ParsedEnvelope], list[str]]:
    opened: list[ParsedEnvelope] = []
    leaves: list[str] = []
    for number, each in enumerate(_list(raw, "entries"), 1):
        said = _object(each, "an entry")
        if said.keys() != {"leaf", "envelope"}:
            raise BundleError(f"Entry {number} has a field too many or too few.")
        envelope = _text(said["envelope"]).encode()
        leaf = leaf_hash(envelope).hex()
        if leaf != said["leaf"]:
            raise BundleError(f"Entry {number} does not match its leaf hash.")
        try:
            opened.append(open_envelope(envelope))
        except ReadbackError as error:
            raise BundleError(f"Entry {number} cannot be read: {error.message}") from error
        leaves.append(leaf)
    if not opened or opened[0].event.kind is not EventKind.PROPOSED:
        raise BundleError("The bundle does not begin with a proposal.")
    return opened, leaves


def _last_envelope(raw: Json) -> bytes:
    return _text(_object(_list(raw, "entries")[-1], "an entry")["envelope"]).encode()


def _linked(action_id: str, tenant: str, entries: Sequence[ParsedEnvelope], leaves: Sequence[str]) -> None:
    previous = ""
    for number, (one, leaf) in enumerate(zip(entries, leaves, strict=True), 1):
        if (one.action_id, one.tenant, one.version, one.previous) != (action_id, tenant, number, previous):
            raise BundleError(f"Entry {number} is not the next entry of action {action_id}.")
        previous = leaf


def _hashed(digest: str, body: Json) -> bytes:
    written = _text(body).encode()
    if sha256_hex(written) != digest:
        raise BundleError(f"The evidence {digest} has other bytes than its digest says.")
    return written


_TABLES_KEPT_MAX: Final = 16
_sound_tables: dict[bytes, str] = {}
"""Versions of tables with a recomputed hash, by the table's text. Thousands of bundles hold the same few tables."""


def _table(version: str, rows: Json) -> list[Json]:
    content = _list(rows, "a table")
    written = _text_of(content)
    if written is not None and _sound_tables.get(written) == version:
        return content
    if version_of(content) != version:
        raise BundleError(f"The recovery table {version} does not match its version.")
    if written is not None and len(_sound_tables) < _TABLES_KEPT_MAX:
        _sound_tables[written] = version
    return content


def _text_of(content: list[Json]) -> bytes | None:
    """Return an exact text of a table, much faster than the canonical form; None for a value without such a text."""
    try:
        return orjson.dumps(content)
    except TypeError:
        return None


def _erased_by(one: ParsedEnvelope) -> list[str]:
    return [str(each) for each in _list(one.event.data.get("digests"), "an erasure")]


def _object(raw: Json, what: str) -> dict[str, Json]:
    if not isinstance(raw, dict):
        raise BundleError(f"In the bundle {what} is not in canonical form.")
    return raw


def _list(raw: Json, what: str) -> list[Json]:
    if not isinstance(raw, list):
        raise BundleError(f"In the bundle {what} is not in canonical form.")
    return raw


def _text(raw: Json) -> str:
    if not isinstance(raw, str):
        raise BundleError("The bundle has another value in place of a text.")
    return raw
