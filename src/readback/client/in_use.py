"""The client in use: where `proposal.run()` runs when no client is named.

`use` names it for the program, or for a `with` block. Used by applications; the library itself never calls `use`.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Final, Protocol

from readback.errors import UsageError

_IN_BLOCK: Final[ContextVar[object]] = ContextVar("readback_in_use", default=None)
_REMEDY: Final = "Call readback.use(rb) once the client is open, or run the proposal with rb.run(proposal)."


class Client(Protocol):
    """A Readback or an AsyncReadback."""

    def stop_work(self) -> None:
        """Ends `work`; both clients have it."""
        ...

    def signal(self, id_or_stamp: str) -> bool:
        """Wakes the next reading; both clients have it."""
        ...


class _Program:
    """The client that the whole program uses."""

    client: object = None


class InUse:
    """A client in use. As a context manager it is in use until the block ends; else until the next `use`."""

    def __init__(self, client: object) -> None:
        self._before = _Program.client
        self._token: Token[object] | None = None
        self._client = client
        _Program.client = client

    def __enter__(self) -> InUse:
        _Program.client = self._before  # for this block alone, which other threads and tasks do not share
        self._token = _IN_BLOCK.set(self._client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _IN_BLOCK.reset(self._token)


def use(client: Client) -> InUse:
    """Name the client in which `proposal.run()` runs.

    Raises:
        UsageError: `client` is no open client.

    Example:
        >>> from readback import Readback, use
        >>> with Readback.open("memory:") as rb, use(rb):
        ...     pass
    """
    _checked(client)
    return InUse(client)


def client_in_use() -> object:
    """The client in use. Raises UsageError where there is none, or where it was closed."""
    client = _IN_BLOCK.get() or _Program.client
    if client is None:
        raise UsageError("No client is in use.", remedy=_REMEDY)
    _checked(client)
    return client


def _checked(client: object) -> None:
    session = getattr(client, "_session", None)
    if session is None or not hasattr(session, "check_open"):
        raise UsageError(
            f"use() takes an open client, and not {type(client).__name__}.",
            remedy="Write use(Readback.open(...)), or use(AsyncReadback.open(...)).",
        )
    session.check_open()
