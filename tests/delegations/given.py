"""What the tests of delegations share: a desk whose delegate lies a number of times, and a client on virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from readback import AsyncReadback, Readback, Turn, delegation
from readback.delegations.api import Delegation
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore

EXISTS = """\
def run(result):
    info = fs.stat(args["expected_path"])
    return json.encode({
        "verified": info != None,
        "reason": "" if info else "expected file does not exist",
    })
"""
"""The specification's existence check, as printed."""
TASK = "Write the report to the folder."


@dataclass
class Desk:
    """A folder, and a delegate that says `Done.` and writes the file only after `lies` turns."""

    folder: Path
    lies: int = 0
    turns: list[Turn] = field(default_factory=list)
    ends: list[dict[str, Any]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "report.txt"

    def work(self, turn: Turn) -> object:
        self.turns.append(turn)
        if len(self.turns) > self.lies:
            self.file.write_text("done")
        return "Done."

    def delegation(self, **given: Any) -> Delegation:
        options: dict[str, Any] = {"verify": lambda _: {"verified": self.file.exists(), "reason": "no such file"}}
        options |= {"name": "writer", "on_end": lambda said: self.ends.append(dict(said)), **given}
        return delegation(**options)(self.work)

    def by_script(self, **given: Any) -> Delegation:
        return self.delegation(verify=EXISTS, allow={"fs": [str(self.folder)]}, **given)


@contextmanager
def opened() -> Iterator[Readback]:
    with Readback.open(store=MemoryStore(), runtime=VirtualRuntime(), tenant="acme", principal="agent:lead") as client:
        yield client


def opened_async() -> AsyncReadback:
    return AsyncReadback.open(store=MemoryStore(), runtime=VirtualRuntime(), tenant="acme", principal="agent:lead")
