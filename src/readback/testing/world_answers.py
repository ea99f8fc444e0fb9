"""The answers of tools, independent of the effect: common answers to agents.

For simulations. `give` returns or raises like a real tool. Under the virtual driver an answer can also hang, be
cancelled, or end the process.
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from readback.errors import NotDispatchedError
from readback.testing.driver_virtual import CallerCancelled, CallHangs, ProcessDied


class Answer(StrEnum):
    """One kind of answer."""

    OK = "ok"
    NOT_OK = "not_ok"
    """A return value with a failure in a field."""
    SERVER_ERROR = "server_error"
    FLATTERING_ERROR = "flattering_error"
    """An error with the wording of a success."""
    SILENT = "silent"
    """No return value."""
    TIMEOUT = "timeout"
    ACCEPTED = "accepted"
    PENDING = "pending"
    MALFORMED = "malformed"
    RAISED = "raised"
    CONNECTION_LOST = "connection_lost"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    """Provably never sent."""
    CRASHED = "crashed"
    """The process dies in the call: there is no observation."""


def give(answer: Answer) -> object:
    """Return or raise the answer."""
    match answer:
        case Answer.OK:
            return {"status": "ok", "message": "Done."}
        case Answer.NOT_OK:
            return {"success": False, "message": "It was not done."}
        case Answer.SERVER_ERROR:
            return (500, {"error": "internal"})
        case Answer.FLATTERING_ERROR:
            return "Error: request completed successfully in 12 ms but the record was not saved"
        case Answer.SILENT:
            return None
        case Answer.TIMEOUT:
            raise CallHangs
        case Answer.ACCEPTED:
            return (202, {"status": "accepted"})
        case Answer.PENDING:
            return {"status": "pending"}
        case Answer.MALFORMED:
            return b"\xff\xfe\x00"
        case Answer.RAISED:
            raise RuntimeError("The tool broke.")
        case Answer.CONNECTION_LOST:
            raise ConnectionResetError("The connection was lost after the request was sent.")
        case Answer.CANCELLED:
            raise CallerCancelled
        case Answer.REFUSED:
            raise NotDispatchedError("The connection was refused.")
        case Answer.CRASHED:
            raise ProcessDied
        case _:
            assert_never(answer)
