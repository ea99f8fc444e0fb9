"""Batch reads for many actions: one or two round trips for any number of actions.

Called by the store. Each result equals the port's single query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from readback.ports.storage.store import Evidence, Opened, StoredEvent, StoredProjection
from readback.ports.storage.store_rules import PACE
from readback.stores.postgres.connection import row_encoding, rows
from readback.stores.postgres.queries import Queries, trusted

_OF: Final = "= ANY (string_to_array(%s, E'\\x1f'))"
_PROJECTIONS_OF: Final = rows.statement("SELECT", rows.STORED_COLUMNS, "FROM action WHERE action_id", _OF)
_EVENTS_OF: Final = rows.statement(
    "SELECT", rows.EVENT_COLUMNS, rows.EVENT_FROM, "WHERE action_id", _OF, "ORDER BY action_id, version"
)
_EVIDENCE_OF: Final = (
    "SELECT u.place, held.media, held.body, held.object FROM"
    " unnest(string_to_array(%s, E'\\x1f'), string_to_array(%s, E'\\x1f'), %s::bytea[])"
    " WITH ORDINALITY AS u(tenant, action_id, digest, place) CROSS JOIN LATERAL"
    " (SELECT media, body, object FROM payload AS p WHERE p.action_id = u.action_id AND p.digest = u.digest"
    " AND p.tenant = u.tenant AND p.body IS NOT NULL UNION ALL"
    " SELECT media, body, object FROM contract_text AS c WHERE c.digest = u.digest AND c.tenant = u.tenant) AS held"
)
_COUNTS_OF: Final = rows.statement(
    "SELECT tenant, subject, name, value FROM counter WHERE tenant", _OF,
    "AND value > 0 AND subject <> %s ORDER BY tenant, subject, name",
)  # fmt: skip


class Looking(Queries):
    """The part of `BatchReads` besides leases."""

    def openings(self, asked: Sequence[tuple[str, str, Sequence[str]]]) -> list[Opened]:
        """Two queries for all requests, and more only for tenants with counters or freezes."""
        tenants = sorted({tenant for tenant, _, _ in asked})
        keys = [
            row_encoding.texts([tenant for tenant, _, _ in asked]),
            row_encoding.texts([key for _, key, _ in asked]),
        ]
        found, states = self._readers.together(
            [
                (rows.SELECT_KEYS, (*keys, len(asked))),
                (rows.TENANTS_MET, (PACE, row_encoding.texts(tenants), len(tenants))),
            ]
        )
        records = {(one.tenant, one.key_hash): one for one in map(rows.key_record, found)}
        met = {tenant: (frozen, counted) for tenant, frozen, counted in map(rows.plain, states)}
        counts = {
            tenant: {(subject, name): value for subject, name, value in self.counts(tenant)} if met[tenant][1] else {}
            for tenant in tenants
        }
        return [
            Opened(
                records.get((tenant, key_hash)),
                counts[tenant],
                self.frozen(tenant, subjects) if met[tenant][0] else None,
            )
            for tenant, key_hash, subjects in asked
        ]

    def projections_of(self, action_ids: Sequence[str]) -> dict[str, StoredProjection]:
        found = map(rows.stored_projection, self._rows(_PROJECTIONS_OF, (row_encoding.texts(action_ids),)))
        return {stored.projection.action_id: stored for stored in found}

    def actions_of(self, action_ids: Sequence[str]) -> dict[str, tuple[StoredProjection, list[StoredEvent]]]:
        ids = row_encoding.texts(action_ids)
        projections, events = self._readers.together([(_PROJECTIONS_OF, (ids,)), (_EVENTS_OF, (ids,))])
        held = [rows.stored_projection(row) for row in projections]
        found = {stored.projection.action_id: (stored, cast("list[StoredEvent]", [])) for stored in held}
        for event in map(rows.stored_event, events):
            if event.action_id in found:  # else created between the two queries
                found[event.action_id][1].append(event)
        return found

    def evidence_of(self, asked: Sequence[tuple[str, str, str]]) -> list[Evidence | None]:
        named = [(place, *of, raw) for place, (*of, digest) in enumerate(asked) if (raw := row_encoding.raw(digest))]
        if not named:
            return [None] * len(asked)
        _, tenants, actions, raws = zip(*named, strict=True)
        values = (row_encoding.texts(tenants), row_encoding.texts(actions), row_encoding.bodies(raws))
        found: list[Evidence | None] = [None] * len(asked)
        for turn, media, body, place in map(rows.plain, self._rows(_EVIDENCE_OF, values)):
            at = named[turn - 1][0]
            found[at] = trusted(self._objects, asked[at][2], media, body, place)
        return found

    def counts_of(self, tenants: Sequence[str]) -> dict[str, list[tuple[str, str, int]]]:
        found: dict[str, list[tuple[str, str, int]]] = {tenant: [] for tenant in tenants}
        for tenant, subject, name, value in map(
            rows.plain, self._rows(_COUNTS_OF, (row_encoding.texts(tenants), PACE))
        ):
            if tenant in found:
                found[tenant].append((subject, name, value))
        return found
