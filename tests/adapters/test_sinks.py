"""Where messages go: a real command, a real HTTP server, files and callables; what counts as taken, and what ends."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import Any

import pytest

from readback import bootstrap
from readback.adapters.sinks.callable import CallableSink
from readback.adapters.sinks.command import CommandSink
from readback.adapters.sinks.file import FileSink
from readback.adapters.sinks.webhook import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIME_HEADER,
    WebhookSink,
    secret_bytes,
    signature,
)
from readback.domain.records.message import MEDIA, Message
from readback.domain.records.subscriber import Subscriber
from readback.errors import SettingsError, SinkError
from readback.ports.sink import Sink
from readback.testing.conformance.sink import SinkConformance, sample_message
from readback.testing.runtime_virtual import VirtualRuntime
from tests.adapters.web import Said, Web, serving

MESSAGE = sample_message()
SECRET = b"not-to-be-seen-anywhere!"
NOW_US = 1_767_268_800_000_000
PATIENT_S = 60.0
"""A limit that no test reaches, however busy the machine is."""


@pytest.fixture(autouse=True)
def no_thread_is_left_over() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for each in set(threading.enumerate()) - before:
        each.join(PATIENT_S)  # the server's own threads end a moment after it
        assert not each.is_alive(), each


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as one:
        yield one


def webhook(web: Web, timeout_s: float = PATIENT_S) -> WebhookSink:
    return WebhookSink(f"{web.url}/hook", SECRET, now_us=lambda: NOW_US, timeout_s=timeout_s)


# --- the conformance suite ----------------------------------------------------------------------------------------


class TestWebhookSink(SinkConformance):
    @pytest.fixture(autouse=True)
    def receiver(self, web: Web) -> None:
        self.web = web
        self.allow()

    def make_sink(self) -> Sink:
        return webhook(self.web)

    def received(self) -> list[dict[str, object]]:
        return [json.loads(each.body) for each in self.web.asked if each.path == "/hook"][self.refused :]

    def refuse(self) -> None:
        self.web.answers["/hook"] = Said(503)
        self.refused = 1

    def allow(self) -> None:
        self.refused = getattr(self, "refused", 0)
        self.web.answers["/hook"] = Said(204, b"")


class TestCommandSink(SinkConformance):
    @pytest.fixture(autouse=True)
    def receiver(self, tmp_path: Path) -> None:
        self.told, self.script = tmp_path / "told", tmp_path / "tell"
        self.allow()

    def make_sink(self) -> Sink:
        return CommandSink(["/bin/sh", str(self.script)], timeout_s=PATIENT_S)

    def received(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.told.read_text().splitlines()] if self.told.exists() else []

    def refuse(self) -> None:
        self.script.write_text("exit 1\n")

    def allow(self) -> None:
        self.script.write_text(f"cat >> {self.told}\n")


class TestFileSink(SinkConformance):
    @pytest.fixture(autouse=True)
    def receiver(self, tmp_path: Path) -> None:
        self.path = tmp_path / "told.jsonl"

    def make_sink(self) -> Sink:
        return FileSink(self.path)

    def received(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.is_file() else []

    def refuse(self) -> None:
        self.path.mkdir()

    def allow(self) -> None:
        self.path.rmdir()


class TestCallableSink(SinkConformance):
    @pytest.fixture(autouse=True)
    def receiver(self) -> None:
        self.told: list[Message] = []
        self.broken = False

    def make_sink(self) -> Sink:
        def tell(message: Message) -> None:
            if self.broken:
                raise RuntimeError("nobody home")
            self.told.append(message)

        return CallableSink(tell, timeout_s=PATIENT_S)

    def received(self) -> list[dict[str, object]]:
        return [dict(message.as_json()) for message in self.told]

    def refuse(self) -> None:
        self.broken = True

    def allow(self) -> None:
        self.broken = False


# --- webhooks -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLAIM-events")
def test_a_webhook_gets_a_cloud_event_signed_in_the_manner_of_standard_webhooks(web: Web) -> None:
    web.answers["/hook"] = Said(202)
    webhook(web).deliver(MESSAGE)
    [asked] = web.asked
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert headers["content-type"].split(";")[0] == MEDIA
    assert (headers[ID_HEADER], headers[TIME_HEADER]) == (MESSAGE.id, str(NOW_US // 10**6))
    signed = f"{MESSAGE.id}.{NOW_US // 10**6}.".encode() + asked.body
    assert headers[SIGNATURE_HEADER] == "v1," + base64.b64encode(digest(SECRET, signed, sha256)).decode()
    assert SECRET.decode() not in str(asked.headers) + asked.body.decode()


def test_the_signature_is_that_of_the_published_example() -> None:
    """The example of the Standard Webhooks reference libraries."""
    key = secret_bytes(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_another_secret_id_time_or_body_has_another_signature() -> None:
    signed = {
        signature(SECRET, "m-1", "1000", b"{}"),
        signature(b"x" * 24, "m-1", "1000", b"{}"),
        signature(SECRET, "m-2", "1000", b"{}"),
        signature(SECRET, "m-1", "1001", b"{}"),
        signature(SECRET, "m-1", "1000", b"[]"),
    }
    assert len(signed) == 5


@pytest.mark.parametrize(
    "said",
    [Said(500), Said(404), Said(302, headers={"Location": "/other"}), Said(drop=True), Said(101), Said(200, drop=True)],
)
def test_a_webhook_that_does_not_say_yes_has_not_taken_it(web: Web, said: Said) -> None:
    web.answers["/hook"], web.answers["/other"] = said, Said(200)
    with pytest.raises(SinkError) as refused:
        webhook(web).deliver(MESSAGE)
    assert not refused.value.details.get("final")
    assert [each.path for each in web.asked] == ["/hook"], "no redirect is followed"


@pytest.mark.parametrize("code", [400, 413, 415, 422])
def test_an_answer_that_says_never_is_final(web: Web, code: int) -> None:
    web.answers["/hook"] = Said(code)
    with pytest.raises(SinkError) as refused:
        webhook(web).deliver(MESSAGE)
    assert refused.value.details["final"] is True


@pytest.mark.parametrize(
    ("asked", "pause_s"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("99999999999", 86_400),
        ("Thu, 01 Jan 2026 12:02:00 GMT", 120),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0),
        ("soon", 0),
        ("-5", 0),
        ("Thu, 01 Jan 2026 12:02:00 -0000", 120),
        (f"Thu, 01 Jan {'9' * 30} 12:02:00 GMT", 0),
        ("Thu, 01 Jan 2026 12:02:00 +99999999999", 0),
        ("", 0),
    ],
)
def test_a_pause_that_the_receiver_asks_for_is_said(web: Web, asked: str, pause_s: int) -> None:
    web.answers["/hook"] = Said(429, headers={"Retry-After": asked})
    with pytest.raises(SinkError) as refused:
        webhook(web).deliver(MESSAGE)
    assert refused.value.details["retry_after_us"] == pause_s * 10**6


def test_a_webhook_that_hangs_or_is_not_there_has_not_taken_it(web: Web) -> None:
    web.answers["/hook"] = Said(hang=True)
    with pytest.raises(SinkError):
        webhook(web, timeout_s=0.05).deliver(MESSAGE)
    with pytest.raises(SinkError):
        WebhookSink("http://127.0.0.1:1/", SECRET, now_us=lambda: 1, timeout_s=PATIENT_S).deliver(MESSAGE)


def test_a_receiver_that_dribbles_its_answer_is_held_to_the_limit_as_a_whole() -> None:
    import socket

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def dribble() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not over.wait(0.01):
                    try:
                        connection.sendall(b"X-More: 1\r\n")
                    except OSError:
                        return

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/"
            with pytest.raises(SinkError):
                WebhookSink(url, SECRET, now_us=lambda: 1, timeout_s=0.2).deliver(MESSAGE)
        finally:
            over.set()
            thread.join()


def test_a_webhook_that_lets_nobody_in_is_broken_off_by_stop() -> None:
    """Its packets are dropped, as a firewall does: nothing is refused, and nothing is ever connected."""
    import socket

    with ExitStack() as opened:
        server = opened.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):  # more than it takes without accepting any
            filling = opened.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(server.getsockname())
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        sink, said = WebhookSink(url, SECRET, now_us=lambda: 1, timeout_s=PATIENT_S), []

        def deliver() -> None:
            with pytest.raises(SinkError) as refused:
                sink.deliver(MESSAGE)
            said.append(refused.value)

        thread = threading.Thread(target=deliver)
        thread.start()
        while sink._socket is None and thread.is_alive():
            threading.Event().wait(0.001)
        assert thread.is_alive(), "it can be shut before it is connected"
        sink.stop()
        thread.join()
        assert len(said) == 1


def test_a_webhook_that_hangs_is_broken_off_by_stop(web: Web) -> None:
    web.answers["/hook"] = Said(hang=True)
    sink, said = webhook(web), []

    def deliver() -> None:
        with pytest.raises(SinkError) as refused:
            sink.deliver(MESSAGE)
        said.append(refused.value)

    thread = threading.Thread(target=deliver)
    thread.start()
    while not web.asked and thread.is_alive():
        threading.Event().wait(0.001)
    sink.stop()
    thread.join()
    assert len(said) == 1


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("http://example.org/hook", SECRET),
        ("ftp://127.0.0.1/hook", SECRET),
        ("https://user:word@example.org/hook", SECRET),
        ("https:///hook", SECRET),
        ("https://example.org:port/hook", SECRET),
        ("https://[example.org/hook", SECRET),
        ("http://[::1", SECRET),
        ("https://example.org/h\N{LATIN SMALL LETTER O WITH DIAERESIS}ok", SECRET),
        ("", SECRET),
        ("https://example.org/hook", b"short"),
        ("https://example.org/hook", b"x" * 513),
        ("https://example.org/hook", b"whsec_no base64 at all!"),
        ("https://example.org/hook", b"whsec_c2hvcnQ="),
    ],
)
def test_a_webhook_that_could_leak_or_be_forged_is_refused(url: str, secret: bytes) -> None:
    with pytest.raises(SettingsError):
        WebhookSink(url, secret, now_us=lambda: 1, timeout_s=1)


# --- commands -----------------------------------------------------------------------------------------------------


def command(code: str, *more: str, timeout_s: float = PATIENT_S) -> CommandSink:
    return CommandSink([sys.executable, "-c", code, *more], timeout_s=timeout_s)


def test_a_command_gets_the_message_on_its_standard_input_and_nothing_of_it_as_an_argument(tmp_path: Path) -> None:
    said = tmp_path / "said.json"
    code = "import sys, json; json.dump([sys.argv[1:], json.load(sys.stdin)], open(sys.argv[1], 'w'))"
    command(code, str(said), "$(id)").deliver(MESSAGE)
    arguments, told = json.loads(said.read_text())
    assert arguments == [str(said), "$(id)"]
    assert told == MESSAGE.as_json()


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_a_command_that_fails_has_not_taken_it(code: str) -> None:
    with pytest.raises(SinkError, match="ended with"):
        command(code).deliver(MESSAGE)


def test_a_command_that_reads_nothing_and_ends_well_has_taken_it() -> None:
    command("pass").deliver(MESSAGE)


def test_a_command_that_cannot_be_started_has_not_taken_it(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="cannot be started"):
        CommandSink([str(tmp_path / "nothing")], timeout_s=1).deliver(MESSAGE)


@pytest.mark.parametrize("argv", [[], [""]])
def test_a_command_without_a_program_is_refused(argv: list[str]) -> None:
    with pytest.raises(SettingsError):
        CommandSink(argv, timeout_s=1)


@pytest.mark.parametrize("by_stop", [False, True])
def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path, by_stop: bool) -> None:
    note = tmp_path / "child"
    code = (
        "import subprocess, sys, threading, os;"
        "p = subprocess.Popen([sys.executable, '-c', 'import threading; threading.Event().wait()']);"
        "open(sys.argv[1] + '.new', 'w').write(str(p.pid)); os.rename(sys.argv[1] + '.new', sys.argv[1]);"
        "threading.Event().wait()"
    )
    sink = command(code, str(note), timeout_s=PATIENT_S if by_stop else 2)

    def stop() -> None:
        _until(note.exists)
        sink.stop()

    stopper = threading.Thread(target=stop)
    if by_stop:
        stopper.start()
    with pytest.raises(SinkError, match="ended with -9" if by_stop else "took over 2 s"):
        sink.deliver(MESSAGE)
    if by_stop:
        stopper.join()
    _until(lambda: not note.exists() or not _runs(int(note.read_text())))


def _until(said: Any) -> None:
    for _ in range(6_000):
        if said():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came")


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# --- files --------------------------------------------------------------------------------------------------------


def test_a_file_is_its_owners_alone_and_one_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    FileSink(path).deliver(MESSAGE)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o622)
    with pytest.raises(SinkError, match="others may write"):
        FileSink(path).deliver(MESSAGE)
    assert len(path.read_text().splitlines()) == 1


def test_a_line_that_was_torn_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    sink = FileSink(path)
    sink.deliver(MESSAGE)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    sink.deliver(MESSAGE)
    lines = path.read_bytes().splitlines()
    assert [lines[0], lines[2]] == [whole.strip()] * 2
    assert lines[1] == whole[:40]


def test_a_disk_that_fills_in_the_middle_of_a_line_has_not_taken_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "told.jsonl", os.write
    sink = FileSink(path)
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:30]))
    with pytest.raises(SinkError, match="no room"):
        sink.deliver(MESSAGE)
    monkeypatch.setattr(os, "write", write)
    sink.deliver(MESSAGE)
    assert json.loads(path.read_bytes().splitlines()[-1]) == MESSAGE.as_json()


def test_a_pipe_a_link_and_a_folder_that_is_not_there_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("pipe", "link", "no/such"):
        with pytest.raises(SinkError):
            FileSink(tmp_path / name).deliver(MESSAGE)
    assert not (tmp_path / "elsewhere").exists()


# --- callables ----------------------------------------------------------------------------------------------------


def test_a_callable_may_be_async() -> None:
    told: list[str] = []

    async def tell(message: Message) -> None:
        await asyncio.to_thread(told.append, message.id)

    CallableSink(tell, timeout_s=PATIENT_S).deliver(MESSAGE)
    assert told == [MESSAGE.id]


def test_a_callable_that_hangs_is_given_up_and_not_called_again_before_it_is_back() -> None:
    back, calls = threading.Event(), []

    def tell(message: Message) -> None:
        calls.append(message.id)
        back.wait()

    sink = CallableSink(tell, timeout_s=0.01)
    with pytest.raises(SinkError, match="took over"):
        sink.deliver(MESSAGE)
    with pytest.raises(SinkError, match="not back"):
        sink.deliver(MESSAGE)
    assert len(calls) == 1
    hung = sink._call
    back.set()
    assert hung is not None
    hung.join()
    CallableSink(tell, timeout_s=PATIENT_S).deliver(MESSAGE)


def test_a_callable_in_hand_is_given_up_by_stop() -> None:
    back, inside = threading.Event(), threading.Event()

    def tell(_message: Message) -> None:
        inside.set()
        back.wait()

    def stop() -> None:
        inside.wait()
        sink.stop()

    sink = CallableSink(tell, timeout_s=PATIENT_S)
    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(SinkError, match="given up"):
        sink.deliver(MESSAGE)
    stopper.join()
    back.set()
    assert sink._call is not None
    sink._call.join()


# --- how they are chosen --------------------------------------------------------------------------------------------


def test_a_subscriber_says_which_sink_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, secret = VirtualRuntime(), tmp_path / "secret"
    secret.write_bytes(SECRET + b"\n")
    monkeypatch.setenv("HOOK_SECRET", SECRET.decode())
    made = [
        Subscriber("a", webhook="https://example.org/h", secret=f"file:{secret}"),
        Subscriber("b", webhook="https://example.org/h", secret="env:HOOK_SECRET"),
        Subscriber("c", command=("true",)),
        Subscriber("d", file=str(tmp_path / "x")),
        Subscriber("e", tell=print),
    ]
    kinds = [type(bootstrap.sink(each, runtime)) for each in made]
    assert kinds == [WebhookSink, WebhookSink, CommandSink, FileSink, CallableSink]


@pytest.mark.parametrize("reference", ["hunter2", "env:", "env:NOT_THERE_AT_ALL", "file:/nowhere/at/all", "vault:x"])
def test_a_secret_is_a_reference_to_something_that_is_there(reference: str) -> None:
    assert "NOT_THERE_AT_ALL" not in os.environ
    with pytest.raises(SettingsError) as refused:
        bootstrap.sink(Subscriber("a", webhook="https://example.org/h", secret=reference), VirtualRuntime())
    assert "hunter2" not in str(refused.value)
