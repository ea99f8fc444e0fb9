"""Credentials that stand in a text as such are in no sentence: in an address, or after a name that only they have."""

from __future__ import annotations

import pytest

from readback.domain.verification.observation_signs import one_line, without_credentials


@pytest.mark.requirement("PRIVACY-secrets")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("cannot reach https://app:pa55@db.example/x", "cannot reach https://[redacted]@db.example/x"),
        ("postgresql://app@db/x is down", "postgresql://[redacted]@db/x is down"),
        ("Authorization: Bearer abc.def-ghi was refused", "Authorization: [redacted] was refused"),
        ('{"authorization": "Basic YXBw", "a": 1}', '{"authorization": [redacted], "a": 1}'),
        ("GET /x?api_key=k-123&page=2 gave 403", "GET /x?api_key=[redacted]&page=2 gave 403"),
        ("password=hunter2; user=ana", "password=[redacted]; user=ana"),
        ("client_secret: 'a b c' is wrong", "client_secret: [redacted] is wrong"),
        ("Cookie: sid=abc; theme=dark", "Cookie: [redacted]; theme=dark"),
        ("'https://h/r.git?token=abc/': 403", "'https://h/r.git?token=[redacted]': 403"),
        ("GET /x?page=2&sig=a%2Bb&n=1 gave 403", "GET /x?page=2&sig=[redacted]&n=1 gave 403"),
        ("GET /x?tokens=2 gave 403", "GET /x?tokens=2 gave 403"),
        ("the token is wrong: renew it", "the token is wrong: renew it"),
        ("mail to ana@acme.example at 10:30", "mail to ana@acme.example at 10:30"),
        ("see https://acme.example/@ana?x=1", "see https://acme.example/@ana?x=1"),
        ("the password was wrong", "the password was wrong"),
    ],
)
def test_what_anybody_would_see_to_be_a_credential_is_in_no_sentence(text: str, clean: str) -> None:
    assert without_credentials(text) == clean


NAMES = (
    *("authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "apikey", "api-key", "api_key"),
    *("api key", "access_token", "refresh-token", "auth token", "bearertoken", "id_token", "client_secret"),
    *("clientsecret", "secret_key", "secretkey", "secret-access-key", "private_key", "private key"),
    *("password", "passwd", "passphrase"),
)


@pytest.mark.requirement("PRIVACY-secrets")
@pytest.mark.parametrize("name", NAMES)
def test_what_is_set_to_each_such_name_is_left_out_however_it_is_written(name: str) -> None:
    for written in (name, name.upper(), f'"{name}"', f"'{name}'"):
        for sets in ("=", ":", ": ", " = ", "   =   "):
            assert without_credentials(f"a {written}{sets}hunter2, b") == f"a {written}{sets}[redacted], b"
            assert without_credentials(f"a {written}{sets}'hunter 2' b") == f"a {written}{sets}[redacted] b"


@pytest.mark.requirement("PRIVACY-secrets")
@pytest.mark.parametrize("scheme", ["Bearer", "Basic", "digest", "TOKEN"])
def test_the_word_before_a_credential_goes_with_it(scheme: str) -> None:
    assert without_credentials(f"Authorization: {scheme} abc was refused") == "Authorization: [redacted] was refused"
    assert without_credentials(f'authorization="{scheme} a b", c') == "authorization=[redacted], c"


@pytest.mark.parametrize(
    "text",
    ["nopassword=x y", "password x", "password = ", "tokens: 12", "a_token: 12", "x://a@b", "an.address:a@b", ""],
)
def test_what_only_looks_alike_stays(text: str) -> None:
    assert without_credentials(text) == text


@pytest.mark.requirement("PRIVACY-secrets")
def test_a_line_is_cut_after_what_it_holds_of_credentials_is_out() -> None:
    assert one_line("password=hunter2", 40) == "password=[redacted]"
    assert one_line(" https://a:b@c ", 40) == "https://[redacted]@c"
    assert one_line("password=" + "x" * 305 + " end more", 40) == "password=[redacted] end m…"


@pytest.mark.requirement("PRIVACY-secrets")
def test_a_text_that_fits_is_not_said_to_be_cut_for_what_was_left_out_of_it() -> None:
    text = "password=0123456789ab"
    assert one_line(text, len(text)) == "password=[redacted]"
    assert one_line(text, len(text) + 1) == "password=[redacted]"


@pytest.mark.requirement("PRIVACY-secrets")
def test_what_is_left_out_neither_makes_a_line_too_long_nor_cut() -> None:
    assert one_line("password=x", 10) == "password=…"
    assert one_line("password=x", 19) == "password=[redacted]"
    assert one_line("password=hunter2\n", 40) == "password=[redacted]"
    assert one_line("password=x\n", 18) == "password=[redacte…"
