"""The same pages over a ledger in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console.bed import running


@pytest.mark.slow
@pytest.mark.requirement("CONSOLE-attention", "CONSOLE-list", "CONSOLE-action")
def test_every_page_reads_a_ledger_in_postgresql(tmp_path: Path, ledger_url: str) -> None:
    with running(tmp_path, ledger=ledger_url) as bed:
        browser, ids = bed.browser(), bed.scenes.ids
        page = browser.get("/")
        for name in ("frozen", "review", "approval", "unknown", "overdue"):
            assert ids[name] in page, name
        for name in set(ids) - {"foreign"}:
            assert ids[name] in browser.get(f"/actions/{ids[name]}")
        for path in ("/actions?state=validated", "/actions?review=1", "/actions?run=run-2", "/health", "/subscribers"):
            browser.get(path)
        assert ids["approval"] in browser.get("/actions?state=validated&hold=approval")
        for path in (
            "/find?id=%00",
            "/actions/%00",
            "/actions/%00/proof",
            "/actions/%ff",
            "/subscribers?subscriber=%00",
        ):
            assert browser.client.get(path).status_code in (200, 404, 422), path
        for name in ("contract", "run", "saga", "target", "before", "hold"):
            browser.get(f"/actions?{name}=%00")
        browser.send("/lift", page, status=404, subject="\0", reason="x")
        browser.send("/lift", page, subject="resource:item/o-1", reason="In order.")
        assert "Lift the freeze" not in browser.get("/")
        assert browser.client.get(f"/actions/{ids['foreign']}").status_code == 404
