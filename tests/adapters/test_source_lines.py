"""A file of JSON lines as a system of record: the lines that match, and that the others are what they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readback.domain.verification.reading import Presence, Reading
from readback.errors import ReaderTypeError
from readback.systems.files.source import FileSource

ADA, BOB, KNOWS = {"type": "e", "name": "Ada"}, {"type": "e", "name": "Bob", "n": 1}, {"type": "r", "from": "Ada"}


def source(folder: Path, *lines: Any, name: str = "graph.jsonl") -> FileSource:
    (folder / name).write_text("\n".join(json.dumps(line) for line in lines))
    return FileSource("graph", folder)


def value(found: Reading) -> dict[str, Any]:
    assert isinstance(found.value, dict)
    return found.value


def test_the_lines_that_match_are_shown_and_by_a_field_too(tmp_path: Path) -> None:
    shown = value(source(tmp_path, ADA, BOB, KNOWS).lines("graph.jsonl", [{"type": "e"}], by="name"))
    assert shown["lines"] == [ADA, BOB]
    assert shown["by"] == {"Ada": ADA, "Bob": BOB}
    assert shown["count"] == 3


def test_a_value_of_another_kind_does_not_match(tmp_path: Path) -> None:
    graph = source(tmp_path, BOB, {"n": True}, {"n": 1.5})
    assert value(graph.lines("graph.jsonl", [{"n": 1}]))["lines"] == [BOB]
    inside = source(tmp_path, {"n": [1]}, {"n": [True]}, {"n": [{"on": 1}]})
    assert [repr(each) for each in value(inside.lines("graph.jsonl", [{"n": [1]}]))["lines"]] == ["{'n': [1]}"]
    assert value(inside.lines("graph.jsonl", [{"n": [{"on": True}]}]))["lines"] == []


def test_a_number_is_one_however_it_is_written(tmp_path: Path) -> None:
    graph = source(tmp_path, {"n": 1.0}, {"n": [2.0]})
    assert value(graph.lines("graph.jsonl", [{"n": 1}, {"n": [2]}]))["count"] == 2
    assert len(value(graph.lines("graph.jsonl", [{"n": 1}, {"n": [2]}]))["lines"]) == 2


def test_without_a_match_every_line_is_shown_and_with_an_empty_one_none(tmp_path: Path) -> None:
    graph = source(tmp_path, ADA, BOB)
    assert value(graph.lines("graph.jsonl"))["lines"] == [ADA, BOB]
    assert value(graph.lines("graph.jsonl", []))["lines"] == []


def test_the_others_are_the_same_however_they_are_written_and_not_where_one_has_changed(tmp_path: Path) -> None:
    first = source(tmp_path, ADA, BOB, KNOWS).lines("graph.jsonl", [ADA])
    (tmp_path / "graph.jsonl").write_text(
        "\n".join(json.dumps(line, separators=(",", ":")) for line in (KNOWS, dict(reversed(BOB.items())), ADA))
    )
    again = FileSource("graph", tmp_path).lines("graph.jsonl", [ADA])
    assert (again.value, again.version) == (first.value, None)
    changed = source(tmp_path, ADA, {**BOB, "n": 2}, KNOWS).lines("graph.jsonl", [ADA])
    assert value(changed)["others"] != value(first)["others"]


@pytest.mark.parametrize("line", ["no json", "[1]", '{"a": NaN}', '"text"'])
def test_a_line_that_is_no_object_cannot_be_told(line: str, tmp_path: Path) -> None:
    (tmp_path / "graph.jsonl").write_text(f'{{"a": 1}}\n{line}\n')
    with pytest.raises(ReaderTypeError, match="Line 2"):
        FileSource("graph", tmp_path).lines("graph.jsonl")


def test_a_file_that_is_not_there_is_absent(tmp_path: Path) -> None:
    assert FileSource("graph", tmp_path).lines("graph.jsonl", [ADA]).presence is Presence.ABSENT


def test_a_line_that_is_nested_without_an_end_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "graph.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(ReaderTypeError, match="no JSON"):
        FileSource("graph", tmp_path).lines("graph.jsonl")
