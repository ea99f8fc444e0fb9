"""A scene for each row of the recovery table: a world in which the engine really comes to it, and what it ends in.

Played by `test_every_row`. `WAITING` names the rows whose stage is not built yet, `GUARDS` those that no stage can come
to: they close a gap of the table, so that it stays total if a stage ever changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from readback.domain.context import Context
from readback.domain.finding import Finding
from readback.domain.outcome.outcome import Outcome
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, RecoveryTable, Row, Situation
from readback.domain.state import State
from readback.domain.verification.reading import Lookup, Reading
from readback.engine import coordinator
from readback.engine.engine import Engine
from readback.engine.saga import attend as saga_attend
from readback.engine.saga.begin import SagaRequest
from readback.testing.driver_virtual import CallHangs
from tests.lifecycle.approving import ASKED, approve, listed, people
from tests.lifecycle.house import HIGH, MEDIUM, STAMPED, TENANT, House, Shop
from tests.lifecycle.rewriting import rewritten

Args = Any
A, S = RecoveryAction, State
HIGH_STAMPED: Final[dict[str, Any]] = {**HIGH, "identity": {**HIGH["identity"], "stamp": "authoritative.stamp"}}
MAKE: Final[dict[str, Any]] = {"kind": "create", "compensate": {}, **STAMPED}
GROUPS: Final = {
    "shipping": {"status": "authoritative.status == requested.status"},
    "billing": {"paid": "has(authoritative.paid) && authoritative.paid"},
}
UNSEEN: Final[dict[str, Any]] = {"readers": (), "unverifiable": "It has no memory.", "identity": None}


class Watched(RecoveryTable):
    """The default table; it notes which rows it decided by."""

    __slots__ = ("decided",)

    def __init__(self, table: RecoveryTable = DEFAULT_TABLE) -> None:
        super().__init__(table.rows)
        self.decided: list[str] = []

    def decide(self, finding: Finding, situation: Situation) -> Row:
        row = super().decide(finding, situation)
        self.decided.append(row.id)
        return row


@dataclass(slots=True)
class Stage:
    """A house whose table is watched."""

    table: Watched = field(default_factory=Watched)
    house: House = field(init=False)

    def __post_init__(self) -> None:
        self.house = House(engine=Engine(self.table))

    @property
    def shop(self) -> Shop:
        return self.house.shop


@dataclass(frozen=True, slots=True)
class Walk:
    """How the engine comes to a row: what it does there, and the state that the action ends in."""

    play: Callable[[House], Outcome]
    action: RecoveryAction
    end: State
    calls: int = 1
    """How often the tool was called, in all."""
    freezes: bool = False
    incident: bool = False
    drifts: bool = False
    """It was verified, and is no longer as it was."""


# --- tools and readers -------------------------------------------------------------------------------------------


def _nothing(ctx: Context, args: Args) -> object:
    return {"status": "ok"}


def _refused(ctx: Context, args: Args) -> object:
    return (500, {})


def _hangs(ctx: Context, args: Args) -> object:
    raise CallHangs


def _wrong(house: House) -> Callable[[Context, Args], object]:
    return lambda ctx, args: house.shop.ship(ctx, args, status="lost")


def _wrong_and_lost(house: House) -> Callable[[Context, Args], object]:
    def tool(ctx: Context, args: Args) -> object:
        house.shop.ship(ctx, args, status="lost")
        raise CallHangs

    return tool


def _drifted(house: House) -> Outcome:
    told = house.run(house.action(watch="1h"))
    house.shop.rows["o-1"]["status"] = "lost"
    house.work(4_500)
    return house.get(told.id)


def _down(house: House, until_s: float = 1e9) -> None:
    """The system of record cannot be reached, once the tool was called."""

    def look(ctx: Context, args: Args) -> Reading:
        if house.shop.calls and house.shop.now() < until_s:
            raise ConnectionError("down")
        return house.shop.show(args)

    house.shop.eyes = look


def _broken(house: House, until_s: float = 1e9) -> None:
    """The reader answers what is no reading, once the tool was called."""

    def look(ctx: Context, args: Args) -> object:
        return 7 if house.shop.calls and house.shop.now() < until_s else house.shop.show(args)

    house.shop.eyes = look


def _anonymous(house: House) -> None:
    """Nothing that is read shows whose doing it is."""
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, stamp="")


def _cleared(house: House) -> House:
    house.shop.rows.clear()
    return house


# --- a mismatch --------------------------------------------------------------------------------------------------


def _late_reader(house: House) -> Outcome:
    shop = house.shop
    old = dict(shop.rows["o-1"])
    shop.eyes = lambda ctx, args: shop.show(args) if shop.now() > 3 else Reading.of(old, version=1)
    return house.run(house.action())


def _replica(house: House) -> Outcome:
    shop = house.shop
    old = dict(shop.rows["o-1"])
    readers = (("session", "other_client", "replica"), ("strong", "other_client", "primary"))
    shop.eyes = lambda ctx, args: shop.show(args) if ctx.strong else Reading.of(old, version=1)
    return house.run(house.action(readers=readers))


def _silent_no_op(house: House) -> Outcome:
    house.shop.tool = _nothing
    return house.run(house.action())


def _claimed_elsewhere(house: House) -> Outcome:
    house.shop.tool = _nothing
    return house.run(house.action(late_window="5s"))


def _wrong_and_reversible(house: House) -> Outcome:
    _cleared(house).shop.tool = _wrong(house)
    return house.run(house.action(**MAKE))


def _wrong_and_irreversible(house: House) -> Outcome:
    house.shop.tool = _wrong(house)
    return house.run(house.action(**STAMPED))


# --- what timed out ----------------------------------------------------------------------------------------------


def _read_timed_out(house: House) -> Outcome:
    _down(house)
    return house.run(house.action(kind="read", side_effect="read_only", ensure={"there": "authoritative.id == 'o-1'"}))


def _shown_and_untold(house: House) -> Outcome:
    """Our object is there, and does not say what it would have to say."""
    shop = _cleared(house).shop

    def tool(ctx: Context, args: Args) -> object:
        shop.ship(ctx, args)
        shop.rows["o-1"].pop("status")
        return {"status": "ok"}

    shop.tool = tool
    return house.run(house.action(**MAKE))


def _unseen(**more: Any) -> Callable[[House], Outcome]:
    def play(house: House) -> Outcome:
        _down(house)
        return house.run(house.action(**more))

    return play


def _pending_record(house: House) -> Outcome:
    house.shop.tool = _hangs
    house.shop.record = lambda ctx, args: Lookup.pending()
    _down(house)
    return house.run(house.action(lookup=True))


def _no_record(house: House) -> Outcome:
    house.shop.tool = _hangs
    _down(house)
    return house.run(house.action(compensate={}))


def _lost_read(house: House) -> Outcome:
    house.shop.tool = _hangs
    return _read_timed_out(house)


# --- parts, others, duplicates, the wrong place --------------------------------------------------------------------


def _partial(**more: Any) -> Callable[[House], Outcome]:
    return lambda house: house.run(house.action(ensure=GROUPS, **more))


def _partial_reversed(house: House) -> Outcome:
    return _partial(**MAKE)(_cleared(house))


def _partial_of_nobody(house: House) -> Outcome:
    _anonymous(house)
    return house.run(house.action(ensure=GROUPS))


def _anothers(house: House) -> Outcome:
    theirs = {"status": "lost", "stamp": "another", "author": "human:eve"}
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, **theirs)
    return house.run(house.action(**STAMPED))


def _twice(**more: Any) -> Callable[[House], Outcome]:
    def play(house: House) -> Outcome:
        shop = _cleared(house).shop
        shop.search = lambda ctx, args: [Reading.of(shop.rows["o-1"], stamp=ctx.stamp)] * 2
        return house.run(house.action(kind="create", find=True, **more))

    return play


def _elsewhere(house: House) -> Outcome:
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, {**args, "item": "o-2"})
    return house.run(house.action(find=True))


def _read_elsewhere(house: House) -> Outcome:
    other = {"id": "o-1", "tenant": "another", "status": "open"}
    house.shop.eyes = lambda ctx, args: Reading.of(other, stamp=ctx.stamp)
    return house.run(house.action(kind="read", side_effect="read_only", ensure={"there": "authoritative.id == 'o-1'"}))


def _beside(**more: Any) -> Callable[[House], Outcome]:
    def play(house: House) -> Outcome:
        house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, note="changed as well")
        frame = ["status", "stamp", "author", "version", "tenant", "id"]
        return house.run(house.action(may_change=frame, **more))

    return play


# --- unverifiable, uncompensated, unreachable ----------------------------------------------------------------------


def _no_path(risk: str) -> Callable[[House], Outcome]:
    return lambda house: house.run(house.action(side_effect=risk, **UNSEEN))


def _uncompensated(**more: Any) -> Callable[[House], Outcome]:
    def play(house: House) -> Outcome:
        _cleared(house).shop.tool = _wrong(house)
        house.shop.undo = lambda ctx, args: (500, {})
        told = house.run(house.action(**{**MAKE, "compensate": {"late_window": "1s"}, **more}))
        return house.wait(told.id)

    return play


def _down_before(house: House) -> Outcome:
    def look(ctx: Context, args: Args) -> Reading:
        raise ConnectionError("down")

    house.shop.eyes = look
    return house.run(house.action())


def _down_for_a_while(house: House) -> Outcome:
    _down(house, until_s=5)
    return house.run(house.action())


# --- no-ops, missing targets, what is dead -------------------------------------------------------------------------


def _already_so(house: House) -> Outcome:
    house.shop.rows["o-1"]["status"] = "shipped"
    house.shop.tool = _nothing
    return house.run(house.action())


def _not_there(answer: object = (500, {}), **more: Any) -> Callable[[House], Outcome]:
    def play(house: House) -> Outcome:
        house.shop.tool = lambda ctx, args: (house.shop.rows.clear(), answer)[1]
        return house.run(house.action(**more))

    return play


def _done_nothing(tool: Callable[[Context, Args], object], **more: Any) -> Callable[[House], Outcome]:
    def play(house: House) -> Outcome:
        house.shop.tool = tool
        return house.run(house.action(**more))

    return play


def _tried_again(house: House) -> Outcome:
    shop = house.shop
    shop.record = lambda ctx, args: Lookup.landed() if shop.stamps[0] in str(shop.rows) else Lookup.failed()
    shop.tool = lambda ctx, args: shop.ship(ctx, args) if len(shop.calls) > 1 else (500, {})
    return house.run(house.action(lookup=True, execute={"timeout": "1s", "honours_key": True}, **STAMPED))


def _sent_again(house: House) -> Outcome:
    shop = _cleared(house).shop
    shop.tool = lambda ctx, args: shop.ship(ctx, args) if len(shop.calls) > 1 else (503, {})
    return house.run(house.action(kind="create", execute={"timeout": "1s", "honours_key": True}, **STAMPED))


def _queued(house: House) -> Outcome:
    shop = _cleared(house).shop
    shop.tool = lambda ctx, args: (shop.ship(ctx, args, status="queued"), (202, {"status": "accepted"}))[1]
    return house.run(house.action(kind="create", **STAMPED))


def _lost_and_wrong(**more: Any) -> Callable[[House], Outcome]:
    def play(house: House) -> Outcome:
        _cleared(house).shop.tool = _wrong_and_lost(house)
        return house.run(house.action(find=True, **{**MAKE, **more}))

    return play


def _cancelled(**more: Any) -> Callable[[House], Outcome]:
    """It is cancelled while it is pending, and then lands."""

    def play(house: House) -> Outcome:
        _cleared(house).shop.tool = lambda ctx, args: (202, {})
        pending = house.run(house.action(**{**MAKE, **more}), wait_s=1)
        ctx = Context(pending.id, TENANT, "agent:ops", "op-1", pending.target, "key", pending.stamp)
        house.shop.ship(ctx, {"item": "o-1", "status": "shipped"})
        return house.wait(house.cancel(pending.id).id)

    return play


# --- unknown, and broken verifiers ---------------------------------------------------------------------------------


def _contradicted(house: House) -> Outcome:
    """Two readers of which one still sees the old state after the window has closed."""
    shop, looks = house.shop, [0]
    old = dict(shop.rows["o-1"])

    def look(ctx: Context, args: Args) -> Reading:
        looks[0] += 1
        return shop.show(args) if not shop.calls or looks[0] % 2 or shop.now() > 12 else Reading.of(old, version=1)

    shop.eyes = look
    readers = (("strong", "other_client", "one"), ("strong", "other_client", "two"))
    return house.run(house.action(readers=readers, quorum=2, within="6s", deadline="30s"))


def _whose(**more: Any) -> Callable[[House], Outcome]:
    def play(house: House) -> Outcome:
        _anonymous(_cleared(house))
        return house.run(house.action(kind="create", **more))

    return play


def _other_record_before(house: House) -> Outcome:
    house.shop.eyes = lambda ctx, args: Reading.of({"id": "o-9", "tenant": TENANT, "status": "open"})
    return house.run(house.action())


def _other_record_after(house: House) -> Outcome:
    shop = house.shop
    other = {"id": "o-9", "tenant": TENANT, "status": "open"}
    shop.eyes = lambda ctx, args: Reading.of(other) if shop.calls else shop.show(args)
    return house.run(house.action())


def _no_reading(until_s: float = 1e9) -> Callable[[House], Outcome]:
    def play(house: House) -> Outcome:
        _broken(house, until_s)
        return house.run(house.action())

    return play


def _held(house: House) -> Outcome:
    return house.run(house.action(stable_for="4s"))


def _plain(**more: Any) -> Callable[[House], Outcome]:
    return lambda house: house.run(house.action(**more))


# --- approvals ----------------------------------------------------------------------------------------------------


def _approved(house: House, **options: Any) -> str:
    """An action that waits for an approval, and was approved."""
    listed(house)
    held = house.run(house.action(**ASKED, **options))
    approve(house, held.id)
    return held.id


def _other_approvers(house: House) -> Outcome:
    action_id = _approved(house)
    listed(house, people("carol"))
    house.work(60)
    return house.get(action_id)


def _other_payload(house: House) -> Outcome:
    house.shop.rows["o-2"] = {**house.shop.rows["o-1"], "id": "o-2"}
    action_id = _approved(house)
    rewritten(house, action_id, "requested")
    house.work(60)
    return house.get(action_id)


def _executed(house: House) -> str:
    """Called, and gone on with by another process."""
    action_id = _approved(house, polls=["30s"], within="60s")
    house.wait(action_id, wait_s=1)
    house.die()
    return action_id


def _approved_elsewhere(house: House) -> Outcome:
    action_id = _executed(house)
    listed(house, people("carol"))
    house.work(120)
    return house.get(action_id)


def _nobody_signed(house: House) -> Outcome:
    action_id = _executed(house)
    listed(house, replace(house.engine.approvals, verify=lambda key, message, signature: False))
    house.work(120)
    return house.get(action_id)


def _past_the_pivot(house: House) -> Outcome:
    """A saga whose last step, behind the pivot, is refused before it is executed: it is tried again, and again."""
    pivot = house.action(name="pay")
    behind = house.action(name="post", require={"later": "false"}, execute={"timeout": "1s", "honours_key": True})
    pay, post = (made(item="o-1", status="shipped") for made in (pivot, behind))
    steps = (pay.as_step("pay", pivot=True).defined(), post.as_step("post", after=("pay",)).defined())
    ticket = coordinator.ActionHandle()
    request = SagaRequest("order", steps, "op-1")
    work = saga_attend.begin(house.engine, request, house.scope, house.plans.get, ticket)
    house.driver.drive(work, house.runtime.now_us() + 1)
    told = house.driver.drive(saga_attend.current_outcome(ticket.action_id, TENANT))
    assert isinstance(told, Outcome)
    return told


WALKS: Final[dict[str, Walk]] = {
    "REC-01": Walk(_late_reader, A.RETRY_VERIFICATION, S.RECONCILED_SUCCESS),
    "REC-02": Walk(_replica, A.FORCE_STRONG_READ, S.RECONCILED_SUCCESS),
    "RB-mismatch-late": Walk(_silent_no_op, A.KEEP_UNKNOWN, S.UNKNOWN),
    "RB-mismatch-elsewhere": Walk(_claimed_elsewhere, A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "REC-03": Walk(_wrong_and_reversible, A.COMPENSATE_OR_ROLL_BACK, S.COMPENSATED),
    "REC-04": Walk(_wrong_and_irreversible, A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "RB-timeout-read": Walk(_read_timed_out, A.REPORT_UNVERIFIED, S.UNKNOWN),
    "REC-05": Walk(_shown_and_untold, A.COMPENSATE_AND_STOP, S.COMPENSATED),
    "RB-timeout-no-effect": Walk(_unseen(compensate={}), A.KEEP_UNKNOWN, S.UNKNOWN),
    "RB-timeout-hold": Walk(_unseen(compensate={}, **HIGH), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "REC-06": Walk(_unseen(), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "REC-07": Walk(_pending_record, A.POLL_IDEMPOTENCY_RECORD, S.UNKNOWN),
    "REC-08": Walk(_no_record, A.FREEZE_AND_RECONCILE, S.REVIEW_REQUIRED, freezes=True),
    "RB-pending-read": Walk(_lost_read, A.REPORT_UNVERIFIED, S.UNKNOWN),
    "RB-partial-no-effect": Walk(_partial_of_nobody, A.KEEP_UNKNOWN, S.UNKNOWN),
    "REC-09": Walk(_partial_reversed, A.BACKWARD_COMPENSATION, S.COMPENSATED),
    "RB-partial-irreversible": Walk(_partial(**STAMPED), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "REC-10": Walk(_past_the_pivot, A.FORWARD_RECOVERY, S.FORWARD_RECOVERY),
    "REC-11": Walk(_anothers, A.REFRESH_AND_REPLAN, S.FAILED),
    "REC-12": Walk(_twice(**HIGH_STAMPED), A.FREEZE_AND_ALERT, S.REVIEW_REQUIRED, freezes=True, incident=True),
    "REC-13": Walk(_twice(noop="equivalent"), A.RECORD_IDEMPOTENT_REPLAY, S.RECONCILED_SUCCESS),
    "RB-duplicate": Walk(_twice(), A.FREEZE_AND_RECONCILE, S.REVIEW_REQUIRED, freezes=True),
    "REC-14": Walk(_elsewhere, A.FREEZE_AND_ALARM, S.REVIEW_REQUIRED, freezes=True, incident=True),
    "RB-wrong-target-read": Walk(_read_elsewhere, A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "RB-hidden-effect-high": Walk(
        _beside(**HIGH_STAMPED), A.FREEZE_AND_ALERT, S.REVIEW_REQUIRED, freezes=True, incident=True
    ),
    "RB-hidden-effect": Walk(_beside(**STAMPED), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "REC-15": Walk(_no_path("low_risk_internal"), A.REPORT_UNVERIFIED, S.UNKNOWN),
    "REC-16": Walk(_no_path("high_risk_external"), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "RB-unverifiable-medium": Walk(_no_path("medium_risk_write"), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "REC-17": Walk(_uncompensated(), A.REVIEW_AND_INCIDENT, S.REVIEW_REQUIRED, incident=True),
    "RB-compensation-failed-local": Walk(
        _uncompensated(side_effect="ephemeral_write"), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED
    ),
    "REC-18": Walk(_down_before, A.DEFER_OR_FAIL, S.FAILED, calls=0),
    "REC-19": Walk(_down_for_a_while, A.HOLD_PENDING, S.RECONCILED_SUCCESS),
    "REC-20": Walk(_other_approvers, A.REVALIDATE_APPROVAL, S.VALIDATED, calls=0),
    "RB-policy-after": Walk(_approved_elsewhere, A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "REC-21": Walk(_other_payload, A.FAIL_CLOSED, S.FAILED, calls=0),
    "RB-approval-after": Walk(_nobody_signed, A.FREEZE_AND_ALARM, S.REVIEW_REQUIRED, freezes=True, incident=True),
    "RB-verified": Walk(_plain(), A.ACCEPT, S.RECONCILED_SUCCESS),
    "RB-no-op-allowed": Walk(_already_so, A.RECORD_NO_OP, S.RECONCILED_SUCCESS),
    "RB-failed-before-effect": Walk(_plain(require={"never": "false"}), A.FAIL, S.FAILED, calls=0),
    "RB-no-op-late": Walk(_done_nothing(_refused), A.KEEP_UNKNOWN, S.UNKNOWN),
    "RB-no-op-elsewhere": Walk(_done_nothing(_hangs, late_window="5s"), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "RB-missing-late": Walk(_not_there(), A.KEEP_UNKNOWN, S.UNKNOWN),
    "RB-missing-elsewhere": Walk(
        _not_there({"status": "ok"}, late_window="5s"), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED
    ),
    "RB-mismatch-resend": Walk(_sent_again, A.DISPATCH_AGAIN, S.RECONCILED_SUCCESS, calls=2),
    "RB-refuted-retry": Walk(_tried_again, A.RETRY_SAME_KEY, S.RECONCILED_SUCCESS, calls=2),
    "RB-refuted": Walk(_done_nothing(_nothing, find=True, late_window="5s"), A.FAIL, S.FAILED),
    "RB-value-late": Walk(_queued, A.KEEP_UNKNOWN, S.UNKNOWN),
    "RB-value-reverse": Walk(_lost_and_wrong(), A.COMPENSATE_OR_ROLL_BACK, S.COMPENSATED),
    "RB-value-hold": Walk(_lost_and_wrong(compensate=None), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "RB-drift": Walk(_drifted, A.HOLD_AND_ESCALATE, S.RECONCILED_SUCCESS, drifts=True),
    "RB-required-reverse": Walk(_cancelled(), A.BACKWARD_COMPENSATION, S.COMPENSATED),
    "RB-required-hold": Walk(
        _cancelled(execute={"timeout": "1s", "reversible": False}), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED
    ),
    "RB-propagation-in-window": Walk(_held, A.RETRY_VERIFICATION, S.RECONCILED_SUCCESS),
    "RB-unknown-in-window": Walk(_contradicted, A.RETRY_VERIFICATION, S.RECONCILED_SUCCESS),
    "RB-unknown-record": Walk(_whose(lookup=True), A.POLL_IDEMPOTENCY_RECORD, S.UNKNOWN),
    "RB-unknown-high": Walk(_whose(**HIGH), A.HOLD_AND_ESCALATE, S.REVIEW_REQUIRED),
    "RB-unknown": Walk(_whose(), A.KEEP_UNKNOWN, S.UNKNOWN),
    "RB-verifier-before": Walk(_other_record_before, A.FAIL_CLOSED, S.FAILED, calls=0),
    "RB-verifier-in-window": Walk(_no_reading(until_s=5), A.RETRY_VERIFICATION, S.RECONCILED_SUCCESS),
    "RB-verifier-repeated": Walk(_other_record_after, A.REVIEW_AND_INCIDENT, S.REVIEW_REQUIRED, incident=True),
    "RB-verifier": Walk(_no_reading(), A.KEEP_UNKNOWN, S.UNKNOWN),
}
"""How the engine comes to each row that it can come to."""

WAITING: Final[dict[str, str]] = {}
"""Rows whose stage is still to be built; empty when all of them are."""

_REFUTED = "a refuted state is read strongly and after the window: it is never looked at again within it"
GUARDS: Final[dict[str, str]] = {
    "RB-mismatch-dead": "what is dead, unseen and searched for is found to be refuted and dead",
    "RB-no-op-failed": "the same, where the tool claimed nothing",
    "RB-pending-in-window": "an execution is called timed out at the deadline, when the window is over",
    "RB-no-op-in-window": _REFUTED,
    "RB-no-op-stale": _REFUTED,
    "RB-no-op-resend": "within the window, which ends with the deadline, it is a mismatch still",
    "RB-missing-resend": "within the window, which ends with the deadline, it is a mismatch still",
    "RB-missing": "what was searched for in vain is refuted and dead",
    "RB-missing-in-window": _REFUTED,
    "RB-missing-stale": _REFUTED,
    "RB-value-in-window": _REFUTED,
    "RB-value-stale": _REFUTED,
    "RB-refuted-stale": _REFUTED,
    "RB-missing-shown": "what a reading shows is not missing",
    "RB-refuted-late": "it is refuted and dead because nothing can follow",
    "RB-refuted-effect": "it is refuted and dead because nothing is shown",
    "RB-required-late": "a reversal is required of an effect that a reading shows",
    "RB-required-nothing": "a reversal is required of an effect that a reading shows",
    "RB-propagation-late": "what is settling at the deadline has timed out",
    "RB-unknown-stale": "readings that contradict each other, or that nobody signed, are strong ones",
    "RB-verifier-high": "of high impact the first broken verifier counts as one that keeps failing",
}
"""Rows that close a gap of the table and that no stage comes to, each with the reason."""

__all__ = ["GUARDS", "MEDIUM", "WAITING", "WALKS", "Stage", "Walk", "Watched"]
