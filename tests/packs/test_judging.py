"""States that a server could leave behind and call done: what the packs' contracts make of them, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from readback.canon import Json
from readback.client.files import contract_files
from readback.domain.verdict import Verdict

FILE = "pack:memory?file=/memory.json"
ENTITY: dict[str, Json] = {"type": "entity", "name": "ada", "entityType": "person", "observations": ["kind", "tall"]}
RELATION: dict[str, Json] = {"type": "relation", "from": "ada", "to": "bob", "relationType": "knows"}
LINK: dict[str, Json] = {"from": "ada", "to": "bob", "relationType": "knows"}


def memory(lines: list[Any], count: int) -> dict[str, Json]:
    return {"lines": lines, "by": {each["name"]: each for each in lines if "name" in each}, "count": count}


@pytest.mark.requirement("PACK-memory")
@pytest.mark.parametrize(
    ("tool", "requested", "before", "after"),
    [
        ("delete_entities", {"entityNames": ["ada"]}, memory([ENTITY, RELATION], 9), memory([], 7)),
        ("delete_relations", {"relations": [LINK]}, memory([RELATION], 9), memory([], 8)),
        (
            "delete_observations",
            {"deletions": [{"entityName": "ada", "observations": ["kind"]}]},
            memory([ENTITY], 9),
            memory([{**ENTITY, "observations": ["tall"]}], 9),
        ),
        ("create_relations", {"relations": [LINK]}, memory([], 8), memory([RELATION], 9)),
        (
            "add_observations",
            {"observations": [{"entityName": "ada", "contents": ["old"]}]},
            memory([ENTITY], 9),
            memory([{**ENTITY, "observations": ["kind", "tall", "old"]}], 9),
        ),
    ],
)
def test_a_memory_that_lost_more_than_was_asked_for_is_not_as_intended(
    tool: str, requested: dict[str, Any], before: dict[str, Json], after: dict[str, Any]
) -> None:
    action = contract_files(FILE)[tool]
    honest = action.evaluate(requested=requested, before=before, authoritative=after)
    assert honest.verdict is Verdict.VERIFIED, honest
    lost = action.evaluate(requested=requested, before=before, authoritative={**after, "count": len(after["lines"])})
    assert lost.verdict is Verdict.REFUTED, lost


@pytest.mark.requirement("PACK-git")
def test_a_reset_that_threw_changes_away_is_not_as_intended() -> None:
    action = contract_files("pack:git?repository=/repository")["git_reset"]
    before: dict[str, Json] = {
        "branch": "main", "commit": "c1", "staged": ["a"], "unstaged": ["b"], "untracked": ["new"], "intended": [],
        "files": "f1",
    }  # fmt: skip
    requested = {"repo_path": "/repository"}
    after: dict[str, Json] = {**before, "staged": [], "unstaged": ["a", "b"]}
    assert action.evaluate(requested=requested, before=before, authoritative=after).verdict is Verdict.VERIFIED
    assert action.evaluate(requested=requested, before=before, authoritative={**after, "files": "f2"}).verdict is (
        Verdict.REFUTED
    )
    for lost in ("unstaged", "untracked"):
        seen: dict[str, Json] = {**after, lost: ["a"]}
        assert action.evaluate(requested=requested, before=before, authoritative=seen).verdict is Verdict.REFUTED
