"""The wheel holds all that the package needs and nothing else, and works where only it is installed."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, Installed

CORE_MAX = 11
"""Direct dependencies of the core, of which one comes with another: each new one has to push another out."""


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _package_files() -> set[str]:
    """What is committed, or would be, under src/."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return {name.removeprefix("src/") for name in listed if (ROOT / name).is_file()}


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    files = _package_files()
    assert "readback/py.typed" in files
    assert len(files) > 10
    assert files - _names(wheel) == set()


def test_the_migrations_are_in_the_wheel(wheel: Path) -> None:
    found = sorted(name for name in _names(wheel) if name.endswith(".sql"))
    assert found, "a store without its migrations cannot open a new file"
    assert all(re.match(r"readback/stores/\w+/migrations/\d{4}_\w+(\.serves_\d+)?\.sql$", name) for name in found)


def test_nothing_but_the_package_is_in_the_wheel(wheel: Path) -> None:
    strays = {n for n in _names(wheel) if not n.startswith("readback/") and ".dist-info/" not in n}
    assert strays == set()
    assert not [n for n in _names(wheel) if "__pycache__" in n or n.endswith((".pyc", ".db"))]
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in _names(wheel))


def test_the_core_stays_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    core = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert 0 < len(core) <= CORE_MAX, core
    assert metadata["Requires-Python"] == ">=3.11"


@pytest.mark.requirement("L27")
def test_the_installed_package_imports_from_itself(installed: Installed) -> None:
    done = installed.run("python", "-c", "import readback; print(readback.__version__, readback.__file__)")
    assert done.returncode == 0, done.stderr
    version, path = done.stdout.split()
    assert version == "0.1.0"
    assert Path(path).is_relative_to(installed.bin.parent)


def test_every_module_of_the_core_imports_without_an_extra(installed: Installed) -> None:
    """All but what needs an extra (the demo's systems, gateway, server, PostgreSQL), and a suite for pytest."""
    done = installed.run("python", "-c", _IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) > 10


_IMPORT_ALL = """
import importlib, json, pkgutil, readback
from readback.agent_errors import MissingFrameworkError
found = pkgutil.walk_packages(readback.__path__, 'readback.')
apart = ('.demo', 'readback.mcp', '.gateway', '.server', '.conformance.scripts')
apart += ('.stores.postgres', '.procrastinate_queue')
names = [name for _, name, _ in found if not any(part in name for part in apart) and not name.endswith('__main__')]
for name in names:
    try:
        importlib.import_module(name)
    except MissingFrameworkError:
        assert name.startswith('readback.frameworks.')
print(json.dumps(len(names)))
"""


@pytest.mark.parametrize("adapter", ["agent_framework", "claude_agent", "google_adk", "strands"])
def test_an_adapter_names_the_extra_of_a_missing_framework(installed: Installed, adapter: str) -> None:
    done = installed.run("python", "-c", f"import readback.frameworks.{adapter}")
    assert done.returncode == 1
    (*_, said) = done.stderr.splitlines()
    assert said.startswith("readback.agent_errors.MissingFrameworkError: The adapter for ")
    assert f"readback-ai[{adapter.replace('_', '-')}]" in said


def test_the_command_tells_its_version(installed: Installed) -> None:
    done = installed.run("readback", "version")
    assert done.returncode == 0, done.stderr
    assert "0.1.0" in done.stdout


def test_the_gateway_says_which_extra_it_needs(installed: Installed) -> None:
    done = installed.run("readback", "mcp", "--", "true")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "readback-ai[mcp]" in done.stderr


def test_a_program_is_told_which_extra_the_gateway_needs_by_the_error_that_asks_for_it(installed: Installed) -> None:
    done = installed.run("python", "-c", "import readback.mcp")
    assert done.returncode == 1
    (*_, said) = done.stderr.splitlines()
    assert said.startswith("ModuleNotFoundError: readback.mcp needs the extra `mcp`: pip install 'readback-ai[mcp]'.")


def test_the_command_helps(installed: Installed) -> None:
    done = installed.run("readback", "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    for command in (
        "demo",
        "run",
        "list",
        "show",
        "explain",
        "resume",
        "worker",
        "submit",
        "doctor",
        "version",
        "ledger",
    ):
        assert command in done.stdout


def test_the_command_finds_this_installation_sound(installed: Installed) -> None:
    done = installed.run("readback", "doctor")
    assert done.returncode == 0, done.stdout + done.stderr


def test_bad_usage_has_its_own_exit_code(installed: Installed) -> None:
    assert installed.run("readback", "no-such-command").returncode == 2


@pytest.mark.last
def test_a_first_action_is_verified(installed: Installed) -> None:
    """The example that the documents begin with, run as a user would: copied out of the checkout."""
    example = ROOT / "examples" / "first_action.py"
    assert example.is_file(), "the documents promise a first action"
    copy = installed.folder / example.name
    copy.write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    done = installed.run("python", "-W", "error", copy)
    assert done.returncode == 0, done.stdout + done.stderr
    said = (done.stdout + done.stderr).lower()
    assert "honest: reconciled_success" in said
    assert "lying:  unknown" in said
