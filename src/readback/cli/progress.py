"""Progress of long reads, on stderr, only on a terminal and without --json."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from readback.cli.terminal import console

PROGRESS_EVERY = 500
"""Number of entries between two updates."""


@contextmanager
def counted(what: str, *, enabled: bool) -> Iterator[Callable[[int], None]]:
    """Return a function that accepts the number of finished entries and shows the count."""
    err = console(stderr=True) if enabled else None
    if err is None or not err.is_terminal:
        yield _quiet
        return
    with err.status(what) as shown:
        said = 0

        def step(done: int) -> None:
            nonlocal said
            if done >= said + PROGRESS_EVERY:
                said = done
                shown.update(f"{what}: {done} done")

        yield step


def _quiet(done: int) -> None:
    """Without a terminal, no count."""


@contextmanager
def measured(what: str, *, enabled: bool) -> Iterator[Callable[[int, int], None]]:
    """Return a function that accepts the finished and the total number, and shows a bar."""
    err = console(stderr=True) if enabled else None
    if err is None or not err.is_terminal:
        yield _silent
        return
    from rich.progress import Progress

    with Progress(console=err, transient=True) as shown:
        bar = shown.add_task(what, total=None)
        said = 0

        def step(done: int, total: int) -> None:
            nonlocal said
            if done >= said + PROGRESS_EVERY or done >= total:
                said = done
                shown.update(bar, completed=done, total=total)

        yield step


def _silent(done: int, total: int) -> None:
    """Without a terminal, no bar."""
