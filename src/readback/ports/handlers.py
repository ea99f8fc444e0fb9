"""Hands: what acts on the outside world, and what looks at it.

Implemented by user code behind the decorators, and by the executors and sources among the adapters; called by the
drivers alone. What acts and what looks share nothing but the context.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol, cast

from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.domain.verification.reading import Reading

Place = Callable[[], str]
"""Which system is meant now, with references resolved, as a digest. Raises nothing."""
Glance = Callable[[Context, Mapping[str, object]], Reading | None]
After = Callable[[Context, Mapping[str, object], object], object]


@dataclass(frozen=True, slots=True)
class Handler:
    """One callable of a contract. `call` takes the context and the bound arguments.

    `is_async`: it returns an awaitable. It may be called from any thread, once at a time for one action. `glance`: the
    same look where it takes but a moment, for an event loop that nobody may hold up; None from it where that is not
    known, and then `call` is asked. `place`: which system it reaches now, where a setting of the environment says that;
    None where the contract itself does.
    """

    name: str
    call: Callable[[Context, Mapping[str, object]], object]
    is_async: bool = False
    glance: Glance | None = None
    place: Place | None = None

    def then(self, after: After, after_async: Callable[..., Awaitable[object]]) -> Handler:
        """A hand that does as this one does, and answers what `after` makes of that. Nothing is called here.

        `after` is given the context, the arguments and the answer; `after_async` the same, where this one is async.
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
    """Everything a contract can do.

    `execute`: the tool; called at most once for each durable attempt, and whatever it returns or raises is evidence.
    `readers`: in the contract's order; each returns a Reading, or raises, which is never taken for absence.
    `find`: every effect bearing the context's stamp, wherever it landed, as a list of readings.
    `lookup`: what became of the attempt with the context's key.
    `rollback`: puts a local boundary back; called at most once an attempt, and verified by reading.
    """

    execute: Handler
    readers: tuple[Handler, ...] = ()
    find: Handler | None = None
    lookup: Handler | None = None
    rollback: Handler | None = None


class Staged(Protocol):
    """A local transaction that the tool left open, to be verified before it is committed.

    `read` looks inside it. `commit` makes it visible, `abandon` drops it; exactly one of them is called, once.
    If the process dies first, the boundary must drop it by itself.
    """

    answer: object

    def read(self) -> Reading:
        """The state as it would be."""
        ...

    def commit(self) -> object:
        """Make it durable and visible. An exception leaves the outcome open, to be verified.

        NotDispatchedError alone says that nothing was made visible, and never will be; that too is read back.
        """
        ...

    def abandon(self) -> object:
        """Drop it without a trace."""
        ...


class Source(Protocol):
    """A system of record. `name` is what a reader's `source` says; how it is asked is each source's own affair.

    Whatever it is asked, it answers in Readings, and never changes anything. What was not reached is `unavailable`,
    what may be hidden is `not_visible`; `absent` is said only where the object would have been seen. A search that
    could not look everywhere raises. It keeps no view from one reading to the next, and any thread may use it.
    `testing.conformance_source` holds an implementation to that.
    """

    name: str

    def ping(self) -> None:
        """Returns when the source answers; raises ReaderFailedError or OSError otherwise, in bounded time."""
        ...
