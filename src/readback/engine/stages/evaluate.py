"""Evaluate a contract's expressions over readings. Called by verify and validate; decides nothing.

A data fault gives an undetermined evaluation. A fault of the predicate itself is marked as the verifier's. Data never
raises an error here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from readback.canon import Json, ReadbackError, json_value
from readback.domain.normal_form import NormalForm, alike
from readback.domain.predicate import Evaluation, Path, Truth, along, look, shown_values
from readback.domain.verification.observation_signs import one_line
from readback.domain.verification.reading import Presence, Role, TakenReading
from readback.domain.verification.reconciliation import EvaluatedReading, IdentityMatch
from readback.engine.compiled_contract import Check, CompiledContract, IdentityCheck, Variables
from readback.engine.run import REDACTED
from readback.engine.values.argument_copies import own_value
from readback.engine.values.reader_results import ERROR_TEXT_MAX, text_of
from readback.ports.predicates import Binding, Evaluated, Predicate

_HOLDS: Final = Truth.HOLDS
_VIOLATED: Final = Truth.VIOLATED
_NOT_VISIBLE: Final = Presence.NOT_VISIBLE
_PRESENT: Final = Presence.PRESENT
_BEFORE: Final = Role.BEFORE
_FIND: Final = Role.FIND

_PARTS: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[^{}]+")
"""Of a target's template: the paths of the values, and the words between."""
_SIGNS: Final = re.compile("[/:]")
AS_IT_IS_MAX = 1024
_WRITTEN: Final = frozenset({str, int, float})
Forms = tuple[tuple[str, tuple[NormalForm, ...]], ...]
VERIFIER_KINDS = frozenset({"error"})
ASKS_FOR_REDACTED = "it asks for a value that was redacted before it was stored"
ASKS_FOR_UNSEEN = "it counts, searches or misses something in a reading that was not whole"
WHOLE: Final[frozenset[str]] = frozenset()
_OF_WHAT_IS_SHOWN: Final = frozenset(
    {"has", "in", "int", "uint", "double", "string", "bool", "timestamp", "duration", "dec_eq", "dec_cmp"}
)
"""Functions of a shown value alone: hidden data cannot change the result."""
_THIS: Final = frozenset({"authoritative"})
PAST: Final = frozenset({"before"})
_BOTH: Final = _THIS | PAST


def evaluate(
    check: Check, binding: Binding, variables: Variables, *, show: bool = True, partial: frozenset[str] = WHOLE
) -> Evaluation:
    """Evaluate one postcondition over one set of values.

    `show`: include the inspected values, for display. `partial`: the roots with an incomplete reading.
    """
    post = check.postcondition
    if partial and _asks_for_unseen(check, variables, partial):
        source = post.expression or post.source
        return Evaluation(post.name, Truth.UNDETERMINED, source, ASKS_FOR_UNSEEN, group=post.group)
    if check.predicate is None:
        truth, reason, fault = _call(check, variables)
        return Evaluation(post.name, truth, post.source, reason, (), None, fault, post.group)
    if _asks_for_redacted(check.predicate, variables):
        return Evaluation(post.name, Truth.UNDETERMINED, post.source, ASKS_FOR_REDACTED, group=post.group)
    said = check.predicate.evaluate(binding)
    truth, reason, fault = _truth(said)
    values = shown_values(check.predicate.paths, variables) if show else ()
    error, source = None if said.kind == "value" else said.kind, post.expression or post.source
    return Evaluation(post.name, truth, source, reason, values, error, fault, post.group)


def _truth(said: Evaluated) -> tuple[Truth, str, bool]:
    if said.kind == "value" and said.value is True:
        return _HOLDS, "", False
    if said.kind == "value" and said.value is False:
        return _VIOLATED, "", False
    return Truth.UNDETERMINED, said.error or "it gave no boolean", said.kind in VERIFIER_KINDS


def _call(check: Check, variables: Variables) -> tuple[Truth, str, bool]:
    assert check.check is not None
    if any(_redacted(variables.get(name)) for name in check.parameters):
        return Truth.UNDETERMINED, ASKS_FOR_REDACTED, False
    try:
        # Each callable gets a copy: sorting a list in place would change the values of the others.
        said = check.check(**{name: own_value(variables.get(name)) for name in check.parameters})
    except (Exception, SystemExit) as error:  # tidy: boundary -- a predicate may raise anything
        absent = variables.get("authoritative") is None
        return Truth.UNDETERMINED, one_line(f"{type(error).__name__}: {text_of(error)}", ERROR_TEXT_MAX), not absent
    if said is True:
        return _HOLDS, "", False
    if said is False:
        return _VIOLATED, "", False
    what = "None" if said is None else f"a {type(said).__name__}"
    return Truth.UNDETERMINED, f"it answered {what}, neither True nor False", said is not None


def _asks_for_redacted(predicate: Predicate, variables: Variables) -> bool:
    """Whether the expression compares a redacted value. A mark equals nothing and is in no list, so a comparison would
    refute a correct result.
    """
    for path in predicate.paths:
        if path.root == "authoritative":
            continue  # a reading holds no redaction marks
        value = look(path, variables)
        if type(value) is str:
            continue  # a text is neither a mark nor inside one
        # A path without a value may end at a mark, and the value behind a mark is unknown.
        if _redacted(value) or (value is None and any(_is_mark(part) for part in along(path, variables))):
            return True
    return False


def _asks_for_unseen(check: Check | IdentityCheck, variables: Variables, partial: frozenset[str]) -> bool:
    """Whether complete readings at these roots could change the answer. A single shown value is final. A missing field
    may exist, and a list or an object may hold more.
    """
    predicate = check.predicate
    if predicate is None:
        return isinstance(check, Check) and not partial.isdisjoint(check.parameters)
    if predicate.is_presence:
        return False
    seeks = not _OF_WHAT_IS_SHOWN.issuperset(predicate.calls)
    return any(_is_open(path, variables, seeks) for path in predicate.paths if path.root in partial)


def _is_open(path: Path, variables: Variables, seeks: bool) -> bool:
    value = look(path, variables)
    if value is None or isinstance(value, dict | list) or (seeks and type(value) is str):
        return True
    return any(isinstance(part, list) for part in along(path, variables))  # the position in a list is unknown


def _redacted(value: Json) -> bool:
    """After a resume the request is known as stored. A redaction mark cannot be compared."""
    if isinstance(value, dict):
        return _is_mark(value) or any(_redacted(part) for part in value.values())
    return isinstance(value, list) and any(_redacted(part) for part in value)


def _is_mark(value: Json) -> bool:
    return isinstance(value, dict) and len(value) == 1 and REDACTED in value


def identify(
    check: IdentityCheck,
    binding: Binding,
    variables: Variables,
    wanted: Json,
    template: str,
    partial: frozenset[str] = WHOLE,
    forms: Forms = (),
) -> IdentityMatch:
    """Compare one identity key with a reading.

    `template`: the contract's own words for the target. `forms`: the comparison rules declared by the source for its
    fields.
    """
    if partial and _asks_for_unseen(check, variables, partial):
        return IdentityMatch(check.key, Truth.UNDETERMINED, wanted, None)
    if (type(wanted) is not str and _redacted(wanted)) or _asks_for_redacted(check.predicate, variables):
        return IdentityMatch(check.key, Truth.UNDETERMINED, wanted, None)
    said = check.predicate.evaluate(binding)
    if said.kind != "value":
        return IdentityMatch(check.key, Truth.UNDETERMINED, wanted, None)
    if check.boolean:
        truth = Truth.UNDETERMINED if not isinstance(said.value, bool) else _of(said.value)
        return IdentityMatch(check.key, truth, True, said.value)
    if said.value is None or (check.key == "version"):
        return IdentityMatch(check.key, Truth.UNDETERMINED, wanted, said.value)
    same = _same(check, wanted, said.value, template, variables, forms)
    if same is None:
        return IdentityMatch(check.key, Truth.UNDETERMINED, wanted, said.value, by_form=True)
    return IdentityMatch(check.key, _of(same), wanted, said.value)


def _of(value: bool) -> Truth:
    return _HOLDS if value else _VIOLATED


def _same(
    check: IdentityCheck, wanted: Json, found: Json, template: str, variables: Variables, forms: Forms
) -> bool | None:
    """Whether the values are equal as text, or by the rule of the contract or source; None if equal only in the widest
    form.

    Only texts and numbers are compared as text. A target may omit the type before its first "/" or ":", if the contract
    states a type there. A target made of a value alone has no such type: `secrets/a.txt` is not `a.txt`.
    """
    if type(found) not in _WRITTEN or type(wanted) not in _WRITTEN:
        return type(found) is type(wanted) and found == wanted
    text, whole = str(found), str(wanted)
    if text == whole:
        return True
    prefixed = check.key == "target" and _is_prefixed(template, variables)
    if prefixed:
        slash, colon = whole.find("/"), whole.find(":")
        cut = min(slash, colon) if slash >= 0 and colon >= 0 else max(slash, colon)
        if cut >= 0 and text == whole[cut + 1 :]:
            return True
    rules = (check.form,) if check.form is not None else dict(forms).get(check.field, ())
    return alike(rules, whole, text, prefixed=prefixed)


def _is_prefixed(template: str, variables: Variables) -> bool:
    """Whether the text before the first "/" or ":" of the target is the contract's own word."""
    divided, before = _divided(template)
    return divided and not (before and any(_SIGNS.search(str(look(path, variables))) for path in before))


@lru_cache(maxsize=1_024)
def _divided(template: str) -> tuple[bool, tuple[Path, ...]]:
    """Whether the template's own words hold a separator, and the paths of the values before the first."""
    paths: list[Path] = []
    for part in _PARTS.finditer(template):
        if part[1]:
            paths.append(Path.named(part[1]))
        elif _SIGNS.search(part[0]):
            return True, tuple(paths)
    return False, ()


def judge_reading(
    plan: CompiledContract, taken: TakenReading, variables: dict[str, Json], before: TakenReading | None = None
) -> EvaluatedReading:
    """Evaluate everything over one reading.

    `variables` are the action's, without this reading. `before` is the reading among them.
    """
    if not taken.ran or taken.reading.presence is _NOT_VISIBLE:
        return EvaluatedReading(taken)
    seen, binding = _bound(plan, taken, variables)
    part = _partial(taken, before)
    identity = _identified(plan, taken, seen, binding, part)
    show = taken.role is not _BEFORE
    ensure = tuple([evaluate(c, binding, seen, show=show, partial=part) for c in plan.ensure])
    failing = refused = False
    for check in plan.fails_when:
        of_state = looks_at_state(check)
        if (of_state and taken.reading.presence is not _PRESENT) or (not of_state and not show):
            continue
        if evaluate(check, binding, seen, show=False, partial=part).truth is _HOLDS:
            failing, refused = failing or of_state, refused or not of_state
    midway = False
    if show and plan.intermediate and taken.reading.presence is _PRESENT:
        truths = (evaluate(c, binding, seen, show=False, partial=part).truth for c in plan.intermediate)
        midway = any(truth is _HOLDS for truth in truths)
    return EvaluatedReading(taken, identity, ensure, failing, refused, midway)


def looks_at_state(check: Check) -> bool:
    """Whether a clause inspects the state after the call. Other clauses concern the request or the tool's answer alone,
    and were as true before the call.
    """
    if check.predicate is None:
        return "authoritative" in check.parameters
    return any(path.root == "authoritative" for path in check.predicate.paths)


def _partial(taken: TakenReading, before: TakenReading | None) -> frozenset[str]:
    """The roots of readings with a visible object and a declared incompleteness. A search result is used for
    attribution only and verifies nothing.
    """
    partial = WHOLE
    if not taken.reading.complete and taken.reading.presence is _PRESENT and taken.role is not _FIND:
        partial = _BOTH if taken.role is _BEFORE else _THIS
    if taken.role is not _BEFORE and not_whole(before):
        partial |= PAST
    return partial


def not_whole(before: TakenReading | None) -> bool:
    """The reading before showed the object and declared itself incomplete."""
    return before is not None and not before.reading.complete and before.reading.presence is _PRESENT


def identify_reading(plan: CompiledContract, taken: TakenReading, variables: dict[str, Json]) -> EvaluatedReading:
    """Determine the object of a reading, without evaluating postconditions."""
    if not taken.ran or taken.reading.presence is not _PRESENT:
        return EvaluatedReading(taken)
    seen, binding = _bound(plan, taken, variables)
    return EvaluatedReading(taken, _identified(plan, taken, seen, binding, _partial(taken, None)))


def _bound(plan: CompiledContract, taken: TakenReading, variables: dict[str, Json]) -> tuple[dict[str, Json], Binding]:
    seen = {**variables, "authoritative": taken.reading.value}
    if taken.role is _BEFORE:
        # The reading before is its own past. Without this, a clause with `before` would be undetermined here, and a
        # no-op would count as a change.
        seen["before"] = taken.reading.value
    return seen, plan.predicates.bind(seen)


def _identified(
    plan: CompiledContract, taken: TakenReading, seen: dict[str, Json], binding: Binding, partial: frozenset[str]
) -> tuple[IdentityMatch, ...]:
    if taken.reading.presence is not _PRESENT:
        return ()
    template = plan.contract.target
    forms = taken.reading.forms
    return tuple([identify(i, binding, seen, _wanted(i.key, seen), template, partial, forms) for i in plan.identity])


def _wanted(key: str, variables: Variables) -> Json:
    scope, requested = variables["scope"], variables["requested"]
    assert isinstance(scope, dict)
    match key:
        case "target" | "tenant" | "stamp":
            return scope[key]
        case "actor":
            return scope["principal"]
        case _:
            return requested.get(key) if isinstance(requested, dict) else None


def as_json(value: object) -> Json:
    """A value for display or storage. A value without a JSON form is named by its type."""
    if type(value) is str and len(value) <= AS_IT_IS_MAX and value.isascii():
        return value  # the usual case
    try:
        return json_value(value)
    except ReadbackError:
        return f"<{type(value).__name__}>"
