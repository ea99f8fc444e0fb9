"""Contracts of a file on real local systems, by the command line: what is done is verified, what is claimed is not.

Everything here runs `readback run --contracts shop.yaml`: an HTTP service with its database, SMTP and IMAP, a folder,
SQLite, git and programs.
"""

from __future__ import annotations

import sqlite3
import subprocess
from typing import Any

import pytest

from readback.demo.systems.launch import Systems
from tests.contract_files.conftest import SHOP, TOKEN, Office

ANA = "ana@acme.example"


@pytest.mark.requirement("FILE-same-contract", "LIFE-reconciled-reported")
def test_an_order_is_shipped_and_read_back(office: Office, systems: Systems) -> None:
    outcome = office.run("ship_order", code=0, order_id="o-3", carrier="dhl")
    assert outcome["verified"] is True
    assert outcome["operation"] == "ship o-3 dhl"
    assert outcome["attribution"] == "ours"
    again = office.run("ship_order", code=0, order_id="o-3", carrier="dhl")
    assert again["id"] == outcome["id"]
    assert again["replayed"] is True


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "silent_noop": ({}, "refuted"),
    "accepted_lost": ({}, "refuted"),
    "wrong_value": ({"set": {"carrier": "ups"}}, "refuted"),
    "wrong_target": ({"target": "o-40"}, "refuted"),
    "wrong_tenant": ({}, "refuted"),
    "success_false": ({}, "refuted"),
}


@pytest.mark.requirement("FILE-lies", "HS-03", "HS-12", "DISC-value-mismatch")
@pytest.mark.parametrize("lie", LIES)
def test_a_service_that_lies_is_not_believed(lie: str, office: Office, systems: Systems) -> None:
    more, verdict = LIES[lie]
    order = f"o-{10 + list(LIES).index(lie)}"
    systems.fault(lie, match={"method": "POST", "path": f"/orders/{order}/ship"}, times=-1, **more)
    outcome = office.run("ship_order", order_id=order, carrier="dhl")
    assert outcome["verified"] is False
    assert outcome["verdict"] in (verdict, "undetermined")
    assert "completed successfully" not in outcome["message"]


@pytest.mark.requirement("FILE-lies", "HS-05")
def test_a_reply_that_was_lost_after_the_order_was_shipped_is_found_out(office: Office, systems: Systems) -> None:
    systems.fault("timeout_after", match={"path": "/orders/o-20/ship"}, times=-1)
    assert office.run("ship_order", code=0, order_id="o-20", carrier="dhl")["verified"] is True


@pytest.mark.requirement("FILE-lies", "HS-10")
def test_a_mail_is_delivered_or_it_is_not_told_so(office: Office, systems: Systems) -> None:
    said: dict[str, Any] = {"to": ANA, "subject": "Your order", "text": "It left today."}
    assert office.run("tell_customer", "--operation", "one", code=0, **said)["verified"] is True
    systems.fault("accepted_dropped", system="mail", times=1)
    lost = office.run("tell_customer", "--operation", "two", **said)
    assert lost["verified"] is False
    assert lost["verdict"] == "undetermined"  # it may still arrive
    systems.fault("wrong_value", system="mail", times=1, set={"subject": "Another"})
    assert office.run("tell_customer", "--operation", "three", **said)["verified"] is False


@pytest.mark.requirement("FILE-values-apart", "INPUT-header-injection")
def test_a_subject_with_a_line_break_is_sent_nowhere(office: Office, systems: Systems) -> None:
    outcome = office.run("tell_customer", "--operation", "x", to=ANA, subject="a\r\nBcc: ben@acme.example", text="b")
    assert outcome["verified"] is False
    assert outcome["attempts"] <= 1
    mails = [each.read_bytes() for each in systems.mail_root.rglob("*") if each.is_file()]
    assert not [each for each in mails if b"Bcc" in each]


@pytest.mark.requirement("FILE-lies")
def test_a_note_is_staged_verified_and_only_then_there(office: Office) -> None:
    assert office.run("write_note", code=0, name="a.txt", text="hello")["verified"] is True
    assert (office.folder / "notes" / "a.txt").read_text(encoding="utf-8") == "hello"
    bad = SHOP.read_text(encoding="utf-8").replace('content: "{requested.text}"', 'content: "another text"')
    office.write("shop.yaml", bad)
    lost = office.run("write_note", name="b.txt", text="hello")
    assert lost["state"] == "rolled_back"
    assert not (office.folder / "notes" / "b.txt").exists()


@pytest.mark.requirement("FILE-lies")
def test_a_row_is_committed_only_where_the_contract_holds_inside(office: Office) -> None:
    assert office.run("book", "--operation", "1", code=0, id="e-1", amount=5)["verified"] is True
    refused = office.run("book", "--operation", "2", id="e-1", amount=5_000)  # the statement keeps it below 1,000
    assert refused["state"] == "rolled_back"
    book = sqlite3.connect(office.folder / "book.db")
    assert book.execute("select * from entries").fetchall() == [("e-1", 5)]
    book.close()


@pytest.mark.requirement("FILE-lies")
def test_a_commit_is_what_the_repository_says(office: Office) -> None:
    office.write("work/a.txt", "one")
    subprocess.run(["git", "add", "a.txt"], cwd=office.folder / "work", check=True)
    done = office.run("commit_file", "--operation", "1", code=0, path="a.txt", message="First; $(touch pwned)")
    assert done["verified"] is True
    lost = office.run("commit_file", "--operation", "2", path="a.txt", message="Nothing to commit")
    assert lost["verified"] is False
    assert not list(office.folder.rglob("pwned"))


@pytest.mark.requirement("FILE-lies")
def test_a_program_that_says_it_is_done_and_does_nothing_is_not_believed(office: Office) -> None:
    text = """\
apiVersion: readback/v1
kind: Contracts
contracts:
  put:
    kind: set
    side_effect: ephemeral_write
    target: key/{requested.key}
    arguments: {key: string, value: string}
    execute:
      command:
        argv: ["./put", --, {value: "{requested.key}", argument: data}, {value: "{requested.value}", argument: data}]
        cwd: store
    readers:
      - command: {argv: ["./get", --, {value: "{requested.key}", argument: data}], absent: [3], cwd: store}
        consistency: strong
    ensure: {stored: authoritative.value == requested.value}
    within: 1s
"""
    office.write("own.yaml", text)
    (office.folder / "store").mkdir()
    honest = '#!/bin/sh\nprintf \'{"value": "%s"}\' "$3" > "store-$2"\n'
    for name, body in (("put", honest), ("get", '#!/bin/sh\n[ -f "store-$2" ] || exit 3\nexec cat "store-$2"\n')):
        office.write(name, body).chmod(0o755)
    base = ("run", "put", "--contracts", "own.yaml", "--json", "--arg", "key=k")
    assert office(*base, "--arg", "value=v", "--operation", "1", code=0).json["verified"] is True
    office.write("put", "#!/bin/sh\necho done\n")
    lied = office(*base, "--arg", "value=w", "--operation", "2").json
    assert lied["verdict"] == "refuted"
    office.write("get", "#!/bin/sh\nexit 4\n")
    assert office(*base, "--arg", "value=w", "--operation", "3").json["verdict"] == "undetermined"


@pytest.mark.requirement("FILE-credentials")
def test_a_credential_is_sent_and_is_seen_nowhere_else(office: Office, systems: Systems) -> None:
    office.run("ship_order", code=0, order_id="o-30", carrier="dhl")
    office.run("tell_customer", "--operation", "s", code=0, to=ANA, subject="s", text="t")
    echo = """\
apiVersion: readback/v1
kind: Contracts
contracts:
  leak:
    kind: set
    side_effect: ephemeral_write
    target: x
    execute:
      command:
        argv: [sh, -c, "echo $OUR_TOKEN; echo $OUR_TOKEN >&2"]
        cwd: work
        env: {OUR_TOKEN: {env: SHOP_TOKEN}}
    readers:
      - command:
          argv: [sh, -c, 'echo "{{\\"seen\\": \\"$OUR_TOKEN\\"}}"']
          env: {OUR_TOKEN: {file: token.txt}}
        consistency: strong
    ensure: {seen: authoritative.seen == 'x'}
    within: 1s
"""
    office.write("leak.yaml", echo)
    office.write("token.txt", TOKEN + "\n")
    told = [office("run", "leak", "--contracts", "leak.yaml", "--json", "--operation", "1")]
    failing = echo.replace("echo $OUR_TOKEN >&2", "echo $OUR_TOKEN >&2; exit 9").replace(
        "}}\"']", "}}\"; echo $OUR_TOKEN >&2; exit 9']"
    )
    office.write("leak.yaml", failing)
    told.append(office("run", "leak", "--contracts", "leak.yaml", "--json", "--operation", "2"))
    for name in ("leak", "ship_order"):
        file = "leak.yaml" if name == "leak" else "shop.yaml"
        told.append(office("contracts", "show", name, "--contracts", file, "--json"))
        told.append(office("contracts", "check", file, "--json"))
    ids = [each.json["id"] for each in told[:2]]
    told += [office("show", each, "--json") for each in ids] + [office("explain", each) for each in ids]
    for each in told:
        assert TOKEN not in each.out + each.err
    assert TOKEN.encode() not in office.everything()
    assert b"[secret]" in office.everything()


@pytest.mark.requirement("FILE-credentials", "FILE-same-contract")
def test_whose_mailbox_it_is_may_come_by_reference_and_is_still_compared(
    office: Office, systems: Systems, monkeypatch: pytest.MonkeyPatch
) -> None:
    ben = "ben@acme.example"
    monkeypatch.setenv("MAIL_USER", ben)
    written = SHOP.read_text(encoding="utf-8")
    office.write("shop.yaml", written.replace(f"user: {ANA}", "user: {env: MAIL_USER}"))
    sent = office.run("tell_customer", "--operation", "r", code=0, to=ben, subject="Your order", text="It left.")
    assert (sent["verified"], sent["discrepancy"]) == (True, None)


@pytest.mark.requirement("FILE-credentials")
def test_a_reference_that_stands_for_nothing_is_told_before_anything_is_sent(
    office: Office, systems: Systems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_TOKEN")
    outcome = office.run("ship_order", order_id="o-33", carrier="dhl")
    assert outcome["verified"] is False
    check = office("contracts", "check", "shop.yaml", "--json", code=1).json
    assert any("env:SHOP_TOKEN" in each["said"] for each in check["readers"])


@pytest.mark.requirement("FILE-same-contract")
def test_another_process_goes_on_with_an_action_by_its_file(office: Office, systems: Systems) -> None:
    systems.fault("late", match={"path": "/orders/o-34/ship"}, ms=60_000, answer="accepted")
    open_ = office.run("ship_order", "--wait", "0", order_id="o-34", carrier="dhl")
    assert open_["verified"] is False
    office("resume", "--contracts", "shop.yaml", "--tenant", "acme")
    after = office("show", open_["id"], "--tenant", "acme", "--json").json
    assert after["outcome"]["id"] == open_["id"]
    assert len(after["events"]) > 3
