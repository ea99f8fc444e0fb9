"""The numbered steps of a store's schema: which there are, and which are still to do.

Called by each ledger store, which applies them. The text of a step that was released never changes: what is to be
different is a new step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

from readback.canon.digest import sha256_hex
from readback.canon.frozen import dataclass
from readback.domain.errors import StoreVersionError


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema; once released its text never changes."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return sha256_hex(self.sql.encode())


def migrations_of(package: str) -> list[Migration]:
    """Every step that this release knows, in order: 1, 2, 3 without gaps. They lie in the package's `migrations`."""
    found = []
    for file in resources.files(package).joinpath("migrations").iterdir():
        number, _, rest = file.name.partition("_")
        if rest.endswith(".sql"):
            found.append(Migration(int(number), file.name, file.read_text(encoding="utf-8")))
    found.sort(key=lambda step: step.number)
    return found


def left_of(known: Sequence[Migration], done: Mapping[int, str], ledger: str) -> list[Migration]:
    """The steps still to do; `done`: checksums by number. Raises StoreVersionError where the two disagree."""
    newer = [number for number in done if number > len(known)]
    if newer:
        raise StoreVersionError(
            f"{ledger} has schema {max(newer)}; this release knows {len(known)}.",
            details={"found": max(newer), "known": len(known)},
        )
    for step in known:
        if step.number in done and done[step.number] != step.checksum:
            raise StoreVersionError(
                f"{ledger} was made with another text of migration {step.name}.",
                remedy="Use the release that made it; do not change migrations that were applied.",
                details={"migration": step.name},
            )
    return [step for step in known if step.number not in done]
