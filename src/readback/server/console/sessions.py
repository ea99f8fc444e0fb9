"""Sessions of signed-in people: an opaque cookie, and a row in a private database of the server's processes.

Every request authenticates the credential anew, so a revoked or expired token ends its sessions at once. A session ends
with the server, after a day without a request, and at the sign-out. The database holds a hash of the cookie, and the
credential encrypted under the cookie: without the browser's cookie, no row yields a credential.
Source: OWASP "Session Management Cheat Sheet" and "Cross-Site Request Forgery Prevention Cheat Sheet"; RFC 5869 (HKDF)
and NIST SP 800-38D (AES-GCM).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
from http.cookies import CookieError, SimpleCookie
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from readback.canon.frozen import dataclass
from readback.ports.runtime import Runtime
from readback.server.errors import MissingRightError
from readback.server.settings import IN_MEMORY

COOKIE: Final = "readback_session"
SECRET_BYTES: Final = 32
NONCE: Final = bytes(12)
"""Each key encrypts one credential only, so the nonce may be constant."""
IDLE_US: Final = 86_400_000_000
"""A session without a request ends after a day, in microseconds."""
SEEN_STEP_US: Final = 60_000_000
"""A request within this time after the last noted one is not noted: most requests then write nothing."""
SESSIONS_MAX: Final = 10_000
"""The session without a request for the longest time is dropped first."""
BUSY_MS: Final = 5_000
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS session (
    name BLOB PRIMARY KEY, credential BLOB NOT NULL, holder BLOB NOT NULL,
    csrf TEXT NOT NULL, zone TEXT NOT NULL, seen_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS session_seen ON session (seen_us);
CREATE INDEX IF NOT EXISTS session_holder ON session (holder);
"""
_DROP_OLDEST: Final = "DELETE FROM session WHERE name IN (SELECT name FROM session ORDER BY seen_us LIMIT ?)"


class ForgeryError(MissingRightError):
    """The form carries no valid token of the session, so another site may have sent the form. Nothing was changed."""

    code = "http.forgery"
    remedy_default = "Open the page again, and send its form."


@dataclass(frozen=True, slots=True)
class SignedIn:
    """One session. `csrf`: the token in the session's forms. `zone`: the chosen time zone."""

    name: str
    credential: str
    csrf: str
    zone: str

    def check_form(self, given: str) -> None:
        """Raise ForgeryError unless the form's token is this session's."""
        if not hmac.compare_digest(given.encode(), self.csrf.encode()):
            raise ForgeryError("The form's token is missing or of another session.")


class Sessions:
    """The sessions of a server. `path`: a file shared by all processes of the server; the default is this process."""

    def __init__(self, runtime: Runtime, path: str = IN_MEMORY) -> None:
        self._runtime = runtime
        self._rows = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._rows.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        self._rows.execute("PRAGMA synchronous = OFF")  # a session ends with the server in any case
        self._rows.execute("PRAGMA secure_delete = ON")
        self._rows.executescript(_SCHEMA)

    def begin(self, credential: str, holder: str, zone: str = "UTC") -> tuple[str, SignedIn]:
        """Return a new session and its cookie's value. The value is never one that a browser sent.

        `holder`: the id of the caller's token. All tokens of one person at an identity provider have the same id.
        """
        name, csrf = secrets.token_urlsafe(SECRET_BYTES), secrets.token_urlsafe(SECRET_BYTES)
        hidden = AESGCM(_digest("key", name)).encrypt(NONCE, credential.encode(), None)
        row = (_digest("name", name), hidden, _digest("holder", holder), csrf, zone, self._runtime.now_us())
        self._rows.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", row)
        [(count,)] = self._rows.execute("SELECT count(*) FROM session")
        if count > SESSIONS_MAX:
            self._rows.execute(_DROP_OLDEST, (count - SESSIONS_MAX,))
        return name, SignedIn(name, credential, csrf, zone)

    def get(self, name: str) -> SignedIn | None:
        """Return the session of a cookie's value, and note its use; None for an unknown or ended session."""
        return self._found(name, self._runtime.now_us())

    def peek(self, name: str) -> SignedIn | None:
        """Return the session of a cookie's value without a mark of use; None for an unknown or ended session."""
        return self._found(name, 0)

    def choose_zone(self, session: SignedIn, zone: str) -> None:
        """Change the time zone of a session."""
        self._rows.execute("UPDATE session SET zone = ? WHERE name = ?", (zone, _digest("name", session.name)))

    def end(self, name: str) -> None:
        """End a session."""
        self._rows.execute("DELETE FROM session WHERE name = ?", (_digest("name", name),))

    def end_all(self, holder: str) -> int:
        """End every session of this holder. Return their number."""
        return self._rows.execute("DELETE FROM session WHERE holder = ?", (_digest("holder", holder),)).rowcount

    def close(self) -> None:
        """Close the database. May be called twice."""
        self._rows.close()

    def _found(self, name: str, used_us: int) -> SignedIn | None:
        key = _digest("name", name)
        sql = "SELECT credential, csrf, zone, seen_us FROM session WHERE name = ?"
        found = self._rows.execute(sql, (key,)).fetchone()
        if found is None:
            return None
        hidden, csrf, zone, seen_us = found
        if used_us and used_us - seen_us > IDLE_US:
            self.end(name)
            return None
        if used_us - seen_us > SEEN_STEP_US:
            self._rows.execute("UPDATE session SET seen_us = ? WHERE name = ?", (used_us, key))
        try:
            credential = AESGCM(_digest("key", name)).decrypt(NONCE, hidden, None)
        except InvalidTag:
            return None
        return SignedIn(name, credential.decode(), csrf, zone)


def _digest(use: str, secret: str) -> bytes:
    """Return 32 bytes for one use of a secret. The secrets are random, so a fast hash serves."""
    return hmac.digest(f"readback session {use}".encode(), secret.encode(), hashlib.sha256)


def cookie_of(headers: dict[bytes, bytes]) -> str:
    """Return the value of the session's cookie; "" without one."""
    try:
        jar = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return ""
    return jar[COOKIE].value if COOKIE in jar else ""


def set_cookie(name: str, *, secure: bool) -> bytes:
    """Return the header that sets the cookie. `secure`: the browser reaches the server over HTTPS.

    SameSite is Lax: a link from a chat opens a page, and no request from another site changes anything.
    """
    return f"{COOKIE}={name}; Path=/; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}".encode()


def clear_cookie() -> bytes:
    """Return the header that removes the cookie."""
    return f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax".encode()
