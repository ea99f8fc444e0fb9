"""Audit of a saga: entries are folded again, ids recomputed, and links to actions followed.

Called by the audit for each stream that begins like a saga. It reports faults as sentences, and only reads the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Final

from readback.canon import Json, ReadbackError
from readback.domain.action.action import Action
from readback.domain.events import EventKind, ParsedEnvelope
from readback.domain.idempotency import key_hash
from readback.domain.saga.fold import CLOSED, KIND, Saga, contracts_hash, request_hash
from readback.engine.resume import fold
from readback.engine.saga.begin import asked_of
from readback.engine.saga_run import fold_saga, settled_key
from readback.engine.stages.execute import STAMP_PREFIX
from readback.ports.storage.store import KeyRecord, LedgerStore

_BEGUN: Final = EventKind.SAGA_BEGUN
Faults = Iterator[tuple[str, str]]
"""Code and sentence of each fault."""
Load = Callable[[str], Mapping[str, Json]]
"""Return evidence of the saga's tenant as an object, by digest. Empty if the bytes are gone; another check reports
this.
"""


def is_saga(opened: list[ParsedEnvelope]) -> bool:
    """Return whether a stream begins like a saga."""
    return bool(opened) and opened[0].event.kind is _BEGUN


def check_saga(store: LedgerStore, saga: Saga, opened: list[ParsedEnvelope], load: Load) -> Faults:
    """Check a saga apart from its projection, its evidence and the fold itself."""
    yield from (("action.identity", what) for what in _recomputed(saga, load))
    yield from (("saga.step", what) for what in _steps(store, saga, opened))
    yield from (("key", what) for what in _key(store, saga))


def check_member(store: LedgerStore, action: Action) -> Faults:
    """Check the announcement of an action by the saga named in the action."""
    named = str(action.context.get("saga", ""))
    if not named:
        return
    try:
        saga = fold_saga(store.events(named))
    except ReadbackError:
        return  # reported for the saga itself
    if saga is None or saga.tenant != action.tenant:
        yield "saga.member", f"Action {action.id} names saga {named}, which is not there."
    elif action.id not in saga.action_ids():
        yield "saga.member", f"Action {action.id} names saga {named}, and the saga never announced the action."


def _recomputed(saga: Saga, load: Load) -> Iterator[str]:
    if saga.stamp != STAMP_PREFIX + saga.id:
        yield f"Saga {saga.id} bears the stamp {saga.stamp!r}."
    if saga.key_hash != key_hash(saga.tenant, f"{KIND}:{saga.name}", saga.operation):
        yield f"Saga {saga.id} has a key that does not match its tenant, name and operation."
    if saga.contracts and saga.contracts != contracts_hash(saga.terms):
        yield f"Saga {saga.id} has a hash of contracts that does not match its steps."
    body = load(saga.definition_ref)
    steps = body.get("steps")
    if not isinstance(steps, list):
        return
    given = [step for step in steps if isinstance(step, dict)]
    asked = request_hash(saga.name, [asked_of(step) for step in given])
    if body.get("name") != saga.name or asked != saga.request_hash:
        yield f"Saga {saga.id} has a definition that does not match its request hash."
    for step, terms in zip(given, saga.terms, strict=False):
        if {key: step.get(key) for key in terms.as_json()} != terms.as_json():
            yield f"Saga {saga.id} has other terms of step {terms.name!r} than its definition."
    if len(given) != len(saga.terms):
        yield f"Saga {saga.id} has {len(saga.terms)} steps, and its definition {len(given)}."


def _steps(store: LedgerStore, saga: Saga, opened: list[ParsedEnvelope]) -> Iterator[str]:
    """Follow each link from an entry to an action."""
    latest: dict[tuple[str, str], str] = {}
    for one in opened:
        event = one.event
        if event.kind is not EventKind.SAGA_STEP or not event.data.get("action"):
            continue
        action_id, step = str(event.data["action"]), str(event.data["step"])
        what = str(event.data["what"])
        announced = _ANNOUNCED_BY.get(what, what)
        if latest.setdefault((step, announced), action_id) != action_id and announced != what:
            yield f"Saga {saga.id} names action {action_id} for step {step!r}, but announced another action."
        latest[step, announced] = action_id
        try:
            events = store.events(action_id)
            action = fold(events)
            effect = fold(store.events(latest.get((step, "begins"), ""))) if announced == "reverses" else None
        except ReadbackError:
            continue  # reported for the action itself
        if action is None:
            if what in ("ended", "reversed"):
                yield f"Saga {saga.id} names action {action_id} for step {step!r}, which is not there."
            continue  # announced, but not started
        yield from _link(saga, step, what, action, effect)
        head = event.data.get("head")
        if head and head not in [each.leaf.hex() for each in events]:
            yield f"Saga {saga.id} saw action {action_id} end in an entry the action does not have."


_ANNOUNCED_BY = {"ended": "begins", "reversed": "reverses"}


def _link(saga: Saga, step: str, what: str, action: Action, effect: Action | None) -> Iterator[str]:
    if action.tenant != saga.tenant:
        yield f"Saga {saga.id} names action {action.id}, which is another tenant's."
    if what in ("begins", "ended"):
        mine = action.context.get("saga") == saga.id and action.context.get("step") == step
        if not mine or action.operation != f"{saga.operation}/{step}":
            yield f"Saga {saga.id} names action {action.id} for step {step!r}, which says otherwise."
        return
    if effect is None or action.context.get("reverses") != effect.stamp:
        yield f"Saga {saga.id} names action {action.id} as the reversal of step {step!r}, which says otherwise."


def _key(store: LedgerStore, saga: Saga) -> Iterator[str]:
    record = store.key(saga.tenant, saga.key_hash)
    if record is None:
        yield f"The idempotency record of saga {saga.id} is not there."
        return
    if record.action_id != saga.id:
        other = store.projection(record.action_id)
        if other is None or other.projection.key_hash != saga.key_hash or saga.state not in CLOSED:
            yield f"The idempotency record of saga {saga.id} names {record.action_id}."
        return
    status, expires = settled_key(saga) or ("PENDING", 0)
    wanted = KeyRecord(saga.tenant, saga.key_hash, saga.request_hash, saga.id, status, saga.created_us, expires)
    for column in fields(KeyRecord):
        found, folded = getattr(record, column.name), getattr(wanted, column.name)
        if found != folded:
            yield f"The idempotency record of saga {saga.id} has {column.name} {found!r}; it has to be {folded!r}."
