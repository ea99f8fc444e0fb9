"""Live progress on stderr: running steps and outcomes. Plain lines without a terminal. Decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from readback import Outcome, SagaOutcome, State
from readback.cli.terminal import console, safe

if TYPE_CHECKING:
    from rich.status import Status

MARKS = {"done": ("✓", "green"), "open": ("?", "yellow"), "not": ("✗", "red")}
COUNTED = {"done": "verified", "open": "for review or unknown", "not": "not done or taken back"}
NAME_WIDTH = 26


class Progress:
    """Prints progress during the demo. Call `close` at the end."""

    def __init__(self, verbose: bool = False) -> None:
        self._verbose = verbose
        self._ended: Counter[str] = Counter()
        self._console = console(stderr=True)
        self._busy: list[str] = []
        self._status: Status | None = None

    def close(self) -> None:
        """Restore the terminal and print the counts of the last chapter. A second call changes nothing."""
        self._count()
        if self._status is not None:
            self._status.stop()
            self._status = None

    def chapter(self, title: str) -> None:
        self._count()
        self._console.print(f"\n{title}" if self._verbose else title, style="bold")

    def note(self, text: str) -> None:
        """Print a remark."""
        self._line("·", "dim", "", text)

    @contextmanager
    def doing(self, name: str) -> Iterator[None]:
        """Show the step as running during the block."""
        self._busy.append(name)
        self._show()
        try:
            yield
        finally:
            self._busy.remove(name)
            self._show()

    def ended(self, name: str, outcome: Outcome | SagaOutcome | None, *, instead: str = "", beneath: str = "") -> None:
        """Report an outcome in its own words, and beneath the fault or the prompt. `instead`: without an outcome."""
        mark = mark_of(outcome)
        self._ended[mark] += 1
        if self._verbose:
            self._line(*MARKS[mark], name, outcome.message if outcome is not None else instead, beneath)

    def _count(self) -> None:
        """Print how many outcomes of the chapter were verified, open or not done. -v prints the outcomes instead."""
        counts = [f"{MARKS[mark][0]} {number} {COUNTED[mark]}" for mark in MARKS if (number := self._ended[mark])]
        self._ended.clear()
        if counts and not self._verbose:
            self._console.print(f"  {', '.join(counts)}", style="")

    def _line(self, mark: str, style: str, name: str, words: str, beneath: str = "") -> None:
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 1))
        for width in (1, *([NAME_WIDTH] if name else []), None):
            line.add_column(width=width)
        text = Text(safe(words), style="dim" if not name else "")
        if beneath:
            text.append(f"\n({safe(beneath)})", style="dim")
        line.add_row(Text(mark, style=style), *([safe(name)] if name else []), text)
        self._console.print(Padding(line, (0, 0, 0, 2)))

    def _show(self) -> None:
        """Show the running steps on one line, on a terminal only, because the line is erased later."""
        if not self._console.is_terminal:
            return
        text, room = f"in flight: {', '.join(self._busy)}", self._console.width - 4
        if self._status is None:
            self._status = self._console.status("")
        self._status.update(text if len(text) <= room else text[: room - 1] + "…")
        if self._busy:
            self._status.start()
        else:
            self._status.stop()


def mark_of(outcome: Outcome | SagaOutcome | None) -> str:
    """Reported as done, open, or reported as not done."""
    if outcome is not None and outcome.verified:
        return "done"
    not_done = outcome is None or outcome.state in (State.FAILED, State.ROLLED_BACK, State.COMPENSATED)
    return "not" if not_done else "open"
