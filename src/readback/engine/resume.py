"""Resume: fold the ledger, load the referenced evidence, and return a run to the engine.

Called by the coordinator (for a waiting caller) and by workers (for due actions). Recovery after a crash is the normal
path: this module does not know whether the previous process died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NoReturn

from readback.canon import Json, UnsupportedValueError, parse_json
from readback.domain.action.action import Action
from readback.domain.events import ParsedEnvelope, open_envelope
from readback.domain.predicate import Path
from readback.domain.state import State
from readback.domain.verification.change import is_withheld
from readback.domain.verification.observation import Observation
from readback.domain.verification.reading import Lookup
from readback.domain.verification.reconciliation import EvaluatedReading
from readback.engine.compiled_contract import CallerContext, CompiledContract, Request
from readback.engine.effects import Effects, Load
from readback.engine.entries.reading import taken_as_recorded
from readback.engine.run import REDACTED, Run
from readback.engine.stages.evaluate import judge_reading
from readback.errors import ContractChangedError, NotFoundError, StoreCorruptError
from readback.ports.storage.store import StoredEvent

PlanOf = Callable[[str], CompiledContract | None]
"""Returns the plan of a contract by name, or by hash for kept versions; None if not loaded in this process."""


def plan_for(action: Action, plans: PlanOf) -> CompiledContract | None:
    """The plan of an action. If the contract has changed, the plan of the original version, if kept."""
    plan = plans(action.contract)
    if plan is None or plan.contract.hash == action.contract_hash:
        return plan
    return plans(action.contract_hash) or plan


def fold(events: Iterable[StoredEvent]) -> Action | None:
    """The action of these events, or None without events. Raises StoreCorruptError for inconsistent events."""
    return fold_opened((open_envelope(stored.envelope), stored.leaf) for stored in events)


def fold_opened(events: Iterable[tuple[ParsedEnvelope, bytes]]) -> Action | None:
    """The same for already opened events, each with its leaf hash."""
    action: Action | None = None
    for opened, leaf in events:
        if action is None:
            action = Action(opened.action_id, opened.tenant)
        if opened.version != action.version + 1 or opened.previous != action.head:
            raise StoreCorruptError(f"Action {action.id} has a gap or a false link at version {opened.version}.")
        action.apply(opened.event, leaf.hex())
    return action


def woken(action: Action | None, due_us: int | None) -> Action | None:
    """The action with the store's current due time: a signal moves the due time forward without an event."""
    if action is not None and action.due_us is not None and due_us is not None:
        action.due_us = min(action.due_us, due_us)
    return action


def revive(
    action: Action, plans: PlanOf, owner: str, fence: int, given: Request | None = None, break_glass: str = ""
) -> Effects[Run]:
    """The run of a leased action. Raises ContractChangedError if the contract has changed.

    `given`: the same request, repeated by a caller with the redacted values.
    """
    plan = plan_for(action, plans)
    if plan is None:
        raise not_loaded(action)
    if plan.contract.hash != action.contract_hash:
        raise changed(action, plan)
    request = yield from _load(action, action.request_ref)
    if not isinstance(request, dict) or not isinstance(request.get("requested"), dict):
        raise StoreCorruptError(
            f"The request of action {action.id} is missing from the evidence; the action cannot continue."
        )
    requested = request["requested"]
    assert isinstance(requested, dict)
    blind = frozenset(path.text for path in marks(requested, "requested"))
    arguments: Mapping[str, object] = _arguments_of(requested) if blind else plan.revive(requested)
    intended = request.get("intended")
    scope = _scope(action)
    if action.state is State.PROPOSED and isinstance(budget := request.get("budget"), dict):
        scope = replace(scope, budget=budget)  # the submitter's budget; later runs have none
    if given is not None:
        requested, arguments, blind = dict(given.requested), given.arguments, frozenset()
        scope = replace(scope, break_glass=break_glass)
    run = Run(
        plan,
        scope,
        action,
        arguments,
        requested,
        intended if isinstance(intended, dict) else None,
        owner,
        fence,
        action.version,
        blind=blind,
        kept=request,
        revived=True,
    )
    run.hands_out = given is not None and given.outside
    run.lookup = Lookup(action.lookup) if action.lookup else None
    if action.observation is not None:
        body = yield from _load(action, action.observation_ref)
        run.observation = Observation.from_envelope(action.observation, body)
    elif action.attempts and not action.attempt_open:
        run.observation = Observation.missing(action.ended_us)
    if action.before is not None:
        value = yield from _load(action, action.before_ref)
        run.before = judge_reading(plan, taken_as_recorded(action.before, value), run.variables())
    return run


def not_loaded(action: Action) -> NotFoundError:
    """The contract is not loaded here; a process with the contract can continue."""
    return NotFoundError(
        f"Contract {action.contract!r} of action {action.id} is not loaded here.",
        remedy="Run it where the contract is: pass the module with --contracts, or import it first.",
    )


def changed(action: Action, plan: CompiledContract) -> ContractChangedError:
    """An action keeps its original contract, and the loaded contract differs."""
    return ContractChangedError(
        f"Contract {action.contract!r} changed since action {action.id} began "
        f"(version {action.contract_version} then, {plan.contract.version} now).",
        remedy=f"Load the original version, or let a person decide: `readback explain {action.id}` says what is known.",
    )


def _scope(action: Action) -> CallerContext:
    context = {k: str(v) for k, v in action.context.items()}
    return CallerContext(
        action.tenant,
        action.principal,
        context.get("run", ""),
        context.get("plan", ""),
        context.get("task_state", ""),
        context.get("boundary", ""),
        context.get("trace", ""),
        parent_span=context.get("parent_span", ""),
        sampled=context.get("sampled") != "0",
    )


def marks(value: Json, root: str) -> Iterable[Path]:
    """Paths of the recorded request with only a redaction mark."""
    return _marks(value, Path((root,), root))


def _marks(value: Json, path: Path) -> Iterable[Path]:
    if isinstance(value, dict):
        if set(value) == {REDACTED}:
            yield path
            return
        for key, below in value.items():
            yield from _marks(below, Path((*path.steps, key), f"{path}.{key}"))
    elif isinstance(value, list):
        for place, below in enumerate(value):
            yield from _marks(below, Path((*path.steps, place), f"{path}[{place}]"))


def _load(action: Action, digest: str) -> Effects[Json]:
    if not digest:
        return None
    loaded = yield from Load(action.tenant, action.id, digest)
    return None if loaded is None else parse_json(loaded)


# --- arguments with redacted values ---
#
# A stand-in takes the place of a redacted value: it can be passed on, and not used. A usable mark would make a reader
# look for the wrong object and find nothing, and the result would count as absence.


class RedactedArgument:
    """Raises UnsupportedValueError on any use: the reading is then undetermined."""

    __slots__ = ()

    def _refuse(self, *_given: object) -> NoReturn:
        raise UnsupportedValueError("This argument is recorded as redacted only; its value is unknown.")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = __str__ = __repr__ = __format__ = __bool__ = __len__ = __iter__ = _refuse
    __getitem__ = __contains__ = __getattr__ = __int__ = __float__ = __index__ = __bytes__ = __fspath__ = _refuse
    __add__ = __radd__ = __mod__ = __rmod__ = __call__ = _refuse


WITHHELD = RedactedArgument()


def _arguments_of(requested: Mapping[str, Json]) -> dict[str, object]:
    """The recorded arguments, with a stand-in for each redaction mark."""
    return {name: _known(value) for name, value in requested.items()}


def _known(value: Json) -> object:
    if is_withheld(value):
        return WITHHELD
    if isinstance(value, dict):
        return _arguments_of(value)
    return [_known(part) for part in value] if isinstance(value, list) else value


__all__ = ["EvaluatedReading", "PlanOf", "changed", "fold", "marks", "not_loaded", "plan_for", "revive"]
