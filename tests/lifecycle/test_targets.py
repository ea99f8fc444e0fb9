"""Of which object a reading is: a target may leave out its type, and nothing of what was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from readback import Context, Reading, action
from tests.sdk.given import TERMS, opened


@pytest.mark.parametrize(
    ("target", "asked", "shown", "same"),
    [
        ("file/{requested.path}", "a.txt", "file/a.txt", True),
        ("file/{requested.path}", "a.txt", "a.txt", True),
        ("file/{requested.path}", "secrets/a.txt", "secrets/a.txt", True),
        ("file/{requested.path}", "secrets/a.txt", "a.txt", False),
        ("file:{requested.path}", "a.txt", "a.txt", True),
        ("{requested.path}", "a.txt", "a.txt", True),
        ("{requested.path}", "secrets/a.txt", "secrets/a.txt", True),
        ("{requested.path}", "secrets/a.txt", "a.txt", False),
        ("{requested.path}", "https://a.example/x", "//a.example/x", False),
        ("{requested.kind}/{requested.path}", "a.txt", "a.txt", True),
        ("{requested.path}/{requested.kind}", "secrets/a.txt", "a.txt/file", False),
        ("{requested.path}:{requested.kind}", "a.txt", "file", True),
        ("{{/}}{requested.path}", "a.txt", "}a.txt", True),
    ],
)
def test_a_target_may_leave_out_the_type_that_its_contract_says_and_no_part_of_a_value(
    target: str, asked: str, shown: str, same: bool
) -> None:
    ensure = {"there": "authoritative.there == true"}
    terms: dict[str, Any] = {**TERMS, "name": "put", "target": target, "ensure": ensure, "within": "1s"}

    @action(**{**terms, "identity": {"target": "authoritative.id", "tenant": "not_offered"}})
    def put(_ctx: Context, path: str, kind: str = "file") -> object:
        return {"status": "ok"}

    @put.read(source="disk", consistency="strong", independence="other_client")
    def look(_ctx: Context, path: str, kind: str = "file") -> Reading:
        return Reading.of({"id": shown, "there": True}, version=1)

    with opened() as rb:
        assert rb.run(put(path=asked), operation="once").verified is same
