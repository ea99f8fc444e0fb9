"""The demo's systems come and go: nothing of them is left, however their parent ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from readback.demo.systems.launch import Systems, SystemsError
from tests.demo.waiting import eventually

PACKAGE = Path(__file__).resolve().parents[2] / "src/readback/demo/systems"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")  # an orphan may stay a zombie where nobody reaps it
    return not (state.exists() and ") Z " in state.read_text())


def test_nothing_is_left_when_the_demo_ends_or_breaks() -> None:
    systems = Systems()
    pids: dict[str, int] = {}
    root = Path()
    try:
        with systems:
            pids, root = systems.pids, systems.root
            assert set(pids) == {"orders", "mail", "trip"}
            assert (systems.work.is_dir(), [alive(pid) for pid in pids.values()]) == (True, [True, True, True])
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert ([alive(pid) for pid in pids.values()], root.exists()) == ([False, False, False], False)
    systems.close()


def test_nothing_is_left_when_whoever_started_them_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from readback.demo.systems.launch import Systems\n"
        f"with Systems(Path({str(tmp_path / 'world')!r})) as systems:\n"
        "    print(*systems.pids.values(), flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 3
        parent.kill()
    eventually(lambda: not any(alive(pid) for pid in pids))
    assert (tmp_path / "world/trip.db").exists()
    assert (tmp_path / "world/orders.db").exists()  # a folder that was given is kept


def test_a_system_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "orders.db").write_text("this is no database, whatever its name may say")
    systems = Systems(tmp_path)
    with pytest.raises(SystemsError, match=r"(?s)orders did not start.*not a database"), systems:
        pass
    assert systems.pids == {}


def test_the_systems_know_nothing_of_the_rest() -> None:
    imports = {
        line.split()[1]
        for path in PACKAGE.glob("[a-z]*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(from|import) readback", line)
    }
    assert imports
    assert all(name.startswith("readback.demo.systems") for name in imports), imports
