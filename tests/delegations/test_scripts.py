"""Scripts: the specification's patterns as printed, what becomes of a look that failed, and hostile ones."""

from __future__ import annotations

import gzip
import json
import os
import resource
import socket
import sqlite3
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from readback import delegation
from readback.adapters.scripts.host import WorldHost
from readback.adapters.scripts.monty import MontyEngine
from readback.agent_errors import DelegationFailedError, ScriptCompileError, ScriptError
from readback.canon import ExactNumber
from readback.delegations.model.words import VerifyOutcome
from readback.domain.contract.script_permissions import ScriptLimits, ScriptPermissions
from readback.errors import ContractFieldError, SettingsError
from readback.ports.scripts import Ran, ScriptEngine
from readback.testing.conformance.scripts import HOSTILE, ScriptsConformance, fake_host
from tests.delegations.given import EXISTS, TASK, Desk, opened

REACHABLE = """\
def run(result):
    resp = http.get(args["url"])
    ok = resp["status"] in [200, 204]
    return json.encode({
        "verified": ok,
        "reason": "" if ok else "endpoint returned %d" % resp["status"],
    })
"""
SHAPE = """\
def run(result):
    out = result.get("response", "")
    parsed = json.decode(out, default=None)
    if parsed == None:
        return json.encode({"verified": False, "reason": "response is not valid JSON"})
    if "id" not in parsed:
        return json.encode({"verified": False, "reason": "response missing required 'id' field"})
    return json.encode({"verified": True})
"""
CREATED = """\
def run(result):
    calls = result.get("tool_calls", [])
    if len(calls) == 0:
        return json.encode({"verified": False, "reason": "missing tool_calls in delegation result"})
    args = json.decode(calls[0].get("arguments", "{}"))
    owner = args.get("owner", "")
    name = args.get("name", "")
    if not owner or not name:
        return json.encode({"verified": False, "reason": "missing owner/name in delegation result"})
    resp = http.get("BASE/repos/" + owner + "/" + name)
    if resp.get("status", 0) != 200:
        return json.encode({"verified": False, "reason": "repo not found"})
    return json.encode({"verified": True})
"""


class Pages(BaseHTTPRequestHandler):
    status: ClassVar[dict[str, int]] = {}
    asked: ClassVar[list[str]] = []

    body: ClassVar[bytes] = b"ok"

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(self.status.get(self.path, 404))
        if self.path == "/away":
            self.send_header("Location", "/repos/a/b")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(self.body)

    def log_message(self, *said: object) -> None:
        pass


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def quiet() -> None:
    Pages.status.clear()
    Pages.asked.clear()
    Pages.body = b"ok"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="module")
def fake() -> Iterator[MontyEngine]:
    engine = MontyEngine(fake_host)
    yield engine
    engine.close()


class TestMonty(ScriptsConformance):
    @pytest.fixture(autouse=True)
    def taken(self, fake: MontyEngine) -> None:
        self.held = fake

    def engine(self) -> ScriptEngine:
        return self.held


@pytest.fixture(scope="module")
def engine() -> Iterator[MontyEngine]:
    made = MontyEngine(lambda allow, limits: WorldHost(allow, limits, lambda: 1_700_000_000_500_000))
    yield made
    made.close()


def ran(engine: MontyEngine, body: str, allow: dict[str, Any], limits: ScriptLimits | None = None) -> Ran:
    source = "def run(result):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    given = ScriptPermissions.of(allow)
    script = engine.compile(source, "verify", entry="run", takes=1, allow=given, limits=limits or ScriptLimits())
    return script.run([{}])


# --- the patterns ---


@pytest.mark.requirement("RALPH-inline-script")
def test_the_existence_check_runs_as_printed_and_brings_a_liar_to_do_the_work(desk: Desk) -> None:
    desk.lies = 2
    sent = desk.by_script()
    with opened() as client:
        done = sent.run(client, TASK, args={"expected_path": str(desk.file)})
    sent.close()
    assert (done.passed, done.attempts) == (True, 3)
    assert "attempt: expected file does not exist\n" in desk.turns[2].prompt
    seen: Any = done.outcomes[0].authoritative
    assert [(each["name"], each["failed"]) for each in seen["$delegation"]["calls"]] == [("fs.stat", False)]


@pytest.mark.requirement("RALPH-inline-script")
def test_the_reachability_check_runs_as_printed(desk: Desk, base: str) -> None:
    sent = desk.delegation(verify=REACHABLE, allow={"http": [base]}, max_verify_retries=0)
    with opened() as client:
        Pages.status["/there"] = 204
        assert sent.run(client, TASK, args={"url": f"{base}/there"}).passed
        with pytest.raises(DelegationFailedError, match="endpoint returned 404"):
            sent.run(client, TASK, args={"url": f"{base}/nothing"})
    sent.close()


@pytest.mark.requirement("RALPH-inline-script")
def test_the_shape_check_runs_as_printed() -> None:
    answers = iter(["nonsense", '{"name": 1}', '{"id": 1}'])
    prompts: list[str] = []
    sent = delegation(name="shape", verify=SHAPE)(lambda turn: (prompts.append(turn.prompt), next(answers))[1])
    with opened() as client:
        assert sent.run(client, TASK).passed
    sent.close()
    assert "response is not valid JSON" in prompts[1]
    assert "response missing required 'id' field" in prompts[2]


def test_a_tool_files_verify_block_sees_the_tool_calls_and_not_the_claim(base: str) -> None:
    Pages.status["/repos/octo/real"] = 200
    names = iter(["made-up", "real"])

    def answer(turn: object) -> object:
        arguments = f'{{"owner": "octo", "name": "{next(names)}"}}'
        return {"response": "Created.", "tool_calls": [{"name": "create_repo", "arguments": arguments}]}

    sent = delegation(name="repo", verify=CREATED.replace("BASE", base), allow={"http": [base + "/repos/"]})(answer)
    with opened() as client:
        done = sent.run(client, TASK)
    sent.close()
    assert (done.passed, done.attempts) == (True, 2)


# --- looks that failed, and verifiers that break ---


@pytest.mark.parametrize("status", [500, 503, 429, 0])
def test_a_false_after_a_look_that_failed_is_undetermined_and_sends_nobody_again(
    desk: Desk, base: str, status: int
) -> None:
    Pages.status["/x"] = status
    url = f"{base}/x" if status else "http://127.0.0.1:9/x"
    sent = desk.delegation(verify=REACHABLE, allow={"http": [base, "http://127.0.0.1:9/"]})
    with opened() as client:
        done = sent.run(client, TASK, args={"url": url})
    sent.close()
    assert (done.verify_outcome, len(desk.turns)) == (VerifyOutcome.UNDETERMINED, 1)


def test_a_false_after_an_answer_that_was_cut_is_undetermined_and_sends_nobody_again(desk: Desk, base: str) -> None:
    Pages.status["/orders"] = 200
    Pages.body = b"x" * 5_000 + b"order 17"
    sought = f"def run(result):\n    return 'order 17' in http.get('{base}/orders')['body']\n"
    sent = desk.delegation(verify=sought, allow={"http": [base]}, limits=ScriptLimits(body_bytes=1_000))
    with opened() as client:
        done = sent.run(client, TASK)
    sent.close()
    assert (done.verify_outcome, len(desk.turns)) == (VerifyOutcome.UNDETERMINED, 1)
    whole = desk.delegation(verify=sought, allow={"http": [base]})
    with opened() as client:
        assert whole.run(client, TASK).verify_outcome is VerifyOutcome.PASSED
    whole.close()


@pytest.mark.requirement("RALPH-verifier-error")
def test_a_script_that_does_not_compile_stops_everything_before_the_delegate_runs(desk: Desk) -> None:
    with opened() as client, pytest.raises(ScriptCompileError) as ended:
        desk.delegation(verify="this is not valid starlark!!").run(client, TASK)
    assert (ended.value.kind, ended.value.exit_code) == ("verification_failed", 5)
    assert not desk.turns


@pytest.mark.requirement("RALPH-verifier-error")
@pytest.mark.parametrize("body", ["return 1 / 0", "return 'yes'", "while True: pass", "return args['absent']"])
def test_a_script_that_breaks_is_an_error_of_the_verifier(desk: Desk, body: str) -> None:
    sent = desk.delegation(verify=f"def run(result):\n    {body}\n", limits=ScriptLimits(seconds=0.1))
    with opened() as client, pytest.raises(ScriptError):
        sent.run(client, TASK)
    sent.close()
    assert len(desk.turns) == 1


# --- what scripts may look at ---


def test_files_are_seen_below_the_allowed_folder_and_nowhere_else(engine: MontyEngine, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "a.txt").write_text("hello")
    (outside / "secret").write_text("s")
    (inside / "link").symlink_to(outside / "secret")
    (inside / "away").symlink_to(outside)
    os.mkfifo(inside / "pipe")
    allow = {"fs": [str(inside)]}
    assert ran(engine, "return [fs.read('a.txt'), fs.stat('a.txt')['size'], fs.exists('b')]", allow).value == [
        "hello", 5, False,
    ]  # fmt: skip
    assert ran(engine, "return [fs.read('pipe'), fs.stat('pipe')['kind'], fs.read('none')]", allow).value == [
        None, "other", None,
    ]  # fmt: skip
    assert ran(engine, f"return fs.list({str(inside)!r})", allow).value == ["a.txt", "away", "link", "pipe"]
    for path in (
        str(outside / "secret"),
        "../out/secret",
        "link",
        "away/secret",
        "a.txt/../../out/secret",
        "/etc/passwd",
    ):
        with pytest.raises(ScriptError, match="PermissionError"):
            ran(engine, f"return fs.read({path!r})", allow)
    with pytest.raises(ScriptError, match="PermissionError"):
        ran(engine, "return fs.exists('a.txt')", {})


def test_a_file_that_comes_in_parts_is_read_to_its_end(engine: MontyEngine) -> None:
    """As this process's own list of mappings, of which a read brings a page at most."""
    seen = ran(engine, "return fs.read('maps')", {"fs": ["/proc/self"]}).value
    assert isinstance(seen, str)
    assert len(seen) > 8_192
    assert seen.endswith("\n")


def test_addresses_are_asked_within_the_allowed_ones_and_followed_nowhere(engine: MontyEngine, base: str) -> None:
    Pages.status |= {"/repos/a/b": 200, "/away": 302}
    allow = {"http": [f"{base}/repos/a", f"{base}/away"]}
    assert ran(engine, f"return http.get('{base}/repos/a/b')['body']", allow).value == "ok"
    assert ran(engine, f"return http.get('{base}/away')['status']", allow).value == 302
    host = base.removeprefix("http://")
    for url in (
        f"{base}/repos/ab", f"{base}/repos/a/../../x", f"{base}/repos/a/%2e%2e/x", f"{base}/",
        "http://127.0.0.1:1/repos/a", f"http://u@{host}/repos/a", f"https://{host}/repos/a", f"{base}/repos/a\\..\\x",
        "file:///etc/passwd", "nonsense",
    ):  # fmt: skip
        with pytest.raises(ScriptError, match="PermissionError"):
            ran(engine, f"return http.get({url!r})", allow)
    assert Pages.asked == ["/repos/a/b", "/away"]


def test_a_server_that_drips_is_not_waited_for_longer_than_a_call_may_take(engine: MontyEngine) -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            line, _ = server.accept()
            with line, suppress(OSError):
                while not over.wait(0.02):
                    line.sendall(b"H")

        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        seen = ran(engine, f"return http.get({url!r})['status']", {"http": [url]}, ScriptLimits(host_seconds=0.2))
        over.set()
        dripping.join()
    assert seen.value == 0
    assert "no whole answer within 0.2 s" in seen.failed[0].detail


def test_databases_are_read_and_never_written(engine: MontyEngine, tmp_path: Path) -> None:
    import apsw

    file = tmp_path / "a.db"
    connection = apsw.Connection(str(file))
    connection.execute("create table t (a, b); insert into t values (1, 'x'), (2, x'00ff')")
    connection.close()
    allow = {"sql": {"main": str(file)}}
    assert ran(engine, "return sql.query('main', 'select a, b from t where a < ? order by a', [3])", allow).value == [
        {"a": 1, "b": "x"}, {"a": 2, "b": "00ff"},
    ]  # fmt: skip
    for text in ("insert into t values (1, 1)", "drop table t", f"attach '{tmp_path}/b.db' as b", "nonsense"):
        with pytest.raises(ScriptError):
            ran(engine, f"return sql.query('main', {text!r})", allow)
    endless = "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r"
    with pytest.raises(ScriptError, match="interrupted"):
        ran(engine, f"return sql.query('main', {endless!r})", allow)
    with pytest.raises(ScriptError, match="PermissionError"):
        ran(engine, "return sql.query('other', 'select 1')", allow)
    assert not (tmp_path / "b.db").exists()


@pytest.mark.requirement("SEC-scripts-apart")
@pytest.mark.parametrize(
    "text",
    [
        "pragma hard_heap_limit=1",
        "pragma soft_heap_limit=1",
        "pragma temp_store_directory='/tmp'",
        "pragma user_version = 7",
        "pragma journal_mode = delete",
        "pragma wal_checkpoint",
        "pragma writable_schema = on",
        "vacuum into '/tmp/never.db'",
        "select load_extension('x')",
    ],
)
def test_no_query_of_a_script_sets_or_writes_anything(text: str, engine: MontyEngine, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as made:
        made.execute("create table t (a)")
    before = file.read_bytes()
    with pytest.raises(ScriptError, match=r"not authorized|authorization denied|read-only|ttempt to write"):
        ran(engine, f"return sql.query('main', {text!r})", {"sql": {"main": str(file)}})
    assert file.read_bytes() == before
    with closing(sqlite3.connect(":memory:")) as other:  # this process's library is as it was
        assert other.execute("pragma hard_heap_limit").fetchone() == (0,)
        assert len(other.execute("select hex(zeroblob(1000000))").fetchone()[0]) == 2_000_000


@pytest.mark.requirement("SEC-sql-bounded")
@pytest.mark.parametrize(
    "text",
    [
        "select instr(hex(zeroblob(120000)), hex(zeroblob(60000))||'1')",
        "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r",
        "with recursive r(n) as (select 1 union all select n + 1 from r where n < 400)"
        " select count(*) from r where instr(hex(zeroblob(120000 + n - n)), hex(zeroblob(60000))||'1') = 0",
        "select printf('%.*c', 2000000000, 'x')",
        "select replace(hex(zeroblob(120000)), '0', hex(zeroblob(120000)))",
        "select hex(zeroblob(120000)) like '%0%0%0%0%0%0%0%0%0%0%0%1'",
    ],
)
def test_a_query_ends_with_its_time_and_its_memory_whatever_it_computes(
    text: str, engine: MontyEngine, tmp_path: Path
) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as made:
        made.execute("create table t (a)")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with suppress(ScriptError):  # a short one may have its answer
        ran(engine, f"return sql.query('main', {text!r})", {"sql": {"main": str(file)}}, ScriptLimits(host_seconds=1.0))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 0.5, "the ledger's process does not compute it"
    assert [each for each in threading.enumerate() if each.name.startswith("readback-look")] == []


@pytest.mark.requirement("SEC-scripts-apart")
def test_a_query_shows_the_schema_by_the_pragmas_that_only_look(engine: MontyEngine, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as made:
        made.execute("create table t (a, b)")
    allow = {"sql": {"main": str(file)}}
    assert ran(engine, "return [r['name'] for r in sql.query('main', 'pragma table_info(t)')]", allow).value == [
        "a",
        "b",
    ]
    assert ran(engine, "return sql.query('main', 'select 1.5 as x, null as y')", allow).value == [{"x": 1.5, "y": None}]


def test_time_hashes_and_patterns_are_there(engine: MontyEngine) -> None:
    body = "return [time.now_us(), time.now(), hash.sha256('a')[:8], re.match('a+', 'aab').group(0)]"
    assert ran(engine, body, {}).value == [1_700_000_000_500_000, 1_700_000_000.5, "ca978112", "aa"]


def test_what_a_host_call_brings_is_bounded(engine: MontyEngine, tmp_path: Path) -> None:
    (tmp_path / "big").write_text("x" * 5_000)
    limits = ScriptLimits(body_bytes=1_000)
    with pytest.raises(ScriptError, match="over 1000 bytes"):
        ran(engine, "return fs.read('big')", {"fs": [str(tmp_path)]}, limits)


@pytest.mark.parametrize(
    "allow",
    [{"https": []}, {"http": "http://h"}, {"http": ["h"]}, {"http": ["ftp://h/"]}, {"http": ["http://u:p@h/"]},
     {"http": ["http://h/?q"]}, {"fs": ["relative"]}, {"fs": [5]}, {"sql": []}, {"sql": {"a": "relative"}}],
)  # fmt: skip
def test_an_allow_list_that_is_not_understood_is_refused(allow: dict[str, Any]) -> None:
    with pytest.raises(ContractFieldError):
        ScriptPermissions.of(allow)


# --- the process ---


def test_a_hostile_verifier_costs_one_verification_and_the_process_goes_on(desk: Desk) -> None:
    before = os.getpid(), threading.active_count()
    with opened() as client:
        for body in HOSTILE.values():
            desk.turns.clear()
            sent = desk.delegation(verify=f"def run(result):\n{body}\n", limits=ScriptLimits(0.05, host_calls=3))
            with pytest.raises(ScriptError):
                sent.run(client, TASK)
            sent.close()
            assert len(desk.turns) == 1
    assert (os.getpid(), threading.active_count()) == before


@pytest.mark.slow
def test_no_worker_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from readback.bootstrap import script_engine\n"
        "from readback.domain.contract.script_permissions import ScriptPermissions as Allowance, ScriptLimits\n"
        "e = script_engine(lambda: 0)\n"
        "s = e.compile('def run(r):\\n    return True\\n', 'v', entry='run', takes=1, allow=Allowance(), "
        "limits=ScriptLimits())\n"
        "print(s.run([{}]).value, flush=True)\n"
        "children = open(f'/proc/self/task/{os.getpid()}/children').read().split()\n"
        "print(*children, flush=True)\n"
        "os._exit(0) if sys.argv[1] == 'hard' else None\n"
    )
    for way in ("soft", "hard"):
        done = subprocess.run(
            [sys.executable, "-c", program, way], capture_output=True, text=True, check=True, timeout=60
        )
        said, children = done.stdout.splitlines()
        assert said == "True"
        for child in children.split():
            path = Path(f"/proc/{child}/status")
            for _ in range(2_000):
                if not path.exists() or "State:\tZ" in path.read_text():
                    break
                threading.Event().wait(0.005)
            else:
                raise AssertionError(f"the worker {child} is still there")


def test_without_what_runs_scripts_the_delegate_is_not_sent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with opened() as client, pytest.raises(SettingsError, match=r"readback-ai\[scripts\]"):
        desk.delegation(verify=EXISTS).run(client, TASK)
    assert not desk.turns


@pytest.mark.parametrize("text", ["1.000000000000000001", "9007199254740993.0", "1e400", '["x 1.5", 1e-999]'])
def test_a_script_is_given_no_number_that_its_floats_round(engine: MontyEngine, text: str) -> None:
    with pytest.raises(ScriptError, match="round"):
        ran(engine, f"return json.decode({text!r}, default=None)", {})
    with pytest.raises(ScriptError, match="round"):
        ran(engine, f"return json.loads({text!r})", {})


def test_a_script_reads_every_number_that_a_float_keeps(engine: MontyEngine) -> None:
    text = '{"a": 0.30000000000000004, "b": 1E5, "c": [100000000000000000001, -0, 3e-7], "1.000000000000000001": 1}'
    found = ran(engine, f"return json.loads({text!r})", {}).value
    assert found == json.loads(text)


def test_a_value_with_a_number_that_a_script_would_round_is_not_handed_to_it(engine: MontyEngine) -> None:
    script = engine.compile(
        "def run(result):\n    return result",
        "verify",
        entry="run",
        takes=1,
        allow=ScriptPermissions.of({}),
        limits=ScriptLimits(),
    )
    with pytest.raises(ScriptError, match="floats round"):
        script.run([{"n": [ExactNumber("1.000000000000000001")]}])


FORKED = """\
import os, sys
from readback import Readback, Turn, delegation

def writer():
    @delegation(name="w", verify="def run(result):\\n    return True\\n", within="1s", late_window="2s")
    def w(turn: Turn) -> str:
        return "x"
    return w

ready = writer()
with Readback.open("sqlite:///parent.db", tenant="acme", principal="p") as rb:
    print("parent", ready.run(rb, "t", operation="a").passed, flush=True)
child = os.fork()
if child == 0:
    for one in (lambda: ready, writer):
        try:
            with Readback.open("sqlite:///child.db", tenant="acme", principal="p") as rb:
                print("child", one().run(rb, "t", operation=repr(one), wait=0).passed, flush=True)
        except Exception as error:
            print("child", error.code, flush=True)
    sys.exit(0)
print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
with Readback.open("sqlite:///parent.db", tenant="acme", principal="p") as rb:
    print("parent", writer().run(rb, "t", operation="b").passed, flush=True)
"""


@pytest.mark.requirement("SEC-fork")
def test_the_child_of_a_fork_is_refused_by_name_and_waits_for_no_thread(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == [
        "parent True",
        "child delegation.scripts-forked",
        "child delegation.scripts-forked",
        "ended 0",
        "parent True",
    ], done.stderr


class Folded(BaseHTTPRequestHandler):
    """Answers with what it was asked by, or with a bomb."""

    def do_GET(self) -> None:
        body = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(200)
        if self.path.startswith("/api/bomb"):
            coding = self.path.rpartition("/")[2]
            body = gzip.compress(bytes(40_000_000)) if coding == "gzip" else zlib.compress(bytes(40_000_000))
            self.send_header("Content-Encoding", coding)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def folded() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Folded) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/api/"
        server.shutdown()
        serving.join()


@pytest.mark.requirement("SEC-scripts-apart")
@pytest.mark.parametrize(
    "name",
    ["Host", "host", "X-HTTP-Method-Override", "X_HTTP_Method_Override", "x-method-override", "X-HTTP-Method",
     "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Expect", "TE", "X-Forwarded-Host",
     "X-Original-URL", "Proxy-Authorization", "Accept-Encoding", "bad name", "bad\nname", ""],
)  # fmt: skip
def test_a_script_s_look_says_neither_where_it_goes_nor_how_nor_how_long_it_is(
    name: str, engine: MontyEngine, folded: str
) -> None:
    for call in ("get", "head"):
        with pytest.raises(ScriptError, match=r"PermissionError|no header can say"):
            ran(engine, f"return http.{call}({folded + 'x'!r}, headers={{{name!r}: 'x'}})", {"http": [folded]})
    with pytest.raises(ScriptError):
        ran(engine, f"return http.get({folded + 'x'!r}, headers={{'X-A': 'a\\r\\nHost: b'}})", {"http": [folded]})


@pytest.mark.requirement("SEC-scripts-apart")
def test_a_script_s_own_headers_are_sent_beside_ours(engine: MontyEngine, folded: str) -> None:
    asked = f"return json.decode(http.get({folded + 'x'!r}, headers={{'X-Tenant': 'acme', 'Accept': 'a/b'}})['body'])"
    sent = ran(engine, asked, {"http": [folded]}).value
    assert isinstance(sent, dict)
    assert (sent["x-tenant"], sent["accept"], sent["accept-encoding"]) == ("acme", "a/b", "identity")
    assert sent["host"] == folded.split("/")[2]
    assert "content-length" not in sent


@pytest.mark.requirement("SEC-peer-limits")
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_an_answer_is_unfolded_no_further_than_to_its_limit(coding: str, engine: MontyEngine, folded: str) -> None:
    url = folded + "bomb/" + coding.replace(", ", ",")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = ran(engine, f"a = http.get({url!r}); return [a['status'], len(a['body'])]", {"http": [folded]})
    assert isinstance(answer.value, list)
    status, size = answer.value
    assert (status, size) in ((200, ScriptLimits().body_bytes), (0, 0))
    assert (status == 200) is (coding in ("gzip", "deflate"))
    assert answer.failed, "a part of an answer says nothing of the rest"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 120_000
