"""Exceptions of tools and readers, passed to the caller and logged: `Outcome.exception`, and the logger "readback".

The decorators watch the functions of an action. The clients attach the exception to the outcome of the same call.
Nothing here is recorded: the ledger holds the observation, and never an exception.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Final, cast

from readback.contracts.functions.callables import Reader
from readback.contracts.functions.calling import Look
from readback.domain.context import Context
from readback.domain.outcome.outcome import Outcome

LOGGER: Final = "readback"
_CAUGHT: ContextVar[dict[str, Exception] | None] = ContextVar("readback_caught", default=None)
"""Exceptions of tools by the action's id, within one call of a client."""


class catching:  # noqa: N801 - used as a block, like a function
    """Collect the exceptions of tools while a client drives one action."""

    __slots__ = ("_caught", "_token")

    def __enter__(self) -> dict[str, Exception]:
        self._caught: dict[str, Exception] = {}
        self._token = _CAUGHT.set(self._caught)
        return self._caught

    def __exit__(self, *raised: object) -> None:
        with suppress(ValueError):  # a coroutine that a dead loop left behind is closed in another context
            _CAUGHT.reset(self._token)


def with_exception(outcome: Outcome, caught: Mapping[str, Exception]) -> Outcome:
    """Return the outcome with the exception of its own tool, if the tool raised during this call."""
    error = caught.get(outcome.id) if caught else None
    return outcome if error is None else replace(outcome, exception=error)


def watched_tool(look: Look, name: str, asks: bool) -> Look:
    """Return the same call of a tool; an exception is kept for the caller and logged."""
    return _watched(look, name, asks, tool=True)


def watched_reader(reader: Reader) -> Reader:
    """Return the same reader; an exception is logged."""
    if reader.glance is not None:
        return reader
    return replace(reader, look=_watched(reader.look, reader.name, reader.is_async, tool=False))


def _watched(look: Look, name: str, asks: bool, *, tool: bool) -> Look:
    awaitable = cast("Callable[[Context, Mapping[str, object]], Awaitable[object]]", look)

    async def call_async(ctx: Context, arguments: Mapping[str, object]) -> object:
        try:
            return await awaitable(ctx, arguments)
        except Exception as error:
            _heard(ctx, name, error, tool=tool)
            raise

    def call_sync(ctx: Context, arguments: Mapping[str, object]) -> object:
        try:
            return look(ctx, arguments)
        except Exception as error:
            _heard(ctx, name, error, tool=tool)
            raise

    return call_async if asks else call_sync


def _heard(ctx: Context, name: str, error: Exception, *, tool: bool) -> None:
    caught = _CAUGHT.get()
    if tool and caught is not None:
        caught[ctx.action_id] = error
    import logging  # a program in which nothing is raised does not pay for these
    import traceback

    logger = logging.getLogger(LOGGER)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # silent, unless the program configures logging
    what = "The tool" if tool else "The reader"
    text = f"{what} {name} raised {type(error).__name__} in action {ctx.action_id}."
    trace = "".join(traceback.format_exception(error))
    if trace.isascii() or trace == trace.encode("utf-8", "replace").decode("utf-8"):
        logger.warning("%s", text, exc_info=error)
    else:  # half a character, which a stream of UTF-8 would refuse
        logger.warning("%s\n%s", text, trace.encode("utf-8", "backslashreplace").decode("utf-8"))
