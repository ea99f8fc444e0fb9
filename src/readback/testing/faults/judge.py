"""The verdict on a played fault: the specified class and words, or a named hole.

Called by the failure-injection gate and by tests of a user's own contracts. A table states the permitted ends of each
fault. The truth of the world outranks the table: a success without exactly one right effect is a hole under any fault.

Source: the action verification specification, "Allowed user-facing status", "Discrepancy classes", "Unknown is not
success".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.contract.contract import Contract, Noop
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.reporting import MODEL_STATUS, USER_STATUS
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.domain.state import ReportKey
from readback.domain.verdict import Verdict
from readback.engine.compiled_contract import CompiledContract
from readback.testing.faults.fault import INJECTED, Fault, FaultWorld, NotInjectable, WorldMisfitError
from readback.testing.faults.play import Played, play

_D, _K = Discrepancy, ReportKey
_OPEN_KEYS: Final = frozenset({_K.UNKNOWN, _K.REVIEW, _K.ATTEMPTED, _K.PENDING, _K.RECONCILING})
_NOT_DONE_KEYS: Final = _OPEN_KEYS | {_K.FAILED, _K.PARTIAL, _K.COMPENSATED, _K.ROLLED_BACK}
_OPEN_CLASSES: Final = frozenset({None, _D.UNKNOWN_STATE, _D.PROPAGATION_DELAY, _D.UNVERIFIABLE_STATE})
_GONE_CLASSES: Final = _OPEN_CLASSES | {_D.NO_OP_FAILURE, _D.TARGET_MISSING, _D.VALUE_MISMATCH}


class Standing(StrEnum):
    """The result of an injection."""

    HELD = "held"
    """The contract named the fault, or stayed undetermined, as the specification demands."""
    HOLE = "hole"
    UNDETERMINED = "undetermined"
    """No world, an incomplete world, or an unfit world."""
    NOT_APPLICABLE = "not_applicable"
    """The fault has no meaning for this contract."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The permitted ends of a fault: verdicts, classes and report keys. `hole`: the stable code of a breach."""

    hole: str
    verdicts: frozenset[Verdict]
    classes: frozenset[Discrepancy | None]
    keys: frozenset[ReportKey]


_UNDETERMINED: Final = frozenset({Verdict.UNDETERMINED})
_NOT_VERIFIED: Final = frozenset({Verdict.UNDETERMINED, Verdict.REFUTED})

EXPECTED: Final[Mapping[Fault, Expected]] = MappingProxyType(
    {
        Fault.STALE_READ_DENIES: Expected("stale-denial-accepted", _UNDETERMINED, _OPEN_CLASSES, _OPEN_KEYS),
        Fault.STALE_READ_CONFIRMS: Expected(
            "stale-confirmation-accepted", _NOT_VERIFIED, _GONE_CLASSES, _NOT_DONE_KEYS
        ),
        Fault.TIMEOUT_BEFORE_COMMIT: Expected("timeout-accepted", _NOT_VERIFIED, _GONE_CLASSES, _NOT_DONE_KEYS),
        Fault.TIMEOUT_AFTER_COMMIT: Expected(
            "timeout-not-resolved", frozenset({Verdict.VERIFIED}), frozenset({None}), frozenset({_K.COMPLETED})
        ),
        Fault.DUPLICATE: Expected(
            "duplicate-accepted",
            _NOT_VERIFIED,
            frozenset({_D.DUPLICATE_SIDE_EFFECT, _D.VALUE_MISMATCH}),
            _NOT_DONE_KEYS,
        ),
        Fault.WRONG_TENANT: Expected(
            "wrong-tenant-accepted", _NOT_VERIFIED, _GONE_CLASSES | {_D.WRONG_TARGET_MODIFIED}, _NOT_DONE_KEYS
        ),
        Fault.WRONG_TENANT_READ: Expected(
            "wrong-tenant-accepted",
            _NOT_VERIFIED,
            frozenset({None, _D.UNKNOWN_STATE, _D.UNVERIFIABLE_STATE, _D.WRONG_TARGET_MODIFIED}),
            _NOT_DONE_KEYS,
        ),
        Fault.PARTIAL_COMMIT: Expected(
            "partial-commit-accepted",
            _NOT_VERIFIED,
            frozenset({_D.PARTIAL_APPLICATION, _D.VALUE_MISMATCH, _D.TARGET_MISSING, _D.UNKNOWN_STATE}),
            _NOT_DONE_KEYS,
        ),
        Fault.SOURCE_OUTAGE: Expected("outage-accepted", _UNDETERMINED, _OPEN_CLASSES, _OPEN_KEYS),
        Fault.BROKEN_VERIFIER: Expected("broken-verifier-accepted", _UNDETERMINED, _OPEN_CLASSES, _OPEN_KEYS),
    }
)
"""The permitted ends after each fault. A test proves the table total."""


@dataclass(frozen=True, slots=True)
class Injection:
    """The result of a fault on a contract. `code` is "held", or the name of the hole or of the open question.

    Example:
        >>> from readback import verified
        >>> from readback.testing import Fault, SimulatedWorld, inject
        >>> def switch_on(room: str) -> None: ...
        >>> switch = verified(switch_on, read=lambda room: None, strong=True, expect={"on": True}, within="10s")
        >>> world = SimulatedWorld(
        ...     "switch_on", arguments={"room": "hall"}, before={"on": False}, after={"on": True}
        ... )
        >>> injection = inject(switch.plan, world, Fault.STALE_READ_CONFIRMS)
        >>> print(injection.code, injection.verdict, injection.discrepancy)
        held undetermined unverifiable_state
    """

    contract: str
    fault: Fault
    standing: Standing
    code: str
    message: str
    state: str = ""
    verdict: str = ""
    discrepancy: str = ""
    row: str = ""
    words: str = ""
    calls: int = 0


def inject(
    plan: CompiledContract, world: FaultWorld | None, fault: Fault, table: RecoveryTable = DEFAULT_TABLE
) -> Injection:
    """Play a fault against a contract and judge the end.

    Args:
        plan: The compiled contract, such as `ship_order.plan`.
        world: The contract's world. None leaves the result undetermined.
        fault: The fault.
        table: The recovery table in force.

    Returns:
        The result. A hole, a missing world and a broken world are results, not errors.

    Example:
        >>> from readback import verified
        >>> from readback.testing import Fault, SimulatedWorld, inject
        >>> def switch_on(room: str) -> None: ...
        >>> switch = verified(switch_on, read=lambda room: None, strong=True, expect={"on": True}, within="10s")
        >>> world = SimulatedWorld(
        ...     "switch_on", arguments={"room": "hall"}, before={"on": False}, after={"on": True}
        ... )
        >>> inject(switch.plan, world, Fault.DUPLICATE).standing.value
        'held'
        >>> inject(switch.plan, None, Fault.DUPLICATE).code
        'no-world'
    """
    name = plan.contract.name
    if world is None:
        said = f"{name!r} has no simulated world. State one as a SimulatedWorld, or in a worlds file."
        return Injection(name, fault, Standing.UNDETERMINED, "no-world", said)
    try:
        played = play(plan, world, fault, table)
    except NotInjectable as none:
        if none.undetermined:
            return Injection(name, fault, Standing.UNDETERMINED, "world-incomplete", none.reason)
        return Injection(name, fault, Standing.NOT_APPLICABLE, "not-applicable", none.reason)
    except WorldMisfitError as misfit:
        return Injection(name, fault, Standing.UNDETERMINED, "world-misfit", f"{misfit.message} {misfit.remedy}")
    except ReadbackError as error:
        return Injection(name, fault, Standing.UNDETERMINED, "world-refused", f"{error.message} {error.remedy}")
    return judge(plan.contract, played)


def inject_all(
    plan: CompiledContract, world: FaultWorld | None, table: RecoveryTable = DEFAULT_TABLE
) -> tuple[Injection, ...]:
    """Play every fault against a contract. See `inject`.

    Example:
        >>> from readback import verified
        >>> from readback.testing import SimulatedWorld, inject_all
        >>> def switch_on(room: str) -> None: ...
        >>> switch = verified(switch_on, read=lambda room: None, strong=True, expect={"on": True}, within="10s")
        >>> world = SimulatedWorld(
        ...     "switch_on", arguments={"room": "hall"}, before={"on": False}, after={"on": True}
        ... )
        >>> sorted({injection.standing.value for injection in inject_all(switch.plan, world)})
        ['held', 'not_applicable']
    """
    return tuple(inject(plan, world, fault, table) for fault in INJECTED)


def judge(contract: Contract, played: Played) -> Injection:
    """Compare the end of a played fault with the truth and with the table."""
    told = played.outcome
    problem = next(_problems(contract, played), None)
    standing, code = (Standing.HELD, "held") if problem is None else (Standing.HOLE, problem[0])
    said = f"Ended as {told.state.value}: {told.message}" if problem is None else problem[1]
    return Injection(
        contract.name,
        played.fault,
        standing,
        code,
        said,
        told.state.value,
        told.verdict.value,
        "" if told.discrepancy is None else told.discrepancy.value,
        told.row,
        told.message,
        played.calls_after,
    )


def _problems(contract: Contract, played: Played) -> Iterator[tuple[str, str]]:
    """Yield every breach, the worst first, as a stable code and a message."""
    told, fault = played.outcome, played.fault
    expected = _expected(contract, fault)
    if told.verified and not _true(contract, played):
        yield expected.hole, _said(played, "The contract calls a run verified whose effect is not as required.")
    calls = played.calls if told.may_repeat else played.calls_after  # a permitted repetition is no second execution
    if calls > 1 and not contract.execution.honours_key:
        yield "executed-twice", _said(played, f"The tool was called {calls} times for one operation.")
    if told.may_repeat and (played.truth.right or played.truth.wrong) and not played.truth.reversed:
        if not (fault is Fault.WRONG_TENANT and not contract.has_find):
            yield "repeat-permitted", _said(played, "Repeating is permitted although an effect landed.")
    if told.verdict not in expected.verdicts:
        said = ", ".join(sorted(each.value for each in expected.verdicts))
        yield expected.hole, _said(played, f"The verdict is {told.verdict.value}; the specification names {said}.")
    if told.discrepancy not in expected.classes:
        named = ", ".join(sorted(each.value for each in expected.classes if each is not None)) or "none"
        found = "none" if told.discrepancy is None else told.discrepancy.value
        yield "class-misnamed", _said(played, f"The class is {found}; the specification names {named}.")
    if not _worded(told.message, told.for_model(), expected.keys):
        yield "words-misnamed", _said(played, f"The words are not those of the outcome: {told.message:.160}")


def _expected(contract: Contract, fault: Fault) -> Expected:
    """A second effect of an operation that sets a state leaves the same state: the duplicate may count as success."""
    expected = EXPECTED[fault]
    harmless = not contract.kind.counts_effects or contract.noop is Noop.EQUIVALENT
    if fault is Fault.DUPLICATE and harmless:
        return Expected(
            expected.hole,
            expected.verdicts | {Verdict.VERIFIED},
            expected.classes | {None, _D.NO_OP_SUCCESS},
            expected.keys | {_K.COMPLETED},
        )
    return expected


def _true(contract: Contract, played: Played) -> bool:
    """Whether the world confirms a success."""
    if played.truth.right is None or played.truth.wrong is None:
        return False
    harmless = not contract.kind.counts_effects or contract.noop is Noop.EQUIVALENT
    if played.fault is Fault.DUPLICATE and harmless:
        return played.truth.right == 1
    if not contract.kind.mutates:
        return played.fault is not Fault.WRONG_TENANT_READ
    return played.truth.right == 1 and played.truth.wrong == 0


def _worded(user: str, model: str, keys: frozenset[ReportKey]) -> bool:
    """Whether both texts begin with a permitted statement, the same for user and model."""
    return any(user.startswith(USER_STATUS[key]) and MODEL_STATUS[key] in model for key in keys)


def _said(played: Played, what: str) -> str:
    told = played.outcome
    return f"{what} Fault: {played.fault.value}. State: {told.state.value}, row {told.row or 'none'}."
