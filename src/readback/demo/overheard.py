"""Notes of all tool answers: the naive agent's only source.

`overheard` is applied below each `@action` of the demo's contracts, and passes everything on unchanged. Readback knows
nothing of the notes. The notes also count real calls, so the demo can count effects of repeated calls.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from readback import Context
from readback.canon.frozen import dataclass
from readback.demo.desk import desk

P = ParamSpec("P")
R = TypeVar("R")
TEXT_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer of one call. `status`: the HTTP status of a response. `raised`: the name of an exception."""

    stamp: str
    tool: str
    attempt: int
    status: int | None = None
    text: str = ""
    raised: str = ""
    operation: str = ""


def overheard(function: Callable[Concatenate[Context, P], R]) -> Callable[Concatenate[Context, P], R]:
    """Decorator: note the tool's answer or exception, and pass it on."""

    @wraps(function)
    def listening(ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        tool = getattr(function, "__name__", "tool")
        try:
            answer = function(ctx, *args, **kwargs)
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            _note(Heard(ctx.stamp, tool, ctx.attempt, None, str(error)[:TEXT_MAX], " ".join(kinds), ctx.operation))
            raise
        _note(_of(ctx, tool, answer))
        return answer

    return listening


def _of(ctx: Context, tool: str, answer: object) -> Heard:
    status = getattr(answer, "status_code", None)
    if isinstance(status, int):
        text = str(getattr(answer, "text", ""))
        return Heard(ctx.stamp, tool, ctx.attempt, status, text[:TEXT_MAX], operation=ctx.operation)
    answer = getattr(answer, "answer", answer)  # a transaction that was left open says what its statement said
    text = answer if isinstance(answer, str) else json.dumps(answer, default=str)
    return Heard(ctx.stamp, tool, ctx.attempt, None, text[:TEXT_MAX], operation=ctx.operation)


def _note(heard: Heard) -> None:
    """Write one line in one write, so that threads and processes do not mix lines. Does nothing without a file."""
    if desk.overheard == Path():
        return
    line = json.dumps(asdict(heard)).encode() + b"\n"
    file = os.open(desk.overheard, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def all_heard(path: Path) -> list[Heard]:
    """All notes, in order of arrival."""
    if not path.exists():
        return []
    return [Heard(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
