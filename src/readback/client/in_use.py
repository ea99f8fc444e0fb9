"""The client in use: `proposal.run()` runs here when no client is named.

`use` selects a client for the program, or for a `with` block. Applications call `use`; the library never does.
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
        """End `work`; both clients have this method."""
        ...

    def signal(self, id_or_stamp: str) -> bool:
        """Make the next reading due; both clients have this method."""
        ...


class _Program:
    """The client of the whole program."""

    client: object = None


class InUse:
    """A client in use. As a context manager, the use ends with the block; otherwise with the next `use`."""

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
    """Name the client for `proposal.run()`.

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
    """Return the client in use. Raises UsageError where there is none, or the client is closed."""
    client = _IN_BLOCK.get() or _Program.client
    if client is None:
        raise UsageError("No client is in use.", remedy=_REMEDY)
    _checked(client)
    return client


def _checked(client: object) -> None:
    session = getattr(client, "_session", None)
    if session is None or not hasattr(session, "check_open"):
        raise UsageError(
            f"use() takes an open client, not {type(client).__name__}.",
            remedy="Write use(Readback.open(...)), or use(AsyncReadback.open(...)).",
        )
    session.check_open()
