"""Bearer tokens: made on the command line, stored as SHA-256, and read again when their file changes.

A token holds 256 random bits, so a plain SHA-256 resists guessing, and a look-up by digest needs no secret comparison:
an attacker cannot choose the digest of a guess. The file has mode 0600 and is replaced as a whole.
Source: RFC 6750 (bearer tokens); OWASP "Session Management Cheat Sheet", entropy of identifiers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from readback.client.session import check_id
from readback.errors import NotFoundError, SettingsError, UnknownPrincipalError, UnknownTenantError, UsageError
from readback.server.access.principal import Caller, Right, rights_of
from readback.server.errors import UnauthenticatedError

PREFIX: Final = "rbk_"
SECRET_BYTES: Final = 32
TOKEN_MAX_CHARS: Final = 8_192
"""The longest accepted credential in characters; a JWT of an identity provider may be long."""
FILE_MAX_BYTES: Final = 4 * 1024 * 1024
TOKENS_MAX: Final = 10_000
RATE_MAX_PER_MINUTE: Final = 1_000_000
OTHERS: Final = 0o077
US: Final = 1_000_000


class TokenEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token at rest. `digest`: SHA-256 of the token in hex. `expires_us`: 0 for a token without an end."""

    id: str
    digest: str
    tenant: str
    principal: str
    rights: list[str]
    created_us: int
    expires_us: int = 0
    note: str = ""
    rate_per_minute: int = 0


class TokenDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file of tokens."""

    tokens: list[TokenEntry]
    schema: int = 1


class TokenFile:
    """The tokens of a server. Readers see a change at their next look.

    Raises SettingsError for a file that other users may read or write, and for a malformed file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen: tuple[int, int, int] = (0, 0, 0)
        self._by_digest: dict[str, tuple[TokenEntry, Caller]] = {}

    def authenticate(self, token: str, now_us: int) -> Caller:
        """Return the caller of a token. Raises UnauthenticatedError for an unknown, revoked or expired token."""
        self._refresh()
        found = self._by_digest.get(hashlib.sha256(token.encode("utf-8", "replace")).hexdigest())
        if found is None or 0 < found[0].expires_us <= now_us:
            raise UnauthenticatedError("The token is unknown, revoked or expired.")
        return found[1]

    def create(
        self,
        *,
        tenant: str,
        principal: str,
        rights: tuple[str, ...],
        now_us: int,
        lifetime_s: float | None = None,
        note: str = "",
        rate_per_minute: int = 0,
    ) -> tuple[str, TokenEntry]:
        """Add a token and return the token with its entry. Only the caller ever sees the token.

        Raises:
            UsageError: a parameter is invalid, or the file is full.
            SettingsError: the file cannot be used.
        """
        check_id("tenant", tenant, UnknownTenantError)
        check_id("principal", principal, UnknownPrincipalError)
        check_id("note", note, UsageError, may_be_empty=True)
        held = rights_of(rights)
        if not 0 <= rate_per_minute <= RATE_MAX_PER_MINUTE:
            raise UsageError(f"The rate is not a number from 0 to {RATE_MAX_PER_MINUTE} requests a minute.")
        token = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        digest = hashlib.sha256(token.encode()).hexdigest()
        entry = TokenEntry(
            id=f"tok_{digest[:12]}",
            digest=digest,
            tenant=tenant,
            principal=principal,
            rights=sorted(held),
            created_us=now_us,
            expires_us=0 if lifetime_s is None else now_us + int(lifetime_s * US),
            note=note,
            rate_per_minute=rate_per_minute,
        )
        with self._changing() as entries:
            if len(entries) >= TOKENS_MAX:
                raise UsageError(f"{self.path} holds {TOKENS_MAX} tokens, the maximum.", remedy="Revoke old tokens.")
            entries.append(entry)
        return token, entry

    def revoke(self, token_id: str) -> TokenEntry:
        """Remove a token by its id. Raises NotFoundError for an unknown id."""
        with self._changing() as entries:
            for at, each in enumerate(entries):
                if each.id == token_id:
                    del entries[at]
                    return each
            raise NotFoundError(
                f"There is no token {token_id!r:.80} in {self.path}.", remedy="Run `readback token list`."
            )

    def entries(self) -> list[TokenEntry]:
        """Return the tokens at rest, the oldest first."""
        return self._read()

    def _refresh(self) -> None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            self._seen, self._by_digest = (0, 0, 0), {}
            return
        except OSError as error:
            raise SettingsError(f"The tokens in {self.path} cannot be read: {error.strerror}.") from error
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen != self._seen:
            self._by_digest = {each.digest: (each, _caller(each)) for each in self._read()}
            self._seen = seen

    def _read(self) -> list[TokenEntry]:
        try:
            with open(self.path, "rb") as file:
                mode = os.fstat(file.fileno())
                if mode.st_mode & OTHERS or not stat.S_ISREG(mode.st_mode):
                    raise SettingsError(
                        f"Other users may read or write the tokens in {self.path}.",
                        remedy=f"Run `chmod 600 {self.path}`.",
                    )
                content = file.read(FILE_MAX_BYTES + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SettingsError(f"The tokens in {self.path} cannot be read: {error.strerror}.") from error
        try:
            document = msgspec.json.decode(content, type=TokenDocument)
            for each in document.tokens:
                rights_of(each.rights)
        except (msgspec.DecodeError, UsageError) as error:
            raise SettingsError(
                f"{self.path} is no file of tokens: {error}", remedy="Restore the file, or create new tokens."
            ) from error
        return document.tokens

    @contextmanager
    def _changing(self) -> Iterator[list[TokenEntry]]:
        """Yield the entries for a change, one process at a time; the file is replaced where no error is raised."""
        with _locked(self.path):
            entries = self._read()
            yield entries
            fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            content = msgspec.json.format(msgspec.json.encode(TokenDocument(entries)), indent=1)
            try:
                handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(handle, "wb") as file:
                    file.write(content + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(fresh, self.path)
            except OSError as error:
                raise SettingsError(f"The tokens cannot be written to {self.path}: {error.strerror}.") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of the file of tokens. Raises SettingsError where the folder cannot be used."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SettingsError(f"The folder {path.parent} cannot be used: {error.strerror}.") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _caller(entry: TokenEntry) -> Caller:
    held = frozenset(Right(each) for each in entry.rights)
    return Caller(entry.tenant, entry.principal, held, entry.id, entry.rate_per_minute)


Authenticate = Callable[[str], Caller]
"""Returns the caller of a credential. Raises UnauthenticatedError."""
