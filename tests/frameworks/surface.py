"""The gates of surfaces on one framework's adapter: `python -m tests.frameworks.surface langchain`.

With `--flattering` the kit believes the tool, and both gates have to say so.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from readback.assurance.drills.surface_gates import false_success, unknown_state
from readback.assurance.gate_input import GateInput, VerificationLogic
from readback.cli.gates.surfaces import installed_surfaces
from readback.domain.outcome.reporting import MODEL_STATUS
from readback.domain.state import ReportKey
from readback.kit.tools import Tool


def flatter() -> None:
    """Make every result of the kit a success in the words and in the flags."""
    for name in ("run", "arun"):
        setattr(Tool, name, _flattered(getattr(Tool, name), name))


def _flattered(whole: Any, name: str) -> Any:
    def changed(result: Any) -> Any:
        text = f"[action outcome] {MODEL_STATUS[ReportKey.COMPLETED]}\n{result.text}"
        return dataclasses.replace(result, text=text, ok=True, is_error=False)

    async def arun(*given: Any, **named: Any) -> Any:
        return changed(await whole(*given, **named))

    return arun if name == "arun" else lambda *given, **named: changed(whole(*given, **named))


def main() -> None:
    if "--flattering" in sys.argv:
        flatter()
    [surface] = [each for each in installed_surfaces() if each.name == f"framework:{sys.argv[1]}"]
    given = GateInput(VerificationLogic({}), surfaces=(surface,))
    found = [each for gate in (false_success, unknown_state) for each in gate(given).findings]
    print(json.dumps({each.code: each.message for each in found}))


if __name__ == "__main__":
    main()
