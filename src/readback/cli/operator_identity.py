"""Who decides at the keyboard: the operator's name, and his signature where one is needed.

Shared by the commands that record a person's decision. The private key's passphrase comes from the terminal alone.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from readback.cli.prompt import terminal
from readback.client.approving import ApproverKey
from readback.domain.errors import UsageError

YES = "yes"
F = TypeVar("F", bound=Callable[..., Any])


def operator(command: F) -> F:
    """Who decides, and with which key."""
    for option in (
        click.option("--key", metavar="FILE", help="The approver's private key, to sign a decision that has to be."),
        click.option("--who", metavar="NAME", help="Who decides (else human: and the name of this account)."),
    ):
        command = option(command)
    return command


def signing(who: str | None) -> str:
    """The name that stands in the record."""
    if who:
        return who
    try:
        return f"human:{getpass.getuser()}"
    except (KeyError, OSError) as error:
        raise UsageError("This account has no name.", remedy="Pass --who NAME.") from error


def signed(message: bytes, key: str | None) -> bytes | None:
    """The signature of exactly these bytes, which are shown, by the key in a file; None where no key is named.

    Asked at the terminal alone, as is the passphrase. Raises UsageError where the person does not want it.
    """
    if key is None:
        return None
    with terminal() as person:
        person.say("You sign exactly these bytes:")
        person.say(message.decode(errors="backslashreplace"))
        if person.ask(f"Type {YES} to sign them, anything else to leave it:") != YES:
            raise UsageError("It was not signed; nothing was recorded.", remedy=f"Run it again, and type {YES}.")
        return ApproverKey.open(Path(key), person.secret(f"Passphrase of {key}:")).sign(message)
