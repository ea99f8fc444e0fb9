"""The composition root: the only module that chooses adapters. Heavy modules are imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readback.canon import Json
from readback.config import Settings, secret_at, settings, shown
from readback.domain.records.subscriber import Subscriber
from readback.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from readback.ports.anchor import Anchor
    from readback.ports.predicates import Compared, ExpressionMutant, PredicateEngine
    from readback.ports.runtime import Runtime
    from readback.ports.scripts import ScriptEngine
    from readback.ports.signer import LogSigner, Signer
    from readback.ports.sink import Sink
    from readback.ports.storage.log import Links, Tiles
    from readback.ports.storage.store import LedgerStore
    from readback.ports.storage.wakeups import Wakeups
    from readback.stores.migration import Migration

__all__ = [
    "Settings",
    "anchor",
    "approver_key",
    "backup",
    "compare_expressions",
    "create_approver_key",
    "create_log_key",
    "expression_mutants",
    "fallback",
    "keep_file",
    "kept_file",
    "links",
    "log_key",
    "log_key_in_use",
    "new_tiles",
    "next_log_key",
    "operator_sink",
    "predicate_engine",
    "rotations_of",
    "runtime",
    "script_engine",
    "settings",
    "standing_by",
    "store",
    "store_damage",
    "store_not_compared",
    "take_over",
    "tiles",
    "tiles_alone",
    "verify_signature",
    "wakeups",
    "written_file",
]

_engines: list[PredicateEngine] = []

MEMORY_URL: Final = "memory:"
"""A ledger in this process's memory: the ledger ends with the client, and no other process can open it."""


def store(url: str, *, read_only: bool = False) -> LedgerStore:
    """Open the ledger at a URL. Raises SettingsError for an unsupported scheme, StoreError where opening fails.

    `read_only`: create, migrate and change nothing; raises StoreError where there is no ledger.
    """
    scheme = url.partition(":")[0]
    if scheme in ("postgresql", "postgres"):
        try:
            from readback.stores.postgres import open_postgres_store
        except ModuleNotFoundError as error:
            raise SettingsError(
                f"The adapter for {scheme!r} URLs is not installed ({error.name}).",
                remedy="Install it: pip install 'readback-ai[postgres]'.",
            ) from error
        return open_postgres_store(url, read_only=read_only)
    if url == MEMORY_URL and not read_only:
        from readback.testing.store_memory import MemoryStore

        return MemoryStore()
    if scheme != "sqlite":
        raise _unserved(url)
    from readback.stores.sqlite import open_sqlite_store

    return open_sqlite_store(url, read_only=read_only)


def store_damage(store: LedgerStore) -> list[str]:
    """Return the damage found by the store in its own files; empty where none is found, or the store has no check.
    Reads everything.
    """
    find = getattr(store, "damage", None)
    return [] if find is None else list(find())


def store_not_compared(store: LedgerStore) -> list[str]:
    """Return the parts of the store's files that `store_damage` cannot compare here, one sentence each."""
    find = getattr(store, "not_compared", None)
    return [] if find is None else list(find())


def store_migrations(name: str) -> Sequence[Migration]:
    """Return the steps of a store's schema in this release. `name`: sqlite or postgres. Connects nowhere."""
    from readback.stores.migration import migrations_of

    return migrations_of(f"readback.stores.{name}")


def backup(url: str, out: Path, progress: Callable[[int, int], None]) -> None:
    """Copy a ledger to a new file while others write. Raises BackupError, StoreError, SettingsError.

    `progress` is called with the amount done and the total.
    """
    from readback.stores.sqlite.backup import copy_ledger
    from readback.stores.sqlite.store import BUSY_TIMEOUT_MS, path_of

    copy_ledger(path_of(_file_url(url)), out, BUSY_TIMEOUT_MS, progress)


def standing_by(
    backup: Path, url: str, progress: Callable[[int, int], None]
) -> AbstractContextManager[tuple[str, Callable[[], None]]]:
    """Copy a backup beside the ledger's target. Return the copy's URL and a function that installs it. Raises
    RestoreError.
    """
    from readback.stores.sqlite.backup import standing_by
    from readback.stores.sqlite.store import path_of

    return standing_by(backup, path_of(_file_url(url)), progress)


def _file_url(url: str) -> str:
    if url.startswith(("postgresql:", "postgres:")):
        raise SettingsError(
            f"The ledger {shown(url)} is not a file.", remedy="Copy the database with pg_dump and pg_restore."
        )
    if not url.startswith("sqlite:"):
        raise _unserved(url)
    return url


def _unserved(url: str) -> SettingsError:
    scheme = url.partition(":")[0]
    named = f"{shown(url)!r}, which is no URL" if "=" in scheme else f"{scheme!r} URLs"
    by_path = f"Write sqlite:///{shown(url)} for a file. " if ":" not in url else ""
    return SettingsError(
        f"No ledger store supports {named}.",
        remedy=f"{by_path}Use sqlite:///file.db, sqlite:////absolute/file.db, postgresql://user@host/database, "
        "or memory:.",
    )


def runtime() -> Runtime:
    """Return this machine's clock, sleep and ids."""
    from readback.adapters.runtime_system import SystemRuntime

    return SystemRuntime()


def wakeups(store: LedgerStore, runtime: Runtime) -> Wakeups:
    """Return the notifier for workers on this ledger. Raises SettingsError where the queue of the ledger is not
    installed.
    """
    address = getattr(store, "address", None)
    if address is not None:
        try:
            from readback.stores.wakeups.procrastinate_queue import ProcrastinateWakeups
        except ImportError as error:
            raise SettingsError(
                f"Workers on PostgreSQL need {error.name}, which is not installed.",
                remedy="Install it: pip install 'readback-ai[postgres]'.",
            ) from error
        return ProcrastinateWakeups(store, runtime, address.url, address.schema)
    from readback.stores.wakeups.embedded import EmbeddedWakeups

    return EmbeddedWakeups(store, runtime)


def predicate_engine() -> PredicateEngine:
    """Return the expression language's engine; the process has one."""
    if not _engines:
        from readback.adapters.cel import CelPredicates

        _engines.append(CelPredicates())
    return _engines[0]


def compare_expressions(old: str, new: str, *, boolean: bool = True) -> Compared:
    """Compare two expressions by their syntax trees. Raises ExpressionError where either does not compile."""
    from readback.adapters.cel.comparing import compare

    return compare(predicate_engine(), old, new, boolean=boolean)


def expression_mutants(source: str, fields: Mapping[str, Sequence[str]]) -> tuple[ExpressionMutant, ...]:
    """Return the expression with one part changed, in every way of a mutation test. Raises ExpressionError.

    `fields`: the names of a field's siblings by the text of the field's path, such as `authoritative.status`.
    """
    from readback.adapters.cel.mutants import expression_mutants

    return expression_mutants(source, fields)


def fallback(store: LedgerStore, record: dict[str, Json]) -> str:
    """Write a record that the ledger did not accept to a fallback file, and return the file's place."""
    from readback.adapters.sinks.fallback import write_fallback

    return write_fallback(getattr(store, "path", None), record)


def sink(subscriber: Subscriber, runtime: Runtime) -> Sink:
    """Return a subscriber's sink. Raises SettingsError."""
    timeout_s = subscriber.timeout_s
    if subscriber.webhook:
        from readback.adapters.sinks.webhook import WebhookSink

        secret = secret_at(subscriber.secret)
        return WebhookSink(subscriber.webhook, secret, now_us=runtime.now_us, timeout_s=timeout_s)
    if subscriber.command:
        from readback.adapters.sinks.command import CommandSink

        return CommandSink(subscriber.command, timeout_s=timeout_s)
    if subscriber.tell is not None:
        from readback.adapters.sinks.callable import CallableSink

        return CallableSink(subscriber.tell, timeout_s=timeout_s)
    from pathlib import Path

    from readback.adapters.sinks.file import FileSink

    return FileSink(Path(subscriber.file).expanduser())


def operator_sink(store: LedgerStore) -> Sink | None:
    """Return the sink for undelivered messages: a file beside the ledger. None for a ledger without a file."""
    path = getattr(store, "path", None)
    if path is None:
        return None
    from pathlib import Path

    from readback.adapters.sinks.file import OPERATOR_SUFFIX, FileSink

    return FileSink(Path(f"{path}{OPERATOR_SUFFIX}"))


def verify_signature(public_key: str, message: bytes, signature: bytes) -> bool:
    """Return whether an Ed25519 signature matches this key and message."""
    from readback.adapters.signer_ed25519 import verify

    return verify(public_key, message, signature)


def create_approver_key(path: Path, passphrase: str) -> Signer:
    """Create an approver's key in a new file, readable by the owner alone. Raises ApprovalError."""
    from readback.adapters.signer_ed25519 import create_key

    return create_key(path, passphrase)


def approver_key(path: Path, passphrase: str) -> Signer:
    """Open the approver's key in a file. Raises ApprovalError where others may read the file, or the passphrase is
    wrong.
    """
    from readback.adapters.signer_ed25519 import open_key

    return open_key(path, passphrase)


def create_log_key(path: Path, name: str) -> LogSigner:
    """Create a log's key in a new file, readable by the owner alone. `name` "" generates a name.

    Raises SettingsError.
    """
    from readback.adapters.log.signer_log import create_log_key

    return create_log_key(path, name)


def log_key(path: Path) -> LogSigner:
    """Open the log's key in a file. Raises SettingsError where others may read the file, or no key is in the file."""
    from readback.adapters.log.signer_log import open_log_key

    return open_log_key(path)


def anchor(url: str, secret: str = "") -> Anchor:
    """Return an anchor for checkpoints: `file:`, `git+file:`, `https:`, `witness+https:`. Raises SettingsError.

    `secret`: the reference of the bearer token for an `https:` anchor; "" for none.
    """
    try:
        return _anchor(url, secret)
    except ValueError as error:  # what no address can hold, such as one bracket of two
        said = f"The anchor's address is invalid ({error}). Start the address with {url.partition(':')[0]!r}."
        raise SettingsError(said, remedy="Correct the URL.") from error


def _anchor(url: str, secret: str) -> Anchor:
    match url.partition(":")[0]:
        case "file":
            from readback.adapters.log.anchor_file import file_anchor

            return file_anchor(url)
        case "git+file":
            from readback.adapters.log.anchor_git import git_anchor

            return git_anchor(url)
        case "https" | "http":
            from readback.adapters.log.anchor_http import http_anchor

            return http_anchor(url, secret_at(secret).decode("utf-8", "replace") if secret else "")
        case "witness+https" | "witness+http":
            from readback.adapters.log.anchor_witness import witness_anchor

            return witness_anchor(url, verify_signature)
        case scheme:
            raise SettingsError(
                f"No anchor supports {scheme!r} URLs.",
                remedy="Use file:///path, git+file:///repository#branch, https://place or witness+https://prefix#KEY.",
            )


def next_log_key(path: Path, name: str) -> tuple[LogSigner, Path]:
    """Return the announced successor of the key in a file, and the successor's path. Raises SettingsError."""
    from readback.adapters.log.signer_log import next_key

    return next_key(path, name)


def log_key_in_use(path: Path, *, alone: bool = False) -> AbstractContextManager[None]:
    """Lock a log's key while it signs, against rotation; `alone`: lock for the rotation itself. Raises SettingsError,
    also while a rotation is under way.
    """
    from readback.adapters.log.signer_log import in_use

    return in_use(path, alone=alone)


def take_over(path: Path, beside: Path) -> None:
    """Replace a log's old key with its successor. Raises SettingsError."""
    from readback.adapters.log.signer_log import take_over

    take_over(path, beside)


def rotations_of(path: Path) -> Path:
    """Return the path of the record of earlier keys, for the key in this file."""
    from readback.adapters.log.signer_log import ROTATIONS_SUFFIX

    return path.with_name(path.name + ROTATIONS_SUFFIX)


def new_tiles(folder: Path) -> Tiles:
    """Return an empty folder for an exported log. Raises UsageError where the folder is not empty."""
    from readback.adapters.log.tiles_folder import new_folder

    return new_folder(folder)


def tiles(folder: Path) -> Tiles:
    """Open the folder of an exported log. Raises UsageError where the folder is missing."""
    from readback.adapters.log.tiles_folder import old_folder

    return old_folder(folder)


def tiles_alone(folder: Path) -> AbstractContextManager[Tiles]:
    """Open or create the folder of a continued log, with an exclusive lock. Raises UsageError, or StoreLockedError."""
    from readback.adapters.log.tiles_folder import alone

    return alone(folder)


def links() -> Links:
    """Return the memory of a check of an exported log, of constant size."""
    from readback.adapters.log.spill_index import TemporaryLinks

    return TemporaryLinks()


def keep_file(path: Path, data: bytes, *, private: bool = False, own: bool = False) -> None:
    """Write a file to the disk atomically, as `written_file` does. Raises StoreError, UsageError."""
    with written_file(path, private=private, own=own) as write:
        write(data)


def script_engine(now_us: Callable[[], int]) -> ScriptEngine:
    """Return the engine for verifiers' scripts; the first script starts the engine. `now_us`: the time given to
    scripts.
    """
    from readback.adapters.scripts.host import WorldHost
    from readback.adapters.scripts.monty import MontyEngine

    return MontyEngine(lambda allow, limits: WorldHost(allow, limits, now_us))


def written_file(
    path: Path, *, private: bool = False, own: bool = False
) -> AbstractContextManager[Callable[[bytes], object]]:
    """Write a file piece by piece and atomically; a device or a pipe is written directly. Raises StoreError, and
    UsageError for a file of Readback's own or a database. `own`: the caller writes a file of Readback's own. `private`:
    a new file is readable by the owner alone, as the ledger is.
    """
    from readback.adapters.log.tiles_folder import written

    return written(path, private=private, own=own)


def kept_file(path: Path, bytes_max: int) -> bytes | None:
    """Read a plain file; None where there is none. Raises LogFormatError for a file over the limit, else StoreError."""
    from readback.adapters.log.tiles_folder import take

    return take(path, bytes_max)


predicates = predicate_engine
