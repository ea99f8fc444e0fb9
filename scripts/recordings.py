"""Record the terminal pictures of the documents: `docs/pictures/demo.svg` and `show.svg`.

Run after a change of the demo's or of `show`'s output, in the environment of `make setup`:

    python scripts/recordings.py

The pictures hold real output: the demo runs against its local systems, and `show` draws an action of a new ledger.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
WIDTH = 112
CONTRACT = """
from readback import action

orders = {"o-17": {"order_id": "o-17", "status": "open"}}


@action("order/{order_id}", ensure="authoritative.status == 'shipped'", within="1s")
def ship_order(order_id: str) -> dict[str, str]:
    return {"status": "ok", "message": "Order shipped."}


@ship_order.read(strong=True)
def order(order_id: str) -> dict[str, str] | None:
    return orders.get(order_id)
"""


def output(folder: Path, *arguments: str) -> str:
    """Return what a command prints on a terminal of WIDTH columns. Progress on stderr is left out."""
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "READBACK_CONTRACTS": "shop"}
    command = [sys.executable, "-m", "readback", *arguments]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, WIDTH, 0, 0))
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    parts = []
    with suppress(OSError):  # the terminal of an ended program answers so
        while part := os.read(ours, 65_536):
            parts.append(part)
    os.close(ours)
    if process.wait() not in (0, 1, 3):
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")
    text = b"".join(parts).decode().replace("\r\n", "\n")
    return text.replace(f"sqlite:///{folder.resolve()}/", "sqlite:///")


def draw(name: str, title: str, command: str, text: str) -> None:
    """Write one picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(text.rstrip()))
    PICTURES.mkdir(exist_ok=True)
    # The export names web fonts. A picture of the documents asks no other machine for anything.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title=title), flags=re.DOTALL)
    (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")


def main() -> None:
    """Draw both pictures."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        draw("demo", "readback demo", "readback demo", output(folder, "demo"))
        (folder / "shop.py").write_text(CONTRACT, encoding="utf-8")
        output(folder, "run", "ship_order", "--arg", "order_id=o-17", "--operation", "ship o-17")
        draw("show", "readback show", "readback show last", output(folder, "show", "last"))


if __name__ == "__main__":
    main()
