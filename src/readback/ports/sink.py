"""Sinks for messages: a webhook, a command, a file, or a program's callable.

Called by the delivery thread; no other work waits for it. Chosen by bootstrap. Messages hold only ids, names, codes and
texts of Readback itself.
"""

from __future__ import annotations

from typing import Protocol

from readback.domain.records.message import Message


class Sink(Protocol):
    """Receives messages. Trusted with nothing: no sink changes an entry or delays an action."""

    def deliver(self, message: Message) -> None:
        """Return once the message is accepted, within the sink's own time limit.

        Any exception means refusal. A `SinkError` may state in its details a permanent refusal (`final`), or when to
        try again (`retry_after_us`). An accepted message may arrive again with the same id, for example after a crash.
        Called from one thread at a time.
        """
        ...

    def stop(self) -> None:
        """Interrupt the current delivery, if any, and refuse further messages. Callable from any thread, repeatedly;
        returns at once.
        """
        ...
