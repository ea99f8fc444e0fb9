"""The filesystem pack against its server, honest and lied about; what is true is looked up on the disk."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.packs.desk import ALL, Case, Desk, desk_of, every, held_against_the_truth, installed, nothing_was_changed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("filesystem") / "work"
    server = installed("npm", "node_modules", ".bin", "mcp-server-filesystem")
    folder.mkdir()
    with desk_of(folder, "pack:filesystem", [server, str(folder)]) as desk:
        yield desk


def write_new(folder: Path, n: str) -> Mapping[str, Any]:
    return {"path": f"{n}.txt", "content": f"text of {n}\n"}


def write_over(folder: Path, n: str) -> Mapping[str, Any]:
    (folder / f"{n}.txt").write_text("what was there")
    (folder / f"{n}.txt").chmod(0o640)
    return {"path": str(folder / "." / f"{n}.txt"), "content": f"text of {n}\n"}


def written(folder: Path, n: str) -> bool:
    path = folder / f"{n}.txt"
    return path.is_file() and path.read_text() == f"text of {n}\n"


def edit(folder: Path, n: str) -> Mapping[str, Any]:
    for name in (f"{n}.txt", f"else-{n}.txt"):
        (folder / name).write_text("def f():\n    return one\n\nend\n")
    edits = [{"oldText": "one", "newText": "one + one"}, {"oldText": "end ", "newText": "the end"}]
    return {"path": f"sub/../{n}.txt", "edits": edits}


def edited(folder: Path, n: str) -> bool:
    return (folder / f"{n}.txt").read_text() == "def f():\n    return one + one\n\nthe end\n"


def make(folder: Path, n: str) -> Mapping[str, Any]:
    return {"path": f"{n}/inner"}


def made(folder: Path, n: str) -> bool:
    return (folder / n / "inner").is_dir()


def move_file(folder: Path, n: str) -> Mapping[str, Any]:
    (folder / f"{n}.from").write_bytes(b"\0bytes")
    return {"source": f"{n}.from", "destination": str(folder / f"{n}.to")}


def moved_file(folder: Path, n: str) -> bool:
    there = folder / f"{n}.to"
    return there.is_file() and there.read_bytes() == b"\0bytes" and not (folder / f"{n}.from").exists()


def move_folder(folder: Path, n: str) -> Mapping[str, Any]:
    (folder / n / "a").mkdir(parents=True)
    (folder / n / "a" / "b.txt").write_text("b")
    return {"source": n, "destination": f"{n}.moved"}


def moved_folder(folder: Path, n: str) -> bool:
    there = folder / f"{n}.moved" / "a" / "b.txt"
    return there.is_file() and there.read_text() == "b" and not (folder / n).exists()


CASES = (
    Case("write", "write_file", write_new, written, ALL),
    Case("overwrite", "write_file", write_over, written),
    Case("edit", "edit_file", edit, edited),
    Case("make", "create_directory", make, made),
    Case("move", "move_file", move_file, moved_file),
    Case("move a folder", "move_file", move_folder, moved_folder),
)


@pytest.mark.requirement("PACK-filesystem")
@pytest.mark.parametrize(("case", "lie"), every(CASES))
def test_the_client_is_told_that_it_is_done_where_it_is_so_on_the_disk_and_nowhere_else(
    desk: Desk, case: Case, lie: str
) -> None:
    held_against_the_truth(desk, case, lie)


def test_what_is_so_already_is_told_as_such_and_the_tools_that_only_read_pass(desk: Desk) -> None:
    (desk.folder / "same.txt").write_text("same")
    again = desk.call("write_file", {"path": "same.txt", "content": "same"})
    assert (again.verified, again.outcome["discrepancy"]) == (True, "no_op_success")
    assert "same" in desk.call("read_text_file", {"path": "same.txt"}).text


def test_a_text_with_a_nul_is_told_by_all_of_its_bytes(desk: Desk) -> None:
    given = {"path": "nul.txt", "content": "before\0after"}
    assert desk.call("write_file", given, "drop").verified is False
    assert desk.call("write_file", given).verified
    assert (desk.folder / "nul.txt").read_bytes() == b"before\0after"


def test_calls_side_by_side_are_each_verified(desk: Desk) -> None:
    told = desk.call_all("write_file", [{"path": f"beside-{n}.txt", "content": f"{n}"} for n in range(12)])
    assert [each.verified for each in told] == [True] * 12
    assert sorted(path.read_text() for path in desk.folder.glob("beside-*.txt")) == sorted(str(n) for n in range(12))


def test_an_edit_of_what_is_not_there_is_not_told_as_done(desk: Desk) -> None:
    (desk.folder / "other.txt").write_text("text")
    told = desk.call("edit_file", {"path": "other.txt", "edits": [{"oldText": "none", "newText": "x"}]})
    assert (told.verified, told.outcome["verdict"]) == (False, "refuted")


def test_an_edit_that_is_only_tried_leaves_the_file_as_it_is(desk: Desk) -> None:
    (desk.folder / "tried.txt").write_text("text")
    edits = [{"oldText": "text", "newText": "other"}]
    told = desk.call("edit_file", {"path": "tried.txt", "edits": edits, "dryRun": True})
    nothing_was_changed(told)
    assert "+other" in told.text  # what the server would have made of it, as its own words
    assert (desk.folder / "tried.txt").read_text() == "text"


def test_a_path_outside_of_the_folder_is_refused_by_the_server_and_not_told_as_done(desk: Desk, tmp_path: Path) -> None:
    assert desk.call("write_file", {"path": str(tmp_path / "x.txt"), "content": "x"}).verified is False
    assert not (tmp_path / "x.txt").exists()


NFC, NFD = (unicodedata.normalize(form, "résumé.txt") for form in ("NFC", "NFD"))


@pytest.mark.requirement("IDENT-own-names")
def test_a_name_in_another_unicode_form_is_the_file_that_the_server_takes_it_for(desk: Desk) -> None:
    at = desk.folder / "composed"
    at.mkdir()
    (at / NFD).write_text("made on another system")
    assert desk.call("write_file", {"path": f"composed/{NFC}", "content": "written"}).verified
    assert [each.name for each in at.iterdir()] == [NFD]
    assert desk.call("write_file", {"path": f"composed/{NFC}", "content": "lost"}, "drop").verified is False
    edits = [{"oldText": "written", "newText": "edited"}]
    assert desk.call("edit_file", {"path": f"composed/{NFC}", "edits": edits}).verified
    given = {"source": f"composed/{NFC}", "destination": "composed/moved.txt"}
    assert desk.call("move_file", given).verified
    assert [each.name for each in at.iterdir()] == ["moved.txt"]
    (at / NFD).mkdir()
    assert desk.call("write_file", {"path": f"composed/{NFC}/a.txt", "content": "a"}).verified
    assert (at / NFD / "a.txt").read_text() == "a"


@pytest.mark.requirement("IDENT-own-names")
def test_a_move_of_a_link_that_moves_what_it_leads_to_is_not_told_as_done(desk: Desk) -> None:
    (desk.folder / "precious.txt").write_text("kept here")
    (desk.folder / "link.txt").symlink_to("precious.txt")
    told = desk.call("move_file", {"source": "link.txt", "destination": "taken.txt"})
    assert (told.verified, told.outcome["verdict"]) == (False, "refuted")
    assert (desk.folder / "link.txt").is_symlink(), "the server moved the file and left the link"


@pytest.mark.requirement("IDENT-own-names")
def test_a_file_behind_a_link_of_a_folder_is_moved(desk: Desk) -> None:
    (desk.folder / "held").mkdir()
    (desk.folder / "held" / "a.txt").write_text("a")
    (desk.folder / "way").symlink_to("held")
    assert desk.call("move_file", {"source": "way/a.txt", "destination": "way/b.txt"}).verified
    assert (desk.folder / "held" / "b.txt").read_text() == "a"
