"""agentdojo's suites, loaded once; skipped aloud where it is not installed (and `test_installed` fails there in CI)."""

from __future__ import annotations

import pytest

from tests.agentdojo import loader


@pytest.fixture(scope="session")
def suites() -> dict[str, loader.Suite]:
    """Both suites by name."""
    if not loader.installed():
        pytest.skip("agentdojo is not installed: `make setup` installs it (requirements-agentdojo.lock)")
    return loader.suites()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The counts of every fault, where this folder's tests were asked for by name."""
    rows = [
        dict(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", [])
        if name == "agentdojo" and getattr(report, "when", "") == "call"
    ]
    if not rows:
        return
    names = [name for name in rows[0] if name != "fault"]
    terminalreporter.section("agentdojo: what was told, by fault")
    terminalreporter.write_line(" " * 36 + "  ".join(names))
    for row in rows:
        cells = "  ".join(f"{row[name]:>{len(name)}}" for name in names)
        terminalreporter.write_line(f"{row['fault']:36}{cells}")
