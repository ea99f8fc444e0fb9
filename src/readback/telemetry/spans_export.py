"""The interface for programs: export the spans of an open ledger, or take the spans of one action."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from readback.client.async_client import AsyncReadback
from readback.client.client import Readback
from readback.errors import TelemetryError
from readback.telemetry.projector import Projector
from readback.telemetry.projector_follow import SpanFollower
from readback.telemetry.projector_otlp import SdkReceiver
from readback.telemetry.spans import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_LOGGER: Final = logging.getLogger("readback.telemetry")


def export_spans(
    client: Readback | AsyncReadback,
    otlp: str = "",
    *,
    exporter: SpanExporter | None = None,
    name: str = "",
    from_start: bool = False,
    payloads: bool = False,
) -> SpanFollower:
    """Export the spans of a ledger while a `with` block runs, for every tenant of the ledger.

    A thread follows the ledger. The thread exports the spans of actions by any process, in order, each at least once
    and under the same ids. No action waits for the export. A failed delivery logs one warning and is repeated.

    Args:
        client: The open client.
        otlp: The address of the receiver. "" takes the address from the environment variables of OpenTelemetry.
        exporter: An exporter of the OpenTelemetry SDK, in place of OTLP over HTTP.
        name: The name of the stored position. An exporter needs a name of its own to continue after a restart.
        from_start: Whether a new position begins at the first entry, instead of at the end of the log.
        payloads: Whether to include arguments and results, as redacted by the contract.

    Returns:
        The follower. Use the follower in a `with` block, or call `start` and `close`. `done` has the counts.

    Raises:
        TelemetryError: The SDK is missing, or the endpoint, a header or a certificate is unusable.
        StoreError: The position could not be stored.

    Example:
        >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        >>> from readback import Readback, verified
        >>> from readback.telemetry import export_spans
        >>> lamp, memory = {"on": False}, InMemorySpanExporter()
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb, export_spans(rb, exporter=memory):
        ...     outcome = rb.run(switch())
        >>> "execute_tool switch_on" in [span.name for span in memory.get_finished_spans()]
        True
    """
    session = client._session  # noqa: SLF001 - of the same library
    receiver = SdkReceiver.otlp(otlp) if exporter is None else SdkReceiver(exporter, name or type(exporter).__name__)
    follower = SpanFollower(
        session.store, session.runtime, receiver, from_start=from_start, payloads=payloads, warn=_logged
    )
    follower.enrol()
    return follower


def spans_of(client: Readback | AsyncReadback, id_or_stamp: str, *, payloads: bool = False) -> list[Span]:
    """Return the spans of one action or saga, oldest end first, from the ledger alone. Needs no extra.

    Raises NotFoundError.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.telemetry import spans_of
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     found = spans_of(rb, rb.run(switch()).id)
        >>> sorted({span.attributes["tool.name"] for span in found})
        ['switch_on']
    """
    session = client._session  # noqa: SLF001 - of the same library
    return Projector(session.store, payloads=payloads).of_action(session.action_id(id_or_stamp))


def _logged(error: TelemetryError) -> None:
    _LOGGER.warning("%s Next: %s", error.message, error.remedy, extra={"code": error.code})
