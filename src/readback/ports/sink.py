"""Where messages go: a webhook, a command, a file, or a callable of a program.

Called by the sdk's delivery, in a thread that nothing else waits for. Chosen by bootstrap. What a sink is given holds
ids, names, codes and words of ours alone.
"""

from __future__ import annotations

from typing import Protocol

from readback.domain.records.message import Message


class Sink(Protocol):
    """Takes messages. Trusted with nothing: whatever it does, entries stay as they are, and nobody waits for it."""

    def deliver(self, message: Message) -> None:
        """Returns once the message has been taken, within the sink's own limit of time.

        Raises whatever it likes where it has not; a `SinkError` may say in its details that it never will be taken
        (`final`), or when to come again (`retry_after_us`). The same message may come again also where it was taken (a
        process may die in between), with the same id. Called from one thread at a time.
        """
        ...

    def stop(self) -> None:
        """Breaks off what is being delivered, if anything, and refuses from now on. From any thread, any number of
        times; returns at once.
        """
        ...
