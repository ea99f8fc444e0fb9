"""A contract's verdict on given states: for unit tests of contracts, without a system, a clock or a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from readback.canon import Json, json_value
from readback.canon.frozen import dataclass
from readback.domain.predicate import Evaluation, Truth, conjoin
from readback.domain.verdict import Verdict
from readback.domain.verification.reading import Presence, Reading
from readback.engine.compiled_contract import CompiledContract
from readback.engine.stages.evaluate import evaluate
from readback.errors import HonestyError


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The verdict on given states. An Evaluated has no truth value: read `verdict`, or `truth(name)`.

    Attribution, freshness and the identity of readers need a real run.
    """

    verdict: Verdict
    ensure: tuple[Evaluation, ...]
    require: tuple[Evaluation, ...]
    fails_when: tuple[Evaluation, ...]

    def truth(self, name: str) -> Truth:
        """Return the truth of one clause by name (`group.name` within a group). Raises KeyError."""
        for each in (*self.ensure, *self.require, *self.fails_when):
            if each.name == name:
                return each.truth
        raise KeyError(name)

    @property
    def failed(self) -> bool:
        """Whether a terminal failure (`fails_when`) holds."""
        return any(each.truth is Truth.HOLDS for each in self.fails_when)

    def __bool__(self) -> NoReturn:
        raise HonestyError("An evaluation has no truth value. Read `verdict` or `truth(name)`.")


def judge(plan: CompiledContract, states: Mapping[str, object]) -> Evaluated:
    """Evaluate all clauses over states by root name. A Reading stands for its value, an absent one for null.

    A reading without content (not visible, unavailable) leaves every postcondition undetermined.
    """
    variables: dict[str, Json] = {root: _state(value) for root, value in states.items() if value is not None}
    for root in ("intended", "requested", "observed", "before", "authoritative", "scope"):
        variables.setdefault(root, None)
    if variables["intended"] is None:
        variables["intended"] = variables["requested"]
    binding = plan.predicates.bind(variables)
    ensure = tuple(evaluate(check, binding, variables) for check in plan.ensure)
    return Evaluated(
        _VERDICT[Truth.UNDETERMINED if _blind(states) else conjoin(each.truth for each in ensure)],
        ensure,
        tuple(evaluate(check, binding, variables) for check in plan.require),
        tuple(evaluate(check, binding, variables) for check in plan.fails_when),
    )


def _state(value: object) -> Json:
    return json_value(value.value) if isinstance(value, Reading) else json_value(value)


def _blind(states: Mapping[str, object]) -> bool:
    seen = states.get("authoritative")
    return isinstance(seen, Reading) and seen.presence in (Presence.NOT_VISIBLE, Presence.UNAVAILABLE)


_VERDICT = {
    Truth.HOLDS: Verdict.VERIFIED,
    Truth.VIOLATED: Verdict.REFUTED,
    Truth.UNDETERMINED: Verdict.UNDETERMINED,
}
