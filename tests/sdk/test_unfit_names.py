"""What no ledger holds is looked for in vain or refused with a typed error, whichever store the ledger is in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from readback import Readback
from readback.errors import UsageError
from readback.stores.sqlite import open_sqlite_store
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, ship_of
from tests.sdk.test_wrong_kinds import NAMING as BY_ID

HALF = "\ud800"


@pytest.fixture(params=["memory", "sqlite"])
def rb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Readback]:
    store = MemoryStore() if request.param == "memory" else open_sqlite_store(tmp_path / "ledger.db")
    with opened(store) as client:
        client.run(ship_of(Desk())(order_id="o-1", carrier="dhl"), operation="one")
        yield client


NAMING: dict[str, Callable[[Any, Any], object]] = {
    **{name: ask for name, ask in BY_ID.items() if name not in ("resume", "list")},
    "erase": lambda rb, it: rb.erase(it, who="human:eve", reason="Asked for."),
    "belief": lambda rb, it: rb.belief(it),
    "report": lambda rb, it: rb.check_report("Done.", it),
    "contract": lambda rb, it: rb.list(contract=it),
    "run": lambda rb, it: rb.list(run=it),
    "state": lambda rb, it: rb.list(state=it),
}


@pytest.mark.parametrize("name", NAMING)
def test_half_a_character_and_what_is_no_text_are_refused_as_names(rb: Readback, name: str) -> None:
    half, text = "half a character", "must be text"
    for wrong, said in ((HALF, half), (f"a{HALF}", half), (b"x", text), (5, text)):
        with pytest.raises(UsageError, match=said) as refused:
            NAMING[name](rb, wrong)
        assert refused.value.remedy


def test_as_many_as_anybody_asks_for_are_as_many_as_there_are(rb: Readback) -> None:
    assert len(rb.list(limit=10**30)) == len(rb.list(limit=2**63)) == 1
    assert rb.resume(10**30) == []
    assert rb.list(limit=-(10**30)) == []


def test_a_number_of_claims_is_a_whole_number(rb: Readback) -> None:
    wrong: Any
    for wrong in (1.5, True, "5", None):
        with pytest.raises(UsageError, match="is not a whole number"):
            rb.claims(limit=wrong)


def test_what_is_left_open_is_any(rb: Readback) -> None:
    nothing: Any = None
    [only] = rb.list()
    assert rb.list(state=nothing, contract=nothing, run=nothing) == [only]
