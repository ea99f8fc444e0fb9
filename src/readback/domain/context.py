"""What an action, a reader or a search is told about the attempt it works for.

Made by the engine, handed to user code by the drivers. It carries ids and the two marks of an attempt; it gives
no access to the ledger.
"""

from __future__ import annotations

from readback.canon import Json
from readback.canon.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Context:
    """The first parameter of every decorated function.

    `idempotency_key` stops a second execution where the tool honours it; `stamp` travels inside the artefact and is
    found there by another path. Both are the same for every attempt of one action. `strong` asks a reader to bypass
    caches and replicas. `observed` is what the tool answered (a hint, such as a provider's id; never truth), null
    before there is an answer. `before` is what the reading before execution showed, null before it is taken, where
    there is none and where there was no such object: with it a reader of a source that takes no stamp can tell what is
    newer than the attempt, after a restart too. It is a copy: what is done to it changes no judgement.
    `reverses`: in a compensation, the stamp of the action whose effect is to be reversed.
    """

    action_id: str
    tenant: str
    principal: str
    operation: str
    target: str
    idempotency_key: str
    stamp: str
    attempt: int = 1
    strong: bool = False
    observed: Json = None
    run: str = ""
    trace: str = ""
    before: Json = None
    reverses: str = ""

    @property
    def subject_stamp(self) -> str:
        """The stamp that the artefact bears: in a compensation that of the action to be reversed, else its own.

        A reader or a search that an action shares with its compensation looks for this stamp.

        Example:
            >>> from readback import Context
            >>> Context("a", "acme", "agent", "op", "order/1", "key", "rb-a", reverses="rb-b").subject_stamp
            'rb-b'
        """
        return self.reverses or self.stamp
