"""Act by mail: submit one message over SMTP, with the stamp in a header of its own.

Users construct the executor and call it inside actions. The executor does not verify and never reports "sent": a 250
means that a server accepted the message. Text that could end a header is rejected.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from socket import SHUT_RDWR, socket
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from readback.canon import Json
from readback.canon.limits import STRING_MAX_BYTES
from readback.domain.context import Context
from readback.domain.line_ends import HEADER as ENDS_HEADER
from readback.domain.line_ends import ends_of
from readback.domain.verification.observation import one_line
from readback.engine.values.decoding import Sought
from readback.errors import (
    ArgumentError,
    HeaderInjectionError,
    NotDispatchedError,
    OversizeError,
    ToolError,
    ToolTimeoutError,
    UsageError,
)

if TYPE_CHECKING:
    import smtplib
    import ssl
    from email.message import EmailMessage

STAMP_HEADER: Final = "X-Readback-Stamp"
TIMEOUT_DEFAULT_S: Final = 30.0
WHOLE_TIMES: Final = 6
"""A whole session may take this many times the limit of one step, however slowly replies arrive."""
REPLY_MAX_BYTES: Final = 65_536
REPLY_LINE_MAX_BYTES: Final = 8_192
RECIPIENTS_MAX: Final = 100
HEADER_VALUE_MAX_CHARACTERS: Final = 900
"""One header line. Lines of a mail end at 998 characters."""

Security: TypeAlias = Literal["tls", "starttls", "none"]
Secret: TypeAlias = str | Callable[[], str]
"""A password, or a function that fetches the password when needed."""

_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_STAMP: Final = re.compile(r"[\x21-\x7e]{1,256}")
_OURS: Final = frozenset({"from", "to", "cc", "bcc", "sender", "subject", "date", "message-id", "mime-version"})
_UNQUOTED: Final = "the server's words are left out: they quote the password"
_REPLY: Final = re.compile(rb"([2-5]\d\d)([ -]|$)(.*)", re.DOTALL)
_ENCODED_WORD: Final = re.compile(r"=\?.*\?=")
"""Encoded words (RFC 2047). A mail library decodes them in header text, and the decoded text may hold a line break."""


class SmtpExecutor:
    """Submit messages to one mail server.

    Safe from any thread: each message uses its own connection.

    Args:
        name: Name in evidence and messages.
        host: Name of the server.
        port: Port of the server.
        security: "tls" (from the first byte), "starttls" or "none". Never lowered to the server's offer.
        user: Login name.
        password: Password, or a function that fetches the password.
        timeout_s: Seconds for one step.
        local_hostname: Name of this host in the greeting.
        tls: TLS settings.
        sole: The action sends one message here and does nothing else. A failure before the handover then proves
            that nothing was sent.

    Example:
        >>> mail = SmtpExecutor("mail", "mail.example", 465, user="shop", password=lambda: "secret", sole=True)
        >>> def notify(ctx, address, text):
        ...     return mail.send(ctx, sender="shop@mail.example", to=[address], subject="Order", text=text)
    """

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        *,
        security: Security = "tls",
        user: str | None = None,
        password: Secret | None = None,
        timeout_s: float = TIMEOUT_DEFAULT_S,
        local_hostname: str = "localhost",
        tls: ssl.SSLContext | None = None,
        sole: bool = False,
    ) -> None:
        if security not in ("tls", "starttls", "none"):
            raise UsageError(f"{name!r} needs security 'tls', 'starttls' or 'none' (got {security!r}).")
        self.name = name
        self._address = (host, port)
        self._security = security
        self._user = user
        self._password = password
        self._timeout_s = timeout_s
        self._local_hostname = local_hostname
        self._tls = tls
        self._sole = sole
        self._here = threading.local()
        """The password sent by this thread's session. A server may quote the password."""

    def send(
        self,
        ctx: Context,
        *,
        sender: str,
        to: Sequence[str],
        subject: str,
        text: str,
        headers: Mapping[str, str] | None = None,
        stamp_header: str = STAMP_HEADER,
    ) -> dict[str, Json]:
        """Submit one plain-text message and return the server's answer of any kind.

        A header records how the lines of the text end, because mail would lose the endings.

        Args:
            ctx: Context of the action.
            sender: Plain address of the sender.
            to: Plain addresses of the recipients.
            subject: Subject line.
            text: Text of the message.
            headers: More headers.
            stamp_header: Header for the stamp.

        Returns:
            `status` (accepted, partial for some refused recipients, or refused), `accepted`, `refused` (code and
                reply for
                each address), `code`, `reply` and `message_id`, made from the stamp.

        Raises:
            HeaderInjectionError: A value could end a header. Nothing was sent.
            ArgumentError: An argument is invalid. Nothing was sent.
            ToolTimeoutError: No reply arrived in time. The server may have accepted the message.
            ToolError: No reply arrived. The server may have accepted the message.
        """
        recipients = _addresses(sender, to)
        own = {stamp_header: ctx.stamp} if not (ends := ends_of(text)) else {stamp_header: ctx.stamp, ENDS_HEADER: ends}
        message = _message(ctx, sender, recipients, subject, text, {**(headers or {}), **own})
        content = message.as_bytes()
        answer: dict[str, Json] = {"message_id": str(message["Message-ID"]), "stamp": ctx.stamp}
        with self._watched() as watch, self._session(watch) as smtp:
            with self._before_dispatch():
                said, refused = _envelope(smtp, sender, recipients)
            if len(refused) < len(recipients):
                said = self._hand_over(smtp, content, watch)
        code, reply = said
        accepted: list[Json] = [each for each in recipients if code == 250 and each not in refused]
        word = "refused" if not accepted else "partial" if refused else "accepted"
        told: dict[str, Json] = {each: {"code": no, "reply": self._line(why)} for each, (no, why) in refused.items()}
        answer |= {"status": word, "code": code, "reply": self._line(reply), "accepted": accepted, "refused": told}
        return answer

    def _line(self, reply: bytes) -> str:
        return one_line(self._said(reply.decode("utf-8", "replace")))

    def _said(self, what: object) -> str:
        """Return the server's reply without quotes of the password line."""
        text = str(what)
        password = getattr(self._here, "password", "")
        quoted = password and (password in text or Sought([password]).stands_in(text))
        return _UNQUOTED if quoted else text

    def _hand_over(self, smtp: smtplib.SMTP, content: bytes, watch: _Watch) -> tuple[int, bytes]:
        """Send the message. From here on the effect is open until the server replies."""
        import smtplib

        try:
            return smtp.data(content)
        except smtplib.SMTPDataError as error:  # The server refused before the message was sent.
            if 200 <= error.smtp_code < 300:
                raise self._not_given(f"it answered DATA with {error.smtp_code}") from error
            return error.smtp_code, error.smtp_error if isinstance(error.smtp_error, bytes) else b""
        except (smtplib.SMTPException, OSError) as error:
            if watch.is_late or isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):
                raise ToolTimeoutError(f"{self.name!r} received the message and did not reply in time.") from error
            raise ToolError(
                f"{self.name!r} broke the connection after receiving the message: {self._said(error)}",
                remedy="Its effect is being read back.",
                code="tool.connection-lost",
            ) from error

    @contextmanager
    def _watched(self) -> Iterator[_Watch]:
        """Limit the time of the whole session. Raises as `_before_dispatch` where the system starts no thread."""
        with self._before_dispatch():
            watch = _Watch(self._timeout_s * WHOLE_TIMES)
            watch.begin()
        try:
            yield watch
        finally:
            watch.end()

    @contextmanager
    def _session(self, watch: _Watch) -> Iterator[smtplib.SMTP]:
        import smtplib

        with self._before_dispatch():
            smtp = self._connect(watch)
        try:
            yield smtp
        finally:
            with suppress(smtplib.SMTPException, OSError):  # The reply is there; QUIT adds nothing.
                smtp.quit()
            smtp.close()

    def _connect(self, watch: _Watch) -> smtplib.SMTP:
        import smtplib
        import ssl

        plain, secure = _bounded(smtplib.SMTP), _bounded(smtplib.SMTP_SSL)

        host, port = self._address
        tls = None if self._security == "none" else self._tls or ssl.create_default_context()
        if self._security == "tls":
            smtp: Any = secure(watch, local_hostname=self._local_hostname, timeout=self._timeout_s, context=tls)
        else:
            smtp = plain(watch, local_hostname=self._local_hostname, timeout=self._timeout_s)
        try:
            smtp.reach(host, port)
            if self._security == "starttls":
                smtp.starttls(context=tls)
                watch.over(smtp.sock)
            smtp.ehlo_or_helo_if_needed()
            if self._user is not None:
                self._here.password = self._password() if callable(self._password) else self._password or ""
                smtp.login(self._user, self._here.password)
        except BaseException:
            smtp.close()
            raise
        return smtp  # type: ignore[no-any-return]

    @contextmanager
    def _before_dispatch(self) -> Iterator[None]:
        """Failures here happen before the handover of the message."""
        import smtplib

        try:
            yield
        except (smtplib.SMTPException, OSError, UnicodeError) as error:  # UnicodeError: a password that is not ASCII
            raise self._not_given(f"{type(error).__name__}: {self._said(error)}") from error

    def _not_given(self, why: str) -> ToolError | NotDispatchedError:
        said = f"{self.name!r} did not receive the message: {why}"
        if self._sole:
            return NotDispatchedError(said)
        return ToolError(said, remedy="Its effect is being read back.", code="tool.unreachable")


class _Watch:
    """Close a session's connection when the session's time is over."""

    def __init__(self, seconds: float) -> None:
        self.is_late = False
        self._socket: socket | None = None
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def begin(self) -> None:
        """Start the timer. Raises OSError where the system starts no thread."""
        try:
            self._timer.start()
        except RuntimeError as error:
            raise OSError("the system starts no more threads") from error

    def end(self) -> None:
        """Stop the timer: no connection is closed any more."""
        self._timer.cancel()
        self._timer.join()

    def over(self, connection: socket) -> None:
        """Set the connection to close: the plain connection, or the TLS connection in its place."""
        self._socket = connection
        if self.is_late:
            self._end()

    def _end(self) -> None:
        self.is_late = True
        if self._socket is not None:
            with suppress(OSError):
                socket.shutdown(self._socket, SHUT_RDWR)


@cache
def _bounded(kind: Any) -> Any:
    """Return the library's client with bounded replies: in size, and by the session's time."""
    import smtplib

    class Bounded(kind):  # type: ignore[misc]
        def __init__(self, watch: _Watch, **given: Any) -> None:
            self._watch = watch
            self.file: Any = None
            super().__init__(**given)

        def reach(self, host: str, port: int) -> None:
            """Connect. The certificate is checked against the name."""
            self._host = host
            code, said = self.connect(host, port)
            if code != 220:
                self.close()
                raise smtplib.SMTPConnectError(code, said)

        def _get_socket(self, host: str, port: int, timeout: float) -> Any:
            made = super()._get_socket(host, port, timeout)
            self._watch.over(made)
            return made

        def getreply(self) -> tuple[int, bytes]:
            """Return one complete reply. A cut reply is none: the code may belong to another reply."""
            if self.file is None:
                self.file = self.sock.makefile("rb")
            lines: list[bytes] = []
            size = 0
            while True:
                line = self._line()
                size += len(line)
                found = _REPLY.match(line.rstrip(b"\r\n"))
                if found is None or size > REPLY_MAX_BYTES:
                    self.close()
                    raise smtplib.SMTPServerDisconnected(
                        f"the reply is over {REPLY_MAX_BYTES} bytes" if found else "the reply is none of SMTP"
                    )
                lines.append(found[3].strip(b" \t"))
                if found[2] != b"-":
                    return int(found[1]), b"\n".join(lines)

        def _line(self) -> bytes:
            try:
                line = bytes(self.file.readline(REPLY_LINE_MAX_BYTES))
            except OSError as error:
                self.close()
                raise smtplib.SMTPServerDisconnected(f"Connection unexpectedly closed: {error}") from error
            if not line.endswith(b"\n"):
                self.close()
                long = len(line) >= REPLY_LINE_MAX_BYTES
                raise smtplib.SMTPServerDisconnected(
                    f"a line of the reply is over {REPLY_LINE_MAX_BYTES} bytes"
                    if long
                    else "Connection unexpectedly closed"
                )
            return line

    return Bounded


_Reply: TypeAlias = tuple[int, bytes]


def _envelope(smtp: smtplib.SMTP, sender: str, recipients: list[str]) -> tuple[_Reply, dict[str, _Reply]]:
    """Return the last reply and the refused recipients. A refused sender refuses all recipients."""
    said = smtp.mail(sender)
    if said[0] != 250:
        return said, dict.fromkeys(recipients, said)
    refused = {}
    for address in recipients:
        said = smtp.rcpt(address)
        if said[0] not in (250, 251):
            refused[address] = said
    return said, refused


def _message(
    ctx: Context, sender: str, recipients: list[str], subject: str, text: str, headers: Mapping[str, str]
) -> EmailMessage:
    from email.header import Header
    from email.message import EmailMessage
    from email.policy import SMTP
    from email.utils import formatdate

    if not _STAMP.fullmatch(ctx.stamp):
        raise HeaderInjectionError("The stamp holds characters not allowed in a header.")
    _one_header_line("Subject", subject)
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit", max_line_length=998))
    message["From"], message["To"] = sender, ", ".join(recipients)
    if _ENCODED_WORD.search(subject):
        message.set_raw("Subject", Header(subject, "utf-8", header_name="Subject").encode(linesep="\r\n"))
    else:
        message["Subject"] = subject
    message["Date"] = formatdate(localtime=False)
    # Equal for every attempt of an action: a receiver may drop the duplicate.
    mark = sha256(f"{ctx.tenant}\n{ctx.stamp}".encode()).hexdigest()[:32]
    message["Message-ID"] = f"<{mark}@{sender.rpartition('@')[2]}>"
    message.set_content(_checked(text))  # first: set_content drops earlier headers of a content
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise HeaderInjectionError(f"{name!r} cannot be the name of a header.")
        if name.lower() in _OURS or name in message:
            raise ArgumentError(f"The header {name!r} is set by the executor. Remove it from `headers`.")
        _one_header_line(name, value)
        if _ENCODED_WORD.search(value):
            raise HeaderInjectionError(f"The header {name} holds an encoded word.", remedy="Pass its plain text.")
        message[name] = value
    return message


def _checked(text: str) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ArgumentError("The text is not Unicode text.") from error
    if size > STRING_MAX_BYTES:
        raise OversizeError(f"The text has {size} bytes, over {STRING_MAX_BYTES}.")
    return text


def _addresses(sender: str, to: Sequence[str]) -> list[str]:
    """Return the recipients without duplicates. Display names are rejected: a display name can smuggle an address."""
    if isinstance(to, str) or not to:
        raise ArgumentError("`to` must be a list of at least one address.")
    recipients = list(dict.fromkeys(to))
    if len(recipients) > RECIPIENTS_MAX:
        raise OversizeError(f"A message goes to at most {RECIPIENTS_MAX} recipients.")
    for address in (sender, *recipients):
        _no_control("an address", address)
        odd = ".." in address or "=?" in address or address.endswith((".", "-"))
        if odd or not _ADDRESS.fullmatch(address):
            raise ArgumentError(f"{address!r} is not a plain mail address. Write it without a display name.")
    return recipients


def _no_control(where: str, value: str) -> None:
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in value):
        raise HeaderInjectionError(f"The value for {where} holds a line break or another control character.")


def _one_header_line(name: str, value: str) -> None:
    _no_control(f"the header {name}", value)
    if len(value) > HEADER_VALUE_MAX_CHARACTERS:
        raise OversizeError(f"The header {name} has over {HEADER_VALUE_MAX_CHARACTERS} characters.")
