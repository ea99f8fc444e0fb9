"""Audit of each entry: its sequence number and leaf hash, its envelope and its columns.

Called by the audit in two steps. Sequence numbers and hashes are checked in the order of the log. Content is checked
when the action is folded, so each envelope is parsed once. Entries are parsed in batches, and singly after a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final

from readback.canon import Json, ReadbackError, is_envelope, parse_json
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.events import ParsedEnvelope, event_of, open_many
from readback.domain.idempotency import asked_hash, key_hash, request_hash
from readback.domain.kind import Kind
from readback.domain.normal_form import NormalForm, form_of, in_normal_form
from readback.engine.run import REDACTED
from readback.log.checkpoint import Checkpoint
from readback.log.tree import SIZE_MAX, GrowingTree, leaf_hash, leaf_hashes
from readback.ports.storage.store import LedgerStore, StoredEvent

# Comparison of the log with external checkpoints: cut, rewritten, forked.


class Heads:
    """Checkpoints which the log must extend."""

    __slots__ = ("_kept", "_roots", "_tree", "_wanted")

    def __init__(self, kept: Sequence[Checkpoint]) -> None:
        self._kept = sorted(kept, key=lambda each: each.size)
        self._wanted = {each.size for each in kept}
        self._tree = GrowingTree()
        self._roots: dict[int, bytes] = {}
        self._note()

    def read(self, leaves: Sequence[bytes]) -> None:
        """Add the next entries by their leaf hashes. The audit compares the hashes with the bytes."""
        for leaf in leaves:
            self._tree.append(leaf)
            if self._tree.size in self._wanted:
                self._note()

    def faults(self) -> Iterator[tuple[str, str]]:
        """Yield code and sentence of each fault."""
        for one, other in pairwise(self._kept):
            if one.origin != other.origin:
                yield "log.origin", f"The checkpoints are of two logs, {one.origin!r} and {other.origin!r}."
            elif one.size == other.size and one.root != other.root:
                yield "log.fork", f"Two checkpoints of {one.size} entries differ: the log was shown in two forms."
        for each in self._kept:
            root = self._roots.get(each.size)
            if root is None:
                said = f"The log has {self._tree.size} entries, and a checkpoint covers {each.size}"
                yield "log.cut", f"{said}: its end was cut off."
            elif root != each.root:
                said = (
                    f"The first {each.size} entries differ from the entries under the checkpoint: they were rewritten."
                )
                yield "log.rewritten", said

    def said(self) -> str:
        """Return the sentence on the end of the log, in place of the general reservation."""
        last = self._kept[-1]
        sizes = " and ".join(str(each.size) for each in self._kept)
        return f"checked against the checkpoint of {sizes} entries signed by {last.origin}; not beyond it"

    def _note(self) -> None:
        self._roots[self._tree.size] = self._tree.root()


# Comparison of key and request hash with values recomputed from the stored request.


def request_faults(action: Action, contract: Mapping[str, Json], request: Mapping[str, Json]) -> Iterator[str]:
    """Compare key and request hash with the stored contract and request, as far as nothing was redacted."""
    requested, named = request.get("requested"), contract.get("key_fields")
    given = requested if isinstance(requested, dict) else {}
    keys = {key_hash(action.tenant, action.contract, action.operation)}
    if isinstance(named, list) and named:
        # Without an operation from the caller, the key consists of these fields. Redacted fields prevent the check.
        fields = {str(name): given.get(str(name)) for name in named}
        unknown = not request or _redacted(fields)
        normal = in_normal_form(str(contract.get("target", "")), _form(contract), fields)
        keys.add(action.key_hash if unknown else key_hash(action.tenant, action.contract, normal))
    if contract and action.key_hash not in keys:
        yield f"Action {action.id} has a key that does not match its tenant, contract and operation."
    if not isinstance(requested, dict) or _redacted(requested):
        return
    if not action.contract_ref:  # submitted by name, and not yet processed by a worker with the contract
        if asked_hash(action.contract, given) != action.request_hash:
            yield f"Action {action.id} has a request that does not match its submission."
        return
    if action.kind not in _KINDS:
        yield f"Action {action.id} is of the kind {action.kind!r}, which does not exist."
        return
    if request_hash(_KINDS[action.kind], action.target, given) != action.request_hash:
        yield f"Action {action.id} has a request that does not match its request hash."


def _form(contract: Mapping[str, Json]) -> NormalForm:
    """Return the rule for comparing the contract's target."""
    said = contract.get("identity_as")
    word = said.get("target") if isinstance(said, dict) else None
    return form_of(word) or NormalForm.EXACT


_KINDS: Final = {kind.value: kind for kind in Kind}


def _redacted(value: Json) -> bool:
    if isinstance(value, dict):
        return REDACTED in value or _redacted([*value.values()])
    return isinstance(value, list) and any(_redacted(below) for below in value if isinstance(below, dict | list))


ENTRIES_A_PIECE: Final = 2_000
"""Entries a batch: about 1.5 MB, hashed and compared at once."""
_SEALED_COLUMNS: Final = ("action_id", "version", "kind", "at_us")
"""Columns of an entry repeated in its envelope."""
_COLUMNS: Final = attrgetter(*_SEALED_COLUMNS)
Placed = tuple[int, bytes, bytes]
"""Sequence number, envelope and leaf hash of an entry."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `seq` 0: no single entry. `code` is stable."""

    code: str
    what: str
    seq: int = 0
    action_id: str = ""
    version: int = 0


def fault_at(stored: StoredEvent, code: str, what: str) -> Fault:
    """Return a fault of one entry."""
    return Fault(code, what, stored.seq, stored.action_id, stored.version)


def named(stored: StoredEvent) -> str:
    """Name the entry for the start of a sentence. An entry without sequence number is named by its action."""
    return f"Entry {stored.seq}" if stored.seq else f"Entry {stored.version} of action {stored.action_id}"


def order_faults(events: list[StoredEvent], head_seq: int) -> Iterator[Fault]:
    """Report entries of an action out of order in the log, and unsequenced entries with a wrong hash. The hashes of
    sequenced entries are checked with the log.
    """
    before = 0
    for each in events:
        if not each.seq:
            before = SIZE_MAX  # entries after an unsequenced entry are unsequenced too
            if leaf_hash(each.envelope) != each.leaf:
                yield fault_at(each, "entry.leaf", f"{named(each)} does not match its leaf hash.")
        elif each.seq <= before and each.seq <= head_seq:
            yield fault_at(
                each, "entry.order", f"{named(each)} of action {each.action_id} comes before an older entry."
            )
        else:
            before = each.seq


def placed(store: LedgerStore) -> Iterator[list[Placed]]:
    """Yield every entry in order, in batches of bounded memory."""
    after = 0
    while piece := store.entries(after, ENTRIES_A_PIECE):
        yield piece
        after = piece[-1][0]


def piece_faults(store: LedgerStore, piece: list[Placed], previous_seq: int) -> Iterator[Fault]:
    """Report wrong sequence numbers and leaf hashes of a batch. `previous_seq`: the number before the batch."""
    seqs, envelopes, leaves = zip(*piece, strict=True)
    first = previous_seq + 1
    if seqs == tuple(range(first, first + len(seqs))) and leaf_hashes(envelopes) == [*leaves]:
        return  # the usual case
    for seq, envelope, leaf in piece:
        if seq != previous_seq + 1 or leaf_hash(envelope) != leaf:
            yield from _place_faults(store, seq, previous_seq)
        previous_seq = seq


def _place_faults(store: LedgerStore, seq: int, previous_seq: int) -> Iterator[Fault]:
    stored = next(store.scan(seq - 1))
    if stored.seq != previous_seq + 1:
        yield fault_at(stored, "log.gap", f"Entry {stored.seq} follows entry {previous_seq}.")
    if leaf_hash(stored.envelope) != stored.leaf:
        yield fault_at(stored, "entry.leaf", f"Entry {stored.seq} does not match its leaf hash.")


def opened_entries(events: Sequence[StoredEvent]) -> list[ParsedEnvelope] | None:
    """Parse a batch without faults. None: parse each entry singly."""
    opened = open_many([each.envelope for each in events])
    if opened is None:
        return None
    sealed = [(one.action_id, one.version, (event := one.event).kind, event.at_us) for one in opened]
    return opened if sealed == [*map(_COLUMNS, events)] else None


def opened_entry(stored: StoredEvent, faults: list[Fault]) -> ParsedEnvelope | None:
    """Parse one entry. Faults of its form and columns go into `faults`. None: the bytes are no entry."""
    try:
        raw = parse_json(stored.envelope)
        opened = event_of(raw)
        # All fields besides `data` must have their types.
        canonical = is_envelope(stored.envelope, raw, opened.event.data)
    except ReadbackError as error:
        faults.append(fault_at(stored, "entry.envelope", f"{named(stored)} cannot be read: {error.message}"))
        return None
    if not canonical:
        faults.append(fault_at(stored, "entry.envelope", f"{named(stored)} is not in canonical form."))
    event = opened.event
    columns = _COLUMNS(stored)
    sealed = (opened.action_id, opened.version, event.kind._value_, event.at_us)
    if columns != sealed:
        for name, one, other in zip(_SEALED_COLUMNS, columns, sealed, strict=True):
            if one != other:
                what = f"{named(stored)} has {name} {one!r} beside a sealed {other!r}."
                faults.append(fault_at(stored, "entry.column", what))
    return opened
