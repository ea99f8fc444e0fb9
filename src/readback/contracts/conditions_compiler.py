"""Compiles postconditions, preconditions and identity into checks: expressions compiled, callables inspected.

Called by compile. Nothing is evaluated; a condition that does not compile becomes a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from readback.canon.frozen import dataclass
from readback.contracts.functions.conditions import inspected
from readback.contracts.functions.verifiers import Invariant
from readback.contracts.problems import Problems, did_you_mean
from readback.domain.contract.contract import IDENTITY_KEYS, NOT_OFFERED
from readback.domain.normal_form import NormalForm
from readback.domain.predicate import Postcondition
from readback.engine.compiled_contract import Check, IdentityCheck
from readback.errors import (
    ContractError,
    ContractFieldError,
    ExpressionError,
    MissingPostconditionError,
)
from readback.ports.predicates import Predicate, PredicateEngine

NO_ROOTS: Final = frozenset[str]()
NOT_YET: Final = frozenset({"observed", "authoritative"})
"""Roots without a value before the action runs."""
NOT_ASKED: Final = frozenset({"observed", "authoritative", "before"})
"""Roots unable to state the expected version: only the request and the intent can."""
NOT_SYSTEM: Final = frozenset({"requested", "intended", "observed"})
"""Roots forbidden in an invariant: an invariant is about the system, independent of the request."""
_BY_THEMSELVES: Final = frozenset({"region", "account", "permission_scope"})
NO_FORMS: Final[Mapping[str, NormalForm]] = MappingProxyType({})


def column_of(predicate: Predicate, root: str, name: str = "") -> int:
    """Return the column of the first mention of a root, or of a field right below; 0 without a mention."""
    for path in predicate.mentions:
        if path.root == root and (not name or path.steps[1:2] == (name,)):
            return path.column
    return 0


@dataclass(frozen=True, slots=True)
class Clauses:
    """Compiles the conditions of one contract. `arguments`: the names below `requested`."""

    predicates: PredicateEngine
    arguments: Collection[str]
    problems: Problems

    def checks(
        self, key: str, conditions: Mapping[str, object], forbidden: frozenset[str] = NO_ROOTS
    ) -> tuple[Check, ...]:
        """Compile named conditions without groups."""
        made = [self._check(f"{key}.{name}", name, each, forbidden, None) for name, each in conditions.items()]
        return tuple(check for check in made if check is not None)

    def ensure(self, conditions: Mapping[str, object]) -> tuple[Check, ...]:
        """Compile named conditions, or effect groups of conditions; each group has to mention the system of record.

        A condition in a group is called `group.name`.
        """
        made: list[Check] = []
        for name, each in conditions.items():
            key = f"ensure.{name}"
            if not isinstance(each, Mapping):
                made += self.checks("ensure", {name: each})
                continue
            grouped = [
                self._check(f"{key}.{inner}", f"{name}.{inner}", condition, NO_ROOTS, name)
                for inner, condition in each.items()
            ]
            whole = [check for check in grouped if check is not None]
            self._looks(key, whole, complete=len(whole) == len(each))
            made += whole
        self._single_names(made)
        loose = [check for check in made if check.postcondition.group is None]
        if loose or not made:
            self._looks("ensure", loose, complete=not self.problems.found)
        return tuple(made)

    def identity(
        self, mapped: Mapping[str, str], forms: Mapping[str, NormalForm] = NO_FORMS
    ) -> tuple[IdentityCheck, ...]:
        """Compile expressions for the identity of a reading: a found value, or a full comparison. `forms`: the
        comparison rules of found values, where the contract has any.
        """
        made: list[IdentityCheck] = []
        for name, source in mapped.items():
            key = f"identity.{name}"
            if name not in IDENTITY_KEYS:
                reason = f"Unknown identity key.{did_you_mean(name, IDENTITY_KEYS)}"
                self.problems.add(key, ContractFieldError(reason))
                continue
            if source == NOT_OFFERED:
                continue
            boolean = self._compares(source)
            predicate = self.expression(key, source, boolean=boolean)
            if predicate is None:
                continue
            made.append(IdentityCheck(name, predicate, boolean, forms.get(name), _field(predicate)))
            if boolean and name in forms:
                reason = "The expression already compares. Use `as` only with an expression for the found value."
                self.problems.add(f"{key}.as", ContractFieldError(reason))
            if "authoritative" not in roots_of(predicate):
                reason = "It does not look at `authoritative`, so it would say of every reading that it is ours."
                self.problems.add(key, ContractFieldError(reason))
            elif name in _BY_THEMSELVES and not boolean and name not in self.arguments:
                reason = f"There is no argument {name!r} for the comparison. Write the comparison with `==`."
                self.problems.add(key, ContractFieldError(reason))
        return tuple(made)

    def expression(
        self, key: str, source: str, *, boolean: bool = True, forbidden: frozenset[str] = NO_ROOTS
    ) -> Predicate | None:
        """Compile an expression; None, with a problem, if invalid."""
        try:
            predicate = self.predicates.compile(source, boolean=boolean)
        except ExpressionError as error:
            self.problems.add(key, error)
            return None
        for root in sorted(roots_of(predicate) & forbidden):
            self.problems.add(key, _misplaced(source, root))
        for name in sorted(fields_of(predicate, "requested") - set(self.arguments)):
            reason = f"The action has no argument {name!r}.{did_you_mean(name, self.arguments)}"
            column = column_of(predicate, "requested", name)
            self.problems.add(
                key, ExpressionError(reason, source=source, column=column, code="expression.unknown-name")
            )
        return predicate

    def _check(
        self, key: str, name: str, condition: object, forbidden: frozenset[str], group: str | None
    ) -> Check | None:
        if isinstance(condition, Invariant):
            roots = forbidden if condition.probe is not None else forbidden | NOT_SYSTEM
            predicate = self.expression(key, condition.postcondition, forbidden=roots)
            return _by_expression(name, predicate, group)
        if isinstance(condition, str):
            return _by_expression(name, self.expression(key, condition, forbidden=forbidden), group)
        if callable(condition):
            return self._by_callable(key, name, condition, forbidden, group)
        reason = f"Must be an expression or a callable (got {condition!r:.40})."
        self.problems.add(key, ContractFieldError(reason))
        return None

    def _by_callable(
        self, key: str, name: str, check: Callable[..., object], forbidden: frozenset[str], group: str | None
    ) -> Check | None:
        try:
            known = inspected(check)
        except ContractError as error:
            self.problems.add(key, error)
            return None
        for root in known.parameters:
            if root in forbidden:
                self.problems.add(key, _misplaced(known.name, root))
        made = Postcondition(name, "", check, known.name, known.version, group)
        return Check(made, None, check, known.parameters)

    def _looks(self, key: str, checks: list[Check], *, complete: bool) -> None:
        """Add a problem for a condition on the request or the answer alone: such a condition verifies nothing."""
        if not complete or any("authoritative" in mentioned(check) for check in checks):
            return
        reason = (
            "Nothing here looks at `authoritative`: what was asked, or what the tool answered, proves nothing."
            if checks
            else "The contract has no postcondition."
        )
        self.problems.add(key, MissingPostconditionError(reason))

    def _single_names(self, checks: list[Check]) -> None:
        names = [check.postcondition.name for check in checks]
        for name in sorted({each for each in names if names.count(each) > 1}):
            self.problems.add(f"ensure.{name}", ContractFieldError("Two postconditions have this name."))

    def _compares(self, source: str) -> bool:
        """Return whether an expression can only be true or false. Any other expression gives the found value."""
        try:
            return self.predicates.compile(source, boolean=True).always_boolean
        except ExpressionError:
            return False


def _by_expression(name: str, predicate: Predicate | None, group: str | None) -> Check | None:
    if predicate is None:
        return None
    return Check(Postcondition(name, predicate.source, group=group), predicate)


def mentioned(check: Check) -> frozenset[str]:
    """Return the roots judged by a check."""
    return frozenset(check.parameters) if check.predicate is None else roots_of(check.predicate)


def _field(predicate: Predicate) -> str:
    """Return the dotted path below `authoritative` if the expression is one; "" for another expression."""
    whole = predicate.whole
    if whole is None or whole.root != "authoritative" or not all(isinstance(step, str) for step in whole.steps):
        return ""
    return ".".join(str(step) for step in whole.steps[1:])


def names_state(checks: Collection[Check]) -> bool:
    """Return whether postconditions name a state as the goal, so that a state present before the action may be
    accepted.

    They do where a clause judges fields of the state without the earlier state: `authoritative.status ==
    requested.status`. A clause with `before` names a change. A clause about presence alone guards the other clauses,
    and is the goal only without others.
    """
    changes = [check for check in checks if "before" in mentioned(check)]
    states = [check for check in checks if "authoritative" in mentioned(check) and check not in changes]
    return not changes or any(check.predicate is None or _looks_inside(check.predicate) for check in states)


def _looks_inside(predicate: Predicate) -> bool:
    """Return whether the clause judges more than the presence of the object."""
    return any(len(path.steps) > 1 for path in predicate.paths)


def roots_of(predicate: Predicate) -> frozenset[str]:
    """Return the roots mentioned in an expression."""
    return frozenset(path.root for path in predicate.paths)


def fields_of(predicate: Predicate, root: str) -> frozenset[str]:
    """Return the first names under a root in an expression."""
    found = [path.steps[1] for path in predicate.paths if path.root == root and len(path.steps) > 1]
    return frozenset(step for step in found if isinstance(step, str))


def _misplaced(source: str, root: str) -> ExpressionError:
    why = {
        "authoritative": "there is no reading yet; use `before` for the reading before execution",
        "observed": "the tool's answer decides nothing here",
        "before": "the expectation must come from the request or the intent",
    }.get(root, "an invariant is about the system, independent of the request")
    return ExpressionError(f"{root!r} is not allowed here: {why}.", source=source, code="expression.unknown-name")
