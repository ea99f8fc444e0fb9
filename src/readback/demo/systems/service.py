"""A service's answers to mutating requests, honest or changed by a fault of the book.

Each fault is one row of `FAULTS`: what is committed, and what is answered.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from readback.demo.systems import rules
from readback.demo.systems.faults import FaultBook, Rule, now_us
from readback.demo.systems.rules import Answer, Call, Refusal, Route
from readback.demo.systems.store import TENANTS, Row, Store, Write


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer on the wire. With `silence`, no answer: the connection is held open ("hold") or ended ("cut")."""

    code: int
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    silence: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One mutating request: the endpoint and the honest answer."""

    route: Route
    call: Call
    request_hash: str
    honest: Answer


class Service:
    """The service without HTTP."""

    def __init__(self, store: Store, book: FaultBook) -> None:
        self.store, self.book = store, book
        self.still_to_land = 0
        """The number of accepted effects still to land."""
        self._outage: tuple[float, int] = (0, 503)
        self._lock = threading.RLock()

    # ---- reads under an outage

    def begin_outage(self, rule: Rule) -> None:
        """Answer reads with the rule's `code` for `ms` milliseconds; without `ms` until the faults are cleared."""
        ms = rule.params.get("ms", math.inf)
        self._outage = (now_us() + ms * 1_000, int(rule.params.get("code", 503)))

    def outage(self) -> int | None:
        """The present outage status for reads."""
        until, code = self._outage
        return code if now_us() < until else None

    def recover(self) -> None:
        """End lasting effects of faults: reads work, and the replica catches up."""
        self._outage = (0, 503)
        self.store.catch_up()

    # ---- mutations

    def mutate(self, route: Route, target: str, headers: Mapping[str, str], body: Row, path: str) -> Reply:
        """Answer one mutating request: replay a known key, or execute honestly or with a fault."""
        call = _call(route, target, headers, body)
        write = call.write
        digest = hashlib.sha256(json.dumps([route.method, path, body], sort_keys=True).encode()).hexdigest()
        with self._lock:
            if write.key and route.honours_key and (known := self.store.key(write.tenant, write.key)):
                return _replay(known, digest)
            with self.store.transaction(keep=False):
                honest = route.rule(self.store, call)  # a refusal is honest, regardless of faults
            job = Job(route, call, digest, honest)
            seen = {"method": route.method, "path": path, "tenant": write.tenant, "actor": write.actor, "op": write.op,
                    "stamp": write.stamp, "key": write.key, "book": str(honest.body.get("book", "")),
                    "trip": str(honest.body.get("trip", ""))}  # fmt: skip
            rule = self.book.take(seen)
            return _say(self.commit(job, call)) if rule is None else FAULTS[rule.fault](self, rule, job)

    def commit(self, job: Job, call: Call, *, say: Answer | None = None) -> Answer:
        """Execute the request, and record the key with the answer (or with `say`) in the same transaction."""
        with self.store.transaction():
            answer = job.route.rule(self.store, call)
            said = say or answer
            self._put_key(job, "done", said.code, said.body)
        self.settle(answer, call)
        return answer

    def settle(self, answer: Answer, call: Call) -> None:
        """Capture or decline a new charge, a moment after the answer."""
        if answer.resource == "charges":
            self.later(rules.CAPTURE_MS, lambda: rules.settle_charge(self.store, answer.body, call.ends_as))

    def begin(self, job: Job) -> None:
        """Record the key of a request whose effect is still to come."""
        with self.store.transaction():
            self._put_key(job, "in_progress", 0, None)

    def _put_key(self, job: Job, status: str, code: int, answer: object) -> None:
        owner = job.call.write
        if owner.key and job.route.honours_key:
            self.store.put_key(owner.tenant, owner.key, job.request_hash, status, code, answer)

    def later(self, ms: float, work: Callable[[], object]) -> None:
        """Do something later, unless the process ends before."""

        def now() -> None:
            with self._lock:
                try:
                    work()
                finally:
                    self.still_to_land -= 1

        with self._lock:
            self.still_to_land += 1
        timer = threading.Timer(ms / 1_000, now)
        timer.daemon = True
        timer.start()


def _call(route: Route, target: str, headers: Mapping[str, str], body: Row) -> Call:
    key = headers.get("Idempotency-Key", "")
    write = Write(
        tenant=headers["X-Tenant"],
        actor=headers.get("X-Actor") or "api",
        stamp=headers.get("X-Stamp", ""),
        key=f"{key}/{target}" if key and route.key_of_target else key,
        op=route.op,
    )
    version = headers.get("If-Match", "").strip('"')
    if version and not version.isdigit():
        raise Refusal(400, "bad_request", "If-Match must be a version")
    return Call(write, target, body, int(version) if version else None)


def _say(answer: Answer) -> Reply:
    return Reply(answer.code, answer.body)


def _replay(known: Row, digest: str) -> Reply:
    """Answer a request with a known key, without a second effect."""
    if known["request_hash"] != digest:
        return Reply(422, {"error": "key_reused", "message": "this key belongs to another request"})
    if known["status"] != "done":
        return Reply(409, {"error": "in_progress", "message": "the request with this key is still running"})
    return Reply(known["code"], known["answer"], {"Idempotent-Replay": "true"})


# ---- the faults: what is committed, what is said

Fault = Callable[[Service, Rule, Job], Reply]


def _said(rule: Rule, job: Job, default: str = "honest") -> Reply:
    """The answer by name: the rule's `answer`, or the default of this fault."""
    params = rule.params
    match params.get("answer", default):
        case "ok":
            return Reply(200, {"status": "ok"})
        case "accepted":
            return Reply(202, {"status": "accepted"})
        case "hold" | "cut" as silence:
            return Reply(0, silence=silence)
        case "false":
            return Reply(200, {"success": False, "error": "the carrier refused the order"})
        case "error":
            return Reply(int(params.get("code", 500)), {"error": "internal", "message": "something went wrong"})
        case "refusal":
            code = int(params.get("code", 503))
            error, message = ("unavailable", "try again later") if code >= 500 else ("refused", "not available")
            return Reply(code, {"error": error, "message": message})
        case _:
            return _say(job.honest)


def _nothing(answer: str) -> Fault:
    """Commit nothing, and send an answer."""
    return lambda service, rule, job: _said(rule, job, answer)


def _bent(bend: Callable[[Rule, Call], Call], answer: str = "honest") -> Fault:
    """Commit a changed request, and send the honest answer."""

    def fault(service: Service, rule: Rule, job: Job) -> Reply:
        service.commit(job, bend(rule, job.call), say=job.honest)
        return _said(rule, job, answer)

    return fault


def _as_asked(answer: str) -> Fault:
    """Commit the request, and send an answer."""
    return _bent(lambda rule, call: call, answer)


def _write(call: Call, **changes: Any) -> Call:
    return replace(call, write=replace(call.write, **changes))


def _late(service: Service, rule: Rule, job: Job) -> Reply:
    service.begin(job)
    service.later(rule.params.get("ms", 300), lambda: service.commit(job, job.call))
    return _said(rule, job, "accepted")


def _confirms(view: str) -> Fault:
    def fault(service: Service, rule: Rule, job: Job) -> Reply:
        service.store.pretend(view, job.call.write.tenant, job.honest.resource, job.honest.body)
        return _said(rule, job)

    return fault


def _duplicate(service: Service, rule: Rule, job: Job) -> Reply:
    service.commit(job, job.call)
    again = replace(job.call, if_match=None)
    with service.store.transaction():
        answer = job.route.rule(service.store, again)
    service.settle(answer, again)
    return _said(rule, job)


def _outage(service: Service, rule: Rule, job: Job) -> Reply:
    service.begin_outage(rule)
    return _say(service.commit(job, job.call))


FAULTS: dict[str, Fault] = {
    "silent_noop": _nothing("ok"),
    "accepted_lost": _nothing("accepted"),
    "success_false": _nothing("false"),
    "refuse": _nothing("refusal"),
    "timeout_before": _nothing("hold"),
    "timeout_after": _as_asked("hold"),
    "lost_before": _nothing("cut"),
    "lost_reply": _as_asked("cut"),
    "error_after_commit": _as_asked("error"),
    "late": _late,
    "duplicate": _duplicate,
    "outage": _outage,
    "cache_confirms": _confirms("cache"),
    "replica_confirms": _confirms("replica"),
    "replica_lag": _bent(lambda rule, call: _write(call, replica_lag_ms=int(rule.params.get("ms", 1_000)))),
    "partial": _bent(lambda rule, call: replace(call, keep=tuple(rule.params.get("keep", ())))),
    "wrong_tenant": _bent(lambda rule, call: _write(call, tenant=TENANTS[call.write.tenant == TENANTS[0]])),
    "wrong_target": _bent(lambda rule, call: replace(call, target=rule.params["target"])),
    "wrong_value": _bent(lambda rule, call: _write(call, override=rule.params["set"])),
    "declined": _bent(lambda rule, call: replace(call, ends_as="declined")),
}
