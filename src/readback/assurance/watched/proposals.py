"""Proposals from watched calls: postconditions, identity and times, each with support and counterexamples.

A proposal is a regularity of what happened. What was meant is a person's decision. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from readback.assurance.faults import WatchedCallsError
from readback.assurance.watched.calls import WatchedCall
from readback.canon import Json, payload_bytes
from readback.canon.frozen import dataclass
from readback.contracts.examples import Steps
from readback.domain.kind import Kind
from readback.domain.verdict import Verdict

CALLS_MIN: Final = 5
"""Fewest watched calls of a tool for any proposal."""
SHARE_MIN: Final = 0.8
"""The smallest share of calls in support of a proposal, as a fraction."""
FIELDS_MAX: Final = 60
DEPTH_MAX: Final = 3
SECOND_US: Final = 1_000_000
_PLAIN: Final = (None, True, False, "", 0)
Holds: TypeAlias = Callable[[WatchedCall], bool | None]
"""Whether a regularity holds in a call; None where the call says nothing."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One proposed value of a contract.

    Attributes:
        key: The place in the contract, such as `ensure.status`.
        text: The proposed value.
        support: The ids of the calls in support.
        against: The ids of the calls with another result, without a verdict against them.
        refuted: The ids of the calls with another result that their own contract refuted.
        why: A remark on weak evidence; "" for none.
    """

    key: str
    text: str
    support: tuple[str, ...]
    against: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Proposed:
    """All proposals for one tool. `calls`: the number of watched calls. `readers`: name and source on record."""

    contract: str
    calls: int
    kind: Proposal
    target: Proposal
    identity: tuple[Proposal, ...]
    ensure: tuple[Proposal, ...]
    frame: Proposal | None
    within: Proposal
    timeout: Proposal
    arguments: tuple[tuple[str, str], ...]
    readers: tuple[tuple[str, str], ...]


def proposed(name: str, calls: Sequence[WatchedCall]) -> Proposed:
    """Return the proposals for one tool. Raises WatchedCallsError for fewer than five watched calls."""
    watched = [each for each in calls if each.shown is not None]
    if len(watched) < CALLS_MIN:
        raise WatchedCallsError(
            f"{name!r:.80} has {len(watched)} watched calls with a reading, and a proposal needs {CALLS_MIN}."
        )
    work = _Work(watched)
    kind = work.kind()
    target = work.target(name)
    return Proposed(
        name,
        len(watched),
        kind,
        target,
        tuple(work.identity()),
        tuple(work.ensure(Kind(kind.text))),
        work.frame(),
        work.within(),
        work.timeout(),
        tuple(work.arguments()),
        tuple(dict.fromkeys((each.reader, each.source) for call in watched for each in call.after)),
    )


class _Work:
    """The proposals of one tool in progress."""

    def __init__(self, calls: Sequence[WatchedCall]) -> None:
        self._calls = calls
        self._sound = [each for each in calls if each.judged != Verdict.REFUTED.value]

    # --- counting ---

    def _proposal(self, key: str, text: str, holds: Holds, why: str = "") -> Proposal | None:
        """Return a proposal with enough support; None for any other regularity."""
        support, against, refuted = [], [], []
        for call in self._calls:
            said = holds(call)
            if said is None:
                continue
            if said:
                support.append(call.action_id)
            elif call.judged == Verdict.REFUTED.value:
                refuted.append(call.action_id)
            else:
                against.append(call.action_id)
        many = len(support)
        if many < CALLS_MIN or many < SHARE_MIN * (many + len(against)):
            return None
        return Proposal(key, text, tuple(support), tuple(against), tuple(refuted), why)

    def _all(self, key: str, text: str, why: str = "") -> Proposal:
        return Proposal(key, text, tuple(each.action_id for each in self._calls), why=why)

    # --- kind, target, identity ---

    def kind(self) -> Proposal:
        """Return the kind by presence before and after, and by sums of numbers."""
        for text, before, after in (
            (Kind.CREATE, "absent", "present"),
            (Kind.DELETE, "present", "absent"),
            (Kind.SET, "present", "present"),
        ):
            found = self._proposal("kind", text.value, _presence(before, after))
            if found is None:
                continue
            if text is Kind.SET and any(self._sums()):
                return Proposal("kind", Kind.ADJUST.value, found.support, found.against, found.refuted)
            return found
        return self._all("kind", Kind.SET.value, "The presence before and after the calls shows no one kind.")

    def target(self, name: str) -> Proposal:
        """Return the target as recorded, or by the argument that names the object."""
        for argument in self._names():
            found = self._proposal("target", "", _target_ends_with(argument))
            if found is None:
                continue
            heads = {call.target.removesuffix(str(call.requested.get(argument))) for call in self._sound}
            head = heads.pop() if len(heads) == 1 else f"{name}/"
            return replace(found, text=f"{head}{{requested.{argument}}}")
        return self._all("target", "", "No argument ends every recorded target.")

    def identity(self) -> Iterator[Proposal]:
        """Yield the fields that name the tenant, the object and the stamp."""
        tenants = {each.tenant for each in self._sound}
        for steps in self._fields():
            path = dotted(steps)
            found = self._proposal(
                "identity.tenant",
                f"authoritative.{path}",
                lambda call, steps=steps: _equal(_value(call, steps), call.tenant),  # type: ignore[misc]
                "" if len(tenants) > 1 else "All calls are of one tenant, so the field may have this value by chance.",
            )
            if found is not None:
                yield found
                break
        for steps in self._fields():
            argument = self._argument_for(steps)
            if argument and self._proposal("target", argument, _target_ends_with(argument)) is not None:
                found = self._proposal("identity.target", f"authoritative.{dotted(steps)}", _follows(steps, argument))
                if found is not None:
                    yield found
                    break
        for steps in self._fields():
            found = self._proposal(
                "identity.stamp",
                f"authoritative.{dotted(steps)}",
                lambda call, steps=steps: _equal(_value(call, steps), call.stamp or "-"),  # type: ignore[misc]
            )
            if found is not None:
                yield found
                break

    # --- postconditions ---

    def ensure(self, kind: Kind) -> Iterator[Proposal]:
        """Yield postconditions: fields by argument, sums, and constants that the calls brought about."""
        if kind is Kind.DELETE:
            gone = self._proposal("ensure.gone", "authoritative == null", _is_after("absent"))
            yield from [gone] if gone is not None else []
            return
        there = self._proposal("ensure.there", "authoritative != null", _is_after("present"))
        yield from [there] if there is not None else []
        sums = {steps for steps, _ in self._sums()}
        yield from (proposal for _, proposal in self._sums())
        for steps in self._fields():
            if steps in sums:
                continue
            argument = self._argument_for(steps)
            found = self._by_argument(steps, argument) if argument else self._constant(steps)
            if found is not None:
                yield found

    def _by_argument(self, steps: Steps, argument: str) -> Proposal | None:
        text = f"authoritative.{dotted(steps)} == requested.{argument}"
        values = {payload_bytes(call.requested.get(argument)) for call in self._sound}
        why = "" if len(values) > 1 else "All calls had one value of the argument."
        return self._proposal(f"ensure.{dotted(steps)}", text, _follows(steps, argument), why)

    def _constant(self, steps: Steps) -> Proposal | None:
        """Propose a value that the calls brought about: the field had another value before."""
        values = [_value(call, steps) for call in self._sound]
        known = [each for each in values if not isinstance(each, dict | list) and each is not None]
        if not known:
            return None
        usual = max(known, key=lambda value: sum(_equal(each, value) for each in known))
        changed = [call for call in self._sound if _brought_about(call, steps, usual)]
        if len(changed) < CALLS_MIN:
            return None
        text = f"authoritative.{dotted(steps)} == {payload_bytes(usual).decode()}"
        return self._proposal(
            f"ensure.{dotted(steps)}", text, lambda call: _equal(_value(call, steps), usual), "A constant of the calls."
        )

    def _sums(self) -> Iterator[tuple[Steps, Proposal]]:
        for steps in self._fields():
            for argument in self._names():
                for sign, factor in (("+", 1), ("-", -1)):
                    path = dotted(steps)
                    text = f"authoritative.{path} == before.{path} {sign} requested.{argument}"
                    found = self._proposal(f"ensure.{path}", text, _adds(steps, argument, factor))
                    if found is not None:
                        yield steps, found

    def frame(self) -> Proposal | None:
        """Return the fields that changed in any call; None where no call has both readings of a present target."""
        both = [call for call in self._sound if _before(call) is not None and _after(call) is not None]
        if len(both) < CALLS_MIN:
            return None
        fields = sorted({str(steps[0]) for steps in self._fields() for call in both if _differs(call, steps)})
        ids = tuple(call.action_id for call in both)
        return Proposal("may_change", ", ".join(fields), ids) if fields else None

    # --- times ---

    def within(self) -> Proposal:
        """Return a window of twice the longest time from the answer to the deciding reading."""
        waits, ids = [], []
        for call in self._sound:
            shown = call.shown
            if shown is not None and call.called_us and shown.started_us:
                waits.append(max(0, shown.started_us + shown.took_us - call.called_us - call.took_us))
                ids.append(call.action_id)
        longest = max(waits, default=0)
        why = f"The longest time from the answer to the deciding reading was {longest / 1_000:,.0f} ms."
        return Proposal("within", span(max(2 * longest, SECOND_US)), tuple(ids), why=why)

    def timeout(self) -> Proposal:
        """Return three times the longest call, and at least five seconds."""
        took = [(call.took_us, call.action_id) for call in self._calls if call.took_us]
        longest = max((each for each, _ in took), default=0)
        why = f"The longest call took {longest / 1_000:,.0f} ms."
        return Proposal(
            "execute.timeout", span(max(3 * longest, 5 * SECOND_US)), tuple(each for _, each in took), why=why
        )

    # --- fields and arguments ---

    def arguments(self) -> Iterator[tuple[str, str]]:
        """Yield each argument with its JSON type, in the order of use."""
        for name in self._names():
            kinds = {_kind(call.requested[name]) for call in self._calls if call.requested.get(name) is not None}
            yield name, kinds.pop() if len(kinds) == 1 else "string"

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for call in self._calls for name in call.requested if name.isidentifier()))

    def _fields(self) -> list[Steps]:
        found: dict[Steps, None] = {}
        for call in self._sound:
            _add(_after(call), (), found)
        return list(found)[:FIELDS_MAX]

    def _argument_for(self, steps: Steps) -> str:
        """Return the argument of a field: the argument of the same name first."""
        names = sorted(self._names(), key=lambda name: name != steps[-1])
        for name in names:
            if self._proposal("", "", _follows(steps, name)) is not None and self._tells(name):
                return name
        return ""

    def _tells(self, name: str) -> bool:
        """Return whether the argument's values say more than a plain value by chance."""
        return any(call.requested.get(name) not in _PLAIN for call in self._sound)


# --- regularities ---


def _presence(before: str, after: str) -> Holds:
    def holds(call: WatchedCall) -> bool | None:
        if call.before is None or call.before.presence not in ("present", "absent"):
            return None
        shown = call.shown
        return shown is not None and call.before.presence == before and shown.presence == after

    return holds


def _is_after(presence: str) -> Holds:
    return lambda call: call.shown is not None and call.shown.presence == presence


def _follows(steps: Steps, argument: str) -> Holds:
    def holds(call: WatchedCall) -> bool | None:
        if argument not in call.requested or _after(call) is None:
            return None
        return _equal(_value(call, steps), call.requested[argument])

    return holds


def _adds(steps: Steps, argument: str, factor: int) -> Holds:
    def holds(call: WatchedCall) -> bool | None:
        asked, old, new = call.requested.get(argument), _at(_before(call), steps), _value(call, steps)
        if not all(isinstance(each, int) and not isinstance(each, bool) for each in (asked, old, new)):
            return None
        assert isinstance(asked, int)
        assert isinstance(old, int)
        assert isinstance(new, int)
        return asked != 0 and new == old + factor * asked

    return holds


def _target_ends_with(argument: str) -> Holds:
    def holds(call: WatchedCall) -> bool | None:
        asked = call.requested.get(argument)
        if not isinstance(asked, str | int) or isinstance(asked, bool) or not call.target:
            return None
        return call.target == str(asked) or call.target.endswith((f"/{asked}", f":{asked}"))

    return holds


def _brought_about(call: WatchedCall, steps: Steps, value: Json) -> bool:
    before = _before(call)
    return before is not None and _equal(_value(call, steps), value) and not _equal(_at(before, steps), value)


def _differs(call: WatchedCall, steps: Steps) -> bool:
    return not _equal(_value(call, steps), _at(_before(call), steps))


def _equal(one: Json, other: Json) -> bool:
    return type(one) is type(other) and one == other


def _after(call: WatchedCall) -> Json:
    return call.shown.value if call.shown is not None and call.shown.presence == "present" else None


def _before(call: WatchedCall) -> Json:
    return call.before.value if call.before is not None and call.before.presence == "present" else None


def _value(call: WatchedCall, steps: Steps) -> Json:
    return _at(_after(call), steps)


def _at(value: Json, steps: Steps) -> Json:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) and isinstance(step, str) else None
    return value


def _add(value: Json, above: Steps, found: dict[Steps, None]) -> None:
    if not isinstance(value, dict) or len(above) >= DEPTH_MAX:
        return
    for name, each in value.items():
        if not name.isidentifier():
            continue
        if isinstance(each, dict):
            _add(each, (*above, name), found)
        else:
            found[(*above, name)] = None


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "string"


def dotted(steps: Steps) -> str:
    """Return a path as text."""
    return ".".join(map(str, steps))


def span(value_us: int) -> str:
    """Return a duration as contract files write it, rounded up to tenths of a second."""
    tenths = -(-value_us // 100_000)
    return f"{tenths // 10}s" if tenths % 10 == 0 else f"{tenths * 100}ms"
