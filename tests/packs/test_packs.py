"""Packs by name: their parameters, where these come from, and what is refused; no server runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from readback.cli.cli import main
from readback.client.files import contract_files
from readback.config import PACK, is_contract_file, settings
from readback.contracts.packs import PACKS, PREFIX, completed, pack_content
from readback.errors import SettingsError

TOLD = {
    "filesystem": "pack:filesystem?root=/srv/work",
    "memory": "pack:memory?file=/srv/memory.jsonl",
    "git": "pack:git?repository=/srv/repository",
    "sqlite": "pack:sqlite?database=/srv/data.db",
}
TOOLS = {
    "filesystem": {"write_file", "edit_file", "create_directory", "move_file"},
    "memory": {
        "create_entities", "create_relations", "add_observations",
        "delete_entities", "delete_observations", "delete_relations",
    },
    "git": {"git_add", "git_commit", "git_reset", "git_create_branch", "git_checkout"},
    "sqlite": {"write_query", "create_table"},
}  # fmt: skip


@pytest.mark.requirement("PACK-at-hand")
@pytest.mark.parametrize("name", PACKS)
def test_a_pack_is_a_sound_contract_file_for_every_tool_of_its_server_that_changes_something(name: str) -> None:
    assert set(contract_files(TOLD[name])) == TOOLS[name]


def test_what_the_settings_and_the_packs_call_a_pack_is_the_same() -> None:
    assert PACK == PREFIX
    assert is_contract_file("pack:git")


@pytest.mark.requirement("PACK-parameters")
@pytest.mark.parametrize("name", PACKS)
def test_a_pack_that_is_not_told_where_to_read_says_how_to_tell_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMORY_FILE_PATH", raising=False)
    with pytest.raises(SettingsError) as raised:
        pack_content(f"pack:{name}")
    assert f"pack:{name}?" in raised.value.remedy


@pytest.mark.requirement("PACK-parameters")
@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("pack:filesistem?root=/x", "filesystem"),
        ("pack:git?repositry=/x", "repository"),
        ("pack:git?repository=/x&repository=/y", "repeats one"),
        ("pack:git?repository", "no parameter"),
        ("pack:filesystem?root=/a{requested.path}", "braces"),
        ("pack:filesystem?root=/a%0Ab", "control"),
        ("pack:memory?file=memory.jsonl", "absolute path"),
    ],
)
def test_what_a_pack_cannot_be_told_is_refused(named: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        pack_content(named)


def test_a_value_that_looks_like_yaml_stays_a_value() -> None:
    text = pack_content('pack:filesystem?root=/a"b: [c, %26d]').decode()
    assert '"/a\\"b: [c, &d]"' in text
    actions = contract_files('pack:filesystem?root=/a"b: [c, %26d]')
    assert actions["write_file"].written.readers[0].spec.fixed["root"] == '/a"b: [c, &d]'


@pytest.mark.requirement("PACK-parameters")
@pytest.mark.parametrize(
    ("named", "command", "whole"),
    [
        ("pack:filesystem", "npx -y @modelcontextprotocol/server-filesystem /w", "pack:filesystem?root=/w&base=/w"),
        ("pack:filesystem", "x/.bin/mcp-server-filesystem /w/a /w/b", "pack:filesystem?root=/w&base=/w/a"),
        ("pack:filesystem?root=/z", "npx @modelcontextprotocol/server-filesystem /w", "pack:filesystem?root=/z"),
        ("pack:filesystem?root=/w", "npx @modelcontextprotocol/server-filesystem /w/a /w/b",
         "pack:filesystem?root=/w&base=/w/a"),
        ("pack:filesystem?root=/w&base=/w/c", "npx @modelcontextprotocol/server-filesystem /w/a",
         "pack:filesystem?root=/w&base=/w/c"),
        ("pack:filesystem?within=5s", "npx @modelcontextprotocol/server-filesystem@2026.8.31 /w",
         "pack:filesystem?root=/w&base=/w&within=5s"),
        ("pack:git", "uvx mcp-server-git --repository /r", "pack:git?repository=/r"),
        ("pack:git", "python -m mcp_server_git -r /r", "pack:git?repository=/r"),
        ("pack:sqlite", "uvx mcp-server-sqlite --db-path=/d.db", "pack:sqlite?database=/d.db"),
        ("pack:git", "uvx mcp-server-git", "pack:git"),
        ("pack:git", "npx @modelcontextprotocol/server-filesystem /w", "pack:git"),
        ("notes.yaml", "uvx mcp-server-git --repository /r", "notes.yaml"),
    ],
)  # fmt: skip
def test_a_pack_is_told_by_the_command_of_its_server(named: str, command: str, whole: str) -> None:
    assert completed(named, command.split()) == whole


def test_the_memory_pack_is_told_by_the_variable_that_its_server_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["npx", "-y", "@modelcontextprotocol/server-memory"]
    assert completed("pack:memory", command, {"MEMORY_FILE_PATH": "/m.jsonl"}) == "pack:memory?file=/m.jsonl"
    monkeypatch.setenv("MEMORY_FILE_PATH", "/n.jsonl")
    assert b'"/n.jsonl"' in pack_content("pack:memory")


def test_a_contract_of_a_pack_is_the_same_wherever_it_reads() -> None:
    here, there = (contract_files(f"pack:filesystem?root={root}") for root in ("/a", "/b"))
    assert {name: each.contract.hash for name, each in here.items()} == {
        name: each.contract.hash for name, each in there.items()
    }


@pytest.mark.requirement("PACK-at-hand")
def test_the_packs_are_listed_where_no_file_is_named_and_each_can_be_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("READBACK_CONTRACTS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    listed = CliRunner().invoke(main, ["contracts", "list", "--json"])
    assert [each["name"] for each in json.loads(listed.stdout)["packs"]] == [f"pack:{name}" for name in PACKS]
    for name, pack in PACKS.items():
        assert f"pack:{name}" in CliRunner().invoke(main, ["contracts", "list"]).stdout
        assert CliRunner().invoke(main, ["contracts", "show", f"pack:{name}"]).stdout == pack.text


def test_a_pack_in_the_settings_is_a_name_and_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("READBACK_CONTRACTS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "readback").mkdir()
    (tmp_path / "readback" / "config.toml").write_text('contracts = ["pack:git?repository=/r", "mine.yaml"]\n')
    assert settings().contracts == ("pack:git?repository=/r", str(tmp_path / "readback" / "mine.yaml"))


@pytest.mark.requirement("PACK-at-hand")
@pytest.mark.parametrize("there", [True, False])
def test_the_git_pack_is_found_sound_over_a_repository_and_at_fault_over_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.chdir(tmp_path)  # what a call names begins there
    if there:
        subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    told = CliRunner().invoke(main, ["contracts", "check", f"pack:git?repository={tmp_path}"])
    assert (told.exit_code == 0) is there
    words = {line.split(":")[0] for line in told.stdout.splitlines()[1:] if not line.endswith("examples")}
    assert words == {"ok" if there else "fault"}, told.stdout
