"""Arguments: bound, written down, and brought back the same."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from readback.canon import BYTES_KEY, parse_json, payload_bytes
from readback.canon.limits import PAYLOAD_MAX_BYTES, STRING_MAX_BYTES
from readback.contracts.functions.arguments import ArgumentSchema
from readback.contracts.functions.callables import argument_schema
from readback.contracts.problems import Problems
from readback.domain.context import Context
from readback.errors import ArgumentError, OversizeError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    city: str
    code: Annotated[int, Field(ge=1000, le=9999)]
    since: date | None = None


@dataclass
class Line:
    item: str
    count: int


def schema_of(function: Callable[..., object]) -> ArgumentSchema:
    problems = Problems()
    schema = argument_schema(function, problems)
    problems.raise_any("test")
    return schema


def plain(ctx: Context, order_id: str, count: int, price: float = 1.0, urgent: bool = False) -> object:
    return None


def problems_of(schema: ArgumentSchema, *args: object, **kwargs: object) -> dict[str, str]:
    with pytest.raises(ArgumentError) as caught:
        schema.bind(args, kwargs)
    assert caught.value.code == "input.arguments"
    assert caught.value.exit_code == 2
    found = caught.value.details["problems"]
    assert isinstance(found, list)
    return {each["argument"]: each["reason"] for each in found}


def test_plain_arguments_are_bound_by_name_by_position_and_by_default() -> None:
    schema = schema_of(plain)
    expected = {"order_id": "o-17", "count": 3, "price": 1.0, "urgent": False}
    for bound in (
        schema.bind((), {"order_id": "o-17", "count": 3}),
        schema.bind(("o-17", 3), {}),
        schema.bind(("o-17",), {"count": 3, "urgent": False}),
    ):
        assert bound.arguments == bound.requested == expected
        assert bound.arguments is not bound.requested
        assert schema.revive(bound.requested) == expected


@pytest.mark.requirement("INPUT-arguments")
def test_all_arguments_that_do_not_fit_are_told_at_once() -> None:
    schema = schema_of(plain)
    problems = problems_of(schema, order_id=17, price="1", colour="red")
    assert problems == {
        "colour": "The action has no such argument. There are: count, order_id, price, urgent.",
        "order_id": "It takes string, and is given int.",
        "count": "It is missing.",
        "price": "It takes number, and is given str.",
    }


@pytest.mark.requirement("INPUT-arguments")
@pytest.mark.parametrize(
    ("args", "kwargs", "argument"),
    [
        (("o-17", 3), {"order_id": "o-18"}, "order_id"),
        (("o-17", 3, 1.0, True, "more"), {}, ""),
        ((), {"order_id": "o-17", "count": "3"}, "count"),
        ((), {"order_id": "o-17", "count": True}, "count"),
        ((), {"order_id": "o-17", "count": 3.0}, "count"),
        ((), {"order_id": None, "count": 3}, "order_id"),
        ((), {"order_id": "o-17", "count": 3, "urgent": 1}, "urgent"),
        ((), {"order_id": "o-17", "count": 10**401}, "count"),
        ((), {"order_id": "o-17", "count": 1, "price": float("nan")}, "price"),
        ((), {"order_id": "\ud800", "count": 1}, "order_id"),
    ],
)
def test_text_and_numbers_are_never_taken_for_each_other(
    args: tuple[object, ...], kwargs: dict[str, object], argument: str
) -> None:
    assert argument in problems_of(schema_of(plain), *args, **kwargs)


def test_a_whole_number_is_a_number_too_and_stays_one_after_it_was_written_down() -> None:
    schema = schema_of(plain)
    bound = schema.bind((), {"order_id": "o", "count": 1, "price": 2})
    assert type(bound.arguments["price"]) is float
    stored = parse_json(payload_bytes(bound.requested))
    assert isinstance(stored, dict)
    assert type(stored["price"]) is int
    assert type(schema.revive(stored)["price"]) is float


def test_a_number_that_would_be_taken_for_another_one_is_refused() -> None:
    def priced(ctx: Context, price: float, parts: list[float], level: Literal[1, 2] = 2) -> None: ...

    schema = schema_of(priced)
    largest = 2**53
    assert schema.bind((), {"price": largest, "parts": [largest, -largest]}).arguments["price"] == largest
    for numbers in (
        {"price": largest + 1, "parts": []},
        {"price": 10**400, "parts": []},
        {"price": 1, "parts": [1, largest + 1]},
        {"price": 1, "parts": [], "level": True},
    ):
        with pytest.raises(ArgumentError, match="The number would change"):
            schema.bind((), numbers)


def test_a_large_fraction_comes_back_from_the_record_though_it_is_written_as_a_whole_number() -> None:
    def priced(ctx: Context, price: float) -> None: ...

    schema, price = schema_of(priced), 123456789012345683968.0
    requested = parse_json(payload_bytes(schema.bind((), {"price": price}).requested))
    assert isinstance(requested, dict)
    assert schema.revive(requested) == {"price": price}


def test_a_member_of_an_enumeration_of_text_is_its_text() -> None:
    assert schema_of(plain).bind((Colour.RED, 1), {}).arguments["order_id"] == "red"


def test_a_missing_value_is_given_as_none_where_the_annotation_says_so() -> None:
    def maybe(ctx: Context, note: str | None = None, either: int | str = 1) -> object:
        return None

    schema = schema_of(maybe)
    assert schema.bind((), {}).requested == {"note": None, "either": 1}
    assert schema.bind((), {"note": "x", "either": "2"}).requested == {"note": "x", "either": "2"}
    assert "note" in problems_of(schema, note=1)


HERE = PurePosixPath("a/b")


def rich(
    ctx: Context,
    colour: Colour,
    address: Address,
    lines: list[Line],
    at: datetime,
    amount: Decimal,
    ref: uuid.UUID,
    body: bytes,
    mode: Literal["fast", "slow"] = "fast",
    span: timedelta = timedelta(seconds=1),
    path: PurePosixPath = HERE,
    tags: Annotated[list[str], Field(max_length=2)] = [],  # noqa: B006
    pair: tuple[int, str] = (1, "a"),
) -> object:
    return None


RICH: dict[str, Any] = {
    "colour": Colour.BLUE,
    "address": Address(city="Bern", code=3000, since=date(2024, 2, 29)),
    "lines": [Line("nut", 2)],
    "at": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
    "amount": Decimal("10.50"),
    "ref": uuid.UUID(int=7),
    "body": b"\x00\xff",
}


def test_rich_arguments_come_back_from_their_json_as_they_were() -> None:
    schema = schema_of(rich)
    bound = schema.bind((), RICH)
    assert bound.requested["address"] == {"city": "Bern", "code": 3000, "since": "2024-02-29"}
    assert bound.requested["body"] == {BYTES_KEY: "AP8="}
    assert bound.requested["amount"] == "10.50"
    assert bound.requested["span"] == "1s"
    stored = parse_json(payload_bytes(bound.requested))
    assert isinstance(stored, dict)
    revived = schema.revive(stored)
    assert revived == bound.arguments
    assert revived["lines"] == [Line("nut", 2)]
    assert revived["pair"] == (1, "a")
    assert {name: revived[name] for name in RICH} == RICH


def test_what_json_can_only_say_as_text_may_be_given_as_text() -> None:
    schema = schema_of(rich)
    as_json = {
        **RICH,
        "colour": "blue",
        "address": {"city": "Bern", "code": 3000, "since": "2024-02-29"},
        "lines": [{"item": "nut", "count": 2}],
        "at": "2024-01-02T03:04:05Z",
        "amount": "10.50",
        "ref": str(uuid.UUID(int=7)),
        "span": "90s",
        "pair": [1, "a"],
    }
    bound = schema.bind((), as_json)
    assert {name: bound.arguments[name] for name in RICH} == RICH
    assert bound.arguments["span"] == timedelta(seconds=90)


@pytest.mark.requirement("INPUT-arguments")
def test_rich_arguments_that_do_not_fit_are_told_by_their_path_and_without_their_values() -> None:
    wrong = {
        **RICH,
        "colour": "green-secret",
        "address": {"city": "Bern", "code": 1, "since": None},
        "lines": [{"item": "nut", "count": "2"}],
        "at": "yesterday",
        "mode": "warp",
        "tags": ["a", "b", "c"],
    }
    problems = problems_of(schema_of(rich), **wrong)
    assert set(problems) == {"colour", "address.code", "lines.0.count", "at", "mode", "tags"}
    assert "green-secret" not in str(problems)


def test_a_duration_comes_back_to_the_microsecond_and_with_its_sign() -> None:
    def wait(ctx: Context, span: timedelta) -> object:
        return None

    schema = schema_of(wait)

    @given(st.timedeltas(min_value=timedelta(days=-999), max_value=timedelta(days=999)))
    def holds(span: timedelta) -> None:
        assert schema.revive(schema.bind((span,), {}).requested) == {"span": span}

    holds()


def test_what_is_bound_is_a_snapshot() -> None:
    def tagged(ctx: Context, tags: list[str], loose: object) -> object:
        return None

    tags, loose = ["a"], {"deep": ["b"]}
    bound = schema_of(tagged).bind((), {"tags": tags, "loose": loose})
    tags.append("later")
    loose["deep"].append("later")
    assert bound.arguments == bound.requested == {"tags": ["a"], "loose": {"deep": ["b"]}}
    bound.arguments["tags"].append("tool")  # type: ignore[attr-defined]
    bound.arguments["loose"]["deep"].append("tool")  # type: ignore[index]
    assert bound.requested == {"tags": ["a"], "loose": {"deep": ["b"]}}


@pytest.mark.requirement("INPUT-arguments")
def test_an_argument_that_would_come_back_as_another_is_refused() -> None:
    def either(ctx: Context, at: datetime | str, spans: list[timedelta] = []) -> object:  # noqa: B006
        return None

    schema = schema_of(either)
    assert schema.bind(("noon",), {}).arguments["at"] == "noon"
    assert "changes on its way through JSON" in problems_of(schema, at=RICH["at"])["at"]
    assert "spans.0" in problems_of(schema, at="noon", spans=[timedelta(seconds=1)])


@pytest.mark.requirement("INPUT-arguments")
@pytest.mark.parametrize(
    ("local", "fold", "utc"),
    [
        (datetime(2025, 10, 26, 2, 30), 0, datetime(2025, 10, 26, 0, 30, tzinfo=UTC)),  # noqa: DTZ001
        (datetime(2025, 10, 26, 2, 30), 1, datetime(2025, 10, 26, 1, 30, tzinfo=UTC)),  # noqa: DTZ001
        (datetime(2025, 3, 30, 2, 30), 0, datetime(2025, 3, 30, 1, 30, tzinfo=UTC)),  # noqa: DTZ001
        (datetime(2025, 7, 1, 12), 0, datetime(2025, 7, 1, 10, tzinfo=UTC)),  # noqa: DTZ001
    ],
)
def test_a_moment_is_taken_in_the_hour_in_which_clocks_change(local: datetime, fold: int, utc: datetime) -> None:
    def plan(ctx: Context, at: datetime, more: dict[str, list[datetime]]) -> object:
        return None

    moment = local.replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
    bound = schema_of(plan).bind((moment, {"all": [moment]}), {})
    assert bound.arguments == {"at": utc, "more": {"all": [utc]}}


def test_what_only_looks_like_marked_bytes_is_left_as_it_is() -> None:
    def loose(ctx: Context, value: object, named: dict[str, str]) -> object:
        return None

    looks = {BYTES_KEY: "!"}
    assert schema_of(loose).bind((looks, looks), {}).arguments == {"value": looks, "named": looks}


@pytest.mark.requirement("INPUT-arguments")
def test_what_has_no_json_form_is_refused() -> None:
    def loose(ctx: Context, value: Any) -> object:
        return None

    assert "value" in problems_of(schema_of(loose), value={1, 2})
    assert "value" in problems_of(schema_of(loose), value=object())


@pytest.mark.requirement("INPUT-over-long-value")
def test_a_value_over_its_limit_is_refused_whole() -> None:
    def load(ctx: Context, text: str, more: list[str] = []) -> object:  # noqa: B006
        return None

    schema = schema_of(load)
    assert schema.bind(("x" * STRING_MAX_BYTES,), {})
    with pytest.raises(OversizeError) as caught:
        schema.bind(("x" * (STRING_MAX_BYTES + 1),), {})
    assert caught.value.code == "input.oversize"
    parts = ["x" * STRING_MAX_BYTES] * (PAYLOAD_MAX_BYTES // STRING_MAX_BYTES + 1)
    with pytest.raises(OversizeError):
        schema.bind(("x",), {"more": parts})
    with pytest.raises(OversizeError):
        schema_of(plain).bind(("x" * (STRING_MAX_BYTES + 1), 1), {})


def test_many_plain_texts_together_are_bounded_too() -> None:
    def load(ctx: Context, a: str, b: str, c: str, d: str, e: str) -> object:
        return None

    with pytest.raises(OversizeError):
        schema_of(load).bind(tuple("x" * STRING_MAX_BYTES for _ in range(5)), {})
    with pytest.raises(OversizeError):
        schema_of(load).bind((), dict.fromkeys("abcde", "x" * STRING_MAX_BYTES))


def test_a_record_that_no_longer_fits_is_not_brought_back() -> None:
    schema = schema_of(plain)
    with pytest.raises(ArgumentError) as caught:
        schema.revive({"order_id": 7, "colour": "red"})
    found = caught.value.details["problems"]
    assert isinstance(found, list)
    assert [each["argument"] for each in found] == ["order_id", "colour", "count", "price", "urgent"]


def test_the_schema_is_json_schema_and_its_hash_is_the_same_each_time() -> None:
    schema = schema_of(plain)
    assert schema.schema == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string"},
            "count": {"type": "integer"},
            "price": {"type": "number", "default": 1.0},
            "urgent": {"type": "boolean", "default": False},
        },
        "required": ["order_id", "count"],
        "additionalProperties": False,
    }
    assert schema.schema_hash == schema_of(plain).schema_hash
    assert schema_of(rich).schema_hash == schema_of(rich).schema_hash != schema.schema_hash
    assert "title" not in str(schema_of(rich).schema)


@given(st.text(max_size=40), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))
def test_any_plain_arguments_come_back_from_the_record(text: str, count: int, price: float) -> None:
    schema = schema_of(plain)
    try:
        bound = schema.bind((), {"order_id": text, "count": count, "price": price})
    except ArgumentError:
        assert any(0xD800 <= ord(c) < 0xE000 for c in text)
        return
    stored = parse_json(payload_bytes(bound.requested))
    assert isinstance(stored, dict)
    assert schema.revive(stored) == bound.arguments


RATES = {"eur": 1}


@dataclass
class Price:
    currency: str

    def __post_init__(self) -> None:
        RATES[self.currency]  # an author's own check, which says so by what it raises


class Touchy(BaseModel):
    code: int

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("It is compared with nothing.")


def test_a_value_that_a_types_own_code_does_not_know_is_refused_and_said_without_its_words() -> None:
    """A model names such values: KeyError ended its loop, and kept what was submitted so from ever ending."""

    def pay(ctx: Context, price: Price) -> object:
        return None

    def touch(ctx: Context, it: Touchy) -> object:
        return None

    schema = schema_of(pay)
    assert problems_of(schema, price={"currency": "secret"}) == {"price": "The type's own code raised KeyError."}
    assert problems_of(schema_of(touch), it={"code": 1}) == {"it": "The type's own code raised RuntimeError."}
    bound = schema.bind((), {"price": {"currency": "eur"}})
    assert schema.revive(bound.requested) == {"price": Price("eur")}
    with pytest.raises(ArgumentError, match="raised KeyError") as refused:
        schema.revive({"price": {"currency": "secret"}})
    assert "secret" not in str(refused.value)


class Login(BaseModel):
    user: str
    password: str

    @field_validator("password")
    @classmethod
    def long(cls, password: str) -> str:
        if len(password) < 20:
            raise ValueError(f"{password} is too short")
        return password


@pytest.mark.requirement("INPUT-arguments")
def test_a_validators_words_about_a_redacted_argument_are_not_told() -> None:
    def enter(ctx: Context, login: Login, codes: dict[str, int]) -> object:
        return None

    schema = schema_of(enter)
    wrong: dict[str, object] = {"login": {"user": "ana", "password": "s3cret"}, "codes": {"s3cret": "one"}}
    assert problems_of(schema, **wrong)["login.password"] == "Value error, s3cret is too short."
    kept = schema.withholding(["requested.login.password", "requested.codes", "authoritative.n"])
    said = "The value does not fit its type. Details are left out because the argument is redacted."
    assert problems_of(kept, **wrong) == {"login": said, "codes": said}
    with pytest.raises(ArgumentError) as refused:
        kept.revive({"login": wrong["login"], "codes": {}})
    assert "s3cret" not in str(refused.value)
