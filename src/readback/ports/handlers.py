"""Handlers: callables to act on the outside world, and callables to read it.

Implemented by user code behind the decorators, and by executors and sources. Only the drivers call handlers. Acting and
reading handlers share nothing but the context.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol, cast

from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.domain.verification.reading import Reading

Place = Callable[[], str]
"""A digest of the current system, with references resolved. Raises nothing."""
Glance = Callable[[Context, Mapping[str, object]], Reading | None]
After = Callable[[Context, Mapping[str, object], object], object]


@dataclass(frozen=True, slots=True)
class Handler:
    """One callable of a contract. `call` takes the context and the bound arguments.

    Called from any thread, once at a time for one action.

    - `is_async`: the call returns an awaitable.
    - `glance`: the same read for an event loop, if surely fast; returns None if not, and then `call` follows.
    - `place`: the current system, if a setting of the environment names it; None if the contract itself does.
    """

    name: str
    call: Callable[[Context, Mapping[str, object]], object]
    is_async: bool = False
    glance: Glance | None = None
    place: Place | None = None

    def then(self, after: After, after_async: Callable[..., Awaitable[object]]) -> Handler:
        """Return a handler with the same behaviour and `after` applied to the answer. Nothing is called here.

        `after` takes the context, the arguments and the answer. `after_async` is the same for an async handler.
        """
        act = self.call
        if not self.is_async:

            def whole(ctx: Context, arguments: Mapping[str, object]) -> object:
                return after(ctx, arguments, act(ctx, arguments))

            return replace(self, call=whole, glance=None)

        async def whole_async(ctx: Context, arguments: Mapping[str, object]) -> object:
            return await after_async(ctx, arguments, await cast("Awaitable[object]", act(ctx, arguments)))

        return replace(self, call=whole_async)


@dataclass(frozen=True, slots=True)
class Handlers:
    """All handlers of a contract.

    - `execute`: the tool. Called at most once for each durable attempt. Its return value or error is evidence.
    - `readers`: in the contract's order. Each returns a Reading or raises; an error never counts as absence.
    - `find`: returns every effect with the context's stamp, wherever located, as a list of readings.
    - `lookup`: returns the result of the attempt with the context's key.
    - `rollback`: undoes a local boundary. Called at most once an attempt, and verified by reading.
    """

    execute: Handler
    readers: tuple[Handler, ...] = ()
    find: Handler | None = None
    lookup: Handler | None = None
    rollback: Handler | None = None


class Staged(Protocol):
    """A local transaction left open by the tool, for verification before the commit.

    `read` looks inside. `commit` makes the transaction visible, `abandon` drops it; exactly one of both is called,
    once. If the process dies first, the boundary must drop the transaction by itself.
    """

    answer: object

    def read(self) -> Reading:
        """The state after a commit."""
        ...

    def commit(self) -> object:
        """Make the transaction durable and visible. An exception leaves the outcome open, and verification follows.

        NotDispatchedError alone means nothing became visible, now or later; a reading verifies this, too.
        """
        ...

    def abandon(self) -> object:
        """Drop the transaction without a trace."""
        ...


class Source(Protocol):
    """A system of record. `name` is a reader's `source`. Each source defines its own way of asking.

    A source answers in Readings and never changes anything. An unreached object is `unavailable`, and a possibly hidden
    object is `not_visible`. `absent` requires proof of sight: the source would have seen the object. An incomplete
    search raises an error. A source keeps no view between readings, and any thread may use it.
    `testing.conformance_source` tests an implementation.
    """

    name: str

    def ping(self) -> None:
        """Return when the source answers. Raises ReaderFailedError or OSError otherwise, in bounded time."""
        ...
