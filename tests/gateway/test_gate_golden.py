"""What a client is told, word for word. `python -m tests.gateway.test_gate_golden --accept` rewrites it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.desk import Desk, Told, a_desk
from tests.golden.rewrite import rewrite

GOLDEN = Path(__file__).parents[1] / "golden" / "gateway"
APPROVAL = {"    within: 2s": "    within: 2s\n    approval: required"}
LATE = {"timeout: 20s": "timeout: 200ms", "within: 2s": "within: 1h\n    polls: [0s, 1m]"}
Case = Callable[[Desk], Awaitable[Told]]


def _lying(lie: str) -> Case:
    async def case(desk: Desk) -> Told:
        desk.book.lie = lie
        return await desk.enter()

    return case


async def _twice(desk: Desk) -> Told:
    await desk.enter()
    return await desk.enter()


async def _conflicting(desk: Desk) -> Told:
    await desk.enter(amount=3, operation="op-1")
    return await desk.enter(amount=4, operation="op-1")


async def _unfitting(desk: Desk) -> Told:
    return await desk.call("enter", name=7)


async def _changed(desk: Desk) -> Told:
    desk.server.remove_tool("enter")
    desk.gateway.gate.tools_changed("")
    return await desk.enter()


async def _ungoverned(desk: Desk) -> Told:
    return await desk.call("total", name="rent")


async def _unheard_of(desk: Desk) -> Told:
    return await desk.call("readback_wait", action="nobody-knows-it")


async def _explained(desk: Desk) -> Told:
    desk.book.lie = "twice"
    refuted = await desk.enter()
    return await desk.call("readback_explain", action=refuted.outcome["action"])


CASES: dict[str, tuple[Case, dict[str, Any]]] = {
    "verified": (_lying(""), {}),
    "verified-though-the-tool-failed": (_lying("fails and writes"), {}),
    "refuted": (_lying("drop"), {}),
    "refuted-and-the-tool-failed": (_lying("fails"), {}),
    "to-be-reviewed": (_lying("twice"), {}),
    "unknown": (_lying("hides the book"), {}),
    "pending": (_lying("late"), {"changes": LATE, "hold": 30}),
    "held-for-approval": (_lying(""), {"changes": APPROVAL}),
    "replayed": (_twice, {}),
    "refused-arguments": (_unfitting, {}),
    "refused-conflict": (_conflicting, {}),
    "refused-changed-tool": (_changed, {}),
    "refused-denied": (_ungoverned, {"ungoverned": "deny"}),
    "ungoverned": (_ungoverned, {}),
    "unanswerable": (_unheard_of, {}),
    "explained": (_explained, {}),
}


def told(name: str, folder: Path) -> str:
    """The result of a case, as it goes out; hashes differ with the folder."""
    case, options = CASES[name]

    async def main() -> Told:
        async with a_desk(folder, **options) as desk:
            return await case(desk)

    result = asyncio.run(main()).result.model_dump(by_alias=True, mode="json", exclude_none=True)
    result.get("_meta", {}).pop("io.modelcontextprotocol/serverInfo", None)
    return re.sub(r"[0-9a-f]{64}", "<sha256>", json.dumps(result, indent=2, sort_keys=True)) + "\n"


@pytest.mark.requirement("GATEWAY-words")
@pytest.mark.parametrize("name", CASES)
def test_a_client_is_told_exactly_this(name: str, tmp_path: Path) -> None:
    assert told(name, tmp_path) == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")


def test_only_what_is_verified_or_was_never_governed_is_no_error() -> None:
    for path in GOLDEN.glob("*.json"):
        result = json.loads(path.read_text(encoding="utf-8"))
        outcome = result["_meta"]["io.readback/outcome"]
        answers = path.stem in ("ungoverned", "explained")
        assert (not result["isError"]) == (outcome.get("verdict") == "verified" or answers), path.stem
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(CASES)


if __name__ == "__main__":
    TEXTS = {}
    for each in CASES:
        with tempfile.TemporaryDirectory() as made:
            TEXTS[GOLDEN / f"{each}.json"] = told(each, Path(made) / "w")
    raise SystemExit(rewrite(TEXTS, sys.argv[1:], owned="*.json"))
