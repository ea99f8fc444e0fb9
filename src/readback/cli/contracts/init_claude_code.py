"""`readback init --claude-code`: install the hooks in Claude Code's settings, and the files that configure them.

Existing settings are extended and lose nothing. If the settings cannot be parsed, nothing is written. The user's own
files are never overwritten.
"""

from __future__ import annotations

import json
import os
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from readback.canon.frozen import dataclass
from readback.canon.numbers import is_kept
from readback.errors import UsageError
from readback.hooks.hook_file import OWN_TOOLS
from readback.hooks.protocol import FAILURE, POST, PRE, STOP, SUBAGENT_STOP

FOLDER: Final = ".claude"
SETTINGS: Final = "settings.json"
LOCAL_SETTINGS: Final = "settings.local.json"
"""The user's settings for this project, with precedence over the others."""
SETTINGS_MAX_BYTES: Final = 1_048_576
IGNORED: Final = "/readback.db*"
IGNORE: Final = f"""\
# The ledger: in a commit, a checkout of another one would put an earlier ledger in its place.
{IGNORED}
"""
FILES: Final = {"readback.yaml": "hooks.yaml", "readback-contracts.yaml": "contracts.yaml"}
"""The written files and their sources in the package."""
MATCHER: Final = f"^(?!({'|'.join(OWN_TOOLS)})$).*"
"""Every tool except tools that are never recorded. No process starts for those tools."""
_EVERY_TOOL: Final = ("", "*", ".*", MATCHER)
HELD_BACK: Final = " || exit 2"
"""Block the tool, too, if the command cannot be started. The agent treats other codes as permission."""
ON_FAILURE: Final = ("onFailure", "block")
"""Since version 2.1.295 of the agent: a hook that times out or is killed blocks the tool. Older versions ignore the
key; at the end of a turn the key has no effect.
"""
HOOKS: Final = {
    PRE: ("pre", HELD_BACK, 60),
    POST: ("post", HELD_BACK, 330),
    FAILURE: ("post", HELD_BACK, 330),
    STOP: ("stop", "", 120),
    SUBAGENT_STOP: ("stop", "", 120),
}
"""By event: our hook, the text after its command, and the time limit in seconds."""


@dataclass(frozen=True, slots=True)
class Done:
    """Written files, existing files left unchanged, and existing hooks that match only some tools."""

    written: tuple[str, ...]
    kept: tuple[str, ...]
    narrow: tuple[str, ...]


def set_up(folder: Path) -> Done:
    """Write the missing files and hooks. Raises UsageError before anything is written."""
    home = folder / FOLDER
    settings = home / SETTINGS
    found = _read(settings)
    _switched_on(found, settings)
    _switched_on(_read(home / LOCAL_SETTINGS), home / LOCAL_SETTINGS)
    added, narrow = _with_hooks(found, settings)
    written, kept = [], []
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name, source in FILES.items():
            path = home / name
            if path.exists() or path.is_symlink():
                kept.append(str(path))
                continue
            text = (files("readback.hooks") / source).read_text(encoding="utf-8")
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
            written.append(str(path))
        (written if _ignore(home / ".gitignore") else kept).append(str(home / ".gitignore"))
        if added:
            _replace(settings, found)
        (written if added else kept).append(str(settings))
    except OSError as error:
        raise UsageError(f"{home} cannot be written: {error}.", remedy="Name another folder.") from error
    return Done(tuple(written), tuple(kept), tuple(narrow))


def _read(path: Path) -> dict[str, Any]:
    """The existing settings, or empty settings."""
    if path.exists() and not path.is_file():  # a named pipe would be waited for
        raise UsageError(f"{path} cannot be read: it is no file.", remedy="Check the path and the permissions.")
    if path.is_symlink() and not os.path.isdir(os.path.dirname(os.path.realpath(path))):
        raise _broken(path, "it is a link into a folder that is not there")
    try:
        with open(path, "rb") as file:
            content = file.read(SETTINGS_MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", remedy="Check the path and the permissions."
        ) from error
    if len(content) > SETTINGS_MAX_BYTES:
        raise _broken(path, f"it is over {SETTINGS_MAX_BYTES} bytes")
    try:
        found = json.loads(content.decode(), object_pairs_hook=_once, parse_float=_kept)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()  # what cannot be written again would be lost
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"it is no plain JSON: {error}") from error
    if not isinstance(found, dict):
        raise _broken(path, "it is no JSON object")
    return found


def _switched_on(settings: dict[str, Any], path: Path) -> None:
    if settings.get("disableAllHooks"):
        raise UsageError(
            f"{path} switches all hooks off.", remedy="Remove `disableAllHooks` first; nothing was written."
        )


def _ignore(path: Path) -> bool:
    """Keep the ledger out of the project's commits. Returns whether anything was written; existing text stays."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return False
    there = path.read_bytes() if path.exists() else b""
    if IGNORED.encode() in there.split():
        return False
    with open(path, "ab") as file:
        file.write((b"" if there[-1:] in (b"", b"\n") else b"\n") + IGNORE.encode())
    return True


def _kept(digits: str) -> float:
    number = float(digits)
    if not is_kept(digits, number):
        raise ValueError(f"the number {digits[:40]} would be written otherwise")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice, and one of them would be lost")
    return found


def _with_hooks(settings: dict[str, Any], path: Path) -> tuple[bool, list[str]]:
    """Add our missing hooks to the settings. Returns whether any was added, and hooks matching only some tools."""
    hooks = settings.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise _broken(path, "its `hooks` are no object")
    added, narrow = False, []
    for event, (name, behind, seconds) in HOOKS.items():
        entries = hooks.setdefault(event, [])
        if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            raise _broken(path, f"its hooks for {event} are no list of objects")
        command = f"readback hook {name}"
        there = [each for each in entries if any(command in str(hook) for hook in _commands(each, path, event))]
        if there:
            if all(str(each.get("matcher", "")) not in _EVERY_TOOL for each in there):
                narrow.append(f"{event}: {there[0]['matcher']}")
            for hook in (each for entry in there for each in entry["hooks"] if _command(each) == command + behind):
                added |= _held_back(hook, behind)
            continue
        ours: dict[str, Any] = {"matcher": MATCHER} if behind else {}
        entries.append({**ours, "hooks": [{"type": "command", "command": command + behind, "timeout": seconds}]})
        _held_back(entries[-1]["hooks"][0], behind)
        added = True
    return added, narrow


def _held_back(hook: Any, behind: str) -> bool:
    """Make our hooks fail closed unless set otherwise. Returns whether anything was added."""
    if not behind or not isinstance(hook, dict) or ON_FAILURE[0] in hook:
        return False
    hook[ON_FAILURE[0]] = ON_FAILURE[1]
    return True


def _commands(entry: dict[str, Any], path: Path, event: str) -> list[Any]:
    listed = entry.get("hooks", [])
    if not isinstance(listed, list):
        raise _broken(path, f"a hook for {event} has no list of commands")
    return [_command(each) for each in listed]


def _command(hook: Any) -> Any:
    return hook.get("command", "") if isinstance(hook, dict) else ""


def _broken(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} cannot be added to: {why}.", remedy="Correct the file; nothing was written.")


def _replace(path: Path, settings: dict[str, Any]) -> None:
    """Replace the file atomically, through a link to its target, so that no reader finds half a file."""
    path = Path(os.path.realpath(path))
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    number, temporary = tempfile.mkstemp(dir=path.parent, prefix=".settings-")
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
