"""No method of a kit raises for a failed call, and no text of an unverified call has words of success."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readback.domain.outcome.reporting import MODEL_STATUS, USER_STATUS
from readback.domain.state import ReportKey
from readback.errors import StoreError, UnknownOutcomeError
from readback.kit import Kit, ShownCall, ToolResult
from tests.kit.shop import ENTER_SCHEMA, Shop

SUCCESS = (USER_STATUS[ReportKey.COMPLETED], MODEL_STATUS[ReportKey.COMPLETED], "Successfully", "The tool's own answer")
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=10),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=10), st.one_of(st.none(), st.integers(), st.text(max_size=10)), max_size=4),
)
ARGUMENTS = st.one_of(
    JUNK,
    st.fixed_dictionaries(
        {"order_id": st.sampled_from(["o-1", "o-2", "nowhere", ""]), "carrier": st.sampled_from(["ups", "dhl", 3])}
    ),
    st.fixed_dictionaries({"name": st.sampled_from(["ann", "lost", "boom"]), "amount": st.integers(-2, 2)}),
)


def check(found: ToolResult) -> None:
    assert found.ok is (found.status == "verified")
    assert found.ok == (found.outcome is not None and found.outcome.standing)
    if not found.ok:
        assert not [word for word in SUCCESS if word in found.text], found.text
        assert (found.content, found.message != USER_STATUS[ReportKey.COMPLETED]) == (None, True)
        assert found.is_error
    assert found.mcp()["isError"] is found.is_error
    assert found.text.startswith(("[action outcome]", "[saga outcome]", "[question]"))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    shop = Shop(tmp_path_factory.mktemp("shop"))
    with Kit.open(**shop.opened(wait=0.3)) as kit:
        kit.govern("enter", ENTER_SCHEMA, shop.enter)
        yield kit


@pytest.mark.requirement("KIT-never-raises", "KIT-result")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["ship_order", "enter"]),
    arguments=ARGUMENTS,
    operation=st.one_of(st.none(), JUNK),
    run=st.one_of(st.none(), JUNK),
    wait=st.one_of(st.none(), st.just(0), JUNK),
)
def test_any_call_gives_a_result(wide: Kit, name: str, arguments: Any, operation: Any, run: Any, wait: Any) -> None:
    tool = wide.tool(name)
    wait = wait if not isinstance(wait, int | float) or isinstance(wait, bool) else min(wait, 0.3)
    check(tool.run(arguments, operation=operation, run=run, wait=wait))
    check(asyncio.run(tool.arun(arguments, operation=operation, run=run, wait=wait)))
    assert tool.waits_for(arguments, operation=operation, run=run) is False
    attempt = tool.begin(arguments, operation=operation, run=run)
    if not attempt.allowed and attempt.result.ok:
        return  # answered from the record
    assert not attempt.result.ok


@pytest.mark.requirement("KIT-never-raises")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(action=JUNK, answer=JUNK, error=JUNK)
def test_any_question_about_an_action_gives_a_result(wide: Kit, action: Any, answer: Any, error: Any) -> None:
    for found in (
        wide.resume(action),
        wide.approve(action, answer),
        wide.reject(action, answer),
        wide.decide(action, answer),
        asyncio.run(wide.adecide(action, answer)),
        wide.tool("enter").end(action, answer, error=error),
        wide.tool("readback_wait").run(answer),
        wide.tool("readback_status").run({"action": action}),
    ):
        check(found)


@pytest.mark.requirement("KIT-never-raises")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=JUNK, run=JUNK, about=JUNK, shown=JUNK)
def test_any_check_gives_an_answer(wide: Kit, text: Any, run: Any, about: Any, shown: Any) -> None:
    found = wide.final(text, run=run, about=about)
    assert found.ok or found.correction
    assert isinstance(wide.belief(run), str)
    name = wide.operation("enter", text, run=run, shown=shown, call_id=str(about), named="")
    assert name is None or isinstance(name, str)


@pytest.mark.requirement("KIT-never-raises")
@pytest.mark.parametrize(
    "error", [StoreError("gone"), UnknownOutcomeError("lost"), OSError("disk"), RuntimeError("bug")]
)
def test_a_broken_ledger_is_a_result(kit: Kit, shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(type(kit.client.shared.store), "append", broken)  # type: ignore[attr-defined]
    lost = isinstance(error, UnknownOutcomeError)
    found = [
        kit.tool("ship_order").run({"order_id": "o-1"}),
        asyncio.run(kit.tool("ship_order").arun({"order_id": "o-1"})),
        kit.tool("ship_order").begin({"order_id": "o-1"}).result,
    ]
    for each in found:
        check(each)
        assert each.status == ("not_verified" if lost else "refused")
    assert shop.acted("ship_order") == 0


@pytest.mark.requirement("KIT-never-raises")
def test_an_end_that_is_not_recorded_is_unknown_and_never_refused(
    kit: Kit, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = type(kit.client.shared.store)  # type: ignore[attr-defined]
    whole, calls = store.append, []

    def broken(self: Any, appends: Any) -> Any:
        calls.append(appends)
        if len(calls) > 1:
            raise StoreError("The disk is gone.")
        return whole(self, appends)

    monkeypatch.setattr(store, "append", broken)
    found = kit.tool("ship_order").run({"order_id": "o-1"})
    check(found)
    assert (found.status, shop.acted("ship_order")) == ("not_verified", 1)
    assert "Not executed" not in found.text


@pytest.mark.requirement("KIT-never-raises")
def test_cancellation_passes_and_leaves_the_attempt_open(kit: Kit, shop: Shop) -> None:
    entered = threading.Event()

    async def hang(given: dict[str, Any]) -> str:
        shop.enter(given)
        entered.set()
        await asyncio.Event().wait()
        return "never"

    async def main() -> None:
        task = asyncio.create_task(kit.tool("enter").arun({"name": "ann", "amount": 1}, operation="e-1", call=hang))
        await asyncio.to_thread(entered.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    found = kit.tool("enter").run({"name": "ann", "amount": 1}, operation="e-1")
    assert (found.status, shop.acted("enter")) == ("verified", 1)


@pytest.mark.requirement("KIT-never-raises")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_exit_of_the_program_passes(tmp_path: Path, kind: type[BaseException]) -> None:
    shop = Shop(tmp_path)

    def stop(given: dict[str, Any]) -> str:
        raise kind

    from readback import verified

    def end() -> None:
        raise kind

    ending = verified(end, read=lambda: {"on": True}, strong=True, expect={"on": True})
    with Kit.open(**shop.opened(actions=[ending])) as kit, pytest.raises(kind):
        kit.tool("end").run({})


def test_a_shown_call_of_another_form_names_nothing(kit: Kit) -> None:
    given = {"queue": "q", "title": "t"}
    for shown in (7, [7], [("open_ticket",)], [ShownCall("open_ticket", 7)]):  # type: ignore[arg-type]
        name = kit.operation("open_ticket", given, shown=shown)  # type: ignore[arg-type]
        assert name is None or name.endswith("/0")
