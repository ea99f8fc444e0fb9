"""Audit: full re-read of the log. Hashes are recomputed, actions are folded again, and everything is compared.

Called by `ledger verify`, by the demo and by tests after every crash. The audit reads through the store port, changes
nothing, and holds only a few actions at a time. It reports faults and repairs none. Without a head stored elsewhere, no
check can detect a cut end of the log, and the report says so.

Steps:
1. Each entry in order: sequence number, envelope, leaf hash.
2. Each action: links, order, fold, projection.
3. Evidence of the action: digests, recomputed request and key, approvals and signatures of people.
4. Idempotency record of the action.
5. Freezes and incidents, derived from all entries, and dependencies on claims.
6. Erasures: the recorded ones, and no others.
7. Sealed log: tiles and checkpoints, built again.
8. Subscribers: possible positions and dead letters.
9. Findings of the store itself (added by the caller).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, fields
from functools import partial
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Final, TypeAlias

from readback.audit.checks import saga as audit_saga
from readback.audit.checks.approvals import approval_faults
from readback.audit.checks.control import Controls
from readback.audit.checks.counters import Counters
from readback.audit.checks.entries import Fault as Fault
from readback.audit.checks.entries import (
    Heads,
    fault_at,
    opened_entries,
    opened_entry,
    order_faults,
    piece_faults,
    placed,
    request_faults,
)
from readback.audit.checks.outbox import Positions
from readback.audit.checks.prefetch import MEDIA, EvidenceCache
from readback.audit.checks.sealed import SealedAudit
from readback.audit.checks.signed import Signatures
from readback.audit.sealing.seal import Authority
from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.erasure import erased_digests, payloads
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope
from readback.domain.idempotency import KeyStatus, expires_us, key_status
from readback.domain.saga.fold import Saga
from readback.domain.side_effect import SideEffect
from readback.domain.state import TERMINAL
from readback.engine.claims.entries import claims_relied_on, upon_in
from readback.engine.entries.recorder import projection_of
from readback.engine.resume import fold_opened
from readback.engine.saga_run import fold_saga, projection_of_saga
from readback.engine.stages.approve import Approvals
from readback.engine.stages.execute import STAMP_PREFIX
from readback.errors import StoreCorruptError
from readback.log.tree import SIZE_MAX
from readback.ports.storage.store import Kept, KeyRecord, LedgerStore, Projection, StoredEvent, StoredProjection

FAULTS_KEPT_MAX: Final = 100
ACTIONS_AT_ONCE: Final = 64
"""Actions loaded together, with their evidence."""
LOOKS_MAX: Final = 5
"""Most attempts to read an action that changes during the audit."""
TRUNCATION: Final = "truncation not detectable: no head of this log was kept elsewhere"

_PROPOSED: Final = EventKind.PROPOSED
_PENDING: Final = KeyStatus.PENDING
_CRITICAL: Final = SideEffect.CRITICAL_MUTATION
_LEAF: Final = attrgetter("leaf")
_CONTRACT: Final = "contract"
"""The reference to content shared by many actions of a tenant."""
_Ref: TypeAlias = tuple[ParsedEnvelope, str, str]
"""An entry, the name of one of its references, and the digest."""
_LEAF_OF_PLACED: Final = itemgetter(2)
LEASED: Final = frozenset({"lease_owner", "lease_until_us"})
"""Columns without an event: the present owner of an action. A wrong value delays work, and decides nothing."""


@dataclass(slots=True)
class AuditReport:
    """The extent of the audit and its faults. `head`: sequence number and leaf hash of the last entry, to be stored
    elsewhere.
    """

    events: int = 0
    unsequenced: int = 0
    """Durable entries without a sequence number in the log. The audit folded them, but no checkpoint can cover them."""
    actions: int = 0
    evidence: int = 0
    erased: int = 0
    """Pieces of evidence with a recorded erasure."""
    keys: int = 0
    checkpoints: int = 0
    """Stored checkpoints recomputed and compared."""
    sealed: int = 0
    """Number of entries under the last checkpoint."""
    head_seq: int = 0
    head_leaf: str = ""
    faults: list[Fault] = field(default_factory=list)
    faults_total: int = 0
    truncation: str = TRUNCATION
    counters: Counters = field(default_factory=Counters)
    approvals: Approvals | None = None
    """The list used to check people's signatures. None: unchecked."""
    approved: int = 0
    """Actions approved or denied by a person."""
    signatures: Signatures = field(default_factory=Signatures)
    """Signatures of review decisions, lifted freezes, and statements about claims."""
    log_key: bool = False
    """Whether signatures of stored checkpoints were checked."""
    not_compared: list[str] = field(default_factory=list)
    """Parts of its own files the store could not compare, a sentence each (added by the caller)."""

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Checks skipped for want of keys or of stored data, a sentence each."""
        said = [*self.not_compared]
        if self.checkpoints and not self.log_key:
            said.append("signatures of checkpoints not checked: no key of the log was given")
        if self.approved and self.approvals is None:
            said.append("signatures of approvals not checked: no list of approvers was given")
        if self.signatures.kept and self.approvals is None:
            said.append("signatures of decisions not checked: no list of approvers was given")
        if self.signatures.not_kept:
            entries = f"{self.signatures.not_kept} entries"
            said.append(f"signatures of decisions not kept when {entries} were recorded: neither valid nor invalid")
        return tuple(said)

    @property
    def ok(self) -> bool:
        """Return whether the audit found no fault visible from inside."""
        return self.faults_total == 0

    def add(self, faults: Iterable[Fault]) -> None:
        """Retain the first faults, by sequence number. Faults of no single entry come last."""
        for fault in faults:
            self.faults_total += 1
            insort(self.faults, fault, key=lambda each: each.seq or SIZE_MAX)
            if len(self.faults) > FAULTS_KEPT_MAX:
                self.faults.pop()


def no_progress(done: int) -> None:
    """Ignore progress."""


def audit(
    store: LedgerStore,
    progress: Callable[[int], None] = no_progress,
    kept: tuple[int, str] | None = None,
    approvals: Approvals | None = None,
    heads: Heads | None = None,
    authority: Authority | None = None,
) -> AuditReport:
    """Audit the whole ledger.

    Args:
        store: The ledger to read. Nothing in it changes.
        progress: Called with the number of processed entries. Each entry counts twice: read, and folded.
        kept: Sequence number and leaf hash (hex) of a head stored elsewhere. The log must still contain this head.
        approvals: The permitted approvers, for checking signatures.
        heads: Signed checkpoints stored elsewhere.
        authority: The keys accepted for stored checkpoints. Without them, checkpoint signatures stay unchecked.

    Returns:
        The report. Any damage found is a Fault in the report.

    Raises:
        StoreError: The store cannot be read.
    """
    report = AuditReport(approvals=approvals, log_key=authority is not None, signatures=Signatures(approvals))
    met, head = kept is None, b""
    controls, sealed = Controls(), SealedAudit(store, authority)
    for piece in placed(store):  # 1
        report.add(piece_faults(store, piece, report.head_seq))
        leaves = [*map(_LEAF_OF_PLACED, piece)]
        sealed.read(leaves)
        if heads is not None:
            heads.read(leaves)
        met = met or any((seq, leaf.hex()) == kept for seq, _, leaf in piece)
        report.events += len(piece)
        report.head_seq, _, head = piece[-1]
        progress(report.events)
    report.head_leaf = head.hex()
    if kept is not None:
        report.truncation = f"checked against the head stored elsewhere at entry {kept[0]}; not beyond it"
        if not met:
            report.add([Fault("log.head", f"Entry {kept[0]} with the leaf hash that was kept is not in the log.")])
    if heads is not None:
        report.truncation = heads.said()
        report.add(Fault(code, what) for code, what in heads.faults())
    report.add(Fault(code, what) for code, what in sealed.faults())
    report.checkpoints, report.sealed = sealed.checkpoints, sealed.size
    folded = _audit_actions(store, report, controls, progress)
    if folded != report.events:
        report.add(_orphans(store))
    if folded != report.events and report.ok:
        what = (
            f"The log has {report.events} entries and the actions {folded} in total: some entries belong to no action."
        )
        report.add([Fault("log.orphan", what)])
    wrong = controls.compare(store, report.head_seq)  # 5
    report.add(Fault("control", what, action_id=action_id) for action_id, what in wrong)
    report.add(Fault("reliance", what, action_id=action_id) for action_id, what in _claims_without_entry(store))
    report.add(Fault("counter", what) for what in report.counters.compare(store, report.head_seq))
    report.add(Fault("outbox", what, seq) for seq, what in Positions(store, report.head_seq).compare())  # 8
    return report


# --- 2. actions ---


@dataclass(slots=True)
class _Look:
    """One action as read: its projection, its entries, and the content of the readable entries."""

    held: StoredProjection
    events: list[StoredEvent]
    opened: list[ParsedEnvelope] = field(default_factory=list)
    erases: bool = True
    """Whether an entry of this batch erases anything."""
    faults: list[Fault] = field(default_factory=list)


def _audit_actions(store: LedgerStore, report: AuditReport, controls: Controls, progress: Callable[[int], None]) -> int:
    """Audit all actions, a few at a time. Return the number of scanned entries belonging to actions."""
    shelf, folded = EvidenceCache(store), 0
    histories = store.histories()
    while some := list(islice(histories, ACTIONS_AT_ONCE)):
        looks = [_look(store, held, events) for held, events in some]
        _open(looks, controls)
        report.evidence += shelf.fill(*_wanted(looks))
        for look in looks:
            folded += _audit_action(store, shelf, look, report)
            controls.tenants.add(look.held.projection.tenant)
            progress(report.events + folded)
    return folded


def _look(store: LedgerStore, held: StoredProjection, events: list[StoredEvent]) -> _Look:
    """Read an action, and read again if the action changed meanwhile."""
    action_id = held.projection.action_id
    for _ in range(LOOKS_MAX):
        if len(events) == held.version:
            break
        events, again = store.events(action_id), store.projection(action_id)
        if again is None or again.version == held.version:
            held = again or held
            break
        held = again
    return _Look(held, events)


def _open(looks: list[_Look], controls: Controls) -> None:
    """Parse the entries as one batch, and singly after a failure."""
    events = [each for look in looks for each in look.events]
    together = opened_entries(events)
    if together is not None:
        controls.take(events, together)
        erases = EventKind.ERASED in [one.event.kind for one in together]
        at = 0
        for look in looks:
            look.opened, look.erases = together[at : (at := at + len(look.events))], erases
        return
    for look in looks:
        alone = opened_entries(look.events)
        if alone is not None:
            look.opened, read = alone, look.events
        else:
            each_by_itself = [(each, opened_entry(each, look.faults)) for each in look.events]
            read = [each for each, one in each_by_itself if one is not None]
            look.opened = [one for _, one in each_by_itself if one is not None]
        controls.take(read, look.opened)


def _wanted(looks: list[_Look]) -> tuple[dict[str, set[Kept]], dict[str, set[str]]]:
    """Return the needed evidence and key hashes, by tenant."""
    evidence: dict[str, set[Kept]] = {}
    keys: dict[str, set[str]] = {}
    for look in looks:
        projection = look.held.projection
        keys.setdefault(projection.tenant, set()).add(projection.key_hash)
        evidence.setdefault(projection.tenant, set()).update(map(_kept, _refs(look)))
    return evidence, keys


def _refs(look: _Look) -> Iterator[_Ref]:
    """Return the references in an action's entries."""
    for one in look.opened:
        for name, digest in one.event.refs.items():
            yield one, name, digest


def _kept(ref: _Ref) -> Kept:
    one, name, digest = ref
    return ("" if name == _CONTRACT else one.action_id, digest)


def _orphans(store: LedgerStore) -> Iterator[Fault]:
    """Check entries of actions without a projection, skipped by the fold."""
    for stored in store.scan():
        if store.projection(stored.action_id) is None:
            faults: list[Fault] = []
            opened_entry(stored, faults)
            yield from faults
            if stored.version == 1:
                what = f"Action {stored.action_id} has entries and no projection."
                yield fault_at(stored, "projection.missing", what)


def _audit_action(store: LedgerStore, shelf: EvidenceCache, look: _Look, report: AuditReport) -> int:
    """Audit one action. Return the number of scanned entries belonging to the action."""
    report.actions += 1
    events = look.events
    if events and events[0].seq > report.head_seq:
        return 0  # started after the scan
    if look.faults:
        report.add(look.faults)
    seqs = [each.seq for each in events]
    if seqs and (seqs[0] < 1 or sorted({*seqs}) != seqs):
        report.add(order_faults(events, report.head_seq))
        report.unsequenced += seqs.count(0)
    report.counters.read(look.opened)
    report.add(_check_folded(store, shelf, look, report))
    return len(events) if not events or 0 < events[-1].seq <= report.head_seq else _until(events, report.head_seq)


def _until(events: list[StoredEvent], seq: int) -> int:
    return sum(1 for each in events if 0 < each.seq <= seq)


def _check_folded(store: LedgerStore, shelf: EvidenceCache, look: _Look, report: AuditReport) -> Iterator[Fault]:
    held, events, opened = look.held, look.events, look.opened
    projection = held.projection

    def fault(code: str, what: str) -> Fault:
        return Fault(code, what, events[-1].seq if events else 0, projection.action_id, held.version)

    if len(opened) < len(events):
        yield fault("action.fold", f"The entries of action {projection.action_id} cannot all be read.")
        return
    try:
        saga = fold_saga(events) if audit_saga.is_saga(opened) else None
        action = fold_opened(zip(opened, map(_LEAF, events), strict=True)) if saga is None else None
    except ReadbackError as error:
        yield fault("action.fold", f"The entries of action {projection.action_id} cannot be true: {error.message}")
        return
    except (KeyError, ValueError, TypeError) as error:
        yield fault("action.fold", f"An entry of action {projection.action_id} lacks what its kind needs: {error}.")
        return
    if look.erases:
        for code, what in _erasure_faults(store, projection.tenant, opened):
            yield fault(code, what)
    if saga is not None:
        for code, what in _saga_faults(store, shelf, look, saga, report):
            yield fault(code, what)
    elif action is None:
        yield fault("action.empty", f"Action {projection.action_id} has a projection and no entries.")
    else:
        for code, what in _action_faults(store, shelf, look, action, report):
            yield fault(code, what)


def _saga_faults(
    store: LedgerStore, shelf: EvidenceCache, look: _Look, saga: Saga, report: AuditReport
) -> Iterator[tuple[str, str]]:
    """Yield (code, fault) for a saga with foldable entries."""
    for what in _differences(look.held, projection_of_saga(saga), saga.version):
        yield "projection.column", what
    for what in _evidence(store, shelf, saga.tenant, look, report):
        yield "evidence", what
    for what in report.signatures.read(shelf, look.opened, critical=saga.side_effect is _CRITICAL):
        yield "signature", what
    loaded = partial(shelf.loaded, saga.tenant, saga.id)
    yield from audit_saga.check_saga(store, saga, look.opened, loaded)


def _action_faults(
    store: LedgerStore, shelf: EvidenceCache, look: _Look, action: Action, report: AuditReport
) -> Iterator[tuple[str, str]]:
    """Yield (code, fault) for an action with foldable entries."""
    opened = look.opened
    wanted = projection_of(action)
    if look.held.projection != wanted or look.held.version != action.version:
        for what in _differences(look.held, wanted, action.version):
            yield "projection.column", what
    for what in _recomputed(action, opened[0]):
        yield "action.identity", what
    for what in _evidence(store, shelf, action.tenant, look, report):
        yield "evidence", what
    contract = shelf.loaded(action.tenant, "", action.contract_ref)
    request = shelf.loaded(action.tenant, action.id, action.request_ref)
    for what in request_faults(action, contract, request):
        yield "evidence", what
    if action.context:
        yield from audit_saga.check_member(store, action)
        for what in _claims_not_stored(store, action):
            yield "reliance", what
    for what in _key(store, shelf, action, report):
        yield "key", what
    for what in report.signatures.read(shelf, opened, critical=action.side_effect == _CRITICAL):
        yield "signature", what
    report.approved += action.approval is not None
    if action.approval is not None or action.attempts:
        for what in approval_faults(store, action, opened, contract, request, report.approvals):
            yield "approval", what


def _differences(held: StoredProjection, wanted: Projection, entries: int) -> Iterator[str]:
    """Compare each column of the projection with the folded column."""
    if held.projection == wanted and held.version == entries:
        return  # the usual case
    for column in fields(Projection):
        found, folded = getattr(held.projection, column.name), getattr(wanted, column.name)
        if column.name in LEASED or found == folded:
            continue
        # A signal only brings a due time forward. Only a later or missing due time would lose an action.
        if column.name == "due_us" and found is not None and folded is not None and found < folded:
            continue
        yield f"Action {wanted.action_id} has {column.name} {found!r}, and its entries say {folded!r}."
    if held.version != entries:
        yield f"Action {wanted.action_id} has version {held.version}, and {entries} entries."


def _recomputed(action: Action, first: ParsedEnvelope) -> Iterator[str]:
    """Recompute ids derived from other ids."""
    if first.event.kind is not _PROPOSED:
        yield f"Action {action.id} does not begin with a proposal."
    if action.stamp != STAMP_PREFIX + action.id:
        yield f"Action {action.id} bears the stamp {action.stamp!r}."
    if action.contract_ref != action.contract_hash:
        yield f"Action {action.id} stores another contract than the named one."


# --- 3. evidence ---


def _evidence(store: LedgerStore, shelf: EvidenceCache, tenant: str, look: _Look, report: AuditReport) -> Iterator[str]:
    opened = look.opened
    if tenant == look.held.projection.tenant and shelf.is_whole(tenant):  # the usual case
        return
    new = shelf.unseen(tenant, set(map(_kept, _refs(look))))
    report.evidence += len(new)
    for ref in _refs(look):
        (one, name, digest), kept = ref, _kept(ref)
        if kept not in new:
            continue
        what = f"The {name} of action {one.action_id}, version {one.version}"
        try:
            found = shelf.evidence(tenant, *kept)
        except StoreCorruptError as error:
            yield f"{what}: {error.message}"
            continue
        if found is None and _is_gone(store, tenant, kept, erased_digests(opened)):
            report.erased += 1
        elif found is None:
            yield f"{what} ({digest}) is not there."
        elif found.media != MEDIA:
            yield f"{what} is kept as {found.media!r}."
        else:
            new.discard(kept)
            shelf.note(tenant, {kept})


# --- 4. idempotency ---


def _key(store: LedgerStore, shelf: EvidenceCache, action: Action, report: AuditReport) -> Iterator[str]:
    if action.attempts == 0 and action.approval is None and not action.reserved:
        return
    record = shelf.key(action.tenant, action.key_hash)
    if record is None:
        yield f"Action {action.id} was attempted, and its idempotency record is missing."
        return
    report.keys += 1
    if record.action_id != action.id:
        yield from _taken_over(store, action, record)
        return
    status, until_us = _PENDING, 0
    if action.durable_key_change:
        status = key_status(action.state, may_repeat=action.may_repeat, resolution=action.attested)
        until_us = expires_us(status, action.updated_us, action.key_kept_us)
    wanted = KeyRecord(
        action.tenant, action.key_hash, action.request_hash, action.id, status._value_, action.created_us, until_us
    )
    if record == wanted:
        return
    for column in fields(KeyRecord):
        found, folded = getattr(record, column.name), getattr(wanted, column.name)
        if found != folded:
            yield f"The idempotency record of action {action.id} has {column.name} {found!r}; it has to be {folded!r}."


def _taken_over(store: LedgerStore, action: Action, record: KeyRecord) -> Iterator[str]:
    """The key belongs to a later action. Check: the later action has the same key, and this action released the key."""
    other = store.projection(record.action_id)
    if other is None:
        yield f"The idempotency record of action {action.id} names {record.action_id}, which is not there."
    elif other.projection.key_hash != action.key_hash or other.projection.tenant != action.tenant:
        yield f"The idempotency record of action {action.id} names {record.action_id}, which has another key."
    elif action.state not in TERMINAL and not action.resolution:
        yield f"The idempotency record of action {action.id} was given to {record.action_id} while it was open."


# --- 5. dependencies on claims: each row has its entry, and each entry has its row ---


def _claims_not_stored(store: LedgerStore, action: Action) -> Iterator[str]:
    """Return the dependencies in the action's entries without a row. A retraction would not name the action."""
    for claim in claims_relied_on(action):
        if not store.relies(action.tenant, claim, action.id):
            yield f"Action {action.id} was planned upon {claim}, and the store has no row for this."


def _claims_without_entry(store: LedgerStore) -> Iterator[tuple[str, str]]:
    """Yield (action id, fault) for each row without an entry."""
    for tenant, claim, action_id in store.reliances():
        if not _names_claim(store, tenant, claim, action_id):
            yield (
                action_id,
                f"Action {action_id} has a row as planned upon {claim}, and no entry of the action says so.",
            )


def _names_claim(store: LedgerStore, tenant: str, claim: str, action_id: str) -> bool:
    try:
        first = open_envelope(store.events(action_id)[0].envelope)
    except (ReadbackError, LookupError):
        return False
    context = first.event.data.get("context")
    if first.event.kind is not EventKind.PROPOSED or first.tenant != tenant or not isinstance(context, dict):
        return False
    return claim in upon_in(context)


# --- 6. erasures: bytes are missing exactly where an entry records their erasure ---


def _erasure_faults(store: LedgerStore, tenant: str, opened: list[ParsedEnvelope]) -> Iterator[tuple[str, str]]:
    """Return (code, fault) for the erasures of one action."""
    if EventKind.ERASED not in [one.event.kind for one in opened]:
        return
    own: set[str] = set()
    for one in opened:
        if one.event.kind is EventKind.ERASED:
            named = one.event.data.get("digests")
            if not isinstance(named, list) or not named or not own.issuperset(str(each) for each in named):
                yield (
                    "erasure",
                    f"Version {one.version} of action {one.action_id} erases evidence the action does not have.",
                )
        own.update(payloads(one.event))
    action_id = opened[0].action_id
    for digest in erased_digests(opened):
        if not store.erased(tenant, action_id, digest) and _is_there(store, tenant, action_id, digest):
            what = f"Evidence {digest} of action {action_id} was erased, and its bytes still exist."
            yield "evidence.not-erased", what


def _is_there(store: LedgerStore, tenant: str, action_id: str, digest: str) -> bool:
    try:
        return store.evidence(tenant, action_id, digest) is not None
    except StoreCorruptError:
        return False  # reported for the evidence itself


def _is_gone(store: LedgerStore, tenant: str, kept: Kept, let_go: frozenset[str]) -> bool:
    """Return whether an entry of the action records the erasure of missing evidence. No other reason is valid."""
    return kept[1] in let_go and store.erased(tenant, *kept)
