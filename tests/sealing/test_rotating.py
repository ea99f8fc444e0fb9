"""Whoever lets a key follow the log's has it alone: two at once, or one that signed meanwhile, spoilt the log."""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from readback import Readback, bootstrap
from readback.adapters.log import file_locks
from readback.audit.evidence.attest import key_of
from readback.cli.cli import main
from readback.errors import SettingsError
from readback.stores.sqlite.store import SqliteStore
from tests.sealing.shop import runtime, stamp_note


@dataclass
class Place:
    """A ledger whose log has a key, and the verifier key that others were given."""

    key_file: Path
    url: str
    key: str

    def act(self, text: str, *, seals: bool = True) -> None:
        seal = {"key_file": str(self.key_file)} if seals else False
        with Readback.open(self.url, tenant="acme", principal="me", runtime=runtime(), seal=seal) as rb:
            assert rb.run(stamp_note(text=text), operation=text).verified

    def rotate(self) -> Result:
        return _ledger("keys", "rotate", "--key-file", str(self.key_file), "--url", self.url)

    def keys(self) -> int:
        listed = _ledger("keys", "list", "--key-file", str(self.key_file))
        assert listed.exit_code == 0, listed.output
        return len(listed.stdout.splitlines())

    def verify(self) -> Result:
        followed = ("--rotations", f"{self.key_file}.rotations")
        return _ledger("verify", "--url", self.url, "--key", self.key, *followed)


def _ledger(*given: str) -> Result:
    return CliRunner().invoke(main, ["ledger", *given], catch_exceptions=False)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(file_locks, "HELD_MS_MAX", 2 * file_locks.HELD_PAUSE_MS)
    path = tmp_path / "log.key"
    made = Place(path, f"sqlite:///{tmp_path}/l.db", str(key_of(bootstrap.create_log_key(path, "example.com/log"))))
    made.act("first")
    return made


@pytest.mark.requirement("LEDGER-key-rotated")
@pytest.mark.parametrize("at", ["next_log_key", "store"])
def test_of_two_who_rotate_a_key_at_the_same_time_one_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    came: list[Result] = []
    step: Any = getattr(bootstrap, at)
    begun: list[bool] = []

    def slow(*given: Any, **named: Any) -> Any:
        """Another one rotates the key, and goes on with the log, while the first is in the middle of it."""
        if not begun:
            begun.append(True)
            came.append(place.rotate())
            place.act("signed by the next key")
            place.act("and more", seals=False)
        return step(*given, **named)

    monkeypatch.setattr(bootstrap, at, slow)
    assert place.rotate().exit_code == 0
    assert came[0].exit_code == 5
    assert "is in use" in came[0].output
    assert place.keys() == 2
    place.act("last")
    found = place.verify()
    assert found.exit_code == 0, found.output
    assert place.rotate().exit_code == 0
    assert place.keys() == 3


@pytest.mark.requirement("LEDGER-key-rotated")
def test_no_key_follows_one_that_is_signing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[Result] = []
    begun: list[bool] = []
    seal = SqliteStore.seal

    def slow(store: SqliteStore, *given: Any) -> bool:
        """The key is rotated after its checkpoint was signed, and before that is in the store; then the log grows."""
        if not begun:
            begun.append(True)
            came.append(place.rotate())
            place.act("meanwhile", seals=False)
        return seal(store, *given)

    monkeypatch.setattr(SqliteStore, "seal", slow)
    place.act("second")
    assert came[0].exit_code == 5
    assert place.rotate().exit_code == 0
    place.act("third")
    found = place.verify()
    assert found.exit_code == 0, found.output


@pytest.mark.requirement("LEDGER-key-rotated")
@pytest.mark.parametrize("command", ["checkpoint", "export"])
def test_nothing_is_signed_by_a_key_that_another_one_was_about_to_follow(
    place: Place, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def dies(_path: Path, _beside: Path) -> None:
        raise SettingsError("The machine went down here.")

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "take_over", dies)
        assert place.rotate().exit_code == 5
    place.act("behind what was stated", seals=False)
    given = ["--tiles", "export"] if command == "export" else []
    refused = _ledger(command, "--url", place.url, "--key-file", str(place.key_file), *given)
    assert (refused.exit_code, "is being followed by another one" in refused.output) == (5, True)
    assert place.rotate().exit_code == 0
    place.act("last")
    found = place.verify()
    assert found.exit_code == 0, found.output


class KilledError(BaseException):
    """Nothing of the program runs any more."""


@pytest.mark.requirement("LEDGER-key-rotated")
@pytest.mark.parametrize(
    "end", [KilledError(), OSError(errno.ENOSPC, "No space left on device")], ids=["killed", "full"]
)
def test_a_rotation_that_ended_while_its_key_was_written_keeps_nobody_from_signing_or_rotating(
    place: Place, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    def ends(_handle: int, _mode: int) -> None:
        raise end

    with monkeypatch.context() as patch:
        patch.setattr(os, "fchmod", ends)
        try:
            assert place.rotate().exit_code == 5
        except KilledError:
            assert isinstance(end, KilledError)
    signed = _ledger("checkpoint", "--url", place.url, "--key-file", str(place.key_file))
    assert signed.exit_code == 0, signed.output
    assert place.rotate().exit_code == 0
    place.act("last")
    found = place.verify()
    assert found.exit_code == 0, found.output


def test_where_a_file_system_has_no_locks_a_log_is_sealed_and_its_key_rotated(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_here(_handle: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none_here)
    place.act("second")
    assert place.rotate().exit_code == 0
    place.act("third")
    store = bootstrap.store(place.url, read_only=True)
    head = store.checkpoint()
    assert head is not None
    assert head.size == store.last_seq()
    store.close()


def test_a_child_that_was_forked_keeps_no_key_from_being_followed(place: Place) -> None:
    ready, told = os.pipe()
    with bootstrap.log_key_in_use(place.key_file):
        child = os.fork()
        if child == 0:
            os.read(ready, 1)
            os._exit(0)
    try:
        assert place.rotate().exit_code == 0
    finally:
        os.write(told, b".")
        os.waitpid(child, 0)
