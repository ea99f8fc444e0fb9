"""A server of several processes: connections are shared out, a dead process is replaced, and all end together."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from readback.server import processes
from readback.server.access.tokens import TokenFile
from tests.console.bed import Browser
from tests.server.bed import EVERY_RIGHT, NOW_US

pytestmark = [pytest.mark.requirement("SERVER-processes"), pytest.mark.slow]
COUNT = 3
WAIT = {"Prefer": "wait=30"}


@dataclass
class Several:
    """A running server, its first process, its token, and the folder of notes."""

    url: str
    first: subprocess.Popen[bytes]
    token: str
    folder: Path

    def client(self) -> httpx.Client:
        """A client with connections of its own."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)

    def browser(self) -> Browser:
        client = httpx.Client(base_url=self.url, timeout=60, trust_env=False, limits=httpx.Limits(max_connections=1))
        return Browser(client)

    def calls(self, kind: str = "") -> Counter[str]:
        return Counter((self.folder / f"note-{kind}calls").read_text().split())


@contextmanager
def several(folder: Path, ledger: str = "") -> Iterator[Several]:
    """`readback serve --processes`, until the end of the block. `ledger`: the URL, else a file in the folder."""
    tokens = TokenFile(folder / "tokens.json")
    token, _ = tokens.create(tenant="acme", principal="agent:a", rights=EVERY_RIGHT, now_us=NOW_US)
    command = [
        sys.executable, "-m", "readback", "serve", "--port", "0", "--json", "--processes", str(COUNT),
        "--contracts", "tests.server.process_contracts", "--tokens", str(folder / "tokens.json"),
        "--url", ledger or f"sqlite:///{folder / 'ledger.db'}",
    ]  # fmt: skip
    environment = {**os.environ, "PROCESSES_PLACE": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as first:
        assert first.stdout is not None
        text = ""
        for line in first.stdout:
            text += line.decode()
            if text.rstrip().endswith("}"):
                break
        try:
            yield Several(json.loads(text)["url"], first, token, folder)
        finally:
            first.terminate()
            first.communicate(timeout=60)


def run(client: httpx.Client, name: str, *, test: bool = False) -> dict[str, object]:
    body = {"contract": "write", "arguments": {"name": name}, "test": test}
    answer = client.post("/v1/actions", json=body, headers={"Idempotency-Key": name, **WAIT})
    assert answer.status_code in (200, 202), answer.text
    found: dict[str, object] = answer.json()
    return found


def until_there(server: Several, path: Path) -> None:
    """Ask the server for its health until a file with content is there."""
    with server.client() as client:
        while not (path.exists() and path.read_text()):
            client.get("/healthz")


def process_of(answer: dict[str, object]) -> int:
    """The process that made the effect, by the system of record."""
    assert answer["verified"], answer
    read = answer["authoritative"]
    assert isinstance(read, dict)
    return int(read["process"])


def test_connections_are_shared_out_in_turn(tmp_path: Path) -> None:
    with several(tmp_path) as server, ExitStack() as clients:
        names = [f"n{number}" for number in range(2 * COUNT)]
        found = [process_of(run(clients.enter_context(server.client()), name)) for name in names]
        assert Counter(found) == dict.fromkeys(found, 2)
        assert len(set(found)) == COUNT
        assert server.first.pid not in found


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest) -> str:
    """The URL of an empty ledger; "" for a file."""
    return str(request.getfixturevalue("ledger_url")) if request.param == "postgresql" else ""


def test_a_dead_process_is_replaced_and_no_effect_is_doubled(tmp_path: Path, ledger: str) -> None:
    with several(tmp_path, ledger) as server, server.client() as client:
        victim = process_of(run(client, "before"))
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(run, client, "slow-1")
            until_there(server, tmp_path / "note-slow-1")
            os.kill(int((tmp_path / "note-slow-1").read_text()), signal.SIGKILL)
            with pytest.raises(httpx.TransportError):
                pending.result()
        (tmp_path / "note-go").touch()
        with ExitStack() as clients:
            found = [process_of(run(clients.enter_context(server.client()), f"after-{n}")) for n in range(3 * COUNT)]
        assert victim not in found
        assert len(set(found)) >= COUNT - 1
        with server.client() as other:
            assert process_of(run(other, "slow-1")) == victim
        assert server.calls()["slow-1"] == 1


def test_all_processes_end_at_a_signal_after_their_requests_and_leave_nothing_behind(tmp_path: Path) -> None:
    with several(tmp_path) as server, ThreadPoolExecutor(1) as pool:
        assert [each.name for each in tmp_path.glob("readback-serve-*")]
        with server.client() as client:
            pending = pool.submit(run, client, "slow-1")
            until_there(server, tmp_path / "note-slow-1")
            server.first.send_signal(signal.SIGTERM)
            answer = pending.result()
            assert answer["state"] != "failed"
            assert not answer["verified"]
        (tmp_path / "note-go").touch()
        assert server.first.wait(60) == 0
        assert not [*tmp_path.glob("readback-serve-*")]
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "note-slow-1").read_text()), 0)


def test_the_others_end_when_the_first_process_is_killed(tmp_path: Path) -> None:
    with several(tmp_path) as server, server.client() as client:
        process = process_of(run(client, "one"))
        descriptor = os.pidfd_open(process)
        try:
            server.first.kill()
            assert select.select([descriptor], [], [], 60)[0]  # the end of the process makes the descriptor readable
        finally:
            os.close(descriptor)


def pages(server: Several, browser: Browser) -> list[httpx.Response]:
    """The first page as the same browser gets it on new connections, which reach every process."""
    found = []
    for _ in range(COUNT):
        with server.browser().client as client:
            client.cookies = browser.client.cookies
            found.append(client.get("/"))
    return found


def test_a_session_counts_in_every_process_until_the_sign_out(tmp_path: Path) -> None:
    with several(tmp_path) as server:
        browser, elsewhere = server.browser(), server.browser()
        with browser.client, elsewhere.client:
            for each in (browser, elsewhere):
                each.client.post("/sign-in", data={"token": server.token}, headers={"Origin": server.url})
            assert {each.status_code for each in pages(server, browser)} == {200}
            browser.send("/preferences", browser.get("/"), zone="Europe/Riga")
            assert all("Europe/Riga" in each.text for each in pages(server, browser))
            browser.send("/sign-out", browser.get("/"))
            assert {each.status_code for each in pages(server, browser)} == {303}
            assert {each.status_code for each in pages(server, elsewhere)} == {200}


def test_signing_out_everywhere_ends_the_sessions_of_the_same_token_alone(tmp_path: Path) -> None:
    with several(tmp_path) as server:
        browser, elsewhere, another = server.browser(), server.browser(), server.browser()
        tokens = TokenFile(tmp_path / "tokens.json")
        token, _ = tokens.create(tenant="acme", principal="person:bo", rights=EVERY_RIGHT, now_us=NOW_US)
        with browser.client, elsewhere.client, another.client:
            for each, used in ((browser, server.token), (elsewhere, server.token), (another, token)):
                each.client.post("/sign-in", data={"token": used}, headers={"Origin": server.url})
            browser.send("/sign-out", browser.get("/"), everywhere="1")
            for each, status in ((browser, 303), (elsewhere, 303), (another, 200)):
                assert {found.status_code for found in pages(server, each)} == {status}


def test_tests_of_all_processes_have_one_ledger(tmp_path: Path) -> None:
    with several(tmp_path) as server:
        with server.client() as client:
            made = run(client, "one", test=True)
        for _ in range(COUNT):
            with server.client() as client:
                found = client.get(f"/v1/actions/{made['id']}", params={"test": "true"})
                assert (found.status_code, found.json()["verified"]) == (200, True)
        assert server.calls("_test_") == {"one": 1}
        assert not (tmp_path / "note-one").exists()


def test_a_fault_at_the_start_is_shown_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "readback", "serve", "--port", "0", "--processes", "3", "--without-tokens"]
    (tmp_path / "faulty.py").write_text("1 / 0\n")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [*command, "--contracts", "faulty", "--url", f"sqlite:///{tmp_path / 'l.db'}"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 5
    assert ended.stderr.count("ZeroDivisionError") == 1
    assert not [*tmp_path.glob("readback-serve-*")]
    memory = subprocess.run([*command, "--url", "memory:"], capture_output=True, text=True, check=False)
    assert memory.returncode == 5
    assert "cannot share a ledger in memory" in memory.stderr


def test_a_new_process_leaves_the_signals_of_the_first_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    (woken, wakes), (listener, channel) = socket.socketpair(), socket.socketpair()
    with woken, wakes, listener, channel:
        wakes.send(bytes([signal.SIGTERM]))
        divider = processes._Divider(listener, 2, lambda: None, woken)
        monkeypatch.setattr(divider, "_fork", lambda: None)
        monkeypatch.setattr(divider, "_hear", lambda child: channel)  # as in a process forked by this event
        events = [SimpleNamespace(fileobj=channel, data=None), SimpleNamespace(fileobj=woken, data=None)]
        with divider._selector:
            monkeypatch.setattr(divider._selector, "select", lambda: [(each, 0) for each in events])
            assert divider.run() is channel
        assert woken.recv(1) == bytes([signal.SIGTERM])


def test_the_file_of_sessions_holds_neither_token_nor_cookie(tmp_path: Path) -> None:
    with several(tmp_path) as server:
        browser = server.browser()
        browser.client.post("/sign-in", data={"token": server.token, "back": "/"}, headers={"Origin": server.url})
        (folder,) = tmp_path.glob("readback-serve-*")
        assert folder.stat().st_mode & 0o077 == 0
        stored = (folder / "sessions.db").read_bytes()
        (cookie,) = browser.client.cookies.values()
        assert cookie.encode() not in stored
        assert server.token.encode() not in stored
        with sqlite3.connect(folder / "sessions.db") as rows:
            assert rows.execute("SELECT count(*) FROM session").fetchone() == (1,)
        rows.close()
        browser.client.close()
