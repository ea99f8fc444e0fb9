"""The providers' answers to the trip's requests, honest or changed by a fault of the book.

One kind of request makes an entry in a provider's book, the other takes an entry back. Each fault is one short function
in `FAULTS`. The function decides the commit and the answer.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from readback.demo.systems.faults import FaultBook, Rule
from readback.demo.systems.trip_books import TRADES, Asked, Book, Row

TENANTS: Final = ("acme", "globex")
PRICES: Final = {"flights": 24_000, "hotel": 31_500, "car": 9_900}
"""Prices of a seat, a room and a car, in cents. Requests do not name these prices."""


class Refusal(Exception):
    """The provider refuses; nothing was written."""

    def __init__(self, code: int, error: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.body: Row = {"error": error, "message": message}


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer on the wire. With `cut`, the connection ends without an answer."""

    code: int
    body: object
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One request: the book, the requester, and the entry to take back, if any."""

    book: Book
    asked: Asked
    entry: Row | None
    request_hash: str

    @property
    def code(self) -> int:
        return 200 if self.entry else 201

    @property
    def key(self) -> str:
        """The key of the request, or "". A reversal honours the key for its entry."""
        if self.entry:
            return f"{self.asked.key}/{self.entry['id']}" if self.asked.key else ""
        return self.asked.key if self.book.trade.honours_key else ""


class Service:
    """All providers, without HTTP."""

    def __init__(self, folder: Path, faults: FaultBook) -> None:
        self.books = {name: Book(folder, name) for name in TRADES}
        self.faults = faults
        self._still_to_land = 0
        self._one_at_a_time = threading.RLock()

    def close(self) -> None:
        for book in self.books.values():
            book.close()

    def mutate(self, name: str, entry_id: str, headers: Mapping[str, str], body: Row) -> Reply:
        """Answer one request for a change: replay a known key, or execute honestly or with a fault."""
        with self._one_at_a_time:
            return self._mutate(_job(self.books[name], entry_id, headers, body))

    def _mutate(self, job: Job) -> Reply:
        if job.key and (known := job.book.key(job.asked.tenant, job.key)):
            return _replay(known, job)
        _check(job)
        seen = {"book": job.book.name, "op": job.book.trade.undo if job.entry else "make", "tenant": job.asked.tenant,
                "trip": job.asked.trip, "stamp": job.asked.stamp, "key": job.asked.key}  # fmt: skip
        rule = self.faults.take(seen)
        return self.commit(job) if rule is None else FAULTS[rule.fault](self, rule, job)

    def commit(self, job: Job, asked: Asked | None = None) -> Reply:
        """Execute the request, and record the key with the honest answer in the same transaction."""
        with job.book.transaction():
            reply = Reply(job.code, _done(job, asked or job.asked))
            if job.key:
                job.book.put_key(job.asked.tenant, job.key, job.request_hash, "done", reply.code, reply.body)
        return reply

    @property
    def still_to_land(self) -> int:
        """The number of accepted effects still to land."""
        return self._still_to_land

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        """Do something later, unless the process ends before."""

        def now() -> None:
            with self._one_at_a_time:
                try:
                    work()
                finally:
                    self._still_to_land -= 1

        with self._one_at_a_time:
            self._still_to_land += 1
        timer = threading.Timer(seconds, now)
        timer.daemon = True
        timer.start()


def _job(book: Book, entry_id: str, headers: Mapping[str, str], body: Row) -> Job:
    digest = hashlib.sha256(json.dumps([book.name, entry_id, body], sort_keys=True).encode()).hexdigest()
    tenant = headers["X-Tenant"]
    entry = book.get(tenant, entry_id) if entry_id else None
    if entry_id and entry is None:
        raise Refusal(404, "not_found", f"no {book.name} {entry_id} here")
    trip = entry["trip"] if entry else body.get("trip")
    cents = PRICES.get(book.name, body.get("cents", 0))
    if not isinstance(trip, str) or not trip or not isinstance(cents, int):
        raise Refusal(422, "invalid", "a trip is a text, and cents are a whole number")
    asked = Asked(
        tenant, headers.get("X-Actor", "api"), headers.get("X-Stamp", ""), headers.get("Idempotency-Key", ""),
        trip, str(body.get("what", "")), str(body.get("paid_by", "")), cents,
    )  # fmt: skip
    return Job(book, asked, entry, digest)


def _check(job: Job) -> None:
    """A refusal is honest, regardless of faults."""
    if job.entry and job.entry["status"] != job.book.trade.made:
        raise Refusal(409, "wrong_status", f"{job.entry['id']} is {job.entry['status']}")
    if not job.entry and job.book.name == "payments" and job.asked.cents <= 0:
        raise Refusal(422, "invalid", "cents must be above zero")


def _done(job: Job, asked: Asked) -> Row:
    return job.book.undo(asked, job.entry) if job.entry else job.book.make(asked)


def _replay(known: Row, job: Job) -> Reply:
    """Answer a request with a known key, without a second effect."""
    if known["request_hash"] != job.request_hash:
        return Reply(422, {"error": "key_reused", "message": "this key belongs to another request"})
    if known["status"] != "done":
        return Reply(409, {"error": "in_progress", "message": "the request with this key is still running"})
    return Reply(known["code"], known["answer"], {"Idempotent-Replay": "true"})


# ---- the faults: what is committed, what is said

Fault = Callable[[Service, Rule, Job], Reply]


def _refuse(service: Service, rule: Rule, job: Job) -> Reply:
    code = int(rule.params.get("code", 409))
    message = str(rule.params.get("message", "try again later" if code >= 500 else "not available"))
    return Reply(code, {"error": "unavailable" if code >= 500 else "refused", "message": message})


def _lost_before(service: Service, rule: Rule, job: Job) -> Reply:
    return Reply(0, None, cut=True)


def _lost_reply(service: Service, rule: Rule, job: Job) -> Reply:
    service.commit(job)
    return Reply(0, None, cut=True)


def _silent_noop(service: Service, rule: Rule, job: Job) -> Reply:
    trade = job.book.trade
    if job.entry:
        return Reply(job.code, {**job.entry, "status": trade.undone})
    said = {"id": f"{trade.prefix}-0", "trip": job.asked.trip, "cents": job.asked.cents}
    return Reply(job.code, {**said, "status": trade.made})


def _late(service: Service, rule: Rule, job: Job) -> Reply:
    if job.key:
        with job.book.transaction():
            job.book.put_key(job.asked.tenant, job.key, job.request_hash, "in_progress", 0, None)
    service.later(rule.ms("ms", 300), lambda: service.commit(job))
    return Reply(202, {"status": "accepted", "trip": job.asked.trip})


def _wrong_value(service: Service, rule: Rule, job: Job) -> Reply:
    """Commit a wrong value, and send the honest answer."""
    landed = service.commit(job, replace(job.asked, bent=rule.params["set"]))
    assert isinstance(landed.body, dict)
    hoped = {"what": job.asked.what, "cents": job.asked.cents}
    return Reply(landed.code, {**landed.body, **hoped})


def _duplicate(service: Service, rule: Rule, job: Job) -> Reply:
    reply = service.commit(job)
    with job.book.transaction():
        _done(job, job.asked)
    return reply


FAULTS: Final[dict[str, Fault]] = {
    "refuse": _refuse,
    "lost_before": _lost_before,
    "lost_reply": _lost_reply,
    "silent_noop": _silent_noop,
    "late": _late,
    "wrong_value": _wrong_value,
    "duplicate": _duplicate,
}
