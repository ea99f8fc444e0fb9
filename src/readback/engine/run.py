"""One action at work: its fold, its facts not yet durable, and the append to make them durable.

Used by the engine and its stages. Recording applies an event to the fold at once. A recorded fact counts for the
outside only after the commit of `append`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from readback.canon import Json, json_value, sha256_hex, stored_bytes
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.context import Context
from readback.domain.contract.contract import Contract
from readback.domain.contract.shadowing import Mode
from readback.domain.events import Event, EventKind, seal
from readback.domain.finding import Finding
from readback.domain.idempotency import key_text
from readback.domain.predicate import Evaluation
from readback.domain.state import TERMINAL, State
from readback.domain.verification import change
from readback.domain.verification.observation import Observation
from readback.domain.verification.reading import Lookup, TakenReading
from readback.domain.verification.reconciliation import EvaluatedReading
from readback.engine.compiled_contract import CallerContext, CompiledContract, Request
from readback.engine.entries.recorder import projection_of, settled_key
from readback.engine.entries.side_records import FreezeAndIncidentChanges
from readback.engine.schedule import lease_until
from readback.engine.values.argument_copies import copy_arguments, has_mutable, own_value
from readback.engine.values.redaction import Redactor
from readback.ports.storage.store import Append, Count, Evidence, KeyRecord, SealedEvent

REDACTED = change.REDACTED
_SHADOW: Final = Mode.SHADOW.value
_NO_COUNTS: Final[Mapping[tuple[str, str], int]] = MappingProxyType({})


@dataclass(slots=True)
class Run:
    """The working state of one action. Everything but the fold can be rebuilt from the ledger and the world."""

    plan: CompiledContract
    scope: CallerContext
    action: Action
    arguments: Mapping[str, object]
    requested: Mapping[str, Json]
    intended: Mapping[str, Json] | None
    owner: str
    fence: int = 0
    durable_version: int = 0
    observation: Observation | None = None
    before: EvaluatedReading | None = None
    before_variables: dict[str, Json] | None = None
    """The variables for evaluating `before`; None after the evaluation, or without a reading."""
    checks: tuple[EvaluatedReading, ...] = ()
    missed: tuple[EvaluatedReading, ...] = ()
    """Readings of this round without a decision, replaced by another reader's."""
    faulted_sources: set[str] = field(default_factory=set)
    """Sources with an already counted fault in this action."""
    found: tuple[EvaluatedReading, ...] | None = None
    search_proven: bool = False
    """The search behind `found` is complete, and has found an earlier effect of this contract by the same mark."""
    search_failed: str = ""
    """The failed search of the last round, and the reason."""
    lookup: Lookup | None = None
    staged: object = None
    judged: tuple[Evaluation, ...] | None = None
    """The postconditions as last judged here; None before any judgement."""
    shown: Json = None
    """The same as recorded, for a contract with redaction."""
    doubt: Finding | None = None
    """A fault of the execution's approval or engine, by the settings of the resuming process."""
    doubt_said: str = ""
    """The explanation for people, if the finding alone does not suffice."""
    now_us: int = 0
    """The latest time of any answer: the engine's clock."""
    origin: Request | None = None
    """The proposal, in the proposing process."""
    lease_released: bool = False
    """The last append released the lease."""
    contract: Contract = field(init=False)
    secrecy: Redactor = field(init=False)
    _nested: bool = field(init=False)
    """The arguments hold a mutable value."""
    kept: Mapping[str, Json] | None = None
    """The request as stored in the evidence, without the redacted values."""
    blind: frozenset[str] = frozenset()
    """Paths of the request with redacted values only, after a resume."""
    revived: bool = False
    """The run continues from the record: another process, or another run here, made its attempt."""
    barred: bool = False
    """Sending the request again is barred."""
    stands_on: tuple[str, ...] = ()
    """The approvals behind sending the request again."""
    resend: bool | None = None
    """Replaces the decision about sending again, when a recorded judgement is repeated."""
    would_refuse: str = ""
    """The code of the check that the enforced mode would have refused this shadow action by; "" for none."""
    hands_out: bool = False
    """The external caller is present, and learns of a durable attempt."""
    counts: Mapping[tuple[str, str], int] = field(default_factory=lambda: _NO_COUNTS)
    prior_fault_counts: tuple[int, int] | None = None
    """Replaces the fault counters of `counts`, when a recorded judgement is repeated."""
    in_flight_max: int = 0
    """The tenant's limit of other actions in flight for the first append; 0: no limit."""
    binds_goal: bool = False
    """A repetition with another stated goal is refused."""
    not_before_us: int = 0
    """The earliest time of the first reading by the tenant's rate; 0: no delay."""
    _events: list[SealedEvent] = field(default_factory=list)
    _evidence: list[Evidence] = field(default_factory=list)
    _counts: list[Count] = field(default_factory=list)
    _reserve: KeyRecord | None = None
    _replaces: str = ""
    _unless: tuple[str, ...] = ()
    _control: FreezeAndIncidentChanges | None = None
    _relies: tuple[str, ...] = ()
    """Claims behind the action, for the first append; usually none."""

    def __post_init__(self) -> None:
        self.contract = self.plan.contract
        self.secrecy = Redactor.of(self.contract.redact)
        self._nested = has_mutable(self.arguments)

    @property
    def outside(self) -> bool:
        """The caller makes the attempts, never a driver."""
        return bool(self.action.context.get("outside"))

    @property
    def shadowed(self) -> bool:
        """The action runs in shadow mode."""
        return self.action.mode == _SHADOW

    def places(self, *, freezes: bool = False) -> tuple[str, ...]:
        """Locations of the action's files, or of the files to freeze with the action. Empty for an unknown request."""
        ask = self.plan.places
        return () if ask is None or self.blind else ask(self.requested, freezes)

    @property
    def attemptable(self) -> bool:
        """Whether an attempt is possible with the known arguments and the present caller."""
        return not self.blind and (self.hands_out or not self.outside)

    def passed(self, now_us: int) -> None:
        """Advance the clock to an answer's time. Time never steps back."""
        if now_us > self.now_us:
            self.now_us = now_us

    def read_from(self, otherwise_us: int) -> int:
        """The start of this round's first reading; `otherwise_us` without readings."""
        checks = self.checks
        if len(checks) == 1:  # the usual case
            return checks[0].taken.started_us
        return min([judged.taken.started_us for judged in checks]) if checks else otherwise_us

    def variables(self) -> dict[str, Json]:
        """The roots of expressions, without the reading under judgement."""
        action, scope = self.action, self.scope
        requested = dict(self.requested)
        return {
            "intended": dict(self.intended) if self.intended is not None else requested,
            "requested": requested,
            "observed": self.observation.body if self.observation is not None else None,
            "before": self.before.taken.reading.value if self.before is not None else None,
            "authoritative": None,
            "scope": {
                "tenant": action.tenant,
                "principal": action.principal,
                "operation": action.operation,
                "stamp": action.stamp,
                "idempotency_key": key_text(action.key_hash),
                "target": action.target,
                "run": scope.run,
                "attempt": action.attempts,
                "attempted_s": action.executed_us // 1_000_000,
                "budget": dict(scope.budget or {}),
            },
        }

    @property
    def taken_before(self) -> TakenReading | None:
        """The reading behind the root `before`."""
        return self.before.taken if self.before is not None else None

    @property
    def given(self) -> Mapping[str, object]:
        """The arguments for one call, safe from mutation by the call."""
        return copy_arguments(self.arguments) if self._nested else self.arguments

    def call_context(self, strong: bool = False) -> Context:
        """The context for user code."""
        a = self.action
        observed = own_value(self.observation.body) if self.observation is not None else None
        return Context(
            a.id,
            a.tenant,
            a.principal,
            a.operation,
            a.target,
            key_text(a.key_hash),
            a.stamp,
            a.attempts,
            strong,
            observed,
            self.scope.run,
            self.scope.trace,
            json_value(self.before.taken.reading.value) if self.before is not None else None,
            str(a.context.get("reverses", "")),
            self.scope.sampled,
        )

    # --- recording ---

    def record(
        self,
        kind: EventKind,
        at_us: int,
        path: tuple[State, ...] = (),
        data: dict[str, Json] | None = None,
        refs: dict[str, str] | None = None,
    ) -> None:
        """Record an event: folded now, durable with the next append."""
        action = self.action
        event = Event(kind, at_us, path, self.secrecy.recorded(data or {}), refs or {})
        envelope, leaf = seal(event, action.id, action.tenant, action.version + 1, action.head)
        action.apply(event, leaf.hex())
        if "severity" in event.data or "frozen_for" in event.data:
            self._control = self._control or FreezeAndIncidentChanges()
            self._control.take(action.tenant, action.id, action.version, at_us, event.data)
        self._events.append(SealedEvent(kind._value_, at_us, envelope, leaf))

    def keep(self, root: str, value: Json) -> str:
        """Store a payload as evidence, redacted by the contract. Returns the digest."""
        body = stored_bytes(self.secrecy.hide(value, root))
        digest = sha256_hex(body)
        self._evidence.append(Evidence(digest, "application/json", body))
        return digest

    def keep_bytes(self, body: bytes) -> str:
        """Store bytes unchanged. Returns the digest."""
        digest = sha256_hex(body)
        self._evidence.append(Evidence(digest, "application/json", body))
        return digest

    def count(self, subject: str, name: str, delta: int | None) -> None:
        """Change a counter with the next append. Resetting a zero counter writes nothing."""
        was = self.counts.get((subject, name), 0)
        if delta is None and not was:
            return
        self.counts = {**self.counts, (subject, name): 0 if delta is None else was + delta}
        self._counts.append(Count(subject, name, delta))

    def keep_contract(self) -> str:
        """Store the contract's own text, so that a record stays readable without its code."""
        self._evidence.append(Evidence(self.contract.hash, "application/json", self.contract.body))
        return self.contract.hash

    def keep_request(self, payload: dict[str, Json]) -> str:
        """Store the request as evidence, without the redacted values."""
        for root in ("requested", "intended"):
            if root in payload:
                payload[root] = self.secrecy.hide(payload[root], root)
        self.kept = payload
        return self.keep("request", payload)

    def take_over(self, action_id: str) -> None:
        """Replace the key's record: its action had no effect and can have none."""
        self._replaces = action_id

    def require_not_frozen(self, subjects: tuple[str, ...]) -> None:
        """Refuse the next append if one of these subjects is frozen."""
        self._unless = subjects

    def rely(self, claims: tuple[str, ...]) -> None:
        """Name the claims behind the action in the first append."""
        self._relies = claims

    def begin_again(self, action: Action) -> None:
        """Discard events refused by the store, and continue with the ledger's action."""
        self.action = action
        self.committed(action.version, lease_released=False)

    def reserve(self, record: KeyRecord) -> None:
        """Reserve the key with the next append."""
        self._reserve = record

    @property
    def pending(self) -> bool:
        """Whether a recorded event is not durable yet."""
        return bool(self._events)

    def append(self, now_us: int, *, release_lease: bool) -> Append:
        """All events recorded since the last append. `release_lease`: another worker may continue."""
        action = self.action
        release_lease = release_lease or action.state in TERMINAL
        lease = ("", 0) if release_lease else (self.owner, lease_until(self.contract, now_us))
        return Append(
            action.id,
            action.tenant,
            self.durable_version,
            self.fence,
            tuple(self._events),
            projection_of(action, *lease),
            tuple(self._evidence),
            self._reserve,
            self._replaces,
            settled_key(action),
            tuple(self._counts),
            () if self._control is None else tuple(self._control.freezes),
            (),
            self._unless,
            () if self._control is None else tuple(self._control.incidents),
            relies=self._relies,
            in_flight_max=self.in_flight_max,
        )

    def committed(self, version: int, lease_released: bool) -> None:
        """The append is durable: after a crash from here on, the ledger holds the same state."""
        self.durable_version = version
        self.lease_released = lease_released or self.action.state in TERMINAL
        self._events.clear()
        self._evidence.clear()
        self._counts.clear()
        self._reserve, self._replaces, self._unless, self.in_flight_max = None, "", (), 0
        self._control = None
        if self._relies:
            self._relies = ()
