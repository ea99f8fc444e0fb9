"""Imports agentdojo's banking and slack suites without running the `__init__` of any of its packages.

Called once in a test process. For the time of the import every package of agentdojo is an empty module with its real
path; afterwards nothing called agentdojo is left in sys.modules, so that no other test meets a package that is not
whole. It must not be imported where agentdojo is missing: `installed` says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "agentdojo"
SUITES = ("banking", "slack")
_TASKS = (
    "default_suites.v1.{suite}.user_tasks",
    "default_suites.v1.{suite}.injection_tasks",
    "default_suites.v1_1_1.{suite}.user_tasks",
    "default_suites.v1_2.{suite}.user_tasks",
    "default_suites.v1_2.{suite}.injection_tasks",
    "default_suites.v1_2_2.{suite}.user_tasks",
)
"""Modules that register tasks, oldest first; a suite has those of them that are there."""

_MODEL_SIDE = f"{PACKAGE}.agent_pipeline.ground_truth_pipeline"
"""Named by the suites' own runner, which is not used here, and loads a model client: empty too."""


def installed() -> bool:
    """Whether agentdojo can be found. It is not imported by asking."""
    return _root() is not None


def _root() -> Path | None:
    spec = PathFinder.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


@dataclass(frozen=True, slots=True)
class Task:
    """One version of one task: `init` prepares its environment, `calls` are its ground truth."""

    id: str
    version: tuple[int, ...]
    task: Any

    def init(self, environment: Any) -> Any:
        prepare = getattr(self.task, "init_environment", None)
        return environment if prepare is None else prepare(environment)

    def calls(self, environment: Any) -> list[Any]:
        return list(self.task.ground_truth(environment.model_copy(deep=True)))


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite: fresh environments, the tools under their own runtime, and every version of every task."""

    name: str
    suite: Any
    runtime: Any
    tasks: tuple[Task, ...]

    def environment(self) -> Any:
        """The default environment, as its authors ship it, with nothing injected."""
        return self.suite.load_and_inject_default_environment({})

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(self.runtime.functions)


@lru_cache(maxsize=1)
def suites() -> dict[str, Suite]:
    """Both suites. Raises ModuleNotFoundError where agentdojo is not installed."""
    root = _root()
    if root is None:
        raise ModuleNotFoundError("agentdojo is not installed; `make setup` installs it")
    with _without_inits(root):
        runtime = import_module(f"{PACKAGE}.functions_runtime")
        runtime.FunctionCall.model_rebuild()  # while the module that its annotations name can be found
        return {name: _suite(root, name, runtime) for name in SUITES}


def _suite(root: Path, name: str, runtime: ModuleType) -> Suite:
    suite = import_module(f"{PACKAGE}.default_suites.v1.{name}.task_suite").task_suite
    for module in _TASKS:
        dotted = module.format(suite=name)
        if root.joinpath(*dotted.split(".")).with_suffix(".py").is_file():
            import_module(f"{PACKAGE}.{dotted}")
    suite.data_path = root / "data" / "suites" / name
    registered = {**suite._user_tasks, **suite._injection_tasks}
    tasks = tuple(
        Task(task_id, version, task)
        for task_id, versions in registered.items()
        for version, task in sorted(versions.items())
    )
    return Suite(name, suite, runtime.FunctionsRuntime(suite.tools), tasks)


@contextmanager
def _without_inits(root: Path) -> Iterator[None]:
    before = {name: module for name, module in sys.modules.items() if _ours(name)}
    for name in before:
        del sys.modules[name]
    for init in (root / "__init__.py", *root.rglob("__init__.py")):
        _stub(init.parent, ".".join((PACKAGE, *init.parent.relative_to(root).parts)))
    for folder in root.rglob("*"):  # some of its packages have no __init__ at all
        if folder.is_dir() and folder.name != "__pycache__":
            _stub(folder, ".".join((PACKAGE, *folder.relative_to(root).parts)))
    model_side = ModuleType(_MODEL_SIDE)
    model_side.GroundTruthPipeline = None  # type: ignore[attr-defined]
    sys.modules[_MODEL_SIDE] = model_side
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _ours(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _stub(folder: Path, name: str) -> None:
    if name in sys.modules:
        return
    module = ModuleType(name)
    module.__path__ = [str(folder)]
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__spec__.submodule_search_locations = [str(folder)]
    sys.modules[name] = module


def _ours(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")
