"""A redacted value is in nothing that is written or told, whatever form and whatever field it comes back in."""

from __future__ import annotations

import json
import warnings
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import pytest
from pydantic import AfterValidator

from readback import Context, Lookup, Observation, ObservationStatus, Outcome, Readback, Reading, action, bootstrap
from readback.client.authoring.action import ActionDefinition
from readback.errors import ArgumentError, ReadbackError, StoreFullError
from readback.testing.runtime_virtual import VirtualRuntime

SECRET = 'pa/ss wörd"4111+1111&1111'
BASIC = b64encode(b"app:" + SECRET.encode()).decode()
FORMS = (
    SECRET,
    SECRET[:10],
    SECRET[11:],
    quote(SECRET, safe=""),
    json.dumps(SECRET)[1:-1],
    json.dumps(SECRET, ensure_ascii=False)[1:-1],
    repr(SECRET)[1:-1],
    BASIC.rstrip("=")[8:-2],
    SECRET.encode().hex(),
)
"""Its beginning and its end alone, too: that is what a text has which was cut in it, or in which a part was guessed."""

ANSWERS: dict[str, object] = {
    "another name": {"note": f"took {SECRET}", "number": SECRET},
    "a name of ours": {"name": SECRET, "group": SECRET, "key": SECRET, "source": SECRET, "truth": SECRET},
    "a key": {SECRET: 1, "deep": [{f"x{SECRET}": {"y": 2}}]},
    "nested": {"a": [{"b": [{"c": f"<{SECRET}>"}]}]},
    "an address": {"url": f"https://app:{quote(SECRET, safe='')}@db.example/x"},
    "a header": {"headers": {"Authorization": f"Basic {BASIC}"}},
    "json in a text": {"raw": json.dumps({"card": SECRET})},
    "bytes": {"blob": f"x {SECRET} y".encode()},
    "bytes alone": f"x {SECRET} y".encode(),
    "text": f"it is {SECRET}",
    "an error": {"error": f"not taken: {SECRET}", "ok": False},
    **{f"an error of {n}": {"error": "x" * n + SECRET + "y" * 400, "ok": False} for n in (95, 100, 110, 200, 225)},
    "a reference": {"id": SECRET},
    "a status": {"status": SECRET, "message": SECRET},
    "an observation": Observation(ObservationStatus.SUCCESS, True, SECRET, f"said {SECRET}", {"x": SECRET}, SECRET, 0),
    "hex": {"dump": SECRET.encode().hex()},
    "an exception": ValueError(f"no such card {SECRET}"),
    **{f"an exception of {n}": ValueError("x" * n + SECRET + "y" * 400) for n in (95, 100, 110, 190, 200, 225)},
    "an exception with an address": ConnectionError(f"cannot reach https://app:{quote(SECRET, safe='')}@db.example/x"),
    "an exception of bytes": ValueError(SECRET.encode()),
    "an exception by its name": ValueError(f"no luck with password={SECRET} there"),
    "an exception in an address": ValueError(f"no luck with https://app:x@{SECRET}@db.example there"),
    "an exception in quotes": ValueError(f"no luck with passphrase: '{SECRET}'"),
    **{f"a name and {n} more": ValueError("x" * n + f" password={SECRET}") for n in (60, 70, 75, 80, 85)},
    "text by its name": f"the api_key: {SECRET} is none",
    "a reference by its name": {"id": f"password={SECRET}"},
    "a chain": ExceptionGroup(f"all of {SECRET}", [ValueError(SECRET)]),
}
READS: dict[str, Callable[[], Reading]] = {
    "a stamp": lambda: Reading.of(_row(), stamp=f"stamp-{SECRET}"),
    "a version and an author": lambda: Reading.of(_row(), version=SECRET, author=SECRET),
    "a key of the row": lambda: Reading.of({**_row(), SECRET: SECRET}),
    "another field": lambda: Reading.of({**_row(), "name": SECRET, "note": {"key": [SECRET]}}),
    "a detail": lambda: Reading.unavailable(f"no row for {SECRET}"),
    "an exception": lambda: _raise(ValueError(f"no row {SECRET}")),
    "an exception by its name": lambda: _raise(ValueError(f"no row by password: {SECRET}")),
    "a detail by its name": lambda: Reading.unavailable(f"no row by password: {SECRET}"),
    "a long exception": lambda: _raise(ValueError("x" * 265 + SECRET + "y" * 400)),
    "a longer exception": lambda: _raise(ValueError("x" * 280 + SECRET + "y" * 400)),
    "a long detail": lambda: Reading.unavailable("x" * 285 + SECRET),
    "another type": lambda: f"no reading, but {SECRET}",  # type: ignore[return-value, dict-item]
    "another record": lambda: Reading.of({"id": SECRET, "tenant": SECRET, "card": SECRET}),
}
OTHER_HANDS = ("find", "find raises", "lookup", "lookup raises", "check raises", "check returns", "require raises")
PLACES = [
    *(("tool", each) for each in ANSWERS),
    *(("reader", each) for each in READS),
    *(("hand", each) for each in OTHER_HANDS),
]


def _row() -> dict[str, Any]:
    return {"id": "x", "tenant": "acme", "last4": "1111"}


def _raise(error: Exception) -> Reading:
    raise error


def _quotes(requested: dict[str, str]) -> bool:
    raise KeyError(requested["card"])


def _returns(requested: dict[str, str]) -> object:
    return requested["card"]


def _pay(whose: str, place: str) -> ActionDefinition[Any]:
    terms: dict[str, Any] = {"require": {"known": _quotes}} if place == "require raises" else {}
    ensure: dict[str, Any] = {"last four": "authoritative.last4 == requested.last4"}
    if place.startswith("check"):
        ensure["extra"] = _quotes if place == "check raises" else _returns
    paid: list[str] = []

    @action(
        name="pay",
        kind="set",
        side_effect="low_risk_internal",
        target="card/x",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
        ensure=ensure,
        within="2s",
        polls=["0s"],
        redact=["requested.card", "requested.pin"],
        **terms,
    )
    def pay(ctx: Context, card: str, last4: str, pin: bytes) -> object:
        paid.append(card)
        answer = ANSWERS[place] if whose == "tool" else {"ok": True}
        if isinstance(answer, Exception):
            raise answer
        if whose == "hand" and "lookup" in place:
            raise TimeoutError(f"no answer about {SECRET}")
        return answer

    @pay.read(source="cards", consistency="strong", independence="other_client")
    def row(ctx: Context, card: str, last4: str, pin: bytes) -> Reading:
        if whose == "hand" and place.startswith(("find", "lookup")):
            return Reading.unavailable("asleep")
        return READS[place]() if whose == "reader" and paid else Reading.of({**_row(), "card": card})

    @pay.find
    def everywhere(ctx: Context, card: str, last4: str, pin: bytes) -> list[Reading]:
        if place == "find raises":
            raise ValueError(f"nothing under {card}")
        return [Reading.of({**_row(), "note": card}, stamp=card)] if place == "find" else []

    @pay.lookup
    def by_key(ctx: Context, card: str, last4: str, pin: bytes) -> Lookup:
        if place == "lookup raises":
            raise ValueError(f"nothing under {card}")
        return Lookup("unknown", detail=f"asked for {card}")

    return pay


def _holds(text: str | bytes) -> list[str]:
    raw = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return [form for form in FORMS if form.encode() in raw]


def _told(rb: Readback, outcome: Outcome) -> str:
    said = [outcome.as_json(), rb.get(outcome.id).as_json(), rb.review(outcome.id).as_json(), repr(outcome)]
    return json.dumps(said, ensure_ascii=False, default=str) + outcome.message + outcome.for_model()


def _arguments() -> dict[str, Any]:
    return {"card": SECRET, "last4": "1111", "pin": SECRET.encode()}


@pytest.mark.requirement("PRIVACY-secrets")
@pytest.mark.parametrize(("whose", "place"), PLACES)
def test_a_redacted_value_is_in_no_file_and_nothing_that_is_told(whose: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "readback.db"
    with Readback.open(f"sqlite:///{path}", tenant="acme", principal="agent:desk", runtime=VirtualRuntime()) as rb:
        outcome = rb.run(_pay(whose, place)(**_arguments()), operation="pay", wait=30)
        assert _holds(_told(rb, outcome)) == []
        held = b"".join(each.read_bytes() for each in tmp_path.iterdir())
        assert _holds(held) == []
    assert b"card/x" in held


@pytest.mark.requirement("PRIVACY-secrets")
@pytest.mark.parametrize("command", ["show", "explain", "list", "review show"])
def test_no_command_prints_it(command: str, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from readback.cli.cli import main

    url = f"sqlite:///{tmp_path / 'readback.db'}"
    with Readback.open(url, tenant="acme", principal="agent:desk", runtime=VirtualRuntime()) as rb:
        made = rb.run(_pay("tool", "an error")(**_arguments()), operation="pay", wait=30)
    given = [*command.split(), *([] if command == "list" else [made.id]), "--url", url, "--tenant", "acme"]
    for more in ([], ["--json"]):
        answer = CliRunner().invoke(main, [*given, *more])
        assert answer.exit_code == 0, answer.output
        assert _holds(answer.stdout + answer.stderr) == []


@pytest.mark.requirement("PRIVACY-secrets")
def test_what_a_full_ledger_did_not_take_is_written_beside_it_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The worst case is said on stderr and in a file beside the ledger, and in the error itself."""
    store = bootstrap.store(f"sqlite:///{tmp_path / 'readback.db'}")
    append, calls = store.append, []

    def full(batch: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise StoreFullError("There is no space left.")
        return append(batch)

    monkeypatch.setattr(store, "append", full)
    rb = Readback.open(store=store, tenant="acme", principal="agent:desk", runtime=VirtualRuntime())
    with rb, pytest.raises(ReadbackError) as failed:
        rb.run(_pay("tool", "an error")(**_arguments()), operation="pay", wait=30)
    told = capfd.readouterr()
    written = [each for each in tmp_path.iterdir() if each.name != "readback.db"]
    assert written
    assert _holds(b"".join(each.read_bytes() for each in tmp_path.iterdir())) == []
    assert _holds(told.out + told.err + str(failed.value) + repr(failed.value.details)) == []


@pytest.mark.requirement("PRIVACY-secrets")
def test_a_refused_argument_and_a_dropped_proposal_are_named_without_their_values() -> None:
    pay = _pay("tool", "text")
    with pytest.raises(ReadbackError) as refused:
        pay(card=[SECRET], last4="1111", pin=b"x")
    assert _holds(str(refused.value) + repr(refused.value.details)) == []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        proposal = pay(**_arguments())
        said = repr(proposal) + str(proposal)
        del proposal
    assert _holds(said + "".join(str(each.message) for each in warned)) == []


def _known(card: str) -> str:
    raise ValueError(f"nobody knows the card {card}")


@pytest.mark.requirement("PRIVACY-secrets")
def test_a_redacted_argument_that_its_own_validator_quotes_is_not_told() -> None:
    @action(
        kind="set",
        side_effect="low_risk_internal",
        target="account/{requested.name}",
        identity={"target": "authoritative.id", "tenant": "not_offered"},
        ensure={"paid": "authoritative.paid"},
        redact=["requested.card"],
    )
    def pay_by(ctx: Context, name: str, card: Annotated[str, AfterValidator(_known)]) -> object:
        return {"ok": True}

    @pay_by.read(source="books", consistency="strong", independence="other_client")
    def booked(ctx: Context, name: str, card: str) -> Reading:
        return Reading.of({"paid": True})

    with pytest.raises(ArgumentError) as refused:
        pay_by(name="ana", card=SECRET)
    assert _holds(str(refused.value) + repr(refused.value.details)) == []
    assert "card: " in str(refused.value)
