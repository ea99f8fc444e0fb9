"""Whether a function passes the idempotency key on: determined from its code, when the contract is loaded.

Called by the decorators. Code is inspected and never run. An undetermined case gives no message.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import CodeType
from typing import Final

from readback.contracts.functions.calling import calling_of

KEY: Final = "idempotency_key"
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_PASSED_OVER: Final = frozenset({"COPY_FREE_VARS", "CACHE", "EXTENDED_ARG", "NOP"})


def why_keyless(function: Callable[..., object]) -> str:
    """Return why the key cannot reach the tool; "" where the key does, or the code does not show it.

    A context passed on whole reaches the tool: a built-in executor sends the context's key. Otherwise the function has
    to read the key itself.
    """
    try:
        name = calling_of(function).context
    except (TypeError, ValueError):
        return ""
    code = _code_of(function)
    if not name:
        return f"The function takes no Context, so it cannot read `{KEY}`."
    if code is None or name not in code.co_varnames or _mentions_key(code) or _passes_on(code, name):
        return ""
    return f"The function does not read `{name}.{KEY}`, and does not pass `{name}` on."


def searches_by_its_own_stamp(function: Callable[..., object]) -> bool:
    """Return whether a reader uses `ctx.stamp`, and neither `ctx.subject_stamp` nor `ctx.reverses`. In a compensation
    `ctx.stamp` is the reversal's own. No record has that stamp, so the reader never finds the effect.
    """
    try:
        name = calling_of(function).context
    except (TypeError, ValueError):
        return False
    code = _code_of(function)
    if code is None or not name:
        return False
    read = {attribute for each in _codes(code) for attribute in _attributes_of(each, name)}
    return "stamp" in read and not read & {"subject_stamp", "reverses"}


def _attributes_of(code: CodeType, name: str) -> Iterator[str]:
    """Return the variable's attributes read by the code."""
    steps = [one for one in dis.get_instructions(code) if one.opname not in _PASSED_OVER]
    for one, after in pairwise(steps):
        if _loads(one, name) and after.opname in _ATTRIBUTES:
            yield str(after.argval)


def _code_of(function: Callable[..., object]) -> CodeType | None:
    """Return the function's code; None for a function not written in Python."""
    bare = inspect.unwrap(function)
    code = getattr(getattr(bare, "__func__", bare), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _mentions_key(code: CodeType) -> bool:
    return any(KEY in each.co_names or KEY in each.co_consts for each in _codes(code))


def _passes_on(code: CodeType, name: str) -> bool:
    """Return whether the context is used for more than its attributes."""
    for each in _codes(code):
        if each is not code and name not in each.co_freevars:
            continue
        steps = [one for one in dis.get_instructions(each) if one.opname not in _PASSED_OVER]
        for one, after in zip(steps, [*steps[1:], None], strict=True):
            if not _loads(one, name):
                continue
            alone = isinstance(one.argval, str)
            if not alone or after is None or after.opname not in _ATTRIBUTES:
                return True
    return False


def _loads(one: dis.Instruction, name: str) -> bool:
    """Return whether an instruction puts the name's value on the stack; making a cell for inner functions does not
    count.
    """
    if not one.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
        return False
    if isinstance(one.argval, tuple):
        return name in one.argval
    return bool(one.argval == name)
