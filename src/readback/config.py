"""Settings, read once: parameters win over the environment, the environment over files, and files over defaults.

Called by bootstrap and the command line. There are two files: `config.toml` in the user's own configuration folder, and
`readback.toml` in the working folder. An agent may be able to write the local file, so that file counts only where the
user's file pins its SHA-256. Otherwise it is ignored, and `ignored_file` names the path.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from readback.canon.digest import sha256_hex
from readback.canon.frozen import dataclass
from readback.contracts.documents.own_files import LEDGER_ENDINGS, keep, keep_folder
from readback.domain.contract.approval import Approver, approvers_of
from readback.domain.contract.limits import NO_LIMITS, Limits, limits_of
from readback.domain.records.seal_schedule import SEAL_DEFAULT, SealSchedule, seal_schedule_of
from readback.domain.records.subscriber import FALLBACK, Subscriber, subscriber_of, subscribers_of
from readback.errors import SettingsError

URL_DEFAULT: Final = "sqlite:///readback.db"
SQLITE_PREFIX: Final = "sqlite:///"
TENANT_DEFAULT: Final = "default"
PRINCIPAL_DEFAULT: Final = "agent:local"
FILE_MAX_BYTES: Final = 65_536
PACK: Final = "pack:"
"""The prefix that names a contract pack of the package; see `contracts.packs`."""
LOCAL_FILE: Final = "readback.toml"
USER_FILE: Final = "config.toml"
LISTS: Final = frozenset({"contracts", "log_keys", "scopes", "shadow"})
LIMITS: Final = "limits"
SUBSCRIBERS: Final = "subscribers"
SEAL: Final = "seal"
SECRET_MAX_BYTES: Final = 4_096
APPROVERS: Final = "approvers"
OTHERS_MAY_WRITE: Final = 0o022
TRUSTED: Final = "trusted"
"""The table of the user's file that pins local ones: absolute path = SHA-256 in hex."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The ledger, the tenant and principal, the contract modules, and the recovery table."""

    url: str = URL_DEFAULT
    tenant: str = TENANT_DEFAULT
    principal: str = PRINCIPAL_DEFAULT
    contracts: tuple[str, ...] = ()
    recovery_table: str = ""
    """The file of the operator's own recovery table; "" for the default table."""
    table_pin: str = ""
    """The SHA-256 required of the recovery table, where the user's own file pins one."""
    contract_pins: tuple[tuple[str, str], ...] = ()
    """Contract files by absolute path, with the SHA-256 pinned in the user's own file."""
    subscribers: tuple[Subscriber, ...] = ()
    """Receivers of ledger messages, by `[subscribers.NAME]`; only from files."""
    fallback: Subscriber | None = None
    """The receiver of undelivered messages, by `[fallback]`; None for the file beside the ledger."""
    approvers: tuple[Approver, ...] = ()
    """Approvers, by `[approvers.NAME]`; only from files, and never from a file that other users may write."""
    scopes: tuple[str, ...] = ()
    """The permission scopes of this client, where a program names none."""
    limits: Limits = NO_LIMITS
    """Limits of each tenant, by `[limits]` and `[limits.TENANT]`; only from files."""
    signing_key_file: str = ""
    """The file with the log's own key for signing checkpoints; "" where nothing is signed here."""
    log_keys: tuple[str, ...] = ()
    """Further verifier keys of the log: keys used earlier, or all keys where this machine has no signing key."""
    seal: SealSchedule = SEAL_DEFAULT
    """How often checkpoints are signed and where copies go, by `[seal]`; only from files."""
    shadow: tuple[str, ...] = ()
    """Contracts that may run in shadow mode, or "*"; only from files, so that no agent can switch verification off."""
    ignored_file: str = ""
    """A `readback.toml` in the working folder that does not count, because the user's file pins no hash for it."""


def settings(
    *,
    url: str | None = None,
    tenant: str | None = None,
    principal: str | None = None,
    contracts: tuple[str, ...] = (),
    recovery_table: str | None = None,
) -> Settings:
    """Return the settings in force. Environment: READBACK_URL, _TENANT, _PRINCIPAL, _TABLE, _SIGNING_KEY_FILE;
    _CONTRACTS, _SCOPES (separated by commas).

    Raises SettingsError for a malformed file or an unknown key.
    """
    environment = os.environ
    named = environment.get("READBACK_CONTRACTS", "").replace(",", " ").split()
    scopes = environment.get("READBACK_SCOPES", "").replace(",", " ").split()
    said: dict[str, object] = {
        "url": url if url is not None else environment.get("READBACK_URL") or None,
        "tenant": tenant if tenant is not None else environment.get("READBACK_TENANT") or None,
        "principal": principal if principal is not None else environment.get("READBACK_PRINCIPAL") or None,
        "contracts": contracts or tuple(named) or None,
        "scopes": tuple(scopes) or None,
        "recovery_table": recovery_table if recovery_table is not None else environment.get("READBACK_TABLE") or None,
        "signing_key_file": environment.get("READBACK_SIGNING_KEY_FILE") or None,
    }
    filed, pins = _filed()
    given = {name: value for name, value in said.items() if value is not None}
    found = replace(filed, **given)  # type: ignore[arg-type]  # the names are those of the fields
    files = sorted({str(Path(name).absolute()) for name in found.contracts if is_contract_file(name)})
    _keep_named(found)
    return replace(
        found,
        table_pin=_pin(found.recovery_table, pins) if found.recovery_table else "",
        contract_pins=tuple((path, pin) for path in files if (pin := _pin(path, pins))),
    )


def _keep_named(found: Settings) -> None:
    """Register the named files as Readback's own, also where a command opens none of them."""
    if found.url.startswith(SQLITE_PREFIX) and "\0" not in (ledger := unquote(found.url.removeprefix(SQLITE_PREFIX))):
        keep(ledger, LEDGER_ENDINGS)
    for named in (found.recovery_table, found.signing_key_file):
        if named:
            keep(named)
    for named in found.contracts:
        if is_contract_file(named) and not named.startswith(PACK):
            keep(named)


def pin_of(path: str | Path) -> str:
    """Return the SHA-256 pinned for a file in the user's own file; "" for none. Raises SettingsError."""
    user = user_folder() / USER_FILE
    return _pin(path, _pins(_table(user, _text(user))))


def _pins(mine: dict[str, object]) -> dict[str, str]:
    """Remove and return the pins of the user's own file, by path. An empty pin matches no file."""
    trusted = mine.pop(TRUSTED, {})
    return {str(path): str(pin) or "empty" for path, pin in trusted.items()} if isinstance(trusted, dict) else {}


def _pin(path: str | Path, pins: Mapping[str, str]) -> str:
    """Return the pin of a file.

    A pinned path may reach the file through a link; otherwise a link would bypass the pin.
    """
    absolute = str(Path(path).absolute())
    if absolute in pins or not pins:
        return pins.get(absolute, "")
    meant = os.path.realpath(absolute)
    return next((pin for named, pin in pins.items() if os.path.realpath(named) == meant), "")


_HIDES: Final = re.compile(r"[^/?:\[]+:(?!\d*(?:[,/?]|$))|[^/?]+/[^?]*@")
"""The text before an @ is a password with unencoded characters: no port follows the colon, or the @ stands in the
database's name.
"""


_KEY_WORD: Final = re.compile(r"\s*\b\w*password\s*=\s*(?:'(?:[^'\\]|\\.)*'?|[^\s']*)", re.IGNORECASE)
"""A password among key words, as libpq accepts without a URL."""


def shown(url: str) -> str:
    """Return a ledger's URL without its password. Text that is no URL is redacted in the same way."""
    if "://" not in url and "=" in url:
        return _KEY_WORD.sub("", url).strip()
    scheme, colon, rest = url.partition("://")
    if not colon and "@" in url:  # the slashes are missing
        scheme, colon, rest = url.partition(":")
    first = re.split("[/?]", rest, maxsplit=1)[0]
    place, at, host = first.rpartition("@")
    host += rest[len(first) :]
    if not at and _HIDES.match(rest):
        place, at, host = rest.rpartition("@")
    address = f"{scheme}{colon}{place.partition(':')[0]}{at}{host}" if at else url
    path, asked, query = address.partition("?")
    kept = [_without(one) for one in query.split("&") if "password" not in one.partition("=")[0].lower()]
    return path + (asked + "&".join(kept) if any(kept) else "")


def _without(option: str) -> str:
    """Return an option of a URL; an option that is a URL itself loses its password."""
    name, equals, value = option.partition("=")
    inner = unquote(value)
    return name + equals + shown(inner) if "://" in inner and "@" in inner else option


def is_contract_file(named: str) -> bool:
    """Return whether a name means a contract file or a pack of the package rather than a Python module."""
    return named.startswith(PACK) or named.endswith((".yaml", ".yml"))


def secret_at(reference: str) -> bytes:
    """Return the referenced secret without the line's end. Raises SettingsError for an invalid reference."""
    kind, _, name = reference.partition(":")
    found: bytes | None = None
    if kind == "env" and name:
        said = os.environ.get(name)
        found = said.encode() if said is not None else None
    elif kind == "file" and name:
        found = _text(Path(name).expanduser(), pipes=True)
    else:
        raise SettingsError(
            "A secret must be a reference; settings never contain the secret itself.",
            remedy="Write env:NAME for an environment variable, or file:PATH for a file.",
        )
    if not found or len(found) > SECRET_MAX_BYTES:
        raise SettingsError(f"No secret found at {reference}.", remedy="Create the secret, or correct the reference.")
    return found.rstrip(b"\r\n")


def user_folder() -> Path:
    """Return the user's own configuration folder for Readback. The folder need not exist."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(home) / "readback"


def _filed() -> tuple[Settings, dict[str, str]]:
    """Return the settings of the files over the defaults, and the hashes pinned in the user's own file, by path."""
    user = user_folder() / USER_FILE
    keep_folder(user_folder())
    mine = _table(user, _text(user))
    pins = _pins(mine)
    found = _checked(user, mine)
    try:
        here = Path.cwd() / LOCAL_FILE
    except FileNotFoundError:  # the folder was deleted under this process
        return replace(Settings(), **found), pins  # type: ignore[arg-type]
    keep(here)  # also where there is none: who makes one would give this folder settings
    content = _text(here) if str(here) in pins else None  # what cannot count is not opened: it may be anything
    if content is None or pins[str(here)] != sha256_hex(content):
        ignored = str(here) if os.path.exists(here) else ""
        return replace(Settings(), **found, ignored_file=ignored), pins  # type: ignore[arg-type]
    local = _checked(here, _table(here, content))
    table = str(local.get("recovery_table", ""))
    if table and table not in pins:
        # A writer of this file may write the table too. The pin on this file does not cover the table.
        raise SettingsError(
            f"The recovery table {table} named in {here} is not pinned.",
            remedy=f"Pin its SHA-256 in the user's own {USER_FILE} under [{TRUSTED}], or name the file there.",
        )
    named = local.get("contracts")
    files = [one for one in named if is_contract_file(one)] if isinstance(named, tuple) else []
    loose = [one for one in files if one not in pins and not one.startswith(PACK)]
    if loose:
        raise SettingsError(
            f"The contract file {loose[0]} named in {here} is not pinned.",
            remedy=f"Pin its SHA-256 in the user's own {USER_FILE} under [{TRUSTED}], or name the file there.",
        )
    return replace(Settings(), **found | local), pins  # type: ignore[arg-type]


def _text(path: Path, *, pipes: bool = False) -> bytes | None:
    """Read a file. `pipes`: allow a pipe, and wait for its writer. A pipe for settings would block every command."""
    keep(path)
    try:
        with open(path, "rb", opener=None if pipes else _unwaiting) as file:
            if not pipes and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "the file is a pipe")
            content = file.read(FILE_MAX_BYTES + 1) or b""
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(
            f"The settings file {path} cannot be read: {error.strerror}.",
            remedy="Correct the file's permissions, or remove the file.",
        ) from error
    if len(content) > FILE_MAX_BYTES:
        raise SettingsError(f"The settings file {path} is over {FILE_MAX_BYTES} bytes.", remedy="Make it smaller.")
    return content


def _unwaiting(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)


def _table(path: Path, content: bytes | None) -> dict[str, object]:
    if content is None:
        return {}
    import tomllib  # most processes have no settings file

    try:
        return dict(tomllib.loads(content.decode()))
    except ValueError as error:
        raise SettingsError(
            f"The settings file {path} is not valid TOML: {error}.", remedy="Correct the file, or remove it."
        ) from error


def _checked(path: Path, given: Mapping[str, object]) -> dict[str, object]:
    table = dict(given)
    listed_approvers, limits, seal = table.pop(APPROVERS, None), table.pop(LIMITS, None), table.pop(SEAL, None)
    told, fallback = table.pop(SUBSCRIBERS, None), table.pop(FALLBACK, None)
    known = {field.name for field in fields(Settings)} - {"ignored_file", "table_pin", "contract_pins"}
    for name, value in table.items():
        if name not in known:
            raise SettingsError(
                f"The settings file {path} has an unknown key: {name!r}.",
                remedy=f"Valid keys: {', '.join(sorted(known))}; in the user's own file also [{TRUSTED}].",
            )
        listed = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not (listed if name in LISTS else isinstance(value, str)):
            wanted = "a list of texts" if name in LISTS else "a text"
            raise SettingsError(f"The key {name!r} of {path} is not {wanted}.", remedy="Correct the file.")
    found: dict[str, object] = {n: tuple(value) if isinstance(value, list) else value for n, value in table.items()}
    if listed_approvers is not None:
        _check_rights(path)
        found[APPROVERS] = approvers_of(listed_approvers, str(path))
    if limits is not None:
        if not isinstance(limits, dict):
            raise SettingsError(f"The key {LIMITS!r} of {path} is not a table.", remedy=f"Write it as [{LIMITS}].")
        found[LIMITS] = limits_of(limits)
    if told is not None:
        found[SUBSCRIBERS] = tuple(_placed(path, each) for each in subscribers_of(told, str(path)))
    if fallback is not None:
        found[FALLBACK] = _placed(path, subscriber_of(FALLBACK, fallback, str(path)))
    if seal is not None:
        if not isinstance(seal, dict):
            raise SettingsError(f"The key {SEAL!r} of {path} is not a table.", remedy=f"Write it as [{SEAL}].")
        found[SEAL] = seal_schedule_of(seal, f"[{SEAL}] of {path}")
    for name in ("recovery_table", "signing_key_file"):
        if found.get(name):
            found[name] = str((path.parent / str(found[name])).absolute())  # beside its file
    named = found.get("contracts")
    if isinstance(named, tuple):
        beside = [one for one in named if is_contract_file(one) and not one.startswith(PACK)]
        found["contracts"] = tuple(str((path.parent / one).absolute()) if one in beside else one for one in named)
    return found


def _placed(path: Path, subscriber: Subscriber) -> Subscriber:
    """Resolve a setting's file relative to the settings file."""
    named = Path(subscriber.file).expanduser() if subscriber.file else None
    return subscriber if named is None else replace(subscriber, file=str((path.parent / named).absolute()))


def _check_rights(path: Path) -> None:
    """Writing the list of approvers amounts to approving: only the owner may, and must be the user or root."""
    found = path.stat()
    if found.st_mode & OTHERS_MAY_WRITE or found.st_uid not in (0, os.geteuid()):
        raise SettingsError(
            f"The settings file {path} lists approvers, and other users may write the file.",
            remedy=f"Run: chmod go-w {path}; the owner must be you or root.",
        )
