"""Writes golden texts again. Prints the difference first, and writes only with `--accept`.

Called by the test files that own golden texts, as programs: `python -m tests.unit.test_belief` prints what would
change, `python -m tests.unit.test_belief --accept` writes it. A writer that overwrites without a look would make any
wrong text the expected one.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def differences(wanted: Mapping[Path, str], stale: Sequence[Path] = ()) -> str:
    """The unified diff from the files as they are to the texts as they would be. Empty when nothing changes."""
    lines: list[str] = []
    for path, text in [*wanted.items(), *((path, "") for path in stale)]:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        lines += difflib.unified_diff(
            before.splitlines(), text.splitlines(), f"{path.name} (now)", f"{path.name} (new)", lineterm=""
        )
    return "\n".join(lines)


def rewrite(wanted: Mapping[Path, str], arguments: Sequence[str], *, owned: str = "") -> int:
    """Show what would change; with `--accept` among the arguments, write it too.

    Args:
        wanted: Each file with its new text.
        arguments: The arguments of the program, without its name.
        owned: A pattern such as `*.txt`. Files of the same folders that match it and have no new text are deleted.

    Returns:
        0 where nothing changes or the change was written, 1 where a change waits for `--accept`, 2 for other arguments.
    """
    if unknown := [argument for argument in arguments if argument != "--accept"]:
        sys.stderr.write(f"Unknown argument {unknown[0]!r}. Use --accept, or no argument to see the difference.\n")
        return 2
    folders = {path.parent for path in wanted}
    stale = sorted(path for folder in folders if owned for path in folder.glob(owned) if path not in wanted)
    change = differences(wanted, stale)
    if not change and not stale:
        sys.stdout.write("Nothing changes.\n")
        return 0
    sys.stdout.write(f"{change}\n")
    if "--accept" not in arguments:
        sys.stdout.write("Nothing was written. Read the difference, then pass --accept to write it.\n")
        return 1
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in stale:
        path.unlink()
    return 0
