"""A disk that is full for real, and values that no entry may hold: typed errors, and nothing accepted is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from readback import Observation, ObservationStatus, Outcome, Readback, Reading, bootstrap
from readback.audit.checks.ledger import audit
from readback.canon import EnvelopeProfileError, ReadbackError, ValueTooLargeError, envelope_bytes
from readback.canon.fault import CanonError
from readback.canon.limits import ENVELOPE_MAX_BYTES
from readback.domain.events import Event, EventKind, seal
from readback.domain.state import State
from readback.errors import InputError, StoreError, UnknownOutcomeError
from readback.ports.storage.store import Append
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_samples import sample_creation, sample_evidence
from tests.architecture.tree import ROOT
from tests.sdk.given import Desk, opened, ship_of

FILLS_UP = """
import json, resource, signal, sys
from pathlib import Path
from readback import Readback
from readback.errors import ReadbackError
from readback.testing.runtime_virtual import VirtualRuntime
from tests.sdk.given import Desk, ship_of

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
desk, told = Desk(), []
ship = ship_of(desk)
with Readback.open(sys.argv[1], tenant="acme", principal="agent:ops", runtime=VirtualRuntime()) as rb:
    rb.run(ship(order_id="o-0", carrier="dhl"), operation="o-0")
    longest = max(each.stat().st_size for each in Path(sys.argv[1].removeprefix("sqlite:///")).parent.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (longest + int(sys.argv[2]),) * 2)
    for n in range(1, 100_000):
        try:
            outcome = rb.run(ship(order_id=f"o-{n}", carrier="x" * 2_000), operation=f"o-{n}")
        except ReadbackError as error:
            found = getattr(error, "outcome", None)
            state = None if found is None else found.state.value
            print(json.dumps({"ids": told, "code": error.code, "exit": error.exit_code, "state": state, "n": n}))
            break
        told.append(outcome.id)
"""


@pytest.mark.requirement("INPUT-store-full")
@pytest.mark.parametrize("room", [180_000, 225_000, 400_000])
def test_a_disk_that_takes_no_more_in_the_middle_of_the_work_loses_nothing_that_was_told(
    tmp_path: Path, room: int
) -> None:
    """The kernel refuses to let any file of the process grow: as a full disk, in the middle of a write."""
    url = f"sqlite:///{tmp_path / 'readback.db'}"
    given = [sys.executable, "-c", FILLS_UP, url, str(room)]
    done = subprocess.run(given, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["ids"]
    assert said["code"].startswith("store.")
    assert said["exit"] == 6
    if said["state"] is not None:  # behind the effect: it is said where it can be
        assert said["state"] == "unknown"
        assert "UNKNOWN OUTCOME" in done.stderr
    store = bootstrap.store(url)
    report = audit(store)
    assert report.faults == []
    assert bootstrap.store_damage(store) == []
    with opened(store, VirtualRuntime()) as rb:
        assert all(rb.get(each).verified for each in said["ids"])


@pytest.mark.requirement("INPUT-store-full")
def test_a_batch_that_does_not_fit_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    from readback.errors import StoreFullError
    from readback.stores.sqlite import open_sqlite_store

    store = open_sqlite_store(tmp_path / "readback.db", pages_max=120)
    kept: list[str] = []

    def fill() -> None:
        for n in range(1_000):
            batch = [_large(f"a{n}-{m}") for m in range(5)]
            store.append(batch)
            kept.extend(each.action_id for each in batch)

    with pytest.raises(StoreFullError):
        fill()
    assert kept
    assert [each.projection.action_id for each in store.projections()] == sorted(kept)
    assert store.last_seq() == len(kept)
    store.close()


def _large(action_id: str) -> Append:
    from dataclasses import replace

    body = sample_evidence(action_id.encode() * 1_000)
    return replace(sample_creation(action_id), evidence=(body,))


# --- entries ---

ODD: list[Any] = [
    1.5,
    float("nan"),
    float("inf"),
    2**53,
    -(2**53),
    2**64,
    {"ключ": 1},
    {"k": {"ü": 1}},
    "\ud800",
    ["ok", "\udfff"],
    b"bytes",
    {1: 2},
]


@pytest.mark.requirement("INPUT-entry-profile")
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_what_no_entry_may_hold_is_refused_before_it_is_hashed(value: Any) -> None:
    event = Event(EventKind.PROPOSED, 1, (State.PROPOSED,), {"x": value})
    with pytest.raises(CanonError):
        seal(event, "a1", "acme", 1, "")


@pytest.mark.requirement("INPUT-entry-profile")
def test_an_entry_over_the_limit_is_refused_and_one_at_it_is_not() -> None:
    def of(size: int) -> Event:
        return Event(EventKind.PROPOSED, 1, (State.PROPOSED,), {"x": "x" * size})

    empty = len(seal(of(0), "a1", "acme", 1, "")[0])
    envelope, _ = seal(of(ENVELOPE_MAX_BYTES - empty), "a1", "acme", 1, "")
    assert len(envelope) == ENVELOPE_MAX_BYTES
    with pytest.raises((ValueTooLargeError, EnvelopeProfileError)):
        seal(of(ENVELOPE_MAX_BYTES - empty + 1), "a1", "acme", 1, "")
    assert envelope_bytes({"nul": "\x00"}) == b'{"nul":"\\u0000"}'


ANSWERS: dict[str, Any] = {
    "floats": {"price": 1.5, "tiny": 5e-324, "nested": [{"x": 0.1}]},
    "a huge integer": {"n": 2**63},
    "an integer beyond all": {"n": 10**40},
    "not a number": {"n": float("nan")},
    "keys of any script": {"ключ": "значение", "ü": {"日本": 1}},
    "nul": {"text": "a\x00b", "\x00": 1},
    "a lone surrogate": {"text": "\ud800"},
    "a surrogate as a key": {"\udfff": 1},
    "a set": {"x": {1, 2}},
    "deep": __import__("functools").reduce(lambda below, _: {"x": below}, range(80), 1),
    "an observation": Observation(ObservationStatus.SUCCESS, True, "c\ud800" * 500, "d\x00" * 9_000, None, "\x00", -5),
}


def _of(order_id: str = "o-1") -> dict[str, Any]:
    return {"id": order_id, "tenant": "acme", "status": "shipped", "carrier": "dhl"}


READINGS: dict[str, Any] = {
    "a huge version": lambda: Reading.of(_of(), version=2**70),
    "a version that is no number": lambda: Reading.of(_of(), version=1.5),  # type: ignore[arg-type]
    "a version with nul": lambda: Reading.of(_of(), version="v\x00"),
    "a version with a surrogate": lambda: Reading.of(_of(), version="\ud800"),
    "a time with a fraction": lambda: Reading.of(_of(), as_of_us=1.5),  # type: ignore[arg-type]
    "a huge time": lambda: Reading.of(_of(), as_of_us=2**60),
    "a stamp with everything": lambda: Reading.of(_of(), stamp="\x00\ud800" * 9_000),
    "an author with everything": lambda: Reading.of(_of(), author="ü\x00\udfff" * 9_000),
    "a detail with everything": lambda: Reading.unavailable("\ud800\x00" * 9_000),
    "floats": lambda: Reading.of({**_of(), "weight": 1.5, "n": 2**60}),
    "a surrogate": lambda: Reading.of({**_of(), "x": "\ud800"}),
}


def _sound(store: Any, outcome: Outcome) -> None:
    report = audit(store)
    assert report.faults == []
    assert report.actions == 1
    assert json.loads(json.dumps(outcome.as_json())) is not None
    assert outcome.message


@pytest.mark.requirement("INPUT-entry-profile")
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_may_be_anything_and_its_record_is_sound(answer: str, tmp_path: Path) -> None:
    """Payloads hold floats and whatever has a JSON form; what has none is malformed, and the truth is read back."""
    store, desk = bootstrap.store(f"sqlite:///{tmp_path / 'readback.db'}"), Desk()
    ship = ship_of(desk)

    def answers(ctx: Any) -> object:
        desk.order().update(status="shipped", carrier="dhl", stamp=ctx.stamp, version=1)
        return ANSWERS[answer]

    desk.instead = answers
    with opened(store, VirtualRuntime()) as rb:
        outcome = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        assert outcome.verified
        assert rb.get(outcome.id).as_json() == outcome.as_json()
        _sound(store, outcome)


@pytest.mark.requirement("INPUT-entry-profile")
@pytest.mark.parametrize("reading", READINGS)
def test_a_reading_may_be_anything_and_its_record_is_sound(reading: str, tmp_path: Path) -> None:
    from readback import Context, action
    from tests.sdk.given import TERMS

    store = bootstrap.store(f"sqlite:///{tmp_path / 'readback.db'}")

    @action(**{**TERMS, "name": "odd"})
    def odd(ctx: Context, order_id: str, carrier: str) -> object:
        return {"ok": True}

    @odd.read(source="orders", consistency="strong", independence="other_client")
    def row(ctx: Context, order_id: str, carrier: str) -> Reading:
        return READINGS[reading]()  # type: ignore[no-any-return]

    with opened(store, VirtualRuntime()) as rb:
        outcome = rb.run(odd(order_id="o-1", carrier="dhl"), operation="op", wait=60)
        assert rb.get(outcome.id).as_json() == outcome.as_json()
        _sound(store, outcome)


@pytest.mark.requirement("INPUT-entry-profile")
@pytest.mark.parametrize("carrier", ["\ud800", "a\udfff", 1.5, 2**70, b"\xff", {"ü": float("nan")}], ids=repr)
def test_an_argument_that_cannot_be_written_down_is_refused_before_anything_is_recorded(
    carrier: Any, tmp_path: Path
) -> None:
    store, desk = bootstrap.store(f"sqlite:///{tmp_path / 'readback.db'}"), Desk()
    ship = ship_of(desk)
    with opened(store, VirtualRuntime()) as rb:
        with pytest.raises((InputError, CanonError)):
            rb.run(ship(order_id="o-1", carrier=carrier), operation="op")
        assert store.last_seq() == 0
    assert desk.calls == 0


IDS = {"surrogate": "\ud800", "nul": "a\x00b", "long": "x" * 10_000, "empty": "", "line": "a\nb"}


@pytest.mark.requirement("INPUT-entry-profile")
@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("field", ["run", "tenant", "principal", "trace"])
def test_an_id_that_cannot_be_written_down_opens_nothing(field: str, kind: str, tmp_path: Path) -> None:
    if kind == "empty" and field in ("run", "trace"):
        return  # these may be left out
    url = f"sqlite:///{tmp_path / 'readback.db'}"
    given: dict[str, Any] = {"tenant": "acme", "principal": "agent:ops", field: IDS[kind]}
    with pytest.raises(ReadbackError) as refused:
        Readback.open(url, runtime=VirtualRuntime(), **given)
    assert not isinstance(refused.value, StoreError)


@pytest.mark.requirement("INPUT-entry-profile")
@pytest.mark.parametrize("kind", IDS)
def test_an_operation_that_cannot_be_written_down_is_refused_and_nothing_is_recorded(kind: str, tmp_path: Path) -> None:
    store, desk = bootstrap.store(f"sqlite:///{tmp_path / 'readback.db'}"), Desk()
    proposal = ship_of(desk)(order_id="o-1", carrier="dhl")
    with opened(store, VirtualRuntime()) as rb:
        with pytest.raises(ReadbackError) as refused:
            rb.run(proposal, operation=IDS[kind])
        assert not isinstance(refused.value, StoreError)
        assert (store.last_seq(), desk.calls) == (0, 0)
        assert rb.run(proposal, operation="one that can").verified


@pytest.mark.requirement("INPUT-entry-profile", "TRUTH-words-append-failed")
@pytest.mark.parametrize("kind", [EventKind.OBSERVED, EventKind.JUDGED])
def test_an_entry_behind_the_effect_that_cannot_be_written_is_said_as_unknown_and_found_later(
    kind: EventKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over the limit, say: whoever called must not read that as "nothing was done"."""
    from readback.engine import run as runs

    def seals(event: Event, *place: Any) -> Any:
        if event.kind is kind:
            raise EnvelopeProfileError("The envelope has 70000 bytes, over 65535.")
        return seal(event, *place)

    desk, runtime, url = Desk(), VirtualRuntime(owner="process/1"), f"sqlite:///{tmp_path / 'readback.db'}"
    ship = ship_of(desk)
    with monkeypatch.context() as patch, opened(bootstrap.store(url), runtime) as rb:
        patch.setattr(runs, "seal", seals)
        with pytest.raises(UnknownOutcomeError) as raised:
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        outcome = raised.value.outcome
        assert isinstance(outcome, Outcome)
        assert (outcome.state, outcome.verified, outcome.may_repeat) == (State.UNKNOWN, False, False)
    assert "UNKNOWN OUTCOME" in capsys.readouterr().err
    assert desk.order()["status"] == "shipped"
    runtime.declare_gone("process/1")
    with opened(bootstrap.store(url), runtime.sibling("process/2"), actions=[ship]) as rb:
        assert [(each.id, each.verified) for each in rb.resume()] == [(outcome.id, True)]
    assert desk.calls == 1
