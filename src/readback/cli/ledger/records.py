"""`readback ledger export`: every action as an action ledger entry; `evidence` and `schema` complete such entries.

The ledger is opened read-only and read one action at a time, so memory use does not grow with the number of actions.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from readback import bootstrap
from readback.audit.checks.entries import named
from readback.audit.record.action import is_action, record_of
from readback.canon import Json, parse_json, stored_bytes
from readback.canon.frozen import dataclass
from readback.cli import options
from readback.cli.ledger.log import OUT, URL
from readback.cli.progress import counted
from readback.cli.sessions import settings_of
from readback.cli.terminal import note, print_json, safe
from readback.config import Settings
from readback.domain.records.pointer import EvidencePointer, parse_pointer
from readback.errors import ErasedEvidenceError, NotFoundError, StoreCorruptError, UsageError
from readback.log.tree import leaf_hash
from readback.ports.storage.store_rules import INT64_MAX

if TYPE_CHECKING:
    from readback.ports.storage.store import LedgerStore, StoredEvent, StoredProjection

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CONTRACTS_KEPT_MAX: Final = 256
STDOUT: Final = "-"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The selected actions. Empty fields match everything. Times are proposal times, from `since_us` to before
    `until_us`.
    """

    tenant: str = ""
    ids: tuple[str, ...] = ()
    since_us: int | None = None
    until_us: int | None = None

    @property
    def timed(self) -> bool:
        """Whether a time range is set."""
        return self.since_us is not None or self.until_us is not None


@dataclass(slots=True)
class Written:
    """The result of an export."""

    records: int = 0
    sagas: int = 0


@dataclass(slots=True)
class Contracts:
    """A cache of the last few contract texts. Most actions share one text."""

    store: LedgerStore
    kept: OrderedDict[tuple[str, str], Mapping[str, Json]] = field(default_factory=OrderedDict)

    def __call__(self, tenant: str, digest: str) -> Mapping[str, Json]:
        at = (tenant, digest)
        if at not in self.kept:
            found = self.store.evidence(tenant, "", digest)
            body = parse_json(found.body) if found is not None else None
            self.kept[at] = body if isinstance(body, dict) else {}
            if len(self.kept) > CONTRACTS_KEPT_MAX:
                self.kept.popitem(last=False)
        return self.kept[at]


def write_records(url: str | None, wanted: Wanted, out: str, *, as_json: bool) -> int:
    """`ledger export`: one record a line, to stdout or to a file that appears complete or not at all."""
    settings = settings_of(url)
    store = bootstrap.store(settings.url, read_only=True)
    try:
        with _writer(out) as write, counted("exporting the ledger", enabled=out != STDOUT and not as_json) as step:
            written = _write(store, wanted, write, step)
    finally:
        store.close()
    if as_json and out != STDOUT:
        print_json({"file": out, "records": written.records, "sagas": written.sagas})
        return 0
    where = "" if out == STDOUT else f" in {safe(out)}"
    note(f"{written.records} actions{where}, each as one action ledger entry (JSON lines).")
    if written.sagas:
        note(f"{written.sagas} sagas are omitted: a saga calls no tool, and the steps of a saga are actions.")
    return 0


def _writer(out: str) -> AbstractContextManager[Callable[[bytes], object]]:
    if out != STDOUT:
        return bootstrap.written_file(Path(out))
    return nullcontext(_to_stdout)


def _to_stdout(piece: bytes) -> None:
    sys.stdout.write(piece.decode())


def _write(
    store: LedgerStore, wanted: Wanted, write: Callable[[bytes], object], progress: Callable[[int], None]
) -> Written:
    written, contracts = Written(), Contracts(store)
    now_us = bootstrap.runtime().now_us()
    for events in _streams(store, wanted):
        if not is_action(events):
            written.sagas += 1
            continue
        write(stored_bytes(record_of(events, contracts, now_us)) + b"\n")
        written.records += 1
        progress(written.records)
    return written


def _streams(store: LedgerStore, wanted: Wanted) -> Iterator[list[StoredEvent]]:
    """The entries of each selected action, oldest action first. Raises NotFoundError, StoreCorruptError."""
    if wanted.ids:
        for action_id in dict.fromkeys(wanted.ids):
            held = store.projection(action_id)
            if held is None or wanted.tenant not in ("", held.projection.tenant):
                raise NotFoundError(f"There is no action {safe(action_id)} here.")
            yield entries_of(store, held)
        return
    for held in _chosen(store, wanted):
        if wanted.tenant in ("", held.projection.tenant):
            yield entries_of(store, held)


def _chosen(store: LedgerStore, wanted: Wanted) -> Iterator[StoredProjection]:
    """The actions of the selected time or tenant. No others are read."""
    if not wanted.timed:
        return store.projections(wanted.tenant)
    until_us = INT64_MAX if wanted.until_us is None else wanted.until_us
    return store.proposed(max(wanted.since_us or 0, 0), until_us)


def entries_of(store: LedgerStore, held: StoredProjection) -> list[StoredEvent]:
    """All entries of an action, each with its expected leaf hash. `held` is read before the entries, so the entries may
    have grown but not shrunk. Raises StoreCorruptError.
    """
    action_id = held.projection.action_id
    events = store.events(action_id)
    versions = [each.version for each in events]
    if len(events) < max(held.version, 1) or versions != [*range(1, len(events) + 1)]:
        said = f"Action {safe(action_id)} was recorded with {held.version} entries; {len(events)} entries were found."
        raise StoreCorruptError(said, remedy="Leave the file unchanged, and run `readback ledger verify`.")
    for each in events:
        if leaf_hash(each.envelope) != each.leaf:
            raise StoreCorruptError(f"{named(each)} differs from its leaf hash.")
    return events


def moment_us(option: str, text: str | None) -> int | None:
    """A typed moment in microseconds. Raises UsageError."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        at = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return (at - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError) as error:
        said = "Write the time as 2026-01-31 or 2026-01-31T12:00:00Z."
        raise UsageError(f"{option} {safe(text)} is no moment.", remedy=said) from error


@click.command("evidence", short_help="Print the evidence behind a pointer.")
@click.argument("pointer", metavar="POINTER")
@click.option("--action", "action_id", metavar="ID", help="The action of the evidence (default: search all actions).")
@options.settings
@OUT
def evidence(pointer: str, action_id: str | None, settings: Settings, out: str | None) -> int:
    """Print the evidence of POINTER after recomputing the hash: the stored bytes, unchanged.

    \b
    evidence:sha256:HEX              evidence of the tenant
    entry:ID:VERSION:sha256:HEX      an entry of the ledger

    Exit code 0: printed; 1: erased; 2: not found; 6: the bytes do not match the hash.
    """
    named = parse_pointer(pointer)
    store = bootstrap.store(settings.url, read_only=True)
    try:
        if isinstance(named, EvidencePointer):
            body = _evidence(store, settings.tenant, named.digest, action_id)
        else:
            body = _entry(store, settings.tenant, named.action_id, named.version, named.leaf)
    finally:
        store.close()
    if out is not None:
        bootstrap.keep_file(Path(out), body, private=True)
        note(f"{len(body)} bytes in {safe(out)}.")
    else:
        sys.stdout.write(body.decode("utf-8", "backslashreplace") + "\n")
    return 0


def _evidence(store: LedgerStore, tenant: str, digest: str, action_id: str | None) -> bytes:
    keeper = (store.keeper(tenant, digest) or "") if action_id is None else action_id
    found = store.evidence(tenant, keeper, digest)
    if found is not None:
        return found.body
    if store.erased(tenant, keeper, digest):
        raise ErasedEvidenceError(
            f"The evidence {digest} was erased. The digest and the entries with the digest remain."
        )
    raise NotFoundError(f"Tenant {safe(tenant)} has no evidence {digest}.", remedy="Name the tenant with --tenant.")


def _entry(store: LedgerStore, tenant: str, action_id: str, version: int, leaf: str) -> bytes:
    held = store.projection(action_id)
    events = store.events(action_id) if held is not None and held.projection.tenant == tenant else []
    if version > len(events):
        raise NotFoundError(f"Tenant {safe(tenant)} has no entry {version} of action {safe(action_id)}.")
    found = events[version - 1]
    if leaf_hash(found.envelope) != found.leaf:
        raise StoreCorruptError(f"{named(found)} differs from its leaf hash.")
    if found.leaf.hex() != leaf:
        raise NotFoundError(f"Entry {version} of action {safe(action_id)} has another hash than the pointer.")
    return found.envelope


@click.command("schema", short_help="Print the JSON Schema of the records.")
def schema() -> int:
    """Print the JSON Schema (2020-12) of the lines of `readback ledger export`.

    The schema is the action ledger entry of the action verification specification, with an $id of our own.
    """
    from readback.client.schemas import schema_text

    sys.stdout.write(schema_text())
    return 0


__all__ = ["STDOUT", "URL", "Wanted", "entries_of", "evidence", "moment_us", "schema", "write_records"]
