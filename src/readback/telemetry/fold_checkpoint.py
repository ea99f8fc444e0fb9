"""The checkpoint of a fold: a file beside the ledger, so that a new process folds only new entries.

Called by `fold_reader`. The file belongs to one ledger and one choice of tenants. It names the hash of the ledger's
first entry and of the last folded entry. A checkpoint of another ledger, or of a ledger that lost entries, is left
aside, and the fold begins anew. So is a damaged file, with one warning. A checkpoint is never a source of truth.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from readback.audit.feedback.fold import FoldState
from readback.bootstrap import keep_file, kept_file
from readback.canon import sha256_hex
from readback.canon.envelopes import plain_bytes, plain_value
from readback.canon.fault import CanonError, ReadbackError
from readback.canon.frozen import dataclass
from readback.config import shown
from readback.errors import CheckpointDamagedError
from readback.ports.storage.store import LedgerStore

FORMAT: Final = 1
"""The version of the file and of the counting. A change of either makes earlier checkpoints useless."""
SUFFIX: Final = ".metrics.json"
CHECKPOINT_MAX_BYTES: Final = 512 * 1024 * 1024
NAME_CHARACTERS: Final = 16
MEMORY: Final = "memory:"


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of the file: what the state in the second line belongs to."""

    format: int
    first: str
    """Leaf hash of the ledger's first entry, in hex."""
    position: int
    last: str
    """Leaf hash of the entry at `position`, in hex."""
    tenants: list[str]
    by_tenant: bool
    digest: str
    """SHA-256 of the second line, in hex."""


def path_of(url: str, store: LedgerStore, tenants: Sequence[str], *, by_tenant: bool) -> Path | None:
    """Return the checkpoint's path. None for a ledger in memory.

    The file stands beside a ledger in a file. For a ledger in a database the file stands in the user's cache folder.
    Each choice of tenants has a file of its own.
    """
    if url.startswith(MEMORY):
        return None
    choice = sha256_hex(repr((sorted(tenants), by_tenant)).encode())[:NAME_CHARACTERS] if tenants or by_tenant else ""
    ending = f".{choice}{SUFFIX}" if choice else SUFFIX
    beside = getattr(store, "path", None)
    if beside is not None:
        return Path(f"{beside}{ending}")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(cache).expanduser() / "readback"
    return folder / f"{sha256_hex(shown(url).encode())[:NAME_CHARACTERS]}{ending}"


def first_leaf(store: LedgerStore) -> str:
    """Return the leaf hash of the ledger's first entry, in hex; "" for an empty ledger."""
    return leaf_at(store, 1)


def leaf_at(store: LedgerStore, position: int) -> str:
    """Return the leaf hash of the entry at a position, in hex; "" where no such entry exists."""
    if position <= 0:
        return ""
    found = next(iter(store.scan(position - 1)), None)
    return found.leaf.hex() if found is not None and found.seq == position else ""


def load(path: Path, store: LedgerStore, tenants: Sequence[str], *, by_tenant: bool) -> FoldState | None:
    """Return the state of the last fold. None without a usable checkpoint.

    Raises CheckpointDamagedError for a damaged or unreadable file. The caller warns, and folds anew.
    """
    try:
        data = kept_file(path, CHECKPOINT_MAX_BYTES)
    except ReadbackError as error:
        raise CheckpointDamagedError(f"The checkpoint {path} cannot be read: {error.message}") from error
    if data is None:
        return None
    head_line, _, body = data.partition(b"\n")
    try:
        head = plain_value(head_line, Head)
        if head.digest != sha256_hex(body):
            raise CheckpointDamagedError(f"The checkpoint {path} is damaged: its content differs from its digest.")
        if not _belongs(head, store, tenants, by_tenant=by_tenant):
            return None
        return plain_value(body, FoldState)
    except CanonError as error:
        raise CheckpointDamagedError(f"The checkpoint {path} is damaged: {error.message}") from error


def _belongs(head: Head, store: LedgerStore, tenants: Sequence[str], *, by_tenant: bool) -> bool:
    if head.format != FORMAT or head.tenants != sorted(tenants) or head.by_tenant is not by_tenant:
        return False
    return bool(head.first) and head.first == first_leaf(store) and head.last == leaf_at(store, head.position)


def save(path: Path, store: LedgerStore, state: FoldState, tenants: Sequence[str], *, by_tenant: bool) -> None:
    """Write the checkpoint atomically, readable by the owner alone. Raises StoreError."""
    first, last = first_leaf(store), leaf_at(store, state.position)
    if not first or not last:
        return
    body = plain_bytes(state)
    head = Head(FORMAT, first, state.position, last, sorted(tenants), by_tenant, sha256_hex(body))
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    keep_file(path, plain_bytes(head) + b"\n" + body, private=True, own=True)
