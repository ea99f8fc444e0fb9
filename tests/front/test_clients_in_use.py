"""The conveniences of an open client: value, exception, use, one call's run, and an operation found again."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from readback import AsyncReadback, Context, NotVerifiedError, Readback, State, action, use, verified
from readback.errors import ErasedEvidenceError, UsageError
from tests.front.given import Shop, opened, opened_async

pytestmark = pytest.mark.filterwarnings("ignore::readback.client.proposal.UnusedProposalWarning")


def shipping(shop: Shop, **more: Any) -> Any:
    return verified(
        shop.ship, **{"read": shop.shown, "strong": True, "id": "order_id", "expect": {"status": "shipped"}, **more}
    )


def test_a_ledger_in_memory_needs_no_names() -> None:
    with Readback.open("memory:") as rb:
        outcome = rb.run(shipping(Shop())("o-17"))
    assert outcome.verified
    assert outcome.tenant == "default"


def test_the_value_is_the_authoritative_state_of_a_verified_outcome_alone() -> None:
    shop = Shop()
    with opened() as rb:
        done = rb.run(shipping(shop)("o-17"))
        assert done.value == {"order_id": "o-17", "status": "shipped"}
        shop.lies = True
        shop.orders["o-17"] = "open"
        lied = rb.run(shipping(shop, within="1s")("o-17"))
        with pytest.raises(NotVerifiedError) as caught:
            _ = lied.value
        assert caught.value.outcome is lied
        rb.erase(done.id, who="operator", reason="asked for")
        with pytest.raises(ErasedEvidenceError):
            _ = rb.get(done.id).value


def test_what_the_tool_raised_is_on_the_outcome_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop()

    def ship(order_id: str) -> None:
        shop.ship(order_id)
        raise LookupError("the printer is gone")

    with caplog.at_level(logging.WARNING, logger="readback"), opened() as rb:
        outcome = rb.run(shipping(shop, read=shop.shown)("o-17"))
        assert outcome.exception is None
        raised = rb.run(verified(ship, read=shop.shown, strong=True, expect={"status": "shipped"}, within="1s")("o-17"))
        assert rb.get(raised.id).exception is None
    assert isinstance(raised.exception, LookupError)
    assert raised.exception.__traceback__ is not None
    assert "exception" not in raised.as_json()
    assert any("LookupError" in each.getMessage() and each.exc_info for each in caplog.records)


def test_half_a_character_in_an_exception_breaks_no_stream_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def broken(order_id: str) -> object:
        raise RuntimeError("half of a pair: \ud800")

    with caplog.at_level(logging.WARNING, logger="readback"), opened() as rb:
        rb.run(shipping(Shop(), read=broken, within="1s")("o-17"), wait=5)
    assert "half of a pair: \\ud800" in caplog.text.encode("utf-8").decode("utf-8")


def test_what_a_reader_raises_is_logged_and_is_not_the_tools_exception(caplog: pytest.LogCaptureFixture) -> None:
    def broken(order_id: str) -> object:
        raise RuntimeError("no such table")

    with caplog.at_level(logging.WARNING, logger="readback"), opened() as rb:
        outcome = rb.run(shipping(Shop(), read=broken, within="1s")("o-17"), wait=5)
    assert not outcome.verified
    assert outcome.exception is None
    assert any("reader broken raised RuntimeError" in each.getMessage() for each in caplog.records)


def test_an_async_tool_raises_into_the_outcome_under_both_clients() -> None:
    async def ship(order_id: str) -> None:
        raise LookupError("the printer is gone")

    made = verified(ship, read=lambda order_id: {"status": "open"}, strong=True, expect={"status": "x"}, within="1s")

    async def under_async() -> Any:
        async with opened_async() as rb:
            return await rb.run(made("o-17"), wait=0)

    with opened() as rb:
        assert isinstance(rb.run(made("o-17"), wait=0).exception, LookupError)
    assert isinstance(asyncio.run(under_async()).exception, LookupError)


def test_one_client_serves_many_conversations() -> None:
    with opened(run="morning") as rb:
        own = rb.run(shipping(Shop())("o-17"))
        other = rb.run(shipping(Shop())("o-17"), run="chat-7")
        assert [each.id for each in rb.list(run="chat-7")] == [other.id]
        assert [each.id for each in rb.list(run="morning")] == [own.id]
        for wrong in (7, "a\nb", "x" * 5_000):
            bad: Any = wrong
            with pytest.raises(UsageError):
                rb.run(shipping(Shop())("o-17"), run=bad)


def test_an_operation_is_found_again_by_its_name() -> None:
    ship = shipping(Shop())
    other = shipping(Shop(), name="other")

    async def under_async() -> None:
        async with opened_async() as rb:
            done = await rb.run(ship("o-17"), operation="ship it")
            found = await rb.find_operation("ship it")
            assert found is not None
            assert found.id == done.id

    with opened() as rb:
        assert rb.find_operation("ship it", ship) is None
        done = rb.run(ship("o-17"), operation="ship it")
        for named in (ship, "ship", None):
            found = rb.find_operation("ship it", named)
            assert found is not None
            assert found.id == done.id
        assert rb.find_operation("ship it", "nothing") is None
        rb.run(other("o-17"), operation="ship it")
        with pytest.raises(UsageError, match="other, ship"):
            rb.find_operation("ship it")
        for wrong in (7, "", None):
            bad: Any = wrong
            with pytest.raises(UsageError):
                rb.find_operation(bad)
        worse: Any = 7
        with pytest.raises(UsageError, match="action must be an action or a name"):
            rb.find_operation("ship it", worse)
    asyncio.run(under_async())


def test_a_proposal_runs_in_the_client_in_use() -> None:
    ship = shipping(Shop())
    with opened() as rb, use(rb):
        assert ship("o-17").run(operation="ship it", run="chat-7").verified
        with opened() as inner, use(inner):
            assert inner.find_operation("ship it", ship) is None
        assert rb.find_operation("ship it", ship) is not None

    async def under_async() -> None:
        async with opened_async() as rb:
            with use(rb):
                assert (await shipping(Shop())("o-17").run_async()).verified
                proposal = shipping(Shop())("o-17")
                with pytest.raises(UsageError, match="run_async"):
                    proposal.run()
                assert (await proposal.run_async()).verified

    asyncio.run(under_async())
    proposal = shipping(Shop())("o-17")
    with pytest.raises(UsageError, match="No client is in use"):
        proposal.run()
    with opened() as rb, use(rb):
        with pytest.raises(UsageError, match=r"proposal\.run\(\)"):
            asyncio.run(proposal.run_async())
        assert proposal.run().verified


def test_only_an_open_client_is_used() -> None:
    closed = opened()
    closed.close()
    with pytest.raises(UsageError, match="closed"):
        use(closed)
    for wrong in (None, "memory:", Readback, object()):
        bad: Any = wrong
        with pytest.raises(UsageError, match="open client"):
            use(bad)


def test_a_client_in_use_that_was_closed_runs_nothing() -> None:
    shop = Shop()
    with opened() as rb:
        block = use(rb)
    try:
        with pytest.raises(UsageError, match="closed"):
            shipping(shop)("o-17").run()
    finally:
        with block:
            pass
    assert shop.calls == 0


def test_the_subject_of_a_reversal_is_the_action_that_it_reverses() -> None:
    looked: list[tuple[str, str]] = []
    notes: dict[str, str] = {}

    @action(
        "note/{text}",
        kind="create",
        side_effect="low_risk_internal",
        ensure="authoritative != null",
        operation="{text}",
    )
    def write(text: str, ctx: Context) -> None:
        notes[ctx.stamp] = text

    @write.read(strong=True, attributes=True)
    def note(ctx: Context) -> object:
        looked.append((ctx.stamp, ctx.subject_stamp))
        return {"text": notes[ctx.subject_stamp]} if ctx.subject_stamp in notes else None

    @write.find
    def written(ctx: Context) -> list[object]:
        return [{"text": notes[ctx.subject_stamp]}] if ctx.subject_stamp in notes else []

    @write.compensate(kind="delete", ensure={"gone": "authoritative == null"})
    def erase(text: str, ctx: Context) -> None:
        del notes[ctx.reverses]

    with opened() as rb:
        done = rb.run(write("hello"))
        assert done.verified
        reversed_ = rb.cancel(done.id)
        assert reversed_.state in (State.COMPENSATED, State.COMPENSATING, State.RECONCILED_SUCCESS)
    assert {subject for _, subject in looked} == {done.stamp}


def test_a_client_of_the_async_kind_has_the_same_conveniences() -> None:
    for name in ("run", "find_operation"):
        assert hasattr(Readback, name)
        assert hasattr(AsyncReadback, name)
