"""Durations and templates: what is written, what it means, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from readback.contracts.options import DURATION_MAX_US, microseconds
from readback.contracts.templates import RENDERED_MAX_BYTES, RENDERED_MAX_CHARS, TEMPLATE_MAX_CHARS, compile_template
from readback.errors import ArgumentError, ContractFieldError, TemplateError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("0s", 0),
        ("500ms", 500_000),
        ("10s", 10_000_000),
        ("2m", 120_000_000),
        ("1h", 3_600_000_000),
        ("1d", 86_400_000_000),
        ("1m30s", 90_000_000),
        ("1.5s", 1_500_000),
        ("0.25h", 900_000_000),
        ("7us", 7),
        ("1h 5m", 3_900_000_000),
        (" 10 s ", 10_000_000),
        (timedelta(milliseconds=250), 250_000),
    ],
)
def test_a_duration_is_a_number_with_its_unit(written: object, meant: int) -> None:
    assert microseconds(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        10,
        0.5,
        True,
        None,
        "",
        "10",
        "10 seconds",
        "s",
        "-1s",
        "1e3s",
        "1..5s",
        "10S",
        "\u0661s",
        "1s\n2m!",
        "1 0s",
        "1m s",
        "1. 5s",
        " ",
        "9" * 80 + "s",
    ],
)
def test_a_duration_without_a_unit_or_with_another_is_refused(written: object) -> None:
    with pytest.raises(ContractFieldError):
        microseconds(written)


@pytest.mark.parametrize("span", [timedelta(days=401), timedelta(seconds=-1), "401d"])
def test_a_duration_out_of_bounds_is_refused(span: object) -> None:
    with pytest.raises(ContractFieldError, match="between 0 and 400 days"):
        microseconds(span)
    assert microseconds("400d") == DURATION_MAX_US


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("order/{requested.order_id}", "order/o-17"),
        ("{requested.order_id}{requested.count}", "o-173"),
        ("{{{requested.order_id}}}", "{o-17}"),
        ("plain", "plain"),
        ("{requested.flag}/{requested.off}", "true/false"),
        ("{scope.tenant}:{requested.address.city}", "acme:Bern"),
        ("{requested.odd}", "{requested.count}"),
        ("at {observed.id}.", "at ."),
    ],
)
def test_a_template_puts_values_in_and_evaluates_nothing(source: str, text: str) -> None:
    requested = {
        "order_id": "o-17",
        "count": 3,
        "flag": True,
        "off": False,
        "address": {"city": "Bern"},
        "odd": "{requested.count}",
    }
    template = compile_template(source)
    assert template({"requested": requested, "observed": None, "scope": {"tenant": "acme"}}) == text


def test_observed_is_a_hint_that_fills_in_once_there_is_an_answer() -> None:
    template = compile_template("charge/{observed.charge.id}")
    assert template({"observed": None}) == "charge/"
    assert template({"observed": {"charge": {"id": "ch_1"}}}) == "charge/ch_1"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("order/{requested.order_id", "single '{'"),
        ("order/requested.order_id}", "single '}'"),
        ("{order_id}", "dotted path"),
        ("{requested}", "dotted path"),
        ("{requested.}", "dotted path"),
        ("{requested.a + 1}", "dotted path"),
        ("{requested.a!r}", "dotted path"),
        ("{requested.items[0]}", "dotted path"),
        ("{requested.a:>10}", "dotted path"),
        ("{before.id}", "not allowed in a template"),
        ("{authoritative.id}", "not allowed in a template"),
        ("{requsted.id}", "Did you mean 'requested'"),
        ("{requested.oder_id}", "Did you mean 'order_id'"),
        ("a\nb", "control"),
        ("a\u2028b", "control"),
        ("x" * (TEMPLATE_MAX_CHARS + 1), "more than"),
    ],
)
@pytest.mark.requirement("L03")
def test_a_template_that_is_malformed_or_names_what_is_not_there_is_refused_at_load(source: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        compile_template(source, arguments=("order_id", "carrier"))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        ({"deep": 1}, "an object"),
        (["a"], "a list"),
        (1.5, "a fraction"),
        ("a\r\nBcc: all", "control"),
        ("x" * (RENDERED_MAX_CHARS + 1), "more than"),
        ("\u6f22" * (RENDERED_MAX_BYTES // 3), "2052 bytes, more than"),
    ],
)
@pytest.mark.requirement("INPUT-over-long-value")
def test_a_value_that_does_not_belong_into_a_text_is_refused_when_it_is_rendered(value: object, reason: str) -> None:
    template = compile_template("order/{requested.id}")
    with pytest.raises(ArgumentError, match=reason) as refused:
        template({"requested": {"id": value}})  # type: ignore[dict-item]
    assert refused.value.details["problems"][0]["argument"] == "id"  # type: ignore[index]
    with pytest.raises(ArgumentError, match="no value"):
        template({"requested": {}})
