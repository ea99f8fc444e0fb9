"""The settings of a server: the address, authentication, limits, identity providers and senders of webhooks.

Read from the command line and from `server.toml` in the user's own configuration folder. Secrets are references
(`env:NAME`, `file:PATH`), never values.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from readback.canon.frozen import dataclass
from readback.config import user_folder
from readback.errors import SettingsError, UsageError
from readback.host_names import is_loopback
from readback.server.access.oidc import Issuer
from readback.server.access.principal import rights_of
from readback.server.access.webhooks import Sender, check_sender

PORT_DEFAULT: Final = 8787
TOKENS_FILE: Final = "server-tokens.json"
SERVER_FILE: Final = "server.toml"
FILE_MAX_BYTES: Final = 65_536
IN_MEMORY: Final = ":memory:"
BODY_MAX_BYTES: Final = 1024 * 1024
IN_FLIGHT_MAX: Final = 2_048
RATE_PER_MINUTE: Final = 60_000
OTHERS_MAY_WRITE: Final = 0o022
_LOCAL_OR_SECURE: Final = re.compile(r"https://|http://(?:127\.0\.0\.1|localhost)(?::\d+)?(?:/|$)")


class ServerDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `server.toml`."""

    oidc: dict[str, Issuer] = msgspec.field(default_factory=dict)
    webhooks: dict[str, Sender] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All settings of one server besides the ledger's.

    Attributes:
        open_access: Serve without authentication, in the name of the ledger settings' tenant and principal. Allowed on
            loopback alone.
        rate_per_minute: Requests of each token in a minute, where the token has no rate of its own; 0 for no limit.
        worker: Continue due actions of all tenants in this process.
        processes: The number of processes behind the address.
        shared: A private folder of all processes of this server; "" for a server of one process.
    """

    host: str = "127.0.0.1"
    port: int = PORT_DEFAULT
    allow_hosts: tuple[str, ...] = ()
    open_access: bool = False
    tokens_file: str = ""
    issuers: tuple[tuple[str, Issuer], ...] = ()
    webhooks: tuple[tuple[str, Sender], ...] = ()
    rate_per_minute: int = RATE_PER_MINUTE
    body_max_bytes: int = BODY_MAX_BYTES
    in_flight_max: int = IN_FLIGHT_MAX
    worker: bool = True
    processes: int = 1
    shared: str = ""

    def shared_file(self, name: str) -> str:
        """Return the path of a file shared by the server's processes; ":memory:" for a server of one process."""
        return str(Path(self.shared) / name) if self.shared else IN_MEMORY

    def check(self) -> ServerSettings:
        """Return these settings. Raises SettingsError for access without authentication beyond loopback."""
        if self.open_access and (not is_loopback(self.host) or self.allow_hosts):
            raise SettingsError(
                f"Access without tokens at {self.host} would let every machine in the network act.",
                remedy="Serve at 127.0.0.1 without --allow-host, or leave --without-tokens out and create tokens.",
            )
        return self


def tokens_path(named: str | None = None) -> Path:
    """Return the file of tokens: the named one, READBACK_TOKENS_FILE, or the file in the user's own folder."""
    given = named or os.environ.get("READBACK_TOKENS_FILE") or ""
    return Path(given) if given else user_folder() / TOKENS_FILE


def server_document(named: str | None = None) -> ServerDocument:
    """Return the content of `server.toml`, or of the named file. A missing default file is empty.

    Raises SettingsError for a malformed file, and for a file that other users may write.
    """
    path = Path(named) if named else user_folder() / SERVER_FILE
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & OTHERS_MAY_WRITE or not stat.S_ISREG(mode):
                raise SettingsError(f"Other users may write {path}.", remedy=f"Run `chmod go-w {path}`.")
            content = file.read(FILE_MAX_BYTES + 1)
    except FileNotFoundError as error:
        if named:
            raise SettingsError(f"There is no file {path}.", remedy="Create the file, or omit --config.") from error
        return ServerDocument()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        return _checked(msgspec.convert(_table(content), ServerDocument))
    except (msgspec.ValidationError, UsageError, SettingsError, ValueError) as error:
        raise SettingsError(
            f"{path} is not usable: {error}", remedy="Compare the file with docs/how-to/serve-http.md."
        ) from error


def _table(content: bytes) -> Mapping[str, object]:
    if len(content) > FILE_MAX_BYTES:
        raise ValueError(f"the file exceeds {FILE_MAX_BYTES} bytes")
    return tomllib.loads(content.decode())


def _checked(document: ServerDocument) -> ServerDocument:
    for name, issuer in document.oidc.items():
        if issuer.rights:
            rights_of(issuer.rights)
        weak = [each for each in issuer.algorithms if each.startswith("HS") or each.lower() == "none"]
        if weak or not issuer.algorithms:
            raise ValueError(f"oidc.{name}.algorithms must list public-key algorithms (got {weak})")
        if not _LOCAL_OR_SECURE.match(issuer.issuer):
            raise ValueError(f"oidc.{name}.issuer must be an https:// URL")
        if not issuer.audience:
            raise ValueError(f"oidc.{name}.audience is empty")
    for name, sender in document.webhooks.items():
        check_sender(name, sender)
    return document
