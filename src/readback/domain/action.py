"""An action as its events tell it: the fold. There is no other source of its state.

Used by the engine while it works, by resume after a crash, and by audit, which folds again and compares. Applying an
event only records; what may follow what is checked against the transition table.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from readback.canon import Json
from readback.domain import claim as claims
from readback.domain import state as states
from readback.domain import watch as watching
from readback.domain.approval.binding import HOLD, NEVER_AGAIN
from readback.domain.approval.record import Asked, asked, signed
from readback.domain.erasure import let_go
from readback.domain.errors import StoreCorruptError
from readback.domain.events import Event, EventKind
from readback.domain.idempotency import KEY_KEPT_US, Resolution
from readback.domain.incident import incident_id
from readback.domain.judgement import Judgement as Judgement
from readback.domain.review import ACTS, CONTESTED, RESTORED
from readback.domain.state import State

_FAILED, _ROLLED_BACK, _ERASED, _NOTHING_ATTESTED = State.FAILED, State.ROLLED_BACK, EventKind.ERASED, Resolution.NONE
_BEGUN, _UNKNOWN, _SUCCESS = State.PROPOSED, State.UNKNOWN, State.RECONCILED_SUCCESS
_ATTESTABLE = frozenset({State.REVIEW_REQUIRED, State.UNKNOWN, State.FAILED})


@dataclass(slots=True)  # the standard one: each entry sets fields of it, which costs more in a native one
class Action:
    """Everything the ledger says of one action. Times in microseconds; 0 where it has not happened."""

    id: str
    tenant: str
    version: int = 0
    head: str = ""
    state: State = State.PROPOSED
    principal: str = ""
    contract: str = ""
    contract_version: str = ""
    contract_hash: str = ""
    kind: str = ""
    side_effect: str = ""
    target: str = ""
    operation: str = ""
    key_hash: str = ""
    request_hash: str = ""
    asked_hash: str = ""
    """By what it was asked for by name; see domain.idempotency."""
    key_kept_us: int = KEY_KEPT_US
    stamp: str = ""
    context: dict[str, Json] = field(default_factory=dict)
    request_ref: str = ""
    contract_ref: str = ""
    before: dict[str, Json] | None = None
    before_ref: str = ""
    attempts: int = 0
    attempt_open: bool = False
    timeout_us: int = 0
    ended_us: int = 0
    observation: dict[str, Json] | None = None
    observation_ref: str = ""
    reading: dict[str, Json] | None = None
    reading_ref: str = ""
    lookup: str = ""
    polls: int = 0
    late_polls: int = 0
    held_since_us: int = 0
    looked_us: int = 0
    due_us: int | None = None
    judgement: Judgement = field(default_factory=Judgement)
    compensation_id: str = ""
    rollback_done: bool = False
    commit_open: bool = False
    """A staged transaction was left without an answer to its end: it may still be committed."""
    cancelled: bool = False
    contested: bool = False
    """What was told of it is contradicted, and nobody has decided about that."""
    claims: tuple[claims.Said, ...] = ()
    """What was said last of each of its claims; nothing is written for one that merely stands."""
    claimed_us: int = 0
    """When it was verified first, whatever was said later: that is what makes its claims."""
    hold: str = ""
    approval: Asked | None = None
    """The approval that it waits for or stood on; None where none was asked for."""
    gated: bool = False
    """Its last attempt says which approvals it stood on, if only that it needed none."""
    code: str = ""
    review: str = ""
    incident: str = ""
    incidents: tuple[str, ...] = ()
    """Ids of the incidents that its entries opened (or would have, had their cause not been open already)."""
    frozen: tuple[str, ...] = ()
    """Subjects that it has frozen and nobody has lifted."""
    resolution: str = ""
    """What a person attested of it, if anything; see `attested`."""
    decision: str = ""
    """What a person decided and nobody has acted on yet."""
    restored: bool = False
    """Attempts that are not on record may have been made under its key, with other stamps; see keeping.restore."""
    reserved: bool = False
    """Its key was taken before it was executed: with its submission, or again."""
    break_glass: str = ""
    watch: watching.Watched | None = None
    """What came of watching it after its success; None where nobody asked for that."""
    erased: tuple[str, ...] = ()
    """Digests of its payloads that were erased, and not recorded again since."""
    erased_us: int = 0
    created_us: int = 0
    updated_us: int = 0
    validated_us: int = 0
    executed_us: int = 0
    verified_us: int = 0
    reconciled_us: int = 0

    @property
    def attested(self) -> Resolution:
        """A person's word, as far as it counts: not after a reading that contradicts it, nor while work goes on."""
        if not self.resolution or self.contested or self.state not in _ATTESTABLE:
            return _NOTHING_ATTESTED
        return Resolution(self.resolution)

    @property
    def claim(self) -> str:
        """The worst that was said of its claims; see domain.claim."""
        return claims.worst(self.claims) if self.claims else ""

    @property
    def drifted(self) -> bool:
        """It was verified, and the last look that could tell shows that it no longer holds."""
        return self.watch is not None and self.watch.drifted

    @property
    def may_repeat(self) -> bool:
        """Whether the operation may be proposed again: it had no effect, and none can follow; or a person says so.

        Never after another actor's change (the plan is stale then), and never while anything is open.
        """
        if self.resolution and (attested := self.attested) is not _NOTHING_ATTESTED:
            return attested is Resolution.ATTESTED_NOT_DONE
        if self.state not in (_FAILED, _ROLLED_BACK) or self.judgement.effect_shown:
            return False
        if self.code in NEVER_AGAIN:
            return False
        if self.attempts == 0:
            return True
        return self.judgement.dead and self.judgement.discrepancy != "stale_state"

    @property
    def durable_key_change(self) -> bool:
        """Whether this state settles the idempotency record (or opens it again)."""
        settles = self.state in states.TERMINAL or self.attempts > 1
        return self.version > 0 and (settles or (self.state is _UNKNOWN and bool(self.resolution)))

    def apply(self, event: Event, head: str) -> None:
        """Takes one more event. `head`: its leaf hash in hex. Raises StoreCorruptError where it cannot be."""
        for step in event.path:
            if self.version == 0 and step is _BEGUN:
                continue
            if not states.can(self.state, step):
                raise StoreCorruptError(f"Action {self.id} went from {self.state} to {step}, which cannot be.")
            self.state = step
        self.version += 1
        self.head = head
        if event.kind is not _ERASED:  # which leaves everything where it was, its age too
            self.updated_us = event.at_us
        try:
            if self.erased and event.refs:
                self.erased = let_go(self.erased, event)
            _APPLY[event.kind](self, event)
        except KeyError as missing:
            raise StoreCorruptError(f"A {event.kind} entry of action {self.id} lacks {missing}.") from missing


def _proposed(a: Action, e: Event) -> None:
    d = e.data
    a.principal, a.contract = str(d["principal"]), str(d["contract"])
    a.operation, a.stamp, a.key_hash = str(d["operation"]), str(d["stamp"]), str(d["key_hash"])
    _take_terms(a, e)
    a.break_glass = str(d.get("break_glass", ""))
    context = d["context"]
    a.context = context if isinstance(context, dict) else {}
    a.created_us = e.at_us
    if "due" in d:  # it was submitted: somebody else executes it
        a.due_us, a.reserved = _int(d["due"]), True
        a.asked_hash = "" if a.contract_ref else a.request_hash


def _take_terms(a: Action, e: Event) -> None:
    """What the contract makes of a request; all of it empty where the contract is not known. Taken once."""
    if a.contract_ref:
        raise StoreCorruptError(f"Action {a.id} is admitted, and was already.")
    d = e.data
    a.contract_version, a.contract_hash = str(d["contract_version"]), str(d["contract_hash"])
    a.kind, a.side_effect = str(d["operation_kind"]), str(d["side_effect"])
    a.target, a.request_hash = str(d["target"]), str(d["request_hash"])
    a.key_kept_us = _int(d.get("key_kept", KEY_KEPT_US))
    by_name = "due" in d and "contract" not in e.refs
    a.request_ref, a.contract_ref = e.refs["request"], "" if by_name else e.refs["contract"]


def _rejected(a: Action, e: Event) -> None:
    _released(a)
    a.code = str(e.data.get("code", ""))
    a.judgement.detail = str(e.data.get("detail", ""))
    _take_judgement(a, e)
    a.reconciled_us = e.at_us
    a.due_us = None


def _read(a: Action, e: Event) -> None:
    if e.data["role"] == "before":
        a.before, a.before_ref = e.data, e.refs.get("reading", "")
        return
    if e.data["role"] == "find":
        a.looked_us = _int(e.data["started"])
        return
    a.reading, a.reading_ref = e.data, e.refs.get("reading", "")
    a.verified_us = e.at_us


def _attempted(a: Action, e: Event) -> None:
    _released(a)
    a.gated = "approval" in e.data
    if a.approval is not None:
        a.approval.used = bool(e.data.get("approval"))
    a.break_glass = a.break_glass or str(e.data.get("break_glass", ""))
    a.attempts = _int(e.data["attempt"])
    a.timeout_us = _int(e.data["timeout"])
    a.attempt_open = True
    a.validated_us = a.validated_us or e.at_us
    a.executed_us = e.at_us
    a.ended_us = a.polls = a.late_polls = a.held_since_us = a.looked_us = 0
    a.commit_open = a.restored = False
    a.lookup = ""  # what became of the attempt before says nothing of this one
    a.observation, a.observation_ref = None, ""
    a.resolution = a.decision = ""  # another attempt: what was said of the one before says nothing of this one
    a.due_us = _int(e.data["due"]) if "due" in e.data else e.at_us


def _observed(a: Action, e: Event) -> None:
    a.observation, a.observation_ref = e.data, e.refs.get("observation", "")
    a.attempt_open = False
    a.ended_us = _int(e.data["ended"])
    if "due" in e.data:
        a.due_us = _int(e.data["due"])
    elif a.due_us is not None and a.due_us > a.ended_us:
        a.due_us = a.ended_us  # it was made outside, and its report came before its time was over


def _looked_up(a: Action, e: Event) -> None:
    a.lookup = str(e.data["status"])


def _judged(a: Action, e: Event) -> None:
    _take_judgement(a, e)
    d, due = e.data, e.data["due"]
    a.polls, a.late_polls = _int(d["polls"]), _int(d["late_polls"])
    a.held_since_us = _int(d["held_since"])
    a.due_us = due if isinstance(due, int) else None
    a.review, a.decision = str(d["review"]), ""
    _beside(a, e)
    if a.claimed_us == 0 and (a.state is _SUCCESS or _verified_to_be_reversed(a.judgement)):
        a.claimed_us = e.at_us
    if a.state in states.TERMINAL or a.due_us is None:
        a.reconciled_us = e.at_us
    if a.watch is not None or "watch" in d:
        _watch_judged(a, e)


def _watch_judged(a: Action, e: Event) -> None:
    said, held = e.data.get("watch"), a.judgement.verdict == "verified"
    if isinstance(said, dict):
        a.watch = watching.begun(said, a.reading, a.reading_ref, e.at_us)
    elif a.watch is not None:
        refs, ends = (a.reading_ref, a.judgement.ref), a.due_us is None
        a.watch = watching.judged(a.watch, a.reading, refs, e.at_us, verified=held, ends=ends)
        a.contested = a.drifted or claims.contradicted(a.claims)


def _watched(a: Action, e: Event) -> None:
    """Looked at, and nothing is new: after a success, or while an effect of what failed may still land."""
    due = e.data["due"]
    a.due_us, a.decision = due if isinstance(due, int) else None, ""
    if a.watch is not None:
        a.watch = watching.looked(a.watch, e.data, e.at_us)
    else:
        a.late_polls += 1
    a.review = str(e.data.get("review", a.review))
    _beside(a, e)


def _verified_to_be_reversed(j: Judgement) -> bool:
    return j.verdict == "verified" and j.discrepancy == "compensation_required"


def _take_judgement(a: Action, e: Event) -> None:
    d, j = e.data, a.judgement
    if "verdict" not in d:
        return
    j.verdict, j.why = str(d["verdict"]), str(d["why"])
    j.finding, j.discrepancy = str(d["finding"]), str(d["discrepancy"])
    j.attribution, j.row, j.table = str(d["attribution"]), str(d["row"]), str(d["table"])
    j.recovery, j.level = str(d["recovery"]), _int(d["level"])
    j.effect_shown, j.dead = bool(d["effect_shown"]), bool(d["dead"])
    j.done, j.undone = _texts(d["done"]), _texts(d["undone"])
    j.detail = str(d.get("detail", ""))
    j.ref = e.refs.get("judgement", "")


def _resumed(a: Action, e: Event) -> None:
    if a.attempt_open:
        a.attempt_open = False
        a.ended_us = _int(e.data.get("ended", e.at_us))  # later, where its maker is only presumed dead


def _signalled(a: Action, e: Event) -> None:
    """Looked at, and left until somebody moves it or the time that is said has come."""
    due = e.data.get("due")
    a.due_us = due if isinstance(due, int) else e.at_us


def _cancelled(a: Action, e: Event) -> None:
    a.cancelled = True
    _released(a)
    if a.state in (_FAILED, State.ABANDONED):
        a.code, a.reconciled_us, a.due_us, a.review = "cancelled", e.at_us, None, ""
    else:
        a.due_us = e.at_us


def _staged_settled(a: Action, e: Event) -> None:
    a.rollback_done = e.data["how"] == "abandoned"
    a.commit_open = e.data["how"] in ("commit_open", "abandon_failed")


def _compensation(a: Action, e: Event) -> None:
    a.compensation_id = str(e.data["action"])
    due = e.data.get("due")
    a.due_us = due if isinstance(due, int) else None
    a.review = str(e.data.get("review", "")) or a.review
    _beside(a, e)
    if a.state is not State.COMPENSATING:
        a.reconciled_us, a.decision = e.at_us, ""


def _claim(a: Action, e: Event) -> None:
    """Something is said of a claim. What contradicts what somebody was told is put before a person."""
    said = claims.said_in(e, a.version)
    before = claims.own_status(a.claims, said.kind, made=a.claimed_us > 0)
    if not claims.may_follow(before, said.status):
        raise StoreCorruptError(f"Action {a.id} has a claim {said.status.value} that was {before.value} before.")
    a.claims = claims.after(a.claims, said)
    if said.status is claims.ClaimStatus.REINSTATED:
        a.contested = claims.contradicted(a.claims) or a.drifted
        a.review = "" if a.review == CONTESTED and not a.contested else a.review
    elif said.reason is claims.Reason.PERSON:  # who has looked at it already, and has not to be asked
        a.contested = a.contested or a.claimed_us > 0
    elif said.reason in claims.CONTRADICTS:
        a.contested = True
        a.review = a.review or CONTESTED
    elif said.reason is claims.Reason.REVERSED and a.state is _SUCCESS:
        a.due_us = None  # there is nothing left to watch


def _held(a: Action, e: Event) -> None:
    a.hold, a.review = str(e.data["hold"]), str(e.data["hold"])
    a.code = str(e.data.get("code", ""))
    a.due_us = None
    if a.hold == RESTORED:
        _restored(a, e)
    _beside(a, e)


def _restored(a: Action, e: Event) -> None:
    """It may have been executed since: attempted without an answer, whatever was said or shown of it before."""
    a.resolution = a.decision = a.lookup = ""
    a.restored, a.judgement.dead = True, False
    if a.observation is not None and a.observation.get("dispatched") is False:
        a.observation, a.observation_ref = None, ""
    if a.attempts == 0:
        a.attempts, a.executed_us, a.ended_us = 1, e.at_us, e.at_us


def _resolved(a: Action, e: Event) -> None:
    d, due = e.data, e.data["due"]
    a.decision, a.resolution, a.review, a.hold = str(d["decision"]), str(d["resolution"]), "", ""
    gone_on_with = a.decision in ACTS  # judged anew: what contradicted the word before says nothing against that
    a.contested = bool(d["contests"]) or (a.contested and not a.resolution and not gone_on_with) or a.drifted
    a.reserved = a.reserved or bool(d["reserved"])
    a.due_us = due if isinstance(due, int) else None
    if a.state is State.COMPENSATING:
        a.compensation_id = ""  # ordered: another one is begun, unless the key of the one before says otherwise
    if a.state in states.TERMINAL:
        a.reconciled_us = e.at_us


def _lifted(a: Action, e: Event) -> None:
    lifted = _texts(e.data["lift"])
    a.frozen = tuple(subject for subject in a.frozen if subject not in lifted)


def _erased(a: Action, e: Event) -> None:
    a.erased, a.erased_us = let_go(a.erased, e), e.at_us


def _beside(a: Action, e: Event) -> None:
    """What an entry does beside its action; see lifecycle.control."""
    d = e.data
    a.incident = str(d.get("incident", "")) or a.incident
    if "severity" in d:
        a.incidents += (incident_id(a.id, a.version),)
    if "freeze" in d:
        a.frozen = tuple(dict.fromkeys((*a.frozen, *_texts(d["freeze"]))))


def _approval_requested(a: Action, e: Event) -> None:
    """It waits for people, for the first time or anew; what was signed before no longer counts."""
    d = e.data
    a.approval = asked(e)
    a.hold, a.review, a.code = HOLD, HOLD, str(d["code"])
    a.judgement.detail = str(d["detail"])
    a.due_us = a.approval.expires_us
    a.validated_us = a.validated_us or e.at_us
    if "row" in d:
        j = a.judgement
        j.row, j.table, j.recovery, j.finding = (str(d[key]) for key in ("row", "table", "recovery", "finding"))


def _approved(a: Action, e: Event) -> None:
    _answers(a, e)
    assert a.approval is not None
    a.approval.signed.append(signed(e))
    a.due_us = _int(e.data["due"])
    if a.approval.complete:
        a.review = ""


def _denied(a: Action, e: Event) -> None:
    _answers(a, e)
    assert a.approval is not None
    a.approval.denied_by = signed(e).approver
    _released(a)
    a.code, a.judgement.detail = str(e.data["code"]), str(e.data["detail"])
    a.reconciled_us, a.due_us = e.at_us, None


def _answers(a: Action, e: Event) -> None:
    named = e.data["approval"]
    if a.approval is None or named != a.approval.id:
        raise StoreCorruptError(f"Action {a.id} holds a {e.kind.value} approval that was not asked for.")


def _released(a: Action) -> None:
    """It waits for no approval any more."""
    if a.hold == HOLD:
        a.hold = a.code = ""
        a.review = "" if a.review == HOLD else a.review
        if a.attempts == 0:
            a.judgement = Judgement()


def _int(value: Json) -> int:
    if not isinstance(value, int):
        raise StoreCorruptError("A ledger entry holds something else where a number belongs.")
    return value


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


_APPLY = {
    EventKind.PROPOSED: _proposed,
    EventKind.ADMITTED: _take_terms,
    EventKind.REJECTED: _rejected,
    EventKind.READ: _read,
    EventKind.ATTEMPTED: _attempted,
    EventKind.OBSERVED: _observed,
    EventKind.LOOKED_UP: _looked_up,
    EventKind.JUDGED: _judged,
    EventKind.RESUMED: _resumed,
    EventKind.SIGNALLED: _signalled,
    EventKind.CANCELLED: _cancelled,
    EventKind.STAGED_SETTLED: _staged_settled,
    EventKind.COMPENSATION: _compensation,
    EventKind.CLAIM_CONTESTED: _claim,
    EventKind.CLAIM_RETRACTED: _claim,
    EventKind.CLAIM_REINSTATED: _claim,
    EventKind.HELD: _held,
    EventKind.APPROVAL_REQUESTED: _approval_requested,
    EventKind.APPROVED: _approved,
    EventKind.DENIED: _denied,
    EventKind.RESOLVED: _resolved,
    EventKind.LIFTED: _lifted,
    EventKind.WATCHED: _watched,
    EventKind.ERASED: _erased,
}
