"""Scripts in pydantic-monty: a subset of Python in worker processes with limits.

Implements the port `ports.scripts`. Chosen by `bootstrap`. A script reaches nothing of this process but the host
functions. A dying worker loses one verification, and is replaced.
"""

from __future__ import annotations

import ast
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from readback.agent_errors import (
    ScriptCompileError,
    ScriptError,
    ScriptLimitError,
    ScriptsForkedError,
    ScriptsMissingError,
    ScriptUnavailableError,
)
from readback.canon import Json, ReadbackError, holds_exact, json_value, sha256_hex
from readback.canon.frozen import dataclass
from readback.domain.contract.script_permissions import ScriptLimits, ScriptPermissions
from readback.ports.scripts import HostCall, Ran, ScriptHost

if TYPE_CHECKING:
    from types import ModuleType

SOURCE_MAX_BYTES: Final = 65_536
PRINTED_MAX_BYTES: Final = 65_536
LOAD_SUSPENSIONS: Final = 64
WORKERS_MAX: Final = 2
GRACE_S: Final = 1.0
"""Seconds after the limit of a worker before the worker is killed."""
NAME: Final = "verify.py"
PRELUDE: Final = r"""
import json as _json
import re
_PARTS = r'"(?:[^"\\]|\\.)*"|-?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?'
import rb_http as http
import rb_fs as fs
import rb_sql as sql
import rb_time as time
import rb_hash as hash
class _JsonCoder:
    def encode(self, value):
        return _json.dumps(value)
    def decode(self, text, *default):
        raise TypeError("default is given by name")
def _meant(text):
    mantissa, _, power = text.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    kept = digits.rstrip("0")
    return (kept, int(power or "0") - len(fraction) + len(digits) - len(kept)) if kept else ("", 0)
def _loads(text):
    found = _json.loads(text)
    if re.search("[0-9.]{17}|[0-9][eE]", text):
        for each in re.findall(_PARTS, text):
            if each[0] != '"' and ("." in each or "e" in each.lower()) and _meant(each) != _meant(repr(float(each))):
                raise RuntimeError("the JSON holds a number that a float would round: " + each[:60])
    return found
_NONE = []
def _decode(text, default=_NONE):
    try:
        return _loads(text)
    except ValueError:
        if default is _NONE:
            raise
        return default
json = _JsonCoder()
json.decode = _decode
json.dumps = _json.dumps
json.loads = _loads
def allow():
    return {"action": "allow"}
def block(reason=""):
    return {"action": "block", "reason": reason}
def modify(payload):
    return {"action": "modify", "payload": payload}
def _rb_step():
    _rb_left[0] -= 1
    if _rb_left[0] < 0:
        raise RuntimeError("more steps than allowed")
    return True
"""
_OURS: Final = "_rb_"
"""Prefix of names that a script may not use: such a script could change its own step count."""
_UNCOUNTED: Final = frozenset({"eval", "exec", "compile", "locals", "globals", "vars", "builtins", "__builtins__"})
"""Names that reach unchecked code or variables."""
_OVER: Final = "more steps than allowed"
_TAKES: Final = re.compile(r"takes (?:from (\d+) to )?(\d+) positional arguments? but")
_LIMITS: Final = ("TimeoutError", "MemoryError", "RecursionError")
_BEGUN_IN: list[int] = []
"""The process in which pydantic-monty runs. Its threads belong to the whole process, and a fork copies no threads."""
_POOLS: dict[int, object] = {}
"""The open pools of this process."""
Hosts = Callable[[ScriptPermissions, ScriptLimits], ScriptHost]


class MontyEngine:
    """A `ScriptEngine`. Workers start at first use, and end with `close` or with the process."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._lock = threading.Lock()
        self._pool: Any = None

    def compile(
        self, source: str, name: str, *, entry: str, takes: int, allow: ScriptPermissions, limits: ScriptLimits
    ) -> MontyScript:
        """See the port."""
        if len(source.encode("utf-8", "replace")) > SOURCE_MAX_BYTES:
            raise ScriptCompileError(f"{name}: a script is a text of at most {SOURCE_MAX_BYTES} bytes.")
        script = MontyScript(self, source, name, entry, self._hosts(allow, limits), limits)
        script.check(takes)
        return script

    def close(self) -> None:
        """End the workers."""
        if _is_forked():
            return  # the workers belong to the parent
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.__exit__(None, None, None)
            _POOLS.pop(id(pool), None)

    def session(self, limits: ScriptLimits, modules: Mapping[str, object]) -> Any:
        """Open a new sandbox. Raises ScriptsMissingError, and ScriptsForkedError in the child of a fork."""
        monty = _monty()
        if _is_forked():  # before the lock: another thread may have held the lock at the fork
            raise ScriptsForkedError(
                "Scripts ran in this process's parent before the fork, and cannot run in the child."
            )
        with self._lock:
            if self._pool is None:
                if not _BEGUN_IN:
                    os.register_at_fork(after_in_child=_keep_for_ever)
                _BEGUN_IN[:] = [os.getpid()]
                pool = monty.Monty(
                    min_processes=0,
                    max_processes=WORKERS_MAX,
                    checkout_timeout=60.0,
                    feed_duration_limit_grace=GRACE_S,
                    turn_duration_limit_grace=GRACE_S,
                )
                self._pool = pool.__enter__()
                _POOLS[id(self._pool)] = self._pool
            return self._pool.checkout(
                script_name=NAME,
                limits={
                    "max_feed_duration_secs": limits.seconds,
                    "max_turn_duration_secs": limits.seconds,
                    "max_memory": limits.memory_bytes,
                    "max_recursion_depth": limits.depth,
                    "max_suspensions": LOAD_SUSPENSIONS + limits.host_calls,
                    "max_total_sleep_secs": 0.0,
                },
                external_modules=modules,
            )


@dataclass(slots=True)
class _Calls:
    """The counted host calls of one run. `most` 0 allows none: the run only loads the script."""

    most: int
    made: list[HostCall]
    begun: int = 0
    over: bool = False

    def counted(self, function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: Any, **kwargs: Any) -> object:
            self.begun += 1
            if self.begun > self.most:
                self.over = True
                raise RuntimeError(f"more than {self.most} host calls")
            return function(*args, **kwargs)

        return call


class MontyScript:
    """A `Script`: a text, run anew each time."""

    def __init__(
        self, engine: MontyEngine, source: str, name: str, entry: str, host: ScriptHost, limits: ScriptLimits
    ) -> None:
        self.name, self.digest = name, sha256_hex(source.encode("utf-8", "replace"))
        self._engine, self._entry, self._host, self._limits = engine, entry, host, limits
        self._source = _counting(source, name, expression=not entry)

    def check(self, takes: int) -> None:
        """Check that the script compiles, loads, and has its function. Raises ScriptCompileError."""
        monty, calls = _monty(), _Calls(0, [])
        try:
            with self._session(calls) as session:
                if not self._entry:
                    self._feed(session, f"def _when():\n  return (\n{self._source}\n)\n")
                    return
                self._feed(session, self._source)
                if calls.over:
                    raise ScriptCompileError(f"{self.name}: it makes a host call while it loads.")
                self._check_entry(session, takes, monty)
        except monty.MontyError as error:
            raise ScriptCompileError(f"{self.name}: {_said(error)}") from error

    def _check_entry(self, session: Any, takes: int, monty: ModuleType) -> None:
        """Call the function with too many arguments: Python refuses before any line of the function runs."""
        shown = ", ".join(["None"] * (takes + 3))
        try:
            self._feed(session, f"{self._entry}({shown})")
        except monty.MontyRuntimeError as error:
            said = _said(error)
            if f"name '{self._entry}' is not defined" in said or "object is not callable" in said:
                raise ScriptCompileError(f"{self.name}: it defines no function `{self._entry}`.") from error
            found = _TAKES.search(said)
            if found and not int(found[1] or found[2]) <= takes <= int(found[2]):
                raise ScriptCompileError(f"{self.name}: `{self._entry}` takes {takes} parameter(s): {said}") from error

    def run(self, arguments: Sequence[Json], given: Mapping[str, Json] | None = None) -> Ran:
        """See the port."""
        monty, calls = _monty(), _Calls(self._limits.host_calls, [])
        if holds_exact([*arguments, *(given or {}).values()]):
            raise ScriptError(f"verify script error: {self.name} would be given a number that its floats round.")
        try:
            with self._session(calls) as session:
                inputs = {f"_argument_{number}": value for number, value in enumerate(arguments)} | dict(given or {})
                if self._entry:
                    self._feed(session, self._source, dict(given or {}))
                    shown = ", ".join(f"_argument_{number}" for number in range(len(arguments)))
                    value = self._feed(session, f"{self._entry}({shown})", inputs)
                else:
                    value = self._feed(session, self._source, inputs)
                left = self._feed(session, "_rb_left[0]")
        except monty.MontyError as error:
            raise self._broken(error, calls, monty) from error
        if calls.over:
            raise self._limit(f"more than {calls.most} host calls", calls)
        if not isinstance(left, int) or left < 0:  # also where the script caught the error
            raise self._limit(f"more than {self._limits.steps} steps", calls)
        try:
            return Ran(json_value(value), tuple(calls.made))
        except (ReadbackError, RecursionError) as error:
            raise ScriptError(f"verify script error: {self.name} returned what has no JSON form.") from error

    def _session(self, calls: _Calls) -> Any:
        monty = _monty()
        functions = self._host.functions(calls.made.append)
        modules = {
            f"rb_{module}": monty.ExternalModule({name: calls.counted(each) for name, each in named.items()})
            for module, named in functions.items()
        }
        return _Prepared(self._engine.session(self._limits, modules), self._limits.steps)

    def _feed(self, session: Any, code: str, inputs: dict[str, Json] | None = None) -> object:
        return session.feed_run(code, inputs=inputs, print_callback=_monty().CollectString(PRINTED_MAX_BYTES))

    def _broken(self, error: Exception, calls: _Calls, monty: ModuleType) -> ScriptError:
        said = _said(error)
        stopped = isinstance(error, monty.MontyCrashedError) or said.startswith(_LIMITS)
        stopped = stopped or "suspension limit" in said or _OVER in said
        if stopped or calls.over:
            return self._limit(said, calls)
        details = {"calls": [each.as_json() for each in calls.made]}
        if calls.made and calls.made[-1].unavailable:
            return ScriptUnavailableError(f"{self.name}: {calls.made[-1].detail}", details=details)
        return ScriptError(f"verify script error: {self.name}: {said}", details=details)

    def _limit(self, said: str, calls: _Calls) -> ScriptLimitError:
        details = {"calls": [each.as_json() for each in calls.made]}
        return ScriptLimitError(f"verify script error: {self.name} was stopped: {said}", details=details)


class _Prepared:
    """A session after the prelude."""

    def __init__(self, session: Any, steps: int) -> None:
        self._session, self._steps = session, steps

    def __enter__(self) -> Any:
        session = self._session.__enter__()
        try:
            session.feed_run(f"{PRELUDE}_rb_left = [{self._steps}]\n")
        except BaseException as error:
            self._session.__exit__(type(error), error, error.__traceback__)
            raise
        return session

    def __exit__(self, *given: Any) -> None:
        self._session.__exit__(*given)


class _Steps(ast.NodeTransformer):
    """Insert the step count into each loop, comprehension and function."""

    def _block(self, node: Any) -> Any:
        self.generic_visit(node)
        begins = 1 if not isinstance(node, ast.For | ast.AsyncFor) and ast.get_docstring(node, clean=False) else 0
        node.body.insert(begins, ast.Expr(_step()))
        return node

    visit_For = visit_AsyncFor = visit_FunctionDef = visit_AsyncFunctionDef = _block  # noqa: N815 - ast's names

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        node.test = ast.BoolOp(ast.And(), [_step(), node.test])
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        self.generic_visit(node)
        node.body = ast.BoolOp(ast.And(), [_step(), node.body])
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.ifs.insert(0, _step())
        return node


def _step() -> ast.Call:
    return ast.Call(ast.Name("_rb_step", ast.Load()), [], [])


def _counting(source: str, name: str, *, expression: bool) -> str:
    """Return the script with step counting. Raises ScriptCompileError."""
    try:
        tree = ast.parse(f"(\n{source}\n)" if expression else source, mode="eval" if expression else "exec")
        for node in ast.walk(tree):
            named = [value for key, value in ast.iter_fields(node) if key != "value" and isinstance(value, str)]
            named += getattr(node, "names", []) if isinstance(node, ast.Global | ast.Nonlocal) else []
            refused = [each for each in named if each.startswith(_OURS) or each in _UNCOUNTED]
            if refused:
                raise ScriptCompileError(f"{name}: the name {refused[0]} is not a script's to use.")
        return ast.unparse(ast.fix_missing_locations(_Steps().visit(tree)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ScriptCompileError(f"{name}: {str(error) or type(error).__name__:.300}") from error


def _said(error: Exception) -> str:
    return str(error).strip().replace("\n", " ")[:500]


def _keep_for_ever() -> None:
    """Destroy no pool in the child of a fork. The child would otherwise remove the parent's workers from their poll."""
    import ctypes

    for pool in _POOLS.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))


def _is_forked() -> bool:
    return bool(_BEGUN_IN) and _BEGUN_IN[0] != os.getpid()


def _monty() -> ModuleType:
    try:
        import pydantic_monty
    except ImportError as error:
        raise ScriptsMissingError("Scripts need pydantic-monty, which is not installed.") from error
    return pydantic_monty
