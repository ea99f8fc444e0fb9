"""Limits are ours, and never the peer's word: mail servers that never end, lie about sizes, break off and quote."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from readback.domain.context import Context
from readback.domain.verification.reading import Presence
from readback.errors import NotDispatchedError, ToolError, ToolTimeoutError
from readback.systems.mail.executor import SmtpExecutor
from readback.systems.mail.source import LINES_MAX_BYTES, ImapSource

Serve = Callable[[socket.socket], None]
CTX = Context("a-1", "acme", "agent:ops", "op", "mail/ana", "key-1", "stamp-1")
PASSWORD = "hunter2-sec&ret"
MIB = 1_048_576


@contextmanager
def server(serve: Serve) -> Iterator[int]:
    """A server for one connection, on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            with suppress(OSError):
                line, _ = listening.accept()
                with closing(line):
                    serve(line)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
    thread.join(10)


def submission(final: Callable[[socket.socket], None], *, auth: str = "") -> Serve:
    """A submission server that ends as `final` says, once it has the message."""

    def serve(line: socket.socket) -> None:
        words, data = line.makefile("rb"), False
        line.sendall(b"220 hi\r\n")
        for said in words:
            if data:
                if said == b".\r\n":
                    break
            elif said.lower().startswith(b"data"):
                data = True
                line.sendall(b"354 go\r\n")
            elif said.lower().startswith(b"ehlo"):
                line.sendall(b"250-hi\r\n250 AUTH PLAIN\r\n" if auth else b"250 hi\r\n")
            elif said.lower().startswith(b"auth"):
                line.sendall(f"535 {auth.format(line=said.decode().strip())}\r\n".encode())
                return
            else:
                line.sendall(b"250 ok\r\n")
        final(line)

    return serve


def flood(line: socket.socket) -> None:
    block = (b"250-" + b"x" * 8_000 + b"\r\n") * 20
    for _ in range(400):
        line.sendall(block)


def long_line(line: socket.socket) -> None:
    for _ in range(64):
        line.sendall(b"2" * MIB)


def send(port: int, timeout_s: float = 5.0, **login: str) -> object:
    post = SmtpExecutor("post", "127.0.0.1", port, security="none", timeout_s=timeout_s, sole=True, **login)  # type: ignore[arg-type]
    return post.send(CTX, sender="a@x.example", to=["b@x.example"], subject="s", text="t")


@pytest.mark.requirement("SEC-peer-limits")
@pytest.mark.parametrize("final", [flood, long_line])
def test_a_reply_that_never_ends_is_cut_by_its_size_and_leaves_the_effect_open(final: Serve) -> None:
    with server(submission(final)) as port:
        tracemalloc.start()
        try:
            with pytest.raises(ToolError) as told:
                send(port)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert not isinstance(told.value, NotDispatchedError)
    assert peak < 4 * MIB


@pytest.mark.requirement("SEC-peer-limits")
def test_a_reply_that_drips_ends_with_the_time_of_the_session() -> None:
    over = threading.Event()

    def drip(line: socket.socket) -> None:
        while not over.wait(0.05):
            line.sendall(b"250-still\r\n")

    with server(submission(drip)) as port:
        with pytest.raises(ToolTimeoutError):
            send(port, timeout_s=0.1)
        over.set()


@pytest.mark.requirement("SEC-peer-limits")
@pytest.mark.parametrize(
    "cut", [b"", b"5", b"550", b"550 no such", b"550-first\r\n", b"550-first\r\n550 sec", b"250 o"]
)
def test_a_final_reply_that_was_cut_short_is_neither_refused_nor_accepted(cut: bytes) -> None:
    with server(submission(lambda line: line.sendall(cut))) as port, pytest.raises(ToolError) as told:
        send(port)
    assert not isinstance(told.value, NotDispatchedError)
    assert told.value.code == "tool.connection-lost"


@pytest.mark.requirement("SEC-peer-limits")
def test_a_whole_refusal_is_a_refusal() -> None:
    with server(submission(lambda line: line.sendall(b"550-not\r\n550 here\r\n"))) as port:
        answer = send(port)
    assert isinstance(answer, dict)
    assert (answer["status"], answer["code"], answer["reply"]) == ("refused", 550, "not here")


@pytest.mark.requirement("SEC-redaction-forms")
def test_a_submission_server_that_quotes_the_login_is_not_quoted() -> None:
    with server(submission(lambda line: None, auth="bad {line}")) as port, pytest.raises(ToolError) as told:
        send(port, user="bob", password=PASSWORD)
    said = str(told.value)
    assert PASSWORD not in said
    assert b64encode(f"\0bob\0{PASSWORD}".encode()).decode() not in said


# --- mailboxes --------------------------------------------------------------------------------------------------


def mailbox(answers: Callable[[socket.socket, bytes, bytes], bytes | None]) -> Serve:
    """An IMAP server; `answers` sends what it likes for a command, and may give the end of its answer."""

    def serve(line: socket.socket) -> None:
        line.sendall(b"* OK hi\r\n")
        head = b"X-Readback-Stamp: stamp-1\r\nFrom: a@x\r\nTo: b@x\r\n\r\n"
        for said in line.makefile("rb"):
            tag, command = said.rstrip().split(b" ", 1)
            end = answers(line, command, tag)
            up = command.upper()
            if end is None:
                end = b" OK done\r\n"
                if up.startswith(b"CAPABILITY"):
                    line.sendall(b"* CAPABILITY IMAP4rev1\r\n")
                elif up.startswith(b"EXAMINE"):
                    line.sendall(b"* 1 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\n")
                elif b"SEARCH" in up:
                    line.sendall(b"* SEARCH 1\r\n")
                elif b"HEADER" in up:
                    line.sendall(b"* 1 FETCH (UID 1 RFC822.SIZE 10 BODY[HEADER]<0> {%d}\r\n%s)\r\n" % (len(head), head))
                elif b"FETCH" in up:
                    line.sendall(b"* 1 FETCH (UID 1 BODY[] {4}\r\ntext)\r\n")
            line.sendall(tag + end)

    return serve


def look(serve: Serve) -> tuple[Presence, str, int]:
    """What a look shows, says and takes."""
    with server(serve) as port:
        box = ImapSource(
            "box", "127.0.0.1", port, user="bob", password=PASSWORD, proves="delivered", security="none", timeout_s=5
        )
        tracemalloc.start()
        try:
            found = box.by_stamp(CTX)
            return found.presence, found.detail, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.requirement("SEC-peer-limits")
@pytest.mark.parametrize("when", [b"LOGIN", b"EXAMINE", b"SEARCH", b"HEADER", b"BODY.PEEK[]"])
@pytest.mark.parametrize("size", ["300000000", "1" + "0" * 15, "9" * 4_501], ids=["large", "huge", "no number"])
def test_a_literal_counts_by_what_is_read_and_not_by_what_was_said_before(when: bytes, size: str) -> None:
    def lie(line: socket.socket, command: bytes, tag: bytes) -> bytes | None:
        if when in command.upper():
            line.sendall(b"* 1 FETCH (UID 1 BODY[] {" + size.encode() + b"}\r\n")
            for _ in range(100):
                line.sendall(b"x" * MIB)
            return b" OK\r\n"
        return None

    presence, _, peak = look(mailbox(lie))
    assert presence is not Presence.PRESENT
    assert peak < 8 * MIB


@pytest.mark.requirement("SEC-peer-limits")
def test_lines_without_end_are_cut_by_their_size() -> None:
    def tell(line: socket.socket, command: bytes, tag: bytes) -> bytes | None:
        if b"SEARCH" in command.upper():
            for _ in range(40):
                line.sendall(b"* 1 EXISTS\r\n" * (LINES_MAX_BYTES // 200))
        return None

    presence, detail, peak = look(mailbox(tell))
    assert presence is Presence.UNAVAILABLE
    assert str(LINES_MAX_BYTES) in detail
    assert peak < 64 * MIB


@pytest.mark.requirement("SEC-redaction-forms")
@pytest.mark.parametrize("when", [b"LOGIN", b"EXAMINE", b"SEARCH"])
@pytest.mark.parametrize("form", ["plain", "base 64", "html"])
def test_the_login_line_is_never_quoted(when: bytes, form: str) -> None:
    said = {"plain": PASSWORD, "base 64": b64encode(PASSWORD.encode()).decode(), "html": PASSWORD.replace("&", "&amp;")}

    def quote(line: socket.socket, command: bytes, tag: bytes) -> bytes | None:
        if command.upper().startswith(when) or (when in command.upper() and when != b"LOGIN"):
            return b" NO bad LOGIN bob " + said[form].encode() + b"\r\n"
        return None

    presence, detail, _ = look(mailbox(quote))
    assert presence in (Presence.NOT_VISIBLE, Presence.UNAVAILABLE)
    assert said[form] not in detail
    assert PASSWORD not in detail
