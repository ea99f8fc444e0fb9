"""What a client's ledger says of contracts, tools and sources; see `lifecycle.feedback`. For recipes and programs.

It reads the entries of the client's own tenant, in one streaming pass, and writes nothing.
"""

from __future__ import annotations

from readback.audit.feedback.tally import Feedback, feedback_of
from readback.client.async_client import AsyncReadback
from readback.client.client import Readback


def feedback(client: Readback | AsyncReadback) -> Feedback:
    """Counts and durations, by contract, tool and source. Raises UsageError where the client is closed."""
    session = client._session  # noqa: SLF001 - of this room
    session.check_open()
    return feedback_of(session.store.scan(), session.scope.tenant)
