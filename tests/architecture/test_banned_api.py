"""Time, chance and sleep come from the runtime port; the linter says so where it matters, and only there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

RUFF = Path(sys.executable).with_name("ruff")
CLOCKS = [
    "import datetime\nprint(datetime.datetime.now(datetime.UTC))\n",
    "from datetime import datetime, UTC\nx = datetime.now(UTC)\n",
    "import time\nx = time.time()\n",
    "import time\nx = time.monotonic()\n",
    "import time\ntime.sleep(1)\n",
    "import asyncio\nx = asyncio.sleep(1)\n",
    "import uuid\nx = uuid.uuid4()\n",
    "from random import random\nx = random()\n",
]


def _complaints(text: str, pretend: str) -> str:
    return subprocess.run(
        [RUFF, "check", "--select", "TID251", "--no-cache", "--stdin-filename", pretend, "-"],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize("text", CLOCKS)
@pytest.mark.parametrize(
    "place",
    ["src/readback/domain/x.py", "src/readback/engine/x.py", "src/readback/client/x.py", "tests/unit/x.py"],
)
def test_a_clock_is_refused(text: str, place: str) -> None:
    assert "TID251" in _complaints(text, place)


def test_the_real_runtime_may_tell_the_time() -> None:
    assert "TID251" not in _complaints("".join(CLOCKS), "src/readback/adapters/runtime_system.py")
