"""Readback's own files are changed by no executor, whatever its root is and by whatever name they are reached."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from readback import Readback
from readback.client.files import contract_files
from readback.config import settings
from readback.contracts.documents import own_files
from readback.domain.state import State
from readback.errors import ContractFileError, OwnFileError, ReadbackError, SettingsError
from readback.systems.command.executor import CommandExecutor
from readback.systems.configured.factory import BuiltInSystems
from readback.systems.files.executor import FileExecutor
from readback.systems.files.sandboxed_paths import Confined
from tests.contract_files.writing import context, contract, written

pytestmark = pytest.mark.requirement("SEC-own-files")

NOTES = """
    kind: set
    side_effect: ephemeral_write
    target: note/{requested.name}
    arguments: {name: string}
    execute: {file: {root: ., do: write, path: "{requested.name}", content: "x"}}
    readers: [{file: {root: ., path: "{requested.name}"}}]
    ensure: {there: authoritative != null}
    within: 200ms
"""


@dataclass
class Place:
    """A folder with a contract file, settings and a ledger, and an executor that is given the whole of it."""

    folder: Path
    files: FileExecutor

    def contents(self) -> dict[str, bytes]:
        own = ("notes.yaml", "ops/readback.db", "home/readback/config.toml")
        return {name: (self.folder / name).read_bytes() for name in own}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in ("ops", "home/readback", "work"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home" / "readback" / "config.toml").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    contract_files(written(tmp_path / "notes.yaml", contract(NOTES)))
    settings()
    Readback.open(f"sqlite:///{tmp_path}/ops/readback.db", tenant="acme", principal="agent:x").close()
    return Place(tmp_path, FileExecutor(tmp_path, staging=tmp_path.parent / f"{tmp_path.name}-staging"))


OWN = {
    "a contract": "notes.yaml",
    "the ledger": "ops/readback.db",
    "its log that is not there": "ops/readback.db-wal",
    "its memory": "ops/readback.db-shm",
    "its journal": "ops/readback.db-journal",
    "its fallback": "ops/readback.db.unrecorded.jsonl",
    "the user's settings": "home/readback/config.toml",
    "a new file beside them": "home/readback/evil.toml",
    "settings of the folder": "readback.toml",
    "another spelling": "NOTES.yaml",
    "a folder above": "ops",
    "a folder above that": "home",
}


def _link(place: Place, name: str) -> str:
    os.symlink(place.folder / name, place.folder / "work" / "link")
    return "work/link"


def _hard_link(place: Place, name: str) -> str:
    os.link(place.folder / name, place.folder / "work" / "link")
    return "work/link"


def _linked_folder(place: Place, name: str) -> str:
    os.symlink((place.folder / name).parent, place.folder / "work" / "away")
    return f"work/away/{Path(name).name}"


ACTS: dict[str, Callable[[FileExecutor, str], object]] = {
    "write": lambda files, path: files.write_text(context(), path, "evil"),
    "write with parents": lambda files, path: files.write_text(context(), path, "evil", parents=True),
    "append": lambda files, path: files.append(context(), path, "evil"),
    "delete": lambda files, path: files.delete(context(), path),
    "move away": lambda files, path: files.move(context(), path, "work/taken"),
    "move away over": lambda files, path: files.move(context(), path, "work/taken", overwrite=True),
    "move into": lambda files, path: files.move(context(), "work/evil", path),
    "move over": lambda files, path: files.move(context(), "work/evil", path, overwrite=True),
    "stage": lambda files, path: files.stage(context(), path, "evil").commit(),
}


@pytest.mark.parametrize("what", OWN)
@pytest.mark.parametrize("act", ACTS)
def test_no_act_changes_an_own_file(place: Place, act: str, what: str) -> None:
    (place.folder / "work" / "evil").write_text("evil")
    before = place.contents()
    there = os.path.lexists(place.folder / OWN[what])
    with pytest.raises(ReadbackError) as refused:
        ACTS[act](place.files, OWN[what])
    assert what in ("a folder above", "a folder above that") or isinstance(refused.value, OwnFileError), refused.value
    assert place.contents() == before
    assert os.path.lexists(place.folder / OWN[what]) is there
    assert (place.folder / "work" / "evil").read_text() == "evil"


@pytest.mark.parametrize("name", ["notes.yaml", "ops/readback.db", "home/readback/config.toml"])
@pytest.mark.parametrize("alias", [_link, _hard_link, _linked_folder])
@pytest.mark.parametrize("act", ["write", "append", "stage", "move into", "move over"])
def test_no_link_leads_to_an_own_file(place: Place, act: str, alias: Callable[[Place, str], str], name: str) -> None:
    (place.folder / "work" / "evil").write_text("evil")
    before = place.contents()
    path = alias(place, name)
    try:
        ACTS[act](place.files, path)
    except ReadbackError:
        assert (place.folder / "work" / "evil").read_text() == "evil"
    else:  # the link itself gave way, which changes nothing that it meant
        assert act == "move over"
    assert place.contents() == before


def test_what_is_beside_the_own_files_is_written_as_ever(place: Place) -> None:
    for path in ("work/a.txt", "ops/report.txt", "home/b.txt", "notes.yaml.bak", "other.db"):
        place.files.write_text(context(), path, "x")
        place.files.move(context(), path, path + "2")
        place.files.delete(context(), path + "2")


def test_a_link_that_is_part_of_the_way_to_a_contract_is_an_own_file(place: Place) -> None:
    (place.folder / "v1").mkdir()
    (place.folder / "v2").mkdir()
    written(place.folder / "v1" / "c.yaml", contract(NOTES))
    os.symlink("v1", place.folder / "current")
    contract_files(place.folder / "current" / "c.yaml")
    os.symlink("v2", place.folder / "other")
    for act in (
        lambda: place.files.delete(context(), "current"),
        lambda: place.files.move(context(), "other", "current", overwrite=True),
        lambda: place.files.write_text(context(), "v1/c.yaml", "evil"),
    ):
        with pytest.raises(OwnFileError):
            act()
    assert os.readlink(place.folder / "current") == "v1"


def test_a_name_that_means_another_file_once_it_is_open_is_not_written(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the opening somebody puts the ledger under the name."""
    before = place.contents()
    (place.folder / "work" / "a.txt").write_text("x")
    opening = os.open

    def race(path: object, flags: int, *given: object, **named: object) -> int:
        if path == "a.txt" and flags & os.O_APPEND:
            os.unlink(place.folder / "work" / "a.txt")
            os.link(place.folder / "ops" / "readback.db", place.folder / "work" / "a.txt")
        return opening(path, flags, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("readback.systems.files.executor.os.open", race)
    with pytest.raises(OwnFileError):
        place.files.append(context(), "work/a.txt", "evil")
    assert place.contents() == before


def test_a_workspace_that_was_staged_before_a_file_was_own_does_not_move_over_it(place: Place) -> None:
    staged = place.files.stage(context(), "work/late.yaml", "evil")
    written(place.folder / "work" / "late.yaml", contract(NOTES))
    contract_files(place.folder / "work" / "late.yaml")
    with pytest.raises(ReadbackError):
        staged.commit()
    assert (place.folder / "work" / "late.yaml").read_text() == contract(NOTES)


@pytest.mark.parametrize("name", ["ops/readback.db", "work/hard", "ops/readback.db-wal"])
def test_no_statement_is_executed_on_the_ledger(place: Place, name: str) -> None:
    os.link(place.folder / "ops" / "readback.db", place.folder / "work" / "hard")
    before = place.contents()
    acts = BuiltInSystems().executor("sql", "s", {"database": name}, str(place.folder), 1_000_000)
    with pytest.raises((ReadbackError, sqlite3.Error), match="own files"):
        acts.execute(context(), {"statement": None})
    assert place.contents() == before


@pytest.mark.parametrize("cwd", [None, ".", "ops", "work/.."])
def test_no_program_runs_in_a_folder_that_holds_own_files(place: Place, cwd: str | None) -> None:
    fixed = {"argv": ["/bin/sh"]} if cwd is None else {"argv": ["/bin/sh"], "cwd": cwd}
    with pytest.raises(ReadbackError, match="cwd"):
        BuiltInSystems().executor("command", "c", fixed, str(place.folder), 1_000_000)
    assert BuiltInSystems().executor("command", "c", {**fixed, "cwd": "work"}, str(place.folder), 1_000_000)


PROGRAM = """
    kind: set
    side_effect: ephemeral_write
    target: note/{requested.name}
    arguments: {name: string}
    execute: {command: COMMAND}
    readers: [{file: {root: work, path: env.txt, show: text}}]
    ensure: {there: authoritative != null}
    within: 200ms
"""


def _program(place: Place, command: str) -> Path:
    return written(place.folder / "program.yaml", contract(PROGRAM.replace("COMMAND", command)))


@pytest.mark.parametrize(
    "command",
    [
        '{argv: [/bin/cat, --, {value: "{requested.name}", argument: data}]}',
        '{argv: [/bin/cat], stdin: {value: "{requested.name}", argument: data}}',
    ],
)
def test_a_program_that_gets_a_value_is_refused_with_what_to_write_instead(place: Place, command: str) -> None:
    with pytest.raises(ContractFileError, match=r"lies\. Name a folder under `cwd`"):
        contract_files(_program(place, command))


@pytest.mark.parametrize(("cwd", "named"), [(".", False), ("work", True)])
def test_a_program_of_fixed_words_runs_beside_own_files_without_the_name_of_its_target(
    place: Place, cwd: str, named: bool
) -> None:
    shown = place.folder / "work" / "env.txt"
    act = contract_files(_program(place, f"{{argv: [/bin/sh, -c, 'env > {shown}'], cwd: {cwd}}}"))
    with Readback.open(f"sqlite:///{place.folder}/ops/readback.db", tenant="acme", principal="agent:x") as rb:
        outcome = rb.run(act["one"](name="../notes.yaml"), operation="1", wait=5)
    assert outcome.state is State.RECONCILED_SUCCESS
    seen = shown.read_text()
    assert ("READBACK_TARGET" in seen, "notes.yaml" in seen) == (named, named)
    assert "READBACK_STAMP=" in seen


@pytest.mark.parametrize("cwd", [None, ".", "ops", "work/.."])
def test_no_program_of_a_python_executor_runs_in_a_folder_that_holds_own_files(place: Place, cwd: str | None) -> None:
    marks = ["/bin/sh", "-c", "touch ran"]
    with pytest.raises(OwnFileError, match="cwd"):
        CommandExecutor(cwd=cwd).run(context(), marks)
    late = CommandExecutor(cwd=str(place.folder / "work"))
    late.run(context(), marks)
    own_files.keep(place.folder / "work" / "ran")
    with pytest.raises(OwnFileError, match="cwd"):
        late.run(context(), marks)
    assert [each.parent.name for each in place.folder.rglob("ran")] == ["work"]


@pytest.mark.parametrize("name", ["readback.db", "readback.db-wal", "table.yaml", "log.key", "contracts.yaml"])
def test_what_settings_name_is_an_own_file_before_anything_opens_it(tmp_path: Path, name: str) -> None:
    settings(url=f"sqlite:///{tmp_path}/readback.db", contracts=(f"{tmp_path}/contracts.yaml",))
    replaced = {"READBACK_TABLE": f"{tmp_path}/table.yaml", "READBACK_SIGNING_KEY_FILE": f"{tmp_path}/log.key"}
    with pytest.MonkeyPatch.context() as patched:
        for variable, path in replaced.items():
            patched.setenv(variable, path)
        settings()
    (tmp_path / name).write_text("")
    with pytest.raises(SettingsError, match="Readback's own"):
        own_files.refuse_reach("The server", [str(tmp_path)])


@pytest.mark.parametrize("word", [".", "ops", "ops/readback.db", "--root=.", "home", "work/.."])
def test_no_server_is_started_on_a_folder_that_holds_own_files(place: Place, word: str) -> None:
    with pytest.raises(SettingsError, match="Readback's own") as refused:
        own_files.refuse_reach("The server", [word])
    assert refused.value.code == "settings.own-files"
    own_files.refuse_reach("The server", ["work", "-y", "pkg", "--root=work", "nowhere"])


def test_a_folder_of_files_has_no_default_for_executors_and_one_for_readers() -> None:
    from tests.contract_files.writing import faults

    assert not faults(contract(NOTES))
    assert not faults(contract(NOTES.replace("{root: ., path", "{path")))
    told = faults(contract(NOTES.replace("{root: ., do", "{do")))
    assert any("needs `root`" in each for each in told), told


def test_the_folder_above_is_found_by_what_it_is(tmp_path: Path) -> None:
    """`Confined` opens folders without following a link; what is own is known by the open folder."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    own_files.keep_folder(tmp_path / "a")
    folder = Confined("x", tmp_path / "a" / "b")
    with pytest.raises(OwnFileError), folder.place("new.txt"):
        raise AssertionError("opened")


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_has_keeps_no_executor_from_its_work(tmp_path: Path, name: str) -> None:
    own_files.keep(tmp_path / name)
    own_files.refuse_path(str(tmp_path / "a.txt"))
