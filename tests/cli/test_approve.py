"""Approvals at the shell: a person at a terminal with a key of his own can; an agent with a shell cannot.

Every command is a process of its own. The order service is a real one, and its books say what was executed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from readback import ApproverKey
from readback.canon import sha256_hex
from readback.cli.sessions import reading
from readback.config import Settings
from readback.views.action import outcome_and_picture
from tests.architecture.tree import ROOT
from tests.cli import orders
from tests.cli.conftest import Answer
from tests.cli.terminals import Spoken, at_terminal, without_terminal

PASSPHRASE = "correct horse battery"
SECRET = "only the operator's worker has this"
HERE = ("--contracts", "tests.cli.orders")
TYPE_YES, TYPE_PASSPHRASE = "Type yes to", "Passphrase of"


@dataclass(frozen=True, slots=True)
class Office:
    """A working folder with a ledger, an operator with settings and people, and an agent with a shell in it."""

    folder: Path
    config: Path
    keys: Path
    url: str
    books: dict[str, Any]

    def environment(self, *, agent: bool = False, config: Path | None = None) -> dict[str, str]:
        dropped = ("READBACK_", "COLUMNS", "ORDERS_", "XDG_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        token = {} if agent else {"ORDERS_TOKEN": SECRET}
        folder = str(config or self.config)
        return {**kept, **token, "PYTHONPATH": str(ROOT), "ORDERS_URL": self.url, "XDG_CONFIG_HOME": folder}

    def refund(self, operation: str, amount: int = 7, memo: str = "") -> str:
        """The agent asks for one; it is held, and its id is told."""
        given = ("--arg", f"refund_id={operation}", "--arg", f"amount={amount}", "--arg", f"memo={memo}")
        asked = self.agent("run", "refund", *HERE, "--operation", operation, "--json", *given)
        assert asked.code == 4, asked
        assert asked.json["hold"] == "approval"
        return str(asked.json["id"])

    def agent(self, *args: str, typed: str = "", config: Path | None = None) -> Answer:
        """Without a terminal."""
        return without_terminal(args, self.folder, self.environment(agent=True, config=config), typed)

    def agent_at_terminal(self, *args: str, says: list[tuple[str, str]], config: Path | None = None) -> Spoken:
        """With one that it made for itself."""
        return at_terminal(args, self.folder, self.environment(agent=True, config=config), says)

    def alice(self, *args: str, says: list[tuple[str, str]] | None = None) -> Spoken:
        yes = [(TYPE_YES, "yes"), (TYPE_PASSPHRASE, PASSPHRASE)]
        given = ("--key", str(self.keys / "alice.pem"))
        return at_terminal([*args, *given], self.folder, self.environment(), yes if says is None else says)

    def worker(self) -> Answer:
        """The operator's worker goes on with all that is due."""
        return without_terminal(["resume", *HERE, "--json"], self.folder, self.environment())

    def show(self, action_id: str) -> Any:
        """What `readback show --json` prints, without a process for it."""
        with reading(Settings(url=f"sqlite:///{self.folder / 'readback.db'}")) as session:
            return outcome_and_picture(session, action_id)[1]

    def outcome(self, action_id: str) -> Any:
        return self.show(action_id)["outcome"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "eve"):
        ApproverKey.create(folder / f"{name}.pem", PASSPHRASE)
    return folder


def settings(folder: Path, name: str, key: Path) -> Path:
    """A configuration folder that lists one approver."""
    made = folder / "readback"
    made.mkdir(parents=True)
    public = ApproverKey.open(key, PASSPHRASE).public_key
    (made / "config.toml").write_text(listing(name, public), encoding="utf-8")
    return folder


def listing(name: str, public: str) -> str:
    return f'[approvers.{name}]\nkey = "{public}"\ntenants = ["default"]\n'


@pytest.fixture
def office(tmp_path: Path, keys: Path) -> Iterator[Office]:
    config = settings(tmp_path / "operator", "alice", keys / "alice.pem")
    folder = tmp_path / "desk"
    folder.mkdir()
    with orders.service(SECRET) as (url, books):
        yield Office(folder, config, keys, url, books)


def code(answer: Answer) -> str:
    return str(answer.json["error"]["code"])


# --- a person ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("L18", "TRUTH-hold-signed", "TRUTH-hold-approval")
def test_l18_an_approver_sees_the_exact_bytes_says_yes_signs_and_a_worker_executes_it(office: Office) -> None:
    action_id = office.refund("r-1", memo="for \x1b[31mlate\u202e parcels")
    written = subprocess.run(
        [sys.executable, "-m", "readback.cli.cli", "approve", action_id, "--bytes"],
        cwd=office.folder,
        env=office.environment(),
        capture_output=True,
        check=True,
    ).stdout
    told = office.alice("approve", action_id, "--json")
    assert told.answer.code == 0, told
    said = told.answer.json
    assert said["signed_by"] == ["alice"]
    assert said["people_missing"] == 0
    assert office.books == {}
    shown = "".join(line[2:] for line in told.screen.splitlines() if line.startswith("  "))
    assert sha256_hex(written) in told.screen
    assert "requested.amount = 7" in told.screen
    assert "\x1b[31m" not in told.screen
    assert "\u202e" not in told.screen
    assert "\\u001b[31mlate\\u202e parcels" in told.screen
    assert json.loads(written)["requested"] == {
        "amount": 7,
        "memo": "for \x1b[31mlate\u202e parcels",
        "refund_id": "r-1",
    }
    assert '"format":"readback-approval/1"' in shown
    assert PASSPHRASE not in told.screen
    assert office.worker().code == 0
    assert office.books["r-1"]["amount"] == 7
    after = office.show(action_id)
    assert after["outcome"]["approved_by"] == ["alice"]
    assert after["approval"]["payload_hash"] == sha256_hex(written)
    assert without_terminal(["ledger", "verify"], office.folder, office.environment()).code == 0


def test_anything_but_yes_leaves_it_as_it_is(office: Office) -> None:
    action_id = office.refund("r-1")
    before = office.show(action_id)["events"]
    for typed in ("", "yes please"):
        told = office.alice("approve", action_id, says=[(TYPE_YES, typed)])
        assert told.answer.code == 1
        assert "Nothing was recorded." in told.answer.err
    assert office.show(action_id)["events"] == before


def test_a_worker_until_idle_does_not_stay_for_what_waits_for_a_person(office: Office) -> None:
    action_id = office.refund("r-idle")
    staying = without_terminal(["worker", "--until-idle", *HERE, "--json"], office.folder, office.environment())
    assert (staying.code, staying.json["advanced"]) == (0, 0), staying
    assert office.outcome(action_id)["hold"] == "approval"


def test_what_is_no_token_is_refused_in_one_sentence(office: Office) -> None:
    action_id = office.refund("r-junk")
    (office.folder / "junk").write_text("junk", encoding="utf-8")
    refused = without_terminal(["approve", action_id, "--token", "junk"], office.folder, office.environment())
    assert refused.code == 2
    error = refused.err.splitlines()[0]
    assert error.startswith("Error: Not a valid approval token: ")
    assert "Next:" not in error
    assert not error.endswith("..")


def test_a_denial_is_signed_too_and_ends_it(office: Office) -> None:
    action_id = office.refund("r-1")
    told = office.alice("deny", action_id)
    assert told.answer.code == 0
    assert office.outcome(action_id)["code"] == "approval.denied"
    again = office.alice("approve", action_id, "--json")
    assert (again.answer.code, code(again.answer)) == (2, "approval.replayed")
    office.worker()
    assert office.books == {}


def test_bytes_can_be_signed_away_from_the_ledger_and_the_token_recorded(office: Office, tmp_path: Path) -> None:
    action_id = office.refund("r-1")
    apart = tmp_path / "apart"
    apart.mkdir()
    written = without_terminal(["approve", action_id, "--bytes"], office.folder, office.environment())
    (apart / "bytes").write_text(written.out, encoding="utf-8")
    key = ("--key", str(office.keys / "alice.pem"))
    signed = at_terminal(
        ["keys", "sign", "bytes", "--approver", "alice", *key],
        apart,
        office.environment(),
        [(TYPE_YES, "yes"), (TYPE_PASSPHRASE, PASSPHRASE)],
    )
    assert signed.answer.code == 0, signed
    assert "requested.amount = 7" in signed.screen
    (apart / "token").write_text(signed.answer.out, encoding="utf-8")
    both = office.agent("approve", action_id, "--bytes", "--token", str(apart / "token"), "--json")
    assert both.code == 2, "whoever asks for the bytes approves nothing"
    taken = office.agent("approve", action_id, "--token", str(apart / "token"), "--json")
    assert taken.code == 0, taken
    office.worker()
    assert office.books["r-1"]["amount"] == 7


def test_what_are_no_bytes_of_an_approval_are_not_signed(office: Office, tmp_path: Path) -> None:
    for number, text in enumerate(("{}", "not json")):
        (tmp_path / str(number)).write_text(text, encoding="utf-8")
        key = ("--key", str(office.keys / "alice.pem"))
        told = at_terminal(
            ["keys", "sign", str(tmp_path / str(number)), "--approver", "a", *key], tmp_path, {**os.environ}, []
        )
        assert told.answer.code == 2
        assert told.answer.out == ""


def test_keys_are_made_shown_and_listed(office: Office, tmp_path: Path) -> None:
    file = tmp_path / "new" / "carol.pem"
    asked = [("A passphrase", PASSPHRASE), ("The same again", PASSPHRASE)]
    made = at_terminal(["keys", "create", "--key", str(file), "--json"], tmp_path, office.environment(), asked)
    assert made.answer.code == 0, made
    assert file.stat().st_mode & 0o777 == 0o600
    assert PASSPHRASE not in made.screen
    shown = at_terminal(
        ["keys", "show", "--key", str(file)], tmp_path, office.environment(), [(TYPE_PASSPHRASE, PASSPHRASE)]
    )
    assert shown.answer.out.strip() == made.answer.json["key"]
    listed = without_terminal(["keys", "list", "--json"], tmp_path, office.environment())
    assert [one["name"] for one in listed.json["approvers"]] == ["alice"]
    differ = at_terminal(
        ["keys", "create", "--key", str(tmp_path / "x"), "--json"],
        tmp_path,
        office.environment(),
        [("A passphrase", PASSPHRASE), ("The same again", PASSPHRASE + "!")],
    )
    assert code(differ.answer) == "approval.key"
    assert not (tmp_path / "x").exists()


def test_a_list_of_approvers_that_others_may_write_is_not_used(office: Office) -> None:
    action_id = office.refund("r-1")
    (office.config / "readback" / "config.toml").chmod(0o664)
    told = office.alice("approve", action_id, "--json", says=[])
    assert (told.answer.code, code(told.answer)) == (5, "settings")


def test_explain_and_show_tell_who_is_waited_for_and_how_to_go_on(office: Office) -> None:
    action_id = office.refund("r-1")
    said = without_terminal(["explain", action_id, "--json"], office.folder, office.environment()).json
    assert any(f"readback approve {action_id}" in line for line in said["commands"])
    assert any(f"readback deny {action_id}" in line for line in said["commands"])
    text = without_terminal(["show", action_id], office.folder, office.environment()).out
    assert "approval" in text
    asked = office.show(action_id)["approval"]
    assert (asked["people"], asked["signed_by"], asked["required"]) == (1, [], True)


# --- an agent with a shell --------------------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-hold-signed", "L18")
def test_an_agent_with_a_shell_cannot_approve_itself(office: Office, tmp_path: Path) -> None:
    action_id = office.refund("r-1")
    before = office.show(action_id)["events"]
    copied = office.folder / "copied.pem"
    shutil.copy(office.keys / "alice.pem", copied)
    copied.chmod(0o600)
    own = ("--key", str(office.keys / "eve.pem"))
    yes = [(TYPE_YES, "yes"), (TYPE_PASSPHRASE, PASSPHRASE)]

    # No terminal: neither a pipe, nor an option, nor a variable answers for a person.
    typed = f"yes\n{PASSPHRASE}\n"
    assert code(office.agent("approve", action_id, "--json", *own, typed=typed)) == "approval.no-terminal"
    assert code(office.agent("deny", action_id, "--json", *own, typed=typed)) == "approval.no-terminal"
    assert code(office.agent("approve", action_id, "--yes", "--json")) == "input.usage"

    # A terminal of its own: its own key is not listed, and a copied key file does not open.
    assert code(office.agent_at_terminal("approve", action_id, "--json", *own, says=yes).answer) == (
        "approval.unknown-approver"
    )
    for guess in ("", PASSPHRASE.upper()):
        told = office.agent_at_terminal(
            "approve", action_id, "--json", "--key", str(copied), says=[(TYPE_YES, "yes"), (TYPE_PASSPHRASE, guess)]
        )
        assert code(told.answer) == "approval.key"

    # Settings in the working folder do not count.
    public = ApproverKey.open(office.keys / "eve.pem", PASSPHRASE).public_key
    (office.folder / "readback.toml").write_text(listing("eve", public), encoding="utf-8")
    told = office.agent_at_terminal("approve", action_id, "--json", *own, says=yes)
    assert code(told.answer) == "approval.unknown-approver"
    assert "readback.toml is ignored" in told.answer.err

    office.worker()
    assert office.books == {}
    assert office.show(action_id)["events"] == before
    assert office.alice("approve", action_id).answer.code == 0
    office.worker()
    assert list(office.books) == ["r-1"]


@pytest.mark.requirement("TRUTH-hold-signed", "REC-20")
def test_settings_of_the_agents_own_convince_only_the_agents_own_processes(office: Office, tmp_path: Path) -> None:
    action_id = office.refund("r-1")
    own = settings(tmp_path / "agents", "eve", office.keys / "eve.pem")
    yes = [(TYPE_YES, "yes"), (TYPE_PASSPHRASE, PASSPHRASE)]
    key = ("--key", str(office.keys / "eve.pem"))
    taken = office.agent_at_terminal("approve", action_id, "--json", *key, says=yes, config=own)
    assert taken.answer.code == 0, taken
    office.worker()
    waiting = office.outcome(action_id)
    assert (waiting["state"], waiting["hold"], waiting["row"]) == ("validated", "approval", "REC-20")
    assert waiting["approved_by"] == []
    assert office.books == {}


@pytest.mark.requirement("TRUTH-hold-signed", "L18")
def test_a_token_that_is_edited_replayed_or_for_another_action_is_refused_by_name(office: Office) -> None:
    one, two = office.refund("r-1"), office.refund("r-2", amount=7000)
    assert office.alice("approve", one).answer.code == 0
    genuine = kept_token(office, one)
    file = office.folder / "token.json"

    def record(action_id: str, token: dict[str, Any]) -> str:
        file.write_text(json.dumps(token), encoding="utf-8")
        return code(office.agent("approve", action_id, "--token", "token.json", "--json"))

    asked = office.show(two)["approval"]
    assert record(two, genuine) == "approval.replayed"
    assert record(two, {**genuine, "approval": asked["approval_id"]}) == "approval.forged"
    moved = {**genuine, "approval": asked["approval_id"], "payload": asked["payload_hash"], "nonce": asked["nonce"]}
    assert record(two, moved) == "approval.forged"
    assert record(two, {**moved, "approver": "eve"}) == "approval.unknown-approver"
    assert record(one, genuine) == "approval.replayed"
    office.worker()
    assert list(office.books) == ["r-1"]
    assert record(one, genuine) == "approval.replayed"


def kept_token(office: Office, action_id: str) -> dict[str, Any]:
    """What the agent finds in the ledger file: the token of a genuine approval."""
    from readback import bootstrap

    refs = [event["refs"]["token"] for event in office.show(action_id)["events"] if "token" in event["refs"]]
    store = bootstrap.store(f"sqlite:///{office.folder / 'readback.db'}", read_only=True)
    try:
        found = store.evidence("default", action_id, refs[0])
    finally:
        store.close()
    assert found is not None
    return dict(json.loads(found.body))


WRITES_PAST_THE_CHECK = """
import sys
from readback import ApproverKey, Readback
from readback.domain.contract.approval import Decision
from readback.engine.people import approvals as countersign
from readback.engine.resume import fold

key = ApproverKey.open({key!r}, {passphrase!r})
with Readback.open() as rb:
    store, now_us = rb._session.store, rb._session.runtime.now_us()
    request = rb.approval(sys.argv[1])
    token = request.signed(key, "alice", Decision.APPROVE)
    action = fold(store.events(sys.argv[1]))
    fence = store.lease(action.id, "agent", now_us, now_us + 1)
    store.append([countersign._decided(action, action.approval, token, {{}}, now_us, fence)])
"""


@pytest.mark.requirement("TRUTH-hold-signed", "REC-21", "L18")
def test_a_token_that_the_agent_writes_into_the_ledger_itself_fails_closed_in_the_workers_hands(office: Office) -> None:
    action_id = office.refund("r-1")
    program = WRITES_PAST_THE_CHECK.format(key=str(office.keys / "eve.pem"), passphrase=PASSPHRASE)
    done = without_terminal(
        ["-c", program, action_id], office.folder, office.environment(agent=True), program=sys.executable
    )
    assert done.code == 0, done
    assert office.outcome(action_id)["approved_by"] == ["alice"]
    office.worker()
    told = office.outcome(action_id)
    assert (told["state"], told["code"], told["row"]) == ("failed", "approval.unknown-approver", "REC-21")
    assert office.books == {}


def test_what_an_agent_executes_by_its_own_settings_is_found_by_the_operators_audit(
    office: Office, tmp_path: Path
) -> None:
    """It can run its own process, and has no credentials of the service: the books stay as they are, and it shows."""
    action_id = office.refund("r-1")
    own = settings(tmp_path / "agents", "eve", office.keys / "eve.pem")
    yes = [(TYPE_YES, "yes"), (TYPE_PASSPHRASE, PASSPHRASE)]
    office.agent_at_terminal("approve", action_id, "--key", str(office.keys / "eve.pem"), says=yes, config=own)
    office.agent("resume", *HERE, config=own)
    assert office.books == {}
    assert office.outcome(action_id)["attempts"] == 1
    found = without_terminal(["ledger", "verify", "--json"], office.folder, office.environment())
    assert found.code == 1
    assert {fault["code"] for fault in found.json["faults"]} == {"approval"}
