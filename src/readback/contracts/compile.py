"""Compiles an operator's keys and the handlers into an executable plan.

Called by the client for decorated functions, and by the loader of contract files: the keys are the same. All checks
without data happen here, and all faults of a contract are raised together. Nothing runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TypeVar

from readback.contracts import verification_levels
from readback.contracts.conditions_compiler import NOT_ASKED, NOT_YET, Clauses, mentioned, names_state
from readback.contracts.functions.callables import ContractParts, Reader, accepts
from readback.contracts.functions.verifiers import INVARIANTS_KEY, Invariant, probes_alone, with_probes
from readback.contracts.options import Options, microseconds, read_options
from readback.contracts.problems import Problems, did_you_mean
from readback.contracts.templates import Template, compile_template
from readback.domain.contract.approval import ApprovalTerms
from readback.domain.contract.contract import SECOND_US, Contract, Execution, Noop, ReaderTerms
from readback.domain.contract.freezing import DEFAULT_SCOPES
from readback.domain.idempotency import KEY_KEPT_US
from readback.domain.kind import Kind
from readback.domain.side_effect import Consistency, Independence, SideEffect, depth
from readback.engine.compiled_contract import Check, CompiledContract, IdentityCheck
from readback.errors import ContractError, ContractFieldError, EnvelopeProfileError, TemplateError
from readback.ports.handlers import Handler, Handlers
from readback.ports.predicates import Predicate, PredicateEngine

READER_TIMEOUT_US = 10 * SECOND_US
_NOTHING = Template("", ())
E = TypeVar("E", bound=StrEnum)


def compile_contract(
    options: Mapping[str, object], parts: ContractParts, predicates: PredicateEngine, problems: Problems | None = None
) -> CompiledContract:
    """Return the plan of a contract. Raises the first fault's child of ContractError, with all faults inside.

    `problems`: earlier faults, such as those of the arguments; they come first.
    """
    problems = problems or Problems()
    read = read_options(options, problems)
    clauses = Clauses(predicates, parts.arguments.names, problems)
    target = _target(read, parts, problems)
    identity = clauses.identity(read.identity, read.forms)
    require = clauses.checks("require", read.require, NOT_YET)
    expected = _expected_version(read, clauses)
    ensure = clauses.ensure(read.ensure)
    fails_when = clauses.checks("fails_when", read.fails_when)
    intermediate = clauses.checks("intermediate", read.intermediate)
    approval_when = _approval_when(read, clauses)
    readers = _with_invariants(read, (*parts.readers, *read.readers), problems)
    terms = tuple(_terms(each, problems) for each in readers)
    searches = _searches(read, parts, problems)
    _check_arguments(read, readers, parts, problems)
    _check_class(read, terms, readers, parts, target, problems)
    asked = {each.postcondition.name: each.predicate.paths if each.predicate else () for each in ensure}
    verification_levels.check_watch(read, asked, frozenset(_hidden_everywhere(read.redact)), problems)
    problems.raise_any(read.name or "unnamed")
    contract = _contract(read, parts, terms, identity, require, ensure, fails_when)
    midway = tuple(check.postcondition for check in intermediate)
    contract = replace(contract, find_terms=searches[0], lookup_terms=searches[1], intermediate=midway)
    arguments = parts.arguments.withholding(contract.redact)
    return CompiledContract(
        contract=_sealed(contract),
        predicates=predicates,
        target=target,
        identity=identity,
        require=require,
        ensure=ensure,
        fails_when=fails_when,
        intermediate=intermediate,
        expected_version=expected,
        revive=arguments.revive,
        bind=partial(arguments.bind, ()),
        hands=Handlers(
            parts.execute,
            tuple(Handler(each.name, each.look, each.is_async, each.glance, each.place) for each in readers),
            parts.find,
            parts.lookup,
            parts.rollback,
        ),
        compensation=parts.compensation,
        approval_when=approval_when,
    )


def _target(options: Options, parts: ContractParts, problems: Problems) -> Template:
    try:
        return compile_template(options.target, arguments=parts.arguments.names)
    except TemplateError as error:
        problems.add("target", error)
        return _NOTHING


def _expected_version(options: Options, clauses: Clauses) -> Predicate | None:
    if not options.expected_version:
        return None
    if options.unverifiable:
        reason = "A version is compared with a reading, and the contract has no reader."
        clauses.problems.add("expected_version", ContractFieldError(reason))
    return clauses.expression("expected_version", options.expected_version, boolean=False, forbidden=NOT_ASKED)


def _approval_when(options: Options, clauses: Clauses) -> Check | None:
    """Compile the condition for asking a person.

    The condition sees the request alone, so that its value never changes.
    """
    terms = options.approval
    if terms is None or not terms.when:
        return None
    if options.side_effect is SideEffect.CRITICAL_MUTATION:
        reason = "A critical mutation always needs an approval. Remove the condition."
        clauses.problems.add("approval.when", ContractFieldError(reason))
    made = clauses.checks("approval", {"when": terms.when}, NOT_ASKED)
    return made[0] if made else None


# --- readers -----------------------------------------------------------------------------------------------------


def _with_invariants(options: Options, readers: tuple[Reader, ...], problems: Problems) -> tuple[Reader, ...]:
    """Run probes beside every reading of the target; without a reader of the target, by themselves."""
    probes = tuple(_probes(options.ensure))
    if not probes:
        return readers
    if options.kind is Kind.DELETE:
        reason = "A probe stands beside a record, and a deleted one leaves none; say the invariant as an expression."
        problems.add("ensure", ContractFieldError(reason))
    try:
        whole = [with_probes(each, probes) for each in readers] if readers else [probes_alone(probes)]
    except ContractFieldError as error:
        problems.add("ensure", error)
        return readers
    return tuple(_weakened(each, probes, problems) for each in whole)


def _probes(conditions: Mapping[str, object]) -> list[Invariant]:
    found: list[Invariant] = []
    for each in conditions.values():
        if isinstance(each, Mapping):
            found += _probes(each)
        elif isinstance(each, Invariant) and each.probe is not None:
            found.append(each)
    return found


def _weakened(reader: Reader, probes: tuple[Invariant, ...], problems: Problems) -> Reader:
    """A reading with probes is as strong as its weakest part, and its time limit is the sum of all parts."""
    parts = [_terms(reader, problems)]
    for probe in probes:
        asked = replace(
            reader,
            source=probe.source,
            consistency=probe.consistency,
            independence=probe.independence,
            timeout=probe.timeout,
        )
        parts.append(_terms(asked, problems, f"ensure.{probe.name}"))
    return replace(
        reader,
        source=" + ".join(dict.fromkeys(part.source for part in parts if part.source)),
        declared=all(part.declared for part in parts),
        consistency=min((part.consistency for part in parts), key=lambda c: c.rank),
        independence=min((part.independence for part in parts), key=lambda i: i.rank),
        timeout=f"{sum(part.timeout_us for part in parts)}us",
    )


def _terms(reader: Reader, problems: Problems, key: str = "") -> ReaderTerms:
    name = reader.name
    key = key or f"readers.{name}"
    timeout = READER_TIMEOUT_US
    if reader.timeout is not None:
        try:
            timeout = microseconds(reader.timeout)
        except ContractFieldError as error:
            problems.add(f"{key}.timeout", error)
    return ReaderTerms(
        name,
        reader.source,
        _level(Consistency, Consistency.CACHED, reader.consistency, f"{key}.consistency", problems),
        _level(Independence, Independence.SAME_CALL, reader.independence, f"{key}.independence", problems),
        timeout,
        reader.whole_region,
        reader.declared,
    )


def _searches(
    options: Options, parts: ContractParts, problems: Problems
) -> tuple[ReaderTerms | None, ReaderTerms | None]:
    """Return the declarations of `find` and `lookup`; a declaration may not be weaker than the class's minimum."""
    find = None if parts.find_as is None else _terms(parts.find_as, problems, "find")
    lookup = None if parts.lookup_as is None else _terms(parts.lookup_as, problems, "lookup")
    if options.side_effect is not None:
        verification_levels.check_searches(find, lookup, depth(options.side_effect), problems)
    return find, lookup


def _level(kind: type[E], weakest: E, value: object, key: str, problems: Problems) -> E:
    for member in kind:
        if value == member.value:
            return member
    reason = f"{value!r:.40} is not a valid value.{did_you_mean(str(value), list(kind))}"
    problems.add(key, ContractFieldError(reason))
    return weakest


# --- the whole ---------------------------------------------------------------------------------------------------


def _check_arguments(options: Options, readers: tuple[Reader, ...], parts: ContractParts, problems: Problems) -> None:
    """Check that every named argument belongs to this action."""
    names = parts.arguments.names
    for each in readers:
        for name in each.parameters or ():
            if name not in names:
                reason = f"The handler names {name!r}, but this action has no such argument.{did_you_mean(name, names)}"
                problems.add(f"readers.{each.name}", ContractFieldError(reason))
        if each.parameters is None and each.function is not None:
            why = accepts(each.function, names)
            if why:
                problems.add(f"readers.{each.name}", ContractFieldError(why))
    for name in options.key_fields:
        if name not in names:
            reason = f"The action has no argument {name!r}.{did_you_mean(name, names)}"
            problems.add("key_fields", ContractFieldError(reason))
    for path in options.redact:
        root, _, rest = path.partition(".")
        if root == "requested" and rest.partition(".")[0] not in names:
            reason = f"The action has no argument {rest.partition('.')[0]!r}.{did_you_mean(rest, names)}"
            problems.add("redact", ContractFieldError(reason))


def _check_class(
    options: Options,
    terms: tuple[ReaderTerms, ...],
    readers: tuple[Reader, ...],
    parts: ContractParts,
    target: Template,
    problems: Problems,
) -> None:
    named = frozenset(path[1] for path in target.paths if path[0] in ("requested", "intended"))
    verification_levels.check_secrets(options, named, problems)
    if options.side_effect is None or options.kind is None:
        return
    row = depth(options.side_effect)
    stamping = frozenset(each.name for each in readers if each.attributes)
    verification_levels.check_readers(options, terms, row, problems, stamping)
    verification_levels.check_identity(options, row, problems)
    attributed = parts.find is not None or parts.lookup is not None or any(r.attributes for r in readers)
    verification_levels.check_kind(options, attributed, problems)
    verification_levels.check_key(options, parts.keyless, problems)
    within = options.within_us or row.default_within_us
    times = {"within": within, "deadline": options.deadline_us or within}
    verification_levels.check_times(options, times, problems)


def _contract(
    options: Options,
    parts: ContractParts,
    terms: tuple[ReaderTerms, ...],
    identity: tuple[IdentityCheck, ...],
    require: tuple[Check, ...],
    ensure: tuple[Check, ...],
    fails_when: tuple[Check, ...],
) -> Contract:
    """Return the contract's data, with the class's defaults for missing keys."""
    kind, side_effect = options.kind, options.side_effect
    assert kind is not None
    assert side_effect is not None
    row = depth(side_effect)
    within = options.within_us or row.default_within_us
    noop = options.noop or (Noop.ALLOW if kind is Kind.SET and names_state(ensure) else Noop.REFUSE)
    may_change = options.may_change
    if may_change is not None and _probes(options.ensure):
        may_change = (*may_change, INVARIANTS_KEY)
    return Contract(
        name=options.name,
        version=options.version,
        kind=kind,
        side_effect=side_effect,
        target=options.target,
        identity=tuple(options.identity.items()),
        forms=tuple(options.forms.items()),
        require=tuple(check.postcondition for check in require),
        expected_version=options.expected_version,
        execution=Execution(
            timeout_us=options.timeout_us or row.default_timeout_us,
            honours_key=options.honours_key,
            reversible=options.reversible is not False,
            key_valid_for_us=options.key_valid_for_us or 0,
        ),
        readers=terms,
        quorum=options.quorum or row.quorum_min,
        ensure=tuple(check.postcondition for check in ensure),
        fails_when=tuple(check.postcondition for check in fails_when),
        may_change=may_change,
        noop=noop,
        within_us=within,
        polls_us=options.polls_us or row.default_polls_us,
        stable_for_us=options.stable_for_us,
        deadline_us=options.deadline_us or within,
        late_window_us=options.late_window_us,
        key_fields=options.key_fields,
        key_kept_us=options.key_kept_us or KEY_KEPT_US,
        principals=options.principals,
        scopes=options.scopes,
        redact=_hidden_everywhere(options.redact),
        tell=options.tell,
        unverifiable=options.unverifiable,
        proves=options.proves or ("submitted" if kind is Kind.SEND else ""),
        has_find=parts.find is not None,
        find_complete=parts.find_complete,
        has_lookup=parts.lookup is not None,
        has_compensation=parts.compensation is not None,
        has_rollback=parts.rollback is not None,
        freeze=options.freeze or DEFAULT_SCOPES,
        schema_hash=parts.arguments.schema_hash,
        verifiers=parts.verifiers,
        assumed=(*parts.assumed, *(f"readers.{t.name}: nothing is declared of it" for t in terms if not t.declared)),
        approval=_approval(options),
        watch=options.watch,
        mode=options.mode,
        names_before=(noop is Noop.REFUSE and kind.compares_before)
        or any("before" in mentioned(check) for check in (*require, *ensure, *fails_when)),
    )


def _approval(options: Options) -> ApprovalTerms | None:
    """Return the approval terms; a critical mutation always needs approval."""
    if options.approval is None and options.side_effect is SideEffect.CRITICAL_MUTATION:
        return ApprovalTerms()
    return options.approval


def _hidden_everywhere(redact: tuple[str, ...]) -> tuple[str, ...]:
    """Hide a path in both states of a pair: a record before and after, a request and its goal."""
    found = dict.fromkeys(redact)
    for path in redact:
        root, _, rest = path.partition(".")
        found |= dict.fromkeys(f"{twin}.{rest}" for twin in _TWINS.get(root, ()))
    return tuple(found)


_TWINS = {
    "authoritative": ("before",),
    "before": ("authoritative",),
    "requested": ("intended",),
    "intended": ("requested",),
}


def _sealed(contract: Contract) -> Contract:
    """Add the hash of the contract's own content, so that an action names its starting contract."""
    try:
        return contract.sealed()
    except EnvelopeProfileError as error:
        raise ContractError(f"The contract {contract.name!r} is too large: {error.message}") from error
