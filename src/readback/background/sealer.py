"""The sealer: signs the head of the log on a cadence, in a thread of its own. No action waits for it, and none fails.

Told of each append by the drivers (`hear`, which only counts), and of a process's end (`close`). Everything else it
takes from the store, so that what was missed is sealed by whoever comes next, and several processes may seal one log:
the store keeps one of two that come at once. A log that does not go on from its last checkpoint, or from the last one
that was signed here, or that has not what was heard of, is not signed; that is said once, and the actions go on.
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
"""How long closing waits for the last checkpoint; what it leaves is sealed by the next process."""

Renewed: TypeAlias = Callable[[LogSigner], tuple[LogSigner, Authority] | None]
"""The log's key and whose heads count, where not this key is in place by now. Raises where none may sign now."""


class Sealer:
    """Seals one opened ledger every so many entries or seconds, and when it is closed."""

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
        """`in_use`: keeps another key from following this one meanwhile."""
        self._store, self._runtime, self._signer, self.authority = store, runtime, signer, authority
        self._cadence, self._anchoring, self._renewed, self._in_use = cadence, anchoring, renewed, in_use
        self._changed = threading.Condition()
        self._seen = self._sealed = self._wanted = 0
        self._thread: threading.Thread | None = None
        self._closed = self._now = False
        self._last: Checkpoint | None = None
        """What was signed here last: whatever the store says by now, nothing else is gone on from."""
        self.fault: ReadbackError | None = None
        """Why nothing was sealed the last time; None where something was."""

    def hear(self, seq: int) -> None:
        """An append is durable, and its last entry has this place. On the hot path: it counts, and no more.

        A place before what is sealed is one that others passed on the way here, or of a log that lost its end: that is
        looked at.
        """
        self._seen = seq
        if self._thread is None or seq >= self._wanted:
            self._wake()

    def sweep(self) -> None:
        """Looks once for what others left unsealed. Returns at once."""
        if self._thread is None:
            self._seen = max(self._seen, self._store.last_seq())
            if self._seen > self._sealed:
                self._wake()

    def flush(self, patience_s: float = CLOSE_SECONDS) -> bool:
        """Seals what was heard of now, and waits for it; false where that takes longer than `patience_s`."""
        with self._changed:
            self._start_if_behind()  # a thread may have ended just as the last entry came
            self._now = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(patience_s)
        return thread is None or not thread.is_alive()

    def close(self) -> None:
        """Seals what was heard of, and hands it to the anchors, both within a limit."""
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
        """Until everything that was heard of is sealed, or something is in the way of that."""
        try:
            self._seal_on()
        finally:
            with self._changed:
                if self._thread is threading.current_thread():  # it was broken off: the next entry has one of its own
                    self._thread = None

    def _seal_on(self) -> None:
        while True:
            with self._changed:
                if not self._is_due():
                    self._changed.wait(self._cadence.seconds)  # its end is the cadence's as well
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
        """Takes up the key that is in place now: one that was followed by another signs nothing more."""
        found = self._renewed(self._signer) if self._renewed is not None else None
        if found is not None:
            self._signer, self.authority = found
            if self._anchoring is not None:
                self._anchoring.authority = self.authority

    def _say(self, error: ReadbackError) -> None:
        known, self.fault = self.fault, error
        if known is None or known.code != error.code:
            warn(f"the log was not sealed: {error.code}: {error.message}")
