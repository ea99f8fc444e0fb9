"""Group commit: the first caller commits for all callers arriving meanwhile. No thread is started.

Called by each ledger store for each change. An uncontended caller runs its own work at once. Under contention, one
caller (the leader) runs the queued jobs, and then hands over the lead. This module knows no SQL: the given `run`
executes a group of jobs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from readback.errors import StoreError
from readback.ports.storage.store_rules import interrupted_error

GROUP_WEIGHT_MAX: Final = 2048
"""Most appends in one transaction, to bound each caller's wait. A single larger job is permitted."""

PENDING: Final = object()
"""The result of an unfinished job. None is an ordinary result."""

W = TypeVar("W")
R = TypeVar("R")


class Job(Generic[W]):
    """One caller's queued change. `run` sets only `result` or `error`."""

    __slots__ = ("error", "gate", "result", "weight", "work")

    def __init__(self, work: W, weight: int = 1) -> None:
        self.work = work
        self.weight = weight
        self.result: object = PENDING
        self.error: BaseException | None = None
        self.gate: threading.Lock | None = None

    @property
    def is_answered(self) -> bool:
        return self.error is not None or self.result is not PENDING


class Run(Protocol[W]):
    """Execute a group in one transaction, and set each job's result or error."""

    def __call__(self, group: Sequence[Job[W]]) -> None: ...


class GroupCommit(Generic[W]):
    """The queue and its leader. Only one thread at a time is inside `run`."""

    def __init__(self, run: Run[W]) -> None:
        self._run = run
        self._mutex = threading.Lock()
        self._waiting: deque[Job[W]] = deque()
        self._leader: Job[W] | None = None
        self._closed: Callable[[], StoreError] | None = None

    def submit(self, job: Job[W]) -> object:
        """Return the job's result once its group is durable, or raise its error."""
        try:
            with self._mutex:
                if self._closed is not None:
                    raise self._closed()
                if self._leader is None:  # then the queue is empty too
                    self._leader = job
                else:
                    job.gate = threading.Lock()
                    job.gate.acquire()
                    self._waiting.append(job)
            if job.gate is None:
                try:
                    self._run((job,))
                finally:
                    self._hand_on()
            else:
                job.gate.acquire()
                if self._leader is job:
                    self._lead(job)
        except BaseException:
            # A signal may end the wait at any line above. The lead must not be lost with this thread.
            self._withdraw(job)
            raise
        if job.error is not None:
            raise job.error
        return job.result

    def visit(self, look: Callable[[], R]) -> R | None:
        """Call `look` in place of `run`, if no leader is active. None otherwise. Callers arriving meanwhile wait."""
        visitor: Job[W] = _Visitor()
        try:
            with self._mutex:
                if self._leader is not None or self._closed is not None:
                    return None
                self._leader = visitor
            return look()
        finally:
            if self._leader is visitor:
                self._hand_on()

    def close(self, refusal: Callable[[], StoreError], last: Callable[[], None]) -> None:
        """Finish queued jobs, refuse later jobs, and call `last` with no leader active."""
        farewell: Job[W] | None = None
        with self._mutex:
            if self._closed is not None:
                return
            self._closed = refusal
            if self._leader is not None:
                farewell = _Farewell()
                farewell.gate = threading.Lock()
                farewell.gate.acquire()
                self._waiting.append(farewell)
        if farewell is not None and farewell.gate is not None:
            farewell.gate.acquire()
        last()

    def _lead(self, job: Job[W]) -> None:
        group: list[Job[W]] = []
        try:
            self._take(group)
            self._run(group)
        finally:
            # Every job is answered, even if a signal in this thread ended the run. If a signal interrupts the answers,
            # the second call continues with the remaining jobs.
            try:
                _answer(group, job)
            finally:
                _answer(group, job)
                self._hand_on()

    def _take(self, group: list[Job[W]]) -> None:
        weight = taken = 0
        with self._mutex:
            for each in self._waiting:
                weight += each.weight
                if isinstance(each, _Farewell) or (taken and weight > GROUP_WEIGHT_MAX):
                    break
                taken += 1
            first, rest = [*islice(self._waiting, taken)], deque(islice(self._waiting, taken, None))
            # One statement: between two, a signal could leave a job in neither list, waiting forever.
            self._waiting, group[:] = rest, first

    def _hand_on(self) -> None:
        with self._mutex:
            self._leader = self._waiting[0] if self._waiting else None
            if self._leader is not None and self._leader.gate is not None:
                self._leader.gate.release()

    def _withdraw(self, job: Job[W]) -> None:
        with self._mutex:
            if job in self._waiting:
                self._waiting.remove(job)
        if self._leader is job:
            self._hand_on()


def _answer(group: list[Job[W]], leader: Job[W]) -> None:
    """Release each waiting caller of the group, and remove the caller from the group."""
    while group:
        other = group[-1]
        if not other.is_answered:
            other.error = interrupted_error()
        if other.gate is not None and other is not leader and other.gate.locked():
            other.gate.release()
        group.pop()


class _Visitor(Job[W]):
    """Holds the lead for a moment without a change to commit."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(work=None, weight=0)  # type: ignore[arg-type]


class _Farewell(_Visitor[W]):
    """The last job in the queue of a closing store. Its lead belongs to the closer."""

    __slots__ = ()
