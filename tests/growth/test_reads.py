"""Looks at one part of a ledger cost what that part has, in a ledger of any size; counted on both stores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readback.cli.ledger import records
from readback.cli.ledger.records import Wanted
from readback.client.operations import believing
from readback.domain.state import TERMINAL, State
from readback.ports.storage.store import ActionFilter, Append, Freeze, Incident, LedgerStore
from readback.ports.storage.store_rules import INT64_MAX, OPEN_STATES, SETTLED
from readback.testing.store_memory import MemoryStore
from readback.testing.store_samples import NOON_US, TENANT
from tests.growth.counting import SECOND_US, filled, numbered, url_of, work_of
from tests.sdk.given import opened

STORES = ("sqlite", pytest.param("postgres", marks=pytest.mark.slow))
SMALL, LARGE = 400, 4_000
NEWEST = 5


def settled(number: int) -> Append:
    """All succeeded, but for two open ones at the beginning."""
    state = State.PENDING.value if number in (3, 7) else State.RECONCILED_SUCCESS.value
    return numbered(number, run="r", state=state, target=f"order/{number % 9}")


def both(kind: str, folder: Path, request: Any, look: Any) -> tuple[int, int]:
    """What a look costs in a small ledger and in a large one."""
    costs = []
    for actions in (SMALL, LARGE):
        with filled(url_of(kind, folder, actions, request), actions, settled) as store:
            costs.append(work_of(store, lambda store=store, actions=actions: look(store, actions)))
    return costs[0], costs[1]


@pytest.mark.requirement("GROWTH-export")
@pytest.mark.parametrize("kind", STORES)
def test_an_export_since_a_moment_reads_only_what_is_newer(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def look(store: LedgerStore, actions: int) -> None:
        since_us = NOON_US + (actions - NEWEST) * SECOND_US
        found = [each[0].action_id for each in records._streams(store, Wanted("", (), since_us, None))]
        assert found == [f"a{number:06}" for number in range(actions - NEWEST, actions)]

    small, large = both(kind, tmp_path, request, look)
    assert large <= small + 40, (small, large)


@pytest.mark.requirement("GROWTH-export")
@pytest.mark.parametrize("kind", STORES)
def test_an_export_of_a_time_in_the_past_reads_that_time(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def look(store: LedgerStore, _actions: int) -> None:
        wanted = Wanted("", (), NOON_US + 10 * SECOND_US, NOON_US + 13 * SECOND_US)
        found = [each[0].action_id for each in records._streams(store, wanted)]
        assert found == ["a000010", "a000011", "a000012"]

    small, large = both(kind, tmp_path, request, look)
    assert large <= small + 40, (small, large)


@pytest.mark.requirement("GROWTH-export")
@pytest.mark.parametrize("kind", STORES)
def test_an_export_of_a_tenant_reads_that_tenant(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    def mixed(number: int) -> Append:
        return numbered(number, tenant="other" if number % 200 else "mine")

    def look(store: LedgerStore) -> list[str]:
        return [each[0].action_id for each in records._streams(store, Wanted("mine", (), None, None))]

    costs = []
    for actions in (SMALL, SMALL * 3):
        with filled(url_of(kind, tmp_path, actions, request), actions, mixed) as store:
            assert look(store) == [f"a{number:06}" for number in range(0, actions, 200)]
            costs.append(200 * work_of(store, lambda store=store: look(store)) / actions)
    assert costs[1] <= costs[0] + 40, costs


@pytest.mark.requirement("GROWTH-belief", "BELIEF-bounded")
@pytest.mark.parametrize("kind", STORES)
def test_a_belief_reads_what_is_open_and_the_newest_of_its_run(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(believing, "SETTLED_LOADED_MAX", 20)
    monkeypatch.setattr(believing, "OLDER_COUNTED_MAX", 50)
    monkeypatch.setattr(believing, "PAGE", 25)

    def look(store: LedgerStore, actions: int) -> None:
        with opened(_Open(store), tenant=TENANT) as rb:
            chosen = believing.choose(rb._session, "r")
        assert chosen.ids == (*(f"a{n:06}" for n in range(actions - 1, actions - 21, -1)), "a000007", "a000003")
        assert (chosen.older, chosen.more) == (50, True)

    small, large = both(kind, tmp_path, request, look)
    assert large <= small * 1.05 + 60, (small, large)


@pytest.mark.requirement("BELIEF-bounded")
def test_a_freeze_by_another_run_on_what_an_old_action_touched_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The meaning of `frozen` does not depend on how many actions are loaded."""
    monkeypatch.setattr(believing, "SETTLED_LOADED_MAX", 2)
    store = MemoryStore()
    store.append([numbered(0, run="r", state=State.FAILED.value, target="order/old")])
    store.append([numbered(number, run="r", state=State.FAILED.value, target="order/new") for number in range(1, 9)])
    culprit = numbered(9, run="another", target="order/old")
    subjects = ("resource:order/old", "resource:order/elsewhere")
    frozen = tuple(Freeze(TENANT, subject, "a000009", "wrong", 1) for subject in subjects)
    store.append([replace(culprit, freezes=frozen)])
    with opened(store, tenant=TENANT) as rb:
        chosen = believing.choose(rb._session, "r")
    assert [each.subject for each in chosen.frozen] == ["resource:order/old"]
    assert len(chosen.ids) == 2
    assert (chosen.older, chosen.more) == (7, False)


def test_open_and_settled_states_are_those_of_the_domain() -> None:
    assert {*OPEN_STATES} | SETTLED == {state.value for state in State}
    assert {State(each) for each in SETTLED} == TERMINAL - {State.REVIEW_REQUIRED}


@pytest.mark.requirement("GROWTH-export")
@pytest.mark.parametrize("kind", STORES)
def test_actions_are_proposed_in_the_order_of_their_moments_each_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Ids follow another order than moments where a clock was set back, or a saga announced its steps before."""

    def at_one_moment(number: int) -> Append:
        return numbered(1_300 - number) if number < 700 else numbered(number + 900)

    with filled(url_of(kind, tmp_path, 1_000, request), 1_000, at_one_moment) as store:
        moments = [each.projection.created_us for each in store.proposed(0, INT64_MAX)]
        assert moments == sorted(each.projection.created_us for each in store.projections())
        assert len(set(moments)) == 1_000
        some = [each.projection.action_id for each in store.proposed(moments[3], moments[6])]
        assert some == [each.projection.action_id for each in store.proposed(0, INT64_MAX)][3:6]


@pytest.mark.requirement("GROWTH-tenants")
@pytest.mark.parametrize("kind", STORES)
def test_the_newest_action_is_found_whatever_number_of_tenants_there_is(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    costs = []
    for actions in (SMALL, LARGE):
        url = url_of(kind, tmp_path, actions, request)
        with filled(url, actions, lambda number: numbered(number, tenant=f"t{number}")) as store:

            def look(store: LedgerStore = store, actions: int = actions) -> None:
                newest = store.page(ActionFilter(limit=2))
                assert [each.projection.action_id for each in newest] == [f"a{actions - n:06}" for n in (1, 2)]
                before = store.page(ActionFilter(before_id="a000002", limit=5))
                assert [each.projection.action_id for each in before] == ["a000001", "a000000"]

            costs.append(work_of(store, look))
    assert costs[1] <= costs[0] + 20, costs


@pytest.mark.requirement("GROWTH-incidents")
@pytest.mark.parametrize("kind", STORES)
def test_one_incident_is_found_whatever_number_of_them_there_was(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def told(number: int) -> Append:
        incident = Incident(TENANT, f"i{number:06}", f"cause {number}", "high", f"a{number:06}", NOON_US)
        return replace(numbered(number), incidents=(incident,))

    costs = []
    for actions in (SMALL, LARGE):
        with filled(url_of(kind, tmp_path, actions, request), actions, told) as store:

            def look(store: LedgerStore = store) -> None:
                (found,) = store.incidents(TENANT, open_only=False, named="i000007")
                assert found.cause == "cause 7"
                assert store.incidents("another", open_only=False, named="i000007") == []

            costs.append(work_of(store, look))
    assert costs[1] <= costs[0] + 20, costs


class _Open:
    """A store that its client does not close."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store

    def close(self) -> None:
        """Not yet."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
