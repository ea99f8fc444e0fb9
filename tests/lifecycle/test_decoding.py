"""A value is found in whatever form a text holds it, and what only looks encoded is not taken for it."""

from __future__ import annotations

import html
import json
import quopri
import unicodedata
from base64 import b32encode, b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readback.canon import stored_bytes
from readback.engine.values.decoding import TEXT_MAX_CHARACTERS, Sought
from readback.engine.values.redaction import PAYLOAD_MAX_CHARACTERS, SECRETS_MAX, Redactor
from readback.systems.configured.settings import Credentials

SECRET = 's3cr3t&k\'ey/Zq+9~X\u00e9 "end"'
Form = Callable[[str], str]
FORMS: dict[str, Form] = {
    "as it is": str,
    "HTML": html.escape,
    "HTML by decimal numbers": lambda text: "".join(f"&#{ord(each)};" for each in text),
    "HTML by hexadecimal numbers": lambda text: "".join(f"&#x{ord(each):X};" for each in text),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON as Go writes it": lambda text: json.dumps(text).replace("&", "\\u0026")[1:-1],
    "JSON as PHP writes it": lambda text: json.dumps(text).replace("/", "\\/")[1:-1],
    "every character escaped": lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
    "bytes of a program": lambda text: "".join(f"\\x{each:02x}" for each in text.encode()),
    "percent": lambda text: quote(text, safe=""),
    "percent in lower case": lambda text: "".join(f"%{each:02x}" for each in text.encode()),
    "percent with plus": quote_plus,
    "quoted-printable": lambda text: quopri.encodestring(text.encode()).decode(),
    "SQL": lambda text: text.replace("'", "''"),
    "CSV": lambda text: text.replace('"', '""'),
    "HEX": lambda text: text.encode().hex().upper(),
    "hex with colons": lambda text: text.encode().hex(":"),
    "base 64": lambda text: b64encode(text.encode()).decode(),
    "base 64 for addresses": lambda text: urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base 64 after a name": lambda text: b64encode(f"user:{text}".encode()).decode(),
    "base 64 of two bytes a letter": lambda text: b64encode(text.encode("utf-16-le")).decode(),
    "base 32": lambda text: b32encode(text.encode()).decode(),
    "base 32 in lower case": lambda text: b32encode(text.encode()).decode().lower().rstrip("="),
    "UPPER CASE": str.upper,
    "lower case": str.lower,
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
}
TWICE = ("HTML", "JSON", "percent", "percent in lower case", "quoted-printable", "base 64", "base 32", "HEX")


@pytest.mark.requirement("SEC-redaction-forms")
@pytest.mark.parametrize("name", [*FORMS])
def test_a_value_is_found_in_each_form(name: str) -> None:
    sought = Sought([SECRET])
    assert sought.stands_in(FORMS[name](SECRET))
    assert sought.stands_in(f"declined: <p>{FORMS[name](SECRET)}</p>, and that is all")


@pytest.mark.requirement("SEC-redaction-forms")
@pytest.mark.parametrize("outer", TWICE)
@pytest.mark.parametrize("inner", TWICE)
def test_a_value_is_found_in_one_form_within_another(inner: str, outer: str) -> None:
    assert Sought([SECRET]).stands_in(f"token={FORMS[outer](FORMS[inner](SECRET))}")


@pytest.mark.requirement("SEC-redaction-forms")
@settings(max_examples=60, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=12, max_size=40),
    st.lists(st.sampled_from(TWICE), min_size=1, max_size=2),
)
def test_no_form_of_any_value_is_kept_or_shown(value: str, names: list[str]) -> None:
    said = value
    for name in names:
        said = FORMS[name](said)
    if sum(each.isalnum() for each in unicodedata.normalize("NFKD", value.casefold())) < 8:
        return
    secrecy = Redactor(("requested.card",))
    secrecy.learn({"card": value}, "requested")
    kept = stored_bytes(secrecy.hide({"answer": f"no: {said}", "parts": [{said: 1}]}, "observed")).decode()
    assert said not in kept
    assert said not in secrecy.text(f"declined: {said}")
    assert said not in Credentials([value]).text(f"declined: {said}")


@pytest.mark.parametrize(
    "text",
    [
        "the order 4711 was shipped on 2023-11-26T21:55:49Z by carrier ups",
        b64encode(b"a long and harmless text, as attachments have it" * 5).decode(),
        "0123456789abcdef" * 8,
        "&lt;p&gt;declined&lt;/p&gt; %20 \\u0041 =41",
    ],
)
def test_what_holds_no_value_is_kept_as_it_is(text: str) -> None:
    secrecy = Redactor(("requested.card",))
    secrecy.learn({"card": SECRET}, "requested")
    assert secrecy.hide({"answer": text}, "observed") == {"answer": text}
    assert secrecy.text(text) == text


def test_a_short_number_is_not_read_into_the_time_of_day() -> None:
    assert not Sought(["123456"]).stands_in("at 12:34:56")
    assert Sought(["123456"]).stands_in("pin&#32;&#49;&#50;&#51;&#52;&#53;&#54;")


@pytest.mark.requirement("SEC-redaction-forms")
def test_what_is_too_long_or_too_much_to_be_looked_through_is_not_kept() -> None:
    secrecy = Redactor(("requested.card",))
    secrecy.learn({"card": SECRET}, "requested")
    long = "x " * TEXT_MAX_CHARACTERS
    assert secrecy.hide({"a": long, "b": "short"}, "observed") == {"a": {"$redacted": True}, "b": "short"}
    many = ["y " * 4_000] * (PAYLOAD_MAX_CHARACTERS // 8_000 + 2)
    kept = secrecy.hide(many, "observed")
    assert isinstance(kept, list)
    assert kept[0] == many[0]
    assert kept[-1] == {"$redacted": True}
    crowd = Redactor(("requested.cards",))
    crowd.learn({"cards": [f"value-number-{at}" for at in range(SECRETS_MAX + 1)]}, "requested")
    assert b"anything" not in stored_bytes(crowd.hide({"a": "anything", "b": ["anything"]}, "observed"))
