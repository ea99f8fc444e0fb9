"""Runs tests against mutants, many in one warm process. Called by `mutants.py` alone.

Importing pytest, Readback and the tests costs a hundred times what most tests cost, so it is done once:

- *warm*: one pytest session collects everything, runs it once (it has to pass; which test enters which function
  of the domain is noted), and then forks for each mutant of a function: the child swaps the function's
  code and runs the tests that enter it, until one fails.
- *cold*: what an import computes (tables, vocabularies, defaults, a test's list of cases) is already bound
  in a warm process. There a child is forked before Readback was imported, and imports it with the change.
  What survives warm is tried cold too, if its function is entered while something is imported.

A child gets an allowance of processor time, not of seconds: a busy machine neither kills nor saves a mutant.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import inspect
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from mutants_make import Mutant, is_program

ROOT = Path(__file__).resolve().parent.parent
DOMAIN = ROOT / "src" / "readback" / "domain"
PACKAGE = "readback.domain"

KILLED, SURVIVED, INVALID, AT_IMPORT, BROKEN, COLD = 1, 2, 3, 4, 5, 6
"""A child's exit status. AT_IMPORT: the package or a test does not even import with the change. INVALID: the edit
left no program. BROKEN: pytest itself fails, which says nothing. COLD: this function cannot be swapped while warm."""
CPU_SECONDS = 3.0
"""Beside three times what the tests take without a change."""
WALL_SECONDS = 240.0
"""Only against a child that waits for something that never comes, using no processor."""


class RedTestsError(Exception):
    """Tests fail without any change: nothing can be learnt from them."""


def in_child(work: Callable[[], int], allowance: float) -> int:
    """Run `work` in a forked child; its exit status, KILLED where it used up its allowance."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        status = BROKEN
        try:
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS + 3 * allowance)
            signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
            status = work()
        finally:
            if status == BROKEN:
                traceback.print_exc()
            os._exit(status)
    _, how = os.waitpid(pid, 0)
    if os.WIFEXITED(how):
        return os.WEXITSTATUS(how)
    return KILLED if os.WTERMSIG(how) in (signal.SIGPROF, signal.SIGALRM) else BROKEN


def silently() -> None:
    """A child's tests say nothing; only what breaks the run itself is shown, on stderr."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nowhere, descriptor)


def pytest_arguments(files: Iterable[str], deselected: Iterable[str], base: Path) -> list[str]:
    """The project's own settings, without reports, caches and captured output."""
    without = ("terminal", "cacheprovider", "xdist", "cov", "unraisableexception")
    return [
        "--override-ini=addopts=",
        "--override-ini=faulthandler_timeout=0",
        "--import-mode=importlib",
        "-Wignore::pytest.PytestAssertRewriteWarning",  # plugins are loaded before the cold children fork
        "--capture=no",
        f"--rootdir={ROOT}",
        f"--basetemp={base}",
        *(f"-pno:{name}" for name in without),
        *(f"--deselect={name}" for name in deselected),
        *files,
    ]


class _WithoutShrinking:
    """Hypothesis has to find a fault here, not to show its smallest form."""

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings.get_profile("suite"), phases=phases, print_blob=False)
        settings.load_profile("mutants")


# --- warm ---

_AT_IMPORT = "while something is imported"


class Warm(_WithoutShrinking):
    """The pytest session that collects once and forks for every mutant of a function."""

    def __init__(self, mutants: Sequence[Mutant], sources: Mapping[str, bytes], out: int) -> None:
        self.mutants, self.sources, self.out = mutants, sources, out
        self.entered: dict[tuple[str, str], dict[str, None]] = {}
        self.seconds: dict[str, float] = {}
        self.killers: dict[tuple[str, str], list[str]] = {}
        self.uncollected: list[str] = []

    def tell(self, **what: object) -> None:
        os.write(self.out, json.dumps(what).encode() + b"\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.uncollected.append(f"{report.nodeid}: {str(report.longrepr).strip().splitlines()[-1]}")

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        with _noting(self.entered, _AT_IMPORT):
            return (yield)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        red = self.uncollected or self._green_run(session.items)
        files = {name: item.path.relative_to(ROOT).as_posix() for name, item in items.items()}
        cost: dict[str, float] = {}
        for name, seconds in self.seconds.items():
            cost[files[name]] = cost.get(files[name], 0.0) + seconds
        self.tell(red=red, cost=cost, modules=sorted(_third_parties()))
        if red:
            return True
        gc.collect()
        gc.freeze()
        for mutant in self.mutants:
            status, killer = self._try(mutant, items)
            again = status in (COLD, BROKEN) or (status == SURVIVED and _AT_IMPORT in self.tests_of(mutant))
            if not again:
                self.tell(id=mutant.id, status=status, file=files.get(killer, ""), test=killer)
        return True

    def _green_run(self, items: list[pytest.Item]) -> list[str]:
        """Run everything once as it is; note who enters which function. Returns what fails."""
        red: list[str] = []
        for index, item in enumerate(items):
            following = items[index + 1] if index + 1 < len(items) else None
            began = time.process_time()
            with _noting(self.entered, item.nodeid):
                reports = runtestprotocol(item, log=False, nextitem=following)
            self.seconds[item.nodeid] = time.process_time() - began
            if any(report.failed for report in reports):
                red.append(item.nodeid)
        return red

    def tests_of(self, mutant: Mutant) -> Iterable[str]:
        """The tests that enter the mutant's function; `_AT_IMPORT` stands for an import."""
        return self.entered.get((mutant.module, mutant.scope), ())

    def _try(self, mutant: Mutant, items: Mapping[str, pytest.Item]) -> tuple[int, str]:
        where = (mutant.module, mutant.scope)
        known = self.killers.setdefault(where, [])
        rest = sorted(set(self.tests_of(mutant)) - {*known, _AT_IMPORT}, key=lambda one: (self.seconds[one], one))
        chosen = [items[name] for name in (*known, *rest)]
        reader, writer = os.pipe()
        allowance = sum(self.seconds[item.nodeid] for item in chosen)
        status = in_child(lambda: _run_warm(mutant, self.sources[mutant.module], chosen, writer), allowance)
        os.close(writer)
        with open(reader, encoding="utf-8") as told:
            killer = told.read()
        if killer:
            known[:] = [killer, *(one for one in known if one != killer)][:8]
        return status, killer


def _run_warm(mutant: Mutant, source: bytes, items: list[pytest.Item], writer: int) -> int:
    changed = mutant.apply(source)
    if not is_program(changed):
        return INVALID
    if not _swap(mutant, changed):
        return COLD
    _forget()
    for index, item in enumerate(items):
        following = items[index + 1] if index + 1 < len(items) else None
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            os.write(writer, item.nodeid.encode())
            return KILLED
    return SURVIVED


def _forget() -> None:
    """Empty what was remembered of results while the code was whole."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("readback", "tests")):
            for value in list(vars(module).values()):
                clear = getattr(value, "cache_clear", None)
                if callable(clear):
                    clear()


@contextlib.contextmanager
def _noting(entered: dict[tuple[str, str], dict[str, None]], test: str) -> Iterator[None]:
    home = str(DOMAIN) + os.sep

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(home):
            scope = code.co_qualname.split(".<locals>")[0]
            entered.setdefault((Path(code.co_filename).stem, scope), {})[test] = None

    before = sys.gettrace()
    sys.settrace(note)
    threading.settrace(note)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(None)  # type: ignore[arg-type]


def _swap(mutant: Mutant, source: bytes) -> bool:
    """Give the living function the changed code; False where that cannot be done."""
    module = sys.modules.get(f"{PACKAGE}.{mutant.module}")
    function = _function(module, mutant.scope) if module is not None else None
    if function is None:
        return False
    code = _code(compile(source, function.__code__.co_filename, "exec"), mutant.scope)
    if code is None or code.co_freevars != function.__code__.co_freevars:
        return False
    function.__code__ = code
    return True


def _function(module: ModuleType, scope: str) -> FunctionType | None:
    found: Any = module
    for name in scope.split("."):
        found = inspect.getattr_static(found, name, None)
        if isinstance(found, staticmethod | classmethod):
            found = found.__func__
        elif isinstance(found, property):
            found = found.fget
    found = inspect.unwrap(found) if callable(found) else found
    return found if isinstance(found, FunctionType) and found.__qualname__ == scope else None


def _code(code: CodeType, scope: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == scope:
                return constant
            inner = _code(constant, scope) if scope.startswith(constant.co_qualname + ".") else None
            if inner is not None:
                return inner
    return None


def _third_parties() -> set[str]:
    """What is loaded beside the project: a cold child need not load it again."""
    ours = ("readback", "tests", "conftest", "bench", "mutants", "__")
    return {name for name in sys.modules if not name.startswith(ours)}


def warm(
    mutants: Sequence[Mutant],
    sources: Mapping[str, bytes],
    arguments: list[str],
    told: Callable[[dict[str, Any]], None],
) -> None:
    """Try mutants of functions in a warm child; `told` gets a line for the green run and one for each mutant."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            silently()
            pytest.main(arguments, plugins=[Warm(mutants, sources, writer)])
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as lines:
        for line in lines:
            told(json.loads(line))
    os.waitpid(pid, 0)


# --- cold ---


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with its change."""

    def __init__(self, name: str, path: Path, source: bytes) -> None:
        self.name, self.path, self.source = name, path, source

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.source, str(self.path), "exec"), module.__dict__)


def preload(names: Iterable[str]) -> None:
    """Import what every cold child would import."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def cold(
    mutant: Mutant,
    source: bytes,
    files: Sequence[str],
    arguments: Callable[[list[str]], list[str]],
    allowance: float,
) -> tuple[int, str]:
    """Try one mutant from the import on, file after file; its status and the file that killed it."""
    reader, writer = os.pipe()
    status = in_child(lambda: _run_cold(mutant, source, files, arguments, writer), 1.5 * len(files) + allowance)
    os.close(writer)
    with open(reader, encoding="utf-8") as told:
        return status, told.read()


def _run_cold(
    mutant: Mutant,
    source: bytes,
    files: Sequence[str],
    arguments: Callable[[list[str]], list[str]],
    writer: int,
) -> int:
    silently()
    changed = mutant.apply(source)
    if not is_program(changed):
        return INVALID
    name = f"{PACKAGE}.{mutant.module}"
    sys.meta_path.insert(0, _Changed(name, DOMAIN / f"{mutant.module}.py", changed))
    try:
        importlib.import_module(name)
    except Exception:  # any fault at all: the change does not get as far as a test
        return AT_IMPORT
    for file in files:
        code = pytest.main(["--exitfirst", *arguments([file])], plugins=[_WithoutShrinking()])
        if code != pytest.ExitCode.OK:
            os.write(writer, file.encode())
            return _COLD_STATUS.get(pytest.ExitCode(code), BROKEN)
    return SURVIVED


_COLD_STATUS = {pytest.ExitCode.TESTS_FAILED: KILLED, pytest.ExitCode.INTERRUPTED: AT_IMPORT}
