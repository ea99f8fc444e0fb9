"""What a reference of a contract file stands for, kept out of what comes back, whatever form it comes back in."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from urllib.parse import quote

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session

from readback.domain.context import Context
from readback.errors import ReaderFailedError, ToolError
from readback.ports.system_factory import Reference
from readback.systems.configured.factory import BuiltInSystems
from readback.systems.configured.settings import HIDDEN, Settled
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


ALONE = [
    ("Bearer sk-live-0a1b2c", "sk-live-0a1b2c"),
    ("Zoho-oauthtoken 1000.8cb99dxxxxxxxxxx", "1000.8cb99dxxxxxxxxxx"),
    ("Basic " + b64encode(b"ann:hunter-22").decode(), "hunter-22"),
    ("Basic " + b64encode(b"ann:hunter-22").decode(), b64encode(b"ann:hunter-22").decode()),
    ("session=4f1c77a09b2e55d1; theme=dark", "4f1c77a09b2e55d1"),
    ("https://ghp_0123456789@git.example/x.git", "ghp_0123456789"),
    ("https://hooks.example/mcp?shopApiKey=k-0123%3D45&page=2", "k-0123%3D45"),
    ("https://hooks.example/mcp?shopApiKey=k-0123%3D45&page=2", "k-0123=45"),
    ("postgresql://ann@db.example/shop?sslmode=require&password=hun%zzter-2", "hun%zzter-2"),
]


@pytest.mark.requirement("FILE-credentials")
@pytest.mark.parametrize(("whole", "part"), ALONE, ids=range(len(ALONE)))
def test_what_of_a_credential_is_one_alone_is_hidden_alone(
    whole: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_AUTH", whole)
    settled = Settled("shop", {"headers": {"Authorization": Reference("env", "SHOP_AUTH")}}, ".", 1_000_000)
    assert settled.hidden(f"invalid: {part}, page 2") == f"invalid: {HIDDEN}, page 2"
    assert settled.hidden(f"nobody knows {whole}") == f"nobody knows {HIDDEN}"


@pytest.mark.requirement("FILE-credentials")
@pytest.mark.parametrize(
    ("whole", "plain"),
    [
        ("Basic " + b64encode(b"ann@acme.example:hunter-22").decode(), "ann@acme.example"),
        ("tenant=acme-corp; session=4f1c77a09b2e55d1", "acme-corp"),
        ("https://hooks.example/mcp?key=k-012345&region=europe-1", "europe-1"),
        ("postgresql://ann_of_acme:hunter-22@db.example/shop", "ann_of_acme db.example"),
        ("correct horse-battery", "horse-battery"),
    ],
)
def test_what_beside_it_is_a_plain_word_stays_in_readings(
    whole: str, plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_AUTH", whole)
    settled = Settled("shop", {"headers": {"Authorization": Reference("env", "SHOP_AUTH")}}, ".", 1_000_000)
    assert settled.hidden(plain) == plain


@pytest.mark.requirement("FILE-credentials")
@pytest.mark.parametrize("length", range(168, 184))
def test_a_credential_that_is_cut_in_what_a_program_says_is_hidden_as_far_as_it_goes(
    length: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "tok-9f8e7d6c5b4a39281706f5e4d3c2b1a0")
    told = f"echo {'x' * length}$SHOP_TOKEN is no token >&2; exit 4"
    fixed = {"env": {"SHOP_TOKEN": Reference("env", "SHOP_TOKEN")}}
    folder = str(tmp_path)
    with pytest.raises(ToolError) as acting:
        BuiltInSystems().executor("command", "post", fixed, folder, 9_000_000).execute(
            CTX, {"argv": ["sh", "-c", told]}
        )
    with pytest.raises(ReaderFailedError) as reading:
        BuiltInSystems().source("command", "post", fixed, folder, 9_000_000).read(CTX, {"argv": ["sh", "-c", told]})
    for said in (str(acting.value), str(reading.value)):
        assert "tok-9f" not in said


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
        answer = BuiltInSystems().executor("smtp", "post", fixed, ".", 5_000_000).execute(CTX, given)
    assert isinstance(answer, dict)
    assert (answer["status"], answer["reply"]) == ("refused", f"bad header {HIDDEN}")
