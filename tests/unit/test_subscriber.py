"""Subscribers: what one may say, what is refused, of whom and of what it is told."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from readback.domain.records.message import EventName, Message, Naming
from readback.domain.records.subscriber import (
    ATTEMPTS_MAX,
    FALLBACK,
    GIVE_UP_MAX_S,
    OPERATOR,
    STAND_IN,
    SUBSCRIBERS_MAX,
    TIMEOUT_MAX_S,
    Subscriber,
    checked,
    listed,
    subscriber_of,
    subscribers_of,
)
from readback.errors import SettingsError


def message_of(name: EventName = EventName.INCIDENT_OPENED, tenant: str = "acme") -> Message:
    return Message("log", 7, 0, name, tenant, "a1", 0, {})


# --- one subscriber -----------------------------------------------------------------------------------------------


def test_what_is_not_said_has_a_default() -> None:
    one = Subscriber("pager", file="told.jsonl")
    assert (one.webhook, one.secret, one.command, one.tell) == ("", "", (), None)
    assert (one.events, one.tenants, one.naming, one.from_start) == ((), (), "dotted", False)
    assert (one.attempts, one.give_up_s, one.timeout_s) == (8, 3600.0, 10.0)


def test_the_bounds_are_what_the_reference_says() -> None:
    assert (SUBSCRIBERS_MAX, ATTEMPTS_MAX, TIMEOUT_MAX_S) == (64, 10_000, 300.0)
    assert GIVE_UP_MAX_S == 34_560_000.0
    assert (OPERATOR, FALLBACK) == ("operator", "fallback")


@pytest.mark.parametrize("name", ["a", "0", "pager", "a_b", "a.b-c", "9" * 64])
def test_a_name_is_made_of_up_to_64_small_letters_digits_and_three_signs(name: str) -> None:
    assert Subscriber(name, file="f").name == name


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(SettingsError, match="name must be a text"):
        Subscriber(7, file="f")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "Pager", "pager\n", "a b", "_a", ".a", "-a", "a/b", "9" * 65, "é"])
def test_no_other_name_is_taken(name: str) -> None:
    with pytest.raises(SettingsError, match="the name must have"):
        Subscriber(name, file="f")


WAYS: tuple[dict[str, Any], ...] = (
    {"webhook": "https://example.com", "secret": "env:KEY"},
    {"command": ["/bin/page", "--now"]},
    {"file": "told.jsonl"},
    {"tell": print},
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: next(iter(way)))
def test_each_way_alone_is_enough(way: dict[str, Any]) -> None:
    one = Subscriber("pager", **way)
    for key, value in way.items():
        assert getattr(one, key) == (tuple(value) if isinstance(value, list) else value)


def test_exactly_one_way_is_needed() -> None:
    with pytest.raises(SettingsError, match="exactly one"):
        Subscriber("pager")
    for first in WAYS:
        for second in WAYS:
            if first is not second:
                with pytest.raises(SettingsError, match="exactly one"):
                    Subscriber("pager", **first, **second)


def test_a_webhook_has_a_secret_and_nothing_else_has() -> None:
    with pytest.raises(SettingsError, match="secret"):
        Subscriber("pager", webhook="https://example.com")
    with pytest.raises(SettingsError, match="secret"):
        Subscriber("pager", file="f", secret="env:KEY")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "page --now"}, "command must be a list"),
        ({"command": ["page", 1]}, "command must be a list"),
        ({"file": "f", "events": "incident.opened"}, "events must be a list"),
        ({"file": "f", "events": ["incident.opened", 1]}, "events must be a list"),
        ({"file": "f", "tenants": "acme"}, "tenants must be a list"),
        ({"file": "f", "tenants": [None]}, "tenants must be a list"),
        ({"command": 7}, "command must be a list"),
        ({"file": "f", "events": None}, "events must be a list"),
        ({"file": 7}, "file must be a text"),
        ({"webhook": "https://example.com", "secret": b"k" * 32}, "secret must be a text"),
        ({"webhook": 7, "secret": "env:KEY"}, "webhook must be a text"),
        ({"file": "f", "naming": ["both"]}, "naming must be a text"),
        ({"tell": "print"}, "tell must be a callable"),
        ({"file": "f", "events": ["incident.opened", "incident.gone"]}, "no event 'incident.gone'"),
        ({"file": "f", "events": ["INCIDENT_OPENED"]}, "no event"),
        ({"file": "f", "naming": "dots"}, "naming must be one of"),
        ({"file": "f", "from_start": 1}, "from_start must be true or false"),
        ({"file": "f", "from_start": "yes"}, "from_start must be true or false"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Subscriber("pager", **given)


def test_lists_are_kept_as_they_were_given() -> None:
    tenants = ["acme"]
    one = Subscriber("pager", command=["page"], events=["incident.opened"], tenants=tenants)
    tenants.append("globex")
    assert (one.command, one.events, one.tenants) == (("page",), ("incident.opened",), ("acme",))
    one = Subscriber("pager", file="f", events=(name for name in ["incident.opened"]))  # type: ignore[arg-type]
    assert one.events == ("incident.opened",)
    assert Subscriber("pager", file=Path("told.jsonl")).file  # type: ignore[arg-type]


@pytest.mark.parametrize("naming", list(Naming))
def test_every_naming_may_be_asked_for_by_its_word(naming: Naming) -> None:
    assert Subscriber("pager", file="f", naming=naming.value).naming == naming


NUMBERS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "attempts": ((1, 2, 10_000), (0, -1, 10_001, 1.0, 1.5, True, "8", None)),
    "give_up_s": ((0, 0.0, 0.0005, 1, 34_560_000.0), (-0.001, -1, 34_560_000.5, True, False, "1", None)),
    "timeout_s": ((0.001, 0.5, 1, 300.0), (0, 0.0009, -1, 300.001, True, "1", None)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_within_its_bounds_and_a_number(name: str) -> None:
    taken, refused = NUMBERS[name]
    bounds = re.escape(f"{taken[0]} and {taken[-1]:g}")
    for value in taken:
        assert getattr(Subscriber("pager", file="f", **{name: value}), name) == value
    for value in (*refused, math.nan, math.inf):
        with pytest.raises(SettingsError, match=f"{name} must be between {bounds}"):
            Subscriber("pager", file="f", **{name: value})


# --- of what it is told -------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLAIM-events")
def test_events_are_asked_for_under_either_name_and_none_asks_for_all() -> None:
    assert Subscriber("pager", file="f").names == frozenset(EventName)
    for name in EventName:
        for form in (name.value, name.underscored):
            assert Subscriber("pager", file="f", events=[form]).names == {name}


def test_it_hears_what_it_asked_for_of_whom_it_asked_for() -> None:
    one = Subscriber("pager", file="f", events=["incident_opened", "claim.retracted"], tenants=["acme", "globex"])
    assert one.hears(message_of())
    assert one.hears(message_of(EventName.CLAIM_RETRACTED, "globex"))
    assert not one.hears(message_of(EventName.INCIDENT_CLOSED))
    assert not one.hears(message_of(tenant="initech"))


def test_who_names_no_tenant_hears_of_everybody() -> None:
    assert all(Subscriber("pager", file="f").hears(message_of(tenant=tenant)) for tenant in ("acme", "globex", ""))


# --- several of them ----------------------------------------------------------------------------------------------


def test_a_programs_subscribers_are_told_of_its_own_tenant_alone() -> None:
    found = listed(iter([Subscriber("a", tell=print), Subscriber("b", file="f", tenants=["acme"])]), "acme")
    assert [(one.name, one.tenants) for one in found] == [("a", ("acme",)), ("b", ("acme",))]
    for tenants in (["globex"], ["acme", "globex"], [""]):
        with pytest.raises(SettingsError, match="other tenants"):
            listed([Subscriber("a", tell=print), Subscriber("b", file="f", tenants=tenants)], "acme")


def test_what_a_program_hands_in_is_a_list_of_subscribers_each_with_its_own_name() -> None:
    one = Subscriber("app", tell=print)
    with pytest.raises(SettingsError, match="list of Subscriber"):
        listed([one, print], "acme")  # type: ignore[list-item]
    with pytest.raises(SettingsError, match="list of Subscriber"):
        listed(one, "acme")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="'app' is taken"):
        listed([one, one], "acme")


def test_the_names_of_those_who_stand_in_are_taken() -> None:
    for name in (OPERATOR, FALLBACK):
        with pytest.raises(SettingsError, match=f"'{name}' is taken"):
            checked((Subscriber("app", file="f"), Subscriber(name, file="f")))


def test_where_nobody_is_told_of_incidents_a_file_is_and_of_nothing_else() -> None:
    assert Subscriber("operator", file="fallback", events=["incident.opened"]) == STAND_IN


def test_there_are_at_most_64() -> None:
    many = tuple(Subscriber(f"s{number}", file="f") for number in range(65))
    assert checked(many[:64]) == many[:64]
    assert checked(()) == ()
    with pytest.raises(SettingsError, match="There are 65 subscribers"):
        checked(many)


# --- out of a settings file ---------------------------------------------------------------------------------------


def test_a_table_of_settings_is_read_in_its_order() -> None:
    found = subscribers_of({"pager": {"command": ["page"], "attempts": 3}, "log": {"file": "f"}}, "settings.toml")
    assert found == (Subscriber("pager", command=["page"], attempts=3), Subscriber("log", file="f"))
    assert subscribers_of({}, "settings.toml") == ()


def test_every_key_but_the_callable_may_stand_in_a_file() -> None:
    entry: dict[str, object] = {
        "webhook": "https://example.com",
        "secret": "file:key",
        "command": [],
        "file": "",
        "events": ["incident.opened"],
        "tenants": ["acme"],
        "naming": "both",
        "from_start": True,
        "attempts": 2,
        "give_up_s": 5,
        "timeout_s": 1.5,
    }
    one = subscriber_of("pager", entry, "settings.toml")
    assert {key: getattr(one, key) for key in entry} == {
        key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
    }


@pytest.mark.parametrize("table", [None, [], "pager", 1])
def test_what_is_no_table_is_refused_with_the_place(table: object) -> None:
    with pytest.raises(SettingsError, match=r"settings\.toml cannot be used: 'subscribers' is not a table"):
        subscribers_of(table, "settings.toml")
    with pytest.raises(SettingsError, match=r"settings\.toml cannot be used: subscriber 'pager' is not a table"):
        subscribers_of({"pager": table}, "settings.toml")


@pytest.mark.parametrize("key", ["name", "tell", "colour"])
def test_a_key_that_no_file_may_have_is_named(key: str) -> None:
    with pytest.raises(SettingsError, match=f"unknown key '{key}'") as caught:
        subscriber_of("pager", {"file": "f", key: "x"}, "settings.toml")
    assert "settings.toml" in str(caught.value)
    keys = caught.value.remedy.removeprefix("Known keys: ").rstrip(".").split(", ")
    assert keys == sorted(keys)
    assert not {"name", "tell"} & set(keys)
    assert len(keys) == 11


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": "page"}, "'command' must be a list"),
        ({"file": "f", "events": "incident.opened"}, "'events' must be a list"),
        ({"file": "f", "tenants": {"acme": 1}}, "'tenants' must be a list"),
        ({"webhook": 1, "secret": "env:KEY"}, "'webhook' must be a text"),
        ({"webhook": "https://example.com", "secret": 1}, "'secret' must be a text"),
        ({"file": True}, "'file' must be a text"),
        ({"file": "f", "naming": 1}, "'naming' must be a text"),
        ({"file": 1, "events": "x"}, "'events' must be a list"),
    ],
)
def test_a_value_of_another_type_is_named_with_the_place(entry: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=rf"in settings\.toml cannot be used: {said}"):
        subscriber_of("pager", entry, "settings.toml")


def test_a_file_is_held_to_the_same_rules() -> None:
    with pytest.raises(SettingsError, match="exactly one"):
        subscribers_of({"pager": {}}, "settings.toml")
    with pytest.raises(SettingsError, match="'operator' is taken"):
        subscribers_of({"operator": {"file": "f"}}, "settings.toml")
    assert subscriber_of("fallback", {"file": "f"}, "settings.toml").name == FALLBACK
