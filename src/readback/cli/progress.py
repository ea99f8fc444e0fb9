"""A count of what is read, on stderr, where that is a terminal.

Used by the commands that read a whole log; silent in pipes, and with --json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from readback.cli.terminal import console

PROGRESS_EVERY = 500
"""Shown once so many more are done, however many of them at a time."""


@contextmanager
def counted(what: str, *, enabled: bool) -> Iterator[Callable[[int], None]]:
    """Something to call with the number done; it is shown where somebody can see it."""
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
    """No terminal, no progress."""


@contextmanager
def measured(what: str, *, enabled: bool) -> Iterator[Callable[[int, int], None]]:
    """Something to call with how much is done and how much there is; a bar, where somebody can see it."""
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
    """No terminal, no bar."""
