"""The log's own key: a file of its owner's alone, read strictly, and settings that name it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from readback.adapters.log.signer_log import create_log_key, open_log_key
from readback.adapters.signer_ed25519 import create_key
from readback.bootstrap import settings, verify_signature
from readback.errors import ReadbackError, SettingsError
from readback.log.note import VerifierKey
from tests.cli.conftest import Desk
from tests.cli.conftest import desk as desk  # the fixture


@pytest.mark.requirement("LEDGER-log-key")
def test_a_key_is_made_for_its_owner_alone_and_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.key"
    before = os.umask(0)
    try:
        made = create_log_key(path, "example.com/log")
    finally:
        os.umask(before)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    opened = open_log_key(path)
    assert (opened.name, opened.raw_key) == ("example.com/log", made.raw_key)
    public = VerifierKey(opened.name, opened.raw_key).public_text
    assert verify_signature(public, b"message", opened.sign(b"message"))
    assert not verify_signature(public, b"another", opened.sign(b"message"))


def test_a_log_that_was_given_no_name_has_one_of_its_own(tmp_path: Path) -> None:
    names = {create_log_key(tmp_path / str(n), "").name for n in range(3)}
    assert len(names) == 3
    assert all(name.startswith("readback.local/") for name in names)


@pytest.mark.requirement("LEDGER-log-key")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_key_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "log.key"
    create_log_key(path, "a")
    path.chmod(mode)
    with pytest.raises(SettingsError, match="mode 0600") as refused:
        open_log_key(path)
    assert refused.value.code == "settings.signing-key"


@pytest.mark.parametrize(
    "make", [lambda at: create_log_key(at, "a"), lambda at: create_key(at, "of some length")], ids=["log", "approver"]
)
def test_a_key_that_does_not_fit_on_the_disk_leaves_its_name_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    def full(_handle: int, _mode: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fchmod", full)
        with pytest.raises(ReadbackError, match="No space left"):
            make(tmp_path / "own.key")
    assert make(tmp_path / "own.key")


@pytest.mark.requirement("LEDGER-log-key")
def test_what_is_no_key_is_refused_and_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "log.key"
    create_log_key(path, "example.com/log")
    kept = path.read_bytes()
    with pytest.raises(SettingsError, match="cannot be made"):
        create_log_key(path, "example.com/log")
    assert path.read_bytes() == kept
    spoiled = [b"", b"x", kept[:-9], kept * 2, kept.replace(b"PRIVATE", b"PUBLIC"), b"\xff" + kept, kept + b"\n"]
    for data in spoiled:
        path.write_bytes(data)
        with pytest.raises(SettingsError, match="holds no key"):
            open_log_key(path)
    path.write_bytes(kept.replace(b"example.com/log", b"example.com/lag"))
    with pytest.raises(SettingsError, match="was changed"):
        open_log_key(path)
    for name in ("a b", "a+b", "\n", "x" * 300):
        with pytest.raises(SettingsError):
            create_log_key(tmp_path / "other", name)
    assert not (tmp_path / "other").exists()


def test_a_link_a_pipe_a_folder_and_nothing_are_no_key_files(tmp_path: Path) -> None:
    create_log_key(tmp_path / "log.key", "a")
    (tmp_path / "link").symlink_to(tmp_path / "log.key")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "pipe", ".", "nothing"):
        with pytest.raises(SettingsError):
            open_log_key(tmp_path / name)


def test_the_key_is_named_by_the_environment_or_by_the_users_file(
    no_settings_from_outside: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert settings().signing_key_file == ""
    folder = tmp_path / "config" / "readback"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (folder / "config.toml").write_text('signing_key_file = "log.key"\n', encoding="utf-8")
    assert settings().signing_key_file == str(folder / "log.key")
    monkeypatch.setenv("READBACK_SIGNING_KEY_FILE", "elsewhere")
    assert settings().signing_key_file == "elsewhere"


@pytest.mark.requirement("LEDGER-log-key")
def test_the_command_line_makes_and_shows_it_and_never_the_private_half(desk: Desk) -> None:
    made = desk("ledger", "keys", "create", "--key-file", "k", "--name", "example.com/log", code=0)
    shown = desk("ledger", "keys", "show", "--key-file", "k", "--json", code=0)
    assert shown.json["key"] == made.out.strip()
    assert shown.json["key"].startswith(f"example.com/log+{shown.json['key_id']}+")
    private = Path("k").read_text(encoding="utf-8").strip().split("+", 4)[4]
    assert private not in made.out + made.err + shown.out + shown.err
    assert "cannot be made" in desk("ledger", "keys", "create", "--key-file", "k", code=5).err
    assert "cannot be read" in desk("ledger", "keys", "show", "--key-file", "nothing", code=5).err
