"""Errors where the ledger, its machine, or Readback itself is at fault. Import them from `readback.errors`."""

from __future__ import annotations

from collections.abc import Mapping

from readback.canon.fault import ReadbackError


class StoreError(ReadbackError):
    """The ledger could not be read or written. Nothing new was started.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import StoreError
        >>> try:
        ...     Readback.open("sqlite:///missing/folder/ledger.db")
        ... except StoreError as error:
        ...     print(error.code, error.exit_code)
        store.no-folder 6
    """

    code = "store"
    exit_code = 6


class StoreLockedError(StoreError):
    """Another process holds the database longer than the busy limit.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import StoreLockedError
        >>> def open_ledger(url: str) -> str:
        ...     try:
        ...         Readback.open(url).close()
        ...     except StoreLockedError as error:
        ...         return f"{error.code}: {error.remedy}"
        ...     return "open"
        >>> open_ledger("memory:")
        'open'
        >>> print(StoreLockedError.code)
        store.locked
        >>> print(StoreLockedError.remedy_default)
        Find the process that locks the database, then run `readback resume`.
    """

    code = "store.locked"
    remedy_default = "Find the process that locks the database, then run `readback resume`."


class StoreReadOnlyError(StoreError):
    """The database, or its folder, cannot be written.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import StoreReadOnlyError
        >>> def open_ledger(url: str) -> str:
        ...     try:
        ...         Readback.open(url).close()
        ...     except StoreReadOnlyError as error:
        ...         return f"{error.code}: {error.remedy}"
        ...     return "open"
        >>> open_ledger("memory:")
        'open'
        >>> print(StoreReadOnlyError.code)
        store.read-only
        >>> print(StoreReadOnlyError.remedy_default)
        Grant the process write access to the database file and its folder.
    """

    code = "store.read-only"
    remedy_default = "Grant the process write access to the database file and its folder."


class StoreFullError(StoreError):
    """The database has no space left.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import StoreFullError
        >>> def open_ledger(url: str) -> str:
        ...     try:
        ...         Readback.open(url).close()
        ...     except StoreFullError as error:
        ...         return f"{error.code}: {error.remedy}"
        ...     return "open"
        >>> open_ledger("memory:")
        'open'
        >>> print(StoreFullError.code)
        store.full
        >>> print(StoreFullError.remedy_default)
        Free space on the volume; then run `readback resume`.
    """

    code = "store.full"
    remedy_default = "Free space on the volume; then run `readback resume`."


class StoreCorruptError(StoreError):
    """The database is no ledger, or its content contradicts its hashes.

    Example:
        >>> from pathlib import Path
        >>> from readback import Readback
        >>> from readback.errors import StoreCorruptError
        >>> _ = Path("ledger.db").write_text("These bytes are no SQLite database, and no ledger. " * 20)
        >>> try:
        ...     Readback.open("sqlite:///ledger.db")
        ... except StoreCorruptError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        store.corrupt
        Keep the file unchanged, restore the last backup, then run `readback ledger verify`.
    """

    code = "store.corrupt"
    remedy_default = "Keep the file unchanged, restore the last backup, then run `readback ledger verify`."


class StoreVersionError(StoreError):
    """The database has the schema of a newer release, perhaps migrated while this process ran.

    Example:
        >>> import sqlite3
        >>> from readback import Readback
        >>> from readback.errors import StoreVersionError
        >>> Readback.open("sqlite:///newer.db").close()
        >>> file = sqlite3.connect("newer.db", isolation_level=None)
        >>> _ = file.execute("INSERT INTO migration VALUES (9999, 'later.sql', '')")
        >>> file.close()
        >>> try:
        ...     Readback.open("sqlite:///newer.db")
        ... except StoreVersionError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        store.version
        Use the release that wrote the schema, or a later one: it continues the actions in progress.
    """

    code = "store.version"
    remedy_default = "Use the release that wrote the schema, or a later one: it continues the actions in progress."


class SqliteTooOldError(StoreError):
    """The SQLite library has a known defect that can corrupt the write-ahead log.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import SqliteTooOldError
        >>> def open_ledger(url: str) -> str:
        ...     try:
        ...         Readback.open(url).close()
        ...     except SqliteTooOldError as error:
        ...         return f"{error.code}: {error.remedy}"
        ...     return "open"
        >>> open_ledger("memory:")
        'open'
        >>> print(SqliteTooOldError.code)
        store.sqlite-too-old
        >>> print(SqliteTooOldError.remedy_default)
        Install the apsw wheel; it contains its own SQLite.
    """

    code = "store.sqlite-too-old"
    remedy_default = "Install the apsw wheel; it contains its own SQLite."


class ConflictError(StoreError):
    """A compare-and-swap was lost: the action changed after the read. Nothing was appended.

    Example:
        >>> from readback import Outcome, Proposal, Readback
        >>> from readback.errors import ConflictError
        >>> def run_once(rb: Readback, proposal: Proposal) -> Outcome | str:
        ...     try:
        ...         return rb.run(proposal)
        ...     except ConflictError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(ConflictError.code)
        store.conflict
        >>> print(ConflictError.remedy_default)
        Read the action again, then decide again.
    """

    code = "store.conflict"
    remedy_default = "Read the action again, then decide again."


class LeaseLostError(StoreError):
    """Another worker owns this action now. Nothing was appended.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import LeaseLostError
        >>> def continue_action(rb: Readback, action_id: str) -> str:
        ...     try:
        ...         return rb.wait(action_id, wait=30).state.value
        ...     except LeaseLostError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(LeaseLostError.code)
        store.lease-lost
        >>> print(LeaseLostError.remedy_default)
        Leave the action to its new owner.
    """

    code = "store.lease-lost"
    remedy_default = "Leave the action to its new owner."


class UnknownOutcomeError(StoreError):
    """The append after a side effect failed: the effect may have landed, and `outcome` says UNKNOWN.

    Example:
        >>> from readback import Proposal, Readback
        >>> from readback.errors import UnknownOutcomeError
        >>> def run_once(rb: Readback, proposal: Proposal) -> str:
        ...     try:
        ...         return rb.run(proposal).state.value
        ...     except UnknownOutcomeError as error:
        ...         return f"{error.outcome.state.value}: {error.remedy}"
        >>> print(UnknownOutcomeError.code)
        store.unknown-outcome
        >>> print(UnknownOutcomeError.remedy_default)
        Do not repeat the action. Repair the store, then run `readback resume`.
    """

    code = "store.unknown-outcome"
    remedy_default = "Do not repeat the action. Repair the store, then run `readback resume`."

    def __init__(
        self,
        message: str,
        *,
        outcome: object = None,
        remedy: str = "",
        details: Mapping[str, object] | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, details=details, code=code)
        self.outcome = outcome


class BackupError(StoreError):
    """No backup was made: writing failed, or the written file is not sound.

    Example:
        >>> from pathlib import Path
        >>> from readback import Readback, bootstrap
        >>> from readback.errors import BackupError
        >>> Readback.open("sqlite:///ledger.db").close()
        >>> _ = Path("copy.db").write_text("an earlier file")
        >>> try:
        ...     bootstrap.backup("sqlite:///ledger.db", Path("copy.db"), lambda done, total: None)
        ... except BackupError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        backup.exists
        Name another file: a backup never replaces a file.
    """

    code = "backup"
    remedy_default = "Name a new file on a volume with free space, then run the backup again."


class RestoreError(StoreError):
    """The backup was not installed. Neither the backup nor the target was changed.

    Example:
        >>> from pathlib import Path
        >>> from readback import Readback, bootstrap
        >>> from readback.errors import RestoreError
        >>> Readback.open("sqlite:///ledger.db").close()
        >>> Readback.open("sqlite:///copy1.db").close()
        >>> try:
        ...     with bootstrap.standing_by(Path("copy1.db"), "sqlite:///ledger.db", lambda done, total: None):
        ...         pass
        ... except RestoreError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        restore.exists
        Move the existing ledger with all its files once no process uses it. Nothing is overwritten.
    """

    code = "restore"
    remedy_default = "Use another backup, or read the message and decide."


class AnchorError(ReadbackError):
    """An anchor for checkpoints cannot be reached or written, or did not answer in time.

    No action fails by this error.

    Example:
        >>> from pathlib import Path
        >>> from readback import bootstrap
        >>> from readback.errors import AnchorError
        >>> anchor = bootstrap.anchor(Path.cwd().as_uri())
        >>> try:
        ...     anchor.last()
        ... except AnchorError as error:
        ...     print(error.code, error.exit_code)
        ...     print(error.remedy)
        anchor.failed 6
        Check that the anchor exists and is writable; the checkpoint is offered again.
    """

    code = "anchor.failed"
    exit_code = 6
    remedy_default = "Check that the anchor exists and is writable; the checkpoint is offered again."


class AnchorRefusedError(AnchorError):
    """An anchor rejected this checkpoint.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import AnchorRefusedError
        >>> def continue_actions(rb: Readback) -> str:
        ...     try:
        ...         return f"{len(rb.resume())} actions"
        ...     except AnchorRefusedError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> with Readback.open("memory:") as rb:
        ...     continue_actions(rb)
        '0 actions'
        >>> print(AnchorRefusedError.code)
        anchor.refused
        >>> print(AnchorRefusedError.remedy_default.partition(";")[0])
        Check that the anchor knows this log and its key
    """

    code = "anchor.refused"
    remedy_default = (
        "Check that the anchor knows this log and its key; the checkpoint is offered again, with growing pauses."
    )


class ErasedEvidenceError(ReadbackError):
    """The bytes were erased. An entry of the action records the erasure, so this is no damage.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import ErasedEvidenceError
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        ...     erased = rb.erase(outcome.id, who="ana@example.com", reason="request 12")
        ...     try:
        ...         rb.get(outcome.id).value
        ...     except ErasedEvidenceError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        evidence.erased
        Run `readback show` to see the erasing entry and its reason.
    """

    code = "evidence.erased"
    exit_code = 1
    remedy_default = "Run `readback show` to see the erasing entry and its reason."


class InvariantError(ReadbackError):
    """An internal invariant would have been violated.

    This is a bug in Readback; the action was stopped at that point.

    Example:
        >>> from readback import Outcome, Proposal, Readback
        >>> from readback.errors import InvariantError
        >>> def run_once(rb: Readback, proposal: Proposal) -> Outcome | str:
        ...     try:
        ...         return rb.run(proposal)
        ...     except InvariantError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(InvariantError.code)
        internal.invariant
        >>> print(InvariantError.remedy_default)
        Report this with the action's `readback show --json`.
    """

    code = "internal.invariant"
    exit_code = 6
    remedy_default = "Report this with the action's `readback show --json`."
