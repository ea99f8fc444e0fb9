"""Recorded actions, read in order from a ledger or from a folder of replay bundles.

Called by gates for a new judgement of history. Every hash is recomputed. An action with a damaged record is yielded as
a `DamagedAction`, so a gate can name the action. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import readback.bootstrap as bootstrap
from readback.assurance.faults import HistoryError
from readback.assurance.gate_input import DamagedAction, Recorded
from readback.audit.record.action import FORMAT, is_action
from readback.audit.record.bundle import BUNDLE_MAX_BYTES, Bundle, open_bundle
from readback.canon import ReadbackError, parse_json, sha256_hex
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope, open_many
from readback.errors import StoreCorruptError
from readback.log.tree import leaf_hash
from readback.ports.storage.store import Kept, LedgerStore, StoredEvent, StoredProjection

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_ACTIONS: Final = 256
SUFFIX: Final = ".json"
INDEX: Final = "corpus.json"
"""The name of a corpus' index, which names each captured action."""
INDEX_FORMAT: Final = "readback/gates-corpus/1"
_SCHEMES: Final = ("sqlite:", "postgresql:", "postgres:")
_SQLITE_MARK: Final = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which recorded actions count. Empty fields match everything. `limit` 0: no limit."""

    tenant: str = ""
    since_us: int = 0
    limit: int = 0

    def fits(self, tenant: str, proposed_us: int) -> bool:
        """Return whether an action counts."""
        return self.tenant in ("", tenant) and proposed_us >= self.since_us


def is_ledger(name: str) -> bool:
    """Return whether a name is a ledger's URL, or the path of an SQLite file."""
    if name.startswith(_SCHEMES):
        return True
    path = Path(name)
    if not path.is_file():
        return False
    with path.open("rb") as opened:
        return opened.read(len(_SQLITE_MARK)) == _SQLITE_MARK


def ledger_url(name: str) -> str:
    """Return the URL of a ledger named by URL or by path."""
    return name if name.startswith(_SCHEMES) else f"sqlite:///{Path(name).absolute()}"


def history_of(name: str, selection: Selection | None = None) -> Callable[[], Iterable[Recorded]]:
    """Return a function for the recorded actions of a ledger or of a folder. Each call reads anew.

    Raises HistoryError where there is neither. The function raises StoreError and HistoryError.
    """
    chosen = selection or Selection()
    if is_ledger(name):
        url = ledger_url(name)
        return lambda: _limited(_of_ledger(url, chosen), chosen)
    folder = Path(name)
    if not folder.is_dir():
        raise HistoryError(f"There is no ledger and no folder {name!r}.")
    return lambda: _limited(_of_folder(folder, chosen), chosen)


def _limited(found: Iterator[Recorded], chosen: Selection) -> Iterator[Recorded]:
    return islice(found, chosen.limit) if chosen.limit else found


# --- bundles -------------------------------------------------------------------------------------------------------


def _of_folder(folder: Path, chosen: Selection) -> Iterator[Recorded]:
    files = sorted(each for each in folder.rglob(f"*{SUFFIX}") if each.is_file())
    for file in files:
        if file.name == INDEX:
            yield from _missing(file, frozenset(files))
    leaves: dict[tuple[str, str], tuple[str, ...]] = {}
    for file in files:
        opened = _of_file(file)
        if isinstance(opened, Bundle):
            first = leaves.setdefault((opened.tenant, opened.action_id), opened.leaves)
            if first is not opened.leaves:  # a copy is no further action
                if first != opened.leaves:
                    yield DamagedAction(file.name, f"Another bundle of action {opened.action_id} has other entries.")
                continue
        if isinstance(opened, DamagedAction) or (
            opened is not None and chosen.fits(opened.tenant, opened.entries[0].event.at_us)
        ):
            yield opened


def _missing(index: Path, files: Set[Path]) -> Iterator[DamagedAction]:
    """Yield each action that a corpus names and does not hold, with the reason."""
    try:
        whole = parse_json(bootstrap.kept_file(index, BUNDLE_MAX_BYTES) or b"", bytes_max=BUNDLE_MAX_BYTES)
    except ReadbackError as error:
        yield DamagedAction(index.name, error.message)
        return
    if not isinstance(whole, dict) or whole.get("format") != INDEX_FORMAT:
        return  # another file of this name
    actions, refused = whole.get("actions"), whole.get("refused")
    if not isinstance(actions, list) or not isinstance(refused, dict):
        yield DamagedAction(index.name, "The index of the corpus does not name the captured actions.")
        return
    for each in actions:
        if index.with_name(f"{each}{SUFFIX}") not in files:
            yield DamagedAction(str(each), "The index of the corpus names this action, and the bundle is missing.")
    for action_id, reason in refused.items():
        yield DamagedAction(action_id, f"The action was not captured: {reason}")


def _of_file(file: Path) -> Recorded | None:
    """Return None for other files, such as the index of a corpus. Raises HistoryError."""
    data = bootstrap.kept_file(file, BUNDLE_MAX_BYTES) or b""
    try:
        return open_bundle(data)
    except ReadbackError as error:
        form = _form_of(data)
        if form is not None and form.startswith("readback/") and form != FORMAT:
            if not form.startswith("readback/replay-bundle/"):
                return None
            raise HistoryError(
                f"{file} is a bundle of the schema {form!r:.60}, and this release reads {FORMAT!r}.",
                code="gates.history-schema",
                remedy="Use the release that wrote the bundles, or capture the history again with this release.",
                details={"file": str(file), "schema": form[:60]},
            ) from error
        return DamagedAction(file.name, error.message)


def _form_of(data: bytes) -> str | None:
    try:
        whole = parse_json(data, bytes_max=BUNDLE_MAX_BYTES)
    except ReadbackError:
        return None
    return str(whole.get("format", "")) if isinstance(whole, dict) else None


# --- ledgers -------------------------------------------------------------------------------------------------------


def _of_ledger(url: str, chosen: Selection) -> Iterator[Recorded]:
    store = bootstrap.store(url, read_only=True)
    try:
        actions = (
            (held, events)
            for held, events in store.histories()
            if is_action(events) and chosen.fits(held.projection.tenant, events[0].at_us)
        )
        while batch := list(islice(actions, BATCH_ACTIONS)):
            yield from _batch(store, batch)
    finally:
        store.close()


def _batch(store: LedgerStore, batch: Sequence[tuple[StoredProjection, list[StoredEvent]]]) -> Iterator[Recorded]:
    """Open some actions with one query for all evidence of a tenant."""
    opened: list[tuple[str, str, list[StoredEvent], list[ParsedEnvelope] | None]] = []
    wanted: dict[str, set[Kept]] = {}
    for held, events in batch:
        tenant, action_id = held.projection.tenant, held.projection.action_id
        entries = _opened([each.envelope for each in events])
        opened.append((tenant, action_id, events, entries))
        wanted.setdefault(tenant, set()).update(_kept(action_id, entries or ()))
    bodies = {tenant: store.bodies(tenant, asked) for tenant, asked in wanted.items()}
    for tenant, action_id, events, entries in opened:
        try:
            yield _bundle(store, tenant, action_id, events, entries, bodies[tenant])
        except StoreCorruptError as error:
            yield DamagedAction(action_id, error.message)


def _opened(envelopes: list[bytes]) -> list[ParsedEnvelope] | None:
    """Return an action's entries; None where one is damaged.

    The quick way reads plain entries alone, such as entries in ASCII. The other entries are read one by one.
    """
    together = open_many(envelopes)
    if together is not None:
        return together
    try:
        return [open_envelope(each) for each in envelopes]
    except StoreCorruptError:
        return None


def _kept(action_id: str, entries: Iterable[ParsedEnvelope]) -> Iterator[Kept]:
    for one in entries:
        if one.event.kind is not EventKind.ERASED:
            for name, digest in one.event.refs.items():
                yield ("" if name == "contract" else action_id, digest)


def _bundle(
    store: LedgerStore,
    tenant: str,
    action_id: str,
    events: list[StoredEvent],
    entries: list[ParsedEnvelope] | None,
    bodies: dict[Kept, tuple[str, bytes]],
) -> Bundle:
    """Return the action as an opened bundle. Raises StoreCorruptError for any mismatch with a hash."""
    if entries is None:
        raise StoreCorruptError(f"An entry of action {action_id} cannot be read.")
    previous = ""
    for number, (stored, one) in enumerate(zip(events, entries, strict=True), 1):
        if leaf_hash(stored.envelope) != stored.leaf:
            raise StoreCorruptError(f"Entry {number} of action {action_id} has other bytes than its leaf hash says.")
        if (one.action_id, one.tenant, one.version, one.previous) != (action_id, tenant, number, previous):
            raise StoreCorruptError(f"Entry {number} is not the next entry of action {action_id}.")
        previous = stored.leaf.hex()
    evidence: dict[str, bytes] = {}
    erased: set[str] = set()
    for place in _kept(action_id, entries):
        digest = place[1]
        body = bodies.get(place)
        if body is not None:
            if sha256_hex(body[1]) != digest:
                raise StoreCorruptError(f"The evidence {digest} of action {action_id} has other bytes.")
            evidence[digest] = body[1]
        elif (found := store.evidence(tenant, *place)) is not None:
            evidence[digest] = found.body
        elif store.erased(tenant, *place):
            erased.add(digest)
        else:
            raise StoreCorruptError(f"The evidence {digest} of action {action_id} is missing.")
    leaves = tuple(each.leaf.hex() for each in events)
    return Bundle("", action_id, tenant, tuple(entries), leaves, evidence, frozenset(erased), {})
