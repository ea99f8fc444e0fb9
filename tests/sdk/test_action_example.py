"""The printed example runs as it is printed, against a real ledger: once honestly, once with a shop that lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from readback import Context, Readback, State, Verdict, action
from tests.typing import printed_example


@pytest.mark.requirement("L32")
def test_the_printed_example_verifies_what_was_done_and_not_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/readback.db"
    honest = printed_example.ship(url, "o-17")
    assert honest.verified
    assert honest.state is State.RECONCILED_SUCCESS
    assert honest.verdict is Verdict.VERIFIED

    monkeypatch.setattr(printed_example.shop, "lies", True)
    lied = printed_example.ship(url, "o-18")
    assert not lied.verified
    assert lied.verdict is Verdict.UNDETERMINED
    assert lied.state is not State.RECONCILED_SUCCESS


@pytest.mark.requirement("CLASS-RULE-no-path")
def test_what_nothing_can_verify_is_never_told_as_verified(tmp_path: Path) -> None:
    @action(
        kind="set",
        side_effect="low_risk_internal",
        target="sign/{requested.text}",
        ensure={"shows": "authoritative.text == requested.text"},
        unverifiable="The sign has no way to be read.",
    )
    def show(ctx: Context, text: str) -> object:
        return {"ok": True, "verified": True}

    with Readback.open(f"sqlite:///{tmp_path}/readback.db", tenant="acme", principal="agent:ops") as rb:
        outcome = rb.run(show("open"), operation="show", wait=0)
    assert not outcome.verified
    assert outcome.verdict is not Verdict.VERIFIED
    assert outcome.state is not State.RECONCILED_SUCCESS
