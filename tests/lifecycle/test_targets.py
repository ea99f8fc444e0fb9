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
        ("{requested.path}", "7", 7, True),
        ("{requested.path}", "True", True, False),
        ("{requested.path}", "[1]", [1], False),
        ("{requested.path}", "{'a': 1}", {"a": 1}, False),
    ],
)
def test_a_target_may_leave_out_the_type_that_its_contract_says_and_no_part_of_a_value(
    target: str, asked: str, shown: object, same: bool
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


def test_what_was_not_asked_for_is_no_text_that_reads_like_nothing() -> None:
    identity = {"target": "authoritative.id", "tenant": "not_offered", "region": "authoritative.region"}
    terms: dict[str, Any] = {**TERMS, "name": "put", "target": "file/{requested.path}", "within": "1s"}

    @action(**{**terms, "identity": identity, "ensure": {"there": "authoritative.there == true"}})
    def put(_ctx: Context, path: str, region: str | None = None) -> object:
        return {"status": "ok"}

    @put.read(source="disk", consistency="strong", independence="other_client")
    def look(_ctx: Context, path: str, region: str | None = None) -> Reading:
        return Reading.of({"id": path, "there": True, "region": "None"}, version=1)

    with opened() as rb:
        assert not rb.run(put(path="a.txt"), operation="once").verified
