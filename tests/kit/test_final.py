"""A final answer, held to the ledger: passed on, corrected, or replaced. And the belief for the model."""

from __future__ import annotations

import asyncio

import pytest

from readback.client.operations.grounding import CANNOT_TELL
from readback.kit import Kit
from tests.kit.shop import Shop

LIE = "All done. I have shipped order o-2."


def shipped(kit: Kit, order: str, carrier: str = "ups", run: str | None = None) -> str:
    return kit.tool("ship_order").run({"order_id": order, "carrier": carrier}, run=run).action


@pytest.mark.requirement("KIT-final")
def test_an_answer_passes_where_nothing_is_open(kit: Kit) -> None:
    assert kit.final("Good morning.").ok
    shipped(kit, "o-1")
    found = kit.final("I have shipped o-1.")
    assert (found.ok, found.text, found.correction) == (True, "I have shipped o-1.", "")


@pytest.mark.requirement("KIT-final")
def test_a_lying_answer_is_corrected_and_at_last_replaced(kit: Kit) -> None:
    shipped(kit, "o-1")
    shipped(kit, "o-2", "dhl")
    found = asyncio.run(kit.afinal(LIE))
    assert not found.ok
    assert "shipped order" not in found.text
    assert "ship_order on order/o-2: The final state is unknown and requires review." in found.text
    assert "not passed on" in found.correction
    assert "o-2" in found.correction


@pytest.mark.requirement("KIT-final")
def test_an_honest_answer_passes_in_readbacks_words_with_citations_or_under_open(kit: Kit) -> None:
    done = kit.client.get(shipped(kit, "o-1"))
    failed = kit.client.get(shipped(kit, "o-2", "dhl"))
    assert kit.final(kit.client.belief("chat-1").message).ok
    assert kit.final(f"- {failed.message}").ok
    assert kit.final(f"## Done\n\n- o-1 is shipped {done.cite()}\n\n## Open\n\n- o-2").ok
    assert not kit.final(f"{failed.message} But order o-2 is on its way.").ok
    assert not kit.final(f"I have shipped both. {done.cite()}\n\nThe second one too.").ok


@pytest.mark.requirement("KIT-final")
def test_a_false_citation_never_passes(kit: Kit) -> None:
    done = kit.client.get(shipped(kit, "o-1"))
    forged = done.cite()[:-2] + ("0]" if done.cite()[-2] != "0" else "1]")
    found = kit.final(f"o-1 is shipped {forged}")
    assert not found.ok
    assert "line 1" in found.correction


@pytest.mark.requirement("KIT-final")
def test_an_ended_failure_of_an_earlier_turn_need_not_count(kit: Kit) -> None:
    kit.tool("pay").run({"to": "bob", "amount": 500}, operation="p-1")
    rejected = kit.reject(kit.tool("pay").run({"to": "bob", "amount": 500}, operation="p-1").action)
    assert not kit.final("The weather is fine.").ok
    assert kit.final("The weather is fine.", about=[]).ok
    assert not kit.final("I have paid.", about=[rejected.action]).ok
    shipped(kit, "o-2", "dhl")
    assert not kit.final("The weather is fine.", about=[]).ok, "an open action always counts"


@pytest.mark.requirement("KIT-final")
def test_an_answer_can_be_appended_to_or_let_alone(shop: Shop) -> None:
    with Kit.open(**shop.opened(final="append")) as kit:
        shipped(kit, "o-2", "dhl")
        found = kit.final(LIE)
        assert not found.ok
        assert found.text.startswith(f"{LIE}\n\nRun chat-1:")
        assert kit.final(f"{LIE} The final state is unknown and requires review.").ok
        assert "shipped" not in kit.final("Shipped [readback:x:y:z]").text
    with Kit.open(**shop.opened(final="off")) as kit:
        assert kit.final(LIE).ok


@pytest.mark.requirement("KIT-final")
def test_each_item_must_cite_where_citing_is_asked_for(shop: Shop) -> None:
    with Kit.open(**shop.opened(final="cite")) as kit:
        assert kit.final("Good morning.").ok
        done = kit.client.get(shipped(kit, "o-1"))
        assert not kit.final("I have shipped o-1.").ok
        assert kit.final(f"I have shipped o-1 {done.cite()}.").ok


@pytest.mark.requirement("KIT-final")
def test_an_answer_that_cannot_be_checked_is_replaced(shop: Shop) -> None:
    kit = Kit.open(**shop.opened())
    kit.close()
    found = kit.final(LIE)
    assert (found.ok, found.text) == (False, CANNOT_TELL)
    assert CANNOT_TELL in found.correction
    for wrong in (None, 7, b"text"):
        assert not kit.final(wrong).ok  # type: ignore[arg-type]


@pytest.mark.requirement("KIT-belief")
def test_a_belief_holds_the_run_and_citations(kit: Kit) -> None:
    assert kit.belief() == ""
    done = kit.client.get(shipped(kit, "o-1"))
    shipped(kit, "o-2", "dhl")
    shipped(kit, "o-3", run="chat-2")
    text = asyncio.run(kit.abelief())
    assert done.cite() in text
    assert "order/o-2" in text
    assert "order/o-3" not in text
    with kit.session("chat-2"):
        assert "order/o-3" in kit.belief()
        assert kit.final(LIE).ok, "nothing of this run is open"
    assert len(kit.belief(max_bytes=1_500).encode()) <= 1_500


@pytest.mark.requirement("KIT-belief")
def test_a_belief_that_cannot_be_read_says_so(shop: Shop) -> None:
    kit = Kit.open(**shop.opened())
    shipped(kit, "o-1")
    assert kit.belief(max_bytes=1).startswith("[task state]")
    kit.close()
    found = kit.belief()
    assert found.startswith("[task state]")
    assert CANNOT_TELL in found
