"""The work of `readback hook`, without the command line's machinery, because each hook is a new process.

JSON arrives on stdin, and an answer goes to stdout. Every failure ends with the exit code that blocks the tool, and
with the reason on stderr. The agent treats every other code as permission. `main` calls this module for a plain command
line, and `hook` for the rest. Heavy imports wait until the call is known to be governed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from readback.hooks import protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from readback.hooks.hook_file import HookFile
    from readback.hooks.session import HookSession

HELD_BACK: Final = 2
"""The blocking exit code of a hook. The agent shows stderr to the model."""
TOLD_ONLY: Final = 1
"""Shown to the person; the turn ends."""
FILE: Final = ".claude/readback.yaml"
PROJECT: Final = "CLAUDE_PROJECT_DIR"
SHADOW: Final = "--shadow"
OPTIONS: Final = {"--hooks": "hook_file", "--url": "url", "--tenant": "tenant", "--principal": "principal"}


def plain(arguments: Sequence[str]) -> int | None:
    """Execute a plain command line and return the exit code. Returns None for a command line that click must parse."""
    work = EVENTS.get(arguments[0]) if arguments else None
    given: dict[str, Any] = dict.fromkeys(OPTIONS.values())
    rest = list(arguments[1:])
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name == SHADOW and not equals:
            given["shadow"] = True
            continue
        if name not in OPTIONS or not (equals or rest):
            return None
        given[OPTIONS[name]] = value if equals else rest.pop(0)
    return None if work is None else work(**given)


def pre(
    hook_file: str | None, url: str | None, tenant: str | None, principal: str | None, *, shadow: bool = False
) -> int:
    """Before a tool: record the attempt durably, or deny the call."""

    def answer() -> protocol.Answer:
        from readback.hooks.calls import before

        call = protocol.read_call(_said(), "pre")
        return before(call, _hook_file(hook_file), _opening(url, tenant, principal, shadow=shadow))

    return _answered(answer)


def post(
    hook_file: str | None, url: str | None, tenant: str | None, principal: str | None, *, shadow: bool = False
) -> int:
    """After a tool: read back the effect and report to the model."""

    def answer() -> protocol.Answer:
        from readback.hooks.calls import after

        call = protocol.read_call(_said(), "post")
        return after(call, _hook_file(hook_file), _opening(url, tenant, principal, shadow=shadow))

    return _answered(answer)


def stop(
    hook_file: str | None, url: str | None, tenant: str | None, principal: str | None, *, shadow: bool = False
) -> int:
    """At the end of a turn: continue the turn once if an action is not verified."""
    again = False

    def answer() -> protocol.Answer:
        nonlocal again
        content = _said()
        again = protocol.kept_on_before(content)
        said = protocol.read_stop(content)
        from readback.hooks.stopping import ending

        return ending(said, _hook_file(hook_file), _opening(url, tenant, principal, shadow=shadow))

    code = _answered(answer)
    # A turn continued once already may end, despite any fault here; otherwise the turn could never end.
    return TOLD_ONLY if code and again else code


EVENTS: Final[dict[str, Callable[..., int]]] = {"pre": pre, "post": post, "stop": stop}


def _answered(work: Callable[[], protocol.Answer]) -> int:
    """Run the hook and print the answer. Any failure blocks the tool."""
    collects = gc.isenabled()
    gc.disable()  # the process lives for a moment: a collection costs more than the memory
    try:
        answer = work()
        if answer:
            from readback.canon import json_text

            sys.stdout.write(json_text(answer) + "\n")
            sys.stdout.flush()
    except BaseException as error:  # tidy: boundary -- a hook that failed has to block: every other end is leave
        with contextlib.suppress(OSError, ValueError):  # without a reader the exit code still blocks the tool
            print(f"readback: {_words(error)}", file=sys.stderr)
        return HELD_BACK
    finally:
        if collects:  # a program that calls the hook lives on, and its unclosed files wait for a collection
            gc.enable()
    return 0


def _words(error: BaseException) -> str:
    from readback.canon import ReadbackError
    from readback.cli.terminal import safe

    most = protocol.TEXT_MAX_CHARACTERS
    if isinstance(error, ReadbackError):
        return safe(f"{error.message} {error.remedy}".strip(), most)
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted before a decision."
    said = f"{type(error).__name__}: {error}"
    return safe(f"The hook failed without a decision. {said} Please report this, with `readback version`.", most)


def _said() -> bytes:
    return sys.stdin.buffer.read(protocol.INPUT_MAX_BYTES + 1) if sys.stdin is not None else b""


def _hook_file(named: str | None) -> HookFile:
    from readback.hooks.hook_file import read_hook_file

    return read_hook_file(named if named is not None else Path(os.environ.get(PROJECT) or ".", FILE))


def _opening(
    url: str | None, tenant: str | None, principal: str | None, *, shadow: bool
) -> Callable[[HookFile, str], AbstractContextManager[HookSession]]:
    def opening(file: HookFile, run: str) -> AbstractContextManager[HookSession]:
        from readback.hooks.session import Where, opened

        return partial(opened, where=Where(url, tenant, principal, shadow))(file, run)

    return opening
