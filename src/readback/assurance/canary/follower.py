"""Follow a ledger and ask the canary's candidate about each new verdict of the subset, in a thread of a worker.

No action waits for the follower, and no caller receives its errors. The position moves after the verdict is durable.
A process killed before that repeats the question, and the record's idempotency key keeps the verdict single. One
process at a time follows, by a lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Final

from readback.assurance.canary.judging import Asked, ask, is_verdict
from readback.assurance.canary.records import OWN, CanaryRecords, CanaryState, Opened, session_of
from readback.assurance.canary.tally import Tally, stop_reason, tally_of
from readback.assurance.canary.terms import CandidateDiffersError
from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind, open_envelope
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.engine.compiled_contract import CompiledContract
from readback.errors import StoreError
from readback.ports.storage.outbox import Cursor
from readback.ports.storage.store import StoredEvent
from readback.ports.storage.store_rules import lease_is_live

US: Final = 1_000_000
LEASE_US: Final = 60 * US
PIECE: Final = 64
POLL_S: Final = 1.0
ASK_MAX_S: Final = 30.0
"""Most seconds for one entry. Then the canary is stopped, since a thread with an endless loop cannot be ended."""
TOO_SLOW: Final = "too slow"
POSITION: Final = "canary"
"""The beginning of a position's name. No subscriber has the name, since a subscriber's name has no colon."""
Plans = Mapping[str, CompiledContract]


@dataclass(slots=True)
class Followed:
    """The work of a follower. `errors` counts failed rounds; each is repeated."""

    asked: int = 0
    rounds: int = 0
    errors: int = 0
    stopped: str = ""


class _LostError(Exception):
    """Another process follows now."""


class CanaryFollower:
    """Asks the candidate about the verdicts of one ledger. Use the follower as a context manager.

    Args:
        ledger: The open ledger. The follower decides about no action.
        candidate: The candidate's contracts, by name.
        incumbent: The contracts in force, by name.
        warn: Receives one warning for each kind of trouble.
        poll_s: Seconds between two looks at the ledger.
    """

    def __init__(
        self,
        ledger: Opened,
        candidate: Plans,
        incumbent: Plans,
        *,
        warn: Callable[[ReadbackError], None] = lambda _error: None,
        poll_s: float = POLL_S,
    ) -> None:
        self.done = Followed()
        self._session, self._candidate, self._incumbent = session_of(ledger), dict(candidate), dict(incumbent)
        self._records = CanaryRecords(ledger)
        self._warn, self._poll_s = warn, poll_s
        self._tallies: dict[str, Tally] = {}
        self._warned: set[str] = set()
        self._given_up: set[str] = set()
        """The canaries with an entry beyond `ASK_MAX_S`."""
        self._finishing = threading.Event()
        self._thread: threading.Thread | None = None

    # --- one round ---

    def round(self) -> bool:
        """Ask about every new verdict. Return False where nothing is running, or another process follows.

        Raises StoreError; the next round repeats the rest. Raises CandidateDiffersError for another candidate.
        """
        self.done.rounds += 1
        state = self._records.state()
        if state is None or not state.running or not state.began_seq:
            return False
        self._check(state)
        tally = self._tally(state)
        if self._stops(state, tally):
            return False
        held = self._take(state)
        if held is None:
            return False
        try:
            self._follow(state, held)
        except _LostError:
            return False
        return True

    def _check(self, state: CanaryState) -> None:
        for name, digest in state.terms.contracts.items():
            plan = self._candidate.get(name)
            if plan is None or plan.contract.hash != digest:
                found = "none" if plan is None else plan.contract.hash[:12]
                raise CandidateDiffersError(
                    f"The canary {state.id} asks {name!r} with the hash {digest[:12]}, and loaded here is {found}."
                )

    def _tally(self, state: CanaryState) -> Tally:
        """Return the counts, from the ledger at first: the count survives a restart."""
        if state.id not in self._tallies:
            self._tallies = {state.id: tally_of(self._records.verdicts(state.id))}
        return self._tallies[state.id]

    def _stops(self, state: CanaryState, tally: Tally) -> bool:
        reason = stop_reason(state.terms, tally)
        if not reason:
            return False
        self._records.stop(state, reason)
        self.done.stopped = reason
        return True

    def _follow(self, state: CanaryState, held: Cursor) -> None:
        store, at = self._session.store, held
        try:
            while True:
                piece = store.pick(at.after_seq, [EventKind.JUDGED.value], PIECE)
                for stored in piece:
                    if self._entry(state, stored):
                        at = self._move(at, stored.seq)
                        if state.id in self._given_up or self._stops(state, self._tallies[state.id]):
                            return
                if piece and piece[-1].seq > at.after_seq:
                    at = self._move(at, piece[-1].seq)
                if len(piece) < PIECE:
                    return
        finally:
            store.keep_cursor(at, replace(at, owner=""))

    def _entry(self, state: CanaryState, stored: StoredEvent) -> bool:
        """Ask about one judged entry. Return False where the entry settles no action of the subset."""
        asked = self._asked(state, stored)
        if asked is None:
            return False
        with self._limited(state):
            verdict = ask(self._session.store, asked, self._tables(), self._session.runtime.now_us)
        outcome = self._records.write(state.id, verdict)
        if outcome.replayed:  # asked before a crash: the record is the first one
            self._tallies = {state.id: tally_of(self._records.verdicts(state.id))}
        else:
            self._tallies[state.id] = self._tallies[state.id].with_verdict(verdict)
        self.done.asked += 1
        return True

    @contextmanager
    def _limited(self, state: CanaryState) -> Iterator[None]:
        """Stop the canary from another thread after `ASK_MAX_S`."""
        timer = threading.Timer(ASK_MAX_S, self._give_up, (state,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _give_up(self, state: CanaryState) -> None:
        self._given_up.add(state.id)
        try:
            self._records.stop(state, TOO_SLOW)
            self.done.stopped = TOO_SLOW
        except ReadbackError as error:
            self._trouble(error)

    def _asked(self, state: CanaryState, stored: StoredEvent) -> Asked | None:
        found = self._session.store.projection(stored.action_id)
        if found is None or found.projection.contract in OWN:
            return None
        p = found.projection
        candidate, incumbent = self._candidate.get(p.contract), self._incumbent.get(p.contract)
        if p.contract not in state.terms.contracts or candidate is None or not state.terms.covers(p.tenant, p.target):
            return None
        by_candidate = p.contract_hash == candidate.contract.hash
        if incumbent is None or p.contract_hash not in (candidate.contract.hash, incumbent.contract.hash):
            return None  # decided by a third version
        if not is_verdict(open_envelope(stored.envelope)):
            return None
        return Asked(stored, p.tenant, incumbent, candidate, by_candidate)

    def _tables(self) -> list[RecoveryTable]:
        return [DEFAULT_TABLE, self._session.engine.table]

    # --- the position ---

    def _take(self, state: CanaryState) -> Cursor | None:
        store, runtime = self._session.store, self._session.runtime
        name, now_us = f"{POSITION}:{state.id}", runtime.now_us()
        cursor = next((one for one in store.cursors() if one.name == name), None)
        if cursor is None:
            store.enrol(name, state.began_seq)
            cursor = next((one for one in store.cursors() if one.name == name), None)
        if cursor is None or not store.pick(cursor.after_seq, [EventKind.JUDGED.value], 1):
            return None
        dead = cursor.owner if cursor.owner and runtime.is_owner_dead(cursor.owner) else ""
        if cursor.owner != dead and lease_is_live(cursor.owner, cursor.until_us, now_us):
            return None
        return store.take_cursor(name, runtime.owner(), now_us, now_us + LEASE_US, dead)

    def _move(self, at: Cursor, seq: int) -> Cursor:
        moved = replace(at, after_seq=seq, until_us=self._session.runtime.now_us() + LEASE_US)
        if not self._session.store.keep_cursor(at, moved):
            raise _LostError
        return moved

    # --- the thread ---

    def start(self) -> CanaryFollower:
        """Start the thread."""
        self._thread = threading.Thread(target=self._stay, name="readback-canary", daemon=True)
        self._thread.start()
        return self

    def _stay(self) -> None:
        while True:
            last = self._finishing.is_set()
            try:
                self.round()
            except ReadbackError as error:
                self._trouble(error)
            if last:
                return
            self._finishing.wait(self._poll_s)

    def _trouble(self, error: ReadbackError) -> None:
        """Count a failed round, and warn once for each kind."""
        self.done.errors += 1
        if error.code not in self._warned and not (isinstance(error, StoreError) and error.code == "store.closed"):
            self._warned.add(error.code)
            self._warn(error)

    def close(self, wait_s: float = 5.0) -> None:
        """Ask about the rest of the log within `wait_s` seconds, and end the thread."""
        self._finishing.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(wait_s)

    def __enter__(self) -> CanaryFollower:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
