"""The demands of a side-effect class and a kind on a contract, checked at load.

Called by compile, after every key has its type. Each rule is one function; a rule reports and decides nothing else.

Source: the action verification specification, "Verification Depth"; the rules of ARCHITECTURE on attribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from readback.contracts.options import Options
from readback.contracts.problems import Problems, did_you_mean
from readback.domain.contract.contract import NOT_OFFERED, Noop, ReaderTerms
from readback.domain.kind import Kind
from readback.domain.predicate import Path
from readback.domain.side_effect import Consistency, Depth, SideEffect
from readback.errors import ContractFieldError, MissingReaderError, WeakReaderError


def _may_be_replica(options: Options, each: ReaderTerms, attributed: frozenset[str]) -> bool:
    """A declared replica verifies an ephemeral write only through the stamp: two readings have to show the stamp, and
    the object must not have been there before.
    """
    if options.side_effect is not SideEffect.EPHEMERAL_WRITE or each.consistency is not Consistency.REPLICA:
        return False
    return each.name in attributed and options.kind in (Kind.SET, Kind.CREATE, Kind.SEND)


def check_readers(
    options: Options,
    terms: tuple[ReaderTerms, ...],
    depth: Depth,
    problems: Problems,
    attributed: frozenset[str] = frozenset(),
) -> None:
    """Require enough readers, strong and independent enough; or none, with the reason."""
    if options.unverifiable:
        if terms and (depth.quorum_min <= 1 or len({each.source for each in terms}) >= depth.quorum_min):
            reason = "`unverifiable` replaces readers, but the contract has readers. Remove one of them."
            problems.add("unverifiable", ContractFieldError(reason))
        return  # fewer sources than the class asks for verify nothing: what they show is for the person who decides
    if not terms:
        problems.add("readers", MissingReaderError("Nothing reads the system of record."))
        return
    names = [each.name for each in terms]
    for name in sorted({each for each in names if names.count(each) > 1}):
        problems.add(f"readers.{name}", ContractFieldError("Two readers have this name. Give one another `name=`."))
    quorum = depth.quorum_min if options.quorum is None else options.quorum
    if quorum < depth.quorum_min:
        reason = f"{depth.side_effect.value} needs {depth.quorum_min} agreeing readings (got {quorum})."
        problems.add("quorum", WeakReaderError(reason))
    kept = tuple(each for each in terms if not _may_be_replica(options, each, attributed))
    if max(quorum, depth.quorum_min) <= 1:  # a reader that declares nothing may inform alone: it verifies nothing
        kept = tuple(each for each in kept if each.declared)
    if kept or not terms:
        _enough(kept, max(quorum, depth.quorum_min), depth, problems)


def check_searches(find: ReaderTerms | None, lookup: ReaderTerms | None, depth: Depth, problems: Problems) -> None:
    """Check the declarations of a search and of a look-up by key: an accepted path, and a strong search."""
    for key, terms in (("find", find), ("lookup", lookup)):
        if terms is not None and terms.independence.rank < depth.minimum_independence.rank:
            problems.add(key, WeakReaderError(_too_near(terms, depth)))
    if find is not None and find.consistency is not Consistency.STRONG:
        reason = (
            f"It is {find.consistency.value}, and what a search does not show counts as not there: say "
            "`consistency: strong` where it shows whatever was written, and else leave it out."
        )
        problems.add("find", WeakReaderError(reason))


def _enough(terms: tuple[ReaderTerms, ...], quorum: int, depth: Depth, problems: Problems) -> None:
    weak = {each.name: why for each in terms if (why := _weakness(each, depth))}
    strong = len(terms) - len(weak)
    if strong >= quorum:
        sources = {each.source for each in terms if each.name not in weak}
        if depth.quorum_min > 1 and len(sources) < quorum:
            reason = f"{depth.side_effect.value} needs {quorum} agreeing sources (got {len(sources)})."
            problems.add("readers", WeakReaderError(reason))
        return
    if len(terms) < quorum:
        reason = f"{depth.side_effect.value} needs {quorum} agreeing readers (got {len(terms)})."
        error = MissingReaderError if strong == len(terms) else WeakReaderError
        problems.add("readers", error(reason))
    for name, why in weak.items():
        problems.add(f"readers.{name}", WeakReaderError(why))


def _weakness(terms: ReaderTerms, depth: Depth) -> str:
    """Return why a reading by this reader would not count for this class; empty if a reading counts."""
    if terms.independence.rank < depth.minimum_independence.rank:
        return _too_near(terms, depth)
    if terms.consistency.rank < depth.minimum_consistency.rank:
        return (
            f"It is {terms.consistency.value}; {depth.side_effect.value} needs at least "
            f"{depth.minimum_consistency.value}."
        )
    return ""


def _too_near(terms: ReaderTerms, depth: Depth) -> str:
    return (
        f"Its path is {terms.independence.value}; {depth.side_effect.value} needs at least "
        f"{depth.minimum_independence.value}."
    )


def check_identity(options: Options, depth: Depth, problems: Problems) -> None:
    """Require each identity key of the class as mapped or declared missing; the essential keys must be mapped."""
    if options.unverifiable:
        return
    for key in depth.identity_required:
        mapped = options.identity.get(key)
        if mapped is None:
            reason = f"{depth.side_effect.value} needs this key. Map the key, or write 'not_offered'."
            if key in depth.identity_essential:
                reason = f"{depth.side_effect.value} cannot be verified without it: map it onto the reading."
            problems.add(f"identity.{key}", ContractFieldError(reason))
        elif mapped == NOT_OFFERED and key in depth.identity_essential:
            reason = f"The class {depth.side_effect.value} needs this key; 'not_offered' is not allowed."
            problems.add(f"identity.{key}", ContractFieldError(reason))


def _check_noop(options: Options, kind: Kind, side_effect: SideEffect, problems: Problems) -> None:
    noop, key = options.noop, options.noop_key
    if noop is None:
        return
    if noop is not Noop.EQUIVALENT:
        if kind.needs_ours:
            reason = f"A {kind.value} counts only as our own effect, so an earlier state cannot be accepted."
            problems.add(key, ContractFieldError(reason))
    elif not kind.needs_ours:
        reason = f"The effects of a {kind.value} are not counted, so duplicates cannot be detected."
        problems.add(key, ContractFieldError(reason))
    elif side_effect.rank >= SideEffect.HIGH_RISK_EXTERNAL.rank:
        reason = f"A second effect of a {side_effect.value} is always an incident."
        problems.add(key, ContractFieldError(reason))


def check_kind(options: Options, attributed: bool, problems: Problems) -> None:
    """Check the kind's demands.

    `attributed`: a part of the contract besides `identity` shows the author of an effect.
    """
    kind, side_effect = options.kind, options.side_effect
    assert kind is not None
    assert side_effect is not None
    if kind.mutates is (side_effect is SideEffect.READ_ONLY):
        other = "kind 'read'" if kind.mutates else "the class 'read_only'"
        problems.add("kind", ContractFieldError(f"{kind.value} and {side_effect.value} contradict; use {other}."))
    if options.proves and kind is not Kind.SEND:
        problems.add("proves", ContractFieldError("Only a contract of kind 'send' states what a reading proves."))
    _check_noop(options, kind, side_effect, problems)
    if options.expected_version and options.identity.get("version") == NOT_OFFERED:
        reason = "The comparison needs the source's version, but `identity.version` is 'not_offered'."
        problems.add("expected_version", ContractFieldError(reason))
    stamped = options.identity.get("stamp", NOT_OFFERED) != NOT_OFFERED
    if kind.needs_ours and not options.unverifiable and not (stamped or attributed):
        reason = (
            f"A {kind.value} is verified only where it is shown to be our doing, and nothing could show it. Map "
            "`identity.stamp` onto the reading, or add `.find` or `.lookup` (in a file: `find:` or `lookup:`), or "
            "declare a reader with `attributes=True` (in a file: `attributes: true`) that returns `stamp=`."
        )
        problems.add("identity.stamp", ContractFieldError(reason))


def check_key(options: Options, keyless: str, problems: Problems) -> None:
    """Refuse `honours_key` for a key that does not reach the tool. `keyless`: the reason."""
    if options.honours_key and keyless:
        reason = f"{keyless} Pass it on, or leave `honours_key` out: the tool cannot honour a key that it is not given."
        problems.add("execute.honours_key", ContractFieldError(reason))


def check_times(options: Options, times: Mapping[str, int], problems: Problems) -> None:
    """Check that window, deadline and polls are consistent. `times`: `within` and `deadline` in force."""
    within, deadline = times["within"], times["deadline"]
    if deadline < within:
        problems.add("deadline", ContractFieldError("The deadline is before the end of `within`."))
    if options.stable_for_us > deadline:
        problems.add("stable_for", ContractFieldError("The time is longer than the deadline allows."))
    if options.polls_us is not None and sum(options.polls_us) > deadline:
        problems.add("polls", ContractFieldError("Together the times are longer than the deadline allows."))


def check_watch(
    options: Options, asked: Mapping[str, tuple[Path, ...]], hidden: frozenset[str], problems: Problems
) -> None:
    """Check that watched postconditions can be read and judged later, and belong to the change. `asked`: the contract's
    postconditions with the required paths of each; `hidden`: paths stored only as redacted.
    """
    if options.watch is None:
        return
    if options.unverifiable:
        problems.add("watch", ContractFieldError("A watch needs readings, and the contract has no reader."))
    if options.kind is Kind.READ:
        problems.add("watch", ContractFieldError("A read has no later state to watch."))
    for name in options.watch.ensure:
        if name not in asked:
            reason = f"There is no postcondition {name!r:.60}.{did_you_mean(name, asked)}"
            problems.add("watch.ensure", ContractFieldError(reason))
    for name in options.watch.ensure or asked:
        for path in asked.get(name, ()):
            if path.root != "authoritative" and covered(path.dotted, hidden):
                reason = f"{name!r:.60} needs {path.text!r:.80}, which is redacted. Name other postconditions."
                problems.add("watch", ContractFieldError(reason))


def check_secrets(options: Options, named: frozenset[str], problems: Problems) -> None:
    """Refuse redacted values in stored or reported places. `named`: arguments in the target."""
    hidden = hidden_under(options.redact, "requested", "intended")
    for name in options.key_fields:
        if covered(name, hidden):
            problems.add("key_fields", ContractFieldError(f"{name!r} is redacted, but a key's fields are stored."))
    for name in sorted(named):
        if covered(name, hidden):
            problems.add("target", ContractFieldError(f"{name!r} is redacted, but the target is stored."))
    secret = hidden_under(options.redact, "authoritative", "before")
    for path in options.tell:
        if covered(path.removeprefix("before."), secret):
            problems.add("tell", ContractFieldError(f"{path!r} is redacted, but would be reported."))


def hidden_under(redact: Iterable[str], *roots: str) -> set[str]:
    """Return the redacted paths under one of these paired roots: a path hidden in one root is hidden in the other."""
    found = [path.partition(".") for path in redact]
    return {rest for root, _, rest in found if root in roots}


def covered(path: str, hidden: AbstractSet[str]) -> bool:
    """Return whether a path is hidden, below a hidden path, or above one."""
    return any(path == h or path.startswith(f"{h}.") or h.startswith(f"{path}.") for h in hidden)
