"""Two verifiers for every contract: `read_after_write` and `invariant_check`.

`read_after_write` requires that the target's own record equals the request. The postconditions are over
`authoritative`, filled by readers alone, so the target is read again after every attempt, at once and then until the
window closes. `invariant_check` requires a condition on the system, independent of the target: as an expression over
the reading, or as a probe, a function that reads the system itself.

A probe runs together with each reading of the target, and its result lies beside the record, under `$invariants`. Such
a reading is only as strong as its weakest part. A probe that raises leaves the whole reading undetermined. A probe that
answers None leaves its own postcondition undetermined. An invariant does not show the target: it proves no attribution,
and an invariant alone satisfies no class with a required identity.

Used by authors of contracts; `compile` puts the pieces in their places. Nothing here decides a verdict.

Source: the decision-type specification, "Included Scaffolds".
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, cast

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.functions.callables import Reader, is_async
from readback.domain.context import Context
from readback.domain.side_effect import Consistency
from readback.domain.verification.reading import Presence, Reading
from readback.errors import ContractFieldError, ReaderTypeError

INVARIANTS_KEY: Final = "$invariants"
INVARIANT_TIMEOUT: Final = "10s"
Probe = Callable[[Context], "bool | Awaitable[bool | None] | None"]


@dataclass(frozen=True, slots=True)
class Invariant:
    """A condition on the system: an expression, or a probe with its declarations."""

    name: str
    expression: str = ""
    probe: Probe | None = None
    source: str = ""
    consistency: object = "strong"
    independence: object = "other_client"
    timeout: object = INVARIANT_TIMEOUT

    @property
    def postcondition(self) -> str:
        """The judging expression."""
        if self.expression:
            return self.expression
        return f"authoritative[{json.dumps(INVARIANTS_KEY)}][{json.dumps(self.name)}] == true"


def read_after_write(*fields: str, **expected: str) -> dict[str, str]:
    """Return postconditions for `ensure`: each field of the record equals the argument of the same name.

    A name alone is compared with the request, a keyword with an expression. Dotted names reach into both. Raises
    ContractFieldError.

    Example:
        >>> read_after_write("carrier", status="'shipped'")
        {'carrier': 'authoritative.carrier == requested.carrier', 'status': "authoritative.status == ('shipped')"}
    """
    made: dict[str, str] = {}
    for field in fields:
        if field in made or not all(part.isidentifier() and part.isascii() for part in field.split(".")):
            raise ContractFieldError(
                f"{field!r:.80} is not a field name, or is named twice. Write other conditions under `ensure`."
            )
        made[field] = f"authoritative.{field} == requested.{field}"
    for field, expression in expected.items():
        if field in made:
            raise ContractFieldError(f"The field {field!r} is named twice.")
        made[field] = f"authoritative.{field} == ({expression})"
    if not made:
        raise ContractFieldError("`read_after_write` needs at least one field.")
    return made


def invariant_check(
    name: str,
    condition: str | Probe,
    *,
    source: str = "",
    consistency: str = "strong",
    independence: str = "other_client",
    timeout: object = INVARIANT_TIMEOUT,
) -> dict[str, Invariant]:
    """Return a postcondition for `ensure`: a condition on the system without a target.

    An expression sees `authoritative`, `before` and `scope` alone. A probe takes the context and answers True, False or
    None (undetermined). A probe needs `source`, and has consistency and independence like a reader.

    Raises:
        ContractFieldError: a probe has no `source`.

    Example:
        >>> sorted(invariant_check("stock never negative", "authoritative.stock >= 0"))
        ['stock never negative']
    """
    if isinstance(condition, str):
        return {name: Invariant(name, expression=condition)}
    if not source:
        raise ContractFieldError(f"The probe of the invariant {name!r} needs the `source` it looks at.")
    return {name: Invariant(name, "", condition, source, consistency, independence, timeout)}


def with_probes(reader: Reader, probes: tuple[Invariant, ...]) -> Reader:
    """Return a reader that also runs the probes. Raises ContractFieldError for a mixture of sync and async probes."""
    if any(is_async(_probe(each)) is not reader.is_async for each in probes):
        raise ContractFieldError(
            "A reader and the probes of its invariants are all async or all plain functions, not mixed."
        )
    look = reader.look
    if reader.is_async:

        async def look_async(ctx: Context, arguments: Mapping[str, object]) -> object:
            seen = await cast("Awaitable[object]", look(ctx, arguments))
            if not _takes_probes(seen):
                return seen
            found = {p.name: await cast("Awaitable[object]", _probe(p)(ctx)) for p in probes}
            return _beside(seen, found, probes)

        return reader.seeing(look_async)

    def look_both(ctx: Context, arguments: Mapping[str, object]) -> object:
        seen = look(ctx, arguments)
        if not _takes_probes(seen):
            return seen
        return _beside(seen, {p.name: _probe(p)(ctx) for p in probes}, probes)

    return reader.seeing(look_both)


def probes_alone(probes: tuple[Invariant, ...]) -> Reader:
    """Return a reader of the invariants alone: for contracts without a readable target."""
    empty = Reading.of({})
    asks = all(is_async(_probe(each)) for each in probes)

    async def nothing_async(ctx: Context, arguments: Mapping[str, object]) -> object:
        return empty

    def nothing(ctx: Context, arguments: Mapping[str, object]) -> object:
        return empty

    first = probes[0]
    look = nothing_async if asks else nothing
    return with_probes(Reader("invariants", look, asks, "", first.consistency, first.independence, "0s"), probes)


def _probe(invariant: Invariant) -> Callable[[Context], object]:
    assert invariant.probe is not None
    return invariant.probe


def _takes_probes(seen: object) -> bool:
    """Absence, and anything but a reading, is passed on unchanged: there is no record to hold the probes' results."""
    return isinstance(seen, Reading) and seen.presence is Presence.PRESENT


def _beside(seen: object, found: dict[str, object], probes: tuple[Invariant, ...]) -> Reading:
    assert isinstance(seen, Reading)
    if not isinstance(seen.value, dict):
        raise ReaderTypeError("A reading with invariants must be an object.")
    told: dict[str, Json] = {}
    for name, answer in found.items():
        if answer is None:
            continue  # left out, so that its postcondition is undetermined
        if not isinstance(answer, bool):
            raise ReaderTypeError(f"The probe of the invariant {name!r} answered {type(answer).__name__}.")
        told[name] = answer
    said = seen.consistency  # what a reader says of itself at run time does not hold for the probes
    if said is not None:
        said = min([said, *(Consistency(str(each.consistency)) for each in probes)], key=lambda level: level.rank)
    return replace(seen, value={**seen.value, INVARIANTS_KEY: told}, consistency=said)
