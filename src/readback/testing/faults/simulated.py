"""A simulated world for a contract, made from the source's own readings before and after a call.

The author states two readings in the source's own form. The simulated tool turns the first into the second, and
each fault bends the effect, the answer or the view. The truth stays known.

Placeholders in the readings' texts: `{tenant}`, `{principal}`, `{target}`, `{stamp}`, `{key}`, `{operation}` and
`{requested.NAME}`. A text with nothing but a placeholder of the request keeps the value's type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.domain.kind import Kind
from readback.domain.predicate import Path, look
from readback.domain.side_effect import Consistency
from readback.domain.verification.reading import Lookup, Reading
from readback.engine.compiled_contract import Check, CompiledContract
from readback.errors import UsageError
from readback.ports.runtime import Runtime
from readback.testing.driver_virtual import CallHangs
from readback.testing.faults.fault import Fault, NotInjectable, Truth
from readback.testing.world import Place, World

OTHER_TENANT: Final = "another-tenant"
_PLACEHOLDER: Final = re.compile(r"\{(tenant|principal|target|stamp|key|operation|requested\.[A-Za-z_][A-Za-z0-9_]*)\}")
_EQUAL: Final = re.compile(r"\s*authoritative\.\w+\s*==\s*(?:requested|intended)\.\w+\s*")
"""A field set to an argument of the call."""
_ELSEWHERE: Final = (Fault.WRONG_TENANT, Fault.WRONG_TENANT_READ)


@dataclass(frozen=True, slots=True)
class SimulatedWorld:
    """A contract's system of record, as data.

    Attributes:
        contract: The contract's name.
        arguments: The arguments of a call.
        before: The reading's value before the call; None without an object.
        after: The reading's value after exactly one effect; None where the object is gone.
        twice: The value after two effects, for adding and appending contracts. Other kinds need none.
        partial: The value after a part of the effect. Left out, the fields of the contract's later effect groups keep
            the earlier values. Without groups each field set to an argument is a part.
        stamps: The source shows the stamp, and the search finds it.
        versions: The source shows a version.

    Example:
        >>> from readback.testing import SimulatedWorld
        >>> world = SimulatedWorld(
        ...     "ship_order",
        ...     arguments={"order": "o-17"},
        ...     before={"id": "o-17", "tenant": "{tenant}", "status": "open"},
        ...     after={"id": "o-17", "tenant": "{tenant}", "status": "shipped"},
        ... )
        >>> world.contract
        'ship_order'
    """

    contract: str
    arguments: Mapping[str, Json] = field(default_factory=dict)
    before: Json = None
    after: Json = None
    twice: Json = None
    partial: Json = None
    stamps: bool = True
    versions: bool = True

    def scene(self, plan: CompiledContract, fault: Fault, runtime: Runtime) -> SimulatedScene:
        """Prepare a run. Raises NotInjectable, and UsageError for a world of another contract."""
        if plan.contract.name != self.contract:
            raise UsageError(
                f"The world of {self.contract!r} cannot take the place of {plan.contract.name!r}.",
                remedy="State a world for each contract.",
            )
        kind = plan.contract.kind
        if fault is Fault.WRONG_TENANT_READ and not _shows_tenant(self.after):
            raise NotInjectable("The reading afterwards shows no tenant, so a foreign record looks like the right one.")
        if fault is Fault.DUPLICATE and kind in (Kind.ADJUST, Kind.APPEND) and self.twice is None:
            raise NotInjectable("The world does not state `twice`, the reading after two effects.", undetermined=True)
        if not kind.mutates and fault in (Fault.DUPLICATE, Fault.PARTIAL_COMMIT, *_ELSEWHERE[:1]):
            raise NotInjectable("A contract that only reads has no effect.")
        part = self._part(plan) if fault is Fault.PARTIAL_COMMIT else None
        return SimulatedScene(self, plan, fault, World(runtime.now_us), part)

    def _part(self, plan: CompiledContract) -> Json:
        if self.partial is not None:
            return self.partial
        if not isinstance(self.after, dict):
            raise NotInjectable("The effect is the object's absence, which has no parts.")
        old: Mapping[str, Json] = self.before if isinstance(self.before, dict) else {}
        changed = {name for name, value in self.after.items() if old.get(name) != value or name not in old}
        lost = changed & _parts(plan)
        if not lost:
            raise NotInjectable(
                "The contract judges one effect, and one effect has no parts. State `partial` for more."
            )
        kept = {name: value for name, value in self.after.items() if name not in lost}
        return {**kept, **{name: old[name] for name in lost if name in old}}


def _shows_tenant(*values: Json) -> bool:
    return any("{tenant}" in text for value in values for text in _texts(value))


def _texts(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for part in value.values() for text in _texts(part)]
    return [text for part in value for text in _texts(part)] if isinstance(value, list) else []


def _parts(plan: CompiledContract) -> set[str]:
    """Return the fields of the effect's later parts.

    The parts are the contract's effect groups. Without groups each field set to an argument is a part.
    """
    groups = plan.contract.groups
    first = groups[0] if groups else None
    early, late = dict[str, None](), dict[str, None]()
    for check in plan.ensure:
        fields = _fields(check)
        asked = check.predicate is not None and _EQUAL.fullmatch(check.predicate.source) is not None
        if groups and check.postcondition.group is not None:
            (early if check.postcondition.group == first else late).update(dict.fromkeys(fields))
        elif not groups and asked and len(fields) == 1:
            (late if early and fields[0] not in early else early).update(dict.fromkeys(fields))
    return late.keys() - early.keys()


def _fields(check: Check) -> list[str]:
    """Return the top-level fields of the reading judged by a postcondition."""
    paths = check.predicate.paths if check.predicate is not None else ()
    steps = [path.steps[1] for path in paths if path.root == "authoritative" and len(path.steps) > 1]
    return [*dict.fromkeys(step for step in steps if isinstance(step, str))]


@dataclass(slots=True)
class SimulatedScene:
    """A run of a simulated world under a fault."""

    spec: SimulatedWorld
    plan: CompiledContract
    fault: Fault
    world: World
    part: Json = None
    calls: int = 0
    staged: bool = False
    began_us: int = -1
    _context: Context | None = None
    _reversed: bool = False

    # --- the tool ------------------------------------------------------------------------------------

    def act(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Act once, as bent by the fault."""
        self._prepare(context)
        again = self.calls > 0 and self.plan.contract.execution.honours_key
        self.calls += 1
        if not again:
            self._land(context)
        if self.fault in (Fault.TIMEOUT_BEFORE_COMMIT, Fault.TIMEOUT_AFTER_COMMIT):
            raise CallHangs
        return {"status": "ok", **self._answer(context)}

    def _answer(self, context: Context) -> dict[str, Json]:
        """Return the fields of the tool's answer named by the contract's target, as in an honest answer."""
        value = self._rendered(self.spec.after, context)
        return {name: each for name, each in value.items() if name != "status"} if isinstance(value, dict) else {}

    def _land(self, context: Context) -> None:
        match self.fault:
            case Fault.STALE_READ_CONFIRMS | Fault.TIMEOUT_BEFORE_COMMIT:
                return
            case Fault.DUPLICATE:
                self._put(self._place(context), self.spec.after, context)
                second = self._place(context)
                if self.plan.contract.kind in (Kind.CREATE, Kind.SEND):
                    second = replace(second, id=f"{second.id}#2")
                self._put(second, self.spec.after if self.spec.twice is None else self.spec.twice, context)
            case Fault.WRONG_TENANT | Fault.WRONG_TENANT_READ:
                self._put(replace(self._place(context), tenant=OTHER_TENANT), self.spec.after, context)
            case Fault.PARTIAL_COMMIT:
                self._put(self._place(context), self.part, context)
            case _:
                self._put(self._place(context), self.spec.after, context)

    def _put(self, place: Place, template: Json, context: Context) -> None:
        marks = {"stamp": context.stamp, "key": context.idempotency_key, "author": context.principal}
        if template is None:
            self.world.remove(place, **marks)
            return
        value = self._rendered(template, replace(context, tenant=place.tenant))
        self.world.put(place, {"value": value}, **marks)

    def reverse(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Take the effect back."""
        here = self._place(context)
        marks = {"stamp": context.subject_stamp, "key": context.idempotency_key, "author": context.principal}
        if self.spec.before is None:
            self.world.remove(here, **marks)
        else:
            self.world.put(here, {"value": self._rendered(self.spec.before, context)}, **marks)
        self._reversed = True
        return {"status": "ok"}

    # --- the read paths ------------------------------------------------------------------------------

    def read(self, index: int, context: Context, arguments: Mapping[str, object]) -> object:
        """Take a reading, as bent by the fault."""
        self._prepare(context)
        acted = self.calls > 0
        match self.fault:
            case Fault.SOURCE_OUTAGE if acted:
                raise ConnectionError("The system of record does not answer.")
            case Fault.BROKEN_VERIFIER if acted:
                raise KeyError("column")
            case Fault.STALE_READ_DENIES if acted:
                return self._weak(index, self._shown(self._place(context), as_of_us=self.began_us), Consistency.REPLICA)
            case Fault.STALE_READ_CONFIRMS if acted:
                return self._weak(index, self._wanted(context), Consistency.CACHED)
            case Fault.WRONG_TENANT_READ if acted:
                return self._shown(replace(self._place(context), tenant=OTHER_TENANT))
            case _:
                return self._shown(self._place(context))

    def find(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Search by stamp in every tenant. A stale search is incomplete, and an incomplete search raises."""
        self._prepare(context)
        if self.calls and self.fault in (Fault.SOURCE_OUTAGE, Fault.STALE_READ_DENIES, Fault.STALE_READ_CONFIRMS):
            raise ConnectionError("The search does not answer.")
        if self.calls and self.fault is Fault.BROKEN_VERIFIER:
            raise KeyError("column")
        found = self.world.effects(context.subject_stamp) if self.spec.stamps else []
        return [
            Reading.of(effect.fields["value"], stamp=effect.stamp, author=effect.author)
            for effect in found
            if not effect.removed and "value" in effect.fields
        ]

    def lookup(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Look the key up. A key without an effect is unknown, and an outage gives no answer."""
        self._prepare(context)
        if self.fault is Fault.SOURCE_OUTAGE:
            raise ConnectionError("The look-up does not answer.")
        if self.fault is Fault.BROKEN_VERIFIER:
            raise KeyError("column")
        if self.fault in (Fault.STALE_READ_DENIES, Fault.STALE_READ_CONFIRMS):
            return Lookup.unknown_key()
        landed = self.world.by_key(context.idempotency_key)
        if not landed:
            return Lookup.unknown_key()
        return Lookup.landed(landed[0].fields.get("value"))

    def _shown(self, place: Place, as_of_us: int | None = None) -> Reading:
        record = self.world.record(place, as_of_us)
        if record is None:
            return Reading.absent()
        return Reading.of(
            record.fields["value"],
            version=record.version if self.spec.versions else None,
            stamp=(record.stamp or None) if self.spec.stamps else None,
            author=record.author or None,
        )

    def _wanted(self, context: Context) -> Reading:
        """Return the wanted state at the version before, without this action's stamp: an earlier, equal action's."""
        value = self._rendered(self.spec.after, replace(context, stamp=""))
        if value is None:
            return Reading.absent()
        old = self.world.record(self._place(context))
        return Reading.of(value, version=old.version if old is not None and self.spec.versions else None)

    def _weak(self, index: int, reading: Reading, level: Consistency) -> Reading:
        """A strong reader states its failover. A weaker reader is as weak as the contract says."""
        strong = self.plan.contract.readers[index].consistency is Consistency.STRONG
        return replace(reading, consistency=level) if strong else reading

    # --- what is true --------------------------------------------------------------------------------

    def truth(self) -> Truth:
        """Count the effects of this action, by the world's own journal."""
        context = self._context
        if context is None:
            return Truth(0, 0)
        here = self._place(context)
        wanted = self._rendered(self.spec.after, context)
        right = wrong = 0
        for effect in self.world.effects(context.stamp):
            value = None if effect.removed else effect.fields.get("value")
            if effect.place == here and value == wanted and right == 0:
                right += 1
            elif not (self._reversed and effect.place == here):
                wrong += 1
        return Truth(right, wrong, self._reversed)

    # --- inside --------------------------------------------------------------------------------------

    def _prepare(self, context: Context) -> None:
        """Set the state before the action, at the first look of any kind."""
        if self._context is not None:
            return
        self._context = context
        for tenant in (context.tenant, OTHER_TENANT):
            if self.spec.before is not None:
                value = self._rendered(self.spec.before, replace(context, tenant=tenant, stamp=""))
                self.world.put(Place(tenant, context.target), {"value": value}, author="an earlier actor")
        self.began_us = self.world.now_us()

    def _place(self, context: Context) -> Place:
        held = self._context or context
        return Place(held.tenant, held.target)

    def _rendered(self, template: Json, context: Context) -> Any:
        known: dict[str, Json] = {
            "tenant": context.tenant,
            "principal": context.principal,
            "target": context.target,
            "stamp": context.stamp,
            "key": context.idempotency_key,
            "operation": context.operation,
        }
        return _fill(template, known, {"requested": dict(self.spec.arguments)})


def _fill(value: Json, known: Mapping[str, Json], roots: Mapping[str, Json]) -> Json:
    if isinstance(value, dict):
        return {name: _fill(part, known, roots) for name, part in value.items()}
    if isinstance(value, list):
        return [_fill(part, known, roots) for part in value]
    if not isinstance(value, str):
        return value
    whole = _PLACEHOLDER.fullmatch(value)
    if whole is not None:
        return _value(whole[1], known, roots)
    return _PLACEHOLDER.sub(lambda found: str(_value(found[1], known, roots)), value)


def _value(name: str, known: Mapping[str, Json], roots: Mapping[str, Json]) -> Json:
    return known[name] if name in known else look(Path.named(name), roots)
