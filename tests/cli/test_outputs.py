"""An output file never replaces the ledger, another database, or a file that the command reads as Readback's own."""

from __future__ import annotations

import pytest

from readback import Readback
from tests.cli.conftest import Desk
from tests.shadow.given import Lamp, switch_of


@pytest.mark.parametrize(
    "words",
    [
        ("shadow", "report", "--format", "html"),
        ("shadow", "report", "--format", "json"),
        ("ledger", "export"),
        ("report", "html", "last"),
    ],
)
@pytest.mark.parametrize("out", ["readback.db", "link.db", "other.db", "readback.db-wal"])
def test_an_output_is_not_written_over_a_ledger(words: tuple[str, ...], out: str, desk: Desk) -> None:
    for name in ("readback.db", "other.db"):
        with Readback.open(f"sqlite:///{desk.folder}/{name}") as rb:
            rb.run(switch_of(Lamp())(works=True))
    (desk.folder / "link.db").symlink_to("readback.db")
    before = {each.name: each.read_bytes() for each in desk.folder.glob("*.db")}
    found = desk(*words, "--out", out, code=2)
    assert "is not overwritten" in found.err
    assert "Next: Name another file." in found.err
    assert {each.name: each.read_bytes() for each in desk.folder.glob("*.db")} == before


def test_an_earlier_output_is_replaced(desk: Desk) -> None:
    with Readback.open(f"sqlite:///{desk.folder}/readback.db") as rb:
        rb.run(switch_of(Lamp())(works=True))
    for _ in range(2):
        desk("shadow", "report", "--format", "html", "--out", "page.html", code=3)  # no watched call is on record
        desk("ledger", "export", "--out", "records.jsonl", code=0)
        desk("report", "html", "last", "--out", "action.html", code=0)
