"""The memory pack against its server, honest and lied about; what is true is looked up in the memory file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.packs.desk import ALL, Case, Desk, desk_of, every, held_against_the_truth, installed, nothing_was_changed

pytestmark = pytest.mark.slow
FILE = "memory.jsonl"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("memory") / "work"
    server = installed("npm", "node_modules", ".bin", "mcp-server-memory")
    with desk_of(folder, "pack:memory", [server], {"MEMORY_FILE_PATH": str(folder / FILE)}) as desk:
        yield desk


def entity(name: str, *observations: str, of: str = "thing") -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": of, "observations": [*observations]}


def relation(one: str, other: str) -> dict[str, Any]:
    return {"type": "relation", "from": one, "to": other, "relationType": "knows"}


def lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / FILE
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def known(folder: Path, *more: dict[str, Any]) -> None:
    """What the file holds before the call, as another program wrote it."""
    (folder / FILE).write_text("\n".join(json.dumps(each) for each in [*lines(folder), *more]))


def bare(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != "type"}


def create(folder: Path, n: str) -> Mapping[str, Any]:
    return {"entities": [bare(entity(n, "a", "b")), bare(entity(f"{n} 2", of="other"))]}


def created(folder: Path, n: str) -> bool:
    found = lines(folder)
    return found.count(entity(n, "a", "b")) == 1 and found.count(entity(f"{n} 2", of="other")) == 1


def relate(folder: Path, n: str) -> Mapping[str, Any]:
    known(folder, entity(n), entity(f"{n} 2"))
    return {"relations": [bare(relation(n, f"{n} 2"))]}


def related(folder: Path, n: str) -> bool:
    return lines(folder).count(relation(n, f"{n} 2")) == 1


def observe(folder: Path, n: str) -> Mapping[str, Any]:
    known(folder, entity(n, "a"), entity(f"else-{n}"))
    return {"observations": [{"entityName": n, "contents": ["b", "c"]}]}


def observed(folder: Path, n: str) -> bool:
    return entity(n, "a", "b", "c") in lines(folder)


def delete(folder: Path, n: str) -> Mapping[str, Any]:
    known(folder, entity(n), entity(f"else-{n}"), entity(f"{n} 2"), relation(n, f"{n} 2"), relation(f"{n} 2", n))
    return {"entityNames": [n]}


def deleted(folder: Path, n: str) -> bool:
    found = lines(folder)
    return entity(n) not in found and relation(n, f"{n} 2") not in found and entity(f"{n} 2") in found


def forget(folder: Path, n: str) -> Mapping[str, Any]:
    known(folder, entity(n, "a", "b", "c"), entity(f"else-{n}", "a", "b"))
    return {"deletions": [{"entityName": n, "observations": ["b"]}]}


def forgotten(folder: Path, n: str) -> bool:
    return entity(n, "a", "c") in lines(folder)


def part(folder: Path, n: str) -> Mapping[str, Any]:
    known(folder, entity(n), entity(f"{n} 2"), relation(n, f"{n} 2"), relation(f"{n} 2", n))
    return {"relations": [bare(relation(n, f"{n} 2"))]}


def parted(folder: Path, n: str) -> bool:
    return relation(n, f"{n} 2") not in lines(folder) and relation(f"{n} 2", n) in lines(folder)


CASES = (
    Case("create", "create_entities", create, created, ALL),
    Case("relate", "create_relations", relate, related),
    Case("observe", "add_observations", observe, observed),
    Case("delete", "delete_entities", delete, deleted),
    Case("forget", "delete_observations", forget, forgotten),
    Case("part", "delete_relations", part, parted),
)


@pytest.mark.requirement("PACK-memory")
@pytest.mark.parametrize(("case", "lie"), every(CASES))
def test_the_client_is_told_that_it_is_done_where_the_memory_file_says_so_and_nowhere_else(
    desk: Desk, case: Case, lie: str
) -> None:
    held_against_the_truth(desk, case, lie)


def test_an_entity_that_is_silently_left_as_it_was_is_not_told_as_created(desk: Desk) -> None:
    known(desk.folder, entity("taken", "old"))
    told = desk.call("create_entities", {"entities": [bare(entity("taken", "new"))]})
    assert entity("taken", "old") in lines(desk.folder)
    assert told.verified is False


def test_what_is_there_already_is_told_as_such(desk: Desk) -> None:
    known(desk.folder, entity("twice", "a"))
    nothing_was_changed(desk.call("create_entities", {"entities": [bare(entity("twice", "a"))]}))


def test_a_large_memory_is_verified_too(desk: Desk) -> None:
    known(desk.folder, *(entity(f"many {n}", *(f"observation {m} of {n}" for m in range(10))) for n in range(2_000)))
    contents = [f"new observation {m}" for m in range(50)]
    wanted = [{"entityName": f"many {n}", "contents": contents} for n in range(20)]
    assert desk.call("add_observations", {"observations": wanted}).verified


def test_of_creates_at_the_same_time_those_are_told_as_created_that_stay(desk: Desk) -> None:
    """The server loses what calls at the same time write: the last one writes the file that it had read."""
    verified = 0
    for n in range(5):
        names = [f"same time {n} {each}" for each in "abcdefgh"]
        told = desk.call_all("create_entities", [{"entities": [bare(entity(name))]} for name in names])
        kept = {line.get("name") for line in lines(desk.folder)}
        for name, each in zip(names, told, strict=True):
            assert not each.verified or name in kept, (name, each.text)
            assert each.outcome["pending"] is False
        verified += sum(each.verified for each in told)
    # Two writes of the server that interleave leave a file without a reading: then no call of that round is verified.
    assert verified >= 1
