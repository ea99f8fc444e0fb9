"""The projector: the log in, spans out, in order and in constant memory.

A small cache holds the fold of recent actions. An action outside the cache is folded again from its own entries, so a
projector may start at any position of the log. The same log gives the same spans from any start.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import field
from typing import Final

from readback.canon import CanonError, Json, parse_json
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope, open_many
from readback.errors import NotFoundError, StoreCorruptError
from readback.ports.storage.store import LedgerStore
from readback.telemetry.spans import Bodies, Span
from readback.telemetry.spans_action import ActionSpans
from readback.telemetry.spans_saga import SagaSpans

CACHED_ACTIONS_MAX: Final = 4_096
BATCH_ENTRIES: Final = 256
_JUDGED: Final = EventKind.JUDGED


@dataclass(slots=True)
class Projected:
    """The spans of a part of the log, up to and including the entry at `last_seq`."""

    last_seq: int
    entries: int = 0
    damaged: int = 0
    """Entries without spans, because the entry or its history is damaged. `ledger verify` reports them."""
    spans: list[Span] = field(default_factory=list)


class Projector:
    """Makes spans from a ledger. `payloads`: include arguments and results, as redacted. `tenant`: "" for all.

    Not safe for use by several threads at once.
    """

    def __init__(self, store: LedgerStore, *, payloads: bool = False, tenant: str = "") -> None:
        self._store, self._payloads, self._tenant = store, payloads, tenant
        self._known: OrderedDict[str, ActionSpans | SagaSpans] = OrderedDict()

    def after(self, seq: int, limit: int = BATCH_ENTRIES) -> Projected:
        """Return the spans of up to `limit` entries after a position. Raises StoreError."""
        entries = self._store.entries(seq, limit)
        found = Projected(entries[-1][0] if entries else seq, len(entries))
        opened = _opened([envelope for _, envelope, _ in entries])
        evidence = self._judgements([one for one in opened if one is not None])
        for (place, _, leaf), one in zip(entries, opened, strict=True):
            if one is None:
                found.damaged += 1
            elif not self._tenant or one.tenant == self._tenant:
                self._take(place, one, leaf.hex(), evidence, found)
        return found

    def of_action(self, action_id: str) -> list[Span]:
        """Return all spans of one action or saga. Raises NotFoundError, StoreError."""
        events = self._store.events(action_id)
        if not events:
            raise NotFoundError(f"There is no action {action_id!r}.")
        opened = [open_envelope(each.envelope) for each in events]
        if self._tenant and opened[0].tenant != self._tenant:
            raise NotFoundError(f"There is no action {action_id!r} in tenant {self._tenant!r}.")
        evidence = self._judgements(opened)
        made = self._new(opened[0])
        spans: list[Span] = []
        for stored, one in zip(events, opened, strict=True):
            spans += made.take(one, stored.leaf.hex(), stored.seq, self._bodies(one, evidence))
        return spans

    def _take(
        self, seq: int, one: ParsedEnvelope, leaf: str, evidence: dict[tuple[str, str], bytes], found: Projected
    ) -> None:
        try:
            made = self._state(one)
            if made is not None:
                found.spans += made.take(one, leaf, seq, self._bodies(one, evidence))
        except StoreCorruptError:
            self._known.pop(one.action_id, None)
            found.damaged += 1

    def _state(self, one: ParsedEnvelope) -> ActionSpans | SagaSpans | None:
        """Return the fold before this entry, from the cache or from the action's entries. None for an earlier entry."""
        known = self._known.get(one.action_id)
        if known is None or known.version + 1 != one.version:
            if known is not None and known.version >= one.version:
                return self._folded(one)  # the position was moved back
            known = self._folded(one)
        self._known[one.action_id] = known
        self._known.move_to_end(one.action_id)
        while len(self._known) > CACHED_ACTIONS_MAX:
            self._known.popitem(last=False)
        return known

    def _folded(self, one: ParsedEnvelope) -> ActionSpans | SagaSpans:
        if one.version == 1:
            return self._new(one)
        earlier = [each for each in self._store.events(one.action_id) if each.version < one.version]
        if len(earlier) != one.version - 1:
            raise StoreCorruptError(f"Action {one.action_id} lacks entries before version {one.version}.")
        opened = [open_envelope(each.envelope) for each in earlier]
        made = self._new(opened[0])
        for stored, each in zip(earlier, opened, strict=True):
            made.take(each, stored.leaf.hex(), stored.seq, _no_bodies)
        return made

    def _new(self, first: ParsedEnvelope) -> ActionSpans | SagaSpans:
        if first.event.kind is EventKind.SAGA_BEGUN:
            return SagaSpans(first.action_id, first.tenant)
        return ActionSpans(first.action_id, first.tenant, payloads=self._payloads)

    def _judgements(self, opened: Sequence[ParsedEnvelope]) -> dict[tuple[str, str], bytes]:
        """Load the evidence of all judgements of a batch at once."""
        asked: dict[str, set[tuple[str, str]]] = {}
        for one in opened:
            if one.event.kind is _JUDGED and (digest := one.event.refs.get("judgement")):
                asked.setdefault(one.tenant, set()).add((one.action_id, digest))
        found: dict[tuple[str, str], bytes] = {}
        for tenant, wanted in asked.items():
            found |= {kept: body for kept, (_, body) in self._store.bodies(tenant, wanted).items()}
        return found

    def _bodies(self, one: ParsedEnvelope, evidence: dict[tuple[str, str], bytes]) -> Bodies:
        def body(digest: str) -> Json:
            if not digest:
                return None
            held = evidence.get((one.action_id, digest))
            if held is None and self._payloads:
                kept = self._store.evidence(one.tenant, one.action_id, digest)
                held = kept.body if kept is not None else None
            try:
                return None if held is None else parse_json(held)
            except CanonError:
                return None  # no JSON, such as a large text

        return body


def _opened(envelopes: list[bytes]) -> list[ParsedEnvelope | None]:
    """Parse all envelopes at once; one by one if any of them is damaged."""
    together = open_many(envelopes)
    if together is not None:
        return [*together]
    found: list[ParsedEnvelope | None] = []
    for envelope in envelopes:
        try:
            found.append(open_envelope(envelope))
        except StoreCorruptError:
            found.append(None)
    return found


def _no_bodies(_digest: str) -> Json:
    return None
