"""A ledger with actions that ended in many ways, and bundles of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from readback import bootstrap
from readback.audit.record.action import is_action, record_of
from readback.audit.record.bundle import make_bundle
from readback.canon import Json, parse_json
from readback.client.schemas import schema_text
from readback.domain.records.replayed import Comparison, ReplayResult
from readback.domain.recovery.table import DEFAULT_TABLE
from readback.ports.storage.store import LedgerStore, StoredEvent
from tests.cli.conftest import Desk
from tests.cli.conftest import desk as desk  # the fixture
from tests.cli.test_tampering import untouched as untouched  # the fixture: its ledger is the richest there is

VALIDATOR = Draft202012Validator(json.loads(schema_text()))


@pytest.fixture(scope="module")
def rich(untouched: Path) -> Iterator[LedgerStore]:
    store = bootstrap.store(f"sqlite:///{untouched}", read_only=True)
    yield store
    store.close()


def streams(store: LedgerStore) -> Iterator[list[StoredEvent]]:
    """The entries of each action."""
    for held in store.projections():
        events = store.events(held.projection.action_id)
        if is_action(events):
            yield events


def body_of(store: LedgerStore, tenant: str, digest: str) -> bytes | None:
    found = store.evidence(tenant, store.keeper(tenant, digest) or "", digest)
    return None if found is None else found.body


def contract_of(store: LedgerStore, tenant: str, digest: str) -> dict[str, Json]:
    body = body_of(store, tenant, digest)
    parsed = parse_json(body) if body is not None else None
    return parsed if isinstance(parsed, dict) else {}


def bundle_of(store: LedgerStore, events: list[StoredEvent]) -> bytes:
    held = store.projection(events[0].action_id)
    assert held is not None
    tenant = held.projection.tenant
    return make_bundle(events, lambda digest: body_of(store, tenant, digest), [DEFAULT_TABLE])


def record(store: LedgerStore, events: list[StoredEvent], now_us: int = 0) -> dict[str, Json]:
    return record_of(events, lambda tenant, digest: contract_of(store, tenant, digest), now_us)


def hold_to_the_record(found: ReplayResult) -> None:
    """Every judgement comes to what was recorded; or it cannot be made again, since its payload is not kept."""
    assert found.comparison is not Comparison.DIFFERS, found
    for judged in found.judgements:
        assert all(why.endswith(("redacted", "erased")) for why in judged.missing), judged


__all__ = ["VALIDATOR", "Desk", "body_of", "bundle_of", "hold_to_the_record", "record", "streams"]
