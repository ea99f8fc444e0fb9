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

    from readback.demo.morning import Step
    from readback.demo.trip_cases import Case

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
        self._stop()

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def chapter(self, title: str) -> None:
        self._count()
        self._say(f"\n{title}" if self._verbose else title, style="bold")

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

    def ended(self, step: Step, outcome: Outcome | None, instead: str = "") -> None:
        """Report the step with the outcome's words and the fault, if any."""
        words = outcome.message if outcome is not None else instead
        self._outcome(mark_of(outcome), step.name, words, step.spoiled)

    def trip(self, case: Case, outcome: SagaOutcome) -> None:
        """Report the trip with the outcome's words and the fault, if any."""
        spoiled = f"{case.where}: {case.words}" if case.where else ""
        self._outcome(mark_of(outcome), f"trip to {case.trip}", outcome.message, spoiled)

    def attempt(self, number: int, prompt: str, outcome: Outcome) -> None:
        """Report one attempt of a delegate: the reportable words and the prompt."""
        self._outcome(mark_of(outcome), f"attempt {number}", outcome.message, f"told: {prompt}")

    def _outcome(self, mark: str, name: str, words: str, beneath: str) -> None:
        sign, style = MARKS[mark]
        self._ended[mark] += 1
        if self._verbose:
            self._line(sign, style, name, words, beneath)

    def _count(self) -> None:
        """Print how many outcomes of the chapter were verified, open or not done. -v prints the outcomes instead."""
        counts = [f"{MARKS[mark][0]} {number} {COUNTED[mark]}" for mark in MARKS if (number := self._ended[mark])]
        self._ended.clear()
        if counts and not self._verbose:
            self._say(f"  {', '.join(counts)}", style="")

    def _line(self, mark: str, style: str, name: str, words: str, beneath: str = "") -> None:
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 1))
        line.add_column(width=1)
        if name:
            line.add_column(width=NAME_WIDTH)
        line.add_column()
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
        text = text if len(text) <= room else text[: room - 1] + "…"
        if not self._busy:
            self._stop()
        elif self._status is None:
            self._status = self._console.status(text)
            self._status.start()
        else:
            self._status.update(text)

    def _say(self, text: str, style: str) -> None:
        self._console.print(text, style=style)


def mark_of(outcome: Outcome | SagaOutcome | None) -> str:
    """Reported as done, open, or reported as not done."""
    if outcome is None:
        return "not"
    if outcome.verified:
        return "done"
    return "not" if outcome.state in (State.FAILED, State.ROLLED_BACK, State.COMPENSATED) else "open"
