"""`readback demo` and `readback bench`. Each command imports its program when it runs."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from readback.cli import options
from readback.errors import SettingsError

DEMO_EXTRA: Final = ("aiosmtpd", "pymap")
"""Packages of the demo's mail server. The mail server is a process of its own."""


def run_demo(as_json: bool, folder: Path | None, verbose: bool = False) -> int:
    """Run the demo and return its exit code. Raises SettingsError if a package of the mail server is missing."""
    for name in DEMO_EXTRA:
        if find_spec(name) is None:
            raise SettingsError(
                f"The demo's mail server needs {name}, which is not installed.",
                remedy="Install it with `pip install 'readback-ai[demo]'`, or run `make demo` in a checkout.",
                code="settings.extra",
            )
    return int(import_module("readback.demo.main").run_demo(as_json, folder, verbose))


@click.command("demo")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder for the ledger (default: ./readback-demo).",
)
@click.option("-v", "--verbose", is_flag=True, help="Print every step, trip and attempt, and all tables.")
@options.as_json
def demo(folder: Path | None, verbose: bool, as_json: bool) -> int:
    """Run a scripted agent against real local systems that fail and lie.

    The demo starts an order service, a mail server and a work folder, injects every known fault, and compares the
    reports of a naive agent and of Readback with the truth. The comparison stands last. -v prints all details.
    """
    return run_demo(as_json, folder, verbose)


@click.command("bench")
@click.option("--gateway", is_flag=True, help="Measure `readback mcp` against the server behind it (extra mcp).")
@options.as_json
def bench(gateway: bool, as_json: bool) -> int:
    """Measure the cost of an action against the bare cost of its two durable commits on this machine.

    The benchmark works in a temporary folder and takes some minutes.
    """
    return int(import_module("readback.bench.main").run_bench(as_json, gateway))
