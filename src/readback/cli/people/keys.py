"""`readback keys`: keys of approvers. A private key file is readable by its owner only, and needs a passphrase.

The passphrase is asked at the terminal. No option, variable or pipe can supply it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from readback import bootstrap
from readback.canon import Json, parse_json
from readback.cli import options
from readback.cli.people.approve import KEY_FILE_VARIABLE, key_file, show, sign
from readback.cli.prompt import terminal
from readback.cli.sessions import settings_of
from readback.cli.terminal import note, print_json, safe
from readback.client.approving import ApproverKey
from readback.config import USER_FILE, user_folder
from readback.domain.contract.approval import BOUND_MAX_BYTES, Bound, Decision, Policy, bound_from, key_id
from readback.errors import ApprovalError, UsageError

KEY_OPTION: Final = click.option("--key", metavar="FILE", help=f"The key file ({KEY_FILE_VARIABLE}).")


@click.group("keys")
def keys() -> None:
    """Manage the keys of approvers."""


@keys.command("create", short_help="Make a key in a new file.")
@KEY_OPTION
@options.as_json
def create(key: str | None, as_json: bool) -> int:
    """Create a key in a new file (mode 0600), encrypted with a passphrase from the terminal.

    Prints the public key for the operator's settings file; see `readback keys list`.
    """
    path = key_file(key)
    with terminal() as person:
        passphrase = person.secret(f"A passphrase for {path}:")
        if person.secret("The same again:") != passphrase:
            raise ApprovalError("The two passphrases differ; no key was made.", code="approval.key")
    made = ApproverKey.create(path, passphrase)
    return _tell(path, made.public_key, as_json=as_json)


@keys.command("show", short_help="Print the public half of a key.")
@KEY_OPTION
@options.as_json
def show_key(key: str | None, as_json: bool) -> int:
    """Print the public half of a key file. The passphrase is asked at the terminal."""
    path = key_file(key)
    with terminal() as person:
        opened = ApproverKey.open(path, person.secret(f"Passphrase of {path}:"))
    return _tell(path, opened.public_key, as_json=as_json)


@keys.command("list", short_help="List the approvers.")
@options.as_json
def list_keys(as_json: bool) -> int:
    """List the approvers of the active settings."""
    settings = settings_of()
    policy = Policy.of(settings.approvers)
    if as_json:
        rows: list[Json] = [
            {
                "name": one.name,
                "key": one.key,
                "key_id": one.key_id,
                "tenants": [*one.tenants],
                "contracts": [*one.contracts],
            }
            for one in policy.approvers
        ]
        print_json({"policy": policy.version, "approvers": rows})
        return 0
    for one in policy.approvers:
        print(f"{safe(one.name)}  key {one.key_id}  tenants {safe(one.tenants)}  contracts {safe(one.contracts)}")
    if not policy.approvers:
        note(f"There is no approver here. The operator lists approvers in {safe(user_folder() / USER_FILE)}.")
    note(f"Policy {policy.version}")
    return 0


@keys.command("sign", short_help="Sign without access to the ledger.")
@click.argument("bound", metavar="BYTES")
@KEY_OPTION
@click.option("--approver", metavar="NAME", required=True, help="Your name in the operator's list of approvers.")
@click.option("--deny", "denies", is_flag=True, help="Sign a denial.")
def sign_bytes(bound: str, key: str | None, approver: str, denies: bool) -> int:
    """Sign the bytes that `readback approve ID --bytes` wrote to the file BYTES, without access to the ledger.

    Shows and asks like `approve`, and prints the token for `readback approve ID --token FILE`.
    """
    path, written = key_file(key), _bytes_at(bound)
    found = _bound(written)
    decision = Decision.DENY if denies else Decision.APPROVE
    with terminal() as person:
        show(person, found, written, found.payload(), ())
        token = sign(person, found, None, decision, path, bootstrap.runtime().now_us(), name=approver)
    if token is None:
        note("Nothing was signed.")
        return 1
    print_json(token.as_json())
    return 0


def _bytes_at(place: str) -> bytes:
    try:
        with open(place, "rb") as file:
            return file.read(BOUND_MAX_BYTES + 1)
    except OSError as error:
        remedy = "Name the file that `readback approve ID --bytes` was written to."
        raise UsageError(f"The bytes {safe(place)} cannot be read: {error.strerror}.", remedy=remedy) from error


def _bound(written: bytes) -> Bound:
    """The content of the bytes, if exactly in the bound form."""
    found = bound_from(parse_json(written, bytes_max=BOUND_MAX_BYTES))
    if found.bytes() != written:
        raise ApprovalError("These are not the bytes of an approval.", code="approval.mismatch")
    return found


def _tell(path: Path, public_key: str, *, as_json: bool) -> int:
    if as_json:
        print_json({"file": str(path), "key": public_key, "key_id": key_id(public_key)})
        return 0
    print(public_key)
    note(f"Key {key_id(public_key)} in {safe(path)}. The operator lists it in {safe(user_folder() / USER_FILE)}:")
    note(f'  [approvers.YOUR_NAME]\n  key = "{public_key}"\n  tenants = ["TENANT"]')
    return 0
