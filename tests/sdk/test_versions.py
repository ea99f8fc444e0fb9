"""A session keeps the versions of a contract that it was given, so that each action finds the one it began with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.client import session
from readback.client.session import Session
from readback.engine.compiled_contract import CallerContext, CompiledContract
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, ship_of


def _versions(count: int) -> list[CompiledContract]:
    plan = ship_of(Desk()).load()
    return [replace(plan, contract=replace(plan.contract, hash=f"hash-{number}")) for number in range(count)]


@pytest.mark.requirement("GATEWAY-reload")
def test_the_newest_version_answers_to_the_name_and_each_to_its_hash() -> None:
    one = Session(MemoryStore(), VirtualRuntime(), CallerContext("acme", "agent"))
    first, second = _versions(2)
    for plan in (first, second, first, second):
        one.know(plan)
    assert one.plan_of(first.contract.name) is second
    assert (one.plan_of("hash-0"), one.plan_of("hash-1")) == (first, second)
    assert one.plan_of("hash-2") is None
    assert len(one.versions) == 2


def test_of_too_many_versions_the_oldest_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "VERSIONS_MAX", 2)
    one = Session(MemoryStore(), VirtualRuntime(), CallerContext("acme", "agent"))
    plans = _versions(3)
    for plan in plans:
        one.know(plan)
    assert [one.plan_of(f"hash-{number}") for number in range(3)] == [None, plans[1], plans[2]]
