"""`readback demo` and `readback bench`: programs of their own, imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

import click

from readback.cli import options
from readback.errors import SettingsError

_BROUGHT_BY_EXTRA: Final = frozenset({"aiosmtpd", "pymap", "proxyprotocol", "pysasl"})


@click.command("demo")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where the ledger is kept; else in readback-demo here.",
)
@options.as_json
def demo(folder: Path | None, as_json: bool) -> int:
    """Let a scripted agent act on real local systems, some of which lie.

    It starts an order service, a mail server and a work folder as processes of their own, spoils what the agent does in
    every known way, and prints what the tools said, what is true, what a naive agent tells, and what Readback tells.
    """
    try:
        run_demo = import_module("readback.demo.main").run_demo
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _BROUGHT_BY_EXTRA:
            raise
        raise SettingsError(
            f"The demo's mail server needs {error.name}, which is not installed.",
            remedy="Install it with `pip install 'readback-ai[demo]'`, or run `make demo` in a checkout.",
            code="settings.extra",
        ) from error
    return int(run_demo(as_json, folder))


@click.command("bench")
@click.option("--gateway", is_flag=True, help="Measure `readback mcp` against the server behind it (extra mcp).")
@options.as_json
def bench(gateway: bool, as_json: bool) -> int:
    """Measure the hot path against the bare cost of its two durable commits, in one run on this machine.

    It works in a temporary folder and takes some minutes.
    """
    return int(import_module("readback.bench.main").run_bench(as_json, gateway))
