"""One action at work: its fold, what is known but not yet durable, and the append that makes it so.

Used by the engine and its stages. Recording applies the event to the fold at once; nothing that was recorded counts
for the outside before `append` has been committed.
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
from readback.domain.events import Event, EventKind, seal
from readback.domain.finding import Finding
from readback.domain.idempotency import expires_us, key_status, key_text
from readback.domain.predicate import Evaluation
from readback.domain.state import TERMINAL, State
from readback.domain.verification import change
from readback.domain.verification.observation import Observation
from readback.domain.verification.reading import Lookup, TakenReading
from readback.domain.verification.reconciliation import Judged
from readback.engine.compiled_contract import CallerContext, CompiledContract, Request
from readback.engine.entries.side_records import FreezeAndIncidentChanges
from readback.engine.schedule import lease_until
from readback.engine.values.argument_copies import copy_arguments, has_mutable, own_value
from readback.engine.values.redaction import Redactor
from readback.ports.storage.store import Append, Count, Evidence, KeyRecord, Projection, SealedEvent

REDACTED = change.REDACTED
_NO_COUNTS: Final[Mapping[tuple[str, str], int]] = MappingProxyType({})


@dataclass(slots=True)
class Run:
    """The working state of one action. Everything but the fold can be had again from the ledger and the world."""

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
    before: Judged | None = None
    before_variables: dict[str, Json] | None = None
    """What `before` is still to be judged with; None where that was done, or there is none."""
    checks: tuple[Judged, ...] = ()
    missed: tuple[Judged, ...] = ()
    """Readings of this round that decided nothing: another was asked in their place."""
    blamed: set[str] = field(default_factory=set)
    """Sources whose fault in this action was counted already."""
    found: tuple[Judged, ...] | None = None
    search_proven: bool = False
    """The search behind `found` is complete, and has found an earlier effect of this contract by the same mark."""
    search_failed: str = ""
    """Which search gave no answer in its last turn, and why."""
    lookup: Lookup | None = None
    staged: object = None
    judged: tuple[Evaluation, ...] | None = None
    """The postconditions as they were last judged here; None where nothing was judged yet."""
    shown: Json = None
    """The same as they were recorded, where the contract redacts."""
    doubt: Finding | None = None
    """What is wrong with what it was executed under, by the settings and the engine of who goes on with it."""
    doubt_said: str = ""
    """What a person is told of that, where the finding alone does not say it."""
    now_us: int = 0
    """The latest time that any answer carried: what the engine knows of the clock."""
    origin: Request | None = None
    """What it was proposed by, in the process that proposed it."""
    parked: bool = False
    """Nobody holds it: the lease was given back with the last append."""
    contract: Contract = field(init=False)
    secrecy: Redactor = field(init=False)
    _nested: bool = field(init=False)
    """Among its arguments is something that a call could change."""
    kept: Mapping[str, Json] | None = None
    """The request as it is kept in the evidence: less what the contract redacts."""
    blind: frozenset[str] = frozenset()
    """Paths of the request that are known only as redacted, after a resume."""
    revived: bool = False
    """It goes on from the record: its attempt was made by another process, or by another run of this one."""
    barred: bool = False
    """Something stands against sending its request again."""
    stands_on: tuple[str, ...] = ()
    """The approvals on which its request may be sent again."""
    resend: bool | None = None
    """What is taken for the decision whether it is due to be sent again, where a judgement is made again."""
    hands_out: bool = False
    """Whoever makes its attempts is here, and is told when one is durable."""
    counts: Mapping[tuple[str, str], int] = field(default_factory=lambda: _NO_COUNTS)
    struck: tuple[int, int] | None = None
    """What is taken for the counters of faults in place of `counts`, where a judgement is made again."""
    in_flight_max: int = 0
    """How many others of the tenant may be in flight for the first append to be kept; 0: any number."""
    not_before_us: int = 0
    """The tenant's rate puts the first look off until then; 0: it does not."""
    _events: list[SealedEvent] = field(default_factory=list)
    _evidence: list[Evidence] = field(default_factory=list)
    _counts: list[Count] = field(default_factory=list)
    _reserve: KeyRecord | None = None
    _replaces: str = ""
    _unless: tuple[str, ...] = ()
    _control: FreezeAndIncidentChanges | None = None
    _relies: tuple[str, ...] = ()
    """What its entries do beside the action: most do nothing."""

    def __post_init__(self) -> None:
        self.contract = self.plan.contract
        self.secrecy = Redactor.of(self.contract.redact)
        self._nested = has_mutable(self.arguments)

    @property
    def outside(self) -> bool:
        """Its attempts are made by whoever asked for it, and never by a driver."""
        return bool(self.action.context.get("outside"))

    def places(self, *, freezes: bool = False) -> tuple[str, ...]:
        """Where the files lie that it acts on, or that are to be frozen with it. Not known where the request is not."""
        ask = self.plan.places
        return () if ask is None or self.blind else ask(self.requested, freezes)

    @property
    def attemptable(self) -> bool:
        """Whether an attempt can be made of what is known here, and by who is here."""
        return not self.blind and (self.hands_out or not self.outside)

    def passed(self, now_us: int) -> None:
        """An answer said that it is this late; time does not step back."""
        if now_us > self.now_us:
            self.now_us = now_us

    def read_from(self, otherwise_us: int) -> int:
        """When the first reading of this round began; `otherwise_us` where there is none."""
        checks = self.checks
        if len(checks) == 1:  # as most have it
            return checks[0].taken.started_us
        return min([judged.taken.started_us for judged in checks]) if checks else otherwise_us

    def variables(self) -> dict[str, Json]:
        """The roots of expressions, but for the reading under judgement."""
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
        """The reading whose content the root `before` is."""
        return self.before.taken if self.before is not None else None

    @property
    def given(self) -> Mapping[str, object]:
        """The arguments for one call, which may do to them what it likes."""
        return copy_arguments(self.arguments) if self._nested else self.arguments

    def call_context(self, strong: bool = False) -> Context:
        """What user code is told."""
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
        """One more fact: folded now, durable with the next append."""
        action = self.action
        event = Event(kind, at_us, path, self.secrecy.recorded(data or {}), refs or {})
        envelope, leaf = seal(event, action.id, action.tenant, action.version + 1, action.head)
        action.apply(event, leaf.hex())
        if "severity" in event.data or "frozen_for" in event.data:
            self._control = self._control or FreezeAndIncidentChanges()
            self._control.take(action.tenant, action.id, action.version, at_us, event.data)
        self._events.append(SealedEvent(kind._value_, at_us, envelope, leaf))

    def keep(self, root: str, value: Json) -> str:
        """Keeps a payload as evidence, redacted as the contract says, and returns its digest."""
        body = stored_bytes(self.secrecy.hide(value, root))
        digest = sha256_hex(body)
        self._evidence.append(Evidence(digest, "application/json", body))
        return digest

    def keep_bytes(self, body: bytes) -> str:
        """Keeps bytes as they are, and returns their digest."""
        digest = sha256_hex(body)
        self._evidence.append(Evidence(digest, "application/json", body))
        return digest

    def count(self, subject: str, name: str, delta: int | None) -> None:
        """Moves a counter with the next append; setting back what is at zero costs nothing."""
        was = self.counts.get((subject, name), 0)
        if delta is None and not was:
            return
        self.counts = {**self.counts, (subject, name): 0 if delta is None else was + delta}
        self._counts.append(Count(subject, name, delta))

    def keep_contract(self) -> str:
        """The contract's own text, so that a record can be read without the code that made it."""
        self._evidence.append(Evidence(self.contract.hash, "application/json", self.contract.body))
        return self.contract.hash

    def keep_request(self, payload: dict[str, Json]) -> str:
        """Keeps the request as evidence, less what the contract redacts."""
        for root in ("requested", "intended"):
            if root in payload:
                payload[root] = self.secrecy.hide(payload[root], root)
        self.kept = payload
        return self.keep("request", payload)

    def take_over(self, action_id: str) -> None:
        """The key's record belongs to an action that had no effect and can have none: it is replaced."""
        self._replaces = action_id

    def unless_frozen(self, subjects: tuple[str, ...]) -> None:
        """The next append is refused where one of these is frozen."""
        self._unless = subjects

    def rely(self, claims: tuple[str, ...]) -> None:
        """The first append says upon which claims it was planned."""
        self._relies = claims

    def begin_again(self, action: Action) -> None:
        """What was recorded and could not be made durable is forgotten: the action is as the ledger has it."""
        self.action = action
        self.committed(action.version, parked=False)

    def reserve(self, record: KeyRecord) -> None:
        """Reserve the key with the next append."""
        self._reserve = record

    @property
    def pending(self) -> bool:
        """Something was recorded that is not durable."""
        return bool(self._events)

    def append(self, now_us: int, *, park: bool) -> Append:
        """Everything recorded since the last one. `park` gives the lease back: somebody else may go on."""
        action = self.action
        park = park or action.state in TERMINAL
        settle = None
        if action.durable_key_change:
            status = key_status(action.state, may_repeat=action.may_repeat, resolution=action.attested)
            settle = (status._value_, expires_us(status, now_us, action.key_kept_us))
        return Append(
            action.id,
            action.tenant,
            self.durable_version,
            self.fence,
            tuple(self._events),
            self._projection(now_us, park),
            tuple(self._evidence),
            self._reserve,
            self._replaces,
            settle,
            tuple(self._counts),
            () if self._control is None else tuple(self._control.freezes),
            (),
            self._unless,
            () if self._control is None else tuple(self._control.incidents),
            relies=self._relies,
            in_flight_max=self.in_flight_max,
        )

    def committed(self, version: int, parked: bool) -> None:
        """The append is durable: crash from here on, and the ledger says the same as we do."""
        self.durable_version = version
        self.parked = parked or self.action.state in TERMINAL
        self._events.clear()
        self._evidence.clear()
        self._counts.clear()
        self._reserve, self._replaces, self._unless, self.in_flight_max = None, "", (), 0
        self._control = None
        if self._relies:
            self._relies = ()

    def _projection(self, now_us: int, park: bool) -> Projection:
        a, c = self.action, self.contract
        j, until_us = a.judgement, 0 if park else lease_until(c, now_us)
        # By place, in the order of the class: so many by name take seven times as long, twice an action.
        return Projection(
            a.id,
            a.tenant,
            a.principal,
            self.scope.run,
            a.contract,
            a.contract_version,
            a.contract_hash,
            a.kind,
            a.side_effect,
            a.target,
            a.operation,
            a.key_hash,
            a.stamp,
            a.state._value_,
            a.hold,
            j.verdict,
            j.discrepancy,
            j.row,
            a.created_us,
            a.updated_us,
            a.due_us,
            "" if park else self.owner,
            until_us,
            a.review,
            a.incident,
            str(a.context.get("saga", "")),
            a.claim if a.claims else "",
        )
