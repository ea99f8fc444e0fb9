"""Export spans by the OpenTelemetry SDK: over OTLP/HTTP, or through any exporter of the SDK.

Needs the extra `otel`. The environment variables of OpenTelemetry apply: OTEL_EXPORTER_OTLP_ENDPOINT and its variants
for traces, headers, certificates, timeout and compression; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES;
OTEL_TRACES_SAMPLER; OTEL_SDK_DISABLED.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from readback.domain.tracing import names
from readback.errors import TelemetryError
from readback.telemetry.spans import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import SpanContext

SERVICE: Final = "readback"
TRACES_PATH: Final = "/v1/traces"
EXPORT_SPANS_MAX: Final = 512
NAME_CHARACTERS: Final = 12
_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_DEFAULT: Final = "http://localhost:4318"
_INSTALL: Final = "Install the extra: pip install 'readback-ai[otel]'."
_LOGGERS: Final = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http._common",
    "opentelemetry.exporter.otlp.proto.common._internal.trace_encoder",
    "opentelemetry.exporter.otlp.common.http",
)
SAID_MAX: Final = 300


def endpoint_of(given: str) -> str:
    """Return the address for traces. `given`: a base address, an address for traces, or "" for the variables' own.

    Raises TelemetryError (`telemetry.endpoint`) for an address without a scheme or a host.
    """
    own, shared = (os.environ.get(each, "").strip() for each in _VARIABLES)
    address = given.strip() or own or shared or _DEFAULT
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise TelemetryError(
            f"The endpoint {address!r:.200} is no address of a receiver.",
            remedy="Pass an address such as http://localhost:4318.",
            code="telemetry.endpoint",
        )
    whole = own and not given.strip()  # the variable for traces names the whole address
    return address if whole or address.endswith(TRACES_PATH) else address.rstrip("/") + TRACES_PATH


class SdkReceiver:
    """Sends spans through an exporter of the OpenTelemetry SDK. Safe for one thread at a time.

    Raises TelemetryError (`telemetry.missing`) without the SDK.
    """

    def __init__(self, exporter: SpanExporter, name: str) -> None:
        self.name = name
        self._exporter = exporter
        self._made = _Conversion()
        self._closed = False

    @classmethod
    def otlp(cls, endpoint: str = "") -> SdkReceiver:
        """Return a receiver over OTLP/HTTP. `endpoint`: "" for the environment variables.

        Raises:
            TelemetryError: The endpoint, a header or a certificate is unusable, or the SDK is missing.
        """
        address = endpoint_of(endpoint)
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise missing(error) from error
        _check_files()
        try:
            with _quiet():
                exporter = OTLPSpanExporter(endpoint=address)
        except Exception as error:
            raise TelemetryError(
                f"The export to {shown(address)} cannot be set up: {_said(error)}", code="telemetry.settings"
            ) from error
        return cls(exporter, sha256(address.encode()).hexdigest()[:NAME_CHARACTERS])

    def send(self, spans: Sequence[Span]) -> None:
        """Deliver the spans. Raises TelemetryError (`telemetry.refused`) where the receiver did not accept them."""
        if self._closed:
            raise TelemetryError("The export is closed.", code="telemetry.closed")
        from opentelemetry.sdk.trace.export import SpanExportResult

        made = self._made.of(spans)
        for start in range(0, len(made), EXPORT_SPANS_MAX):
            with _quiet() as said:
                result = self._exporter.export(made[start : start + EXPORT_SPANS_MAX])
            if result is not SpanExportResult.SUCCESS:
                reason = "; ".join(dict.fromkeys((*said[:1], *said[-1:]))) or "no reason given"
                code = "telemetry.certificate" if "certificate" in reason.lower() else "telemetry.refused"
                raise TelemetryError(f"The receiver did not accept spans: {reason}", code=code)

    def close(self) -> None:
        """Interrupt a delivery, and release all resources. A second call does nothing."""
        if not self._closed:
            self._closed = True
            with _quiet():
                self._exporter.shutdown()


class _Conversion:
    """Turns spans into the SDK's form, for the resource and the sampler of the environment."""

    def __init__(self) -> None:
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        except ImportError as error:
            raise missing(error) from error
        self._resource = Resource.create()
        if str(self._resource.attributes.get("service.name", "")).startswith("unknown_service"):
            self._resource = self._resource.merge(Resource({"service.name": SERVICE}))
        self._scope = InstrumentationScope(SERVICE)
        self._disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        self._sampler = TracerProvider(resource=self._resource, shutdown_on_exit=False).sampler
        self._decisions: dict[tuple[str, bool], bool] = {}

    def of(self, spans: Sequence[Span]) -> list[ReadableSpan]:
        """Return the sampled spans in the SDK's form."""
        if self._disabled:
            return []
        return [self._one(each) for each in spans if self._is_sampled(each)]

    def _is_sampled(self, span: Span) -> bool:
        """One decision for all spans of an action, from its trace id and from the caller's own decision."""
        key = (span.trace_id, span.sampled)
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= EXPORT_SPANS_MAX:
                self._decisions.clear()
            known = self._decisions[key] = self._decided(span)
        return known

    def _decided(self, span: Span) -> bool:
        from opentelemetry.sdk.trace.sampling import Decision
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context

        context = None
        if not span.sampled:
            context = set_span_in_context(NonRecordingSpan(_context(span.trace_id, span.span_id, sampled=False)))
        decided = self._sampler.should_sample(context, int(span.trace_id, 16), span.name).decision
        return decided is Decision.RECORD_AND_SAMPLE

    def _one(self, span: Span) -> ReadableSpan:
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        parent = None
        if span.parent_id:
            parent = _context(span.trace_id, span.parent_id, remote=span.remote)
        return ReadableSpan(
            span.name,
            context=_context(span.trace_id, span.span_id),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(each.name, each.attributes, each.at_us * 1000) for each in span.events],
            links=[
                Link(_context(each.trace_id or span.trace_id, each.span_id), {names.LINK: each.relation.value})
                for each in span.links
            ],
            kind=SpanKind.CLIENT if span.client else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.start_us * 1000,
            end_time=span.end_us * 1000,
            instrumentation_scope=self._scope,
        )


def _context(trace_id: str, span_id: str, *, remote: bool = False, sampled: bool = True) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(int(trace_id, 16), int(span_id, 16), remote, flags)


def _check_files() -> None:
    """Check the files named by the environment: the exporter itself would fail at each delivery."""
    for kind in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"):
        for variable in (f"OTEL_EXPORTER_OTLP_TRACES_{kind}", f"OTEL_EXPORTER_OTLP_{kind}"):
            path = os.environ.get(variable, "")
            if path and not os.path.isfile(path):
                raise TelemetryError(
                    f"{variable} names {path!r:.200}, and there is no such file.",
                    remedy=f"Correct {variable}, or unset the variable.",
                    code="telemetry.certificate",
                )
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"):
        wrong = [part for part in os.environ.get(variable, "").split(",") if part.strip() and "=" not in part]
        if wrong:
            raise TelemetryError(
                f"{variable} has a part without '=': headers are written name=value, with commas between.",
                remedy=f"Correct {variable}. Percent-encode commas inside a value.",
                code="telemetry.headers",
            )


def missing(error: ImportError) -> TelemetryError:
    """The error for an installation without the SDK."""
    return TelemetryError(
        f"Export of spans needs the OpenTelemetry SDK: {error}.", remedy=_INSTALL, code="telemetry.missing"
    )


def shown(address: str) -> str:
    """Return an address without credentials and query, for messages."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _said(error: object) -> str:
    return " ".join(str(error).split())[:SAID_MAX] or type(error).__name__


class _Listening(logging.Filter):
    """Takes the SDK's log records of one thread: they hold the only reason of a failed delivery."""

    def __init__(self, said: list[str]) -> None:
        super().__init__()
        self._said, self._thread = said, threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        if record.levelno >= logging.WARNING:
            self._said.append(_said(record.getMessage()))
        return False


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """Collect the SDK's log records of this thread instead of writing each of them."""
    said: list[str] = []
    listening = _Listening(said)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for each in loggers:
        each.addFilter(listening)
    try:
        yield said
    finally:
        for each in loggers:
            each.removeFilter(listening)
