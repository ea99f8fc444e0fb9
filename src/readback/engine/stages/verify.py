"""Verify: take readings and evaluate them. This stage yields reads alone, never a dispatch.

Called by the engine after every dispatched attempt, and before an attempt for the reading `before`. A reader's error or
malformed result becomes a fault of the reading; a fault never counts as absence.
"""

from __future__ import annotations

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
from readback.domain.verification.reconciliation import Case, EvaluatedReading, Reconciliation
from readback.engine.effects import Called, CallReader, Effects, Ending, ReadKind
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
"""Ends of an attempt with work possibly still running."""
_READ: Final = EventKind.READ

Steps = Effects[None]
FOUND_MAX = 64
_NOTHING = Reading(Presence.UNAVAILABLE)
UNREACHABLE_ERRORS = (ConnectionError, OSError)


def take_before(run: Run) -> Effects[EvaluatedReading]:
    """Take the strongest available reading before execution, the base for measuring change.

    Its postconditions are evaluated on demand; see `_compared`.
    """
    taken = yield from _read(run, strongest(run.contract), _BEFORE)
    run.before_variables = run.variables()
    return identify_reading(run.plan, taken, run.before_variables)


def take_checks(run: Run, *, closing: bool) -> Steps:
    """Take readings after the action, as few as can decide. `closing`: the last of the window, so the strongest."""
    checks: tuple[EvaluatedReading, ...] = ()
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
    run.checks, run.missed = checks[:1], checks[1:]  # none ran: report the first reader's fault


def take_strongest(run: Run) -> Steps:
    """Take one reading by the strongest path, past caches. The weaker reading is kept beside it."""
    run.missed = (*run.missed, *run.checks)
    run.checks = ((yield from _check(run, strongest(run.contract))),)


def _check(run: Run, index: int) -> Effects[EvaluatedReading]:
    taken = yield from _read(run, index, _CHECK)
    return judge_reading(run.plan, taken, run.variables(), run.taken_before)


def _order(run: Run, closing: bool) -> list[int]:
    readers, order = run.contract.readers, independent(run.contract)
    if (closing or run.action.context.get("region") == "pivot") and run.contract.quorum <= 1:
        return sorted(order, key=lambda i: -readers[i].consistency.rank)
    return order


def independent(contract: Contract) -> list[int]:
    """Indexes of the readers with enough independence for the action's class. No other reader can verify."""
    if len(contract.readers) == 1:
        return [0]  # the usual case
    minimum = contract.depth.minimum_independence.rank
    far = [i for i, terms in enumerate(contract.readers) if terms.independence.rank >= minimum]
    return far or list(range(len(contract.readers)))


def strongest(contract: Contract) -> int:
    """Index of the reader with the strongest consistency among the independent readers, the first of equals."""
    if len(contract.readers) == 1:
        return 0
    return max(independent(contract), key=lambda i: (contract.readers[i].consistency.rank, -i))


def _read(run: Run, index: int, role: Role) -> Effects[TakenReading]:
    terms = run.contract.readers[index]
    strong = terms.consistency is _STRONG or role is _BEFORE
    context = run.call_context(strong)
    if role is _BEFORE and context.before is not None:
        context = replace(context, before=None)  # taken again after an approval: the reader gets no older state
    take = CallReader(run.plan, _READER, index, context, run.given, terms.timeout_us)
    called = yield from take
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
    else:  # timed out, cancelled, or not called
        fault, error = Fault.TIMEOUT, f"Reader {terms.name!r} gave no answer in time."
    consistency = reading.consistency or terms.consistency
    if consistency.rank > terms.consistency.rank:
        consistency = terms.consistency  # a reading may lower the declared consistency, never raise it
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
    """A reading from inside an open transaction, by none of the contract's readers."""
    minimum = run.contract.depth.minimum_independence
    terms = ReaderTerms("staged", "open transaction", _STRONG, minimum, called.finished_us)
    return _taken(terms, role, called)


def describe_error(error: BaseException | None) -> str:
    """One bounded line for an error, with its code first if available."""
    if error is None:
        return ""
    name = error.code if isinstance(error, ReadbackError) else type(error).__name__
    return one_line(f"{name}: {text_of(error)}", ERROR_TEXT_MAX)


# --- search, and look-up by key ---


def search(run: Run) -> Steps:
    """Find every effect with this action's stamp. A failed search leaves `found` as None: there is no result."""
    run.found, run.search_proven, run.search_failed = None, False, ""
    find = run.plan.hands.find
    if find is None:
        return
    terms = run.contract.find_terms or next(iter(run.contract.readers), None)
    budget = terms.timeout_us if terms else run.contract.execution.timeout_us
    called = yield from CallReader(run.plan, ReadKind.FIND, 0, run.call_context(strong=True), run.given, budget)
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
        return  # a search with foreign effects is no evidence about this action, neither by a hit nor by a miss
    run.found = tuple(judged)
    complete = run.contract.find_complete and all(each.taken.reading.complete for each in judged)
    sighted = any(is_effect(each) and stamp_matches(run.action.stamp, each) for each in judged)
    subject, name = sighting(run.contract)
    run.search_proven = complete and run.counts.get((subject, name), 0) > 0
    if sighted and not run.counts.get((subject, name)):
        run.count(subject, name, 1)  # from now on an empty result of this search is evidence
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
    """The counter of effects found by the stamp with this very contract's search. Once is enough.

    The counter belongs to the contract's hash, since another version may use another tool, search or mark.
    """
    return f"contract:{contract.name}", f"sighted:{contract.hash[:16]}"


def _anothers(run: Run, judged: EvaluatedReading) -> bool:
    """The reading names a stamp, and not this action's."""
    said, mapped = judged.taken.reading.stamp, judged.match("stamp")
    return (bool(said) and said != run.action.stamp) or (
        mapped is not None and (mapped.truth is _VIOLATED or mapped.by_form)
    )


def _listed(called: Called) -> tuple[Reading, ...] | None:
    """The results of a search; None for anything but a list of readings, or for too many."""
    values = called.value
    if called.ending is not Ending.RETURNED or type(values) not in (list, tuple):
        return None
    assert isinstance(values, list | tuple)
    if len(values) > FOUND_MAX:
        return None
    readings = tuple(plain for plain, _ in map(reading_of, values) if plain is not None)
    return readings if len(readings) == len(values) and fits([r.value for r in readings]) else None


def _why_none(called: Called) -> str:
    """Why a search gave no usable result."""
    if called.ending is _RAISED:
        return f"raised {describe_error(called.error)}"
    if called.ending is not _RETURNED:
        return "gave no answer in time."
    if isinstance(called.value, list | tuple) and len(called.value) > FOUND_MAX:
        return f"found more than {FOUND_MAX}."
    return "answered with something that is no list of readings."


def look_up(run: Run) -> Steps:
    """Look up the attempt's result by key. Only a Lookup counts as an answer."""
    if run.plan.hands.lookup is None:
        return
    terms = run.contract.lookup_terms or next(iter(run.contract.readers), None)
    timeout = terms.timeout_us if terms else run.contract.execution.timeout_us
    called = yield from CallReader(run.plan, ReadKind.LOOKUP, 0, run.call_context(strong=True), run.given, timeout)
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
    """Reconcile the current case."""
    contract, action = run.contract, run.action
    assert run.observation is not None
    # A reported failure, or an attested "not done": the only question is whether an effect landed after all. Neither
    # the stability period nor a search for duplicates delays that answer.
    told = action.state is _FAILED or action.attested is _ATTESTED_NOT_DONE
    held, stable = action.held_since_us, told or contract.stable_for_us == 0
    # The state held before: stable once this round began a full stability period later.
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
    # A reading of this round was replaced by a stronger one. If the weaker one showed the stamp, an effect exists.
    return seen_weakly(action.stamp, result, run.missed) if run.missed else result


def _compared(run: Run) -> EvaluatedReading | None:
    """The reading before. Its postconditions matter only beside a reading with the same content. Most readings show a
    change, and this saves a third of all evaluations.
    """
    if run.before is not None and run.before_variables is not None:
        if not all(map(partial(has_changed, run.before), run.checks)):
            run.before = judge_reading(run.plan, run.before.taken, run.before_variables)
            run.before_variables = None
    return run.before


def look_due(run: Run, timing: Timing) -> bool:
    """Whether a search for duplicates is still due before a success."""
    contract = run.contract
    if not contract.has_find or not contract.kind.counts_effects:
        return False
    looked = run.action.looked_us if run.found is not None else 0
    needed = timing.close_us if contract.depth.find_at_close else run.action.ended_us
    return looked < needed or looked == 0


def wants_lookup(run: Run, result: Reconciliation) -> bool:
    """Whether a look-up by key may settle an open reading."""
    if not run.contract.has_lookup or result.verdict is _VERIFIED:
        return False
    return run.lookup is None or run.lookup.status in ("pending", "unknown_key")


def is_dead(run: Run, timing: Timing, read_from_us: int) -> bool:
    """Whether the attempt provably can have no effect any more: never dispatched, failed by the key's record, or past
    the late window. For an attempt possibly missing in a restored ledger, only a look-up by the key proves this.
    """
    if run.action.restored:
        return run.lookup is not None and run.lookup.status == "failed"
    if run.observation is not None and not run.observation.dispatched and not run.action.left_before:
        return True
    if run.lookup is not None and run.lookup.status == "failed":
        return True
    return timing.late_until_us is not None and read_from_us >= timing.late_until_us


def ended_by_itself(run: Run) -> bool:
    """The tool answered or raised, and left no open commit: no work is reported as running."""
    if run.action.commit_open:
        return False
    return run.observation is not None and run.observation.status not in _STILL_OUT


def record_reading(run: Run, judged: EvaluatedReading) -> None:
    """Record the reading as a ledger entry, and its content as evidence, unless the object is foreign."""
    taken = judged.taken
    reading = taken.reading
    foreign = judged.in_scope is _VIOLATED or judged.maybe_foreign
    content: Json = None if foreign else reading.value
    root = "before" if taken.role is _BEFORE else "authoritative"
    ref = {"reading": run.keep(root, content)} if reading.presence is _PRESENT and not foreign else {}
    run.record(_READ, taken.finished_us, (), _provenance(taken, withheld=foreign), ref)


def _provenance(taken: TakenReading, *, withheld: bool) -> dict[str, Json]:
    """A reading's source and self-description, without its content."""
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
        said["wide"] = True  # an integer beyond the range of an entry, stored as text
    return said


def withheld(judged: EvaluatedReading) -> EvaluatedReading:
    """A reading of a foreign object, without content."""
    return replace(judged, taken=replace(judged.taken, reading=replace(judged.taken.reading, value=None)))
