"""Submitting mail to a real SMTP server: what goes over, what comes back, and what is refused before."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from readback.demo.systems.launch import Systems
from readback.domain.context import Context
from readback.domain.verification.observation import ObservationStatus, normalise
from readback.errors import (
    ArgumentError,
    HeaderInjectionError,
    NotDispatchedError,
    OversizeError,
    ToolError,
    ToolTimeoutError,
    UsageError,
)
from readback.systems.mail.executor import SmtpExecutor
from tests.demo.waiting import eventually

SHOP, ANA, BEN, NOBODY = "shop@acme.example", "ana@acme.example", "ben@acme.example", "nobody@acme.example"


def _ctx(stamp: str = "stamp-1") -> Context:
    return Context("a-1", "acme", "agent:ops", "tell ana", "mail/ana", "key-1", stamp)


@pytest.fixture(scope="module")
def running() -> Iterator[Systems]:
    with Systems() as systems:
        yield systems


@pytest.fixture
def systems(running: Systems) -> Iterator[Systems]:
    yield running
    running.clear_faults()


@pytest.fixture
def post(systems: Systems) -> SmtpExecutor:
    return SmtpExecutor("post", *systems.smtp, security="none", timeout_s=5)


def _send(post: SmtpExecutor, stamp: str, **changes: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"sender": SHOP, "to": [ANA], "subject": "Your order", "text": "It left.\n"}
    return dict(post.send(_ctx(stamp), stamp_header="X-Stamp", **{**message, **changes}))


@pytest.mark.requirement("TRUTH-keys-stamp")
def test_a_message_is_accepted_with_its_stamp_and_never_called_sent(systems: Systems, post: SmtpExecutor) -> None:
    answer = _send(post, "e-1", subject="Grüße: an order", text="It left.\n.\nTomorrow, für dich.\n")
    assert (answer["status"], answer["code"], answer["stamp"]) == ("accepted", 250, "e-1")
    assert (answer["accepted"], answer["refused"]) == ([ANA], {})
    assert answer["message_id"].endswith("@acme.example>")
    seen = normalise(answer, 1)
    assert (seen.status, seen.claims_success) == (ObservationStatus.ACCEPTED, False)
    (mail,) = systems.truth.mails(mailbox=ANA, stamp="e-1")
    assert (mail.sender, mail.to, mail.subject) == (SHOP, ANA, "Grüße: an order")
    assert mail.body == "It left.\n.\nTomorrow, für dich.\n"


def test_the_message_id_is_the_same_for_every_attempt_of_one_action(post: SmtpExecutor) -> None:
    first, second, other = (_send(post, stamp)["message_id"] for stamp in ("e-2", "e-2", "e-3"))
    assert first == second != other


def test_refused_recipients_are_told(systems: Systems, post: SmtpExecutor) -> None:
    answer = _send(post, "e-4", to=[ANA, NOBODY, ANA])
    assert (answer["status"], answer["accepted"]) == ("partial", [ANA])
    assert answer["refused"] == {NOBODY: {"code": 550, "reply": f"5.1.1 no mailbox {NOBODY} here"}}
    assert normalise(answer, 1).status is ObservationStatus.PARTIAL
    assert len(systems.truth.mails(stamp="e-4")) == 1


def test_where_every_recipient_is_refused_nothing_is_handed_over(systems: Systems, post: SmtpExecutor) -> None:
    answer = _send(post, "e-5", to=[NOBODY])
    assert (answer["status"], answer["code"], answer["accepted"]) == ("refused", 550, [])
    assert normalise(answer, 1).status is ObservationStatus.ERROR
    assert systems.truth.mails(stamp="e-5", folder="Sent") == []


@pytest.mark.parametrize(
    ("fault", "code", "landed"), [("refuse", 554, 0), ("tempfail", 451, 0), ("error_after_commit", 451, 1)]
)
def test_a_refusal_is_evidence_and_the_message_may_have_landed(
    systems: Systems, post: SmtpExecutor, fault: str, code: int, landed: int
) -> None:
    systems.fault(fault, system="mail", match={"stamp": f"e-6-{fault}"})
    answer = _send(post, f"e-6-{fault}")
    assert (answer["status"], answer["code"], answer["accepted"]) == ("refused", code, [])
    seen = normalise(answer, 1)
    assert (seen.status, seen.dispatched) == (ObservationStatus.ERROR, True)
    assert len(systems.truth.mails(stamp=f"e-6-{fault}")) == landed


@pytest.mark.parametrize(("fault", "landed"), [("timeout_before", 0), ("timeout_after", 1)])
def test_a_server_that_does_not_reply_leaves_the_effect_open(systems: Systems, fault: str, landed: int) -> None:
    systems.fault(fault, system="mail", match={"stamp": f"e-7-{fault}"})
    post = SmtpExecutor("post", *systems.smtp, security="none", timeout_s=0.3, sole=True)
    with pytest.raises(ToolTimeoutError):
        _send(post, f"e-7-{fault}")
    eventually(lambda: len(systems.truth.mails(stamp=f"e-7-{fault}")) == landed)


@pytest.mark.requirement("INPUT-header-injection")
@pytest.mark.parametrize("bad", ["x\r\nBcc: ben@acme.example", "x\ny", "x\ry", "x\0y", "x\x0by", "x\u2028y", "x\x85y"])
def test_what_could_end_a_header_is_refused_before_anything_is_sent(
    systems: Systems, post: SmtpExecutor, bad: str
) -> None:
    before = len(systems.truth.mails())
    for changes in (
        {"subject": bad},
        {"sender": bad + "@acme.example"},
        {"to": [ANA, bad + "@acme.example"]},
        {"headers": {"X-Note": bad}},
        {"headers": {bad: "note"}},
    ):
        with pytest.raises(HeaderInjectionError):
            _send(post, "e-8", **changes)
    with pytest.raises(HeaderInjectionError):
        _send(post, bad)
    assert len(systems.truth.mails()) == before


SMUGGLED = "=?utf-8?q?Hello=0D=0ABcc:_ben@acme.example=0D=0A=0D=0AIt_is_another_text.?="
"""What mail libraries decode, when they are handed it as a header's text, before they write it out."""


@pytest.mark.requirement("INPUT-header-injection")
def test_an_encoded_word_in_a_subject_is_the_text_that_it_is_and_ends_no_header(
    systems: Systems, post: SmtpExecutor
) -> None:
    for number, subject in enumerate((SMUGGLED, f"Fwd: {SMUGGLED} für dich {'und mich ' * 40}", "Is 1=?2 or 2?=1?")):
        assert _send(post, f"e-20-{number}", subject=subject)["status"] == "accepted"
        (mail,) = systems.truth.mails(mailbox=ANA, stamp=f"e-20-{number}")
        assert (mail.subject.split(), mail.body) == (subject.split(), "It left.\n")


@pytest.mark.requirement("INPUT-header-injection")
def test_an_encoded_word_in_any_other_header_is_refused(systems: Systems, post: SmtpExecutor) -> None:
    before = len(systems.truth.mails())
    for changes in ({"headers": {"X-Note": SMUGGLED}}, {"headers": {"Reply-To": f"{SMUGGLED} <ben@acme.example>"}}):
        with pytest.raises(HeaderInjectionError):
            _send(post, "e-21", **changes)
    word = "=?utf-8?q?ben=40acme.example=2C?=@acme.example"
    for named in ({"sender": word}, {"to": [word]}):
        with pytest.raises(ArgumentError):
            _send(post, "e-21", **named)
    assert len(systems.truth.mails()) == before


def test_a_header_about_the_content_is_kept_or_refused_and_never_dropped(systems: Systems, post: SmtpExecutor) -> None:
    assert _send(post, "e-22", headers={"Content-Language": "de"})["status"] == "accepted"
    found = [path.read_text() for path in systems.mail_root.glob("mailboxes/acme.example/ana/cur/*")]
    assert sum("X-Stamp: e-22\n" in each and "Content-Language: de\n" in each for each in found) == 1
    with pytest.raises(ArgumentError):
        _send(post, "e-23", headers={"Content-Type": "text/html"})


@pytest.mark.parametrize(
    "changes",
    [
        {"to": []},
        {"to": ANA},
        {"to": ["ana"]},
        {"to": ["Ana <ana@acme.example>"]},
        {"to": ["ana@acme.example, ben@acme.example"]},
        {"to": ["ana@acme..example"]},
        {"to": ["@acme.example"]},
        {"to": ["änä@acme.example"]},
        {"sender": ""},
        {"sender": "<>"},
        {"headers": {"Bcc": BEN}},
        {"headers": {"subject": "another"}},
        {"headers": {"x-stamp": "another"}},
        {"text": "\ud800"},
    ],
)
def test_a_message_that_cannot_be_meant_is_refused(post: SmtpExecutor, changes: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        _send(post, "e-9", **changes)


@pytest.mark.requirement("INPUT-over-long-value")
@pytest.mark.parametrize(
    "changes",
    [{"subject": "x" * 901}, {"text": "x" * 1_048_577}, {"to": [f"a{n}@acme.example" for n in range(101)]}],
)
def test_a_message_over_the_limits_is_refused(post: SmtpExecutor, changes: dict[str, Any]) -> None:
    with pytest.raises(OversizeError):
        _send(post, "e-10", **changes)


def test_a_header_of_the_callers_own_goes_along(systems: Systems, post: SmtpExecutor) -> None:
    assert _send(post, "e-11", headers={"X-Order": "o-17"})["status"] == "accepted"
    raw = next(systems.mail_root.glob("mailboxes/acme.example/ana/cur/*"), None)
    assert raw is not None
    found = [path.read_text() for path in systems.mail_root.glob("mailboxes/acme.example/ana/cur/*")]
    assert sum("X-Stamp: e-11\n" in each and "X-Order: o-17\n" in each for each in found) == 1


def test_a_server_that_is_not_there_proves_nothing_unless_the_message_is_the_only_act() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        where = taken.getsockname()
        with pytest.raises(ToolError) as caught:
            _send(SmtpExecutor("post", *where, security="none"), "e-12")
        assert not isinstance(caught.value, NotDispatchedError)
        with pytest.raises(NotDispatchedError):
            _send(SmtpExecutor("post", *where, security="none", sole=True), "e-12")


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_security_is_never_lowered_to_what_the_server_offers(systems: Systems, security: Any) -> None:
    post = SmtpExecutor("post", *systems.smtp, security=security, sole=True, timeout_s=5)
    with pytest.raises(NotDispatchedError):
        _send(post, "e-13")
    assert systems.truth.mails(stamp="e-13") == []
    with pytest.raises(UsageError):
        SmtpExecutor("post", *systems.smtp, security="ssl")  # type: ignore[arg-type]


class Keeper:
    """A server's handler that keeps what it was handed, refuses a sender, or hangs up."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    async def handle_MAIL(  # noqa: N802  # aiosmtpd's name, as below
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address.startswith("banned"):
            return "553 5.1.8 not from you"
        envelope.mail_from = address
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if envelope.mail_from == "gone@acme.example":
            assert isinstance(server.transport, asyncio.Transport)
            server.transport.abort()
            return "250 never heard"
        assert isinstance(envelope.content, bytes)
        self.kept.append(envelope.content)
        return "250 OK"


class Impatient(SMTP):
    """A server that says 250 where it should ask for the message."""

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        await self.push("250 OK")


class ImpatientController(Controller):
    def factory(self) -> SMTP:
        return Impatient(self.handler, hostname="localhost")


@contextmanager
def _serving(keeper: Keeper, kind: type[Controller] = Controller, **settings: Any) -> Iterator[tuple[str, int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = kind(keeper, hostname="127.0.0.1", port=port, server_hostname="localhost", **settings)
    controller.start()
    try:
        yield "127.0.0.1", port
    finally:
        controller.stop()


def test_a_refused_sender_refuses_every_recipient() -> None:
    keeper = Keeper()
    with _serving(keeper) as where:
        answer = _send(
            SmtpExecutor("post", *where, security="none"), "e-14", sender="banned@acme.example", to=[ANA, BEN]
        )
    assert (answer["status"], answer["code"], set(answer["refused"])) == ("refused", 553, {ANA, BEN})
    assert keeper.kept == []


def test_a_server_that_breaks_off_after_the_message_leaves_the_effect_open() -> None:
    with _serving(Keeper()) as where, pytest.raises(ToolError) as caught:
        _send(SmtpExecutor("post", *where, security="none", sole=True), "e-15", sender="gone@acme.example")
    assert caught.value.code == "tool.connection-lost"


def test_a_server_that_never_asked_for_the_message_has_not_accepted_it() -> None:
    keeper = Keeper()
    with _serving(keeper, ImpatientController) as where:
        with pytest.raises(NotDispatchedError):
            _send(SmtpExecutor("post", *where, security="none", sole=True), "e-24")
        with pytest.raises(ToolError) as caught:
            _send(SmtpExecutor("post", *where, security="none"), "e-25")
    assert (caught.value.code, keeper.kept) == ("tool.unreachable", [])


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 and its key in one file."""
    tool = shutil.which("openssl")
    if tool is None:
        pytest.skip("no certificate can be made here")
    path = tmp_path / "localhost.pem"
    command = (
        f"{tool} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*command.split(), "-keyout", path, "-out", tmp_path / "cert"], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + (tmp_path / "cert").read_bytes())
    return path


def _let_in(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    return AuthResult(success=data.login == b"ops" and data.password == b"secret", handled=False)


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_a_message_goes_only_to_a_server_that_somebody_vouches_for(certificate: Path, security: Any) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    keeper = Keeper()
    with _serving(keeper, **{"ssl_context" if security == "tls" else "tls_context": context}) as where:
        trusted = ssl.create_default_context(cafile=str(certificate))
        assert _send(SmtpExecutor("post", *where, security=security, tls=trusted), "e-16")["status"] == "accepted"
        assert b"X-Stamp: e-16\r\n" in keeper.kept[0]
        with pytest.raises(NotDispatchedError):
            _send(SmtpExecutor("post", *where, security=security, sole=True), "e-17")
    assert len(keeper.kept) == 1


def test_a_login_is_made_over_tls_and_its_refusal_keeps_the_message_at_home(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    keeper = Keeper()
    with _serving(keeper, tls_context=context, auth_required=True, authenticator=_let_in) as where:
        settings: dict[str, Any] = {
            "security": "starttls",
            "tls": ssl.create_default_context(cafile=str(certificate)),
            "sole": True,
            "user": "ops",
        }
        post = SmtpExecutor("post", *where, password=lambda: "secret", **settings)
        assert _send(post, "e-18")["status"] == "accepted"
        with pytest.raises(NotDispatchedError, match="Authentication"):
            _send(SmtpExecutor("post", *where, password="wrong", **settings), "e-19")
        with pytest.raises(NotDispatchedError, match="ascii"):
            _send(SmtpExecutor("post", *where, password="geheimnisträger", **settings), "e-26")
    assert len(keeper.kept) == 1
