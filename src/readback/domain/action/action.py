"""An action, folded from its events. Its state has no other source.

The engine folds while it works, resume folds after a crash, and audit folds again and compares. Applying an event only
records. The transition table checks each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from readback.canon import Json
from readback.domain import state as states
from readback.domain.action import claim as claims
from readback.domain.action.action_state import ActionState, Judgement
from readback.domain.action.approval_record import asked, signed
from readback.domain.action.erasure import erased_after
from readback.domain.action.key_release import KeyRelease
from readback.domain.contract import watch as watching
from readback.domain.contract.approval import HOLD
from readback.domain.contract.freezing import places_among
from readback.domain.events import Event, EventKind
from readback.domain.idempotency import KEY_KEPT_US
from readback.domain.people.incident import incident_id
from readback.domain.people.review import ACTS, CONTESTED, RESTORED
from readback.domain.state import State
from readback.errors import StoreCorruptError

# The handlers of each event kind, and their table.

_FAILED, _SUCCESS = State.FAILED, State.RECONCILED_SUCCESS


def _proposed(a: ActionState, e: Event) -> None:
    d = e.data
    a.principal, a.contract = str(d["principal"]), str(d["contract"])
    a.operation, a.stamp, a.key_hash = str(d["operation"]), str(d["stamp"]), str(d["key_hash"])
    _take_terms(a, e)
    a.break_glass, a.mode = str(d.get("break_glass", "")), str(d.get("mode", ""))
    context = d["context"]
    a.context = context if isinstance(context, dict) else {}
    a.created_us = e.at_us
    if "due" in d:  # submitted: another process executes it
        a.due_us, a.reserved = _int(d["due"]), True
        a.asked_hash = "" if a.contract_ref else a.request_hash


def _take_terms(a: ActionState, e: Event) -> None:
    """Take the contract's terms from a request. They stay empty where the contract is unknown, and are taken once."""
    if a.contract_ref:
        raise StoreCorruptError(f"Action {a.id} is admitted twice.")
    d = e.data
    a.contract_version, a.contract_hash = str(d["contract_version"]), str(d["contract_hash"])
    a.engine = str(d.get("engine", ""))
    a.kind, a.side_effect = str(d["operation_kind"]), str(d["side_effect"])
    a.target, a.request_hash = str(d["target"]), str(d["request_hash"])
    a.key_kept_us = _int(d.get("key_kept", KEY_KEPT_US))
    a.wrapper = str(d.get("wrapper", a.wrapper))
    by_name = "due" in d and "contract" not in e.refs
    a.request_ref, a.contract_ref = e.refs["request"], "" if by_name else e.refs["contract"]


def _rejected(a: ActionState, e: Event) -> None:
    _released(a)
    a.code = str(e.data.get("code", ""))
    a.judgement.detail = str(e.data.get("detail", ""))
    _take_judgement(a, e)
    a.reconciled_us = e.at_us
    a.due_us = None


def _read(a: ActionState, e: Event) -> None:
    if e.data["role"] == "before":
        a.before, a.before_ref = e.data, e.refs.get("reading", "")
        return
    if e.data["role"] == "find":
        a.looked_us = _int(e.data["started"])
        return
    a.reading, a.reading_ref = e.data, e.refs.get("reading", "")
    a.sighted = a.sighted or (bool(a.stamp) and e.data.get("stamp") == a.stamp)
    a.verified_us = e.at_us


def _attempted(a: ActionState, e: Event) -> None:
    _released(a)
    a.gated = "approval" in e.data
    if a.approval is not None:
        a.approval.used = bool(e.data.get("approval"))
    a.break_glass = a.break_glass or str(e.data.get("break_glass", ""))
    last = a.observation
    a.left_before = a.left_before or (a.attempts > 0 and (last is None or last.get("dispatched") is not False))
    a.release = None
    a.attempts = _int(e.data["attempt"])
    a.maker = str(e.data.get("owner", ""))
    a.timeout_us = _int(e.data["timeout"])
    a.would_refuse = str(e.data.get("would_refuse", ""))
    a.attempt_open = True
    a.validated_us = a.validated_us or e.at_us
    a.executed_us = e.at_us
    a.place = a.place or str(e.data.get("place", ""))
    a.first_executed_us = a.first_executed_us or e.at_us
    a.ended_us = a.polls = a.late_polls = a.held_since_us = a.looked_us = 0
    a.commit_open = a.restored = False
    a.lookup = ""  # an earlier attempt's look-up does not apply to this attempt
    a.observation, a.observation_ref = None, ""
    a.resolution = a.decision = ""  # decisions about an earlier attempt do not apply to this attempt
    a.due_us = _int(e.data["due"]) if "due" in e.data else e.at_us


def _observed(a: ActionState, e: Event) -> None:
    a.observation, a.observation_ref = e.data, e.refs.get("observation", "")
    a.attempt_open = False
    a.ended_us = _int(e.data["ended"])
    a.first_ended_us = a.first_ended_us or a.ended_us
    if "due" in e.data:
        a.due_us = _int(e.data["due"])
    elif a.due_us is not None and a.due_us > a.ended_us:
        a.due_us = a.ended_us  # an external attempt, reported before its timeout


def _looked_up(a: ActionState, e: Event) -> None:
    a.lookup = str(e.data["status"])


def _judged(a: ActionState, e: Event) -> None:
    _take_judgement(a, e)
    _take_release(a, e)
    d, due = e.data, e.data["due"]
    a.polls, a.late_polls = _int(d["polls"]), _int(d["late_polls"])
    a.held_since_us = _int(d["held_since"])
    a.due_us = due if isinstance(due, int) else None
    a.review, a.decision = str(d["review"]), ""
    a.seen = a.seen or a.sighted
    _beside(a, e)
    if a.claimed_us == 0 and (a.state is _SUCCESS or _verified_to_be_reversed(a.judgement)):
        a.claimed_us = e.at_us
    if a.state in states.TERMINAL or a.due_us is None:
        a.reconciled_us = e.at_us
    if a.watch is not None or "watch" in d:
        _watch_judged(a, e)
    if a.mode and isinstance(judged := d.get("shadow"), dict):
        a.shadow = judged


def _watch_judged(a: ActionState, e: Event) -> None:
    said, held = e.data.get("watch"), a.judgement.verdict == "verified"
    if isinstance(said, dict):
        a.watch = watching.start_watch(said, a.reading, a.reading_ref, e.at_us)
    elif a.watch is not None:
        refs, ends = (a.reading_ref, a.judgement.ref), a.due_us is None
        a.watch = watching.with_judgement(a.watch, a.reading, refs, e.at_us, verified=held, ends=ends)
        a.contested = a.drifted or claims.contradicted(a.claims)


def _watched(a: ActionState, e: Event) -> None:
    """Record a look without news: after a success, or while a failed action's effect may still land."""
    due = e.data["due"]
    a.due_us, a.decision = due if isinstance(due, int) else None, ""
    if a.watch is not None:
        a.watch = watching.with_look(a.watch, e.data, e.at_us)
    else:
        a.late_polls += 1
    a.review = str(e.data.get("review", a.review))
    _beside(a, e)


def _verified_to_be_reversed(j: Judgement) -> bool:
    return j.verdict == "verified" and j.discrepancy == "compensation_required"


def _take_judgement(a: ActionState, e: Event) -> None:
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
    a.engine = str(d.get("engine", a.engine))
    j.ref = e.refs.get("judgement", "")


def _take_release(a: ActionState, e: Event) -> None:
    """Record why the key is free, where the entry ends the action."""
    if "release" in e.data:
        a.release = KeyRelease(str(e.data["release"]))


def _resumed(a: ActionState, e: Event) -> None:
    a.unproved = a.unproved or e.data.get("unproved") is True
    if a.attempt_open:
        a.attempt_open = False
        a.ended_us = _int(e.data.get("ended", e.at_us))  # later than the entry where its process is only presumed dead
        a.first_ended_us = a.first_ended_us or a.ended_us


def _signalled(a: ActionState, e: Event) -> None:
    """Record a look. The action then waits for a notification or for the recorded time."""
    due = e.data.get("due")
    a.due_us = due if isinstance(due, int) else e.at_us


def _cancelled(a: ActionState, e: Event) -> None:
    a.cancelled = True
    _released(a)
    if a.state in (_FAILED, State.ABANDONED):
        a.code, a.reconciled_us, a.due_us, a.review = "cancelled", e.at_us, None, ""
    else:
        a.due_us = e.at_us


def _staged_settled(a: ActionState, e: Event) -> None:
    a.rollback_done = e.data["how"] == "abandoned"
    a.commit_open = e.data["how"] in ("commit_open", "abandon_failed")
    a.ended_us = max(a.ended_us, _int(e.data.get("ended", 0)))  # an open commit is a part of the call


def _compensation(a: ActionState, e: Event) -> None:
    a.compensation_id = str(e.data["action"])
    due = e.data.get("due")
    a.due_us = due if isinstance(due, int) else None
    a.review = str(e.data.get("review", "")) or a.review
    _beside(a, e)
    _take_release(a, e)
    if a.state is not State.COMPENSATING:
        a.reconciled_us, a.decision = e.at_us, ""


def _claim(a: ActionState, e: Event) -> None:
    """Record a claim's event. A contradiction of a reported success goes to review."""
    said = claims.claim_event_in(e, a.version)
    before = claims.own_status(a.claims, said.kind, made=a.claimed_us > 0)
    if not claims.may_follow(before, said.status):
        raise StoreCorruptError(f"Action {a.id} has a claim {said.status.value} that was {before.value} before.")
    a.claims = claims.after(a.claims, said)
    if said.status is claims.ClaimStatus.REINSTATED:
        a.contested = claims.contradicted(a.claims) or a.drifted
        a.review = "" if a.review == CONTESTED and not a.contested else a.review
    elif said.reason is claims.Reason.PERSON:  # the person has decided, so no review is needed
        a.contested = a.contested or a.claimed_us > 0
    elif said.reason in claims.CONTRADICTS:
        a.contested = True
        a.review = a.review or CONTESTED
    elif said.reason is claims.Reason.REVERSED and a.state is _SUCCESS:
        a.due_us = None  # the watched effect is gone


def _held(a: ActionState, e: Event) -> None:
    a.hold, a.review = str(e.data["hold"]), str(e.data["hold"])
    a.code = str(e.data.get("code", ""))
    a.due_us = None
    if a.hold == RESTORED:
        _restored(a, e)
    _beside(a, e)


def _restored(a: ActionState, e: Event) -> None:
    """Treat the action as attempted without an answer, since it may have run after the backup.

    Earlier observations and decisions no longer count.
    """
    a.resolution = a.decision = a.lookup = ""
    a.restored, a.judgement.dead = True, False
    a.release = KeyRelease.NONE
    if a.observation is not None and a.observation.get("dispatched") is False:
        a.observation, a.observation_ref = None, ""
    if a.attempts == 0:
        a.attempts, a.executed_us, a.ended_us = 1, e.at_us, e.at_us


def _resolved(a: ActionState, e: Event) -> None:
    d, due = e.data, e.data["due"]
    a.decision, a.resolution, a.review, a.hold = str(d["decision"]), str(d["resolution"]), "", ""
    gone_on_with = a.decision in ACTS  # judged anew: the earlier contradiction does not apply
    a.contested = bool(d["contests"]) or (a.contested and not a.resolution and not gone_on_with) or a.drifted
    a.reserved = a.reserved or bool(d["reserved"])
    a.due_us = due if isinstance(due, int) else None
    if a.state is State.COMPENSATING:
        a.compensation_id = ""  # ordered: a new compensation begins, unless the key of the earlier one prevents it
    if a.state in states.TERMINAL:
        a.reconciled_us = e.at_us


def _lifted(a: ActionState, e: Event) -> None:
    lifted = (*_texts(e.data["lift"]), *places_among(_texts(e.data.get("lift_places", []))))
    a.frozen = tuple(subject for subject in a.frozen if subject not in lifted)


def _erased(a: ActionState, e: Event) -> None:
    a.erased, a.erased_us = erased_after(a.erased, e), e.at_us


def _beside(a: ActionState, e: Event) -> None:
    """Record an entry's incident and freeze."""
    d = e.data
    a.incident = str(d.get("incident", "")) or a.incident
    if "severity" in d:
        a.incidents += (incident_id(a.id, a.version),)
    if "freeze" in d:
        a.frozen = tuple(dict.fromkeys((*a.frozen, *_texts(d["freeze"]))))


def _approval_requested(a: ActionState, e: Event) -> None:
    """Wait for approvals, for the first time or anew. Earlier signatures no longer count."""
    d = e.data
    a.approval = asked(e)
    a.hold, a.review, a.code = HOLD, HOLD, str(d["code"])
    a.judgement.detail = str(d["detail"])
    a.due_us = a.approval.expires_us
    a.validated_us = a.validated_us or e.at_us
    if "row" in d:
        j = a.judgement
        j.row, j.table, j.recovery, j.finding = (str(d[key]) for key in ("row", "table", "recovery", "finding"))


def _approved(a: ActionState, e: Event) -> None:
    _answers(a, e)
    assert a.approval is not None
    a.approval.signed.append(signed(e))
    a.due_us = _int(e.data["due"])
    if a.approval.complete:
        a.review = ""


def _denied(a: ActionState, e: Event) -> None:
    _answers(a, e)
    assert a.approval is not None
    a.approval.denied_by = signed(e).approver
    _released(a)
    a.code, a.judgement.detail = str(e.data["code"]), str(e.data["detail"])
    a.reconciled_us, a.due_us = e.at_us, None


def _answers(a: ActionState, e: Event) -> None:
    named = e.data["approval"]
    if a.approval is None or named != a.approval.id:
        raise StoreCorruptError(f"Action {a.id} holds a {e.kind.value} approval without a request.")


def _released(a: ActionState) -> None:
    """Clear the wait for an approval."""
    if a.hold == HOLD:
        a.hold = a.code = ""
        a.review = "" if a.review == HOLD else a.review
        if a.attempts == 0:
            a.judgement = Judgement()


def _int(value: Json) -> int:
    if not isinstance(value, int):
        raise StoreCorruptError("A ledger entry holds a value other than a number where a number is required.")
    return value


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


FOLD: Final[Mapping[EventKind, Callable[[ActionState, Event], None]]] = {
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


_ERASED, _BEGUN = EventKind.ERASED, State.PROPOSED


@dataclass(slots=True)
class Action(ActionState):
    """One action's state, as of the last applied entry."""

    def apply(self, event: Event, head: str) -> None:
        """Apply the next event. `head`: its leaf hash in hex. Raises StoreCorruptError for an impossible event."""
        for step in event.path:
            if self.version == 0 and step is _BEGUN:
                continue
            if not states.can(self.state, step):
                raise StoreCorruptError(
                    f"Action {self.id} went from {self.state} to {step}. No such transition exists."
                )
            self.state = step
        self.version += 1
        self.head = head
        if event.kind is not _ERASED:  # an erasure changes neither the state nor the age
            self.updated_us = event.at_us
        try:
            if self.erased and event.refs:
                self.erased = erased_after(self.erased, event)
            FOLD[event.kind](self, event)
        except KeyError as missing:
            raise StoreCorruptError(f"A {event.kind} entry of action {self.id} lacks {missing}.") from missing
