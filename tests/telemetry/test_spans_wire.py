"""Spans over OTLP/HTTP: what arrives, the environment's variables, and receivers that refuse, hang or are wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from readback import Outcome, Readback, verified
from readback.cli.cli import main
from readback.domain.tracing import names
from readback.errors import StoreVersionError, TelemetryError
from readback.telemetry import export_spans, spans_of
from readback.telemetry.projector_follow import Followed, SpanFollower
from readback.telemetry.projector_otlp import SdkReceiver, endpoint_of
from readback.telemetry.spans import Span
from tests.store.test_sqlite_upgrade import bring_up
from tests.telemetry.otlp_sink import Sink, attributes, sink

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
LAMP: dict[str, bool] = {"on": False}


def switch_on() -> dict[str, str]:
    LAMP["on"] = True
    return {"status": "ok"}


switch = verified(switch_on, read=lambda: LAMP, strong=True, expect={"on": True})


@pytest.fixture
def receiver() -> Iterator[Sink]:
    with sink() as made:
        yield made


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def lit(rb: Readback) -> Outcome:
    """One verified action."""
    LAMP["on"] = False
    return rb.run(switch())


def opened(url: str) -> Readback:
    return Readback.open(url, tenant="acme", principal="agent", run="run-1", trace=TRACE, parent_span=CALLER)


@pytest.mark.requirement("SPAN-wire", "SPAN-one-line")
def test_what_arrives_is_what_the_ledger_says(url: str, receiver: Sink) -> None:
    with opened(url) as rb:
        with export_spans(rb, receiver.url):
            outcome = lit(rb)
        expected = {span.span_id: span for span in spans_of(rb, outcome.id)}
    assert receiver.paths == ["/v1/traces"] * len(receiver.requests)
    assert [span.span_id.hex() for span in receiver.spans] == list(expected)
    for span in receiver.spans:
        told = expected[span.span_id.hex()]
        assert span.trace_id.hex() == TRACE
        assert span.parent_span_id.hex() == told.parent_id
        assert (span.name, span.start_time_unix_nano) == (told.name, told.start_us * 1000)
        assert span.end_time_unix_nano == told.end_us * 1000
        assert attributes(span) == told.attributes
        assert [event.name for event in span.events] == [event.name for event in told.events]
        assert [(link.span_id.hex(), attributes(link)[names.LINK]) for link in span.links] == [
            (link.span_id, link.relation.value) for link in told.links
        ]
        assert (span.kind, span.status.code) == (1, 0)
    assert {each["service.name"] for each in receiver.resources} == {"readback"}


@pytest.mark.requirement("SPAN-status", "SPAN-wire")
def test_an_error_a_client_span_and_a_text_beyond_ascii_arrive_as_such(receiver: Sink) -> None:
    refuted = Span(TRACE, CALLER, "", "x", 1, 2, {"readback.code": "é"}, error="refuted: value_mismatch", client=True)
    sent = SdkReceiver.otlp(receiver.url)
    sent.send([refuted])
    sent.close()
    (span,) = receiver.spans
    assert (span.status.code, span.status.message, span.kind) == (2, "refuted: value_mismatch", 3)
    assert attributes(span) == {"readback.code": "é"}
    assert span.parent_span_id == b""
    with pytest.raises(TelemetryError, match="closed"):
        sent.send([refuted])


@pytest.mark.requirement("SPAN-environment")
def test_the_variables_of_opentelemetry_apply(url: str, receiver: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret,x-team=ops")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "payments")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    with opened(url) as rb, export_spans(rb):
        lit(rb)
    assert receiver.spans
    assert receiver.headers[0]["authorization"] == "Bearer s3cret"
    assert (receiver.headers[0]["x-team"], receiver.headers[0]["content-encoding"]) == ("ops", "gzip")
    assert receiver.resources[0]["service.name"] == "payments"
    assert receiver.resources[0]["deployment.environment"] == "test"


@pytest.mark.requirement("SPAN-environment")
@pytest.mark.parametrize(("variable", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_SAMPLER", "always_off")])
def test_a_disabled_sdk_and_a_sampler_export_nothing(
    url: str, receiver: Sink, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with opened(url) as rb, export_spans(rb, receiver.url) as follower:
        lit(rb)
    assert receiver.spans == []
    assert follower.done.entries > 0


def test_an_endpoint_is_a_base_address_unless_it_is_the_variable_for_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(variable, raising=False)
    assert endpoint_of("") == "http://localhost:4318/v1/traces"
    assert endpoint_of("http://a:1/") == endpoint_of("http://a:1/v1/traces") == "http://a:1/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://shared:1/otlp")
    assert endpoint_of("") == "http://shared:1/otlp/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://own:1/as-it-is")
    assert endpoint_of("") == "http://own:1/as-it-is"


# --- receivers that fail ---


@pytest.mark.requirement("SPAN-off-the-path")
@pytest.mark.parametrize("fault", ["hangs", "refuses", "is not there"])
def test_a_receiver_that_fails_holds_up_no_action_and_loses_no_span(
    url: str, receiver: Sink, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    address = "http://127.0.0.1:9" if fault == "is not there" else receiver.url
    receiver.status = 400 if fault == "refuses" else 200
    receiver.hold = threading.Event() if fault == "hangs" else None
    with opened(url) as rb:
        follower = export_spans(rb, address).start()
        told = [lit(rb) for _ in range(20)]
        assert all(outcome.verified for outcome in told)
        if fault != "is not there":
            assert receiver.came.wait(30)
        assert receiver.spans == []
        thread = follower._thread
        assert thread is not None
        follower.close(wait_s=0.1)
        if receiver.hold is not None:
            receiver.hold.set()
        thread.join(30)
        assert not thread.is_alive()
        receiver.status, receiver.hold = 200, None
        with export_spans(rb, receiver.url, from_start=True) as again:
            pass
        expected = [span.span_id for outcome in told for span in spans_of(rb, outcome.id)]
    assert {span.span_id.hex() for span in receiver.spans} == set(expected)
    assert again.done.refused == 0
    warnings = [each for each in caplog.records if each.name == "readback.telemetry"]
    assert len(warnings) <= 1


class Broken:
    """A receiver that refuses as often as told, then accepts."""

    name = "broken"

    def __init__(self, refusals: int) -> None:
        self.refusals, self.spans, self.closed = refusals, list[Span](), False

    def send(self, spans: Any) -> None:
        if self.refusals:
            self.refusals -= 1
            raise TelemetryError("Not now.", code="telemetry.refused")
        self.spans += spans

    def close(self) -> None:
        self.closed = True


@pytest.mark.requirement("SPAN-off-the-path", "SPAN-bad-input")
def test_a_refusal_is_counted_and_warned_of_once_and_the_spans_come_again(url: str) -> None:
    warned: list[str] = []
    with opened(url) as rb:
        session = rb._session
        broken = Broken(3)
        follower = SpanFollower(session.store, session.runtime, broken, warn=lambda e: warned.append(e.code))
        follower.enrol()
        outcome = lit(rb)
        for _ in range(3):
            try:
                follower.round()
            except TelemetryError as error:
                follower._refused(error)
        assert follower.done == Followed(refused=3, position=0)
        assert follower.round()
        assert [span.span_id for span in broken.spans] == [span.span_id for span in spans_of(rb, outcome.id)]
    assert warned == ["telemetry.refused"]


@pytest.mark.requirement("SPAN-once")
def test_two_followers_of_one_position_export_each_span_once_and_a_repeated_one_has_the_same_id(url: str) -> None:
    with opened(url) as rb:
        session = rb._session
        first, second = Broken(0), Broken(0)
        followers = [SpanFollower(session.store, session.runtime, one) for one in (first, second)]
        for follower in followers:
            follower.enrol()
        ids = [lit(rb).id for _ in range(3)]
        assert followers[0].round()
        assert followers[1].round()
        assert second.spans == []
        expected = [span for action in ids for span in spans_of(rb, action)]
        assert first.spans == expected
        # A crash between the delivery and the stored position: the next follower repeats the spans.
        cursor = next(one for one in session.store.cursors() if one.name.startswith("telemetry:"))
        held = session.store.take_cursor(cursor.name, "dead", 1, 2)
        assert held is not None
        assert session.store.keep_cursor(held, replace(held, after_seq=0, owner=""))
        assert followers[1].round()
        assert second.spans == expected


@pytest.mark.requirement("SPAN-once")
def test_a_follower_waits_for_the_lease_of_a_living_one_and_takes_over_from_a_dead_one(url: str) -> None:
    with opened(url) as rb:
        store, runtime = rb._session.store, rb._session.runtime
        broken = Broken(0)
        follower = SpanFollower(store, runtime, broken)
        follower.enrol()
        lit(rb)
        name = follower._key
        now = runtime.now_us()
        assert store.take_cursor(name, "another/living", now, now + 60_000_000) is not None
        assert not follower.round()
        assert broken.spans == []
        assert store.take_cursor(name, "another/living", now, now + 1, "another/living") is not None
        assert runtime.now_us() > now + 1
        assert follower.round()
        assert broken.spans


# --- bad input ---


@pytest.mark.requirement("SPAN-bad-input")
@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file.pem", "telemetry.certificate"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Bearer s3cret", "telemetry.headers"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "telemetry.endpoint"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_code_and_without_its_value_of_a_header(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, code: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(TelemetryError) as error:
        SdkReceiver.otlp()
    assert error.value.code == code
    assert "s3cret" not in str(error.value)


@pytest.mark.requirement("SPAN-newer-ledger")
def test_a_ledger_of_a_newer_schema_is_refused_by_name(url: str, tmp_path: Path) -> None:
    with opened(url) as rb:
        lit(rb)
    connection = apsw.Connection(str(tmp_path / "ledger.db"))
    (known,) = next(iter(connection.execute("select max(number) from migration")))
    bring_up(connection, f"{known + 1:04d}_newer.sql", known + 1)
    connection.close()
    with pytest.raises(StoreVersionError, match=f"has schema {known + 1}"):
        opened(url)
    result = invoked(main, ["telemetry", "spans", "last", "--url", url, "--tenant", "acme", "--json"])
    assert result == 6


def invoked(command: Any, arguments: list[str]) -> int:
    code: int = command.answer(arguments)
    return code


@pytest.mark.requirement("SPAN-one-line")
def test_the_command_shows_and_exports_the_spans_of_a_ledger(
    url: str, receiver: Sink, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(url) as rb:
        outcome = lit(rb)
        expected = [span.as_json() for span in spans_of(rb, outcome.id)]
    given = ["--url", url, "--tenant", "acme", "--json"]
    assert invoked(main, ["telemetry", "spans", "last", *given]) == 0
    assert json.loads(capsys.readouterr().out) == expected
    assert invoked(main, ["telemetry", "spans", "--otlp", receiver.url, "--from-start", *given]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["spans"], said["refused"], said["damaged"]) == (len(expected), 0, 0)
    assert len(receiver.spans) == len(expected)
    assert invoked(main, ["telemetry", "spans", "--otlp", receiver.url, *given]) == 0  # nothing new
    assert json.loads(capsys.readouterr().out)["spans"] == 0
    assert invoked(main, ["telemetry", "spans", *given]) == 2
