"""Sessions of signed-in people: an opaque cookie, and the credential in the memory of this process alone.

Every request authenticates the credential anew, so a revoked or expired token ends its sessions at once. A session ends
with the process, after a day without a request, and at the sign-out.
Source: OWASP "Session Management Cheat Sheet" and "Cross-Site Request Forgery Prevention Cheat Sheet".
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Final

from readback.canon.frozen import dataclass
from readback.ports.runtime import Runtime
from readback.server.errors import MissingRightError

COOKIE: Final = "readback_session"
SECRET_BYTES: Final = 32
IDLE_US: Final = 86_400_000_000
"""A session without a request ends after a day, in microseconds."""
SESSIONS_MAX: Final = 10_000
"""The session without a request for the longest time is dropped first."""


class ForgeryError(MissingRightError):
    """The form carries no valid token of the session, so another site may have sent the form. Nothing was changed."""

    code = "http.forgery"
    remedy_default = "Open the page again, and send its form."


@dataclass(slots=True)
class SignedIn:
    """One session. `csrf`: the token in the session's forms. `zone`: the chosen time zone."""

    credential: str
    csrf: str
    zone: str
    seen_us: int

    def check_form(self, given: str) -> None:
        """Raise ForgeryError unless the form's token is this session's."""
        if not hmac.compare_digest(given.encode(), self.csrf.encode()):
            raise ForgeryError("The form's token is missing or of another session.")


class Sessions:
    """The sessions of this process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._found: dict[str, SignedIn] = {}

    def begin(self, credential: str, zone: str = "UTC") -> tuple[str, SignedIn]:
        """Return a new session and its cookie's value. The value is never one that a browser sent."""
        name = secrets.token_urlsafe(SECRET_BYTES)
        made = SignedIn(credential, secrets.token_urlsafe(SECRET_BYTES), zone, self._runtime.now_us())
        self._found[name] = made
        while len(self._found) > SESSIONS_MAX:
            del self._found[next(iter(self._found))]
        return name, made

    def get(self, name: str) -> SignedIn | None:
        """Return the session of a cookie's value; None for an unknown or ended session."""
        found, now_us = self._found.pop(name, None), self._runtime.now_us()
        if found is None or now_us - found.seen_us > IDLE_US:
            return None
        found.seen_us = now_us
        self._found[name] = found  # last in the order of removal
        return found

    def peek(self, name: str) -> SignedIn | None:
        """Return the session of a cookie's value without a mark of use; None for an unknown session."""
        return self._found.get(name)

    def end(self, name: str) -> None:
        """End a session."""
        self._found.pop(name, None)


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
