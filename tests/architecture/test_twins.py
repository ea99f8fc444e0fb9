"""No sync and async twins: what both drivers do is written once, and what only one way needs is small."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import Module, modules

PURE = tuple(f"readback.{room}." for room in ("audit", "canon", "domain", "engine", "log"))
"""What acts, verifies and reconciles: it is driven by both drivers, and knows of neither."""
DRIVERS = ("readback.drivers.driver_sync", "readback.drivers.driver_async", "readback.drivers.interpreter")
DRIVER_LINES_MAX = 800
STORES = (
    "readback.ports.storage.store",
    "readback.stores.sqlite",
    "readback.stores.postgres",
    "readback.testing.store_",
)
STORE_LINES_MAX = 800


def _named(*prefixes: str) -> list[Module]:
    found = [module for module in modules() if module.name.startswith(prefixes)]
    assert found, f"nothing is named {prefixes}: this rule looks for the wrong names"
    return found


def _async(module: Module) -> set[str]:
    return {node.name for node in module.nodes() if isinstance(node, ast.AsyncFunctionDef)}


@pytest.mark.slow
@pytest.mark.requirement("L31")
def test_what_both_drivers_do_is_written_once() -> None:
    assert [(module.name, _async(module)) for module in _named(*PURE) if _async(module)] == []
    written = [{f.name for f in module.functions() if not f.name.startswith("__")} for module in _named(*DRIVERS[:2])]
    shared = {f.name for module in _named(DRIVERS[2]) for f in module.functions()}
    assert shared
    assert [names & shared for names in written] == [set(), set()]


@pytest.mark.requirement("L31")
def test_a_store_has_one_way_of_being_called() -> None:
    assert [(module.name, _async(module)) for module in _named(*STORES) if _async(module)] == []


@pytest.mark.requirement("L31")
def test_stores_and_drivers_stay_small() -> None:
    assert [m.name for m in _named(*DRIVERS) if m.lines > DRIVER_LINES_MAX] == []
    assert [m.name for m in _named(*STORES) if m.lines > STORE_LINES_MAX] == []


@pytest.mark.slow
@pytest.mark.requirement("L31")
def test_the_sync_client_is_what_the_script_makes_of_the_async_client() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "sync_client.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "equal"), done.stdout + done.stderr
