"""`readback ledger shards` over ledgers in files: taken, proved, checked offline; one that was put back is found."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from readback import Readback, bootstrap
from readback.adapters.log import file_locks
from readback.audit.evidence.attest import key_of
from readback.canon import parse_json
from readback.cli.cli import main
from readback.ports.storage.store import LedgerStore
from tests.sealing.shop import runtime, stamp_note

HEADS = "example.com/heads"


@dataclass
class Place:
    """Two ledgers with keys of their own, and the key of the log of checkpoints."""

    folder: Path
    keys: dict[str, str]

    def url(self, name: str) -> str:
        return f"sqlite:///{self.folder}/{name}.db"

    def act(self, name: str, text: str) -> str:
        seal = {"key_file": str(self.folder / f"{name}.key")}
        with Readback.open(self.url(name), tenant="acme", principal="me", runtime=runtime(), seal=seal) as rb:
            return rb.run(stamp_note(text=text), operation=text).id

    def take(self, *names: str, more: tuple[str, ...] = ()) -> Result:
        given = [part for name in names for part in ("--shard", self.url(name), "--key", self.keys[name])]
        key_file = str(self.folder / "heads.key")
        return run("take", str(self.folder / "heads"), *given, *more, "--key-file", key_file, "--json")

    def rotate(self, name: str) -> None:
        given = ["--key-file", str(self.folder / f"{name}.key"), "--url", self.url(name), "--json"]
        rotated = CliRunner().invoke(main, ["ledger", "keys", "rotate", *given], catch_exceptions=False)
        said = parse_json(rotated.stdout.encode())
        assert isinstance(said, dict)
        self.keys[name] = str(said["key"])


def run(*given: str) -> Result:
    return CliRunner().invoke(main, ["ledger", "shards", *given], catch_exceptions=False)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    made = Place(tmp_path, {})
    for name in ("a", "b"):
        signer = bootstrap.create_log_key(tmp_path / f"{name}.key", f"example.com/{name}")
        made.keys[name] = str(key_of(signer))
    made.keys["heads"] = str(key_of(bootstrap.create_log_key(tmp_path / "heads.key", HEADS)))
    return made


def counted(found: Result) -> tuple[object, object]:
    assert found.exit_code == 0, found.output
    said = parse_json(found.stdout.encode())
    assert isinstance(said, dict)
    return said["taken"], said["checkpoints"]


@pytest.mark.requirement("SHARD-heads")
def test_heads_are_taken_and_an_action_of_any_ledger_is_proved_without_them(place: Place) -> None:
    first, second = place.act("a", "1"), place.act("b", "1")
    assert counted(place.take("a", "b")) == (2, 2)
    assert counted(place.take("a", "b")) == (0, 2)
    place.act("b", "2")
    assert counted(place.take("a", "b")) == (1, 3)
    for name, action_id in (("a", first), ("b", second)):
        keys = ["--key", place.keys[name], "--heads-key", place.keys["heads"]]
        ledger = ["--url", place.url(name), "--tenant", "acme", *keys]
        proved = run("prove", str(place.folder / "heads"), action_id, *ledger, "--out", f"{name}.proof")
        assert proved.exit_code == 0, proved.output
        shutil.copy(f"{name}.proof", "kept")
        checked = run("verify-proof", "kept", *keys, "--json")
        assert checked.exit_code == 0, checked.output
        said = parse_json(checked.stdout.encode())
        assert isinstance(said, dict)
        assert (said["origin"], said["heads"]) == (
            f"example.com/{name}", {"origin": HEADS, "size": 3, "checkpoint": 1 if name == "a" else 2},
        )  # fmt: skip
        plain = run("verify-proof", "kept", *keys)
        assert f"of 3, signed by {HEADS}" in plain.output
        other = place.keys["b" if name == "a" else "a"]
        assert run("verify-proof", "kept", "--key", other, "--heads-key", place.keys["heads"]).exit_code == 2
        assert run("verify-proof", "kept", "--key", place.keys[name], "--heads-key", other).exit_code == 1
    heads = place.keys["heads"]
    assert run("verify-proof", "away", "--key", heads, "--heads-key", heads).exit_code == 2


@pytest.mark.requirement("SHARD-heads")
def test_a_ledger_that_was_put_back_is_found_when_its_next_head_is_taken(place: Place) -> None:
    place.act("a", "1")
    place.act("b", "1")
    shutil.copy(place.folder / "b.db", place.folder / "before.db")
    place.act("b", "2")
    assert counted(place.take("a", "b")) == (2, 2)
    for suffix in ("", "-wal", "-shm"):
        Path(f"{place.folder}/b.db{suffix}").unlink(missing_ok=True)
    shutil.copy(place.folder / "before.db", place.folder / "b.db")
    back = place.take("a", "b")
    assert back.exit_code == 1
    assert "log.cut" in back.output
    for text in ("2b", "3b"):
        place.act("b", text)
    forked = place.take("a", "b")
    assert forked.exit_code == 1
    assert "log.rewritten" in forked.output or "log.fork" in forked.output
    place.act("a", "2")
    assert counted(place.take("a")) == (1, 3)


@pytest.mark.requirement("SHARD-heads", "LEDGER-key-rotated")
def test_what_a_shards_former_key_signed_is_taken_proved_and_checked_by_the_key_that_followed(place: Place) -> None:
    first, former = place.act("a", "1"), place.keys["a"]
    place.act("b", "1")
    assert counted(place.take("a", "b")) == (2, 2)
    place.rotate("a")
    followed = ("--rotations", str(place.folder / "a.key.rotations"))
    assert place.take("a", "b").exit_code == 1, "nothing says which key followed which"
    assert counted(place.take("a", "b", more=followed)) == (0, 2)
    second = place.act("a", "2")
    assert counted(place.take("a", "b", more=followed)) == (1, 3)
    heads = ("--heads-key", place.keys["heads"])
    ledger = ("--url", place.url("a"), "--tenant", "acme", "--out", "kept")
    for action_id in (first, second):
        for key in (former, place.keys["a"]):
            proved = run("prove", "heads", action_id, *ledger, "--key", key, *followed, *heads)
            assert proved.exit_code == 0, proved.output
            checked = run("verify-proof", "kept", "--key", key, *followed, *heads, "--json")
            assert checked.exit_code == 0, checked.output
            assert '"unchecked": []' in checked.stdout


@pytest.mark.requirement("SHARD-heads", "LEDGER-key-rotated")
def test_keys_and_rotations_that_cannot_all_be_meant_are_refused(place: Place) -> None:
    place.act("a", "1")
    former = place.keys["a"]
    place.rotate("a")
    two = place.take("a", more=("--key", former))
    assert two.exit_code == 2
    assert "Several --key options name the log example.com/a" in two.output
    place.act("b", "1")
    other = place.take("b", more=("--rotations", str(place.folder / "a.key.rotations")))
    assert other.exit_code == 2
    assert "No --key belongs to the log example.com/a" in other.output
    assert not (place.folder / "heads").exists()


@pytest.mark.requirement("SHARD-heads")
def test_what_is_missing_is_said(place: Place) -> None:
    action_id = place.act("a", "1")
    wrong = ["--shard", place.url("a"), "--key", place.keys["b"], "--key-file", "heads.key"]
    assert run("take", "heads", *wrong).exit_code == 2
    assert counted(place.take("a")) == (1, 1)
    given = ["--url", place.url("a"), "--key", place.keys["a"], "--heads-key", place.keys["heads"]]
    assert run("prove", "heads", action_id, *given, "--tenant", "globex").exit_code == 2
    late = place.act("a", "2")
    unproved = run("prove", "heads", late, *given, "--tenant", "acme")
    assert unproved.exit_code == 1
    assert "was taken yet" in unproved.output


@pytest.mark.requirement("SHARD-heads")
def test_two_who_take_at_the_same_time_do_not_go_on_from_one_head(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.act("a", "1")
    assert counted(place.take("a")) == (1, 1)
    place.act("a", "2")
    place.act("b", "1")
    came: list[str] = []
    between: list[Result] = []
    open_store = bootstrap.store

    def opened(url: str, *, read_only: bool = False) -> LedgerStore:
        """Another one comes, whose ledger is another one, while the first looks at its own."""
        if not came:
            came.append(url)
            between.append(place.take("a"))
        return open_store(url, read_only=read_only)

    monkeypatch.setattr(file_locks, "HELD_MS_MAX", 2 * file_locks.HELD_PAUSE_MS)
    monkeypatch.setattr(bootstrap, "store", opened)
    assert counted(place.take("b")) == (1, 2)
    assert between[0].exit_code == 6
    assert "held by another process" in between[0].output
    assert counted(place.take("a")) == (1, 3), "nothing that was taken is lost"
