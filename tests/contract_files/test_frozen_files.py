"""A file that is frozen is frozen by whatever name it is reached: another path, a link, a hard link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from readback import Outcome, Readback
from readback.client.files import contract_files
from readback.domain.contract.freezing import CODE
from readback.testing.runtime_virtual import VirtualRuntime
from tests.contract_files.writing import contract, written

pytestmark = pytest.mark.requirement("IDENT-one-file")
WRITES = """
    kind: set
    side_effect: low_risk_internal
    target: {TARGET}
    arguments: {path: string, text: string}
    execute:
      file: {root: {ROOT}, staging: staging, do: write, path: "{requested.path}", content: "{requested.text}"}
    readers: [{file: {root: {ROOT}, path: "{requested.path}", show: text}}]
    identity: {target: authoritative.path, tenant: not_offered}
    ensure: {text: authoritative.text == requested.text}
    within: 200ms
"""
MOVES = """
    kind: set
    side_effect: ephemeral_write
    target: moved/{requested.to}
    arguments: {path: string, to: string}
    execute:
      file: {root: notes, staging: staging, do: move, path: "{requested.path}", to: "{requested.to}", overwrite: true}
    readers: [{file: {root: notes, path: "{requested.to}"}}]
    ensure: {there: authoritative != null}
    within: 200ms
"""


def writes(target: str = "file/{requested.path}", root: str = "notes") -> str:
    return WRITES.replace("{TARGET}", target).replace("{ROOT}", root)


@dataclass
class Desk:
    """A ledger, contracts, and a folder of notes."""

    rb: Readback
    folder: Path
    acts: Any
    said: list[str] = field(default_factory=list)

    def run(self, name: str, **arguments: str) -> Outcome:
        self.said.append(name)
        return self.rb.run(self.acts[name](**arguments), operation=f"{len(self.said)}", wait=5)

    def is_refused(self, name: str, **arguments: str) -> bool:
        """Whether the freeze refuses it; else it is done."""
        told = self.run(name, **arguments)
        assert told.verified or told.code == CODE, told
        return told.code == CODE


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """`a.txt` is frozen, after an action whose reader showed another target than was asked for."""
    (tmp_path / "notes" / "sub").mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (tmp_path / "notes" / name).write_text(name)
    text = contract(writes().replace("target: authoritative.path", "target: authoritative.text"), name="wrong")
    text += "".join(
        contract(each, name=name).partition("contracts:\n")[2]
        for name, each in (
            ("write", writes()),
            ("other", writes("paper/{requested.path}", ".")),
            ("moved", MOVES),
        )
    )
    acts = contract_files(written(tmp_path / "one.yaml", text))
    (tmp_path / "ledger").mkdir()
    url = f"sqlite:///{tmp_path}/ledger/readback.db"
    with Readback.open(url, tenant="acme", principal="agent:x", runtime=VirtualRuntime()) as rb:
        made = Desk(rb, tmp_path, acts)
        assert not made.run("wrong", path="a.txt", text="x").verified
        assert "resource:file/a.txt" in [each.subject for each in rb.freezes()]
        yield made


def link(name: str, make: Any, *, to: str = "a.txt") -> Any:
    def made(notes: Path) -> str:
        make(notes / to, notes / name)
        return name

    return made


def absolute(notes: Path) -> str:
    return str(notes / "a.txt")


def through_a_folder(notes: Path) -> str:
    os.symlink(notes, notes / "sub" / "up")
    return "sub/up/a.txt"


NAMES = {
    "as it is": lambda _: "a.txt",
    "with a dot": lambda _: "./a.txt",
    "absolute": absolute,
    "a symbolic link": link("s.txt", os.symlink),
    "a hard link": link("h.txt", os.link),
    "a link to a hard link": lambda notes: link("s.txt", os.symlink, to=link("h.txt", os.link)(notes))(notes),
    "through a linked folder": through_a_folder,
}


@pytest.mark.parametrize("how", NAMES)
def test_a_frozen_file_is_written_by_no_name(desk: Desk, how: str) -> None:
    named = NAMES[how](desk.folder / "notes")
    before = (desk.folder / "notes" / "a.txt").read_bytes()
    assert desk.is_refused("write", path=named, text="y")
    assert (desk.folder / "notes" / "a.txt").read_bytes() == before


def test_another_contract_with_another_root_does_not_reach_it_either(desk: Desk) -> None:
    assert desk.is_refused("other", path="notes/a.txt", text="y")
    assert desk.is_refused("moved", path="b.txt", to="a.txt")
    assert desk.is_refused("moved", path="a.txt", to="c.txt")


def test_what_is_beside_it_is_written_as_ever(desk: Desk) -> None:
    os.link(desk.folder / "notes" / "b.txt", desk.folder / "notes" / "h.txt")
    assert not desk.is_refused("write", path="b.txt", text="y")
    assert not desk.is_refused("write", path="sub/a.txt", text="y")
    assert not desk.is_refused("write", path="h.txt", text="z")
    assert not desk.is_refused("moved", path="b.txt", to="c.txt")


def test_lifting_the_target_lifts_the_file(desk: Desk) -> None:
    desk.rb.lift("resource:file/a.txt", who="person:ada", reason="looked at it")
    assert desk.rb.freezes() == ()
    os.symlink(desk.folder / "notes" / "a.txt", desk.folder / "notes" / "s.txt")
    assert not desk.is_refused("write", path="a.txt", text="y")
    assert not desk.is_refused("other", path="notes/a.txt", text="z")
