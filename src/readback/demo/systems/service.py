"""The order service's answers to mutating requests, honest or changed by a fault of the book.

Each fault is one short function in `FAULTS`. The function decides the commit and the answer.
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

READ_FAULTS = frozenset({"outage", "timeout_before"})


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer on the wire. With `hold`, the connection stays open without an answer until the client disconnects."""

    code: int
    body: object
    headers: Mapping[str, str] = field(default_factory=dict)
    hold: bool = False


HOLD = Reply(0, None, hold=True)


@dataclass(frozen=True, slots=True)
class Job:
    """One mutating request: the endpoint and the honest answer."""

    route: Route
    call: Call
    request_hash: str
    honest: Answer


class Service:
    """The order service without HTTP."""

    def __init__(self, store: Store, book: FaultBook, settings: dict[str, int]) -> None:
        self.store = store
        self.book = book
        self.settings = settings
        self._outage: tuple[float, int] = (0, 503)

    # ---- reads under an outage

    def begin_outage(self, ms: int | None, code: int) -> None:
        """Answer reads with `code` for `ms` milliseconds. None: until the faults are cleared."""
        self._outage = (math.inf if ms is None else now_us() + ms * 1_000, code)

    def outage(self) -> int | None:
        """The present outage status for reads."""
        until, code = self._outage
        return code if now_us() < until else None

    def recover(self) -> None:
        """End lasting effects of faults: reads work, and the lagging views catch up."""
        self._outage = (0, 503)
        self.store.catch_up()

    # ---- mutations

    def mutate(self, route: Route, target: str, headers: Mapping[str, str], body: Row, path: str) -> Reply:
        """Answer one mutating request: replay a known key, or execute honestly or with a fault."""
        call = self._call(route, target, headers, body)
        digest = hashlib.sha256(json.dumps([route.method, path, body], sort_keys=True).encode()).hexdigest()
        if route.honours_key and call.write.key:
            if known := self.store.key(call.write.tenant, call.write.key):
                return _replay(known, digest)
        with self.store.transaction(keep=False):
            honest = route.rule(self.store, call)  # a refusal is honest, regardless of faults
        job = Job(route, call, digest, honest)
        write = call.write
        seen = {"method": route.method, "path": path, "tenant": write.tenant, "actor": write.actor,
                "stamp": write.stamp or "", "key": write.key or ""}  # fmt: skip
        rule = self.book.take(seen)
        if rule is None:
            return _say(self.commit(job, call))
        return FAULTS[rule.fault](self, rule, job)

    def _call(self, route: Route, target: str, headers: Mapping[str, str], body: Row) -> Call:
        write = Write(
            tenant=headers["X-Tenant"],
            actor=headers.get("X-Actor") or "api",
            stamp=headers.get("X-Stamp"),
            key=headers.get("Idempotency-Key"),
            op=route.rule.__name__,
            replica_lag_ms=self.settings["replica_lag_ms"],
            cache_lag_ms=self.settings["cache_lag_ms"],
        )
        if_match = headers.get("If-Match", "").strip('"')
        if if_match and not if_match.isdigit():
            raise Refusal(400, "bad_request", "If-Match must be a version")
        version = int(if_match) if if_match else None
        return Call(write, target, body, version, capture_ms=self.settings["capture_ms"])

    def commit(self, job: Job, call: Call, *, say: Answer | None = None) -> Answer:
        """Execute the request, and record the key with the answer (or with `say`) in the same transaction."""
        with self.store.transaction():
            answer = job.route.rule(self.store, call)
            said = say or answer
            if job.route.honours_key and job.call.write.key:
                owner = job.call.write
                self.store.put_key(owner.tenant, owner.key or "", job.request_hash, "done", said.code, said.body)
        if answer.resource == "charges":
            self.later(call.capture_ms / 1_000, lambda: rules.settle_charges(self.store))
        return answer

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        """Do something later, unless the process ends before."""
        timer = threading.Timer(seconds, work)
        timer.daemon = True
        timer.start()


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


def _said(rule: Rule, job: Job, default: str) -> Reply:
    """The answer by name: the rule's `answer`, or the default of this fault."""
    match rule.params.get("answer", default):
        case "honest":
            return _say(job.honest)
        case "ok":
            return Reply(200, {"status": "ok"})
        case "accepted":
            return Reply(202, {"status": "accepted"})
        case "hold":
            return HOLD
        case other:
            return Reply(500, {"error": "bad_fault", "message": f"no such answer: {other}"})


def _nothing(default: str) -> Fault:
    """Commit nothing, and send an answer."""
    return lambda service, rule, job: _said(rule, job, default)


def _bent(bend: Callable[[Rule, Call], Call], default: str = "honest") -> Fault:
    """Commit a changed request, and send the honest answer."""

    def fault(service: Service, rule: Rule, job: Job) -> Reply:
        service.commit(job, bend(rule, job.call), say=job.honest)
        return _said(rule, job, default)

    return fault


def _write(call: Call, **changes: Any) -> Call:
    return replace(call, write=replace(call.write, **changes))


def _other_tenant(rule: Rule, call: Call) -> Call:
    own = call.write.tenant
    return _write(call, tenant=rule.params.get("tenant") or next(t for t in TENANTS if t != own))


def _late(service: Service, rule: Rule, job: Job) -> Reply:
    write = job.call.write
    if job.route.honours_key and write.key:
        with service.store.transaction():
            service.store.put_key(write.tenant, write.key, job.request_hash, "in_progress", 0, None)
    service.later(rule.ms("ms", 500), lambda: service.commit(job, job.call))
    return _said(rule, job, "accepted")


def _confirms(view: str) -> Fault:
    def fault(service: Service, rule: Rule, job: Job) -> Reply:
        service.store.pretend(view, job.call.write.tenant, job.honest.resource, job.honest.body)
        return _said(rule, job, "honest")

    return fault


def _duplicate(service: Service, rule: Rule, job: Job) -> Reply:
    answer = service.commit(job, job.call)
    with service.store.transaction():
        job.route.rule(service.store, replace(job.call, if_match=None))
    if answer.resource == "charges":
        service.later(job.call.capture_ms / 1_000, lambda: rules.settle_charges(service.store))
    return _said(rule, job, "honest")


def _success_false(service: Service, rule: Rule, job: Job) -> Reply:
    return Reply(200, {"success": False, "error": rule.params.get("error", "the carrier refused the order")})


def _error_text(service: Service, rule: Rule, job: Job) -> Reply:
    text = "ERROR 0x80: upstream closed the transaction; request completed successfully?"
    return Reply(200, str(rule.params.get("text", text)))


def _error_after_commit(service: Service, rule: Rule, job: Job) -> Reply:
    service.commit(job, job.call)
    return Reply(int(rule.params.get("code", 500)), {"error": "internal", "message": "something went wrong"})


def _refuse(service: Service, rule: Rule, job: Job) -> Reply:
    return Reply(int(rule.params.get("code", 503)), {"error": "unavailable", "message": "try again later"})


def _flip(service: Service, rule: Rule, job: Job) -> Reply:
    answer = service.commit(job, job.call)
    other = Write(job.call.write.tenant, rule.params.get("actor", "someone-else"), rule.params.get("stamp"))

    def overwrite() -> None:
        with service.store.transaction():
            service.store.put(other, answer.resource, answer.body["id"], rule.params["set"])

    if rule.params.get("ms"):
        service.later(rule.ms("ms", 0), overwrite)
    else:
        overwrite()
    return _said(rule, job, "honest")


def _outage(service: Service, rule: Rule, job: Job) -> Reply:
    service.begin_outage(rule.params.get("ms"), int(rule.params.get("code", 503)))
    return _say(service.commit(job, job.call))


FAULTS: dict[str, Fault] = {
    "silent_noop": _nothing("ok"),
    "accepted_lost": _nothing("accepted"),
    "timeout_before": _nothing("hold"),
    "timeout_after": _bent(lambda rule, call: call, "hold"),
    "late": _late,
    "replica_lag": _bent(lambda rule, call: _write(call, replica_lag_ms=int(rule.params.get("ms", 1_000)))),
    "cache_lag": _bent(lambda rule, call: _write(call, cache_lag_ms=int(rule.params.get("ms", 1_000)))),
    "cache_confirms": _confirms("cache"),
    "replica_confirms": _confirms("replica"),
    "partial": _bent(lambda rule, call: replace(call, keep=frozenset(rule.params.get("keep", ())))),
    "wrong_tenant": _bent(_other_tenant),
    "wrong_target": _bent(lambda rule, call: replace(call, target=rule.params["target"])),
    "wrong_value": _bent(lambda rule, call: _write(call, override=rule.params["set"])),
    "duplicate": _duplicate,
    "success_false": _success_false,
    "error_text": _error_text,
    "error_after_commit": _error_after_commit,
    "refuse": _refuse,
    "flip": _flip,
    "declined": _bent(lambda rule, call: replace(call, ends_as="declined")),
    "stuck": _bent(lambda rule, call: replace(call, ends_as=None)),
    "outage": _outage,
}
