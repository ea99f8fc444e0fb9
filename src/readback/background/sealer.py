"""Sign the head of the log on a schedule, in a thread of its own. No action waits for the sealer or fails because of
it.

The drivers report each append (`hear`, which only counts) and the end of the process (`close`). All other data comes
from the store, so a later process seals what this process missed. Several processes may seal one log: the store accepts
one of two simultaneous checkpoints. The sealer refuses to sign a log that does not extend the last checkpoint, does not
extend the last checkpoint signed here, or lacks a reported entry. A refusal is reported once, and actions continue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeAlias

from readback.audit.evidence.attest import Authority
from readback.audit.sealing.seal import seal
from readback.background.anchoring import Anchoring
from readback.canon import ReadbackError
from readback.canon.stderr import warn
from readback.domain.records.seal_schedule import SealSchedule
from readback.log.checkpoint import Checkpoint, SignedCheckpoint
from readback.log.fault import LogCutError
from readback.ports.runtime import Runtime
from readback.ports.signer import LogSigner
from readback.ports.storage.store import LedgerStore

CLOSE_SECONDS: Final = 5.0
"""How long `close` waits for the last checkpoint. The next process seals the rest."""

Renewed: TypeAlias = Callable[[LogSigner], tuple[LogSigner, Authority] | None]
"""Returns the current key and authority of the log if this key was replaced. Raises if no key may sign now."""


class Sealer:
    """Seal one opened ledger every so many entries or seconds, and on close."""

    def __init__(
        self,
        store: LedgerStore,
        runtime: Runtime,
        signer: LogSigner,
        authority: Authority,
        cadence: SealSchedule,
        anchoring: Anchoring | None = None,
        renewed: Renewed | None = None,
        in_use: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`in_use`: prevents a replacement of the key meanwhile."""
        self._store, self._runtime, self._signer, self.authority = store, runtime, signer, authority
        self._cadence, self._anchoring, self._renewed, self._in_use = cadence, anchoring, renewed, in_use
        self._changed = threading.Condition()
        self._seen = self._sealed = self._wanted = 0
        self._thread: threading.Thread | None = None
        self._closed = self._now = False
        self._last: Checkpoint | None = None
        """The last checkpoint signed here. The next checkpoint must extend it, even if the store differs."""
        self.fault: ReadbackError | None = None
        """Why the last attempt sealed nothing; None after a success."""

    def hear(self, seq: int) -> None:
        """Note a durable append and the position of its last entry. Called on the hot path, so this only counts.

        A position before the sealed size comes from a late report or from a log with a lost end. The sealer checks such
        a log.
        """
        self._seen = seq
        if self._thread is None or seq >= self._wanted:
            self._wake()

    def sweep(self) -> None:
        """Look once for entries left unsealed. Returns at once."""
        if self._thread is None:
            self._seen = max(self._seen, self._store.last_seq())
            if self._seen > self._sealed:
                self._wake()

    def flush(self, patience_s: float = CLOSE_SECONDS) -> bool:
        """Seal all reported entries now, and wait. Returns False after `patience_s` seconds."""
        with self._changed:
            self._start_if_behind()  # a thread may have ended just as the last entry came
            self._now = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(patience_s)
        return thread is None or not thread.is_alive()

    def close(self) -> None:
        """Seal all reported entries and hand the checkpoint to the anchors, both within a limit."""
        with self._changed:
            self._start_if_behind()
            self._closed = True
        self.flush()
        if self._anchoring is not None:
            self._anchoring.close()

    def _wake(self) -> None:
        with self._changed:
            if self._thread is not None:
                self._changed.notify_all()
                return
            self._start_if_behind()

    def _start_if_behind(self) -> None:
        if self._thread is not None or self._closed or self._seen == self._sealed:
            return
        self._wanted = self._seen + self._cadence.entries
        self._thread = threading.Thread(target=self._work, name="readback-sealer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending: the next process seals it
            self._thread = None

    def _work(self) -> None:
        """Run until all reported entries are sealed or an obstacle appears."""
        try:
            self._seal_on()
        finally:
            with self._changed:
                if self._thread is threading.current_thread():  # interrupted: the next entry starts another thread
                    self._thread = None

    def _seal_on(self) -> None:
        while True:
            with self._changed:
                if not self._is_due():
                    self._changed.wait(self._cadence.seconds)  # the timeout is the schedule's interval
            ok = self._seal()
            with self._changed:
                if not ok or self._seen <= self._sealed:
                    self._thread, self._now = None, False
                    return
                self._wanted = self._sealed + self._cadence.entries

    def _is_due(self) -> bool:
        return self._closed or self._now or self._seen >= self._wanted

    def _seal(self) -> bool:
        try:
            signed = self._signed()
        except ReadbackError as error:
            self._say(error)
            return False
        self.fault = None
        self._last, self._sealed = signed.checkpoint, signed.checkpoint.size
        if self._anchoring is not None:
            self._anchoring.offer()
        return True

    def _signed(self) -> SignedCheckpoint:
        with self._in_use():
            self._renew()
            seen, before = self._seen, [self._last] if self._last is not None else []
            signed = seal(self._store, self._signer, self.authority, self._runtime.now_us(), before)
        size = signed.checkpoint.size if signed is not None else 0
        if signed is None or (size < seen and size <= self._sealed):
            raise LogCutError(f"Entry {seen} was appended, and nothing follows entry {size}: the end was cut off.")
        return signed

    def _renew(self) -> None:
        """Adopt the current key: a replaced key signs nothing more."""
        found = self._renewed(self._signer) if self._renewed is not None else None
        if found is not None:
            self._signer, self.authority = found
            if self._anchoring is not None:
                self._anchoring.authority = self.authority

    def _say(self, error: ReadbackError) -> None:
        known, self.fault = self.fault, error
        if known is None or known.code != error.code:
            warn(f"the log was not sealed: {error.code}: {error.message}")
