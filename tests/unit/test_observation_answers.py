"""What an answer's form tells: responses, processes, tuples, text and exceptions, each to its bounds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx
import pytest

from readback.canon.limits import EVIDENCE_MAX_BYTES
from readback.domain.verdict import Level
from readback.domain.verification.observation import Observation, ObservationStatus, normalise, normalise_exception

O = ObservationStatus  # noqa: E741
AT = 1_700_000_000_000_000


def said(raw: object) -> tuple[ObservationStatus, str]:
    seen = normalise(raw, AT)
    return seen.status, seen.code


def process(code: object, **output: object) -> SimpleNamespace:
    return SimpleNamespace(returncode=code, **output)


def test_an_attempt_without_an_answer_says_none() -> None:
    assert Observation.missing(AT).code == "none"


# --- observations that a tool makes itself ---


def own(**changes: Any) -> Observation:
    fields: dict[str, Any] = {
        "status": O.SUCCESS,
        "dispatched": True,
        "code": "mine",
        "detail": "Mine.",
        "body": None,
        "reference": None,
        "at_us": 5,
    }
    return normalise(Observation(**{**fields, **changes}), AT)


@pytest.mark.parametrize(("given", "kept"), [(True, True), (False, False), (None, True), (0, True)])
def test_only_a_plain_false_says_that_nothing_was_dispatched(given: object, kept: bool) -> None:
    assert own(dispatched=given).dispatched is kept


@pytest.mark.parametrize(
    ("given", "kept"), [(None, None), (99, None), (100, 100), (200, 200), (599, 599), (600, None), (-1, None)]
)
def test_an_observation_keeps_a_status_that_http_has(given: int | None, kept: int | None) -> None:
    assert own(http_status=given).http_status == kept


def test_the_code_and_the_reference_of_a_tools_own_observation_are_bounded() -> None:
    seen = own(code="c" * 300, reference="r" * 300)
    assert seen.code == "c" * 63 + "…"
    assert seen.reference == "r" * 63 + "…"
    assert own(code="c" * 64, reference="r" * 64).reference == "r" * 64
    assert own(reference=None).reference is None


def test_a_tools_own_observation_keeps_its_level_and_body() -> None:
    seen = own(level=Level.RAW, body={"a": (1, 2)})
    assert (seen.level, seen.body) == (Level.RAW, {"a": [1, 2]})


# --- plain values ---


class FieldsDict(dict[str, Any]):
    status_code = 500


class FieldsList(list[Any]):
    status_code = 500


class FieldsInt(int):
    status_code = 500


class FieldsFloat(float):
    status_code = 500


class Row(NamedTuple):
    status_code: int
    name: str


@pytest.mark.parametrize("raw", [FieldsDict(a=1), FieldsList([1]), Row(500, "x"), FieldsInt(3), FieldsFloat(3.5)])
def test_a_plain_value_is_read_by_its_content_whatever_attributes_its_type_has(raw: object) -> None:
    seen = normalise(raw, AT)
    assert seen.http_status is None
    assert not seen.code.startswith("http.")


def test_a_returned_exception_never_proves_that_nothing_was_sent() -> None:
    seen = normalise(ConnectionRefusedError("no"), AT)
    assert (seen.status, seen.code, seen.dispatched) == (O.ERROR, "connection.refused", True)


# --- text ---


@pytest.mark.requirement("HS-10")
@pytest.mark.parametrize("raw", [b'{"ok": false}', bytearray(b'{"ok": false}'), memoryview(b'{"ok": false}')])
def test_bytes_of_any_kind_are_read_as_text(raw: object) -> None:
    assert said(raw) == (O.ERROR, "flag.ok-false")


@pytest.mark.requirement("L28")
@pytest.mark.parametrize("raw", ["5", "true", "false", "null", '"done"', "1.5"])
def test_text_that_is_a_bare_json_scalar_is_still_raw_text(raw: str) -> None:
    seen = normalise(raw, AT)
    assert (seen.status, seen.code, seen.level) == (O.MALFORMED, "malformed.raw-text", Level.RAW)
    assert seen.body == raw


def test_of_raw_text_4096_characters_are_kept() -> None:
    assert normalise("y" * 4_096, AT).body == "y" * 4_096
    assert normalise("y" * 4_097, AT).body == "y" * 4_095 + "…"


@pytest.mark.requirement("INPUT-over-long-value")
def test_json_text_over_the_limit_is_not_parsed() -> None:
    padding = " " * EVIDENCE_MAX_BYTES
    assert said('{"ok": false}' + padding) == (O.MALFORMED, "malformed.raw-text")


@pytest.mark.requirement("INPUT-over-long-value")
@pytest.mark.parametrize(("characters", "kept"), [(EVIDENCE_MAX_BYTES - 2, True), (EVIDENCE_MAX_BYTES - 1, False)])
def test_an_answer_is_kept_up_to_the_limit_to_the_byte(characters: int, kept: bool) -> None:
    seen = own(body="x" * characters)
    assert (seen.body is not None) is kept
    assert seen.claims_success is kept


@pytest.mark.requirement("INPUT-over-long-value")
def test_an_answer_far_over_every_limit_is_too_large_not_unreadable() -> None:
    seen = normalise((200, ["x" * 1_000_000] * 6), AT)
    assert (seen.status, seen.code, seen.http_status, seen.body) == (O.MALFORMED, "malformed.too-large", 200, None)


# --- tuples ---


@pytest.mark.parametrize("status", [100, 200, 599])
def test_a_tuple_that_begins_with_a_status_is_an_http_answer(status: int) -> None:
    seen = normalise((status, {"id": "a"}), AT)
    assert (seen.http_status, seen.reference) == (status, "a")


@pytest.mark.parametrize(
    "raw",
    [
        (500,),
        (500, "a", "b", "c"),
        (99, "a"),
        (600, "a"),
        (500.0, "a"),
        ("500", "a"),
        (0, "a"),
        ("", {"status": "queued"}),
        ("x", {"status": "queued"}),
        (1, {"status": "queued"}),
        (),
    ],
    ids=repr,
)
def test_any_other_tuple_is_a_list(raw: tuple[object, ...]) -> None:
    seen = normalise(raw, AT)
    assert (seen.status, seen.code, seen.http_status) == (O.SUCCESS, "returned.value", None)
    assert seen.body == [*raw]


@pytest.mark.requirement("HS-10")
@pytest.mark.parametrize("http_like", [500, 599])
def test_an_http_tuple_may_carry_its_headers(http_like: int) -> None:
    assert said((http_like, "oops", {})) == (O.ERROR, f"http.{http_like}")


@pytest.mark.requirement("HS-10")
def test_false_with_an_answer_is_an_error_that_keeps_the_answer() -> None:
    assert normalise((False, {"a": 1}), AT).body == [False, {"a": 1}]
    seen = normalise((False, object()), AT)
    assert (seen.status, seen.code, seen.body) == (O.ERROR, "flag.false", None)


def test_true_with_a_value_keeps_both_and_true_with_an_object_is_that_object() -> None:
    assert normalise((True, 5), AT).body == [True, 5]
    assert normalise((True, {"id": "a"}), AT).body == {"id": "a"}


# --- responses ---


def response(code: object, **content: object) -> SimpleNamespace:
    return SimpleNamespace(status_code=code, **content)


@pytest.mark.parametrize("code", [100, 404, 599])
def test_a_response_is_known_by_its_status(code: int) -> None:
    assert normalise(response(code), AT).http_status == code


@pytest.mark.parametrize("code", [99, 600, "404", None, True, 404.0])
def test_what_is_no_http_status_makes_no_response(code: object) -> None:
    assert said(response(code)) == (O.MALFORMED, "malformed.unsupported")


def test_a_status_alone_makes_a_response_only_beside_headers() -> None:
    assert said(SimpleNamespace(status=503)) == (O.MALFORMED, "malformed.unsupported")
    assert said(SimpleNamespace(status=503, headers={})) == (O.ERROR, "http.503")


@pytest.mark.requirement("HS-10")
@pytest.mark.parametrize(
    "content",
    [
        {"content": b'{"ok": false}'},
        {"content": '{"ok": false}'},
        {"text": '{"ok": false}'},
        {"text": b'{"ok": false}'},
        {"content": object(), "text": '{"ok": false}'},
        {"json": lambda: {"ok": False}},
        {"content": object(), "text": lambda: "a method", "json": lambda: {"ok": False}},
    ],
)
def test_a_failure_is_found_wherever_a_response_keeps_its_content(content: dict[str, object]) -> None:
    seen = normalise(response(200, **content), AT)
    assert (seen.status, seen.code, seen.body) == (O.ERROR, "flag.ok-false", {"ok": False})


def test_the_content_counts_before_the_text_and_the_text_before_the_method() -> None:
    seen = normalise(response(200, content=b"[1]", text="[2]", json=lambda: [3]), AT)
    assert seen.body == [1]
    assert normalise(response(200, text="[2]", json=lambda: [3]), AT).body == [2]


def test_a_response_whose_content_cannot_be_had_has_none() -> None:
    def fails() -> object:
        raise ValueError("no JSON")

    seen = normalise(response(200, json=fails), AT)
    assert (seen.status, seen.code, seen.body, seen.level) == (O.SUCCESS, "http.200", None, Level.NORMALISED)


@pytest.mark.parametrize("empty", ["", b"", None])
def test_an_empty_answer_has_no_body_and_is_not_raw(empty: object) -> None:
    seen = normalise((200, empty), AT)
    assert (seen.status, seen.code, seen.body, seen.level) == (O.SUCCESS, "http.200", None, Level.NORMALISED)


@pytest.mark.parametrize("content", [{}, [], 0])
def test_an_empty_value_is_the_body_that_it_is(content: object) -> None:
    seen = normalise((200, content), AT)
    assert (seen.status, seen.body) == (O.SUCCESS, content)


@pytest.mark.requirement("HS-10")
def test_false_behind_a_success_status_is_a_failure() -> None:
    assert said((200, False)) == (O.ERROR, "returned.false")


@pytest.mark.requirement("TRUST-0")
def test_text_behind_a_status_is_raw_and_json_is_not() -> None:
    text = normalise((200, "hello"), AT)
    assert (text.status, text.body, text.level, text.http_status) == (O.SUCCESS, "hello", Level.RAW, 200)
    assert normalise((200, b"hello"), AT).body == "hello"
    structured = normalise((200, '{"id": "a"}'), AT)
    assert (structured.body, structured.level) == ({"id": "a"}, Level.NORMALISED)
    assert normalise((200, object()), AT).body is None


# --- processes ---


def test_a_process_is_known_by_a_whole_return_code() -> None:
    assert said(process(0)) == (O.SUCCESS, "exit.0")
    assert said(process(None)) == (O.PENDING, "exit.running")
    for code in ("0", 0.0, True):
        assert said(process(code)) == (O.MALFORMED, "malformed.unsupported")


def test_both_outputs_of_a_process_are_kept() -> None:
    seen = normalise(process(3, stdout="out", stderr=b"wrong"), AT)
    assert seen.body == {"returncode": 3, "stdout": "out", "stderr": "wrong"}
    assert normalise(process(0, stdout="", stderr=b""), AT).body == {"returncode": 0}
    assert normalise(process(0, stdout=7, stderr=["x"]), AT).body == {"returncode": 0}


@pytest.mark.requirement("HS-10")
def test_a_structured_output_speaks_for_a_process_that_ended_well() -> None:
    assert said(process(0, stdout=b'{"status": "queued"}')) == (O.ACCEPTED, "status.queued")
    assert said(process(0, stdout='{"id": "a"}')) == (O.SUCCESS, "exit.0")


@pytest.mark.parametrize("warning", ["Error: nothing of note", '{"ok": false}', "progress"])
def test_what_a_process_that_ended_well_writes_beside_is_no_statement(warning: str) -> None:
    assert said(process(0, stderr=warning)) == (O.SUCCESS, "exit.0")


@pytest.mark.requirement("TRUST-0")
def test_a_process_is_as_raw_as_what_it_wrote() -> None:
    assert normalise(process(0, stdout="done"), AT).level is Level.RAW
    assert normalise(process(0, stdout='{"a": 1}', stderr="x"), AT).level is Level.RAW
    assert normalise(process(0, stdout='{"a": 1}'), AT).level is Level.NORMALISED


# --- exceptions ---


class Unlookable(Exception):
    """Cannot be asked even for its class."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("do not look at me")


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_exception_that_cannot_be_examined_is_an_error_that_may_have_had_an_effect() -> None:
    seen = normalise_exception(Unlookable(), AT, connect_proves=True)
    assert (seen.status, seen.code, seen.at_us, seen.dispatched) == (O.ERROR, "exception", AT, True)
    assert seen.detail == "The call raised Unlookable."


@pytest.mark.parametrize(
    ("exc", "detail"),
    [
        (ValueError("no\nsuch order"), "The call raised ValueError: no such order"),
        (ValueError(), "The call raised ValueError."),
        (Wordless(), "The call raised Wordless."),
        (ValueError("x" * 120), "The call raised ValueError: " + "x" * 120),
        (ValueError("x" * 121), "The call raised ValueError: " + "x" * 119 + "…"),
    ],
    ids=["words", "none", "unsayable", "at the limit", "over it"],
)
def test_an_exceptions_words_are_told_in_one_bounded_line(exc: Exception, detail: str) -> None:
    assert normalise_exception(exc, AT).detail == detail


@pytest.mark.requirement("HS-05")
@pytest.mark.parametrize("name", ["Timeout", "ReadTimeout", "TimeoutError", "SocketTimeoutException", "TimeoutExpired"])
def test_every_librarys_timeout_is_a_timeout(name: str) -> None:
    assert normalise_exception(type(name, (Exception,), {})(), AT).status is O.TIMEOUT


@pytest.mark.parametrize("name", ["ConnectError", "ConnectionRefusedError", "NewConnectionError", "gaierror"])
def test_every_librarys_failure_to_connect_is_one(name: str) -> None:
    seen = normalise_exception(type(name, (Exception,), {})(), AT)
    assert (seen.status, seen.code, seen.dispatched) == (O.ERROR, "connection.refused", True)
    assert not normalise_exception(type(name, (Exception,), {})(), AT, connect_proves=True).dispatched


def http_error(status: int, **content: Any) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1/")
    return httpx.HTTPStatusError("bad", request=request, response=httpx.Response(status, request=request, **content))


@pytest.mark.requirement("HS-10")
@pytest.mark.parametrize(
    ("exc", "status", "code", "detail"),
    [
        (http_error(409, json={"error": "conflict"}), O.ERROR, "http.409", "The service answered 409."),
        (http_error(200, json={"ok": False}), O.ERROR, "flag.ok-false", "The answer says ok: false."),
        (http_error(200, json={"status": "queued"}), O.ERROR, "http.200", "The call raised HTTPStatusError: bad"),
        (http_error(204), O.ERROR, "http.204", "The call raised HTTPStatusError: bad"),
    ],
    ids=["error status", "error inside", "accepted inside", "nothing inside"],
)
def test_a_response_that_was_raised_says_its_own_failure_or_that_it_was_raised(
    exc: Exception, status: ObservationStatus, code: str, detail: str
) -> None:
    seen = normalise_exception(exc, AT)
    assert (seen.status, seen.code, seen.detail) == (status, code, detail)
    assert seen.http_status == exc.response.status_code  # type: ignore[attr-defined]


def test_an_exception_whose_response_cannot_be_had_is_told_by_itself() -> None:
    request = httpx.Request("POST", "http://127.0.0.1/")
    without = httpx.HTTPError("bad")
    without.response = None  # type: ignore[attr-defined]
    for exc in (httpx.RequestError("bad", request=request), without):
        assert normalise_exception(exc, AT).code == "exception"


# --- references ---


@pytest.mark.parametrize(
    "name", ["id", "reference", "transaction_id", "message_id", "operation_id", "job_id", "request_id", "uid"]
)
def test_a_reference_is_taken_from_each_usual_name(name: str) -> None:
    assert normalise({name: "r-1"}, AT).reference == "r-1"


@pytest.mark.parametrize("wrapper", ["data", "result", "response", "structuredContent"])
def test_a_reference_is_taken_from_inside_each_usual_wrapper(wrapper: str) -> None:
    assert normalise({wrapper: {"id": "r-1"}}, AT).reference == "r-1"
    assert normalise({wrapper: {"id": "inner"}, "uid": "outer"}, AT).reference == "outer"


def test_a_wrapper_that_is_no_object_holds_no_reference() -> None:
    seen = normalise({"data": [1], "result": "x", "response": {"id": "r-1"}}, AT)
    assert (seen.status, seen.reference) == (O.SUCCESS, "r-1")
