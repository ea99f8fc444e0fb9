"""How each measured thing grows, and how far a prediction out of the smaller sizes is from what a larger one has.

A thing grows with the number of actions, from what an empty ledger has; a proof with the logarithm of the entries. The
line goes through the two largest of the sizes that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.scale.records import Measured, Sizes, Waiting

HASH_LINE_BYTES: Final = 45
"""A hash in a proof is a line: 32 bytes in base64, and its end."""


def path_length(entries: int) -> int:
    """How many hashes lead from the first of so many entries to the root: RFC 6962 gives the logarithm, rounded up."""
    return (entries - 1).bit_length() if entries > 0 else 0


@dataclass(frozen=True, slots=True)
class Law:
    """A thing that is measured, over what it grows, and where it starts."""

    name: str
    value: Callable[[Sizes], int]
    over: Callable[[int, int], float]
    """Of (actions, entries)."""
    slope: float | None = None
    """Known beforehand; else with one size alone it starts from an empty ledger's."""
    start: Callable[[Measured], int] = lambda _: 0


def _by_action(actions: int, entries: int) -> float:
    return float(actions)


def _by_entry(actions: int, entries: int) -> float:
    return float(entries)


def _by_path(actions: int, entries: int) -> float:
    return float(path_length(entries))


ENTRIES: Final = Law("entries", lambda s: s.entries, _by_action)
LAWS: Final = (
    ENTRIES,
    Law("bytes of entries", lambda s: s.envelope_bytes, _by_action),
    Law("bytes of evidence", lambda s: s.evidence_bytes, _by_action),
    Law("bytes of the ledger's file", lambda s: s.ledger_bytes, _by_action, start=lambda m: m.empty_bytes),
    Law("bytes of tiles", lambda s: s.tile_bytes, _by_entry),
    Law("bytes of a proof", lambda s: s.proof_bytes, _by_path, slope=float(HASH_LINE_BYTES)),
    Law("CPU, µs", lambda s: s.cpu_us, _by_action),
)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was expected of a size, out of those before it, and what it has."""

    thing: str
    actions: int
    known: tuple[int, ...]
    predicted: float
    found: int

    @property
    def error(self) -> float:
        """Of what was found: 0.02 is two in a hundred too many."""
        return self.predicted / self.found - 1


def line(points: Sequence[tuple[float, float]], slope: float | None, start: float) -> Callable[[float], float]:
    """Through the last two points; through one with this slope, or else from `start` at zero."""
    (x, y) = points[-1]
    if len(points) > 1 and points[-2][0] != x:
        (x_before, y_before) = points[-2]
        slope = (y - y_before) / (x - x_before)
    elif slope is None:
        slope = (y - start) / x
    return lambda at: y + slope * (at - x)


def fitted(law: Law, measured: Measured, sizes: Sequence[Sizes]) -> Callable[[int, int], float]:
    """The law with what these sizes say: of (actions, entries)."""
    points = [(law.over(each.actions, each.entries), float(law.value(each))) for each in sizes]
    straight = line(points, law.slope, float(law.start(measured)))
    return lambda actions, entries: straight(law.over(actions, entries))


def predictions(measured: Measured) -> list[Prediction]:
    """Each size but the first out of those before it; where something grows by entries, these are predicted too."""
    made = []
    for number, size in enumerate(measured.sizes[1:], 1):
        before = measured.sizes[:number]
        entries = round(fitted(ENTRIES, measured, before)(size.actions, 0))
        for law in LAWS:
            expected = fitted(law, measured, before)(size.actions, entries)
            known = tuple(each.actions for each in before)
            made.append(Prediction(law.name, size.actions, known, expected, law.value(size)))
    return made


@dataclass(frozen=True, slots=True)
class Growth:
    """How a look-up grows from the smallest number of waiting actions to the largest."""

    tenants: int
    fewest: Waiting
    most: Waiting


def growths(measured: Measured) -> list[Growth]:
    """For each number of tenants."""
    found = []
    for tenants in sorted({each.tenants for each in measured.waiting}):
        of_it = sorted((each for each in measured.waiting if each.tenants == tenants), key=lambda w: w.actions)
        found.append(Growth(tenants, of_it[0], of_it[-1]))
    return found
