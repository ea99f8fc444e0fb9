"""Attribution: the author of a state, and the knowledge about our effect. "Unknown" is a valid answer.

Called by reconciliation and recovery. Pure; reconciliation decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from readback.domain.contract.contract import Contract
from readback.domain.kind import Kind
from readback.domain.predicate import Truth, conjoin
from readback.domain.verdict import Attribution
from readback.domain.verification.change import changed
from readback.domain.verification.observation import Observation, ObservationStatus
from readback.domain.verification.reading import Lookup, Presence
from readback.domain.verification.reconciliation import Case, EvaluatedReading

_UNKNOWN: Final = Attribution.UNKNOWN
_ERROR: Final = ObservationStatus.ERROR
SERVER_ERROR_FIRST: Final = 500
QUEUED: Final = frozenset({ObservationStatus.ACCEPTED, ObservationStatus.PENDING})
_NOT_DISPATCHED: Final = ObservationStatus.NOT_DISPATCHED


def bears_stamp(case: Case, judged: EvaluatedReading) -> bool:
    return stamp_matches(case.stamp, judged)


def stamp_matches(stamp: str, judged: EvaluatedReading) -> bool:
    """The reading bears this stamp, in its own field or where the contract maps the stamp."""
    mapped = judged.match("stamp")
    return judged.taken.reading.stamp == stamp or (mapped is not None and mapped.truth is Truth.HOLDS)


def is_effect(judged: EvaluatedReading) -> bool:
    return judged.taken.ran and judged.presence is Presence.PRESENT


def attribute(case: Case, judged: EvaluatedReading, *, violated: bool = False) -> Attribution:
    """Return the author of the state in this reading, or UNKNOWN.

    `violated`: the state is not as required. A known effect of ours elsewhere then does not make this state ours.
    """
    before, other = case.before, bears_other_mark(judged)
    if bears_stamp(case, judged):  # a newer object proves freshness, not authorship
        return Attribution.OURS
    same = before if before is not None and before.taken.ran and not has_changed(before, judged) else None
    if effect_known(case) and not (violated and (other or same is not None or _not_this_one(case, judged))):
        return Attribution.OURS
    if same is not None:
        held = bool(same.ensure) and all(e.truth is Truth.HOLDS for e in same.ensure)
        return Attribution.ALREADY_SO if held else _UNKNOWN
    if other:
        return Attribution.OTHER_ACTOR
    actor = judged.match("actor")
    new = before is not None or judged.taken.reading.created_after_dispatch
    if actor is not None and actor.truth is Truth.HOLDS and new:
        return Attribution.OURS
    return _UNKNOWN


def _not_this_one(case: Case, judged: EvaluatedReading) -> bool:
    """Our effect landed, and this reading shows something else. Another actor wrote this state later, or in our
    place.

    Two cases count. The source shows stamps and this state lacks ours, while our effect is as required where the search
    finds it or is known by the key's record alone. Or the object of a delete still exists.
    """
    here = [each for each in case.found or () if is_effect(each) and each.in_scope is Truth.HOLDS]
    if here and not all(each.ensure and conjoin(e.truth for e in each.ensure) is Truth.HOLDS for each in here):
        return False
    stamp = judged.match("stamp")
    return case.contract.kind is Kind.DELETE or (stamp is not None and stamp.truth is Truth.VIOLATED)


def bears_other_mark(judged: EvaluatedReading) -> bool:
    """The last writer left a stamp or a name, and neither is ours."""
    stamp, actor = judged.match("stamp"), judged.match("actor")
    if judged.taken.reading.stamp or (stamp is not None and stamp.actual):
        return True
    return actor is not None and actor.truth is Truth.VIOLATED


def found_otherwise(case: Case, judged: EvaluatedReading) -> bool:
    """The search shows our effect in the intended place, and not as required.

    This reading then proves nothing about our effect, unless it bears our stamp.
    """
    if not case.found or bears_stamp(case, judged):
        return False
    here = [each for each in case.found if is_effect(each) and each.in_scope is Truth.HOLDS and each.ensure]
    truths = [conjoin(e.truth for e in each.ensure) for each in here]
    return Truth.VIOLATED in truths and Truth.HOLDS not in truths


def landed_unseen(case: Case, judged: EvaluatedReading) -> bool:
    """The key's record alone shows our effect, and this reading bears another's mark.

    The other writer made this object, or replaced ours. No evidence decides between the two.
    """
    landed = case.lookup is not None and case.lookup.status == "landed"
    if not landed or found_here(case) or bears_stamp(case, judged):
        return False
    return bears_other_mark(judged)


def may_have_held(case: Case, judged: EvaluatedReading) -> bool:
    """No visible change, and whether all postconditions held before is undetermined."""
    before = case.before
    if before is None or not before.taken.ran or has_changed(before, judged):
        return False
    return bool(before.ensure) and conjoin(e.truth for e in before.ensure) is Truth.UNDETERMINED


def found_here(case: Case) -> bool:
    found = case.found
    return found is not None and any(is_effect(each) and each.in_scope is Truth.HOLDS for each in found)


def effect_known(case: Case) -> bool:
    """The search by stamp, or the record under the key, shows the attempt's effect."""
    return found_here(case) or (case.lookup is not None and case.lookup.status == "landed")


def effects_known(found: tuple[EvaluatedReading, ...] | None, lookup: Lookup | None) -> bool:
    """The search or the key's record shows an effect of ours, in any place."""
    return bool(found and any(map(is_effect, found))) or (lookup is not None and lookup.status == "landed")


def looked_elsewhere(
    observation: Observation,
    found: tuple[EvaluatedReading, ...] | None,
    lookup: Lookup | None,
    *,
    searchable: bool = False,
    proven: bool = False,
    honours_key: bool = False,
) -> bool:
    """Every other possible place was searched without a result, or the tool reports no effect.

    `searchable`: the contract can search. A search without an answer covers nothing, despite the tool's report.
    `proven`: the search is complete and has found an earlier effect by the same mark. An empty answer of any other
    search proves nothing: the tool may leave no mark, or another page may hold the effect. `honours_key`: the request
    was resent until its deadline. A server error then leaves the result open.
    """
    if found and any(map(is_effect, found)):
        return False
    if lookup is not None and lookup.status in ("landed", "failed"):
        return lookup.status == "failed"
    if observation.status is _NOT_DISPATCHED or (found is not None and proven):
        return True
    lost = honours_key and observation.http_status is not None and observation.http_status >= SERVER_ERROR_FIRST
    return observation.status is _ERROR and not lost and (found is not None or not searchable)


def is_on_its_way(case: Case, judged: EvaluatedReading, whose: Attribution) -> bool:
    """The state is on its way to the required state, and the attempt may still be running.

    The answer was accepted or pending and something has changed since, or the contract calls the state intermediate.
    """
    if case.dead or judged.presence is not Presence.PRESENT or whose is Attribution.OTHER_ACTOR:
        return False
    if judged.terminal_failure or judged.refused:
        return False
    if judged.intermediate:
        return True
    before = case.before
    same = before is not None and before.taken.ran and not has_changed(before, judged)
    return case.observation.status in QUEUED and not same


def has_changed(before: EvaluatedReading, after: EvaluatedReading) -> bool:
    if before.taken.reading.presence is not after.taken.reading.presence:
        return True
    if before.version is not None and after.version is not None:
        return bool(before.version != after.version)
    return changed(before.taken.reading.value, after.taken.reading.value)


def unchanged_throughout(
    contract: Contract, before: EvaluatedReading | None, checks: Iterable[EvaluatedReading]
) -> bool:
    """Strong readings from before and after the call agree on the whole region the call may change."""
    whole = contract.whole_readers
    return bool(whole) and any(each.taken.reader in whole and is_unchanged(before, each) for each in checks)


def is_unchanged(before: EvaluatedReading | None, after: EvaluatedReading) -> bool:
    """Two strong, complete readings by one reader, before and after the call, are equal."""
    if before is None or before.taken.reader != after.taken.reader:
        return False
    taken = (before.taken, after.taken)
    if not all(each.ran and each.strong and each.reading.complete for each in taken):
        return False
    told = (Presence.PRESENT, Presence.ABSENT)
    return after.presence in told and not has_changed(before, after)
