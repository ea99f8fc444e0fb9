"""An environment of its own for each program, made when it is first asked for, of pinned and hashed versions.

They lie in `.venv/bench`, which `make clean` removes. A lock file that changed makes its environment anew.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LOCKS: Final = ROOT / "bench" / "environments"
MADE: Final = ROOT / ".venv" / "bench"
OWN: Final = ("readback-ai", "apsw", "psycopg")


def python_of(name: str, progress: Callable[[str], None]) -> Path:
    """The interpreter of this environment; our own where it has no name."""
    if not name:
        return Path(sys.executable)
    lock, folder = LOCKS / f"{name}.lock", MADE / name
    python, stamp = folder / "bin" / "python", folder / "lock.sha256"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        progress(f"making the environment of {name}")
        shutil.rmtree(folder, ignore_errors=True)
        _do(sys.executable, "-m", "venv", str(folder))
        _do(str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r", str(lock))
        stamp.write_text(wanted)
    return python


def versions_of(name: str) -> dict[str, str]:
    """What is pinned by name for it; for ours, what is installed."""
    if not name:
        return {package: version(package) for package in OWN}
    lines = (LOCKS / f"{name}.in").read_text().splitlines()
    pinned = (line.partition("==") for line in lines if line)
    return {package.partition("[")[0]: number for package, _, number in pinned}


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
