"""The live side of a drift check: readers are asked again for the last verified targets.

Readers of built-in sources are called, since a reading changes nothing. No tool of a server is called, and so no
reader behind such a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from readback.assurance.drift.findings import Change, Drift
from readback.assurance.drift.forms import compared
from readback.assurance.watched.calls import Look, WatchedCall
from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.contracts.files.contract import FileContract, FittedReader, values_of
from readback.domain.context import Context
from readback.domain.verification.reading import Presence, Reading

COMPARED_MAX: Final = 5
"""Verified actions whose targets are read again. Their common form is the recorded form."""
_PRESENT: Final = "present"
REFUSED: Final = "refused: "
"""Beginning of an error after a successful ping: the source answers, and not to this reading."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One live reading of a recorded target. `error`: why there is none; "" for a reading."""

    reading: Reading | None
    took_us: int
    error: str = ""


def source_drift(
    contract: FileContract, verified: Sequence[WatchedCall], principal: str, clock_us: Callable[[], int]
) -> Iterator[tuple[list[Drift], int, list[Looked]]]:
    """Yield, for each reader, the differences, the number of compared fields, and the live readings.

    `verified`: the last verified actions, the newest first.
    """
    for reader in contract.readers:
        yield _of_reader(contract, reader, verified[:COMPARED_MAX], principal, clock_us)


def _of_reader(
    contract: FileContract,
    reader: FittedReader,
    verified: Sequence[WatchedCall],
    principal: str,
    clock_us: Callable[[], int],
) -> tuple[list[Drift], int, list[Looked]]:
    name = reader.reader.name
    if reader.fitting is None:
        said = "the reader is a tool of a server, and no tool is called"
        return [Drift(Change.UNSEEN, "reader", name, said)], 0, []
    pairs = [(call, shown) for call in verified if (shown := _shown(call, name)) is not None]
    if not pairs:
        return [Drift(Change.UNSEEN, "reader", name, "no recorded reading of a present target")], 0, []
    looked = [_look(contract, reader, call, principal, clock_us) for call, _ in pairs]
    live = [each.reading for each in looked if each.reading is not None and each.reading.presence is Presence.PRESENT]
    if not live:
        return [_unseen(contract, name, looked)], 0, looked
    recorded = [shown.value for _, shown in pairs]
    found, many = compared(recorded, _whole(live), "field", contract.plan)
    return found, many, looked


def _whole(live: Sequence[Reading]) -> Json:
    """Return the newest present reading: its form stands for the source."""
    return live[0].value


def _shown(call: WatchedCall, reader: str) -> Look | None:
    return next((each for each in reversed(call.after) if each.reader == reader and each.presence == _PRESENT), None)


def _unseen(contract: FileContract, name: str, looked: Sequence[Looked]) -> Drift:
    """Classify a reader without a present target: refused by the source, unreachable, or targets that are gone."""
    refused = next((each.error for each in looked if each.error.startswith(REFUSED)), "")
    if refused:
        at_risk = tuple(f"ensure.{each.postcondition.name}" for each in contract.plan.ensure)
        said = f"the source refuses the reader: {refused.removeprefix(REFUSED)}"
        return Drift(Change.CHANGED, "reader", name, said, at_risk)
    error = next((each.error for each in looked if each.error), "")
    said = f"the source gave no answer: {error}" if error else "the recorded targets are not there any more"
    return Drift(Change.UNSEEN, "reader", name, said)


def _look(
    contract: FileContract, reader: FittedReader, call: WatchedCall, principal: str, clock_us: Callable[[], int]
) -> Looked:
    assert reader.fitting is not None
    before = None if call.before is None else call.before.value
    context = Context(
        "drift", call.tenant, principal, "drift", call.target, "drift", "drift", observed=call.answer, before=before,
        strong=True,
    )  # fmt: skip
    try:
        reader.fitting.ping()
    except (ReadbackError, OSError, ImportError, ValueError) as error:
        return Looked(None, 0, f"{type(error).__name__}: {error}")
    began = clock_us()
    try:
        given = reader.spec.given(values_of(contract.predicates, context, call.requested))
        reading = reader.fitting.read(context, given)
    except OSError as error:
        return Looked(None, 0, f"{type(error).__name__}: {error}")
    except (ReadbackError, ImportError, ValueError) as error:
        said = error.message if isinstance(error, ReadbackError) else f"{type(error).__name__}: {error}"
        return Looked(None, 0, f"{said}" if isinstance(error.__cause__, OSError) else f"{REFUSED}{said}")
    if reading.presence is Presence.UNAVAILABLE:
        return Looked(None, 0, reading.detail or "unavailable")
    return Looked(reading, clock_us() - began)
