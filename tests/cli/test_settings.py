"""Settings: what was given, the environment, a pinned file, the user's own file, the defaults, in this order."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from readback.canon.digest import sha256_hex
from readback.config import Settings, settings
from readback.domain.contract.approval import Approver
from readback.errors import SettingsError
from tests.cli.conftest import Desk


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own configuration folder; the working folder is another."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "readback"
    folder.mkdir(parents=True)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return folder / "config.toml"


def pin(own: Path, local: Path) -> None:
    digest = sha256_hex(local.read_bytes())
    own.write_text(f'tenant = "mine"\n[trusted]\n"{local}" = "{digest}"\n', encoding="utf-8")


def test_without_anything_the_defaults_hold(own: Path) -> None:
    assert settings() == Settings()


def test_the_users_file_comes_before_the_defaults(own: Path) -> None:
    own.write_text('url = "sqlite:///mine.db"\ncontracts = ["a.b", "c"]\n', encoding="utf-8")
    found = settings()
    assert (found.url, found.tenant, found.contracts) == ("sqlite:///mine.db", "default", ("a.b", "c"))


def test_a_file_in_the_working_folder_does_not_count_by_itself(own: Path) -> None:
    Path("readback.toml").write_text('url = "sqlite:///stolen.db"\ncontracts = ["evil"]\n', encoding="utf-8")
    found = settings()
    assert found == Settings(ignored_file=str(Path.cwd() / "readback.toml"))


def _large(path: str) -> None:
    Path(path).write_bytes(b"#" * 1_000_000)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, _large], ids=["pipe", "folder", "large"])
def test_what_does_not_count_is_not_opened_whatever_it_is(own: Path, make: Callable[[str], object]) -> None:
    """An agent may write in the working folder: a pipe there kept every command waiting for ever."""
    own.write_text('tenant = "mine"\n', encoding="utf-8")
    local = str(Path.cwd() / "readback.toml")
    make(local)
    found = settings()
    assert (found.tenant, found.ignored_file) == ("mine", local)


def test_settings_in_a_pipe_are_refused_and_not_waited_for(own: Path) -> None:
    os.mkfifo(own)
    with pytest.raises(SettingsError, match="the file is a pipe"):
        settings()
    own.unlink()
    local = Path.cwd() / "readback.toml"
    local.touch()
    pin(own, local)
    local.unlink()
    os.mkfifo(local)
    with pytest.raises(SettingsError, match="the file is a pipe"):
        settings()


def test_a_pinned_file_counts_until_it_is_changed(own: Path) -> None:
    local = Path.cwd() / "readback.toml"
    local.write_text('tenant = "project"\n', encoding="utf-8")
    pin(own, local)
    assert settings().tenant == "project"
    local.write_text('tenant = "project"\nprincipal = "agent:evil"\n', encoding="utf-8")
    assert (settings().tenant, settings().principal) == ("mine", "agent:local")
    assert settings().ignored_file == str(local)


def test_a_file_cannot_pin_itself_or_another(own: Path) -> None:
    local = Path.cwd() / "readback.toml"
    local.write_text(f'[trusted]\n"{local}" = "x"\n', encoding="utf-8")
    assert settings().ignored_file == str(local)
    pin(own, local)
    with pytest.raises(SettingsError, match="unknown key: 'trusted'"):
        settings()


def test_the_environment_comes_before_files_and_what_is_given_before_both(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.write_text('tenant = "file"\nprincipal = "file"\ncontracts = ["file"]\n', encoding="utf-8")
    monkeypatch.setenv("READBACK_TENANT", "env")
    monkeypatch.setenv("READBACK_CONTRACTS", "env.a, env.b")
    found = settings(principal="given")
    assert (found.tenant, found.principal, found.contracts) == ("env", "given", ("env.a", "env.b"))
    assert settings(contracts=("flag",)).contracts == ("flag",)


def test_an_empty_variable_is_none(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READBACK_URL", "")
    assert settings().url == Settings().url


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tenant = ", "is not valid TOML"),
        ('tenannt = "x"', "unknown key: 'tenannt'"),
        ("tenant = 7", "'tenant' of .* is not a text"),
        ('contracts = "a"', "'contracts' of .* is not a list of texts"),
        ("contracts = [1]", "'contracts' of .* is not a list of texts"),
        ("x" * 70_000, "is over 65536 bytes"),
        ("\xff", "is not valid TOML"),
    ],
)
def test_a_file_that_is_wrong_is_refused_and_named(own: Path, text: str, said: str) -> None:
    own.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError, match=said) as caught:
        settings()
    assert str(own) in caught.value.message
    assert caught.value.exit_code == 5


KEY = "ed25519:" + "A" * 43 + "="
ALICE = f'[approvers.alice]\nkey = "{KEY}"\ntenants = ["acme"]\n'


@pytest.mark.requirement("TRUTH-hold-signed")
def test_approvers_are_listed_in_the_users_own_file_and_not_in_the_working_folder(own: Path) -> None:
    Path("readback.toml").write_text(ALICE.replace("alice", "eve"), encoding="utf-8")
    assert settings().approvers == ()
    own.write_text(ALICE, encoding="utf-8")
    assert settings().approvers == (Approver("alice", KEY, ("acme",)),)


def test_a_pinned_file_may_list_approvers(own: Path) -> None:
    local = Path.cwd() / "readback.toml"
    local.write_text(ALICE, encoding="utf-8")
    pin(own, local)
    assert [one.name for one in settings().approvers] == ["alice"]
    local.write_text(ALICE.replace("alice", "eve"), encoding="utf-8")
    assert settings().approvers == ()


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_list_of_approvers_that_others_may_write_is_refused(own: Path, mode: int) -> None:
    own.write_text(ALICE, encoding="utf-8")
    own.chmod(mode)
    with pytest.raises(SettingsError, match="other users may write the file"):
        settings()
    own.write_text('tenant = "mine"\n', encoding="utf-8")
    assert settings().tenant == "mine"


@pytest.mark.parametrize("text", ["approvers = 7", "[approvers]\nalice = 7", '[approvers.alice]\nkey = "x"'])
def test_a_list_of_approvers_that_is_wrong_is_refused(own: Path, text: str) -> None:
    own.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match="cannot be used"):
        settings()


def test_the_command_line_says_what_it_ignores(desk: Desk) -> None:
    (desk.folder / "readback.toml").write_text('tenant = "evil"\n', encoding="utf-8")
    answer = desk("doctor", code=0)
    assert "readback.toml is ignored" in answer.err
    assert "is not pinned and does not count" in answer.out
    assert "tenant default" in answer.out


def test_a_broken_settings_file_ends_a_command_with_5(desk: Desk, tmp_path: Path) -> None:
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "readback"
    own.mkdir(parents=True)
    try:
        (own / "config.toml").write_text("tenant", encoding="utf-8")
        assert desk("list", "--json", code=5).json["error"]["code"] == "settings"
    finally:
        (own / "config.toml").unlink()
        own.rmdir()


def test_who_is_told_is_the_operators_to_say(own: Path) -> None:
    own.write_text(
        """
        [subscribers.pager]
        command = ["notify", "--urgent"]
        events = ["incident.opened"]
        [subscribers.bus]
        webhook = "https://example.org/h"
        secret = "env:HOOK"
        naming = "both"
        tenants = ["acme"]
        from_start = true
        attempts = 3
        give_up_s = 60
        timeout_s = 2.5
        [fallback]
        file = "told.jsonl"
        """,
        encoding="utf-8",
    )
    found = settings()
    pager, bus = found.subscribers
    assert (pager.name, pager.command, pager.events) == ("pager", ("notify", "--urgent"), ("incident.opened",))
    assert (bus.webhook, bus.secret, bus.naming) == ("https://example.org/h", "env:HOOK", "both")
    assert (bus.tenants, bus.from_start, bus.attempts) == (("acme",), True, 3)
    assert (bus.give_up_s, bus.timeout_s) == (60, 2.5)
    assert found.fallback is not None
    assert found.fallback.file == str(own.parent / "told.jsonl"), "beside the settings file"


@pytest.mark.parametrize(
    "said",
    [
        'subscribers = "pager"',
        "[subscribers]\npager = 1",
        '[subscribers.pager]\ncommand = "rm -rf /"',
        "[subscribers.pager]\nfile = 7",
        '[subscribers.pager]\nfile = "a"\ncommand = ["b"]',
        "[subscribers.pager]\nevents = []",
        '[subscribers.pager]\nwebhook = "https://example.org"',
        '[subscribers.pager]\nfile = "a"\nsecret = "env:X"',
        '[subscribers.pager]\nfile = "a"\nevents = ["no.such"]',
        '[subscribers.pager]\nfile = "a"\nnaming = "camel"',
        '[subscribers.pager]\nfile = "a"\nattempts = 0',
        '[subscribers.pager]\nfile = "a"\nattempts = 1.5',
        '[subscribers.pager]\nfile = "a"\ngive_up_s = -1',
        '[subscribers.pager]\nfile = "a"\ntimeout_s = 0',
        '[subscribers.pager]\nfile = "a"\ntimeout_s = true',
        '[subscribers.pager]\nfile = "a"\nfrom_start = "yes"',
        '[subscribers.pager]\nfile = "a"\ntell = "print"',
        '[subscribers.pager]\nfile = "a"\nfiles = "b"',
        '[subscribers.Pager]\nfile = "a"',
        '[subscribers."a/b"]\nfile = "a"',
        '[subscribers.operator]\nfile = "a"',
        "fallback = 1",
        "[fallback]\nfile = []",
    ],
)
def test_a_subscriber_that_makes_no_sense_is_refused(own: Path, said: str) -> None:
    own.write_text(said, encoding="utf-8")
    with pytest.raises(SettingsError):
        settings()
