"""Public: simulated worlds with a known truth, fakes, conformance suites, drills, servers. Imports no adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from readback.testing.driver_drill import KeyDrill, drill_key
    from readback.testing.driver_sandbox import SandboxWorld
    from readback.testing.faults.fault import Fault
    from readback.testing.faults.judge import Injection, inject, inject_all
    from readback.testing.faults.simulated import SimulatedWorld
    from readback.testing.postgres_server import PostgresPair
    from readback.testing.s3_server import S3Server

__all__ = [
    "Fault",
    "Injection",
    "KeyDrill",
    "PostgresPair",
    "S3Server",
    "SandboxWorld",
    "SimulatedWorld",
    "drill_key",
    "inject",
    "inject_all",
]

_HOMES: Final = {
    "KeyDrill": "driver_drill",
    "drill_key": "driver_drill",
    "Fault": "faults.fault",
    "Injection": "faults.judge",
    "PostgresPair": "postgres_server",
    "S3Server": "s3_server",
    "inject": "faults.judge",
    "inject_all": "faults.judge",
    "SandboxWorld": "driver_sandbox",
    "SimulatedWorld": "faults.simulated",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so the other modules need not load contracts."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"readback.testing.{_HOMES[name]}"), name)
