"""The oracle: what is true in a played world, what could have been known of it, and what may be told then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from readback.domain.discrepancy import Discrepancy
from readback.domain.kind import Kind
from readback.domain.outcome.outcome import Outcome
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.domain.verdict import Attribution
from readback.testing.world import Effect
from readback.testing.world_answers import Answer
from readback.testing.world_effects import Landing
from tests.truth.stage import INITIAL, ITEM, PATHS, TENANT, WANTED, Cell, Played, Scene

COMPLETION_WORDS: Final = (
    "completed successfully",
    "Verified: the action completed",
    "it is done",
    "go on with the next dependent step",
)


def really(scene: Scene) -> bool:
    """Whether the action truly succeeded, as far as its contract's sources reach: asked of the world, now."""
    cell, world = scene.cell, scene.world
    if scene.operation is None:
        return False
    effects = world.effects(scene.operation.stamp)
    record = world.record(scene.operation.place)
    wanted = WANTED[cell.kind]
    match cell.kind:
        case Kind.SET:
            held = record is not None and all(record.fields.get(k) == v for k, v in wanted.items())
            framed = record is not None and record.fields.get("note") == "-"
            return held and framed
        case Kind.DELETE:
            return record is None and INITIAL[Kind.DELETE] is not None
        case _:
            right = [e for e in effects if _right(cell, e)]
            alone = len(effects) == 1 if cell.offers.find else True
            return bool(right) and alone and _still_there(scene)


def _right(cell: Cell, effect: Effect) -> bool:
    at = effect.place
    here = at.tenant == TENANT and (at.id == ITEM or (cell.kind is Kind.SEND and at.id.startswith(f"{ITEM}#")))
    if cell.kind is Kind.APPEND:
        lines = effect.fields.get("lines")
        return here and isinstance(lines, list) and lines[-1]["text"] == WANTED[cell.kind]["text"]  # type: ignore[index,call-overload]
    return here and all(effect.fields.get(k) == v for k, v in WANTED[cell.kind].items())


def _still_there(scene: Scene) -> bool:
    assert scene.operation is not None
    place, stamp = scene.operation.place, scene.operation.stamp
    record = scene.world.record(place)
    match scene.cell.kind:
        case Kind.SEND:
            return bool(scene.world.stamped(stamp, TENANT))
        case Kind.CREATE:
            wanted = WANTED[Kind.CREATE]
            return record is not None and all(record.fields.get(k) == v for k, v in wanted.items())
        case Kind.ADJUST:
            return record is not None and record.fields.get("balance") == 107
        case _:
            lines = record.fields.get("lines") if record is not None else None
            return isinstance(lines, list) and any(line["stamp"] == stamp for line in lines)  # type: ignore[index,call-overload]


NO_EFFECT: Final = (Discrepancy.NO_OP_FAILURE, Discrepancy.TARGET_MISSING)
_TRUE_LANDINGS: Final = frozenset({Landing.ONCE, Landing.LATE})
_IDEMPOTENT: Final = frozenset({Landing.TWICE, Landing.DUPLICATED_AT_CLOSE})


def knowable(cell: Cell) -> bool:
    """True and freshly readable before the deadline: then it has to be told, whatever the tool answered."""
    if cell.answer is Answer.REFUSED or not cell.path.sighted:
        return False
    if cell.path.name == "session" and cell.kind is Kind.DELETE:
        return False  # absence needs a strong reading
    if cell.kind is Kind.SET:
        landed = cell.landing in _TRUE_LANDINGS | _IDEMPOTENT | {Landing.ALREADY_SO, Landing.BY_OTHER, Landing.STRAYED}
        evident = cell.landing is not Landing.ALREADY_SO or not (cell.path.name == "session" or _did_nothing(cell))
        return landed and evident
    if cell.kind is Kind.DELETE:
        return cell.landing in _TRUE_LANDINGS | _IDEMPOTENT | {Landing.BY_OTHER}
    shown = cell.offers.stamps or cell.offers.find or cell.offers.lookup
    if cell.path.name == "session" and not cell.offers.stamps:
        return False  # nothing shows that the reading is later than the action
    return cell.landing in _TRUE_LANDINGS and shown


def _did_nothing(cell: Cell) -> bool:
    """The text of an error over a state that was so before: the call changed nothing, which is no success."""
    return cell.answer is Answer.FLATTERING_ERROR and cell.landing is Landing.ALREADY_SO


_SURE: Final = frozenset(path.name for path in PATHS if path.sighted and path.name != "session")


def named(cell: Cell) -> Discrepancy | None:
    """The class that has to be named, where everything that shows it can be read."""
    if cell.answer is Answer.REFUSED or cell.path.name not in _SURE:
        return None
    match cell.landing:
        case Landing.WRONG_TARGET | Landing.WRONG_TENANT if cell.offers.find:
            return Discrepancy.WRONG_TARGET_MODIFIED
        case Landing.STRAYED if cell.offers.find and cell.kind.needs_ours:
            return Discrepancy.WRONG_TARGET_MODIFIED
        case Landing.TWICE if cell.offers.find and cell.kind in (Kind.ADJUST, Kind.APPEND, Kind.SEND):
            return Discrepancy.DUPLICATE_SIDE_EFFECT
        case Landing.PARTIAL if cell.kind is Kind.SET and cell.offers.stamps:
            return Discrepancy.PARTIAL_APPLICATION
        case Landing.WRONG_VALUE if cell.kind in (Kind.SET, Kind.CREATE):
            return Discrepancy.VALUE_MISMATCH
        case Landing.OVERWRITTEN if cell.kind is Kind.SET:
            return Discrepancy.STALE_STATE
        case _:
            return None


def faults(played: Played, outcome: Outcome) -> Iterator[str]:
    """Everything that is wrong with what was told. Nothing, in a sound house."""
    scene, cell = played.scene, played.scene.cell
    yield from _false_success(scene, outcome)
    if knowable(cell) and not outcome.verified:
        yield f"it was true and readable, and was told as {outcome.state.value} ({outcome.why.value})"
    if _did_nothing(cell) and outcome.verified:
        yield "the tool told of an error and changed nothing, and it was told as done"
    due = named(cell)
    if due is not None and outcome.discrepancy is not due and not scene.reversals:
        yield f"it is {due.value}, and was called {outcome.discrepancy.value if outcome.discrepancy else 'nothing'}"
    if len(scene.calls) > 1 and not cell.offers.honours_key:
        yield f"the tool was called {len(scene.calls)} times"
    yield from _false_repeat(scene, outcome)
    yield from _false_words(outcome)
    if cell.answer is Answer.REFUSED and (outcome.state is not State.FAILED or not outcome.may_repeat):
        yield f"it was provably never sent, and ended as {outcome.state.value}"
    if not cell.offers.find and cell.answer is Answer.OK and not cell.offers.final:
        if outcome.may_repeat:
            yield "the tool claims an effect, nobody could look elsewhere, and repeating is allowed"
        if outcome.state is State.FAILED and outcome.discrepancy in NO_EFFECT:
            yield "the tool claims an effect, nobody could look elsewhere, and it is told as failed"
    if outcome.state is State.COMPENSATED and any(_there(scene)):
        yield "it is told as compensated, and its effect is still there"
    recorded = played.again()
    if _differs(outcome, recorded):
        yield f"the ledger tells it otherwise: {recorded.state.value}, {recorded.verdict.value}"


def _false_success(scene: Scene, outcome: Outcome) -> Iterator[str]:
    if not outcome.verified:
        return
    if not really(scene):
        yield "it was told as done, and is not"
    ours = scene.operation is not None and bool(scene.world.effects(scene.operation.stamp))
    if scene.cell.kind.needs_ours and (outcome.attribution is not Attribution.OURS or not ours):
        yield f"it was told as done by us, and is {outcome.attribution.value}"
    if outcome.attribution is Attribution.OURS and not ours:
        yield "it was attributed to us, and is not ours"


def _false_repeat(scene: Scene, outcome: Outcome) -> Iterator[str]:
    if not outcome.may_repeat or scene.operation is None:
        return
    if scene.world.coming(scene.operation.stamp):
        yield "repeating is allowed, and the effect is still to land"
    elsewhere = scene.cell.landing in (Landing.WRONG_TARGET, Landing.WRONG_TENANT)
    unseen = elsewhere and not scene.cell.offers.find and not scene.cell.offers.lookup
    if scene.world.effects(scene.operation.stamp) and not unseen:
        yield "repeating is allowed, and there is an effect"


def _there(scene: Scene) -> Iterator[object]:
    assert scene.operation is not None
    yield from scene.world.stamped(scene.operation.stamp)


def _false_words(outcome: Outcome) -> Iterator[str]:
    if outcome.verified:
        return
    for text in (outcome.message, outcome.for_model()):
        yield from (f"it says {words!r} of what is not verified" for words in COMPLETION_WORDS if words in text)


def _differs(outcome: Outcome, recorded: Outcome) -> bool:
    return replace(recorded, replayed=False) != replace(outcome, replayed=False)


HIGH: Final = (SideEffect.HIGH_RISK_EXTERNAL, SideEffect.CRITICAL_MUTATION)
