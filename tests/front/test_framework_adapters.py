"""Adapters without their framework, and the versions that an adapter is tested with."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from readback.agent_errors import MissingFrameworkError

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ROOT / "tests" / "frameworks" / "locks"
ADAPTERS = sorted(path.stem for path in (ROOT / "tests" / "frameworks" / "drivers").glob("[a-z]*.py"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def _extra(name: str) -> str:
    return name.replace("_", "-")


@pytest.mark.requirement("FW-missing")
@pytest.mark.parametrize("name", ADAPTERS)
def test_a_missing_framework_is_an_error_that_names_the_extra(name: str) -> None:
    with pytest.raises(MissingFrameworkError) as caught:
        importlib.import_module(f"readback.frameworks.{name}")
    assert f"readback-ai[{_extra(name)}]" in str(caught.value.remedy)


@pytest.mark.requirement("FW-versions")
@pytest.mark.parametrize("name", ADAPTERS)
def test_the_extra_begins_with_the_lowest_tested_version_and_the_locks_lie_in_the_range(name: str) -> None:
    """The adapter's range, the extra's range, and the locks of the lowest and the latest version agree."""
    tree = ast.parse((ROOT / "src" / "readback" / "frameworks" / f"{name}.py").read_text(encoding="utf-8"))
    [call] = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "check_version"]
    named = {each.arg: each.value for each in call.keywords}
    lowest, below, distribution = (str(ast.literal_eval(named[key])) for key in ("lowest", "below", "distribution"))
    assert any(re.match(rf"{distribution}>={lowest}[.0]*,<", each) for each in EXTRAS[_extra(name)])
    for kind, version in (("lowest", lowest), ("latest", None)):
        lines = (LOCKS / f"{name}-{kind}.lock").read_text(encoding="utf-8").splitlines()
        [pinned] = [line.split("==")[1].split()[0] for line in lines if line.startswith(f"{distribution}==")]
        assert _numbers(lowest) <= _numbers(pinned) < _numbers(below)
        assert version is None or _numbers(pinned)[: len(_numbers(version))] == _numbers(version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split("."))
