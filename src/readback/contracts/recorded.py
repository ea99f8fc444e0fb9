"""A plan from a contract's recorded text, for judging recorded readings again. The plan can evaluate, and neither act
nor read.

Called by `readback replay` and by release gates. Expressions are compiled from the recorded text. A Python callable is
recorded by name and version alone: its clause counts as not loaded, and is evaluated nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NoReturn

from readback.audit.replay.round import not_loaded
from readback.canon import Json
from readback.contracts.conditions_compiler import Clauses, fields_of, mentioned
from readback.contracts.problems import Problems
from readback.domain.contract.approval import ApprovalTerms
from readback.domain.contract.contract import Contract, Execution, Noop, ReaderTerms
from readback.domain.contract.freezing import FreezeScope
from readback.domain.contract.shadowing import Mode
from readback.domain.contract.watch import WatchTerms
from readback.domain.kind import Kind
from readback.domain.normal_form import NormalForm
from readback.domain.predicate import Postcondition
from readback.domain.side_effect import Consistency, Independence, SideEffect
from readback.engine.compiled_contract import Check, CompiledContract, IdentityCheck
from readback.errors import BundleError, ExpressionError, InvariantError
from readback.ports.handlers import Handler, Handlers
from readback.ports.predicates import Predicate, PredicateEngine

_CALLABLE: Final = re.compile(r"(.+)@(.+)", re.DOTALL)


def recorded_plan(
    body: Mapping[str, Json], digest: str, requested: Iterable[str], predicates: PredicateEngine
) -> CompiledContract:
    """Return the plan. `requested`: the names of the arguments, if known. Raises BundleError for another form."""
    try:
        return _plan(body, digest, frozenset(requested), predicates)
    except (KeyError, ValueError, TypeError, ExpressionError) as wrong:
        raise BundleError(f"The recorded contract cannot be read by this release: {wrong}") from wrong


def _plan(
    body: Mapping[str, Json], digest: str, requested: frozenset[str], predicates: PredicateEngine
) -> CompiledContract:
    require, ensure, fails_when = (
        tuple(_check(each, predicates) for each in _list(body[name])) for name in ("require", "ensure", "fails_when")
    )
    expected = str(body["expected_version"])
    midway = tuple(_check(each, predicates) for each in _list(body.get("intermediate", [])))
    contract = _contract(body, digest, require, ensure, fails_when)
    contract = replace(contract, intermediate=tuple(check.postcondition for check in midway))
    return CompiledContract(
        contract=contract,
        predicates=predicates,
        target=_nothing_to_name,
        identity=_identity(contract, requested, predicates),
        require=require,
        ensure=ensure,
        fails_when=fails_when,
        intermediate=midway,
        expected_version=predicates.compile(expected, boolean=False) if expected else None,
        revive=dict,
        hands=Handlers(
            _HAND,
            tuple(Handler(terms.name, _nothing_to_call) for terms in contract.readers),
            _HAND if contract.has_find else None,
            _HAND if contract.has_lookup else None,
            _HAND if contract.has_rollback else None,
        ),
    )


def _nothing_to_name(variables: Mapping[str, Json]) -> NoReturn:
    raise InvariantError("A recorded contract has no target template. Read the target from the record.")


def _nothing_to_call(*given: object) -> NoReturn:
    raise InvariantError("A recorded contract has no handlers and cannot call anything.")


_HAND: Final = Handler("recorded", _nothing_to_call)


def _check(raw: Json, predicates: PredicateEngine) -> Check:
    name, source, group = (str(each) for each in _list(raw))
    try:
        predicate = predicates.compile(source)
    except ExpressionError:
        named = _CALLABLE.fullmatch(source)
        if named is None:
            raise
        made = Postcondition(name, "", not_loaded, named[1], named[2], group or None)
        return Check(made, None, not_loaded)
    return Check(Postcondition(name, predicate.source, group=group or None), predicate)


def _identity(contract: Contract, requested: frozenset[str], predicates: PredicateEngine) -> tuple[IdentityCheck, ...]:
    """Apply the rules of loading: an expression gives the found value, or compares by itself."""
    sources = dict(contract.identity)
    named: set[str] = set(requested)
    for source in sources.values():
        named |= _fields(source, predicates)
    return Clauses(predicates, named | {"region", "account", "permission_scope"}, Problems()).identity(
        sources, dict(contract.forms)
    )


def _fields(source: str, predicates: PredicateEngine) -> frozenset[str]:
    try:
        predicate: Predicate = predicates.compile(source, boolean=False)
    except ExpressionError:
        return frozenset()  # "not_offered"
    return fields_of(predicate, "requested")


def _contract(
    body: Mapping[str, Json],
    digest: str,
    require: tuple[Check, ...],
    ensure: tuple[Check, ...],
    fails_when: tuple[Check, ...],
) -> Contract:
    execute, may_change, late = _object(body["execute"]), body["may_change"], body["late_window_us"]
    return Contract(
        name=str(body["name"]),
        version=str(body["version"]),
        kind=Kind(str(body["kind"])),
        side_effect=SideEffect(str(body["side_effect"])),
        target=str(body["target"]),
        identity=tuple((key, str(value)) for key, value in _object(body["identity"]).items()),
        forms=tuple((key, NormalForm(str(form))) for key, form in _object(body.get("identity_as", {})).items()),
        require=tuple(check.postcondition for check in require),
        expected_version=str(body["expected_version"]),
        execution=Execution(
            _whole(execute["timeout_us"]),
            execute["honours_key"] is True,
            execute["reversible"] is True,
            _whole(body.get("key_valid_for_us", 0)),
        ),
        readers=tuple(_reader(_object(each)) for each in _list(body["readers"])),
        quorum=_whole(body["quorum"]),
        ensure=tuple(check.postcondition for check in ensure),
        fails_when=tuple(check.postcondition for check in fails_when),
        may_change=None if may_change is None else _texts(may_change),
        noop=Noop(str(body["noop"])),
        within_us=_whole(body["within_us"]),
        polls_us=tuple(_whole(each) for each in _list(body["polls_us"])),
        stable_for_us=_whole(body["stable_for_us"]),
        deadline_us=_whole(body["deadline_us"]),
        late_window_us=None if late is None else _whole(late),
        key_fields=_texts(body["key_fields"]),
        key_kept_us=_whole(body["key_kept_us"]),
        principals=_texts(body["principals"]),
        scopes=_texts(body.get("scopes", [])),
        redact=_texts(body["redact"]),
        tell=_texts(body["tell"]),
        unverifiable=str(body["unverifiable"]),
        proves=str(body["proves"]),
        has_find=body["find"] is True,
        has_lookup=body["lookup"] is True,
        has_compensation=body["compensate"] is True,
        has_rollback=body["rollback"] is True,
        freeze=tuple(FreezeScope(each) for each in _texts(body["freeze"])),
        schema_hash=str(body["arguments"]),
        assumed=_texts(body.get("assumed", [])),
        verifiers=str(body.get("verifiers", "")),
        approval=_approval(body.get("approval")),
        watch=_watch(body.get("watch")),
        mode=Mode(str(body["mode"])) if "mode" in body else None,
        find_terms=_reader(_object(body["find_by"])) if "find_by" in body else None,
        find_complete=body.get("find_complete") is True,
        lookup_terms=_reader(_object(body["lookup_by"])) if "lookup_by" in body else None,
        names_before=any("before" in mentioned(check) for check in (*require, *ensure, *fails_when)),
        hash=digest,
    )


def _reader(raw: Mapping[str, Json]) -> ReaderTerms:
    return ReaderTerms(
        str(raw["name"]),
        str(raw["source"]),
        Consistency(str(raw["consistency"])),
        Independence(str(raw["independence"])),
        _whole(raw["timeout_us"]),
        raw.get("whole_region") is True,
        raw.get("declared") is not False,
    )


def _approval(raw: Json) -> ApprovalTerms | None:
    if raw is None:
        return None
    terms = _object(raw)
    return ApprovalTerms(
        people=_whole(terms["people"]), expires_us=_whole(terms["expires_us"]), when=str(terms["when"])
    )


def _watch(raw: Json) -> WatchTerms | None:
    if raw is None:
        return None
    terms = _object(raw)
    after, every, long = (_whole(terms[name]) for name in ("after_us", "every_us", "for_us"))
    return WatchTerms(after, every, long, _texts(terms["ensure"]))


def _object(raw: Json) -> Mapping[str, Json]:
    if not isinstance(raw, dict):
        raise TypeError("an object was expected")
    return raw


def _list(raw: Json) -> list[Json]:
    if not isinstance(raw, list):
        raise TypeError("a list was expected")
    return raw


def _texts(raw: Json) -> tuple[str, ...]:
    return tuple(str(each) for each in _list(raw))


def _whole(raw: Json) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool):
        raise TypeError("a whole number was expected")
    return raw
