"""The normaliser: whatever a tool returns or raises becomes one typed observation, and none of it is truth."""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import subprocess
import sys
from collections import UserDict
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.error import HTTPError

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from readback.canon import envelope_bytes
from readback.canon.limits import EVIDENCE_MAX_BYTES
from readback.domain.verdict import Level
from readback.domain.verification.observation import (
    TEXT_MAX_CHARACTERS,
    Observation,
    ObservationStatus,
    normalise,
    normalise_exception,
    one_line,
)
from readback.domain.verification.observation_signs import DETAIL_MAX_CHARACTERS
from readback.errors import NotDispatchedError, ToolTimeoutError

O = ObservationStatus  # noqa: E741
AT = 1_700_000_000_000_000


class Model(BaseModel):
    ok: bool
    id: int


@dataclass
class Answer:
    success: bool
    reference: str = "r-1"


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("do not look at me")


class HostileMapping(UserDict[str, Any]):
    def items(self) -> Any:
        raise ZeroDivisionError


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class UrllibLike:
    status = 503
    headers: dict[str, str] = {}  # noqa: RUF012


class Popen:
    returncode = None


def mcp(*texts: str, is_error: bool = False, **more: Any) -> dict[str, Any]:
    return {"isError": is_error, "content": [{"type": "text", "text": t} for t in texts], **more}


def done(code: int, stdout: str | bytes | None = None) -> subprocess.CompletedProcess[Any]:
    return subprocess.CompletedProcess(["tool"], code, stdout=stdout)


RETURNED: list[tuple[object, ObservationStatus, str]] = [
    # nothing, plain values
    (None, O.SUCCESS, "returned.nothing"),
    (True, O.SUCCESS, "returned.value"),
    (False, O.ERROR, "returned.false"),
    (0, O.SUCCESS, "returned.value"),
    (7.5, O.SUCCESS, "returned.value"),
    ({}, O.SUCCESS, "returned.value"),
    ([], O.SUCCESS, "returned.value"),
    ({"id": "ch_1", "status": "succeeded"}, O.SUCCESS, "returned.value"),
    (Model(ok=True, id=3), O.SUCCESS, "returned.value"),
    (Answer(success=True), O.SUCCESS, "returned.value"),
    # flags
    ({"success": False}, O.ERROR, "flag.success-false"),
    ({"ok": "false"}, O.ERROR, "flag.ok-false"),
    ({"succeeded": 0}, O.ERROR, "flag.succeeded-false"),
    ({"isError": True}, O.ERROR, "flag.iserror"),
    ({"is_error": 1}, O.ERROR, "flag.iserror"),
    ({"failed": True}, O.ERROR, "flag.failed"),
    ({"failed": "no"}, O.SUCCESS, "returned.value"),
    ({"succeeded": 3, "failed": 1}, O.PARTIAL, "flag.failed"),
    (Model(ok=False, id=3), O.ERROR, "flag.ok-false"),
    (Answer(success=False), O.ERROR, "flag.success-false"),
    ({"result": {"success": False}}, O.ERROR, "flag.success-false"),
    ({"data": {"result": {"ok": False}}}, O.ERROR, "flag.ok-false"),
    ({"order": {"success": False}}, O.SUCCESS, "returned.value"),
    # error fields
    ({"error": "card declined"}, O.ERROR, "field.error"),
    ({"error": {"message": "no", "code": 7}}, O.ERROR, "field.error"),
    ({"error": None, "id": 1}, O.SUCCESS, "returned.value"),
    ({"error": "", "id": 1}, O.SUCCESS, "returned.value"),
    ({"errors": [{"message": "x"}]}, O.ERROR, "field.errors"),
    ({"errors": []}, O.SUCCESS, "returned.value"),
    ({"errors": [{"message": "x"}], "data": {"a": 1}}, O.PARTIAL, "field.errors"),
    ({"ok": True, "errors": ["x"]}, O.ERROR, "field.errors"),
    ({"error_code": 12}, O.ERROR, "field.errorcode"),
    # status words
    ({"status": "queued"}, O.ACCEPTED, "status.queued"),
    ({"status": "Accepted"}, O.ACCEPTED, "status.accepted"),
    ({"status": "in progress"}, O.PENDING, "status.in_progress"),
    ({"state": "PROCESSING"}, O.PENDING, "status.processing"),
    ({"status": "authorized"}, O.PENDING, "status.authorized"),
    ({"status": "failed"}, O.ERROR, "status.failed"),
    ({"status": "declined", "ok": True}, O.ERROR, "status.declined"),
    ({"success": True, "status": "pending"}, O.PENDING, "status.pending"),
    ({"status": "timed-out"}, O.TIMEOUT, "status.timed_out"),
    ({"status": "partially_completed"}, O.PARTIAL, "status.partially_completed"),
    ({"status": "cancelled"}, O.CANCELLED, "status.cancelled"),
    ({"ok": True, "status": "cancelled"}, O.SUCCESS, "returned.value"),
    ({"status": "shipped"}, O.SUCCESS, "returned.value"),
    ({"status": "failed " * 20}, O.SUCCESS, "returned.value"),
    ({"status": 500}, O.ERROR, "http.500"),
    ({"statusCode": 202, "body": "x"}, O.ACCEPTED, "http.202"),
    ({"status": 17}, O.SUCCESS, "returned.value"),
    # parts
    ([{"ok": True}, {"ok": False}], O.PARTIAL, "parts.mixed"),
    ([{"ok": False}, {"error": "x"}], O.ERROR, "parts.failed"),
    ([{"status": "failed"}, {"status": "pending"}], O.SUCCESS, "returned.value"),
    ({"results": [{"success": True}, {"success": False}]}, O.PARTIAL, "parts.mixed"),
    # text
    ("Sent!", O.MALFORMED, "malformed.raw-text"),
    ("The transfer completed successfully.", O.MALFORMED, "malformed.raw-text"),
    ("Error: card declined, although it completed successfully", O.MALFORMED, "malformed.error-text"),
    ("ValueError: no such order", O.MALFORMED, "malformed.error-text"),
    ("Traceback (most recent call last):", O.MALFORMED, "malformed.error-text"),
    ("timed out after 30 s", O.MALFORMED, "malformed.error-text"),
    ('{"ok": false}', O.ERROR, "flag.ok-false"),
    (b'{"status": "queued"}', O.ACCEPTED, "status.queued"),
    ("[1, 2]", O.SUCCESS, "returned.value"),
    ("", O.MALFORMED, "malformed.raw-text"),
    (b"\xff\xfe", O.MALFORMED, "malformed.binary"),
    # tuples
    ((200, {"id": 1}), O.SUCCESS, "http.200"),
    ((200, {"success": False}), O.ERROR, "flag.success-false"),
    ((202, None), O.ACCEPTED, "http.202"),
    ((550, b"no such user"), O.ERROR, "http.550"),
    ((500, "oops", {"h": "v"}), O.ERROR, "http.500"),
    ((False, "no"), O.ERROR, "flag.false"),
    ((True, {"status": "queued"}), O.ACCEPTED, "status.queued"),
    ((True, 5), O.SUCCESS, "returned.value"),
    ((1, 2), O.SUCCESS, "returned.value"),
    # responses
    (httpx.Response(200, json={"id": 1}), O.SUCCESS, "http.200"),
    (httpx.Response(201), O.SUCCESS, "http.201"),
    (httpx.Response(202), O.ACCEPTED, "http.202"),
    (httpx.Response(207, json=[]), O.PARTIAL, "http.207"),
    (httpx.Response(302), O.ERROR, "http.302"),
    (httpx.Response(404), O.ERROR, "http.404"),
    (httpx.Response(408), O.TIMEOUT, "http.408"),
    (httpx.Response(504), O.TIMEOUT, "http.504"),
    (httpx.Response(100), O.MALFORMED, "http.100"),
    (httpx.Response(200, json={"success": False}), O.ERROR, "flag.success-false"),
    (httpx.Response(200, text="Error: no"), O.MALFORMED, "malformed.error-text"),
    (httpx.Response(200, text="hello"), O.SUCCESS, "http.200"),
    (httpx.Response(500, json={"success": True}), O.ERROR, "http.500"),
    (httpx.Response(500, stream=httpx.ByteStream(b"x")), O.ERROR, "http.500"),
    (UrllibLike(), O.ERROR, "http.503"),
    # processes
    (done(0), O.SUCCESS, "exit.0"),
    (done(2, "all good"), O.ERROR, "exit.2"),
    (done(-9), O.ERROR, "exit.-9"),
    (done(0, '{"ok": false}'), O.ERROR, "flag.ok-false"),
    (done(0, b"fine"), O.SUCCESS, "exit.0"),
    (done(0, "error: fine"), O.MALFORMED, "malformed.error-text"),
    (Popen(), O.PENDING, "exit.running"),
    # results of the Model Context Protocol
    (mcp("done"), O.SUCCESS, "returned.value"),
    (mcp("done", is_error=True), O.ERROR, "flag.iserror"),
    (mcp('{"success": false}'), O.ERROR, "flag.success-false"),
    (mcp("fine", "Error: not found"), O.MALFORMED, "malformed.error-text"),
    (mcp("x", structuredContent={"status": "queued"}), O.ACCEPTED, "status.queued"),
    # what has no exact form
    (float("nan"), O.MALFORMED, "malformed.unsupported"),
    ({"a": float("inf")}, O.MALFORMED, "malformed.unsupported"),
    ({1, 2}, O.MALFORMED, "malformed.unsupported"),
    (object(), O.MALFORMED, "malformed.unsupported"),
    (2**70, O.SUCCESS, "returned.value"),
    (b'{"ok": true, "n": 1.000000000000000001}', O.SUCCESS, "returned.value"),
    (10**401, O.MALFORMED, "malformed.unsupported"),
    (Hostile(), O.MALFORMED, "malformed.value"),
    (HostileMapping({"a": 1}), O.MALFORMED, "malformed.unsupported"),
    # exceptions that were returned
    (ValueError("no"), O.ERROR, "exception"),
    (TimeoutError(), O.TIMEOUT, "timeout"),
]


@pytest.mark.requirement("L16", "HS-10", "TRUST-1")
@pytest.mark.parametrize(
    ("raw", "status", "code"), RETURNED, ids=[f"{i}-{code}" for i, (_, _, code) in enumerate(RETURNED)]
)
def test_each_returned_value_becomes_its_observation(raw: object, status: ObservationStatus, code: str) -> None:
    seen = normalise(raw, AT)
    assert (seen.status, seen.code) == (status, code)
    assert seen.at_us == AT
    assert seen.dispatched
    assert seen.claims_success == (status is O.SUCCESS)
    assert seen.level in (Level.RAW, Level.NORMALISED)
    assert len(seen.detail) <= DETAIL_MAX_CHARACTERS
    assert seen.detail
    envelope_bytes(seen.envelope())


@pytest.mark.requirement("L28")
@given(st.text())
def test_no_raw_text_is_ever_a_success_or_a_failure(text: str) -> None:
    seen = normalise(text, AT)
    if not text.lstrip().startswith(("{", "[")):
        assert seen.status is O.MALFORMED
        assert seen.level is Level.RAW or seen.body is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.sampled_from(["ok", "success", "status", "error", "errors", "data", "results", "content", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_nothing_that_is_returned_makes_it_raise(raw: object) -> None:
    seen = normalise(raw, AT)
    assert isinstance(seen, Observation)
    assert Observation.from_envelope(seen.envelope(), seen.body) == seen


@given(JSON)
def test_an_explicit_failure_outweighs_everything_else(raw: object) -> None:
    if isinstance(raw, dict):
        assert not normalise({**raw, "success": False}, AT).claims_success
        assert not normalise((500, raw), AT).claims_success


@pytest.mark.slow
@pytest.mark.requirement("INPUT-over-long-value")
def test_an_answer_over_the_limit_is_not_kept_and_claims_nothing() -> None:
    long = ["x" * 1_000_000] * (EVIDENCE_MAX_BYTES // 1_000_000 + 1)
    seen = normalise({"ok": True, "text": long}, AT)
    assert (seen.status, seen.code, seen.body) == (O.MALFORMED, "malformed.too-large", None)
    failed = normalise({"ok": False, "text": long}, AT)
    assert (failed.status, failed.body) == (O.ERROR, None)
    text = normalise("y" * 10_000_000, AT)
    assert text.status is O.MALFORMED
    assert isinstance(text.body, str)
    assert len(text.body) <= TEXT_MAX_CHARACTERS


def test_deeply_nested_answers_do_not_exhaust_anything() -> None:
    deep: Any = {"ok": False}
    for _ in range(60):
        deep = {"data": deep}
    assert normalise(deep, AT).status is O.SUCCESS  # too deep to be a statement about the call
    for _ in range(5_000):
        deep = {"data": deep}
    assert normalise(deep, AT).status is O.MALFORMED


@pytest.mark.requirement("TRUST-0")
def test_raw_output_has_level_zero_and_is_one_bounded_line() -> None:
    seen = normalise("a\x00b\u202ec\r\nd\u2028e", AT)
    assert seen.level is Level.RAW
    assert seen.body == "a b c d e"
    process = normalise(done(1, "boom\x1b[31m"), AT)
    assert process.level is Level.RAW
    assert process.body == {"returncode": 1, "stdout": "boom [31m"}


@pytest.mark.parametrize(
    ("body", "reference"),
    [
        ({"id": "ch_1"}, "ch_1"),
        ({"id": 17}, "17"),
        ({"message_id": "<a@b>"}, "<a@b>"),
        ({"data": {"transaction_id": "t"}}, "t"),
        ({"id": True}, None),
        ({"id": ""}, None),
        ({"id": {"a": 1}}, None),
        ({"name": "x"}, None),
        ([1], None),
        ({"id": "x" * 1000}, "x" * 63 + "…"),
    ],
)
def test_a_reference_is_a_bounded_hint(body: object, reference: str | None) -> None:
    assert normalise(body, AT).reference == reference


def test_an_observation_passes_through() -> None:
    given_ = Observation(O.ACCEPTED, True, "mine", "Mine.", {"a": 1}, None, 5)
    seen = normalise(given_, AT)
    assert seen.code == "mine"
    assert seen.at_us == AT


def test_an_attempt_without_an_answer_may_have_had_any_effect() -> None:
    seen = Observation.missing(AT)
    assert (seen.status, seen.dispatched, seen.at_us) == (O.NONE, True, AT)
    assert not seen.claims_success


def http_error(status: int, **content: Any) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1/")
    response = httpx.Response(status, request=request, **content)
    return httpx.HTTPStatusError("bad", request=request, response=response)


RAISED: list[tuple[BaseException, ObservationStatus, str]] = [
    (NotDispatchedError("nothing sent"), O.NOT_DISPATCHED, "not-dispatched"),
    (ToolTimeoutError("late"), O.TIMEOUT, "timeout"),
    (TimeoutError("late"), O.TIMEOUT, "timeout"),
    (concurrent.futures.TimeoutError(), O.TIMEOUT, "timeout"),
    (httpx.ReadTimeout("late"), O.TIMEOUT, "timeout"),
    (httpx.ConnectTimeout("late"), O.TIMEOUT, "timeout"),
    (subprocess.TimeoutExpired(["x"], 3), O.TIMEOUT, "timeout"),
    (asyncio.CancelledError(), O.CANCELLED, "cancelled"),
    (concurrent.futures.CancelledError(), O.CANCELLED, "cancelled"),
    (KeyboardInterrupt(), O.CANCELLED, "cancelled"),
    (ConnectionRefusedError("no"), O.ERROR, "connection.refused"),
    (httpx.ConnectError("no"), O.ERROR, "connection.refused"),
    (socket.gaierror("no"), O.ERROR, "connection.refused"),
    (ConnectionResetError("gone"), O.ERROR, "connection.lost"),
    (BrokenPipeError(), O.ERROR, "connection.lost"),
    (http_error(500), O.ERROR, "http.500"),
    (http_error(504), O.TIMEOUT, "http.504"),
    (http_error(409, json={"error": "conflict"}), O.ERROR, "http.409"),
    (http_error(302), O.ERROR, "http.302"),
    (http_error(204), O.ERROR, "http.204"),
    (ValueError("no\nsuch"), O.ERROR, "exception"),
    (Unsayable(), O.ERROR, "exception"),
    (SystemExit(3), O.ERROR, "exception"),
    (ExceptionGroup("several", [ValueError("x")]), O.ERROR, "exception"),
]


@pytest.mark.requirement("HS-05", "HS-10")
@pytest.mark.parametrize(
    ("exc", "status", "code"), RAISED, ids=[f"{type(exc).__name__}-{i}" for i, (exc, _, _) in enumerate(RAISED)]
)
def test_each_exception_becomes_its_observation(exc: BaseException, status: ObservationStatus, code: str) -> None:
    seen = normalise_exception(exc, AT)
    assert (seen.status, seen.code, seen.at_us) == (status, code, AT)
    assert seen.dispatched == (status is not O.NOT_DISPATCHED)
    assert not seen.claims_success
    assert "\n" not in seen.detail
    envelope_bytes(seen.envelope())


def test_an_http_error_of_the_standard_library_is_an_error() -> None:
    error = HTTPError("http://127.0.0.1/", 503, "down", Message(), None)
    with error:
        assert normalise_exception(error, AT).status is O.ERROR


@pytest.mark.requirement("TRUTH-verdict-9")
@pytest.mark.parametrize(
    ("exc", "proves"),
    [
        (ConnectionRefusedError(), True),
        (httpx.ConnectError("no"), True),
        (httpx.ConnectTimeout("no"), True),
        (httpx.PoolTimeout("no"), True),
        (socket.gaierror("no"), True),
        (httpx.ReadTimeout("no"), False),
        (httpx.WriteError("no"), False),
        (ConnectionResetError(), False),
        (ValueError(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failed_connection_proves_no_dispatch_only_to_who_made_one_request(exc: BaseException, proves: bool) -> None:
    assert normalise_exception(exc, AT).dispatched
    seen = normalise_exception(exc, AT, connect_proves=True)
    assert seen.dispatched is not proves
    assert (seen.status is O.NOT_DISPATCHED) is proves


def test_a_real_process_is_normalised_by_its_return_code() -> None:
    program = 'import sys; print(\'{"status": "queued"}\'); sys.exit(int(sys.argv[1]))'
    for code, status in ((0, O.ACCEPTED), (3, O.ERROR)):
        ran = subprocess.run([sys.executable, "-c", program, str(code)], capture_output=True, text=True, check=False)
        assert normalise(ran, AT).status is status


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("plain", 10, "plain"),
        ("a  b\t\nc", 10, "a b c"),
        ("x" * 11, 10, "x" * 9 + "…"),
        ("\x00" * 100 + "end", 10, "…"),
        ("", 10, ""),
    ],
)
def test_text_from_outside_becomes_one_bounded_line(text: str, limit: int, expected: str) -> None:
    assert one_line(text, limit) == expected
