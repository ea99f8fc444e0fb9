"""A real server as a process of Readback's own environment, and Chromium in front of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

ROOT = Path(__file__).parents[2]
PATIENCE_MS = 15_000


@dataclass
class Site:
    """A served ledger. `faults`: what a browser's console reported."""

    url: str
    token: str
    ids: dict[str, str]
    browser: Browser
    faults: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)

    def context(self, **options: Any) -> BrowserContext:
        """A signed-in browser."""
        made = self.browser.new_context(**options)
        made.set_default_timeout(PATIENCE_MS)
        page = self.page(made)
        page.goto(f"{self.url}/sign-in")
        page.get_by_label("Token").fill(self.token)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", level=1).wait_for()
        page.close()
        return made

    def page(self, context: BrowserContext) -> Page:
        """A page whose errors and requests elsewhere are remembered."""
        page = context.new_page()
        page.on("console", lambda told: self.faults.append(told.text) if told.type == "error" else None)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", lambda sent: None if sent.url.startswith(self.url) else self.strays.append(sent.url))
        return page


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    place = shutil.which("chromium")
    assert place, "chromium is missing: run scripts/browser.sh"
    with sync_playwright() as playwright:
        # As root, and in a container, Chromium has no sandbox of its own.
        browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def site(chromium: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A ledger and a server of this test alone. No page may report a fault or call another address.

    The parameter "worker" starts the server with a worker.
    """
    python = ROOT / ".venv" / "bin" / "python"
    process = subprocess.Popen(
        [python, "-m", "tests.console.bed", tmp_path, *getattr(request, "param", ())],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        found = Site(told["url"], told["token"], told["ids"], chromium)
        yield found
        for context in chromium.contexts:
            context.close()
        assert found.faults == []
        assert found.strays == []
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(30)
