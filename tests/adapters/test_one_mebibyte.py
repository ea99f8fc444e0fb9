"""An input of one mebibyte to any parser, reader or executor takes little time of the processor and little memory.

Time is that of the thread alone, the least of some runs, so that a busy machine changes nothing. Parsers run on the
event loop, and are held to both limits. Readers and executors run in threads, and are held to the memory.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from readback.canon import NumberTooLargeError, ReadbackError, json_value, parse_json, payload_bytes, stored_bytes
from readback.contracts.files.document import read_document
from readback.domain.context import Context
from readback.domain.verification.observation_signs import one_line, without_credentials
from readback.domain.verification.reading import Reading
from readback.engine.values.redaction import Redactor
from readback.systems.command.executor import CommandExecutor
from readback.systems.command.source import CommandSource
from readback.systems.configured.executors import EXECUTORS
from readback.systems.configured.settings import Credentials
from readback.systems.configured.sources import SOURCES
from readback.systems.files.executor import FileExecutor
from readback.systems.files.source import FileSource
from readback.systems.git.source import GitSource
from readback.systems.http.executor import HttpExecutor
from readback.systems.http.source import HttpSource
from readback.systems.mail.executor import SmtpExecutor
from readback.systems.mail.source import ImapSource
from readback.systems.sql.executor import SqlExecutor
from readback.systems.sql.source import SqlSource
from readback.systems.tables.source import TablesSource

pytestmark = [pytest.mark.slow, pytest.mark.requirement("SEC-one-mebibyte")]
MIB = 1_048_576
SIZE = MIB - 100
MEMORY_MAX = 64 * MIB
SECONDS_MAX = 0.1
RUNS = 5
LOOP_TURNS = 200_000
LOOP_SECONDS = 0.0055
"""The time of a plain loop of so many turns on the processor that the limit of seconds is stated for."""
CTX = Context("a-1", "acme", "agent:ops", "op", "t/x", "key-1", "stamp-1")


def memory(call: Callable[[], object]) -> int:
    """The most that is held at once while it runs, errors of ours included: a refusal is an answer."""
    tracemalloc.start()
    try:
        with suppress(ReadbackError):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def seconds(call: Callable[[], object]) -> float:
    """Return this thread's time on the processor, in seconds of a processor with a loop of `LOOP_SECONDS`.

    A virtual processor can be half as fast on another day. A plain loop beside each run measures its speed.
    """
    least = loop = float("inf")
    for _ in range(RUNS):
        began = time.thread_time()
        with suppress(ReadbackError):
            call()
        between = time.thread_time()
        _loop()
        least, loop = min(least, between - began), min(loop, time.thread_time() - between)
    return least / max(1.0, loop / LOOP_SECONDS)


def _loop() -> int:
    total = 0
    for each in range(LOOP_TURNS):
        total += each & 7
    return total


# --- parsers ----------------------------------------------------------------------------------------------------

TEXTS: dict[str, str] = {
    "letters": "a" * SIZE,
    "percent": "%41" * (SIZE // 3),
    "escapes": "\\u0041" * (SIZE // 6),
    "entities": "&amp;" * (SIZE // 5),
    "quoted-printable": "=41" * (SIZE // 3),
    "base 64": b64encode(b"q" * (SIZE // 4 * 3)).decode(),
    "words": "ab cdefgh12 " * (SIZE // 12),
    "addresses": "http://u:p@h/?key=v " * (SIZE // 20),
    "named": "password: x " * (SIZE // 12),
    "cut": "a" * SIZE + "\u2026",
    "nulls": "\0" * SIZE,
    "marks": "e\u0301" * (SIZE // 3),
    "marks of several classes": "e" + "\u0301\u0327" * (SIZE // 4 - 1),
    "marks in one character": "e" + "\u0f73" * (SIZE // 3 - 1),
}
BODIES: dict[str, bytes] = {
    "a text": json.dumps("x" * SIZE).encode(),
    "numbers": ("[" + ",".join(["1.5"] * (SIZE // 4)) + "]").encode(),
    "long numbers": ("[" + ",".join(["1" * 300] * (SIZE // 301)) + "]").encode(),
    "one number": b"9" * SIZE,
    "doubles": ("[" + ",".join(repr(0.1 + at / 7e6) for at in range(SIZE // 21)) + "]").encode(),
    "decimals": ("[" + ",".join(f"0.{at:020d}" for at in range(SIZE // 24)) + "]").encode(),
    "exponents": ("[" + ",".join(["1e308"] * (SIZE // 6)) + "]").encode(),
    "deep": b"[" * (SIZE // 2) + b"]" * (SIZE // 2),
    "fields": ("{" + ",".join(f'"k{at}":{at}' for at in range(SIZE // 16)) + "}").encode(),
    "escaped": ('"' + "\\u0041" * (SIZE // 6) + '"').encode(),
}


def _secrecy() -> Redactor:
    made = Redactor(("requested.card",))
    made.learn({"card": "s3cr3t-value-4111"}, "requested")
    return made


ON_TEXTS: dict[str, Callable[[str], object]] = {
    "one line": one_line,
    "guessed credentials": lambda text: without_credentials(text[:4_096]),
    "redaction of a sentence": lambda text: _secrecy().text(text),
    "redaction of a payload": lambda text: _secrecy().hide({"a": text}, "observed"),
    "redaction of many texts": lambda text: _secrecy().hide(
        [text[at : at + 512] for at in range(0, len(text), 512)], "observed"
    ),
    "a redacted value": lambda text: _learned(text).text("declined: " + text[:2_000] + "\u2026"),
    "a redacted value in itself": lambda text: _learned(text).hide({"a": text}, "observed"),
    "a reading": lambda text: Reading.of({"a": text}),
    "kept bytes": lambda text: stored_bytes({"a": text}),
    "hashed bytes": lambda text: payload_bytes({"a": text}),
}


def _learned(text: str) -> Redactor:
    made = Redactor(("requested.card",))
    made.learn({"card": text}, "requested")
    return made


@pytest.mark.parametrize("text", [*TEXTS])
@pytest.mark.parametrize("name", [*ON_TEXTS])
def test_a_text_of_a_mebibyte_is_over_soon_and_takes_little(name: str, text: str) -> None:
    def call() -> object:
        return ON_TEXTS[name](TEXTS[text])

    assert seconds(call) < SECONDS_MAX
    assert memory(call) < MEMORY_MAX


@pytest.mark.parametrize("text", [*TEXTS])
def test_credentials_are_looked_for_in_a_mebibyte_within_little_memory(text: str) -> None:
    """In a reader's thread, where the event loop goes on."""
    known = Credentials(["Bearer s3cr3t-value-4111"])
    assert memory(lambda: known.text(TEXTS[text])) < MEMORY_MAX
    assert seconds(lambda: known.text(TEXTS[text])) < 5 * SECONDS_MAX


@pytest.mark.parametrize("body", [*BODIES])
def test_json_of_a_mebibyte_is_parsed_soon(body: str) -> None:
    def call() -> object:
        return json_value(parse_json(BODIES[body]))

    assert seconds(lambda: parse_json(BODIES[body])) < SECONDS_MAX
    assert memory(call) < MEMORY_MAX


def test_doubles_of_a_large_text_are_exact_and_too_many_other_numbers_are_refused() -> None:
    found = parse_json(BODIES["doubles"])
    assert isinstance(found, list)
    assert found == [0.1 + at / 7e6 for at in range(SIZE // 21)]
    with pytest.raises(NumberTooLargeError):
        parse_json(BODIES["decimals"])


# --- readers ----------------------------------------------------------------------------------------------------


class Site(BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(type(self).body)))
        self.end_headers()
        self.wfile.write(type(self).body)

    def do_POST(self) -> None:
        left = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read(min(left, 65_536)))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def http(site: str, body: bytes) -> object:
    Site.body = body
    with HttpSource("s", site) as source:
        return source.get(CTX, "/x")


def imap(body: bytes) -> object:
    """One message of that size."""
    head = b"X-Readback-Stamp: stamp-1\r\nFrom: a@x\r\nTo: b@x\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                line.sendall(b"* OK hi\r\n")
                for said in line.makefile("rb"):
                    tag, command = said.rstrip().split(b" ", 1)
                    up = command.upper()
                    if up.startswith(b"CAPABILITY"):
                        line.sendall(b"* CAPABILITY IMAP4rev1\r\n")
                    elif b"SEARCH" in up:
                        line.sendall(b"* SEARCH 1\r\n")
                    elif b"HEADER" in up:
                        line.sendall(
                            b"* 1 FETCH (UID 1 RFC822.SIZE 9 BODY[HEADER]<0> {%d}\r\n%s)\r\n" % (len(head), head)
                        )
                    elif b"FETCH" in up:
                        line.sendall(b"* 1 FETCH (UID 1 BODY[] {%d}\r\n%s)\r\n" % (len(head + body), head + body))
                    line.sendall(tag + b" OK done\r\n")
                    if up.startswith(b"LOGOUT"):
                        return

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        box = ImapSource(
            "box", "127.0.0.1", listening.getsockname()[1], user="b", password="p-secret", proves="delivered",
            security="none", timeout_s=20,
        )  # fmt: skip
        found = box.by_stamp(CTX)
        serving.join(5)
        return found


def sql(folder: Path, text: str) -> object:
    path = folder / "a.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table if not exists t (x)")
        made.execute("delete from t")
        made.execute("insert into t values (?)", (text,))
        made.commit()
    SqlSource("s", lambda: sqlite3.connect(path, check_same_thread=False)).one("select x from t")
    return TablesSource("s", path).state(f"insert into t values ('{text.replace(chr(39), '')}')")


def files(folder: Path, text: str) -> object:
    (folder / "a.txt").write_text(text, encoding="utf-8")
    source = FileSource("s", folder)
    return source.stat("a.txt"), source.text("a.txt"), source.lines("a.txt"), source.tree()


def git(folder: Path, text: str) -> object:
    run = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@x.example"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    (folder / "a.txt").write_text(text, encoding="utf-8")
    subprocess.run([*run, "add", "a.txt"], check=True)
    subprocess.run([*run, "commit", "-q", "--allow-empty", "-F", "a.txt"], check=False)
    source = GitSource("s", str(folder))
    return source.commit("main"), source.blob("main", "a.txt"), source.status()


def command(folder: Path, body: bytes) -> object:
    (folder / "out").write_bytes(body)
    return CommandSource("s", cwd=str(folder)).read(CTX, [sys.executable, "-c", "print(open('out').read())"])


READERS: dict[str, Callable[[Path, str], object]] = {
    "http": lambda folder, site: [http(site, body) for body in BODIES.values()],
    "imap": lambda folder, site: [
        imap(body) for body in (b"x" * SIZE, b"x\r\n" * (SIZE // 3), b"Received: a\r\n" * (SIZE // 13) + b"\r\n")
    ],
    "sql": lambda folder, site: [sql(folder, TEXTS[name]) for name in ("letters", "marks")],
    "tables": lambda folder, site: sql(folder, TEXTS["words"]),
    "file": lambda folder, site: [files(folder, TEXTS[name]) for name in ("letters", "words", "marks")],
    "git": lambda folder, site: git(folder, TEXTS["words"]),
    "command": lambda folder, site: [command(folder, BODIES[name]) for name in ("a text", "numbers", "deep")],
}
NOT_READ = {"s3": "the head of an object alone, or its bytes within a limit that test_source_s3 holds"}


def test_every_reader_is_measured() -> None:
    assert READERS.keys() | NOT_READ.keys() == SOURCES.keys()


@pytest.mark.parametrize("name", [*READERS])
def test_a_reader_takes_little_memory_for_a_mebibyte(name: str, site: str, tmp_path: Path) -> None:
    assert memory(lambda: READERS[name](tmp_path, site)) < MEMORY_MAX


# --- executors --------------------------------------------------------------------------------------------------


def smtp(text: str) -> object:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                line.sendall(b"220 hi\r\n")
                data = False
                for said in line.makefile("rb"):
                    if data and said != b".\r\n":
                        continue
                    data = said.lower().startswith(b"data")
                    line.sendall(b"354 go\r\n" if data else b"250 ok\r\n")
                    if said.lower().startswith(b"quit"):
                        return

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        post = SmtpExecutor("p", "127.0.0.1", listening.getsockname()[1], security="none", timeout_s=20)
        said = post.send(CTX, sender="a@x.example", to=["b@x.example"], subject="s", text=text)
        serving.join(5)
        return said


def sql_written(folder: Path, text: str) -> object:
    path = folder / "w.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table if not exists t (x)")
    executor = SqlExecutor("w", lambda: sqlite3.connect(path, check_same_thread=False))
    return executor.execute(CTX, "insert into t values (?)", (text,))


def posted(site: str, text: str) -> object:
    Site.body = b"{}"
    with HttpExecutor(site) as executor:
        return executor.post(CTX, "/x", json={"text": text})


WRITERS: dict[str, Callable[[Path, str], object]] = {
    "http": lambda folder, site: posted(site, TEXTS["words"]),
    "sql": lambda folder, site: sql_written(folder, TEXTS["words"]),
    "smtp": lambda folder, site: [smtp(TEXTS[name]) for name in ("letters", "words", "marks")],
    "file": lambda folder, site: FileExecutor(folder).write_text(CTX, "b.txt", TEXTS["words"]),
    "command": lambda folder, site: CommandExecutor(cwd=str(folder)).run(
        CTX, [sys.executable, "-c", f"print('x' * {SIZE})"]
    ),
}
NOT_WRITTEN = {"agent": "its result is bounded by the command's, which is measured"}


def test_every_executor_is_measured() -> None:
    assert WRITERS.keys() | NOT_WRITTEN.keys() == EXECUTORS.keys()


@pytest.mark.parametrize("name", [*WRITERS])
def test_an_executor_takes_little_memory_for_a_mebibyte(name: str, site: str, tmp_path: Path) -> None:
    assert memory(lambda: WRITERS[name](tmp_path, site)) < MEMORY_MAX


def test_a_contract_file_of_a_mebibyte_is_refused_or_read_within_little_memory() -> None:
    for text in ("a: " + "x" * SIZE, "[" * SIZE, "a: &a [*a]\n" * (SIZE // 11), "- a\n" * (SIZE // 4)):
        assert memory(lambda text=text: read_document(text.encode())) < MEMORY_MAX
