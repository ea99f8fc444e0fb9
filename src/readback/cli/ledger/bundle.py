"""`readback ledger export --bundle`: one action with all that is needed to reconcile it again elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from readback import bootstrap
from readback.audit.record.action import is_action
from readback.audit.record.bundle import make_bundle
from readback.audit.record.manifest import bundle_id
from readback.cli.ledger.log import proof_now
from readback.cli.ledger.records import STDOUT, entries_of
from readback.cli.progress import counted
from readback.cli.sessions import settings_of
from readback.cli.terminal import note, print_json, safe
from readback.client.recovery_table import table_in_force
from readback.domain.errors import NotFoundError, StoreCorruptError, UsageError
from readback.domain.recovery.table import DEFAULT_TABLE

if TYPE_CHECKING:
    from readback.ports.storage.store import LedgerStore, StoredEvent


def write_bundle(
    url: str | None, action_id: str, out: str | None, table: str | None, key_file: str | None, *, as_json: bool
) -> int:
    """Writes the bundle of one action. Where a key of the log is named, the last entry's proof goes with it."""
    settings = settings_of(url, table=table)
    tables = (DEFAULT_TABLE, table_in_force(None, settings))
    signs = bool(key_file or settings.signing_key_file)
    store = bootstrap.store(settings.url, read_only=True)
    try:
        held = store.projection(action_id)
        if held is None:
            raise NotFoundError(f"There is no action {safe(action_id)} here.")
        events, tenant = entries_of(store, held), held.projection.tenant
        if not is_action(events):
            raise UsageError(f"{safe(action_id)} is a saga.", remedy="Export its steps: each is an action of its own.")
        proof = None
        if signs:
            with counted("reading the ledger", enabled=not as_json) as step:
                proof = proof_now(store, events[-1], key_file, step).to_bytes()
        data = make_bundle(events, lambda digest: _body(store, tenant, action_id, digest), tables, proof)
    finally:
        store.close()
    return _put(data, events, out, as_json=as_json)


def _body(store: LedgerStore, tenant: str, action_id: str, digest: str) -> bytes | None:
    found = store.evidence(tenant, action_id, digest)
    if found is None and not store.erased(tenant, action_id, digest):
        raise StoreCorruptError(f"The evidence {digest} is not there, and nothing says that it was erased.")
    return None if found is None else found.body


def _put(data: bytes, events: list[StoredEvent], out: str | None, *, as_json: bool) -> int:
    named = bundle_id(events)
    if out is None and as_json:
        raise UsageError("A bundle is JSON itself.", remedy="Name a file with --out, or leave out --json.")
    if out in (None, STDOUT):
        print(data.decode())
        return 0
    assert out is not None
    bootstrap.keep_file(Path(out), data, private=True)
    if as_json:
        print_json({"file": out, "bundle": named, "action": events[0].action_id, "entries": len(events)})
    else:
        note(f"Bundle {named}: {len(events)} entries of {safe(events[0].action_id)} in {safe(out)}.")
        note(f"Next: readback replay {safe(out)}")
    return 0
