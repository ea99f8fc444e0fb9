"""The proof of an action's last entry: the path to the root of a signed head, the head itself, and the anchors.

A signature is verified with the keys of the settings. Without keys the head appears as unverified, without a proof.
"""

from __future__ import annotations

from readback.audit.evidence.sealed import prove_sealed
from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.client.session import Session
from readback.errors import NotFoundError
from readback.log.checkpoint import Checkpoint, parse_checkpoint
from readback.log.note import parse_note
from readback.log.proof import EntryProof
from readback.ports.storage.log import AnchorMark, SealedHead
from readback.ports.storage.store import StoredEvent


@dataclass(frozen=True, slots=True)
class ProofView:
    """What shows that an entry is in the log. `missing`: why there is no proof yet, "" with a proof.

    `head`: the last signed head, or None before the first. `keys`: the accepted keys, in text form.
    """

    entry: StoredEvent
    proof: EntryProof | None
    head: Checkpoint | None
    head_at_us: int
    note: str
    keys: tuple[str, ...]
    anchors: tuple[AnchorMark, ...]
    missing: str

    @property
    def name(self) -> str:
        """The head in one line: origin, size and root."""
        head = self.head
        return "" if head is None else f"{head.origin}, {head.size} entries, root {head.root.hex()}"


def proof_of(session: Session, action_id: str) -> ProofView:
    """Return the proof of the last entry of an action of the session's tenant.

    Raises NotFoundError for an unknown action, StoreError, and LogError for a log that contradicts its own head.
    """
    store = session.store
    events = store.events(session.action_id(action_id))
    if not events:
        raise NotFoundError(f"There is no action {action_id!r}.")
    entry = events[-1]
    authority = session.sealer.authority if session.sealer is not None else session.sealing.authority
    stored = store.checkpoint()
    head = _parsed(stored)
    proof, missing = None, ""
    if stored is None:
        missing = "The log is not sealed, so no signed head covers the entry."
    elif authority is None:
        missing = "The settings name no key of the log, so the signature of the head is not verified here."
    elif not entry.seq or entry.seq > stored.size:
        missing = "The last head was signed before this entry. The next head covers the entry."
    else:
        proof = prove_sealed(store, entry, authority)
    keys = () if authority is None else tuple(str(each) for each in authority.keys)
    note = "" if stored is None else stored.note.decode("utf-8", "replace")
    at_us = 0 if stored is None else stored.at_us
    return ProofView(entry, proof, head, at_us, note, keys, tuple(store.anchors()), missing)


def _parsed(head: SealedHead | None) -> Checkpoint | None:
    try:
        return None if head is None else parse_checkpoint(parse_note(head.note).text)
    except ReadbackError:  # a damaged head is no head; `ledger verify` names the fault
        return None
