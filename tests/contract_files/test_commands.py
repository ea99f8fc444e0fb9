"""The command line over contract files: check, list, show; files beside modules; pins."""

from __future__ import annotations

from pathlib import Path

import pytest

from readback.canon import sha256_hex
from readback.demo.systems.launch import Systems
from tests.contract_files.conftest import Office
from tests.contract_files.test_same_contract import INTERFACE
from tests.contract_files.writing import contract

NOTES = """
    kind: set
    side_effect: ephemeral_write
    target: note/{requested.name}
    arguments: {name: string, text: string}
    execute:
      file: {root: notes, do: write, path: "{requested.name}", content: "{requested.text}"}
    readers:
      - file: {root: notes, path: "{requested.name}"}
    ensure: {same: authoritative.sha256 == sha256(requested.text)}
    twin: {name: sandbox.txt}
    within: 1s
"""


@pytest.mark.requirement("FILE-check")
def test_sound_files_whose_readers_can_read_pass(office: Office, systems: Systems) -> None:
    answer = office("contracts", "check", "shop.yaml", "--tenant", "acme", "--json").json
    assert all(each["sound"] for each in answer["readers"]), answer["readers"]
    assert answer["faults"] == []
    found = {each["contract"]: each["found"] for each in answer["readers"]}
    assert found == {
        "ship_order": "absent", "tell_customer": "absent", "write_note": "absent", "book": "absent",
        "commit_file": "absent",
    }  # fmt: skip


@pytest.mark.requirement("FILE-check")
def test_a_reader_that_is_not_reached_is_named(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHOP_URL", "SHOP_TOKEN", "SHOP_DB", "SMTP_PORT", "IMAP_PORT", "MAIL_PASSWORD"):
        monkeypatch.setenv(name, {"SHOP_URL": "http://127.0.0.1:9", "IMAP_PORT": "9"}.get(name, "x"))
    answer = office("contracts", "check", "shop.yaml", "--json", code=1).json
    sound = {each["contract"]: each["sound"] for each in answer["readers"]}
    assert sound == {
        "ship_order": False, "tell_customer": False, "write_note": True, "book": True, "commit_file": True,
    }  # fmt: skip
    assert office("contracts", "check", "shop.yaml", "--offline", "--json", code=0).json["readers"] == []


@pytest.mark.requirement("FILE-check")
def test_a_reader_that_reads_something_else_is_named(office: Office) -> None:
    (office.folder / "notes" / "one.txt").write_text("x", encoding="utf-8")
    reader = """- command: {argv: [/bin/sh, -c, 'echo 1', sh, {value: "{requested.name}", argument: data}]}
        consistency: strong"""
    whatever = NOTES.replace('- file: {root: notes, path: "{requested.name}"}', reader)
    path = office.write("c.yaml", contract(whatever))
    told = office("contracts", "check", str(path), code=1)
    assert "fault: one: command: The reader shows a record for a target that does not exist" in told.out


@pytest.mark.requirement("FILE-every-fault")
def test_a_check_of_bad_files_names_every_fault_and_its_place(office: Office) -> None:
    office.write("a.yaml", contract(NOTES.replace("kind: set", "kind: sett")))
    office.write("b.yaml", contract(NOTES.replace("1s", "1"), "two"))
    told = office("contracts", "check", "a.yaml", "b.yaml", code=5)
    assert "a.yaml:5:11: contracts.one.kind: 'sett' is not a valid value." in told.out
    assert "b.yaml:15:13: contracts.two.within: A duration must be text" in told.out
    assert "2 faults: nothing of these files is used." in told.err
    told_json = office("contracts", "check", "a.yaml", "b.yaml", "--json", code=5).json
    assert [(each["file"], each["line"], each["column"]) for each in told_json["faults"]] == [
        ("a.yaml", 5, 11),
        ("b.yaml", 15, 13),
    ]
    assert office("run", "one", "--contracts", "a.yaml", code=5).code == 5
    assert not (office.folder / "readback.db").exists()


def test_a_check_without_a_file_or_of_one_that_is_not_there_says_so(office: Office) -> None:
    assert "No contract file is named." in office("contracts", "check", code=2).err
    assert "cannot be read" in office("contracts", "check", "nowhere.yaml", code=5).err
    assert "cannot be read" in office("run", "x", "--contracts", "nowhere.yaml", code=5).err


def test_contracts_are_listed_with_the_hash_of_their_file(office: Office) -> None:
    text = contract(NOTES)
    office.write("c.yaml", text)
    answer = office("contracts", "list", "--contracts", "c.yaml", "--json", code=0).json
    assert answer["files"] == [{"file": "c.yaml", "sha256": sha256_hex(text.encode())}]
    assert [each["name"] for each in answer["contracts"]] == ["one"]
    assert "one  set  ephemeral_write  version 1" in office("contracts", "list", "--contracts", "c.yaml", code=0).out


def test_a_contract_is_shown_as_it_was_understood(office: Office, systems: Systems) -> None:
    shown = office("contracts", "show", "ship_order", "--contracts", "shop.yaml", "--json", code=0).json
    assert shown["contract"]["name"] == "ship_order"
    assert shown["acts_with"]["http"]["url"] == {"env": "SHOP_URL"}
    assert shown["operation"] == "ship {requested.order_id} {requested.carrier}"
    assert "hash:" in office("contracts", "show", "ship_order", "--contracts", "shop.yaml", code=0).out
    assert office("contracts", "show", "nobody", "--contracts", "shop.yaml", code=2).err


@pytest.mark.requirement("FILE-server")
def test_the_tools_of_a_server_are_checked_and_said_not_to_be_callable_from_here(office: Office) -> None:
    office.write("c.yaml", INTERFACE)
    told = office("contracts", "check", "c.yaml", code=0)
    assert "Not callable from here: write_file" in told.err
    assert "Not checked against the tool's own arguments" in told.err
    refused = office(
        "run",
        "write_file",
        "--contracts",
        "c.yaml",
        "--arg",
        "path=x",
        "--arg",
        "content=y",
        "--operation",
        "1",
        code=2,
    )
    assert "gateway in front of the server" in refused.err


@pytest.mark.requirement("FILE-pinned")
def test_a_file_that_the_folder_s_own_settings_name_counts_only_where_it_is_pinned(office: Office) -> None:
    text = contract(NOTES)
    path = office.write("c.yaml", text)
    local = office.write("readback.toml", 'contracts = ["c.yaml"]\n')
    config = Path(office.folder.parent / "config" / "readback")
    config.mkdir(parents=True)

    def pin(*files: Path) -> None:
        lines = [f'"{file}" = "{sha256_hex(file.read_bytes())}"' for file in files]
        (config / "config.toml").write_text("\n".join(["[trusted]", *lines]) + "\n", encoding="utf-8")

    run = ("run", "one", "--arg", "name=a", "--arg", "text=b", "--operation", "1")
    assert office(*run, code=2).code == 2  # the folder's settings do not count
    pin(local)
    assert "is not pinned" in office(*run, code=5).err
    pin(local, path)
    assert office(*run, code=0).code == 0
    office.write("c.yaml", text.replace("1s", "2s"))
    assert "does not match the SHA-256 pinned in the settings" in office(*run, code=5).err


def test_files_and_modules_are_taken_together(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_FILE", str(office.folder / "shop.json"))
    office.write("c.yaml", contract(NOTES))
    both = ("--contracts", "tests.cli.shop", "--contracts", "c.yaml", "--operation", "1", "--json")
    assert office("run", "one", *both, "--arg", "name=a", "--arg", "text=b", code=0).json["verified"] is True
    assert (
        office("run", "ship", *both, "--arg", "order_id=o-17", "--arg", "carrier=dhl", code=0).json["verified"] is True
    )
    office.write("d.yaml", contract(NOTES, "ship"))
    clash = office("run", "ship", "--contracts", "tests.cli.shop", "--contracts", "d.yaml", code=5)
    assert "Two contracts have the name 'ship'." in clash.err


def test_the_safe_twin_of_a_contract_in_a_file_is_drilled(office: Office) -> None:
    keyed = NOTES.replace("execute:", "execute:\n      honours_key: true")
    office.write("c.yaml", contract(keyed.replace('{requested.text}"', '{requested.text} {scope.idempotency_key}"')))
    passed = office("drill", "key", "one", "--contracts", "c.yaml", "--arg", "text=b", "--settle", "0", "--json")
    assert passed.json["error"]["code"] == "drill.two-effects"  # a file that is written twice was written twice
    assert (office.folder / "notes" / "sandbox.txt").read_text(encoding="utf-8").startswith("b rb-")


@pytest.mark.requirement("FILE-check", "FILE-credentials")
@pytest.mark.parametrize("store", ["nonsense", "ftp://store", "http://", "http://a..b", ""])
def test_an_address_that_is_none_is_a_fault_of_its_reader_and_no_crash(
    store: str, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """\
apiVersion: readback/v1
kind: Contracts
contracts:
  put:
    kind: set
    side_effect: ephemeral_write
    target: key/{requested.key}
    arguments: {key: string}
    execute: {command: {argv: ["true"], cwd: work}}
    readers:
      - s3: {bucket: b, endpoint: {env: STORE}, access_key: a, secret_key: {env: SECRET}, key: "{requested.key}"}
      - http: {url: {env: SERVICE}, path: /x}
        consistency: strong
      - imap: {host: mail..example, port: 9, user: u, password: {env: SECRET}, proves: delivered}
    ensure: {there: authoritative != null}
"""
    office.write("own.yaml", text)
    for name, value in (("STORE", store), ("SECRET", "s3cr3t-s3cr3t"), ("SERVICE", "http://me:passw0rd@127.0.0.1:9")):
        monkeypatch.setenv(name, value)
    answer = office("contracts", "check", "own.yaml", "--json", code=1)
    first, second, third = (each["said"] for each in answer.json["readers"])
    assert "endpoint" in first or "env:STORE" in first
    assert "label empty" in third
    assert "contains a credential. Pass the credential as a header" in second
    assert "passw0rd" not in answer.out
