"""Hand each checkpoint to the anchors in a thread of its own.

A dead anchor delays no action, and delays another anchor only until its timeout. The sealer wakes this thread. The
store records each anchor's progress. A failed anchor is retried with growing pauses while checkpoints are pending, and
again by the next process.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from readback.audit.evidence.attest import Authority
from readback.audit.sealing.anchor import hand_over
from readback.canon import ReadbackError
from readback.canon.stderr import warn
from readback.errors import StoreError
from readback.log.fault import LogError
from readback.ports.anchor import Anchor
from readback.ports.runtime import Runtime
from readback.ports.storage.log import AnchorMark
from readback.ports.storage.store import LedgerStore

RETRY_FIRST_US: Final = 5_000_000
RETRY_MAX_US: Final = 600_000_000
CLOSE_SECONDS: Final = 5.0


class Anchoring:
    """The anchors of one opened ledger."""

    def __init__(self, store: LedgerStore, runtime: Runtime, authority: Authority, anchors: Sequence[Anchor]) -> None:
        self._store, self._runtime, self.authority, self._anchors = store, runtime, authority, tuple(anchors)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = self._closed = False
        self._retry: dict[str, tuple[int, int]] = {}
        """Anchor name -> (earliest time of the next attempt, the pause before)."""
        self._said: dict[str, str] = {}

    def offer(self) -> None:
        """Announce a new checkpoint. Returns at once."""
        with self._lock:
            self._wanted = True
            if self._closed or self._thread is not None or not self._anchors:
                return
            self._thread = threading.Thread(target=self._work, name="readback-anchors", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending: the next process offers it
                self._thread = None

    def flush(self, patience_s: float = CLOSE_SECONDS) -> bool:
        """Wait until no handover is running. Returns False after `patience_s` seconds."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(patience_s)
        return thread is None or not thread.is_alive()

    def close(self) -> None:
        """Wait, within the limit, for the running handover."""
        self.flush()
        self._closed = True

    def _work(self) -> None:
        try:
            while self._goes_on():
                for anchor in self._anchors:
                    self._hand_over(anchor)
        finally:
            with self._lock:
                if self._thread is threading.current_thread():  # interrupted: the next offer starts another thread
                    self._thread = None

    def _goes_on(self) -> bool:
        """Whether a handover is pending. If not, the thread ends and the next offer starts another."""
        with self._lock:
            if not self._wanted or self._closed:
                self._thread = None
                return False
            self._wanted = False
            return True

    def _hand_over(self, anchor: Anchor) -> None:
        now_us = self._runtime.now_us()
        until_us, pause_us = self._retry.get(anchor.name, (0, 0))
        if now_us < until_us or self._closed:
            return
        try:
            error = self._refusal(anchor, now_us)
            if error is None:
                self._retry.pop(anchor.name, None)
                self._said.pop(anchor.name, None)
                return
            pause_us = min(2 * pause_us or RETRY_FIRST_US, RETRY_MAX_US)
            self._retry[anchor.name] = (now_us + pause_us, pause_us)
            self._failed(anchor.name, error, now_us)
        except StoreError:
            return  # a fault of the ledger: the next checkpoint is offered again

    def _refusal(self, anchor: Anchor, now_us: int) -> ReadbackError | None:
        try:
            hand_over(self._store, anchor, self.authority, now_us)
        except StoreError:
            raise
        except ReadbackError as error:
            return error
        return None

    def _failed(self, name: str, error: ReadbackError, now_us: int) -> None:
        """Record the failure. Warn once about an anchor with a different history."""
        size = next((mark.size for mark in self._store.anchors() if mark.name == name), 0)
        self._store.mark(AnchorMark(name, size, now_us, error.code))
        if isinstance(error, LogError) and self._said.get(name) != error.code:
            self._said[name] = error.code
            warn(f"the anchor {name} holds another log: {error.code}: {error.message}")
