"""Readback as an interceptor of agent-hooks: in the kit's own reference host, and beside its published vectors."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_hooks import (
    AgentContextBuilder,
    ApprovalOutcome,
    ApprovalResolution,
    InterceptionBlocked,
    InterceptionEmitter,
    Verdict,
)
from agent_hooks.ctk import load_vectors, run_vector
from agent_hooks.ctk.reference import ReferenceHarness

from readback.frameworks.agent_hooks import ReadbackInterceptor
from readback.kit import Kit, UngovernedToolsWarning
from tests.frameworks import shop

VECTORS = {each["id"]: each for each in load_vectors()}
WITHOUT = {
    "AH-CTK-050": "the vector's answer is 'done', and nothing in the ledger supports it",
    "AH-CTK-061": "the vector has no interceptor at all",
    "AH-CTK-101": "the vector has no interceptor at all",
    "AH-CTK-104": "the vector's answer is 'done', and nothing in the ledger supports it",
}
"""Vectors with another result behind Readback, each with the reason; all others have the same result."""


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    shop.use(tmp_path)
    with Kit.open(**shop.opening(), contracts=[tmp_path / "book.yaml"], wait=3.0) as opened:
        yield opened


def governing(kit: Kit) -> ReadbackInterceptor:
    return ReadbackInterceptor(kit, {"enter": shop.ENTER_SCHEMA})


class _Host:
    """A small host: the hooks around one call, as the contract orders them."""

    def __init__(self, *interceptors: Any, resolver: Any = None) -> None:
        self._builder = AgentContextBuilder(agent_id="a", framework="test", session_id="s1")
        self._emitter = InterceptionEmitter(resolver=resolver)
        for each in interceptors:
            self._emitter.register(each)

    async def call(self, name: str, arguments: dict[str, Any], call_id: str = "c1") -> tuple[bool, str]:
        """Whether the result reaches the model as a success, and its text."""
        tool = {"enter": shop.enter, "peek": shop.peek, "pay": _pay}[name]
        before = self._builder.pre_tool_call(call_id=call_id, name=name, args=arguments)
        try:
            await self._emitter.emit(before)
            value = tool(**before["tool_call"]["args"])
            after = self._builder.post_tool_call(call_id=call_id, name=name, args=arguments, value=value)
            await self._emitter.emit(after)
        except InterceptionBlocked as blocked:
            return False, str(blocked.result.verdict.reason)
        return True, str(after["tool_result"]["value"])

    async def answer(self, text: str) -> str:
        context = self._builder.output(content=text)
        try:
            await self._emitter.emit(context)
        except InterceptionBlocked:
            return ""
        return str(context["output"]["content"])


def _pay(**_: Any) -> str:
    shop.sql("insert into calls values ('pay')")
    return "paid"


@pytest.mark.requirement("ENGINE-hooks")
def test_a_verified_call_reaches_the_model_with_the_tools_own_words(kit: Kit) -> None:
    ok, text = asyncio.run(_Host(governing(kit)).call("enter", {"name": "rent", "amount": 3}))
    assert ok
    assert text.startswith("[action outcome] Verified")
    assert "Successfully entered 3 under rent" in text


@pytest.mark.requirement("ENGINE-hooks")
def test_a_lie_is_denied_and_its_words_are_withheld(kit: Kit) -> None:
    ok, text = asyncio.run(_Host(governing(kit)).call("enter", {"name": "lost", "amount": 3}))
    assert not ok
    assert "Successfully entered" not in text
    assert shop.acted("enter") == 1


@pytest.mark.requirement("ENGINE-hooks")
def test_a_call_repeated_under_its_id_is_not_made_again(kit: Kit) -> None:
    async def twice() -> list[tuple[bool, str]]:
        arguments = {"name": "rent", "amount": 3}
        return [await _Host(governing(kit)).call("enter", arguments) for _ in range(2)]

    first, second = asyncio.run(twice())
    assert first[0]
    assert not second[0]
    assert second[1].startswith("[action outcome] Verified")
    assert shop.acted("enter") == 1


@pytest.mark.requirement("ENGINE-hooks")
def test_misfitting_arguments_are_refused_before_the_call(kit: Kit) -> None:
    ok, _ = asyncio.run(_Host(governing(kit)).call("enter", {"name": "rent"}))
    assert not ok
    assert shop.acted("enter") == 0


@pytest.mark.requirement("ENGINE-hooks")
def test_an_approval_of_the_host_does_not_lift_a_parked_call(kit: Kit, tmp_path: Path) -> None:
    identity = "{target: authoritative.name, tenant: not_offered, actor: not_offered}"
    extra = f"within: 500ms\n    approval: {{expires: 1h}}\n    identity: {identity}"
    contract = (tmp_path / "book.yaml").read_text().replace("within: 500ms", extra)
    (tmp_path / "parked.yaml").write_text(contract.replace("ephemeral_write", "medium_risk_write"))

    class Approves:
        def resolve(self, request: Any) -> ApprovalResolution:
            return ApprovalResolution(ApprovalOutcome.APPROVE, request.context_identity, Verdict.allow())

    options = {**shop.opening(), "contracts": [tmp_path / "parked.yaml"], "wait": 1.0}
    with Kit.open(**options) as parked:
        host = _Host(governing(parked), resolver=Approves())
        ok, text = asyncio.run(host.call("enter", {"name": "rent", "amount": 3}))
    assert not ok
    assert "approval" in text
    assert shop.acted("enter") == 0


@pytest.mark.requirement("ENGINE-hooks")
def test_a_lying_answer_is_replaced_and_an_ordinary_answer_passes(kit: Kit) -> None:
    async def both() -> tuple[str, str]:
        host = _Host(governing(kit))
        ordinary = await host.answer("Good morning.")
        await host.call("enter", {"name": "lost", "amount": 3})
        return ordinary, await host.answer("I have entered the amount.")

    ordinary, replaced = asyncio.run(both())
    assert ordinary == "Good morning."
    assert replaced
    assert "I have entered" not in replaced


@pytest.mark.requirement("ENGINE-hooks")
def test_an_interceptor_that_raises_makes_the_host_deny(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("a bug of the adapter")

    interceptor = governing(kit)
    monkeypatch.setattr(interceptor, "_governed", broken)
    ok, text = asyncio.run(_Host(interceptor).call("enter", {"name": "rent", "amount": 3}))
    assert (ok, text) == (False, "host_error:interceptor_failed")
    assert shop.acted("enter") == 0


@pytest.mark.requirement("ENGINE-hooks")
def test_a_governed_tool_without_a_schema_is_denied(kit: Kit) -> None:
    ok, text = asyncio.run(_Host(ReadbackInterceptor(kit, {})).call("enter", {"name": "rent", "amount": 3}))
    assert (ok, text) == (False, "host_error:interceptor_failed")
    assert shop.acted("enter") == 0


@pytest.mark.requirement("ENGINE-hooks")
def test_tools_without_a_contract_are_named_in_a_warning(kit: Kit) -> None:
    context = AgentContextBuilder(agent_id="a", framework="t", session_id="s").agent_startup(
        tools_registered=["enter", "peek"]
    )
    with pytest.warns(UngovernedToolsWarning, match="peek"):
        asyncio.run(governing(kit).intercept(context))


class _WithReadback(ReferenceHarness):
    """The reference host with Readback registered behind the vector's own interceptors."""

    kit: Kit

    def setup(self, scenario: Any, interceptors: list[Any], *arguments: Any, **named: Any) -> None:
        super().setup(scenario, [*interceptors, governing(self.kit)], *arguments, **named)


@pytest.mark.requirement("ENGINE-hooks")
@pytest.mark.filterwarnings("ignore::readback.kit.UngovernedToolsWarning")
@pytest.mark.parametrize("name", list(VECTORS))
def test_a_published_vector_passes_with_readback_behind_its_interceptors(name: str, kit: Kit) -> None:
    directly = asyncio.run(run_vector(ReferenceHarness(), copy.deepcopy(VECTORS[name])))
    harness = type("Harness", (_WithReadback,), {"kit": kit})()
    found = asyncio.run(run_vector(harness, copy.deepcopy(VECTORS[name])))
    if name in WITHOUT:
        assert (directly.status, found.status) == ("pass", "fail"), WITHOUT[name]
        return
    assert (found.status, found.failures) == (directly.status, directly.failures)
