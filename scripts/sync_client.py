"""Makes the sync client of the async client: `scripts/sync_client.py`, or `--check` to compare only.

Both clients have the same methods, arguments and texts. What differs in how they drive the engine stands in
`client/driving_async.py` and `client/driving_sync.py`. Everything else is written once, with `await`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parents[1] / "src" / "readback" / "client"
SOURCE, MADE = CLIENT / "async_client.py", CLIENT / "client.py"
HEAD = '"""The sync client, made by `scripts/sync_client.py` of the async client: edit the async client instead."""'
EXAMPLE = '''    """An open ledger, and the only way to act. Use the client as a context manager.

    Example:
        >>> from readback import Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch(), operation="switch on")
        ...     rb.find_operation("switch on").verified
        True
    """
'''
WORDS = [
    ("AsyncReadback", "Readback"),
    ("AsyncDriving", "SyncDriving"),
    ("driving_async", "driving_sync"),
    ("async def ", "def "),
    ("async with ", "with "),
    ("async for ", "for "),
    ("await ", ""),
    (" Cancelling `work` cancels its calls.", ""),
]

_OWN_BRACKET = re.compile(r"(?<![\w\])])\(await ")
"""A bracket of its own, not one of a call."""


def made(source: str) -> str:
    """Return the sync client's text."""
    text = re.sub(r'\A""".*?"""', lambda _: HEAD, source, count=1, flags=re.DOTALL)
    start = text.index('    """', text.index("class AsyncReadback("))
    end = text.index('    """\n', start + 7) + len('    """\n')
    text = text[:start] + EXAMPLE + text[end:]
    text = _without_brackets(text)
    for before, after in WORDS:
        text = text.replace(before, after)
    formatter = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(MADE), "-"]
    return subprocess.run(formatter, input=text, capture_output=True, text=True, check=True).stdout


def _without_brackets(text: str) -> str:
    """Return the text without the brackets around an awaited call: `(await f(x)).y` becomes `await f(x).y`."""
    while found := _OWN_BRACKET.search(text):
        start = end = found.start()
        depth = 0
        while True:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
            end += 1
        text = text[:start] + text[start + 1 : end] + text[end + 1 :]
    return text


def main(arguments: list[str]) -> int:
    """Write the sync client, or compare. Returns 1 where the file differs and is only compared."""
    text = made(SOURCE.read_text(encoding="utf-8"))
    if "--check" in arguments:
        same = MADE.read_text(encoding="utf-8") == text
        print("equal" if same else f"{MADE.name} is not what {SOURCE.name} gives. Run scripts/sync_client.py.")
        return 0 if same else 1
    MADE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
