"""Report: from events and evidence to an outcome. The last stage, and the only stage shown to users.

Called by the coordinator, with a run or with the ledger alone. A test compares both ways: they give the same outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from readback.canon import Json, parse_json
from readback.domain.action.action import Action
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.outcome import JudgedPostcondition, Outcome
from readback.domain.outcome.shadow import shadow_judgement
from readback.domain.predicate import Path, Truth, look
from readback.domain.state import State
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification.observation import Observation
from readback.engine.claims.entries import claims_relied_on, invalid_claims
from readback.engine.effects import Effects, Load
from readback.engine.run import Run
from readback.engine.stages.evaluate import as_json
from readback.errors import StoreCorruptError

# Constructing an enum member from its value costs a Python call each time.
_UNKNOWN, _SUCCESS, _UNDETERMINED, _VERIFIED = (
    State.UNKNOWN,
    State.RECONCILED_SUCCESS,
    Verdict.UNDETERMINED,
    Verdict.VERIFIED,
)
_BEFORE = "before."
_VERDICTS = {each.value: each for each in Verdict}
_WHYS = {each.value: each for each in Why}
_ATTRIBUTIONS = {each.value: each for each in Attribution}
_LEVELS = {each.value: each for each in Level}


def outcome_of(action: Action, *, replayed: bool = False) -> Effects[Outcome]:
    """The outcome by the ledger alone."""
    load = _Evidence(action)
    contract = yield from load(action.contract_ref)
    authoritative = yield from load(action.reading_ref)
    before = yield from load(action.before_ref)
    observed = yield from load(action.observation_ref)
    judgement = yield from load(action.judgement.ref)
    seen = Observation.from_envelope(action.observation, observed) if action.observation is not None else None
    shown = judgement.get("ensure") if isinstance(judgement, dict) else None
    terms = contract if isinstance(contract, dict) else {}
    told = _outcome(action, terms, authoritative, before, seen, _postconditions(shown), replayed)
    return (yield from _with_fallen(told, action))


def outcome_of_run(run: Run) -> Outcome:
    """The outcome of a run in memory, without reading from the store."""
    action, contract = run.action, run.contract
    terms: dict[str, Json] = {"tell": list(contract.tell), "proves": contract.proves}
    last = run.checks[-1] if run.checks and action.reading_ref else None
    hide = run.secrecy.hide
    authoritative = hide(last.taken.reading.value, "authoritative") if last is not None else None
    before = None
    if run.before is not None and action.before_ref:
        before = hide(run.before.taken.reading.value, "before")
    observation = run.observation if action.observation is not None else None
    if observation is not None and observation.body is not None:
        shown = hide(observation.body, "observed")
        if shown is not observation.body:
            observation = replace(observation, body=shown)
    return _outcome(action, terms, authoritative, before, observation, _at_hand(run), False)


def outcome_after(run: Run) -> Effects[Outcome]:
    """The outcome of an ended run. Without a judgement in memory, the evidence comes from the store."""
    if run.judged is None and run.action.judgement.ref:
        return (yield from outcome_of(run.action))
    told = outcome_of_run(run)
    return told if "upon" not in run.action.context else (yield from _with_fallen(told, run.action))


def _with_fallen(told: Outcome, action: Action) -> Effects[Outcome]:
    """Look up whether a claim behind the action became invalid since; repeated for every report."""
    claims = claims_relied_on(action)
    found = (yield from invalid_claims(action.tenant, claims)) if claims else ()
    return replace(told, fallen=found) if found else told


class _Evidence:
    """Loads evidence as JSON; erased evidence reads as null."""

    def __init__(self, action: Action) -> None:
        self._action = action

    def __call__(self, digest: str) -> Effects[Json]:
        if not digest or digest in self._action.erased:
            return None
        loaded = yield from Load(self._action.tenant, self._action.id, digest)
        return None if loaded is None else parse_json(loaded)


def _outcome(
    a: Action,
    contract: Mapping[str, Json],
    authoritative: Json,
    before: Json,
    observation: Observation | None,
    postconditions: tuple[JudgedPostcondition, ...],
    replayed: bool,
) -> Outcome:
    told = _plain(a, contract, authoritative, before, observation, postconditions, replayed)
    if not a.mode:
        return told
    judged = None if a.shadow is None else shadow_judgement(a.shadow, a.id, a.contract, a.target)
    return replace(told, mode=a.mode, shadow=judged)


def _plain(
    a: Action,
    contract: Mapping[str, Json],
    authoritative: Json,
    before: Json,
    observation: Observation | None,
    postconditions: tuple[JudgedPostcondition, ...],
    replayed: bool,
) -> Outcome:
    j = a.judgement
    unknown = a.state is _UNKNOWN and j.verdict != _UNDETERMINED
    # Positional, in the order of the class: so many keywords take ten times as long.
    return Outcome(
        a.id,
        a.state,
        _UNDETERMINED if unknown else _VERDICTS[j.verdict],
        Why.PROPAGATING if unknown else _WHYS[j.why],
        Discrepancy(j.discrepancy) if j.discrepancy else None,
        _ATTRIBUTIONS[j.attribution],
        _LEVELS[j.level],
        a.may_repeat,
        replayed,
        a.contract,
        a.contract_version,
        a.target,
        a.operation,
        a.tenant,
        a.principal,
        a.stamp,
        a.head,
        authoritative,
        before,
        observation,
        postconditions,
        j.done,
        j.undone,
        j.row,
        j.recovery,
        a.code,
        j.detail,
        a.hold,
        a.review,
        a.incident,
        a.compensation_id,
        a.approval.id if a.approval is not None else "",
        tuple(one.approver for one in a.approval.signed) if a.approval is not None else (),
        a.contested,
        a.attested,
        a.attempts,
        a.due_us,
        _told(contract, authoritative) if _as_verified(a) else _told_before(contract, before) if a.attempts else {},
        str(contract.get("proves", "")),
        str(a.context.get("trace", "")),
        a.kind,
        a.erased_us,
        a.claims,
        a.claimed_us,
        a.version,
    )


def _as_verified(a: Action) -> bool:
    return a.state is _SUCCESS and a.judgement.verdict == _VERIFIED


def _told(contract: Mapping[str, Json], authoritative: Json) -> dict[str, Json]:
    tell = contract.get("tell")
    if not isinstance(tell, list) or not tell or authoritative is None:
        return {}
    variables = {"authoritative": authoritative}
    named = [str(path) for path in tell if not str(path).startswith(_BEFORE)]
    whole = {p: p if p.partition(".")[0] == "authoritative" else f"authoritative.{p}" for p in named}
    return {p: look(Path.named(path), variables) for p, path in whole.items()}


def _told_before(contract: Mapping[str, Json], before: Json) -> dict[str, Json]:
    """For an unverified action: the report fields of the reading before the call, if not empty. They hold the reason,
    for example the error of a failing statement.
    """
    tell = contract.get("tell")
    if not isinstance(tell, list) or not tell or before is None:
        return {}
    found = {
        str(path): look(Path.named(str(path)), {"before": before}) for path in tell if str(path).startswith(_BEFORE)
    }
    return {path: value for path, value in found.items() if value not in (None, "")}


def _at_hand(run: Run) -> tuple[JudgedPostcondition, ...]:
    """As `_postconditions`, from memory instead of from JSON."""
    if run.contract.redact:
        return _postconditions(run.shown)
    return tuple(
        [
            JudgedPostcondition(
                e.name, e.truth, e.source, e.reason, tuple([(path, as_json(v)) for path, v in e.values]), e.group
            )
            for e in run.judged or ()
        ]
    )


def _postconditions(shown: Json) -> tuple[JudgedPostcondition, ...]:
    if not isinstance(shown, list):
        return ()
    return tuple(_postcondition(p) for p in shown)


def _postcondition(raw: Json) -> JudgedPostcondition:
    if not isinstance(raw, dict) or not isinstance(raw["values"], list):
        raise StoreCorruptError("A recorded judgement has an unexpected form.")
    values = tuple([(str(v[0]), v[1]) for v in raw["values"] if isinstance(v, list) and len(v) == 2])
    group = raw["group"]
    return JudgedPostcondition(
        str(raw["name"]),
        Truth(str(raw["truth"])),
        str(raw["source"]),
        str(raw["reason"]),
        values,
        group if isinstance(group, str) else None,
    )
