"""`readback version`: the installed versions. Imports nothing heavy, not even the store."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

import click

from readback import __version__, bootstrap
from readback.cli import options
from readback.cli.terminal import print_json
from readback.domain.outcome.outcome import OUTCOME_FORMAT
from readback.domain.recovery.table import DEFAULT_TABLE


def versions() -> dict[str, object]:
    """The versions needed in a fault report."""
    apsw = _installed("apsw")
    return {
        "readback": __version__,
        "python": platform.python_version(),
        "sqlite": ".".join(apsw.split(".")[:3]) if apsw else "",
        "apsw": apsw,
        "expressions": bootstrap.predicate_engine().name,
        "recovery_table": DEFAULT_TABLE.version,
        "outcome_format": OUTCOME_FORMAT,
    }


def _installed(package: str) -> str:
    try:
        return installed(package)
    except PackageNotFoundError:
        return ""


@click.command("version")
@options.as_json
def version(as_json: bool) -> None:
    """Print the versions of Readback and its dependencies.

    The version of the recovery table is the hash of its rows. The same table turns the same finding into the same
    decision. SQLite comes with the apsw package.
    """
    found = versions()
    if as_json:
        print_json(found)
        return
    print(f"readback {found['readback']}")
    for name in ("python", "sqlite", "expressions", "recovery_table"):
        print(f"  {name.replace('_', ' ')}: {found[name] or 'not installed'}")
