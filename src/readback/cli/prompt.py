"""Ask the person at the terminal through /dev/tty, independent of stdin, stdout and stderr.

For commands that sign. Text is shown in full and cannot move the cursor. Input typed before the question does not
count. A passphrase is not echoed. A process without a terminal is refused.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import termios
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from readback.canon import Json, json_text
from readback.client.approving import ApproverKey
from readback.errors import ApprovalError, UsageError

TERMINAL: Final = "/dev/tty"
ANSWER_MAX_BYTES: Final = 1_024
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ECHO: Final = 3
"""Index of the local modes in the termios attributes."""


class Terminal:
    """The controlling terminal of this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, text: str = "") -> None:
        """Print text with every control character shown by number."""
        shown = "\n".join(visible(line) for line in text.split("\n")) + "\n"
        self._write(shown)

    def ask(self, question: str) -> str:
        """Read one line typed after the question. Returns "" at the end of input."""
        termios.tcflush(self._descriptor, termios.TCIFLUSH)
        self._write(visible(question) + " ")
        return self._line()

    def secret(self, question: str) -> str:
        """Like `ask`, without an echo."""
        before = termios.tcgetattr(self._descriptor)
        silent = [*before]
        silent[_ECHO] = before[_ECHO] & ~termios.ECHO
        termios.tcsetattr(self._descriptor, termios.TCSAFLUSH, silent)
        try:
            return self.ask(question)
        finally:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)
            self._write("\n")

    def _write(self, text: str) -> None:
        left = text.encode(errors="backslashreplace")
        while left:
            left = left[os.write(self._descriptor, left) :]

    def _line(self) -> str:
        typed = b""
        while not typed.endswith(b"\n") and len(typed) < ANSWER_MAX_BYTES:
            part = os.read(self._descriptor, 1)
            if not part:
                break
            typed += part
        return typed.decode(errors="replace").rstrip("\r\n")


@contextmanager
def terminal() -> Iterator[Terminal]:
    """Open the terminal. Raises ApprovalError (approval.no-terminal) without one."""
    try:
        descriptor = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
    except OSError as error:
        raise ApprovalError(
            "This process has no terminal for questions.",
            code="approval.no-terminal",
            remedy="An approver runs this at a terminal; a program records a signed token by `rb.approve(id, token)`.",
        ) from error
    try:
        yield Terminal(descriptor)
    finally:
        os.close(descriptor)


def visible(text: str) -> str:
    """Escape control, format and direction characters as JSON does; cut nothing. JSON input stays JSON of the same
    value.
    """
    return "".join(_plain(c) for c in text)


def _plain(character: str) -> str:
    kind = unicodedata.category(character)
    if kind[0] != "C" and kind not in ("Zl", "Zp"):
        return character
    return json.dumps(character)[1:-1] if ord(character) != 127 else "\\u007f"


def facts(value: Json, path: str) -> Iterator[str]:
    """One line a value, as JSON, so that "7" and 7 look different."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            named = f".{key}" if _NAME.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"
            yield from facts(value[key], f"{path}{named}")
    elif isinstance(value, list) and value:
        for place, part in enumerate(value):
            yield from facts(part, f"{path}[{place}]")
    else:
        yield f"{path} = {json_text(value, ensure_ascii=False)}"


# Who decides at the keyboard: the operator's name, and his signature where one is needed.

YES = "yes"
F = TypeVar("F", bound=Callable[..., Any])


def operator(command: F) -> F:
    """Options for the decider and the signing key."""
    for option in (
        click.option(
            "--key", metavar="FILE", help="The approver's private key, for decisions that require a signature."
        ),
        click.option("--who", metavar="NAME", help="The decider (default: human: and the name of this account)."),
    ):
        command = option(command)
    return command


def signing(who: str | None) -> str:
    """The name recorded for the decision."""
    if who:
        return who
    try:
        return f"human:{getpass.getuser()}"
    except (KeyError, OSError) as error:
        raise UsageError("This account has no name.", remedy="Pass --who NAME.") from error


def signed(message: bytes, key: str | None) -> bytes | None:
    """Show these bytes and return their signature by the key in a file, or None without a key.

    Question and passphrase use the terminal only. Raises UsageError if the person refuses.
    """
    if key is None:
        return None
    with terminal() as person:
        person.say("You sign exactly these bytes:")
        person.say(message.decode(errors="backslashreplace"))
        if person.ask(f"Type {YES} to sign them, anything else to leave it:") != YES:
            raise UsageError("Not signed; nothing was recorded.", remedy=f"Run it again, and type {YES}.")
        return ApproverKey.open(Path(key), person.secret(f"Passphrase of {key}:")).sign(message)
