"""Every wrong input read aloud: what is wrong, what to do next, the exit code; and nothing was done."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from tests.cli import shop
from tests.cli.conftest import CONTRACTS, PATIENCE_SECONDS, Desk
from tests.workers.forks import READBACK

RUN = ("run", "ship", "--contracts", CONTRACTS)
NOBODY = 65534
GOOD = ("--arg", "order_id=o-17", "--arg", "carrier=dhl")


@dataclass(frozen=True, slots=True)
class Wrong:
    """A command line, how it ends, and what stderr has to say."""

    args: tuple[str, ...]
    code: int
    error: str
    message: str
    remedy: str


WRONG = {
    "no command": Wrong((), 2, "", "Usage: readback", "Commands"),
    "unknown command": Wrong(("lst",), 2, "input.usage", "no command 'lst'. Did you mean 'list'?", "readback --help"),
    "unknown option": Wrong(
        ("list", "--limt", "3"), 2, "input.usage", "No such option '--limt'", "readback list --help"
    ),
    "option of a wrong type": Wrong(("list", "--limit", "x"), 2, "input.usage", "'x' is not a valid", "list --help"),
    "unknown state": Wrong(("list", "--state", "done"), 2, "input.usage", "'done' is not one of", "list --help"),
    "negative wait": Wrong((*RUN, *GOOD, "--wait", "-1"), 2, "input.usage", "is not in the range", "run --help"),
    "no tool": Wrong(("run",), 2, "input.usage", "Missing argument 'TOOL'", "readback run --help"),
    "no contracts": Wrong(("run", "ship"), 2, "input.usage", "No contracts are named", "--contracts package.module"),
    "no such module": Wrong(
        ("run", "ship", "--contracts", "no.such"),
        2,
        "input.usage",
        "There is no module 'no.such'",
        "as in a Python import",
    ),
    "file of a module": Wrong(
        ("run", "ship", "--contracts", "json.py"),
        2,
        "input.usage",
        "no module 'json.py'",
        "Omit the ending: json.",
    ),
    "no such pack": Wrong(
        ("run", "ship", "--contracts", "pack:x"), 5, "settings", "There is no pack 'x'", "readback contracts list"
    ),
    "contract file with a fault": Wrong(
        ("run", "ship", "--contracts", "faulty.yaml"),
        5,
        "contract.file",
        "faulty.yaml:1:4: Anchors and aliases are not allowed",
        "Correct every listed fault",
    ),
    "step that is no text": Wrong(
        (*RUN, *GOOD, "--step", "\udcff"), 2, "input.proposal", "The step holds half a character", "UTF-8"
    ),
    "step that no entry holds": Wrong(
        (*RUN, *GOOD, "--step", "x" * 70_000), 2, "input.proposal", "The step exceeds 16384 bytes", "Say it shorter"
    ),
    "step that no entry holds, of what is left to workers": Wrong(
        ("submit", "later", "--operation", "a", "--step", "x" * 70_000),
        2,
        "input.proposal",
        "The step exceeds",
        "shorter",
    ),
    "operation that is empty": Wrong(
        (*RUN, *GOOD, "--operation", " "),
        2,
        "input.proposal",
        "The operation is missing",
        "(--operation in a shell).",
    ),
    "not a module name": Wrong(
        ("run", "ship", "--contracts", "./x.py"), 2, "input.usage", "is not a module name", "package.module"
    ),
    "module without actions": Wrong(
        ("run", "ship", "--contracts", "json"), 2, "input.usage", "There is no action in json", "@action"
    ),
    "module that breaks": Wrong(
        ("run", "ship", "--contracts", "broken"),
        5,
        "contract",
        "cannot be imported: ZeroDivisionError",
        "python -c 'import broken'",
    ),
    "contracts that do not load": Wrong(
        ("run", "ship", "--contracts", "unsound"),
        5,
        "contract",
        "ensure: The contract has no postcondition",
        "Correct every listed fault",
    ),
    "unknown action": Wrong(
        ("run", "shp", "--contracts", CONTRACTS),
        2,
        "input.not-found",
        "no contract 'shp'. Did you mean 'ship'?",
        "module",
    ),
    "argument without a sign": Wrong(
        (*RUN, "--arg", "order_id"),
        2,
        "input.arguments",
        "'order_id' is not of the form name=value",
        "Correct the named",
    ),
    "missing argument": Wrong(
        (*RUN, "--arg", "order_id=o-17"), 2, "input.arguments", "carrier: It is missing", "Correct"
    ),
    "unknown argument": Wrong(
        (*RUN, *GOOD, "--arg", "carier=x"),
        2,
        "input.arguments",
        "carier: The action has no such argument. Did you",
        "Correct",
    ),
    "argument given twice": Wrong(
        (*RUN, *GOOD, "--arg", "carrier=ups"), 2, "input.arguments", "carrier: It is given twice", "Correct"
    ),
    "text for a number": Wrong(
        (*RUN, *GOOD, "--arg", "parcels=two"),
        2,
        "input.arguments",
        "parcels: It takes no text, and this is not",
        "Correct",
    ),
    "another type than asked": Wrong(
        (*RUN, *GOOD, "--arg-json", 'parcels="2"'),
        2,
        "input.arguments",
        "parcels: It takes integer, and is given str",
        "",
    ),
    "no JSON": Wrong(
        (*RUN, *GOOD, "--arg-json", "parcels={"), 2, "input.arguments", "parcels: It is not JSON: unexpected", "Correct"
    ),
    "not a number of JSON": Wrong(
        (*RUN, *GOOD, "--arg-json", "parcels=NaN"), 2, "input.arguments", "parcels: It is not", ""
    ),
    "intended is no object": Wrong(
        (*RUN, *GOOD, "--intended", "[1]"), 2, "input.arguments", "--intended is not a JSON object", "Pass --intended"
    ),
    "empty tenant": Wrong(
        (*RUN, *GOOD, "--tenant", " "),
        2,
        "input.unknown-tenant",
        "The tenant is missing",
        "--tenant in a shell), or set READBACK_TENANT",
    ),
    "empty principal": Wrong(
        (*RUN, *GOOD, "--principal", ""), 2, "input.unknown-principal", "The principal is missing", "principal="
    ),
    "operation with control characters": Wrong(
        (*RUN, *GOOD, "--operation", "a\nb"),
        2,
        "input.proposal",
        "contains control or direction characters",
        "operation",
    ),
    "run with control characters": Wrong(
        (*RUN, *GOOD, "--run", "a\nb"),
        2,
        "input",
        "The run exceeds",
        "Next: Pass one line of text of at most 256 bytes",
    ),
    "no database by that name": Wrong(
        ("list", "--url", "sqlite:///a%00b"), 2, "input.usage", "names no database file", "sqlite:///"
    ),
    "ledger with a name that is too long": Wrong(
        ("list", "--url", f"sqlite:///{'x' * 300}"), 6, "store.cannot-open", "cannot be reached", "Check the path"
    ),
    "database of a script without a name": Wrong(
        ("delegate", "--task", "x", "--verify", "broken.py", "--allow-sql", "shop.db", "--", "true"),
        2,
        "input.usage",
        "'shop.db' is not NAME=FILE",
        "Next: Write --allow-sql shop=",
    ),
    "operation is needed": Wrong(
        ("run", "ring", "--contracts", CONTRACTS, "--arg", "desk=1", "--arg", "text=x"),
        2,
        "input.proposal",
        "needs an operation id",
        "operation",
    ),
    "unknown scheme": Wrong(
        ("list", "--url", "mysql://x"), 5, "settings", "No ledger store supports 'mysql'", "sqlite:///"
    ),
    "restored to what is no URL": Wrong(
        ("ledger", "restore", "x", "--to", "new.db", "--accept-loss", "--reason", "x", "--who", "y"),
        5,
        "settings",
        "No ledger store supports 'new.db' URLs.\nNext: Write sqlite:///new.db for a file.",
        "Use sqlite:///",
    ),
    "no database named": Wrong(
        ("list", "--url", "sqlite:x.db"), 2, "input.usage", "names no database file", "sqlite:///"
    ),
    "server with half of a pair of brackets": Wrong(
        ("mcp", "--url", "http://[bad"), 2, "input.usage", "is not an address: Invalid IPv6", "Write http://HOST:PORT"
    ),
    "no ledger": Wrong(("list",), 6, "store.cannot-open", "There is no database at", "Check the path"),
    "no folder": Wrong(
        (*RUN, *GOOD, "--url", "sqlite:////no/such/x.db"), 6, "store.no-folder", "does not exist", "Create"
    ),
    "head is malformed": Wrong(
        ("ledger", "verify", "--head", "x"), 2, "input.usage", "is no head of a log", "SEQ:LEAF"
    ),
    "ledger without a command": Wrong(("ledger",), 2, "input.usage", "A command is missing", "--help"),
}


@pytest.mark.requirement("INPUT-usage")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_named_with_a_remedy_and_changes_nothing(desk: Desk, name: str) -> None:
    (desk.folder / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    (desk.folder / "unsound.py").write_text(UNSOUND, encoding="utf-8")
    (desk.folder / "faulty.yaml").write_text("a: &a [*a]\n", encoding="utf-8")
    before = sorted(os.listdir(desk.folder))
    wrong = WRONG[name]
    answer = desk(*wrong.args, code=wrong.code)
    assert wrong.message in answer.err
    assert wrong.remedy in answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    left = set(os.listdir(desk.folder)) - {"__pycache__", "readback.db", "readback.db-wal", "readback.db-shm"}
    assert left == set(before)
    if desk.ledger.exists():
        assert desk("list", "--json", code=0).json == []
    assert not shop.path().exists()


@pytest.mark.requirement("INPUT-usage")
@pytest.mark.parametrize("name", [name for name, wrong in WRONG.items() if wrong.error])
def test_with_json_the_same_is_one_object_on_stdout(desk: Desk, name: str) -> None:
    (desk.folder / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    (desk.folder / "unsound.py").write_text(UNSOUND, encoding="utf-8")
    (desk.folder / "faulty.yaml").write_text("a: &a [*a]\n", encoding="utf-8")
    wrong = WRONG[name]
    error = desk(*wrong.args, "--json", code=wrong.code).json["error"]
    assert error["code"].startswith(wrong.error)
    assert error["exit_code"] == wrong.code
    assert error["message"]
    assert error.keys() >= {"code", "message", "remedy", "details", "exit_code"}


UNSOUND = """
from readback import Context, action

@action(kind="set", side_effect="low_risk_internal", target="x", ensure={})
def unsure(ctx: Context) -> object:
    return None
"""


def test_an_id_that_is_not_there_is_named(desk: Desk) -> None:
    desk.ship("a", code=0)
    for command in ("show", "explain"):
        answer = desk(command, "01aaaaaaaaaaaaaaaaaaaaaaaa", code=2)
        assert "There is no action" in answer.err
        assert "readback list" in answer.err


def test_an_age_that_is_empty_is_told_as_it_was_given(desk: Desk) -> None:
    desk.ship("a", code=0)
    answer = desk("ledger", "erase", "--older-than", "", "--reason", "x", "--who", "ada", code=2)
    assert "Error: '' is no age and no moment." in answer.err
    assert "Next: Write an age as 90d" in answer.err


def test_another_tenants_action_does_not_exist_here(desk: Desk) -> None:
    outcome = desk.ship("a", code=0)
    answer = desk("show", outcome["id"], "--tenant", "other", code=2)
    assert "in tenant 'other'" in answer.err
    answer = desk("show", outcome["stamp"], "--tenant", "other", code=2)
    assert "in tenant 'other'" in answer.err


@pytest.mark.requirement("INPUT-other-payload")
def test_the_same_operation_with_another_payload_is_refused(desk: Desk) -> None:
    first = desk.ship("a", code=0)
    answer = desk.run("ship", "--operation", "a", order_id="o-17", carrier="ups", code=2)
    assert answer.json["error"]["code"] == "input.payload-conflict"
    assert answer.json["error"]["details"]["action"] == first["id"]
    assert shop.load()["o-17"]["carrier"] == "dhl"


def test_a_ledger_in_a_folder_that_nobody_else_may_enter_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="readback-rights-") as name:  # nobody may enter the tests' own
        Path(name).chmod(0o755)
        (Path(name) / "shut").mkdir(mode=0o000)
        monkeypatch.chdir(name)
        monkeypatch.setenv("XDG_CONFIG_HOME", name)
        with somebody_else():
            answer = desk("list", "--url", f"sqlite:///{name}/shut/below/readback.db", code=6)
        monkeypatch.chdir(desk.folder)
    assert "cannot be reached (Permission denied)" in answer.err
    assert "Next: Check the path" in answer.err


def test_a_folder_that_nothing_can_be_measured_in_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = desk.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for more in ((), ("--gateway",)):
        answer = desk("bench", *more, code=2)
        assert "Error: Nothing can be measured in the working folder" in answer.err
        assert "Next: Run it in a folder that you may write to" in answer.err


@contextmanager
def somebody_else() -> Iterator[None]:
    """Inside, this process has no special rights, also where the tests are run by the superuser."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.requirement("INPUT-store-read-only")
def test_a_read_only_ledger_is_refused_before_anything_is_called(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ship("a", code=0)
    with tempfile.TemporaryDirectory(prefix="readback-rights-") as name:
        ledger = Path(name) / "readback.db"
        shutil.copy(desk.ledger, ledger)
        ledger.chmod(0o444)
        Path(name).chmod(0o755 if os.geteuid() == 0 else 0o500)
        monkeypatch.chdir(name)
        monkeypatch.setenv("XDG_CONFIG_HOME", name)
        url = f"sqlite:///{ledger}"
        with somebody_else():
            answer = desk.run("ship", "--operation", "b", "--url", url, order_id="o-17", carrier="ups", code=6)
        Path(name).chmod(0o700)
        monkeypatch.chdir(desk.folder)
    assert answer.json["error"]["code"] == "store.read-only"
    assert "write access" in answer.err
    assert shop.load()["o-17"]["carrier"] == "dhl"


@pytest.mark.requirement("INPUT-store-newer-schema")
def test_a_ledger_of_a_newer_schema_is_refused(desk: Desk) -> None:
    desk.ship("a", code=0)
    database = apsw.Connection(str(desk.ledger))
    database.execute("insert into migration values (99, '0099_later.sql', 'x')")
    database.close()
    answer = desk.run("ship", "--operation", "b", order_id="o-17", carrier="ups", code=6)
    assert answer.json["error"]["code"] == "store.version"
    assert "schema 99" in answer.err
    assert shop.load()["o-17"]["carrier"] == "dhl"


@pytest.mark.requirement("INPUT-store-locked")
def test_a_locked_ledger_is_a_store_error_after_a_bounded_wait(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ship("a", code=0)
    monkeypatch.setattr("readback.stores.sqlite.store.BUSY_TIMEOUT_MS", 50)
    monkeypatch.setitem(
        __import__("readback.stores.sqlite.store", fromlist=["x"]).open_sqlite_store.__kwdefaults__,
        "busy_timeout_ms",
        50,
    )
    database = apsw.Connection(str(desk.ledger))
    database.execute("begin immediate")
    try:
        answer = desk.run("ship", "--operation", "b", order_id="o-17", carrier="ups", code=6)
    finally:
        database.close()
    assert answer.json["error"]["code"] == "store.locked"
    assert "readback resume" in answer.err
    assert shop.load()["o-17"]["carrier"] == "dhl"


@pytest.mark.requirement("INPUT-store-corrupt")
def test_a_file_that_is_another_database_is_left_as_it_is(desk: Desk) -> None:
    database = apsw.Connection(str(desk.ledger))
    database.execute("create table theirs (x)")
    database.close()
    before = desk.ledger.read_bytes()
    for command in (("list",), ("ledger", "verify"), (*RUN, *GOOD)):
        answer = desk(*command, code=6)
        assert "not one of Readback's" in answer.err
    assert desk.ledger.read_bytes() == before


def test_an_unexpected_crash_is_one_line_with_its_type_and_no_trace(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr("readback.cli.version.versions", broken)
    answer = desk("version", code=5)
    assert "Readback failed unexpectedly: KeyError: 'gone'" in answer.err
    assert "Please report this" in answer.err
    assert "Traceback" not in answer.err
    assert desk("version", "--json", code=5).json["error"]["code"] == "internal"
    monkeypatch.setenv("READBACK_DEBUG", "1")
    assert "Traceback" in desk("version", code=5).err


def test_no_file_in_the_working_folder_stands_in_for_an_installed_package(desk: Desk) -> None:
    (desk.folder / "rich").mkdir()
    (desk.folder / "rich" / "__init__.py").write_text("raise RuntimeError('hijacked')\n", encoding="utf-8")
    assert "sound" in desk.spawn("doctor", "--contracts", CONTRACTS, code=0).out


def test_a_reader_that_has_gone_is_no_crash(desk: Desk, tmp_path: Path) -> None:
    desk.ship("a", code=0)
    started = desk.process("list", "--json")
    assert started.stdout is not None
    started.stdout.close()
    assert started.stderr is not None
    _, said = started.communicate(timeout=PATIENCE_SECONDS)
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert started.returncode == 3  # no answer arrived, so that it says neither that it is so nor that it is not


@pytest.mark.parametrize(
    "args", [("list",), ("list", "--json"), ("show", "nobody", "--json"), ("--help",), ("version",)]
)
def test_an_answer_that_cannot_be_written_is_neither_yes_nor_no(desk: Desk, args: tuple[str, ...]) -> None:
    desk.ship("a", code=0)
    with open("/dev/full", "w", encoding="utf-8") as full:
        told = subprocess.run(
            [READBACK, *args], cwd=desk.folder, env=desk.environment(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    said = told.stderr.decode()
    assert told.returncode == 3, said
    assert "could not be written: No space left on device" in said
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_command_without_its_streams_ends_with_the_code_of_what_it_did(desk: Desk, closed: str) -> None:
    desk.ship("a", code=0)
    for args, code in (("list", 0), ("show nobody", 2)):
        command = f"{READBACK} {args} {closed}"
        told = subprocess.run(["sh", "-c", command], cwd=desk.folder, env=desk.environment(), capture_output=True)
        assert told.returncode == code, told
        assert b"unexpectedly" not in told.stderr


def test_bytes_that_are_no_text_are_bad_input(desk: Desk) -> None:
    desk.ship("a", code=0)
    assert "UTF-8" in desk("show", "a\udcff", code=2).err


def test_a_name_that_is_too_long_is_bad_input(desk: Desk) -> None:
    for args in (("init",), ("contracts", "draft", "--url", "http://127.0.0.1:9", "--out")):
        assert "unexpectedly" not in desk(*args, "x" * 300).err


def test_a_working_folder_that_was_deleted_is_said_to_be(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ship("a", code=0)
    gone = desk.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "the working folder was deleted" in desk("list", "--url", "sqlite:///readback.db", code=6).err
    checked = desk("contracts", "check", "contracts.yaml", "--json", code=2)
    assert checked.json["error"]["message"] == "The working folder was deleted."
    desk("list", "--url", f"sqlite:///{desk.ledger}", code=0)
    monkeypatch.chdir(desk.folder)
