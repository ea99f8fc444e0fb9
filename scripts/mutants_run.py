"""Runs tests against mutants, many in one warm process. Called by `mutants.py` alone.

Importing pytest, Readback and the tests costs a hundred times what most tests cost, so it is done once:

- *warm*: one pytest session collects everything, runs it once (it has to pass; which test enters which function
  of the room is noted, and which import), and then forks for each mutant of a function: the child swaps
  the function's code and runs the tests that enter it, until one fails.
- *cold*: what an import computes (tables, vocabularies, defaults, a test's list of cases) is already bound
  in a warm process. There a child is forked before Readback was imported, and imports it with the change.
  What survives warm is tried cold too, where an import enters its function, with the files whose import that is.

What a child may use, and when it is ended, is in `mutants_child.py`.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import inspect
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from mutants_child import AT_IMPORT, BROKEN, COLD, INVALID, KILLED, SURVIVED, Cost, Stillness, allow, end, in_child
from mutants_make import Mutant, is_program
from mutants_rooms import ROOT, dotted, label_of, path_of

CONTROL = "control"
"""The id of the change of nothing."""
SILENT_SECONDS = 120.0
"""How long a warm session may do nothing at all, before it is ended: a test waits in it for what never comes."""


def _spec(fullname: str, path: Path, loader: importlib.abc.Loader) -> Any:
    below = [str(path.parent)] if path.name == "__init__.py" else None
    return importlib.util.spec_from_file_location(fullname, path, loader=loader, submodule_search_locations=below)


class RedTestsError(Exception):
    """Tests fail without any change: nothing can be learnt from them."""


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

_EVERYWHERE = "while something of Readback is imported"
_NOTE = "__entered__"


class _Entries(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the room's modules so that each function says when it is entered, and notes by whom.

    A tracer would be called for every call of everything, which costs several times what the tests cost.
    """

    def __init__(self, modules: Iterable[str]) -> None:
        self.paths = {dotted(module): path_of(module) for module in modules}
        self.by: dict[tuple[str, str], dict[str, None]] = {}
        """A module's function -> the tests that enter it."""
        self.at_import: dict[tuple[str, str], dict[str, None]] = {}
        """A module's function -> the files of tests whose import enters it, or `_EVERYWHERE`."""
        self.test: str | None = None

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        known = self.paths.get(fullname)
        return None if known is None else _spec(fullname, known, self)

    def exec_module(self, module: ModuleType) -> None:
        path = str(module.__file__)
        tree = _Saying(label_of(Path(path))).visit(ast.parse(Path(path).read_bytes()))
        module.__dict__[_NOTE] = self.note
        exec(compile(ast.fix_missing_locations(tree), path, "exec"), module.__dict__)

    def note(self, module: str, scope: str) -> None:
        if self.test is not None:
            self.by.setdefault((module, scope), {})[self.test] = None
        else:
            self.at_import.setdefault((module, scope), {}).update(dict.fromkeys(_importing()))


class _Saying(ast.NodeTransformer):
    """Puts a call of `_NOTE` before everything that a function does, under its outermost function's name."""

    def __init__(self, module: str) -> None:
        self.module, self.scope = module, ""
        self.names: tuple[str, ...] = ()

    def _call(self) -> ast.Call:
        return ast.Call(ast.Name(_NOTE, ast.Load()), [ast.Constant(self.module), ast.Constant(self.scope)], [])

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        outside, self.names = self.names, (*self.names, node.name)
        self.generic_visit(node)
        self.names = outside
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._entered(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._entered(node)

    def _entered(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        outside, self.scope = self.scope, self.scope or ".".join((*self.names, node.name))
        node.body = [self.visit(one) for one in node.body]
        node.body.insert(int(ast.get_docstring(node) is not None), ast.Expr(self._call()))
        self.scope = outside
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        if self.scope:
            node.body = ast.BoolOp(ast.Or(), [self._call(), node.body])
        return node


def _importing() -> list[str]:
    """The files of tests that are being imported, unless one of Readback's own is: that is everybody's."""
    frame = inspect.currentframe()
    files = []
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            file = Path(frame.f_code.co_filename)
            if file.is_relative_to(ROOT / "src") or file.name == "conftest.py":
                return [_EVERYWHERE]
            if file.is_relative_to(ROOT / "tests"):
                files.append(file.relative_to(ROOT).as_posix())
        frame = frame.f_back
    return files or [_EVERYWHERE]


class Warm(_WithoutShrinking):
    """The pytest session that collects once and forks for every mutant of a function."""

    def __init__(self, mutants: Sequence[Mutant], sources: Mapping[str, bytes], out: int) -> None:
        self.mutants, self.sources, self.out = mutants, sources, out
        self.entries = _Entries(sources)
        self.costs: dict[str, Cost] = {}
        """What each test takes without a change."""
        self.killers: dict[tuple[str, str], list[str]] = {}
        self.uncollected: list[str] = []

    def tell(self, **what: object) -> None:
        os.write(self.out, json.dumps(what).encode() + b"\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.uncollected.append(f"{report.nodeid}: {str(report.longrepr).strip().splitlines()[-1]}")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        collecting = time.process_time()
        items = {item.nodeid: item for item in session.items}
        red = self.uncollected or self._green_run(session.items)
        files = {name: item.path.relative_to(ROOT).as_posix() for name, item in items.items()}
        cost: dict[str, float] = {}
        for name, one in self.costs.items():
            cost[files[name]] = cost.get(files[name], 0.0) + one.processor
        self.tell(red=red, cost=cost, collecting=collecting, modules=_third_parties())
        if red:
            return True
        gc.collect()
        gc.freeze()
        for mutant in map(self._placed, self.mutants):
            self.tell(tries=mutant.id)
            status, killer = self._try(mutant, items)
            importers = self.entries.at_import.get((mutant.module, mutant.scope), {})
            if status in (COLD, BROKEN):
                self.tell(again=mutant.id, files=[])
            elif status == SURVIVED and importers:
                self.tell(again=mutant.id, files=[] if _EVERYWHERE in importers else list(importers))
            else:
                self.tell(id=mutant.id, status=status, file=files.get(killer, ""), test=killer)
        return True

    def _green_run(self, items: list[pytest.Item]) -> list[str]:
        """Run everything once as it is; note who enters which function. Returns what fails."""
        red: list[str] = []
        for index, item in enumerate(items):
            following = items[index + 1] if index + 1 < len(items) else None
            self.entries.test = item.nodeid
            self.tell(runs=item.nodeid)
            processor, clock = time.process_time(), time.monotonic()
            reports = runtestprotocol(item, log=False, nextitem=following)
            self.costs[item.nodeid] = Cost(time.process_time() - processor, time.monotonic() - clock)
            red += [f"{item.nodeid} ({_reason(report)})" for report in reports if report.failed]
        return red

    def _placed(self, mutant: Mutant) -> Mutant:
        """The control goes into a function that tests enter and no import does; elsewhere it would show nothing."""
        if mutant.id != CONTROL:
            return mutant
        places = ((one.module, one.scope) for one in self.mutants)
        held = (each for each in places if each in self.entries.by and each not in self.entries.at_import)
        module, scope = next(held, (mutant.module, mutant.scope))
        return replace(mutant, module=module, scope=scope)

    def tests_of(self, mutant: Mutant) -> Iterable[str]:
        """The tests that enter the mutant's function."""
        return self.entries.by.get((mutant.module, mutant.scope), ())

    def _try(self, mutant: Mutant, items: Mapping[str, pytest.Item]) -> tuple[int, str]:
        where = (mutant.module, mutant.scope)
        known = self.killers.setdefault(where, [])
        rest = sorted(set(self.tests_of(mutant)) - {*known}, key=lambda one: (self.costs[one], one))
        chosen = [items[name] for name in (*known, *rest)]
        reader, writer = os.pipe()
        costs = [self.costs[item.nodeid] for item in chosen]
        cost = Cost(sum(one.processor for one in costs), max((one.clock for one in costs), default=0.0))
        status, _ = in_child(lambda: _run_warm(mutant, self.sources[mutant.module], chosen, writer), cost)
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


def _reason(report: pytest.TestReport) -> str:
    """Why a test failed, in a line."""
    lines = str(report.longrepr).strip().splitlines()
    return f"{report.when}: {lines[-1].strip() if lines else 'nothing is said'}"


_Remembering = type(lru_cache(int))


def _forget() -> None:
    """Empty what was remembered of results while the code was whole."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("readback", "tests")):
            for value in list(vars(module).values()):
                if isinstance(value, _Remembering):
                    value.cache_clear()


def _swap(mutant: Mutant, source: bytes) -> bool:
    """Give the living function the changed code; False where that cannot be done."""
    module = sys.modules.get(dotted(mutant.module))
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


def _third_parties() -> list[str]:
    """What is loaded beside the project: a cold child need not load it again.

    In the order in which it was loaded. `_asyncio` imported before `asyncio` is there twice: no task is current then.
    """
    ours = ("readback", "tests", "conftest", "bench", "mutants", "__")
    return [name for name in sys.modules if not name.startswith(ours)]


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
            session = Warm(mutants, sources, writer)
            sys.meta_path.insert(0, session.entries)
            pytest.main(arguments, plugins=[session])
        finally:
            os._exit(0)
    os.close(writer)
    still, rest, last = Stillness(pid, SILENT_SECONDS), b"", ""
    while True:
        if not select.select([reader], [], [], 1.0)[0]:
            if still():
                end(pid)
                told({"hangs": last or "collecting the tests"})
            continue
        read = os.read(reader, 1 << 16)
        if not read:
            break
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            what = json.loads(line)
            last = what.get("runs", what.get("tries", last))
            if not {"runs", "tries"} & what.keys():
                told(what)
    os.close(reader)
    os.waitpid(pid, 0)


# --- cold ---


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with its change."""

    def __init__(self, name: str, path: Path, source: bytes) -> None:
        self.name, self.path, self.source = name, path, source

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        if fullname != self.name:
            return None
        return _spec(fullname, self.path, self)

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
    files: Mapping[str, float],
    arguments: Callable[[list[str]], list[str]],
    importing: float,
) -> tuple[int, str, float]:
    """Try one mutant from the import on, file after file; its status, the file that killed it, and its processor time.

    `files`: with the seconds that each takes without a change. `importing`: what the import of Readback and of a file
    of tests takes, at most.
    """
    reader, writer = os.pipe()
    cost = Cost(importing, importing + max(files.values(), default=0.0))
    status, used = in_child(lambda: _run_cold(mutant, source, files, arguments, importing, writer), cost)
    os.close(writer)
    with open(reader, encoding="utf-8") as told:
        return status, told.read(), used


def _run_cold(
    mutant: Mutant,
    source: bytes,
    files: Mapping[str, float],
    arguments: Callable[[list[str]], list[str]],
    importing: float,
    writer: int,
) -> int:
    silently()
    changed = mutant.apply(source)
    if not is_program(changed):
        return INVALID
    name = dotted(mutant.module)
    sys.meta_path.insert(0, _Changed(name, path_of(mutant.module), changed))
    try:
        importlib.import_module(name)
    except Exception:  # any fault at all: the change does not get as far as a test
        return AT_IMPORT
    for file, seconds in files.items():
        allow(importing + seconds)
        code = pytest.main(["--exitfirst", *arguments([file])], plugins=[_WithoutShrinking()])
        if code != pytest.ExitCode.OK:
            os.write(writer, file.encode())
            return _COLD_STATUS.get(pytest.ExitCode(code), BROKEN)
    return SURVIVED


_COLD_STATUS = {pytest.ExitCode.TESTS_FAILED: KILLED, pytest.ExitCode.INTERRUPTED: AT_IMPORT}
