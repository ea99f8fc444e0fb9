"""Looking into mailboxes over a real IMAP server: what a message there proves, and what its absence does."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from readback.demo.systems.launch import Systems
from readback.domain.context import Context
from readback.domain.verification.reading import Presence, Reading
from readback.errors import ContractFieldError, ReaderFailedError, UsageError
from readback.systems.mail import source
from readback.systems.mail.executor import SmtpExecutor
from readback.systems.mail.source import ImapSource
from readback.testing.conformance.source import SOURCE_RULES, Rule

SHOP, ANA, BEN = "shop@acme.example", "ana@acme.example", "ben@acme.example"
HEADER = "X-Stamp"


def _ctx(stamp: str) -> Context:
    return Context("a-1", "acme", "agent:ops", "tell ana", "mail/ana", "key-1", stamp)


@pytest.fixture(scope="module")
def running() -> Iterator[Systems]:
    with Systems() as systems:
        yield systems


@pytest.fixture
def systems(running: Systems) -> Iterator[Systems]:
    yield running
    running.clear_faults()


def _box(systems: Systems, user: str = ANA, **changes: Any) -> ImapSource:
    settings: dict[str, Any] = {
        "user": user,
        "password": systems.mail_password,
        "proves": "delivered",
        "security": "none",
        "timeout_s": 5,
    }
    return ImapSource("inbox", *systems.imap, **{**settings, **changes})


@pytest.fixture
def inbox(systems: Systems) -> ImapSource:
    return _box(systems)


def _send(systems: Systems, stamp: str, text: str = "It left.", subject: str = "Your order", to: str = ANA) -> None:
    SmtpExecutor("post", *systems.smtp, security="none").send(
        _ctx(stamp), sender=SHOP, to=[to], subject=subject, text=text, stamp_header=HEADER
    )


def _deliver(systems: Systems, name: str, raw: bytes, user: str = ANA) -> Path:
    """Puts a message into the mailbox by another path than any mail program's."""
    local, _, domain = user.partition("@")
    home = systems.mail_root / "mailboxes" / domain / local
    (home / "tmp" / name).write_bytes(raw)
    return (home / "tmp" / name).rename(home / "cur" / f"{name}:2,")


class World:
    """One message in Ana's mailbox."""

    def __init__(self, systems: Systems) -> None:
        self.systems = systems
        self.source = _box(systems)
        self.turn = 0
        self.at: Path | None = None

    def put(self, text: str) -> None:
        self.remove()
        self.turn += 1
        raw = f"From: {SHOP}\nTo: {ANA}\nSubject: hello\n{HEADER}: world\n\n{text}\n".encode()
        self.at = _deliver(self.systems, f"{id(self)}.{self.turn}.localhost", raw)

    def remove(self) -> None:
        if self.at is not None:
            self.at.unlink()
            self.at = None

    def read(self) -> Reading:
        return self.source.by_stamp(_ctx("world"), header=HEADER)

    def cut(self) -> None:
        self.systems.fault("outage", system="mail", match={"stamp": "cut"})
        _send(self.systems, "cut", to=BEN)

    def mend(self) -> None:
        self.systems.clear_faults()

    def hide(self) -> bool:
        self.source = _box(self.systems, password="not the password")
        return True


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_an_imap_source_keeps_the_rules_of_sources(rule: Rule, systems: Systems) -> None:
    world = World(systems)
    try:
        rule(world)
    finally:
        world.remove()


@pytest.mark.requirement("L11")
def test_a_delivered_message_is_shown_with_what_it_proves(systems: Systems, inbox: ImapSource) -> None:
    _send(systems, "i-1", text="It left, für dich.\nToday.", subject="Grüße: your order")
    found = inbox.by_stamp(_ctx("i-1"), header=HEADER)
    assert (found.presence, found.stamp, found.complete) == (Presence.PRESENT, "i-1", True)
    assert isinstance(found.value, dict)
    shown = dict(found.value)
    assert isinstance(shown.pop("size"), int)
    assert str(shown.pop("message_id")).endswith("@acme.example>")
    assert shown == {
        "folder": "INBOX",
        "mailbox": ANA,
        "from": SHOP,
        "to": [ANA],
        "subject": "Grüße: your order",
        "stamp": "i-1",
        "body_sha256": sha256("It left, für dich.\nToday.".encode()).hexdigest(),
        "parts": 1,
        "copies": 1,
        "proves": "delivered",
    }


@pytest.mark.requirement("L11")
def test_the_senders_own_copy_proves_submission_and_nothing_more(systems: Systems, inbox: ImapSource) -> None:
    systems.fault("accepted_dropped", system="mail", match={"stamp": "i-2"})
    _send(systems, "i-2")
    sent = _box(systems, SHOP, folders=["Sent"], proves="submitted").by_stamp(_ctx("i-2"), header=HEADER)
    assert isinstance(sent.value, dict)
    assert (sent.value["folder"], sent.value["proves"]) == ("Sent", "submitted")
    assert inbox.by_stamp(_ctx("i-2"), header=HEADER).presence is Presence.ABSENT


@pytest.mark.requirement("L11")
@pytest.mark.parametrize(
    "folder", ["Sent", "sent", "SENT ITEMS", "INBOX.Sent", "[Gmail]/Sent Mail", "Outbox", "a/Drafts"]
)
def test_a_folder_of_sent_mail_cannot_prove_delivery(folder: str) -> None:
    with pytest.raises(ContractFieldError, match="no delivery"):
        ImapSource("x", "127.0.0.1", 1, user="a", password="b", proves="delivered", folders=["INBOX", folder])
    ImapSource("x", "127.0.0.1", 1, user="a", password="b", proves="submitted", folders=[folder])
    ImapSource("x", "127.0.0.1", 1, user="a", password="b", proves="delivered", folders=["Sentinel", "Absent"])


def test_a_stamp_is_matched_whole(systems: Systems, inbox: ImapSource) -> None:
    for stamp in ("i-3-long", "xi-3", "i-3 "):
        _deliver(systems, f"i-3-{len(stamp)}-{stamp[0]}", f"{HEADER}: {stamp}\n\nx\n".encode())
    assert [each.stamp for each in inbox.find(_ctx("i-3"), header=HEADER)] == ["i-3"]
    _deliver(systems, "i-4", f"{HEADER}: a\n{HEADER}: i-4\nSubject: two stamps\n\n".encode())
    assert inbox.by_stamp(_ctx("i-4"), header=HEADER).stamp == "i-4"
    _deliver(systems, "i-5", b"Subject: X-Stamp: i-5\nX-Other: i-5\n\nX-Stamp: i-5\n")
    assert inbox.by_stamp(_ctx("i-5"), header=HEADER).presence is Presence.ABSENT


def test_every_copy_is_found(systems: Systems, inbox: ImapSource) -> None:
    systems.fault("duplicate", system="mail", match={"stamp": "i-6"})
    _send(systems, "i-6")
    found = inbox.find(_ctx("i-6"), header=HEADER)
    assert [each.stamp for each in found] == ["i-6", "i-6"]
    assert found[0].version != found[1].version
    one = inbox.by_stamp(_ctx("i-6"), header=HEADER)
    assert isinstance(one.value, dict)
    assert one.value["copies"] == 2


def test_a_message_in_somebody_elses_mailbox_is_absent_here(systems: Systems, inbox: ImapSource) -> None:
    systems.fault("wrong_mailbox", system="mail", match={"stamp": "i-7"}, mailbox="ana@globex.example")
    _send(systems, "i-7")
    assert inbox.by_stamp(_ctx("i-7"), header=HEADER).presence is Presence.ABSENT
    elsewhere = _box(systems, "ana@globex.example").by_stamp(_ctx("i-7"), header=HEADER)
    assert isinstance(elsewhere.value, dict)
    assert (elsewhere.value["mailbox"], elsewhere.value["to"]) == ("ana@globex.example", [ANA])


@pytest.mark.requirement("TRUTH-verdict-2")
def test_absence_needs_every_folder_to_be_examined(systems: Systems) -> None:
    box = _box(systems, folders=["INBOX", "Archive of 2020"])
    missing = box.by_stamp(_ctx("i-8"), header=HEADER)
    assert missing.presence is Presence.NOT_VISIBLE
    assert "Archive of 2020" in missing.detail
    with pytest.raises(ReaderFailedError, match="Archive"):
        box.find(_ctx("i-8"), header=HEADER)
    _send(systems, "i-8")
    found = box.by_stamp(_ctx("i-8"), header=HEADER)
    assert (found.presence, found.complete) == (Presence.PRESENT, False)
    assert isinstance(found.value, dict)
    assert "copies" not in found.value, "how many there are is not known"


def test_several_folders_are_looked_into(systems: Systems) -> None:
    _send(systems, "i-9", to=SHOP)
    box = _box(systems, SHOP, folders=["INBOX", "Sent"], proves="submitted")
    folders = [each.value["folder"] for each in box.find(_ctx("i-9"), header=HEADER) if isinstance(each.value, dict)]
    assert folders == ["INBOX", "Sent"]


def test_a_look_leaves_no_mark(systems: Systems, inbox: ImapSource) -> None:
    path = _deliver(systems, "i-10", f"{HEADER}: i-10\n\nhello\n".encode())
    inbox.by_stamp(_ctx("i-10"), header=HEADER)
    assert path.exists(), "the message was marked or moved"


@pytest.mark.parametrize("stamp", ["", "a\r\nb", 'a"b\x00', "grüß"])
def test_a_stamp_that_cannot_be_quoted_is_refused(inbox: ImapSource, stamp: str) -> None:
    with pytest.raises(UsageError):
        inbox.by_stamp(_ctx(stamp), header=HEADER)


def test_a_stamp_cannot_end_its_own_quotes(systems: Systems, inbox: ImapSource) -> None:
    _deliver(systems, "i-11", f"{HEADER}: any\n\n".encode())
    assert inbox.by_stamp(_ctx('x" OR ALL "'), header=HEADER).presence is Presence.ABSENT
    _deliver(systems, "i-12", f'{HEADER}: a"\\b\n\n'.encode())
    assert inbox.by_stamp(_ctx('a"\\b'), header=HEADER).stamp == 'a"\\b'


def test_the_name_of_the_header_is_a_name(inbox: ImapSource) -> None:
    with pytest.raises(UsageError):
        inbox.by_stamp(_ctx("x"), header='X "" ALL')


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"Content-Type: text/plain; charset=latin-1\n\ngr\xfc\xdfe\n\n", "grüße"),
        (b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\nYQ0KYg==\n", "a\nb"),
        (b"Content-Type: text/html\n\n<p>hi</p>\n", "<p>hi</p>"),
        (
            b'MIME-Version: 1.0\nContent-Type: multipart/alternative; boundary="b"\n\n--b\nContent-Type: text/html\n\n'
            b"<p>hi</p>\n--b\nContent-Type: text/plain\n\nhi\n--b--\n",
            "hi",
        ),
        (b"Content-Type: text/plain; charset=klingon\n\nx\n", None),
        (b"Content-Type: image/png\n\nx\n", None),
    ],
)
def test_the_body_is_hashed_as_its_reader_sees_it(
    systems: Systems, inbox: ImapSource, body: bytes, text: str | None
) -> None:
    stamp = f"i-13-{sha256(body).hexdigest()[:8]}"
    _deliver(systems, stamp, f"{HEADER}: {stamp}\n".encode() + body)
    found = inbox.by_stamp(_ctx(stamp), header=HEADER)
    assert isinstance(found.value, dict)
    assert found.value.get("body_sha256") == (None if text is None else sha256(text.encode()).hexdigest())
    assert found.complete is (text is not None)


def test_a_message_with_two_subjects_has_neither(systems: Systems, inbox: ImapSource) -> None:
    _deliver(systems, "i-40", f"Subject: yours\n{HEADER}: i-40\nSubject: another\n\nx\n".encode())
    found = inbox.by_stamp(_ctx("i-40"), header=HEADER)
    assert isinstance(found.value, dict)
    assert found.value["subject"] == "yours\nanother"


def test_a_large_message_is_shown_without_its_hash(
    systems: Systems, inbox: ImapSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MESSAGE_MAX_BYTES", 1_000)
    _deliver(systems, "i-14", f"{HEADER}: i-14\n\n{'x' * 2_000}\n".encode())
    found = inbox.by_stamp(_ctx("i-14"), header=HEADER)
    assert isinstance(found.value, dict)
    assert "body_sha256" not in found.value


def test_a_search_that_brings_too_many_was_no_whole_look(
    systems: Systems, inbox: ImapSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "_candidates", 2)
    for n in range(3):
        _deliver(systems, f"i-15-{n}", f"{HEADER}: xi-15x\n\n".encode())
    assert inbox.by_stamp(_ctx("i-15"), header=HEADER).presence is Presence.NOT_VISIBLE


def test_a_header_that_is_cut_may_hold_the_stamp(
    systems: Systems, inbox: ImapSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "HEADER_MAX_BYTES", 100)
    _deliver(systems, "i-16", f"X-Filler: {'x' * 200}\n{HEADER}: i-16\n\n".encode())
    assert inbox.by_stamp(_ctx("i-16"), header=HEADER).presence is Presence.NOT_VISIBLE


@pytest.mark.requirement("L26")
def test_an_outage_is_no_absence(systems: Systems, inbox: ImapSource) -> None:
    systems.fault("outage", system="mail", match={"stamp": "i-17"})
    _send(systems, "i-17")
    assert inbox.by_stamp(_ctx("i-17"), header=HEADER).presence is Presence.UNAVAILABLE
    with pytest.raises(ReaderFailedError):
        inbox.find(_ctx("i-17"), header=HEADER)


def test_a_login_that_is_refused_hides_the_mailbox(systems: Systems) -> None:
    box = _box(systems, password=lambda: "wrong")
    assert box.by_stamp(_ctx("i-18"), header=HEADER).presence is Presence.NOT_VISIBLE
    with pytest.raises(ReaderFailedError):
        box.ping()
    with pytest.raises(UsageError) as caught:
        _box(systems, password="se\r\ncret").by_stamp(_ctx("i-18"), header=HEADER)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_security_is_never_lowered_to_what_the_server_offers(systems: Systems, security: str) -> None:
    asked: list[str] = []

    def password() -> str:
        asked.append(security)
        return systems.mail_password

    box = _box(systems, security=security, password=password)
    assert box.by_stamp(_ctx("i-19"), header=HEADER).presence is Presence.UNAVAILABLE
    assert asked == [], "the password was fetched for an open line"


@contextmanager
def _speaking(script: Callable[[bytes], bytes]) -> Iterator[tuple[str, int]]:
    """A server that greets, and answers each line as the script says; b"" hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client, client.makefile("rwb") as lines:
                lines.write(b"* OK ready\r\n")
                lines.flush()
                for line in lines:
                    tag, _, command = line.strip().partition(b" ")
                    answer = script(command)
                    if not answer:
                        return
                    lines.write(answer.replace(b"TAG", tag))
                    lines.flush()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()
        finally:
            thread.join(5)


def _scripted(**answers: bytes) -> Callable[[bytes], bytes]:
    usual = {
        b"CAPABILITY": b"* CAPABILITY IMAP4rev1\r\nTAG OK done\r\n",
        b"LOGIN": b"TAG OK done\r\n",
        b"EXAMINE": b"* 1 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\nTAG OK [READ-ONLY]\r\n",
        b"SEARCH": b"* SEARCH 5\r\nTAG OK done\r\n",
        b"FETCH": b"TAG OK done\r\n",
        b"LOGOUT": b"* BYE\r\nTAG OK done\r\n",
    }
    usual |= {name.encode(): answer for name, answer in answers.items()}

    def script(command: bytes) -> bytes:
        words = command.split()
        return usual[words[1] if words[0] == b"UID" else words[0]]

    return script


@pytest.mark.parametrize(
    ("answers", "presence"),
    [
        ({"LOGIN": b"TAG NO [UNAVAILABLE] try later\r\n"}, Presence.UNAVAILABLE),
        ({"LOGIN": b"TAG NO [AUTHENTICATIONFAILED] no\r\n"}, Presence.NOT_VISIBLE),
        ({"LOGIN": b""}, Presence.UNAVAILABLE),
        ({"SEARCH": b"TAG NO cannot\r\n"}, Presence.NOT_VISIBLE),
        ({"SEARCH": b"TAG BAD what\r\n"}, Presence.UNAVAILABLE),
        ({"SEARCH": b""}, Presence.UNAVAILABLE),
        ({"SEARCH": b"TAG OK done\r\n"}, Presence.ABSENT),
        ({"SEARCH": b"* SEARCH\r\nTAG OK done\r\n"}, Presence.ABSENT),
        ({"SEARCH": b"* SEARCH\r\n* SEARCH 5\r\nTAG OK done\r\n"}, Presence.NOT_VISIBLE),  # what is listed is not shown
        ({"SEARCH": b"* ESEARCH (TAG x) UID ALL 5\r\nTAG OK done\r\n"}, Presence.NOT_VISIBLE),
        ({"FETCH": b"TAG OK done\r\n"}, Presence.NOT_VISIBLE),
        ({"FETCH": b"TAG NO gone\r\n"}, Presence.NOT_VISIBLE),
        (
            {"FETCH": b"* 9 FETCH (UID 99 BODY[HEADER] {14}\r\nX-Stamp: s\r\n\r\n)\r\nTAG OK done\r\n"},
            Presence.NOT_VISIBLE,
        ),
        ({"FETCH": b"* 1 FETCH (BODY[HEADER] {14}\r\nX-Stamp: s\r\n\r\n UID 5)\r\nTAG OK done\r\n"}, Presence.PRESENT),
    ],
)
def test_odd_servers_are_not_believed_more_than_they_say(answers: dict[str, bytes], presence: Presence) -> None:
    with _speaking(_scripted(**answers)) as where:
        box = ImapSource("odd", *where, user="u", password="p", proves="delivered", security="none", timeout_s=5)
        found = box.by_stamp(_ctx("s"), header=HEADER)
    assert found.presence is presence, found.detail


@pytest.mark.requirement("INPUT-reader-hangs")
def test_a_server_that_hangs_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        box = ImapSource(
            "mute", *silent.getsockname(), user="u", password="p", proves="delivered", security="none", timeout_s=0.1
        )
        assert box.by_stamp(_ctx("s")).presence is Presence.UNAVAILABLE


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": ""}, UsageError),
        ({"folders": []}, UsageError),
        ({"folders": ["Entwürfe"]}, UsageError),
        ({"security": "ssl"}, UsageError),
        ({"proves": "read"}, ContractFieldError),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    settings: dict[str, Any] = {"user": "u", "password": "p", "proves": "delivered", "host": "127.0.0.1", "port": 1}
    with pytest.raises(error):
        ImapSource(**{"name": "x", **settings, **changes})


def test_no_connection_stays_open(systems: Systems, inbox: ImapSource) -> None:
    inbox.ping()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        inbox.by_stamp(_ctx("i-20"), header=HEADER)
        _box(systems, password="wrong").by_stamp(_ctx("i-20"), header=HEADER)
        _box(systems, security="starttls").by_stamp(_ctx("i-20"), header=HEADER)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.requirement("HS-10")
def test_copies_that_a_server_lists_in_several_lines_are_all_counted() -> None:
    shown = b"X-Stamp: s\r\n\r\n"
    answers = {
        "SEARCH": b"* SEARCH 5\r\n* SEARCH 6 7\r\nTAG OK done\r\n",
        "FETCH": b"".join(b"* %d FETCH (UID %d BODY[] {14}\r\n%s)\r\n" % (n, n, shown) for n in (5, 6, 7))
        + b"TAG OK done\r\n",
    }
    for ask, found in (("by_stamp", 3), ("find", 3)):
        with _speaking(_scripted(**answers)) as where:
            box = ImapSource("odd", *where, user="u", password="p", proves="delivered", security="none", timeout_s=5)
            told = getattr(box, ask)(_ctx("s"), header=HEADER)
        assert (told.value["copies"] if isinstance(told, Reading) else len(told)) == found


@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_server_that_never_comes_to_an_end_is_given_up(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line now and then keeps each reading of a socket within its limit: at the greeting, the login, a search."""
    monkeypatch.setattr(source, "WHOLE_TIMES", 1)
    over, script = threading.Event(), _scripted()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client, client.makefile("rwb") as lines, suppress(OSError):
                for number, line in enumerate([b"", *[None] * 9]):
                    said = lines.readline().strip() if line is None else b""
                    while number == at and not over.wait(0.05):
                        client.sendall(b"* OK still here\r\n" if number else b"*")
                    tag, _, command = said.partition(b" ")
                    client.sendall(script(command).replace(b"TAG", tag) if command else b"* OK ready\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            where = server.getsockname()
            box = ImapSource("slow", *where, user="u", password="p", proves="delivered", security="none", timeout_s=0.5)
            found = box.by_stamp(_ctx("s"), header=HEADER)
        finally:
            over.set()
            thread.join(5)
    assert found.presence is Presence.UNAVAILABLE
