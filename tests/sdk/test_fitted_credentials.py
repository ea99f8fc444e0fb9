"""What a reference of a contract file stands for, kept out of what comes back, whatever form it comes back in."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from email import message_from_bytes
from urllib.parse import quote

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session

from readback.domain.context import Context
from readback.ports.fittings import Reference
from readback.sdk.fitted_settings import HIDDEN, Settled
from readback.sdk.fittings import BuiltInFittings
from tests.adapters.test_executor_smtp import Keeper, _serving

SECRET = "pa's/s\\word#1"
CTX = Context("a-1", "acme", "agent:ops", "op", "target-1", "key-1", "stamp-1")


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> Settled:
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    monkeypatch.setenv("SHOP_URL", "postgresql://ann:hun%zzter-2@db.example/shop")
    fixed = {"password": Reference("env", "SHOP_PASSWORD"), "url": Reference("env", "SHOP_URL")}
    return Settled("shop", fixed, ".", 1_000_000)


@pytest.mark.requirement("FILE-credentials")
@pytest.mark.parametrize(
    "written",
    [
        str,
        repr,
        json.dumps,
        lambda secret: repr(secret.encode()),
        lambda secret: quote(secret, safe=""),
        lambda secret: b64encode(b"\0ann\0" + secret.encode()).decode(),
        lambda secret: b64encode(secret.encode()).decode(),
        lambda secret: secret.encode().hex(),
    ],
)
def test_a_credential_is_hidden_quoted_and_encoded_too(settled: Settled, written: Callable[[str], str]) -> None:
    told = settled.hidden(f"535 not understood: {written(SECRET)}")
    assert HIDDEN in told
    for form in (SECRET, "word#1", "word%231", SECRET.encode().hex(), b64encode(SECRET.encode()).decode()[4:-4]):
        assert form not in told


@pytest.mark.requirement("FILE-credentials")
def test_the_password_of_an_address_is_hidden_where_it_is_quoted_alone(settled: Settled) -> None:
    told = settled.hidden('invalid percent-encoded token: "hun%zzter-2"')
    assert told == f'invalid percent-encoded token: "{HIDDEN}"'


def test_no_part_of_an_address_without_a_password_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_URL", "https://shop.example:8443/users/@me")
    settled = Settled("shop", {"url": Reference("env", "SHOP_URL")}, ".", 1_000_000)
    assert settled.hidden("8443/users/ and users/@me") == "8443/users/ and users/@me"


class Repeating(Keeper):
    """A mail server that refuses a message and repeats what it does not like."""

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        return "554 bad header " + message_from_bytes(envelope.content)["X-Key"]


@pytest.mark.requirement("FILE-credentials")
def test_a_credential_that_a_mail_server_repeats_is_in_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    headers = {"X-Key": Reference("env", "SHOP_PASSWORD")}
    given = {"sender": "shop@acme.example", "to": ["ana@acme.example"], "subject": "s", "text": "t"}
    with _serving(Repeating()) as (host, port):
        fixed = {"host": host, "port": port, "security": "none", "headers": headers}
        answer = BuiltInFittings().executor("smtp", "post", fixed, ".", 5_000_000).execute(CTX, given)
    assert isinstance(answer, dict)
    assert (answer["status"], answer["reply"]) == ("refused", f"bad header {HIDDEN}")
