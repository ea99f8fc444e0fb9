"""Who may run what: permission scopes that a contract names, and limits that an operator sets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from readback.domain.contract.limits import TenantLimits
from readback.domain.state import State
from readback.errors import InFlightLimitError, MissingScopeError, SettingsError, UsageError
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import TERMS, Desk, opened, opened_async, ship_async_of, ship_of

NEEDED = ["orders:write", "carriers:read"]


# --- scopes ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TENANT-scopes")
@pytest.mark.parametrize("held", [(), ("orders:write",), ("orders:*", "carriers:read"), ("ORDERS:WRITE", *NEEDED[1:])])
def test_a_client_without_every_scope_is_refused_before_anything_acts(held: tuple[str, ...]) -> None:
    desk, store = Desk(), MemoryStore()
    ship = ship_of(desk, scopes=NEEDED)
    with opened(store, scopes=held) as rb, pytest.raises(MissingScopeError) as refused:
        rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
    assert refused.value.code == "input.missing-scope"
    assert refused.value.details["missing"] == [each for each in NEEDED if each not in held]
    assert (desk.calls, desk.looks, list(store.reopened().scan())) == (0, 0, [])


@pytest.mark.requirement("TENANT-scopes")
def test_a_client_that_holds_them_runs_it_and_the_record_says_so() -> None:
    desk, store = Desk(), MemoryStore()
    ship = ship_of(desk, scopes=NEEDED)
    with opened(store, scopes=[*NEEDED, "more"]) as rb:
        told = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
        assert told.verified
        assert rb._session.fold(told.id).context["scopes"] == NEEDED


def test_the_async_client_asks_the_same() -> None:
    desk = Desk()
    ship = ship_async_of(desk, scopes=NEEDED)

    async def go() -> None:
        async with opened_async(scopes=["orders:write"]) as rb:
            await rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")

    with pytest.raises(MissingScopeError):
        asyncio.run(go())
    assert desk.calls == 0


@pytest.mark.requirement("TENANT-scopes")
@pytest.mark.parametrize("later", [False, True])
def test_a_compensation_needs_no_scope_anew(later: bool) -> None:
    """It was admitted with its action: a worker that holds none finishes what it has to."""
    desk, store, runtime = Desk(), MemoryStore(), VirtualRuntime()
    ship = ship_of(
        desk,
        side_effect="medium_risk_write",
        identity={**TERMS["identity"], "actor": "not_offered"},
        scopes=NEEDED,
        polls=["5s"] if later else ["0s"],
    )

    @ship.compensate(
        name="unship", kind="set", ensure={"open": "authoritative.status == 'open'"}, scopes=["orders:undo"]
    )
    def unship(ctx: Any, order_id: str, carrier: str) -> object:
        desk.order(order_id).update(status="open", stamp=ctx.stamp, version=9)
        return None

    desk.during = lambda ctx: desk.order().update(carrier="ups")
    with opened(store, runtime, scopes=NEEDED) as rb:
        told = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one", wait=0 if later else None)
    if later:
        with opened(store.reopened(), runtime, actions=[ship], scopes=[]) as worker:
            told = worker.wait(told.id)
    assert told.state is State.COMPENSATED, told.message


@pytest.mark.parametrize("scopes", ["orders:write", [""], ["a\nb"], [1]])
def test_scopes_that_are_no_names_are_refused(scopes: Any) -> None:
    with pytest.raises(UsageError):
        opened(scopes=scopes)


def test_scopes_change_a_contract_and_their_absence_changes_none() -> None:
    desk = Desk()
    plain, scoped = ship_of(desk).contract, ship_of(desk, scopes=NEEDED).contract
    assert plain.hash != scoped.hash
    assert b"scopes" not in plain.body


# --- settings -------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "config" / "readback"
    folder.mkdir(parents=True)
    return folder / "config.toml"


@pytest.mark.requirement("TENANT-settings", "TENANT-in-flight")
def test_the_operators_limits_hold_for_every_client_of_the_tenant(home: Path) -> None:
    home.write_text("[limits]\nin_flight = 9\n[limits.acme]\nin_flight = 1\n", encoding="utf-8")
    desk, store, runtime = Desk(), MemoryStore(), VirtualRuntime()
    ship = ship_of(desk, deadline="1h")
    desk.instead = lambda _ctx: {"status": "ok"}
    with opened(store, runtime, limits=TenantLimits(in_flight=5)) as rb:
        rb.run(ship(order_id="o-1", carrier="dhl"), operation="one", wait=0)
        with pytest.raises(InFlightLimitError):
            rb.run(ship(order_id="o-2", carrier="dhl"), operation="two", wait=0)
    assert desk.calls == 1


@pytest.mark.requirement("TENANT-settings")
def test_a_program_may_be_stricter_with_itself(home: Path) -> None:
    desk = Desk()
    ship = ship_of(desk, deadline="1h")
    desk.instead = lambda _ctx: {"status": "ok"}
    with opened(limits=TenantLimits(in_flight=1)) as rb:
        rb.run(ship(order_id="o-1", carrier="dhl"), operation="one", wait=0)
        with pytest.raises(InFlightLimitError):
            rb.run(ship(order_id="o-2", carrier="dhl"), operation="two", wait=0)


@pytest.mark.requirement("TENANT-pace")
def test_a_signal_keeps_to_the_tenants_rate(home: Path) -> None:
    desk, store, runtime = Desk(), MemoryStore(), VirtualRuntime()
    ship = ship_of(desk, deadline="2h", within="2h", polls=["0s", "1h"])
    desk.instead = lambda _ctx: {"status": "ok"}
    with opened(store, runtime, limits=TenantLimits(polls_per_minute=2)) as rb:
        told = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one", wait=0)
        now_us = runtime.now_us()
        assert rb.signal(told.id)
        assert rb.signal(told.id)
        first = rb.get(told.id).due_us
        assert first is not None
        assert first <= now_us + 60_000_000
        other = rb.run(ship(order_id="o-2", carrier="dhl"), operation="two", wait=0)
        assert other.due_us is not None
        assert rb.signal(other.id)
        stored = store.projection(other.id)
        assert stored is not None
        assert stored.projection.due_us is not None
        assert stored.projection.due_us > now_us, "a signal may not make more looks than the tenant may take"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limits = 3\n", "is not a table"),
        ("[limits]\nmany = 3\n", "unknown key 'many'"),
        ("[limits.acme]\nin_flight = -3\n", "'in_flight' is -3"),
        ("scopes = 'all'\n", "is not a list of texts"),
    ],
)
def test_settings_that_are_none_are_refused(home: Path, text: str, said: str) -> None:
    home.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=said):
        opened()


def test_scopes_come_from_settings_and_the_environment_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write_text("scopes = ['a', 'b']\n", encoding="utf-8")
    with opened() as rb:
        assert rb._session.scope.scopes == ("a", "b")
    monkeypatch.setenv("READBACK_SCOPES", "c, d")
    with opened() as rb:
        assert rb._session.scope.scopes == ("c", "d")
    with opened(scopes=["e"]) as rb:
        assert rb._session.scope.scopes == ("e",)


# --- sagas ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TENANT-in-flight", "TENANT-scopes")
def test_a_saga_is_refused_as_a_whole_and_its_steps_never() -> None:
    desk, store, runtime = Desk(), MemoryStore(), VirtualRuntime()
    ship = ship_of(desk, deadline="1h", within="30m", scopes=NEEDED, execute={"honours_key": True})

    def steps() -> list[Any]:
        return [
            ship(order_id="o-1", carrier="dhl").as_step("first", pivot=True),
            ship(order_id="o-2", carrier="dhl").as_step("second", after=("first",)),
        ]

    with opened(store, runtime, limits=TenantLimits(in_flight=1)) as rb:
        with pytest.raises(MissingScopeError):
            rb.saga(steps(), operation="trip")
        assert list(store.scan()) == []
    with opened(store.reopened(), runtime, limits=TenantLimits(in_flight=1), scopes=NEEDED) as rb:
        told = rb.saga(steps(), operation="trip")
        assert told.verified, "a step is no new action: it was admitted with its saga"
        desk.instead = lambda _ctx: {"status": "ok"}
        rb.run(ship(order_id="o-3", carrier="dhl"), operation="waits", wait=0)
        entries = sum(1 for _ in rb._session.store.scan())
        with pytest.raises(InFlightLimitError):
            rb.saga(steps(), operation="another trip")
        assert sum(1 for _ in rb._session.store.scan()) == entries
