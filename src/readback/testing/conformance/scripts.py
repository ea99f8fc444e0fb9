"""The promises of every engine for verifiers' scripts. Subclass the suite, and provide an engine with a `FakeHost`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from readback.agent_errors import ScriptCompileError, ScriptError, ScriptLimitError
from readback.domain.contract.script_permissions import ScriptLimits, ScriptPermissions
from readback.ports.scripts import Functions, HostCall, Ran, ScriptEngine, ScriptHost

LIMITS = ScriptLimits(seconds=0.3, steps=20_000, memory_bytes=16_777_216, host_calls=5)

_SWALLOWED = "        try:\n            time.now_us()\n        except Exception:\n            pass"
HOSTILE = {
    "a loop without end": "    while True: pass",
    "a loop in an expression": "    return sum(x for x in range(10 ** 12))",
    "a list of a thousand million": "    x = [0] * 10 ** 9",
    "a text that doubles": "    x = 'a'\n    while True: x = x + x",
    "a dict that grows": "    x = {}\n    i = 0\n    while True:\n        x[i] = 'x' * 100\n        i = i + 1",
    "a huge integer": "    x = 10 ** 10 ** 8",
    "a huge shift": "    x = 1 << 10 ** 10",
    "a huge range in a list": "    x = list(range(10 ** 9))",
    "recursion without end": "    return run(result)",
    "recursion of two": "    def f(n): return g(n)\n    def g(n): return f(n)\n    return f(1)",
    "more host calls than allowed": "    for i in range(100): time.now_us()",
    "more host calls, and it swallows the refusals":
        f"    for i in range(10 ** 6):\n{_SWALLOWED}",
    "host calls whose refusals it swallows a little":
        f"    for i in range(8):\n{_SWALLOWED}\n    return True",
    "a sleep": "    import time as t\n    t.sleep(30)",
    "printing without end": "    while True: print('x' * 1000)",
}  # fmt: skip
"""Scripts stopped by a limit."""

_ENDLESS = "for i in range(20001): pass"
STEPS = {
    "rounds of a loop": f"    {_ENDLESS}",
    "rounds of a loop with a condition": "    i = 0\n    while i < 20001: i = i + 1",
    "rounds of a loop that ends in another branch": f"    {_ENDLESS}\n    else: return True",
    "rounds of a comprehension": "    return len([i for i in range(20001)])",
    "rounds that a comprehension leaves out": "    return [i for i in range(20001) if False]",
    "rounds of a generator": "    return any(False for i in range(20001))",
    "rounds of two loops": "    for i in range(200):\n        for j in range(200): pass",
    "calls of a function": "    def f(): return 1\n    return [f(), *map(lambda x: f(), range(10001))][0]",
    "steps whose refusal it swallows": f"    try:\n        {_ENDLESS}\n    except Exception: pass\n    return True",
    "steps whose refusal it swallows whole": f"    try:\n        {_ENDLESS}\n    except: pass\n    return True",
}
"""Scripts with too many steps in little time."""
UNCOUNTED = [
    "_rb_left = [10 ** 9]\ndef run(r): return True",
    "def run(r):\n    _rb_left[0] = 10 ** 9\n    return True",
    "def _rb_step(): return True\ndef run(r): return True",
    "def run(_rb_step): return True",
    "def run(r):\n    global _rb_left\n    return True",
    "def run(r):\n    \uff3frb_left[0] = 10 ** 9\n    return True",
    "def run(r):\n    eval('_rb_left')[0] = 10 ** 9\n    return True",
    "def run(r):\n    do = exec\n    do('while True: pass')\n    return True",
    "seen = locals()\ndef run(r): return True",
    "from builtins import exec as do\ndef run(r): return True",
    "from json import dumps as _rb_step\ndef run(r): return True",
]

WALKS = {
    "an import of sockets": "    import socket",
    "an import of processes": "    import subprocess",
    "an import of ctypes": "    import ctypes",
    "a shell": "    import os\n    return os.system('true')",
    "the environment": "    import os\n    return os.environ['PATH']",
    "a folder": "    import os\n    return os.listdir('/')",
    "a file": "    return open('/etc/passwd').read()",
    "a file by pathlib": "    from pathlib import Path\n    return Path('/etc/passwd').read_text()",
    "subclasses of object": "    return ().__class__.__bases__[0].__subclasses__()",
    "globals of a function": "    return run.__globals__",
    "code of a function": "    return run.__code__",
    "globals of a host function": "    return time.now_us.__globals__",
    "the module of a host function": "    return time.now_us.__self__",
    "the dict of a module": "    return time.__dict__",
    "dunder import": "    return __import__('os')",
    "builtins": "    return __builtins__",
    "frames of an exception":
        "    try:\n        1 / 0\n    except Exception as e:\n        return e.__traceback__.tb_frame",
    "a value that is no JSON": "    return time",
    "a number without end": "    return float('nan')",
    "an integer over the bounds": "    return 10 ** 401",
    "a nest that is too deep": "    x = []\n    for i in range(1000): x = [x]\n    return x",
}  # fmt: skip
"""Scripts with an error of their own, without harm to the host."""


class FakeHost:
    """A host with the function `time.now_us`, and with `http.get` as a failing look."""

    def functions(self, record: Callable[[HostCall], None]) -> Functions:
        """See the port."""

        def now_us() -> object:
            record(HostCall("time.now_us", ""))
            return 1_000_000

        def get(url: str) -> object:
            record(HostCall("http.get", url, failed=True, detail="status 503"))
            return {"status": 503, "body": ""}

        empty: dict[str, Callable[..., object]] = {}
        return {"time": {"now_us": now_us}, "http": {"get": get}, "fs": empty, "sql": empty, "hash": empty}


def fake_host(allow: ScriptPermissions, limits: ScriptLimits) -> ScriptHost:
    """Return the host of the suite."""
    return FakeHost()


class ScriptsConformance:
    """Every test uses `engine()` alone."""

    def engine(self) -> ScriptEngine:
        raise NotImplementedError

    def ran(self, source: str, *arguments: object, entry: str = "run", given: object = None) -> Ran:
        script = self.engine().compile(
            source, "verify", entry=entry, takes=len(arguments), allow=ScriptPermissions(), limits=LIMITS
        )
        return script.run(list(arguments), given)  # type: ignore[arg-type]

    def test_it_calls_the_function_with_what_it_is_given(self) -> None:
        source = "def run(result):\n    return json.encode({'verified': result['a'] == args['a']})\n"
        assert self.ran(source, {"a": [1, "x", None]}, given={"args": {"a": [1, "x", None]}}).value == (
            '{"verified": true}'
        )

    def test_nothing_of_one_run_is_in_the_next(self) -> None:
        source = "seen = []\ndef run(result):\n    seen.append(1)\n    return len(seen)\n"
        script = self.engine().compile(source, "v", entry="run", takes=1, allow=ScriptPermissions(), limits=LIMITS)
        assert [script.run([{}]).value for _ in range(3)] == [1, 1, 1]

    def test_every_host_call_is_recorded_and_a_failed_one_says_so(self) -> None:
        ran = self.ran("def run(r):\n    time.now_us()\n    return http.get('http://h/')['status']\n", {})
        assert ran.value == 503
        assert [(call.name, call.failed) for call in ran.calls] == [("time.now_us", False), ("http.get", True)]
        assert ran.failed[0].detail == "status 503"

    def test_an_expression_sees_what_it_is_given_and_nothing_else(self) -> None:
        assert self.ran("'x' in payload['response']", entry="", given={"payload": {"response": "xy"}}).value is True
        with pytest.raises(ScriptError):
            self.ran("nothing_here", entry="")

    @pytest.mark.parametrize(
        "source",
        ["this is not valid starlark!!", "def run(result)\n  pass", "x = 1", "run = 3", "def run(): pass",
         "def run(a, b): pass", "def other(result): pass", "raise ValueError('at load')",
         "time.now_us()\ndef run(r): pass", "import socket\ndef run(r): pass", "while True: pass",
         "(" * 10_000, "x = [0] * 10 ** 9\ndef run(r): pass"],
    )  # fmt: skip
    def test_what_does_not_compile_load_or_fit_is_found_before_it_is_needed(self, source: str) -> None:
        with pytest.raises(ScriptCompileError):
            self.engine().compile(source, "v", entry="run", takes=1, allow=ScriptPermissions(), limits=LIMITS)

    @pytest.mark.parametrize("what", HOSTILE)
    def test_a_hostile_script_is_stopped_and_the_next_one_runs(self, what: str) -> None:
        with pytest.raises(ScriptLimitError):
            self.ran(f"def run(result):\n{HOSTILE[what]}\n", {})
        assert self.ran("def run(result):\n    return True\n", {}).value is True

    @pytest.mark.parametrize("what", STEPS)
    def test_a_script_that_takes_too_many_steps_is_stopped_also_where_it_has_the_time(self, what: str) -> None:
        limits = replace(LIMITS, seconds=20.0)
        source = f"def run(result):\n{STEPS[what]}\n"
        script = self.engine().compile(source, "v", entry="run", takes=1, allow=ScriptPermissions(), limits=limits)
        with pytest.raises(ScriptLimitError, match="steps"):
            script.run([{}])

    def test_a_script_within_its_steps_is_let_be(self) -> None:
        body = "'Doc.'\n    return sum([1 for i in range(9000)]) + (lambda: 0)()"
        assert self.ran(f"def run(result):\n    {body}\n", {}).value == 9000

    @pytest.mark.parametrize("source", UNCOUNTED)
    def test_a_script_cannot_count_its_own_steps(self, source: str) -> None:
        with pytest.raises(ScriptCompileError):
            self.engine().compile(source, "v", entry="run", takes=1, allow=ScriptPermissions(), limits=LIMITS)

    @pytest.mark.parametrize("what", WALKS)
    def test_a_script_that_looks_for_a_way_out_finds_none(self, what: str) -> None:
        with pytest.raises((ScriptError, ScriptCompileError)):
            self.ran(f"def run(result):\n{WALKS[what]}\n", {})

    def test_it_begins_again_after_it_was_closed(self) -> None:
        engine = self.engine()
        engine.close()
        script = engine.compile(
            "def run(r):\n    return 1\n", "v", entry="run", takes=1, allow=ScriptPermissions(), limits=LIMITS
        )
        engine.close()
        assert script.run([{}]).value == 1
