"""The numbered migrations of a store's schema: known steps, pending steps, and compatibility with later steps.

Called by each ledger store. The store applies the steps, and binds each writing transaction to the present schema: a
newer release may migrate while an older release runs. The text of a released step never changes; a change is a new
step. No step changes the meaning of existing data, because an older release may be reading. Data with a new meaning has
a new name.

A step called `0005_later.sql` ends writing by releases without the step. A step called `0005_later.serves_3.sql`
permits writing by releases from schema 3 on: their rows stay valid, and they need not write the additions. The ledger
stores the name, so a release without the file can read it.
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
    """An applied step, by its number: the file name, and the checksum of the text."""

    name: str
    checksum: str


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema. A released step's text never changes."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return sha256_hex(self.sql.encode())


@cache
def migrations_of(package: str) -> Sequence[Migration]:
    """Return every step of this release in order: 1, 2, 3 without gaps. The files are in the package's `migrations`."""
    found = []
    for file in resources.files(package).joinpath("migrations").iterdir():
        number, _, rest = file.name.partition("_")
        if rest.endswith(".sql"):
            found.append(Migration(int(number), file.name, file.read_text(encoding="utf-8")))
    found.sort(key=lambda step: step.number)
    return found


def left_of(known: Sequence[Migration], done: Mapping[int, Applied], ledger: str) -> list[Migration]:
    """Return the pending steps. Raises StoreVersionError if the ledger and this release disagree."""
    newer = {number: step for number, step in done.items() if number > len(known)}
    if any(_serves(number, step.name) > len(known) for number, step in newer.items()):
        raise StoreVersionError(
            f"{ledger} has schema {max(newer)}; this release knows {len(known)}.",
            details={"found": max(newer), "known": len(known)},
        )
    for step in known:
        if step.number in done and done[step.number].checksum != step.checksum:
            raise StoreVersionError(
                f"{ledger} was created with another text of migration {step.name}.",
                remedy="Use the release that created the ledger. Applied migrations must not change.",
                details={"migration": step.name},
            )
    return [step for step in known if step.number not in done]


def not_compared(number: int, known: Sequence[Migration]) -> list[str]:
    """Return a sentence on the incomparable part of a ledger at this step. Empty if this release knows the step."""
    if number <= len(known):
        return []
    return [
        f"the schema not compared: step {number} is recorded, and this release knows {len(known)};"
        " verify with the release that made it"
    ]


def refuse_older(left: Sequence[Migration], ledger: str) -> None:
    """Raise StoreVersionError for missing steps that existed when this process opened the ledger."""
    if left:
        raise StoreVersionError(
            f"{ledger} has an older schema than at opening: a backup was restored while this process ran.",
            remedy="Restart this process: opening the ledger migrates the schema.",
            details={"missing": [step.name for step in left]},
        )


def _serves(number: int, name: str) -> int:
    """Return the oldest schema permitted to write beside this step. Default: the step's own number."""
    said = _SERVES.search(name)
    return number if said is None else int(said[1])
