"""The input of one recorded decision, rebuilt from a bundle, with a list of missing parts.

Called by replay, once for each entry with a decision. Only the bundle is read. `missing` names lost input; `given`
names input that was never stored and is accepted as recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from readback.audit.record.bundle import Bundle
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.events import Event, EventKind
from readback.domain.finding import Finding
from readback.domain.predicate import Evaluation, Path, Truth
from readback.domain.verification.attribution import has_changed
from readback.domain.verification.change import dotted, outside, withheld
from readback.domain.verification.observation import Observation
from readback.domain.verification.reading import Lookup, Presence, Reading, TakenReading
from readback.domain.verification.reconciliation import SCOPE_KEYS, EvaluatedReading, IdentityMatch
from readback.engine.compiled_contract import CallerContext, Check, CompiledContract, IdentityCheck
from readback.engine.entries.reading import taken_as_recorded
from readback.engine.resume import marks
from readback.engine.run import Run
from readback.engine.stages.evaluate import identify_reading, judge_reading

REDACTED: Final = "redacted"
ERASED: Final = "erased"
NEVER_KEPT: Final = "never kept"
ANOTHERS: Final = IdentityMatch("target", Truth.VIOLATED, None, None)
"""The only fact known about a withheld reading: it belongs to another object."""
Unknown = Mapping[Path, str]
"""Paths under the roots of expressions without available values, with the reason."""


def not_loaded(**roots: Json) -> bool | None:
    """Stand-in for a Python callable known only by name and version. Judges nothing."""
    return None


@dataclass(frozen=True, slots=True)
class Entry:
    """A `read` entry: its data, and the digest of the reading ("" for a reading without stored content)."""

    data: Mapping[str, Json]
    ref: str


@dataclass(slots=True)
class Round:
    """The readings since the last decision, and the readings of longer validity."""

    before: Entry | None = None
    checks: list[Entry] = field(default_factory=list)
    found: Entry | None = None

    def read(self, event: Event) -> None:
        """Add one entry."""
        match event.kind:
            case EventKind.READ:
                self._reading(Entry(event.data, event.refs.get("reading", "")))
            case EventKind.ATTEMPTED | EventKind.STAGED_SETTLED:
                self.checks, self.found = [], None
            case EventKind.JUDGED | EventKind.COMPENSATION:
                self.checks = []
            case _:
                pass

    def _reading(self, entry: Entry) -> None:
        match entry.data["role"]:
            case "before":
                self.before = entry
            case "find":
                self.found = entry
            case _:
                self.checks.append(entry)


@dataclass(slots=True)
class Standing:
    """The situation of an action at the time of an entry."""

    bundle: Bundle
    plan: CompiledContract
    action: Action
    round: Round
    event: Event
    missing: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)

    @property
    def proposed_table(self) -> str:
        """The recovery table at the time of the proposal."""
        said = [each.event.data.get("recovery_table") for each in self.bundle.entries[:2]]  # `admitted` is second
        return str(next((each for each in said if each), ""))

    def recorded_ensure(self) -> dict[str, str]:
        """Return the recorded truth of each postcondition."""
        return {str(each["name"]): str(each["truth"]) for each in _objects(self._judgement().get("ensure"))}

    def _judgement(self) -> Mapping[str, Json]:
        found = self.bundle.json_of(self.event.refs.get("judgement", ""))
        return found if isinstance(found, dict) else {}

    # --- the run ---

    def run(self) -> Run:
        """Return the recorded run, including readings."""
        a, data = self.action, self.event.data
        run = self.bare_run()
        run.now_us = self.event.at_us
        run.doubt = Finding(str(data["doubt"])) if data.get("doubt") else None
        run.doubt_said = str(data.get("doubt_said", ""))
        run.blind = frozenset({"requested"}) if data.get("blind") is True else frozenset()
        run.resend = data.get("resend") is True
        run.prior_fault_counts = _pair(data.get("struck"))
        held = data.get("held_since")
        if isinstance(held, int) and held:
            a.held_since_us = held
        run.lookup = Lookup(a.lookup) if a.lookup else None
        self._before(run)
        self._observation(run)
        number = data.get("checks", 1)
        wanted = number if isinstance(number, int) else 1
        entries = self.round.checks[-wanted:] if wanted else []
        if len(entries) < wanted:
            self.missing.append("a reading that the decision stood on is not recorded")
        run.checks = tuple(self._check(run, each) for each in entries)
        run.missed = tuple(
            self._check(run, each) for each in self.round.checks[: len(self.round.checks) - len(entries)]
        )
        for judged in run.checks:
            self._compared(run, judged)
        if isinstance(data.get("found"), int) and self.round.found is not None:
            run.found = tuple(self._found(run, self.round.found))
            run.search_proven = data.get("proven") is True
        return run

    def bare_run(self) -> Run:
        """Return the run before any reading or answer."""
        a = self.action
        request = self.bundle.json_of(a.request_ref)
        kept = request if isinstance(request, dict) else {}
        requested, intended, budget = kept.get("requested"), kept.get("intended"), kept.get("budget")
        context = {key: str(value) for key, value in a.context.items()}
        scope = CallerContext(
            a.tenant, a.principal, context.get("run", ""), budget=budget if isinstance(budget, dict) else None
        )
        return Run(
            self.plan,
            scope,
            a,
            {},
            requested if isinstance(requested, dict) else {},
            intended if isinstance(intended, dict) else None,
            owner="replay",
        )

    def before_attempt(self) -> Run:
        """Return the run before execution, and add preconditions with unavailable input to `missing`."""
        run = self.bare_run()
        self._before(run)
        unknown = self.asked_before()
        self.ask(self.plan.require, unknown)
        if self.plan.expected_version is not None:
            found = _asked_for(self.plan.expected_version.paths, unknown)
            self.missing += [f"the expected version asks for {path}: {why}" for path, why in found]
        return run

    def _before(self, run: Run) -> None:
        entry = self.round.before
        if entry is None:
            return
        taken = taken_as_recorded(entry.data, self.bundle.json_of(entry.ref))
        if entry.data.get("withheld") is True:
            self.given.append(f"of whom the reading before by {taken.reader!r} was: its content was {NEVER_KEPT}")
            run.before = EvaluatedReading(taken, (ANOTHERS,))
            return
        variables = run.variables()
        scope = variables["scope"]
        run.before_variables = {**variables, "scope": {**scope, "attempt": 0} if isinstance(scope, dict) else scope}
        run.before = identify_reading(self.plan, taken, run.before_variables)
        if taken.reading.presence is Presence.PRESENT:
            self._named(self.plan.identity, {**self._asked(), **self._content(entry, "authoritative")})

    def _observation(self, run: Run) -> None:
        a = self.action
        if a.observation is not None:
            run.observation = Observation.from_envelope(a.observation, self.bundle.json_of(a.observation_ref))
        elif a.attempts:
            run.observation = Observation.missing(a.ended_us)

    def _check(self, run: Run, entry: Entry) -> EvaluatedReading:
        taken = taken_as_recorded(entry.data, self.bundle.json_of(entry.ref))
        if entry.data.get("withheld") is True:
            return self._withheld(taken)
        judged = judge_reading(self.plan, taken, run.variables(), run.taken_before)
        if taken.ran and taken.reading.presence is not Presence.NOT_VISIBLE:
            self._clauses(self._content(entry, "authoritative"))
        return judged

    def _withheld(self, taken: TakenReading) -> EvaluatedReading:
        """Rebuild a reading of a foreign object: its content was never stored, its judgement was recorded."""
        self.given.append(f"of whom the reading by {taken.reader!r} was: its content was {NEVER_KEPT}")
        judgement = self._judgement()
        identity = tuple(_match(each) for each in _objects(judgement.get("identity")))
        if any(each.key in SCOPE_KEYS and (each.truth is Truth.VIOLATED or each.by_form) for each in identity):
            return EvaluatedReading(
                taken, identity, tuple(_evaluation(each) for each in _objects(judgement.get("ensure")))
            )
        return EvaluatedReading(taken, (ANOTHERS,))

    def _found(self, run: Run, entry: Entry) -> Iterator[EvaluatedReading]:
        values, each = self.bundle.json_of(entry.ref), entry.data.get("each")
        if not isinstance(values, list) or not isinstance(each, list) or len(values) != len(each):
            self.missing.append(f"what the search found: {ERASED if entry.ref in self.bundle.erased else NEVER_KEPT}")
            return
        for value, said in zip(values, each, strict=True):
            presence, stamped = said if isinstance(said, list) and len(said) == 2 else ("unavailable", False)
            whole = taken_as_recorded(entry.data, None)
            stamp = run.action.stamp if stamped is True else None
            reading = Reading(Presence(str(presence)), value, stamp=stamp, forms=whole.reading.forms)
            taken = TakenReading(
                whole.role,
                whole.reader,
                whole.source,
                whole.consistency,
                whole.independence,
                reading,
                whole.started_us,
                whole.finished_us,
            )
            self._clauses(dict.fromkeys(marks(value, "authoritative"), REDACTED))
            yield judge_reading(self.plan, taken, run.variables(), run.taken_before)

    # --- what is not there ---

    def _content(self, entry: Entry, root: str) -> dict[Path, str]:
        """Return the unavailable paths of one reading."""
        if entry.data.get("withheld") is True:
            return {Path.named(root): NEVER_KEPT}
        if entry.ref in self.bundle.erased:
            return {Path.named(root): ERASED}
        return dict.fromkeys(marks(self.bundle.json_of(entry.ref), root), REDACTED)

    def _asked(self) -> dict[Path, str]:
        """Return the unavailable paths of the request and of the answer."""
        a, unknown = self.action, dict[Path, str]()
        if a.request_ref in self.bundle.erased:
            unknown |= dict.fromkeys(map(Path.named, ("requested", "intended", "scope.budget")), ERASED)
        request = self.bundle.json_of(a.request_ref)
        if isinstance(request, dict):
            asked = request.get("requested")
            for root, value in (("requested", asked), ("intended", request.get("intended", asked))):
                unknown |= dict.fromkeys(marks(value, root), REDACTED)
        if a.observation_ref in self.bundle.erased:
            unknown[Path.named("observed")] = ERASED
        elif a.observation_ref:
            unknown |= dict.fromkeys(marks(self.bundle.json_of(a.observation_ref), "observed"), REDACTED)
        return unknown

    def _clauses(self, shown: Unknown) -> None:
        """Name each clause on unavailable paths of a reading."""
        unknown = {**self._asked(), **shown}
        if self.round.before is not None:
            unknown |= self._content(self.round.before, "before")
        self.ask((*self.plan.ensure, *self.plan.fails_when, *self.plan.intermediate), unknown)
        self._named(self.plan.identity, unknown)

    def ask(self, checks: Iterable[Check], unknown: Unknown) -> None:
        """Name each check without a possible evaluation here."""
        for check in checks:
            name = check.postcondition.name
            if check.check is not_loaded:
                self.missing.append(f"{name!r}: the callable {check.postcondition.source} is not loaded")
                continue
            paths = map(Path.named, check.parameters) if check.predicate is None else check.predicate.paths
            self.missing += [f"{name!r} asks for {path}: {why}" for path, why in _asked_for(paths, unknown)]

    def asked_before(self) -> Unknown:
        """Return the unavailable paths before the attempt."""
        before = self._content(self.round.before, "before") if self.round.before is not None else {}
        return {**self._asked(), **before}

    def _named(self, checks: Iterable[IdentityCheck], unknown: Unknown) -> None:
        for check in checks:
            found = _asked_for(check.predicate.paths, unknown)
            self.missing += [f"identity {check.key!r} asks for {path}: {why}" for path, why in found]

    def _compared(self, run: Run, judged: EvaluatedReading) -> None:
        """Name changes since the reading before that are undecidable, because both readings hide the value."""
        before, entry = run.before, self.round.before
        if before is None or entry is None or judged.presence is not Presence.PRESENT or not judged.taken.ran:
            return
        if before.presence is not Presence.PRESENT or judged.taken.reading.value is None:
            return
        lost = self._content(entry, "before")
        if (past := Path.named("before")) in lost:
            self.missing.append(f"what was there before: {lost[past]}")
            return
        hidden = (*withheld(before.taken.reading.value), *withheld(judged.taken.reading.value))
        if not hidden:
            return
        frame = self.plan.contract.may_change
        beside = outside(frame, hidden) if frame is not None else ()
        unseen = tuple(map(dotted, hidden)) if not has_changed(before, judged) else beside
        self.missing += [f"whether {path} changed: {REDACTED}" for path in dict.fromkeys(unseen)]


def _asked_for(paths: Iterable[Path], unknown: Unknown) -> Iterator[tuple[Path, str]]:
    for path in paths:
        for lost, why in unknown.items():
            if path.within(lost) or lost.within(path):
                yield lost, why


def _match(raw: Mapping[str, Json]) -> IdentityMatch:
    truth, expected, actual = Truth(str(raw["truth"])), raw["expected"], raw["actual"]
    spelled = isinstance(expected, str) and isinstance(actual, str)
    return IdentityMatch(str(raw["key"]), truth, expected, actual, by_form=truth is Truth.UNDETERMINED and spelled)


def _evaluation(raw: Mapping[str, Json]) -> Evaluation:
    group = raw["group"]
    truth, reason = Truth(str(raw["truth"])), str(raw["reason"])
    return Evaluation(str(raw["name"]), truth, str(raw["source"]), reason, group=None if group is None else str(group))


def _objects(raw: Json) -> list[dict[str, Json]]:
    return [each for each in raw if isinstance(each, dict)] if isinstance(raw, list) else []


def _pair(raw: Json) -> tuple[int, int]:
    if isinstance(raw, list) and len(raw) == 2:
        first, second = raw
        if isinstance(first, int) and isinstance(second, int):
            return first, second
    return 0, 0
