"""The numbered steps of a store's schema: which there are, which are still to do, and who may work beside a later one.

Called by each ledger store, which applies them, and holds each of its transactions that change anything to the schema
as it is then: a newer release may bring it up while an older one runs. The text of a step that was released never
changes: what is to be different is a new step. No step gives what is there another meaning, for an older release may
be looking: what means something else has another name.

A step called `0005_later.sql` ends what releases without it may write. One called `0005_later.serves_3.sql` lets those
go on that know the schema as it was after step 3: what they write is right beside it, and what it adds they need not
write. The name stands in the ledger, where a release that does not have the file finds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final

from readback.canon.digest import sha256_hex
from readback.canon.frozen import dataclass
from readback.errors import StoreVersionError

_SERVES: Final = re.compile(r"\.serves_(\d{1,9})\.sql")


@dataclass(frozen=True, slots=True)
class Applied:
    """A step as the ledger has it, by its number: its file's name, and the checksum of its text."""

    name: str
    checksum: str


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema; once released its text never changes."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return sha256_hex(self.sql.encode())


@cache
def migrations_of(package: str) -> Sequence[Migration]:
    """Every step that this release knows, in order: 1, 2, 3 without gaps. They lie in the package's `migrations`."""
    found = []
    for file in resources.files(package).joinpath("migrations").iterdir():
        number, _, rest = file.name.partition("_")
        if rest.endswith(".sql"):
            found.append(Migration(int(number), file.name, file.read_text(encoding="utf-8")))
    found.sort(key=lambda step: step.number)
    return found


def left_of(known: Sequence[Migration], done: Mapping[int, Applied], ledger: str) -> list[Migration]:
    """The steps still to do. Raises StoreVersionError where the ledger and this release disagree."""
    newer = {number: step for number, step in done.items() if number > len(known)}
    if any(_serves(number, step.name) > len(known) for number, step in newer.items()):
        raise StoreVersionError(
            f"{ledger} has schema {max(newer)}; this release knows {len(known)}.",
            details={"found": max(newer), "known": len(known)},
        )
    for step in known:
        if step.number in done and done[step.number].checksum != step.checksum:
            raise StoreVersionError(
                f"{ledger} was made with another text of migration {step.name}.",
                remedy="Use the release that made it; do not change migrations that were applied.",
                details={"migration": step.name},
            )
    return [step for step in known if step.number not in done]


def not_compared(number: int, known: Sequence[Migration]) -> list[str]:
    """What of a ledger at this step cannot be compared here, a sentence; none where this release knows the step."""
    if number <= len(known):
        return []
    return [
        f"the schema not compared: step {number} of it is on record, and this release knows {len(known)};"
        " verify with the release that made it"
    ]


def refuse_older(left: Sequence[Migration], ledger: str) -> None:
    """Raises StoreVersionError where steps are missing that were there when this process opened the ledger."""
    if left:
        raise StoreVersionError(
            f"{ledger} has an older schema than when it was opened: it was put back while this process ran.",
            remedy="Start this process again: it brings the schema up as it opens the ledger.",
            details={"missing": [step.name for step in left]},
        )


def _serves(number: int, name: str) -> int:
    """The oldest schema that a release has to know to write beside this step; its own where it does not say."""
    said = _SERVES.search(name)
    return number if said is None else int(said[1])
