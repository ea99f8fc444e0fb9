"""An action whose effect names the process that made it, and a slow one that waits for a file."""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import Any

from readback import Context, Reading, action

PLACE = "PROCESSES_PLACE"
TERMS: dict[str, Any] = {
    "kind": "set",
    "side_effect": "low_risk_internal",
    "identity": {"target": "authoritative.name", "tenant": "not_offered"},
    "within": "5s",
    "late_window": "0s",
}


def note(name: str) -> Path:
    return Path(os.environ[PLACE]) / f"note-{name}"


def writing(prefix: str) -> Any:
    """The action on notes of this prefix."""

    @action(
        name=f"write{prefix}", target="note/{requested.name}", ensure={"written": "authoritative.process > 0"}, **TERMS
    )
    def write(ctx: Context, name: str) -> object:
        with note(f"{prefix}calls").open("a") as calls:
            calls.write(f"{name}\n")
        note(f"{prefix}{name}").write_text(str(os.getpid()))
        while name.startswith("slow") and not note("go").exists():
            select.select([], [], [], 0.02)
        return {"status": "ok"}

    @write.read(source="notes", consistency="strong", independence="other_client", attributes=True)
    def written(ctx: Context, name: str) -> Reading:
        try:
            return Reading.of({"name": name, "process": int(note(f"{prefix}{name}").read_text())})
        except FileNotFoundError:
            return Reading.absent()

    return write


write = writing("")
write.twin(writing("_test_"))
