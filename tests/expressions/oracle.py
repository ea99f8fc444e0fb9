"""CEL by Google's cel-cpp, asked in a process of its own: the library loses references of `None` on Python 3.11.

A program: a line of JSON for each case on the way in (an expression, and the values that it is asked over), a line of
answers on the way out. An answer: `["value", kind, text]`, `["error", message]` or `["refused", message]`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from typing import Any

Case = tuple[str, list[dict[str, Any]]]
CASES_A_PROCESS = 5_000
_MESSAGE_MAX = 200


def asked(cases: list[Case]) -> list[list[list[Any]]]:
    """The answers, each case's in the order of its values."""
    lines = "\n".join(json.dumps(case) for case in cases)
    done = subprocess.run([sys.executable, "-m", __name__], input=lines, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or len(answers) != len(cases):
        raise RuntimeError(f"The oracle answered {len(answers)} of {len(cases)} cases: {done.stderr[-500:]}")
    return answers


def _written(value: Any) -> list[Any]:
    if value is None:
        return ["null", ""]
    if isinstance(value, bool):
        return ["boolean", str(value)]
    if isinstance(value, (int, float)):
        return ["number", repr(value)]
    if isinstance(value, str):
        return ["text", value]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", value.hex()]
    if isinstance(value, datetime):
        return ["timestamp", str((value - datetime(1970, 1, 1, tzinfo=value.tzinfo)) // timedelta(microseconds=1))]
    if isinstance(value, timedelta):
        return ["duration", str(value // timedelta(microseconds=1))]
    if isinstance(value, (list, tuple)):
        return ["list", [_written(each) for each in value]]
    if isinstance(value, dict):
        return ["object", sorted([[str(key), _written(part)] for key, part in value.items()], key=lambda pair: pair[0])]
    return ["other", type(value).__name__]


def _main() -> None:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_strings

    kept = [None] * 4_000_000  # references of None for the library to lose
    roots = ("intended", "requested", "observed", "before", "authoritative", "scope")
    env = cel.NewEnv(variables=dict.fromkeys(roots, cel.Type.DYN), extensions=[ext_strings.ExtStrings()])
    nothing = dict.fromkeys(roots)
    for line in sys.stdin:
        source, bindings = json.loads(line)
        try:
            program = env.compile(source)
        except RuntimeError as error:
            _say([["refused", str(error)[:_MESSAGE_MAX]]] * len(bindings))
            continue
        _say([_one(cel, env, program, {**nothing, **values}) for values in bindings])
    sys.stdout.flush()
    os._exit(len(kept) & 0)  # without giving the references back: more of them are lost than there were


def _say(answers: list[list[Any]]) -> None:
    sys.stdout.write(f"{json.dumps(answers)}\n")


def _one(cel: Any, env: Any, program: Any, values: dict[str, Any]) -> list[Any]:
    try:
        result = program.eval(env.Activation(values))
        if result.type() == cel.Type.ERROR:
            return ["error", str(result.value())[:_MESSAGE_MAX]]
        return ["value", *_written(result.plain_value())]
    except RuntimeError as error:
        return ["error", str(error)[:_MESSAGE_MAX]]


if __name__ == "__main__":
    _main()
