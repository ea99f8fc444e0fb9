"""Webhooks to a real receiver, honest and lying: the receipt under the delivery's id decides."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from readback import Attribution, Context, Discrepancy, Outcome, Verdict
from readback.errors import ContractFieldError, UsageError
from readback.recipes import HttpReceipts, SqlReceipts, WebhookAction, delivery_body, verified_webhook
from readback.systems import HttpExecutor, HttpSource, SqlSource
from tests.recipes.api import Service, serving
from tests.recipes.conftest import Desk

Fresh = Callable[[str], str]
PAYLOAD = {"order": "o-17", "amount": 1.5, "lines": [{"sku": "tea", "n": 2}], "note": "für Ana"}


class Hook:
    """Whoever delivers, and whoever asks for receipts."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.sender = HttpExecutor(service.url, timeout_s=60, sole=True)
        self.store = HttpSource("receipts", service.url, canary="/health", timeout_s=60)

    def action(self, **choices: Any) -> WebhookAction:
        return verified_webhook(self.sender, HttpReceipts(self.store), path="/hook", **choices)

    def deliver(self, desk: Desk, operation: str, fault: str = "", **choices: Any) -> Outcome:
        self.service.fault = fault
        with desk.open() as rb:
            return rb.run(self.action(**choices)(event="order.paid", payload=PAYLOAD), operation=operation)

    def received(self, told: Outcome) -> int:
        return sum(each["delivery"] == told.stamp for each in self.service.deliveries)


@pytest.fixture(scope="module")
def served() -> Iterator[Hook]:
    with serving() as service:
        made = Hook(service)
        yield made
        made.sender.close()
        made.store.close()


@pytest.fixture
def hook(served: Hook) -> Iterator[Hook]:
    served.service.honest()
    yield served
    served.service.honest()


@pytest.mark.requirement("RECIPE-webhook", "CLAIM-stamp")
def test_a_delivery_that_was_taken_in_whole_is_verified(hook: Hook, desk: Desk, fresh: Fresh) -> None:
    told = hook.deliver(desk, fresh("honest"))
    assert told.verified
    assert told.attribution is Attribution.OURS
    assert hook.received(told) == 1
    assert hook.service.deliveries[-1]["header"] == told.stamp


@pytest.mark.requirement("RECIPE-webhook")
@pytest.mark.parametrize(
    ("fault", "discrepancy"),
    [
        ("lost", None),
        ("partial", Discrepancy.VALUE_MISMATCH),
        ("twice", Discrepancy.DUPLICATE_SIDE_EFFECT),
        ("elsewhere", Discrepancy.WRONG_TARGET_MODIFIED),
        ("refused", None),
    ],
)
def test_a_200_without_a_receipt_that_bears_it_out_is_not_believed(
    hook: Hook, desk: Desk, fresh: Fresh, fault: str, discrepancy: Discrepancy | None
) -> None:
    told = hook.deliver(desk, fresh(fault), fault)
    assert not told.verified
    if discrepancy is not None:
        assert told.discrepancy is discrepancy


@pytest.mark.requirement("RECIPE-webhook", "L07")
@pytest.mark.parametrize("fault", ["unanswered", "refused_landed", "late"])
def test_l07_a_delivery_that_landed_is_verified_whatever_the_answer_was(
    hook: Hook, desk: Desk, fresh: Fresh, fault: str
) -> None:
    told = hook.deliver(desk, fresh(fault), fault)
    assert told.verified
    assert hook.received(told) == 1


@pytest.mark.requirement("RECIPE-webhook")
@pytest.mark.parametrize("reading", ["down", "hidden", "stale"])
def test_a_store_that_shows_nothing_or_something_old_proves_nothing(
    hook: Hook, desk: Desk, fresh: Fresh, reading: str
) -> None:
    hook.service.reading = reading
    told = hook.deliver(desk, fresh(reading))
    assert not told.verified
    assert told.verdict is not Verdict.REFUTED
    hook.service.honest()
    desk.later(3_600, hook.action())
    assert hook.received(told) == 1


@pytest.mark.requirement("RECIPE-webhook")
def test_what_the_receiver_turned_away_is_refuted(hook: Hook, desk: Desk, fresh: Fresh) -> None:
    told = hook.deliver(desk, fresh("status"), done=("paid",), failed=("processed",))
    assert told.verdict is Verdict.REFUTED
    waiting = hook.deliver(desk, fresh("waits"), name="waits", done=("paid",), failed=())
    assert not waiting.verified
    with pytest.raises(ContractFieldError):
        hook.action(done=())


@pytest.mark.requirement("RECIPE-webhook")
def test_receipts_may_stand_in_a_table_of_ones_own(hook: Hook, desk: Desk, fresh: Fresh, tmp_path: Path) -> None:
    path = tmp_path / "receipts.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table receipt (delivery text, event text, sha256 text, status text)")
        db.commit()
    source = SqlSource("receipts", lambda: sqlite3.connect(path))
    query = "select delivery, event, sha256, status from receipt where delivery = ?"
    action = verified_webhook(hook.sender, SqlReceipts(source, query=query), path="/hook")

    def copied() -> None:
        with closing(sqlite3.connect(path)) as db:
            for each in hook.service.deliveries[-1:]:
                db.execute(
                    "insert into receipt values (?, ?, ?, ?)",
                    [each["delivery"], each["event"], each["sha256"], each["status"]],
                )
            db.commit()

    with desk.open() as rb:
        told = rb.run(action(event="order.paid", payload=PAYLOAD), operation=fresh("table"))
        assert not told.verified
        copied()
    desk.later(60, action)
    with desk.open() as rb:
        assert rb.get(told.id).verified


def test_a_body_is_sent_byte_for_byte_or_made_of_a_value_and_not_both(hook: Hook) -> None:
    ctx = Context("a", "acme", "agent:desk", "op", "x", "key", "rb-bytes")
    body = delivery_body("rb-bytes", "order.paid", {"n": 1})
    assert hook.sender.post(ctx, "/hook", content=body).status_code == 200
    assert hook.service.deliveries[-1]["sha256"] == sha256(body).hexdigest()
    with pytest.raises(UsageError):
        hook.sender.post(ctx, "/hook", content=body, json={})
