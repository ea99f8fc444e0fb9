"""Each public class and function has an example in its docstring, and the example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
from types import ModuleType

import pytest

import readback
import readback.agent_errors
import readback.errors
import readback.kit
import readback.mcp
import readback.recipes
import readback.systems
import readback.telemetry
import readback.testing

MODULES = (
    readback,
    readback.agent_errors,
    readback.errors,
    readback.kit,
    readback.mcp,
    readback.recipes,
    readback.systems,
    readback.telemetry,
    readback.testing,
)
WITH_EXAMPLE = (readback.errors, readback.recipes, readback.systems, readback.telemetry)


def names_of(module: ModuleType) -> list[str]:
    """Return the promised names of a module; without `__all__`, the public names that the module defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__]


PUBLIC = sorted(
    {
        f"{thing.__module__}.{thing.__qualname__}"
        for module in MODULES
        for thing in (getattr(module, name) for name in names_of(module) if not name.startswith("_"))
        if inspect.isclass(thing) or inspect.isroutine(thing)
    }
)


def test_the_rule_covers_every_public_module() -> None:
    """A name that no module promises would have no example, and no test would fail."""
    assert len(PUBLIC) >= 230
    assert all(names_of(module) for module in MODULES)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_runs(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    module_name, _, own = name.rpartition(".")
    module = importlib.import_module(module_name)
    found = [
        each for each in doctest.DocTestFinder(recurse=False).find(getattr(module, own), own, module) if each.examples
    ]
    assert found, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for each in found:
        each.globs.update(vars(module))
        done = runner.run(each)
        assert done.attempted, f"every line of the example of {name} is skipped"
        assert done.failed == 0


@pytest.mark.parametrize("name", [name for name in PUBLIC if name.endswith("Error")])
def test_the_example_of_an_error_shows_an_output(name: str) -> None:
    """A user meets an error by its code and its remedy. An example without an output shows neither."""
    module_name, _, own = name.rpartition(".")
    thing = getattr(importlib.import_module(module_name), own)
    shown = [each.want for each in doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "") if each.want]
    assert shown, f"the example of {name} shows no output"


@pytest.mark.parametrize("package", WITH_EXAMPLE, ids=lambda package: package.__name__)
def test_the_example_of_a_public_package_runs(package, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(package)
    assert done.attempted
    assert done.failed == 0
