"""The installation's surfaces for the release gates: each runs the probe's action as a caller of the surface would."""

from __future__ import annotations

from functools import cache

from readback.assurance.surfaces import Surface
from readback.cli.gates.surfaces.frameworks import FRAMEWORKS, Framework
from readback.cli.gates.surfaces.http import HttpServer
from readback.cli.gates.surfaces.processes import CommandLine, Hooks, McpServer
from readback.cli.gates.surfaces.programs import AsyncSdk, KitTools, SyncSdk


@cache
def installed_surfaces() -> tuple[Surface, ...]:
    """Return every surface of this release, installed or not."""
    frameworks = tuple(Framework(adapter, *each) for adapter, each in sorted(FRAMEWORKS.items()))
    return (SyncSdk(), AsyncSdk(), CommandLine(), KitTools(), McpServer(), HttpServer(), Hooks(), *frameworks)
