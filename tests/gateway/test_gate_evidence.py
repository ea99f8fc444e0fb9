"""What a tool answers is evidence: it is read for its worst sign, bounded, and handed on only beside a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from readback.agent_errors import ToolRefusedError, UpstreamLostError
from readback.canon import Json
from readback.canon.limits import EVIDENCE_MAX_BYTES
from readback.domain.verification.observation import normalise, normalise_exception
from readback.errors import NotDispatchedError
from readback.gateway.call import RESULT_MAX_BYTES
from readback.gateway.policy.results import TOO_LARGE
from tests.gateway.desk import Desk, at_a_desk


def _text(text: str, **more: Json) -> dict[str, Json]:
    return {"content": [{"type": "text", "text": text}], **more}


@pytest.mark.requirement("GATEWAY-evidence")
@pytest.mark.parametrize(
    ("result", "status"),
    [
        (_text("done"), "success"),
        (_text("done", isError=False), "success"),
        (_text("done", isError=True), "error"),
        (_text('{"success": false}'), "error"),
        (_text('{"ok": true}', structuredContent={"ok": False}), "error"),
        (_text("ok", structuredContent={"status": "queued"}), "accepted"),
        (_text("ok", structuredContent={"result": {"success": False}}), "error"),
        (_text('{"status": "partial"}'), "partial"),
        (_text("Error: ENOENT: no such file or directory"), "malformed"),
        (_text("Timed out while waiting"), "malformed"),
        ({"content": []}, "success"),
        ({"content": "none", "isError": "yes"}, "error"),
        ({"resultType": "input_required", "inputRequests": {}}, "pending"),
        ({}, "success"),
    ],
)
def test_a_result_is_read_for_its_worst_sign(result: dict[str, Json], status: str) -> None:
    seen = normalise(result, 1)
    assert seen.status == status
    assert seen.body == result


@pytest.mark.parametrize("result", [_text("x" * (EVIDENCE_MAX_BYTES + 1)), _text("x", n=10**401), _text("\ud800")])
def test_a_result_that_cannot_be_kept_is_malformed_and_not_shortened(result: dict[str, Any]) -> None:
    seen = normalise(result, 1)
    assert seen.status == "malformed"
    assert seen.body is None


@pytest.mark.requirement("GATEWAY-unknown")
@pytest.mark.parametrize(
    ("error", "status", "dispatched"),
    [
        (UpstreamLostError("connection closed"), "timeout", True),
        (ToolRefusedError("-32602"), "error", True),
        (NotDispatchedError("not started"), "not_dispatched", False),
    ],
)
def test_a_call_without_an_answer_may_have_landed_unless_nothing_was_written(
    error: Exception, status: str, dispatched: bool
) -> None:
    seen = normalise_exception(error, 1)
    assert (seen.status, seen.dispatched) == (status, dispatched)


@pytest.mark.requirement("GATEWAY-evidence")
@pytest.mark.parametrize(("size", "whole"), [(2 * EVIDENCE_MAX_BYTES, True), (RESULT_MAX_BYTES + 1, False)])
def test_a_large_answer_is_handed_on_up_to_a_limit_and_the_verdict_stands_without_it(
    tmp_path: Path, size: int, whole: bool
) -> None:
    async def work(desk: Desk) -> None:
        desk.book.padding = "x" * size
        told = await desk.enter(operation="op-1")
        assert told.outcome["verdict"] == "verified"
        assert not told.failed
        assert (TOO_LARGE in told.text) is not whole
        assert any(len(text) >= size for text in told.texts) is whole
        again = await desk.enter(operation="op-1")  # it was not recorded whole, and nobody makes up the rest
        assert again.outcome["verdict"] == "verified"
        assert len(again.texts) == 1

    at_a_desk(tmp_path, work)
