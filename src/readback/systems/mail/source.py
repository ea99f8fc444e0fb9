"""A mailbox as a system of record: searches for stamped messages over IMAP and changes nothing.

Users or contract files construct the source, and reader functions call the source. Folders are opened read-only,
messages are fetched with PEEK, and each reading uses its own session, so no reading shows an old view. `proves` states
the meaning of a message in these folders: submission or delivery.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from hashlib import sha256
from socket import SHUT_RDWR, socket
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from readback.canon import CanonError, Json
from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.domain.line_ends import HEADER as ENDS_HEADER
from readback.domain.line_ends import as_mail, with_ends
from readback.domain.verification.reading import Reading
from readback.engine.values.decoding import Sought
from readback.errors import ContractFieldError, ReaderFailedError, ReaderTypeError, UsageError

if TYPE_CHECKING:
    import imaplib
    import ssl
    from email.message import EmailMessage

STAMP_HEADER: Final = "X-Readback-Stamp"
TIMEOUT_DEFAULT_S: Final = 10.0
WHOLE_TIMES: Final = 6
"""A whole session may take this many times the limit of one step. A slow server cannot hold a reader longer."""
CANDIDATES_MAX: Final = 50
"""Maximum messages found in one folder. A larger result makes the search incomplete."""
HEADER_MAX_BYTES: Final = 65_536
MESSAGE_MAX_BYTES: Final = 10_485_760
"""Larger messages are shown without the hash of the body. The reported and the received size both count."""
LINES_MAX_BYTES: Final = 1_048_576
"""Maximum bytes of one command's answer, besides its messages."""

Security: TypeAlias = Literal["tls", "starttls", "none"]
Proof: TypeAlias = Literal["submitted", "delivered"]
_Client = TypeVar("_Client", bound="imaplib.IMAP4")
Secret: TypeAlias = str | Callable[[], str]
"""A password, or a function that fetches the password when needed."""

_SENDERS_FOLDER: Final = re.compile(r"(?:^|[./])(?:sent\b.*|outbox|drafts)$", re.IGNORECASE)
_TOKEN: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_QUOTABLE: Final = re.compile(r"[\x20-\x7e]{1,512}")
_CODE: Final = re.compile(r"\[([A-Z-]{1,40})\]")
_UNQUOTED: Final = "the server's words are left out: they quote the password"
_UID: Final = re.compile(rb"\bUID (\d+)")
_SIZE: Final = re.compile(rb"\bRFC822\.SIZE (\d+)")


@dataclass(slots=True)
class _Looked:
    """The result of one search. `unseen`: why the search was incomplete. `instead`: why there was no search."""

    found: list[Reading] = field(default_factory=list)
    unseen: str = ""
    instead: Reading | None = None


_FORMS: Final = {"mailbox": "email", "from": "email"}
"""Domains of addresses ignore case (RFC 5321, 2.4). The local part belongs to the host."""


class ImapSource:
    """Search some folders of one user's mailbox.

    Safe from any thread.

    Args:
        name: Name in readings and messages.
        host: Name of the server.
        port: Port of the server.
        user: Owner of the mailbox.
        password: Password, or a function that fetches the password.
        proves: "delivered" for folders of the recipient, "submitted" for folders of the sender. A folder of
            sent mail cannot prove delivery, and is rejected together with "delivered".
        folders: Folders to search.
        security: "tls", "starttls" or "none". Never lowered to the server's offer.
        timeout_s: Seconds for one step.
        tls: TLS settings.
        candidates: Maximum messages found in one folder.
        overlapping: The folders show the same messages, as labels do. A message in two folders then counts
            once.

    Example:
        >>> inbox = ImapSource(
        ...     "inbox", "mail.example", 993, user="ada", password=lambda: "secret", proves="delivered"
        ... )
        >>> inbox.proves
        'delivered'
    """

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        *,
        user: str,
        password: Secret,
        proves: Proof,
        folders: Sequence[str] = ("INBOX",),
        security: Security = "tls",
        timeout_s: float = TIMEOUT_DEFAULT_S,
        tls: ssl.SSLContext | None = None,
        candidates: int = CANDIDATES_MAX,
        overlapping: bool = False,
    ) -> None:
        if not name or not folders:
            raise UsageError("A source needs a name and at least one folder.")
        if not 0 < candidates <= CANDIDATES_MAX:
            raise UsageError(f"{name!r} needs candidates from 1 to {CANDIDATES_MAX} (got {candidates}).")
        if security not in ("tls", "starttls", "none"):
            raise UsageError(f"{name!r} needs security 'tls', 'starttls' or 'none' (got {security!r}).")
        if proves not in ("submitted", "delivered"):
            raise ContractFieldError(f"{name!r} needs proves 'submitted' or 'delivered' (got {proves!r}).")
        senders = [folder for folder in folders if _SENDERS_FOLDER.search(folder)]
        if proves == "delivered" and senders:
            raise ContractFieldError(
                f"{name!r} reads {senders}, the sender's own copies. These copies prove no delivery.",
                remedy='Read the recipient\'s folders, or pass proves="submitted".',
            )
        self.name = name
        self._address = (host, port)
        self._user = user
        self._password = password
        self._proves = proves
        self._folders = [(folder, _quoted(folder)) for folder in folders]
        self._security = security
        self._timeout_s = timeout_s
        self._tls = tls
        self._candidates = candidates
        self._overlapping = overlapping
        self._here = threading.local()
        """The password sent by this thread's session. A server may quote the password."""

    @property
    def proves(self) -> Proof:
        """The meaning of a message in these folders: "delivered" or "submitted"."""
        return self._proves

    @property
    def user(self) -> str:
        """The owner of the mailbox."""
        return self._user

    def by_stamp(self, ctx: Context, *, header: str = STAMP_HEADER) -> Reading:
        """Find the message with exactly the context's stamp in this header.

        The value holds:

        - `folder`, `mailbox` (the owner), `from`, `to`, `subject`, `stamp`, `message_id`, `size`.
        - `body_sha256` of the decoded text. Lines end as in the text given to `SmtpExecutor`. Text of other senders has
          line feeds, without trailing line feeds.
        - `parts`: the number of parts. An attachment counts, and so does an HTML version of the text.
        - `copies`: the number of copies. Missing after an incomplete search, because more copies may exist.
        - `proves`.

        The reading is absent only where every folder could be searched whole.
        """
        looked = self._look(ctx.stamp, header)
        if looked.instead is not None:
            return looked.instead
        if not looked.found:
            return Reading.not_visible(looked.unseen) if looked.unseen else Reading.absent()
        first = looked.found[0]
        assert isinstance(first.value, dict)
        if looked.unseen:
            return replace(first, complete=False)
        return replace(first, value={**first.value, "copies": len(looked.found)})

    def find(self, ctx: Context, *, header: str = STAMP_HEADER) -> list[Reading]:
        """Find every message with the stamp, in the form of `by_stamp` without `copies`.

        Raises ReaderFailedError where the search was incomplete.
        """
        looked = self._look(ctx.stamp, header)
        why = looked.instead.detail if looked.instead is not None else looked.unseen
        if why:
            raise ReaderFailedError(f"Source {self.name!r} could not be searched: {why}")
        return looked.found

    def ping(self) -> None:
        """Check the mailbox. Raises ReaderFailedError where the mailbox cannot be opened."""
        import imaplib

        try:
            with self._session() as imap:
                imap.noop()
        except (_LoginError, imaplib.IMAP4.error, OSError, ValueError) as error:
            raise ReaderFailedError(f"Source {self.name!r} does not answer: {self._said(error)}") from error

    # --- looking -----------------------------------------------------------------------------------------------

    def _look(self, stamp: str, header: str) -> _Looked:
        import imaplib

        if not _TOKEN.fullmatch(header):
            raise UsageError(f"{header!r} cannot be the name of a header.")
        sought = _quoted(stamp)
        looked = _Looked()
        try:
            with self._session() as imap:
                for folder, quoted in self._folders:
                    before = looked.found
                    looked.found = []
                    self._folder(imap, folder, quoted, header, stamp, sought, looked)
                    looked.found = self._together(before, looked.found)
        except _LoginError as error:
            looked.instead = Reading.not_visible(f"{self.name}: {error}")
        except (imaplib.IMAP4.error, OSError, ValueError) as error:  # ValueError: an invalid host or number
            # A broken session shows nothing: the part received may be incomplete.
            looked.instead = Reading.unavailable(f"{self.name}: {type(error).__name__}: {self._said(error)}")
        looked.unseen = self._said(looked.unseen)
        return looked

    def _said(self, what: object) -> str:
        """Return the server's reply without quotes of the password line."""
        text = str(what)
        password = getattr(self._here, "password", "")
        return _UNQUOTED if password and (password in text or Sought([password]).stands_in(text)) else text

    def _together(self, before: list[Reading], here: list[Reading]) -> list[Reading]:
        """Join the messages of all folders. For overlapping folders, return the messages of the fullest folder."""
        if not self._overlapping:
            return before + here
        return here if len(here) > len(before) else before

    def _folder(
        self,
        imap: imaplib.IMAP4,
        folder: str,
        quoted: str,
        header: str,
        stamp: str,
        sought: str,
        looked: _Looked,
    ) -> None:
        status, said = imap.select(quoted, readonly=True)
        if status != "OK":
            looked.unseen = f"the folder {folder!r} could not be examined: {said}"
            return
        validity = imap.response("UIDVALIDITY")[1]
        status, found = imap.uid("SEARCH", "HEADER", header, sought)
        if status != "OK":
            looked.unseen = f"the folder {folder!r} could not be searched: {found}"
            return
        if imap.response("ESEARCH")[1] != [None]:
            looked.unseen = f"the search in {folder!r} was answered in a form that was not asked for"
            return
        uids = b" ".join(line for line in found if isinstance(line, bytes)).split()  # maybe several lines
        if len(uids) > self._candidates:
            looked.unseen = f"the search in {folder!r} brought over {self._candidates} messages"
            uids = uids[: self._candidates]
        for uid in uids:
            size, head = self._fetched(imap, uid, f"(UID RFC822.SIZE BODY.PEEK[HEADER]<0.{HEADER_MAX_BYTES}>)")
            if head is None:
                looked.unseen = f"a message of {folder!r} was gone before it could be read"
                continue
            # The search matches substrings; only an equal header is ours.
            if stamp in _header_values(head, header):
                whole = self._fetched(imap, uid, "(UID BODY.PEEK[])")[1] if size <= MESSAGE_MAX_BYTES else None
                version = f"{_text_of(validity)}:{uid.decode()}"
                looked.found.append(self._reading(folder, stamp, version, size, head, whole))
            elif len(head) >= HEADER_MAX_BYTES:
                looked.unseen = f"a message of {folder!r} has too long a header to be read whole"

    def _fetched(self, imap: imaplib.IMAP4, uid: bytes, what: str) -> tuple[int, bytes | None]:
        """Return size and content of one message, or None. Servers may report other messages in between."""
        status, parts = imap.uid("FETCH", uid.decode("ascii"), what)
        if status != "OK":
            return 0, None
        for index, part in enumerate(parts):
            if not isinstance(part, tuple):
                continue
            after = parts[index + 1] if index + 1 < len(parts) else b""
            told = part[0] + b" " + (after if isinstance(after, bytes) else b"")
            number, size = _UID.search(told), _SIZE.search(told)
            if number is not None and number[1] == uid:
                return int(size[1]) if size else 0, part[1]
        return 0, None

    def _reading(self, folder: str, stamp: str, version: str, size: int, head: bytes, whole: bytes | None) -> Reading:
        message = _parsed(head)
        value: dict[str, Json] = {
            "folder": folder,
            "mailbox": self._user,
            "from": ", ".join(_addresses_in(message, "From")),
            "to": [*_addresses_in(message, "To")],
            # A long header is folded and begins with the fold. Of two, mail programs show either.
            "subject": "\n".join(str(each).lstrip() for each in message.get_all("Subject", [""])),
            "stamp": stamp,
            "message_id": str(message.get("Message-ID", "")),
            "size": size,
            "proves": self._proves,
        }
        read = None if whole is None else _parsed(whole)
        digest = None if read is None else _body_hash(read)
        if digest is not None:
            value["body_sha256"] = digest
        if read is not None:
            value["parts"] = sum(not part.is_multipart() for part in read.walk())
        try:
            return Reading.of(value, version=version, stamp=stamp, complete=digest is not None, forms=_FORMS)
        except CanonError as error:
            raise ReaderTypeError(f"A message in {self.name!r} has no JSON form: {error.message}") from error

    # --- the session -------------------------------------------------------------------------------------------

    @contextmanager
    def _session(self) -> Iterator[imaplib.IMAP4]:
        import imaplib

        with _Watch(self._timeout_s * WHOLE_TIMES) as watch:
            imap = self._connected(watch)
            try:
                try:
                    password = self._password() if callable(self._password) else self._password
                    if not _QUOTABLE.fullmatch(password):
                        raise UsageError(f"The password of {self.name!r} holds characters that IMAP cannot quote.")
                    self._here.password = password
                    imap.login(_quoted(self._user), password)
                except imaplib.IMAP4.abort:
                    raise
                except imaplib.IMAP4.error as error:
                    code = _CODE.search(str(error))
                    if code is not None and code[1] == "UNAVAILABLE":
                        raise imaplib.IMAP4.error("[UNAVAILABLE]") from None  # the text may quote the line
                    raise _LoginError(f"the login was refused{f' ({code[1]})' if code else ''}") from None
                yield imap
            finally:
                with suppress(imaplib.IMAP4.error, OSError):  # LOGOUT adds nothing to the reading.
                    imap.logout()
                with suppress(OSError):
                    imap.shutdown()

    def _connected(self, watch: _Watch) -> imaplib.IMAP4:
        import imaplib
        import ssl

        host, port = self._address
        if self._security == "none":
            return _watched(imaplib.IMAP4, watch)(host, port, timeout=self._timeout_s)
        tls = self._tls or ssl.create_default_context()
        if self._security == "tls":
            return _watched(imaplib.IMAP4_SSL, watch)(host, port, ssl_context=tls, timeout=self._timeout_s)
        imap = _watched(imaplib.IMAP4, watch)(host, port, timeout=self._timeout_s)
        try:
            imap.starttls(tls)
            watch.over(imap.sock)
        except BaseException:
            imap.shutdown()
            raise
        return imap


class _Watch:
    """Close a session's connection when the session's time is over."""

    def __init__(self, seconds: float) -> None:
        self._socket: socket | None = None
        self._is_late = False
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> _Watch:
        """Start the timer. Raises OSError where the system starts no thread."""
        try:
            self._timer.start()
        except RuntimeError as error:
            raise OSError("the system starts no more threads") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()

    def over(self, connection: socket) -> None:
        self._socket = connection
        if self._is_late:
            self._end()

    def _end(self) -> None:
        self._is_late = True
        if self._socket is not None:
            with suppress(OSError):
                socket.shutdown(self._socket, SHUT_RDWR)  # skip TLS's goodbye: TLS would wait for the peer


def _watched(kind: type[_Client], watch: _Watch) -> type[_Client]:
    """Return the library's client with a watched connection, from before the greeting."""

    class Watched(kind):  # type: ignore[misc, valid-type]
        def _create_socket(self, timeout: float | None) -> Any:
            made = super()._create_socket(timeout)
            watch.over(made)
            return made

        def _new_tag(self) -> Any:
            self._read_bytes = self._line_bytes = 0
            return super()._new_tag()

        def read(self, size: int) -> bytes:
            """Read a literal of the announced size. A larger literal is not read at all."""
            self._read_bytes = getattr(self, "_read_bytes", 0) + size
            if self._read_bytes > MESSAGE_MAX_BYTES + HEADER_MAX_BYTES:
                raise self.abort(f"the answer holds over {MESSAGE_MAX_BYTES} bytes")
            return bytes(super().read(size))

        def readline(self) -> bytes:
            line = bytes(super().readline())
            self._line_bytes = getattr(self, "_line_bytes", 0) + len(line)
            if self._line_bytes > LINES_MAX_BYTES:
                raise self.abort(f"the answer has lines of over {LINES_MAX_BYTES} bytes")
            return line

    return Watched


class _LoginError(Exception):
    """The login was rejected: the content of the mailbox is hidden."""


def _quoted(text: str) -> str:
    """Return an IMAP quoted string. The text cannot end the string early."""
    if not _QUOTABLE.fullmatch(text):
        raise UsageError(f"{text!r} cannot be sent over IMAP. Write folder names in modified UTF-7.")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _parsed(raw: bytes) -> EmailMessage:
    from email import message_from_bytes
    from email.policy import default

    return message_from_bytes(raw, policy=default)


def _header_values(head: bytes, header: str) -> list[str]:
    return [str(value).strip() for value in _parsed(head).get_all(header, [])]


def _addresses_in(message: EmailMessage, header: str) -> Iterator[str]:
    from email.utils import getaddresses

    for _, address in getaddresses([str(value) for value in message.get_all(header, [])]):
        if address:
            yield address


def _body_hash(message: EmailMessage) -> str | None:
    """Hash the decoded text, with line endings from the sender's header.

    Without the header, lines end with line feeds, and trailing line feeds are dropped.
    """
    body = message.get_body(("plain", "html"))
    if body is None:
        return None
    try:
        text = body.get_content()
    except (LookupError, ValueError):
        return None  # An unknown encoding: there is no text to hash.
    said = [str(value).strip() for value in message.get_all(ENDS_HEADER, [])]
    plain = with_ends(as_mail(str(text)), said[0] if len(said) == 1 else "")
    return sha256(plain.encode("utf-8", "replace")).hexdigest()


def _text_of(response: object) -> str:
    first = response[0] if isinstance(response, list) and response else None
    return first.decode("ascii", "replace") if isinstance(first, bytes) else ""
