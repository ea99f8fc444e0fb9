"""`readback ledger keys`: the log's own key, with which its checkpoints are signed. Not an approver's: see `keys`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from readback import bootstrap
from readback.commands import options
from readback.commands.opening import settings_of
from readback.commands.terminal import note, print_json, safe
from readback.domain.errors import SettingsError, UsageError
from readback.ledger.note import VerifierKey, parse_key
from readback.lifecycle.attest import Authority, key_of

if TYPE_CHECKING:
    from readback.ports.signer import LogSigner

VARIABLE: Final = "READBACK_SIGNING_KEY_FILE"
KEY_FILE: Final = click.option("--key-file", metavar="FILE", help=f"The file of the log's own key ({VARIABLE}).")
VERIFIER: Final = click.option("--key", metavar="VKEY", help="The log's verifier key; else that of the own key file.")


def key_path(given: str | None) -> Path:
    """The file of the log's key. Raises SettingsError where nobody named one."""
    named = given or settings_of().signing_key_file
    if not named:
        raise SettingsError(
            "No key of the log is named.",
            remedy=f"Make one with `readback ledger keys create --key-file FILE`, and set {VARIABLE} to it.",
            code="settings.signing-key",
        )
    return Path(named)


def signer(given: str | None) -> LogSigner:
    """The log's key, opened. Raises SettingsError."""
    return bootstrap.log_key(key_path(given))


def authority_of(signing: LogSigner) -> Authority:
    """Who signs here, and how that is checked."""
    return Authority(key_of(signing), bootstrap.verify_signature)


def trusted(given: str | None) -> Authority:
    """Whose signatures count: the verifier key that was given, else this installation's own. Raises UsageError."""
    if given is not None:
        return Authority(parse_key(given), bootstrap.verify_signature)
    if not settings_of().signing_key_file:
        raise UsageError(
            "Nothing says by which key the checkpoint has to be signed.",
            remedy=f"Pass --key with what `readback ledger keys show` printed, or set {VARIABLE}.",
        )
    return authority_of(signer(None))


@click.group("keys")
def log_keys() -> None:
    """The log's own key, with which checkpoints are signed."""


@log_keys.command("create")
@KEY_FILE
@click.option("--name", metavar="NAME", default="", help="The log's name, as a URL without scheme; else one is made.")
@options.as_json
def create(key_file: str | None, name: str, as_json: bool) -> int:
    """Make a key in a new file (mode 0600), and print its verifier key.

    The name is the log's own and stands in every checkpoint: one key and one name for each ledger. The key has no
    passphrase, so that a service can sign; whoever can read the file can sign in the log's name.
    """
    path = key_path(key_file)
    return _tell(path, key_of(bootstrap.create_log_key(path, name)), as_json=as_json, fresh=True)


@log_keys.command("show")
@KEY_FILE
@options.as_json
def show(key_file: str | None, as_json: bool) -> int:
    """Print the verifier key: what others need in order to check, and what may be known to all."""
    path = key_path(key_file)
    return _tell(path, key_of(bootstrap.log_key(path)), as_json=as_json, fresh=False)


def _tell(path: Path, key: VerifierKey, *, as_json: bool, fresh: bool) -> int:
    if as_json:
        print_json({"file": str(path), "name": key.name, "key_id": key.key_id.hex(), "key": str(key)})
        return 0
    print(str(key))
    note(f"The key of the log {safe(key.name)} in {safe(path)}.")
    if fresh:
        note(f"Next: set {VARIABLE}={safe(path)}, and give the line above to whoever is to check.")
    return 0
