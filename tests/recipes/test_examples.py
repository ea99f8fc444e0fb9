"""Each public class and function of the rooms for users has an example, and the example runs."""

from __future__ import annotations

import doctest
import importlib

import pytest

import readback.recipes
import readback.systems
import readback.telemetry

PUBLIC = sorted(
    f"{getattr(package, name).__module__}.{name}"
    for package in (readback.recipes, readback.systems, readback.telemetry)
    for name in package.__all__
    if callable(getattr(package, name))
)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_runs(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    module_name, _, own = name.rpartition(".")
    module = importlib.import_module(module_name)
    found = [
        each for each in doctest.DocTestFinder(recurse=False).find(getattr(module, own), own, module) if each.examples
    ]
    assert found, f"{name} has no example"
    runner = doctest.DocTestRunner()
    for each in found:
        each.globs.update(vars(module))
        assert runner.run(each).failed == 0


@pytest.mark.parametrize("package", [readback.recipes, readback.systems, readback.telemetry])
def test_the_example_of_a_public_package_runs(package, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(package)
    assert done.attempted
    assert done.failed == 0
