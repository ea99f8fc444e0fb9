"""Verification: taking readings, and evaluating them. It can yield looks alone, never a dispatch.

Called by the engine after every dispatched attempt, and before one for the reading `before`. What a reader raises or
returns wrongly becomes a fault of that reading; nothing here turns a fault into absence.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Final

from readback.canon import Json, ReadbackError
from readback.canon.limits import INTEGER_SAFE_MAX
from readback.domain.contract.contract import Contract, ReaderTerms
from readback.domain.events import EventKind
from readback.domain.idempotency import Resolution
from readback.domain.predicate import Truth
from readback.domain.side_effect import Consistency
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.attribution import has_changed, is_effect, stamp_matches
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.observation_signs import one_line
from readback.domain.verification.open_class import seen_weakly
from readback.domain.verification.reading import Fault, Presence, Reading, Role, TakenReading
from readback.domain.verification.reconcile import reconcile
from readback.domain.verification.reconciliation import Case, Judged, Reconciliation
from readback.engine.effects import Called, CallReader, Effect, EffectResult, Ending, ReadKind
from readback.engine.run import Run
from readback.engine.schedule import Timing
from readback.engine.stages.evaluate import as_json, identify_reading, judge_reading
from readback.engine.values.reader_results import ERROR_TEXT_MAX, fits, lookup_of, reading_of, text_of
from readback.errors import SandboxEscapeError, SettingsError, UsageError

_BEFORE: Final = Role.BEFORE
_CHECK: Final = Role.CHECK
_STRONG: Final = Consistency.STRONG
_READER: Final = ReadKind.READER
_NO_FAULT: Final = Fault.NONE
_IMPOSSIBLE: Final = (SandboxEscapeError, SettingsError, UsageError)
_UNAVAILABLE: Final = Presence.UNAVAILABLE
_PRESENT: Final = Presence.PRESENT
_RETURNED: Final = Ending.RETURNED
_RAISED: Final = Ending.RAISED
_VERIFIED: Final = Verdict.VERIFIED
_FAILED: Final = State.FAILED
_ATTESTED_NOT_DONE: Final = Resolution.ATTESTED_NOT_DONE
_VIOLATED: Final = Truth.VIOLATED
_STILL_OUT: Final = frozenset(
    {
        ObservationStatus.TIMEOUT,
        ObservationStatus.CANCELLED,
        ObservationStatus.NONE,
        ObservationStatus.ACCEPTED,
        ObservationStatus.PENDING,
    }
)
"""Ends of an attempt that leave open whether something of ours is still running."""
_READ: Final = EventKind.READ

Steps = Generator[Effect, EffectResult, None]
FOUND_MAX = 64
_NOTHING = Reading(Presence.UNAVAILABLE)
UNREACHABLE_ERRORS = (ConnectionError, OSError)


def take_before(run: Run) -> Generator[Effect, EffectResult, Judged]:
    """The reading before execution, as strong as it can be had: it is what change will be measured against.

    What held in it is judged when that is asked for; see `_compared`.
    """
    taken = yield from _read(run, strongest(run.contract), _BEFORE)
    run.before_variables = run.variables()
    return identify_reading(run.plan, taken, run.before_variables)


def take_checks(run: Run, *, closing: bool) -> Steps:
    """Readings after the action: as few as can decide. `closing`: the last of the window, so the strongest."""
    checks: tuple[Judged, ...] = ()
    order, run.missed = _order(run, closing), ()
    if run.contract.quorum > 1:
        for index in order:
            checks = (*checks, (yield from _check(run, index)))
        run.checks = checks
        return
    for index in order:
        judged = yield from _check(run, index)
        if judged.taken.ran:
            run.checks, run.missed = (judged,), checks
            return
        checks = (*checks, judged)
    run.checks, run.missed = checks[:1], checks[1:]  # none ran: the first one's fault is the one to tell


def take_strongest(run: Run) -> Steps:
    """One reading by the strongest path, asked to go past caches. The weaker one is kept beside it."""
    run.missed = (*run.missed, *run.checks)
    run.checks = ((yield from _check(run, strongest(run.contract))),)


def _check(run: Run, index: int) -> Generator[Effect, EffectResult, Judged]:
    taken = yield from _read(run, index, _CHECK)
    return judge_reading(run.plan, taken, run.variables(), run.taken_before)


def _order(run: Run, closing: bool) -> list[int]:
    readers, order = run.contract.readers, independent(run.contract)
    if (closing or run.action.context.get("region") == "pivot") and run.contract.quorum <= 1:
        return sorted(order, key=lambda i: -readers[i].consistency.rank)
    return order


def independent(contract: Contract) -> list[int]:
    """Indexes of the readers whose path is far enough from the action's for the class: no other can verify anything."""
    if len(contract.readers) == 1:
        return [0]  # as most have it
    minimum = contract.depth.minimum_independence.rank
    far = [i for i, terms in enumerate(contract.readers) if terms.independence.rank >= minimum]
    return far or list(range(len(contract.readers)))


def strongest(contract: Contract) -> int:
    """Index of the reader with the strongest consistency among those that may count, the first of equals."""
    if len(contract.readers) == 1:
        return 0
    return max(independent(contract), key=lambda i: (contract.readers[i].consistency.rank, -i))


def _read(run: Run, index: int, role: Role) -> Generator[Effect, EffectResult, TakenReading]:
    terms = run.contract.readers[index]
    strong = terms.consistency is _STRONG or role is _BEFORE
    context = run.call_context(strong)
    if role is _BEFORE and context.before is not None:
        context = replace(context, before=None)  # taken again, as after an approval: what is told is of before the call
    take = CallReader(run.plan, _READER, index, context, run.given, terms.timeout_us)
    called = yield take
    assert isinstance(called, Called)
    run.passed(called.finished_us)
    return _taken(terms, role, called)


def _taken(terms: ReaderTerms, role: Role, called: Called) -> TakenReading:
    fault, error, reading = _NO_FAULT, "", _NOTHING
    if called.ending is _RETURNED:
        plain, why = reading_of(called.value)
        if plain is None:
            fault, error = Fault.VERIFIER_ERROR, f"Reader {terms.name!r} {why}."
        else:
            reading, error = plain, plain.detail
            fault = Fault.UNREACHABLE if reading.presence is _UNAVAILABLE else _NO_FAULT
    elif called.ending is _RAISED:
        fault = _fault_of(called.error)
        error = describe_error(called.error)
    else:  # given up, cancelled, or not made
        fault, error = Fault.TIMEOUT, f"Reader {terms.name!r} gave no answer in time."
    consistency = reading.consistency or terms.consistency
    if consistency.rank > terms.consistency.rank:
        consistency = terms.consistency  # a reading may lower what its reader declared, never raise it
    return TakenReading(
        role,
        terms.name,
        terms.source,
        consistency,
        terms.independence,
        reading,
        called.started_us,
        called.finished_us,
        fault,
        error,
    )


def _fault_of(error: BaseException | None) -> Fault:
    if isinstance(error, UNREACHABLE_ERRORS):
        return Fault.UNREACHABLE
    return Fault.IMPOSSIBLE if isinstance(error, _IMPOSSIBLE) else Fault.VERIFIER_ERROR


def taken_of(run: Run, role: Role, called: Called) -> TakenReading:
    """A reading that came by none of the contract's readers: from inside a transaction that is still open."""
    minimum = run.contract.depth.minimum_independence
    terms = ReaderTerms("staged", "open transaction", _STRONG, minimum, called.finished_us)
    return _taken(terms, role, called)


def describe_error(error: BaseException | None) -> str:
    """One bounded line of what was raised; its code first where it has one."""
    if error is None:
        return ""
    name = error.code if isinstance(error, ReadbackError) else type(error).__name__
    return one_line(f"{name}: {text_of(error)}", ERROR_TEXT_MAX)


# --- searching, and the record under the key ---


def search(run: Run) -> Steps:
    """Every effect with our stamp. A search that fails leaves `found` as None: nobody looked."""
    run.found, run.search_proven, run.search_failed = None, False, ""
    find = run.plan.hands.find
    if find is None:
        return
    terms = run.contract.find_terms or next(iter(run.contract.readers), None)
    budget = terms.timeout_us if terms else run.contract.execution.timeout_us
    called = yield CallReader(run.plan, ReadKind.FIND, 0, run.call_context(strong=True), run.given, budget)
    assert isinstance(called, Called)
    run.passed(called.finished_us)
    readings = _listed(called)
    if readings is None:
        run.search_failed = f"{find.name!r} {_why_none(called)}"
        return
    judged = []
    for reading in readings:
        taken = TakenReading(
            Role.FIND,
            find.name,
            terms.source if terms else find.name,
            reading.consistency or _STRONG,
            terms.independence if terms else run.contract.depth.minimum_independence,
            reading,
            called.started_us,
            called.finished_us,
        )
        judged.append(judge_reading(run.plan, taken, run.variables(), run.taken_before))
    if any(_anothers(run, each) for each in judged):
        run.search_failed = f"{find.name!r} lists what does not bear the stamp of this action."
        return  # it lists what does not bear our stamp: what it shows, and what it does not show, says nothing of ours
    run.found = tuple(judged)
    complete = run.contract.find_complete and all(each.taken.reading.complete for each in judged)
    sighted = any(is_effect(each) and stamp_matches(run.action.stamp, each) for each in judged)
    subject, name = sighting(run.contract)
    run.search_proven = complete and run.counts.get((subject, name), 0) > 0
    if sighted and not run.counts.get((subject, name)):
        run.count(subject, name, 1)  # from here on an empty answer of this search says something
    presence = _PRESENT if judged else Presence.ABSENT
    seen = TakenReading(
        Role.FIND,
        find.name,
        terms.source if terms else find.name,
        _STRONG,
        terms.independence if terms else run.contract.depth.minimum_independence,
        Reading(presence, stamp=run.action.stamp, complete=complete, forms=readings[0].forms if readings else ()),
        called.started_us,
        called.finished_us,
    )
    ref = run.keep("authoritative", [as_json(j.taken.reading.value) for j in judged])
    each: list[Json] = [[j.presence._value_, j.taken.reading.stamp == run.action.stamp] for j in judged]
    data = {**_provenance(seen, withheld=False), "count": len(judged), "each": each}
    if sighted:
        data["sighted"] = True
    run.record(_READ, called.finished_us, (), data, {"reading": ref})


def sighting(contract: Contract) -> tuple[str, str]:
    """The counter of effects that the search of this very contract has found by the stamp: once is enough.

    By the contract's hash, since another version may have another tool, another search or another mark.
    """
    return f"contract:{contract.name}", f"sighted:{contract.hash[:16]}"


def _anothers(run: Run, judged: Judged) -> bool:
    """It names a stamp, and not ours."""
    said, mapped = judged.taken.reading.stamp, judged.match("stamp")
    return (bool(said) and said != run.action.stamp) or (
        mapped is not None and (mapped.truth is _VIOLATED or mapped.by_form)
    )


def _listed(called: Called) -> tuple[Reading, ...] | None:
    """What a search found; None where that is no list of readings, or more than can be kept."""
    values = called.value
    if called.ending is not Ending.RETURNED or type(values) not in (list, tuple):
        return None
    assert isinstance(values, list | tuple)
    if len(values) > FOUND_MAX:
        return None
    readings = tuple(plain for plain, _ in map(reading_of, values) if plain is not None)
    return readings if len(readings) == len(values) and fits([r.value for r in readings]) else None


def _why_none(called: Called) -> str:
    """Why a search brought nothing that can be judged."""
    if called.ending is _RAISED:
        return f"raised {describe_error(called.error)}"
    if called.ending is not _RETURNED:
        return "gave no answer in time."
    if isinstance(called.value, list | tuple) and len(called.value) > FOUND_MAX:
        return f"found more than {FOUND_MAX}."
    return "answered with something that is no list of readings."


def look_up(run: Run) -> Steps:
    """What became of the attempt with our key. An answer that is not a Lookup is no answer."""
    if run.plan.hands.lookup is None:
        return
    terms = run.contract.lookup_terms or next(iter(run.contract.readers), None)
    timeout = terms.timeout_us if terms else run.contract.execution.timeout_us
    called = yield CallReader(run.plan, ReadKind.LOOKUP, 0, run.call_context(strong=True), run.given, timeout)
    assert isinstance(called, Called)
    run.passed(called.finished_us)
    said = lookup_of(called.value) if called.ending is Ending.RETURNED else None
    if said is not None:
        run.lookup = said
        if said.status != run.action.lookup:
            data: dict[str, Json] = {"status": said.status, "detail": said.detail}
            if run.contract.lookup_terms is not None:
                told = run.contract.lookup_terms
                data |= {"source": told.source, "independence": told.independence._value_}
            run.record(EventKind.LOOKED_UP, called.finished_us, (), data)


# --- judging ---


def judge(run: Run, timing: Timing, now_us: int, *, dead: bool) -> Reconciliation:
    """The case as it stands, reconciled."""
    contract, action = run.contract, run.action
    assert run.observation is not None
    # Of what was told as not done it is asked whether it landed, and not whether it stays so and single.
    told = action.state is _FAILED or action.attested is _ATTESTED_NOT_DONE
    held, stable = action.held_since_us, told or contract.stable_for_us == 0
    if held > 0 and not stable:
        stable = run.read_from(now_us) >= held + contract.stable_for_us
    result = reconcile(
        Case(
            contract,
            action.stamp,
            run.observation,
            run.checks,
            _compared(run),
            run.found,
            run.search_proven,
            run.lookup,
            window_closed=now_us >= timing.close_us,
            stable=stable,
            dead=dead,
            seen=action.seen,
            look_due=not told and look_due(run, timing),
            search_failed=run.search_failed,
        )
    )
    return seen_weakly(action.stamp, result, run.missed) if run.missed else result


def _compared(run: Run) -> Judged | None:
    """The reading before. What held in it matters only beside a reading that shows the same: most show a change, and
    then a third of all evaluations need not be made.
    """
    if run.before is not None and run.before_variables is not None:
        if not all(map(partial(has_changed, run.before), run.checks)):
            run.before = judge_reading(run.plan, run.before.taken, run.before_variables)
            run.before_variables = None
    return run.before


def look_due(run: Run, timing: Timing) -> bool:
    """A search for duplicates has still to be made before success may be told."""
    contract = run.contract
    if not contract.has_find or not contract.kind.counts_effects:
        return False
    looked = run.action.looked_us if run.found is not None else 0
    needed = timing.close_us if contract.depth.find_at_close else run.action.ended_us
    return looked < needed or looked == 0


def wants_lookup(run: Run, result: Reconciliation) -> bool:
    """Asking for the record under the key may settle what the reading left open."""
    if not run.contract.has_lookup or result.verdict is _VERIFIED:
        return False
    return run.lookup is None or run.lookup.status in ("pending", "unknown_key")


def is_dead(run: Run, timing: Timing, read_from_us: int) -> bool:
    """The attempt can have no effect any more, by one of the three ways that prove it. Of one that a restored ledger
    may not know, only a look-up by the key can say so.
    """
    if run.action.restored:
        return run.lookup is not None and run.lookup.status == "failed"
    if run.observation is not None and not run.observation.dispatched and not run.action.left_before:
        return True
    if run.lookup is not None and run.lookup.status == "failed":
        return True
    return timing.late_until_us is not None and read_from_us >= timing.late_until_us


def ended_by_itself(run: Run) -> bool:
    """The tool answered or raised, and so did what it left open: nothing is said to be on its way."""
    if run.action.commit_open:
        return False
    return run.observation is not None and run.observation.status not in _STILL_OUT


def record_reading(run: Run, judged: Judged) -> None:
    """The reading becomes a ledger entry; its content evidence, unless it is of somebody else's object."""
    taken = judged.taken
    reading = taken.reading
    foreign = judged.in_scope is _VIOLATED or judged.maybe_foreign
    content: Json = None if foreign else reading.value
    root = "before" if taken.role is _BEFORE else "authoritative"
    ref = {"reading": run.keep(root, content)} if reading.presence is _PRESENT and not foreign else {}
    run.record(_READ, taken.finished_us, (), _provenance(taken, withheld=foreign), ref)


def _provenance(taken: TakenReading, *, withheld: bool) -> dict[str, Json]:
    """Where a reading came from and what it said of itself; not what it found."""
    reading = taken.reading
    version = reading.version
    wide = type(version) is int and abs(version) > INTEGER_SAFE_MAX
    said: dict[str, Json] = {
        "role": taken.role._value_,
        "reader": taken.reader,
        "source": taken.source,
        "consistency": taken.consistency._value_,
        "independence": taken.independence._value_,
        "presence": reading.presence._value_,
        "complete": reading.complete,
        "token": reading.commit_token_honoured,
        "newer": reading.created_after_dispatch,
        "source_version": str(version) if wide else version,
        "source_as_of": reading.as_of_us,
        "stamp": reading.stamp,
        "author": reading.author,
        "started": taken.started_us,
        "finished": taken.finished_us,
        "fault": taken.fault._value_,
        "error": taken.error[:ERROR_TEXT_MAX],
        "withheld": withheld,
    }
    if reading.forms:
        said["forms"] = {field: [form.value for form in forms] for field, forms in reading.forms}
    if wide:
        said["wide"] = True  # an integer, which an entry cannot hold as one
    return said


def withheld(judged: Judged) -> Judged:
    """A reading of somebody else's object, without its content."""
    return replace(judged, taken=replace(judged.taken, reading=replace(judged.taken.reading, value=None)))
