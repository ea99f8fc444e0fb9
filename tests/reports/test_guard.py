"""The guard between an agent and its user, and `readback report` at the shell."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from readback.cli.cli import main
from readback.domain.grounding.report import REPORT_MAX_BYTES
from readback.errors import StoreError
from readback.ports.storage.store import ActionFilter, StoredProjection
from readback.testing.store_memory import MemoryStore
from tests.cli.conftest import Desk as Shell
from tests.cli.conftest import desk as shell
from tests.sdk.given import Desk, opened, opened_async, ship_of

__all__ = ["shell"]
CANNOT_TELL = "The final state is unknown and requires review."


class _Broken(MemoryStore):
    """A store that fails from some moment on."""

    broken = False
    pages_too = False

    def projection(self, action_id: str) -> StoredProjection | None:
        if self.broken:
            raise StoreError("The disk is gone.")
        return super().projection(action_id)

    def page(self, query: ActionFilter) -> list[StoredProjection]:
        if self.broken and self.pages_too:
            raise StoreError("The disk is gone.")
        return super().page(query)


@pytest.mark.requirement("REPORT-guard")
def test_only_a_report_that_passed_reaches_the_user() -> None:
    desk = Desk()
    with opened(run="r-1") as rb:
        good = rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="one")
        desk.instead = lambda _ctx: (200, {"status": "ok"})  # it lies
        bad = rb.run(ship_of(desk)(order_id="o-2", carrier="dhl"), operation="two")
        assert not bad.verified
        honest = f"# Report\n\n## Done\n- o-1 is shipped {good.cite('/status')}\n\n## Open\n- o-2\n"
        assert rb.guard_report(honest) == honest
        for told in (
            "Both orders are shipped.",
            f"Both orders are shipped.\n\n{honest}",
            honest.replace("- o-2", "- [x] o-2"),
            f"{honest}\n## Done\n- o-2 {good.cite().replace(good.id, bad.id)}",
        ):
            said = rb.guard_report(told)
            assert said == rb.belief().message
            assert "1 verified" in said
            assert "Both orders" not in said
        lax = "I am at it."
        assert rb.guard_report(lax, every=False) == lax
        assert rb.guard_report("I shipped it.", "another").startswith("Run another: Actions: 0 in all")


@pytest.mark.requirement("REPORT-guard")
def test_where_the_ledger_cannot_be_read_nothing_is_passed_on() -> None:
    store = _Broken()
    with opened(store, run="r-1") as rb:
        good = rb.run(ship_of(Desk())(order_id="o-1", carrier="dhl"), operation="one")
        text = f"- [x] {good.cite()}"
        assert rb.guard_report(text) == text
        store.broken = True
        assert rb.guard_report(text) == CANNOT_TELL
        store.pages_too = True
        assert rb.guard_report("It is shipped.") == CANNOT_TELL
        store.broken = False

    async def same() -> None:
        other = _Broken()
        async with opened_async(other, run="r-1") as rb:
            other.broken = other.pages_too = True
            assert await rb.guard_report("It is shipped.") == CANNOT_TELL
            other.broken = False

    asyncio.run(same())


@pytest.mark.requirement("REPORT-resolves", "REPORT-written", "REPORT-guard", "L01")
def test_at_the_shell_a_report_is_written_checked_and_guarded(shell: Shell, tmp_path: Path) -> None:
    told = shell.ship("fine", "--run", "r-1", code=0)
    cited = shell("report", "cite", told["id"], "/status", code=0).out.strip()
    assert shell("report", "cite", told["id"], "/status", "--json", code=0).json == {"citation": cited}
    assert shell("report", "cite", told["id"], "/nowhere", code=2).out == ""
    file = tmp_path / "report.md"
    file.write_bytes(f"## Done\r\n- o-17 is shipped {cited}\r\n".encode())
    answer = shell("report", "check", str(file), "--run", "r-1", "--json", code=0).json
    assert (answer["passed"], answer["citations"], answer["declared"], answer["faults"]) == (True, 1, 1, [])
    assert "passed: 1 citations of 1 actions, 1 declared as done" in shell("report", "check", str(file), code=0).out
    assert shell("report", "guard", str(file), "--run", "r-1", code=0).out == file.read_text()
    assert shell("report", "check", str(file), "--run", "r-2", code=1).out.count("other_run") == 1
    other = shell("report", "check", str(file), "--tenant", "other", "--json", code=1).json
    assert [each["code"] for each in other["faults"]] == ["unknown"]
    file.write_text("## Done\n- all\n\x1b[31m- more")
    failed = shell("report", "check", str(file), code=1)
    assert "uncited  line 2" in failed.out
    assert "\x1b[31m- more" not in failed.out
    said = shell("report", "guard", str(file), "--run", "r-1", code=1)
    assert said.out.startswith("Run r-1: Actions: 1 in all, 1 verified")
    assert shell("report", "guard", str(file), "--run", "r-1", "--json", code=1).json["passed"] is False
    waiting = shell.ship("waiting", "--wait", "0", how="lie", carrier="ups", code=3)
    file.write_text(cited.replace(told["id"], waiting["id"]))
    assert "pending" in shell("report", "check", str(file), code=3).out
    assert shell("report", "cite", waiting["id"], code=2).out == ""


@pytest.mark.requirement("REPORT-hostile", "L01")
def test_a_report_that_cannot_be_read_ends_with_two(shell: Shell, tmp_path: Path) -> None:
    shell.ship("fine", code=0)
    for name, data in {"latin": b"\xff", "large": b"x" * (REPORT_MAX_BYTES + 1)}.items():
        (tmp_path / name).write_bytes(data)
        assert shell("report", "check", str(tmp_path / name), code=2).out == ""
    shell("report", "check", str(tmp_path / "nothing"), code=2)
    shell("report", "check", str(tmp_path), code=2)
    piped = CliRunner().invoke(main, ["report", "check", "-"], input="- [x] all")
    assert (piped.exit_code, "uncited" in piped.stdout) == (1, True)
