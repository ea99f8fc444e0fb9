"""What expressions cost: a typical postcondition, and each function at one and at two times its input.

    python -m bench.expressions

The text above the table says what one evaluation takes, binding included. In the table, time and steps of an input of a
given size, and how both grow when the input is doubled: at most 2.2 times.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

from readback import bootstrap
from readback.canon import Json

TYPICAL: Final = "authoritative.status == intended.status && authoritative.amount == requested.amount"
GROWTH_MAX: Final = 2.2
MIB: Final = 1_048_576
Made = Callable[[int], dict[str, Json]]


def _text(make: Callable[[int], str], other: str | Callable[[int], str] = "") -> Made:
    def made(size: int) -> dict[str, Json]:
        return {"authoritative": make(size), "requested": other if isinstance(other, str) else other(size)}

    return made


def _lists(whole: Callable[[int], Any], parts: Callable[[int], Any]) -> Made:
    return lambda size: {"authoritative": whole(size), "requested": parts(size)}


INPUTS: Final[dict[str, tuple[str, Made, int]]] = {
    "==": ("authoritative == requested", _text(lambda n: "x" * n, lambda n: "x" * n), MIB),
    "== of lists": ("authoritative == requested", _lists(lambda n: [1] * n, lambda n: [1] * n), 150_000),
    "== of objects": (
        "authoritative == requested",
        lambda n: {root: [{"a": i, "b": "x"} for i in range(n)] for root in ("authoritative", "requested")},
        25_000,
    ),
    "in": (
        "requested in authoritative",
        lambda n: {"authoritative": [str(i) for i in range(n)], "requested": "x"},
        100_000,
    ),
    "in of numbers": (
        "requested in authoritative",
        lambda n: {"authoritative": list(range(n)), "requested": -1},
        100_000,
    ),
    "<": ("authoritative < requested", _text(lambda n: "x" * n, lambda n: "x" * n), MIB),
    "+": ("size(authoritative + requested) > 0", _text(lambda n: "x" * n, lambda n: "y" * (n // 8)), MIB // 2),
    "+ of lists": ("size(authoritative + requested) > 0", _lists(lambda n: [1] * n, lambda n: [1]), 190_000),
    "size": ("size(authoritative) > 0", _text(lambda n: "x" * n), MIB),
    "contains": ("authoritative.contains(requested)", _text(lambda n: "a" * n, "a" * 49 + "b" + "a" * 49), MIB),
    "startsWith": ("authoritative.startsWith(requested)", _text(lambda n: "a" * n, lambda n: "a" * n), MIB),
    "endsWith": ("authoritative.endsWith(requested)", _text(lambda n: "a" * n, lambda n: "a" * n), MIB),
    "matches": ("authoritative.matches('(x+x+)+y')", _text(lambda n: "x" * n), MIB),
    "matches, wide": ("authoritative.matches('[ab]*a[ab]{6}z')", _text(lambda n: "abbaaab" * (n // 7)), MIB),
    "lowerAscii": (
        "size(authoritative.lowerAscii()) > 0",
        _text(lambda n: "\N{LATIN SMALL LETTER E WITH ACUTE}A" * (n // 3)),
        MIB,
    ),
    "upperAscii": ("size(authoritative.upperAscii()) > 0", _text(lambda n: "a" * n), MIB),
    "trim": ("size(authoritative.trim()) == 0", _text(lambda n: "\u3000" * (n // 3)), MIB),
    "nfc": ("size(authoritative.nfc()) > 0", _text(lambda n: "a\u0315\u0300\u05ae\u0301" * (n // 9)), MIB),
    "string": ("string(authoritative) != ''", _text(lambda n: "x" * n), MIB),
    "bytes": ("size(bytes(authoritative)) > 0", _text(lambda n: "x" * n), MIB),
    "sha256": ("sha256(authoritative) != ''", _text(lambda n: "x" * n), MIB),
    "dec_eq": ("authoritative.all(x, dec_eq(x, '1.0'))", lambda n: {"authoritative": ["1.00"] * n}, 8_000),
    "timestamp": (
        "authoritative.all(x, timestamp(x) > timestamp('2020-01-01T00:00:00Z'))",
        lambda n: {"authoritative": ["2024-01-01T00:00:00.123456789Z"] * n},
        2_000,
    ),
    "contains_all": (
        "contains_all(authoritative, requested)",
        _lists(lambda n: list(range(n)), lambda n: list(range(n - 1, -1, -1))),
        30_000,
    ),
    "contains_all of texts": (
        "contains_all(authoritative, requested)",
        _lists(lambda n: [f"k{i}" for i in range(n)], lambda n: [f"k{i}" for i in range(n)]),
        30_000,
    ),
    "contains_all of objects": (
        "contains_all(authoritative, requested)",
        _lists(lambda n: [{"a": i, "b": None} for i in range(n)], lambda n: [{"a": i, "b": None} for i in range(n)]),
        4_000,
    ),
    "contains_any": (
        "contains_any(authoritative, requested)",
        _lists(lambda n: list(range(n)), lambda n: [-1] * n),
        40_000,
    ),
    "edited": (
        "edited(authoritative, requested) != ''",
        _lists(lambda n: "\n" * n, lambda n: [["\n" * (n // 2) + "x", "y"]]),
        400_000,
    ),
    "edited, indented": (
        "edited(authoritative, requested) != ''",
        lambda n: {"authoritative": "  a\n" * n, "requested": [["a \n" * (n // 2), "y\n"]]},
        100_000,
    ),
    "replaced": (
        "replaced(authoritative, requested, true) != ''",
        _lists(lambda n: "ab\n" * (n // 3), lambda n: [["b", "", True], ["a" * (n // 6), "c", False]]),
        400_000,
    ),
    "all": ("authoritative.all(x, x >= 0)", lambda n: {"authoritative": list(range(n))}, 30_000),
    "exists": ("authoritative.exists(x, x.a == -1)", lambda n: {"authoritative": [{"a": i} for i in range(n)]}, 30_000),
    "exists_one": ("authoritative.exists_one(x, x == 1)", lambda n: {"authoritative": list(range(n))}, 30_000),
    "map": ("authoritative.map(x, x * 2).size() > 0", lambda n: {"authoritative": list(range(n))}, 30_000),
    "filter": ("authoritative.filter(x, x >= 0).size() > 0", lambda n: {"authoritative": list(range(n))}, 30_000),
}
"""Each function with an expression, what makes its values at a size, and the size that is doubled up to."""


def cost(source: str, values: dict[str, Json]) -> tuple[float, int, str]:
    """Seconds of computing, steps and the kind of the answer: the best of three."""
    engine = bootstrap.predicate_engine()
    predicate, binding = engine.compile(source), engine.bind(values)
    best, kind = 9.9, ""
    for _ in range(3):
        began = time.process_time()
        kind = predicate.evaluate(binding).kind
        best = min(best, time.process_time() - began)
    return best, int(getattr(binding, "spent", 0)), kind


def memory(source: str, values: dict[str, Json]) -> int:
    """Bytes above the input's own, at most."""
    engine = bootstrap.predicate_engine()
    predicate, binding = engine.compile(source), engine.bind(values)
    tracemalloc.start()
    predicate.evaluate(binding)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def typical() -> float:
    """Seconds of one typical postcondition, binding included."""
    engine = bootstrap.predicate_engine()
    predicate = engine.compile(TYPICAL)
    roots: dict[str, Json] = {
        "intended": {"status": "paid", "amount": 10.1},
        "requested": {"status": "paid", "amount": 10.1},
        "authoritative": {"status": "paid", "amount": 10.1, "id": "o-1"},
        "observed": {"ok": True},
        "before": None,
        "scope": {"tenant": "acme"},
    }
    rounds, best = 20_000, 9.9
    for _ in range(5):
        began = time.process_time()
        for _ in range(rounds):
            predicate.evaluate(engine.bind(roots))
        best = min(best, (time.process_time() - began) / rounds)
    return best


def main() -> None:
    """Prints the table; exits with 1 where a bound is not kept."""
    print(
        f"{bootstrap.predicate_engine().name}: a typical postcondition takes {typical() * 1e6:.1f} us, binding included"
    )
    print(f"{'':26}{'size':>10}{'ms':>9}{'steps':>13}{'x time':>8}{'x steps':>9}{'MiB':>7}  answer")
    failed = False
    for name, (source, make, size) in INPUTS.items():
        half, whole = cost(source, make(size // 2)), cost(source, make(size))
        taken = memory(source, make(size)) / MIB
        by_time, by_steps = whole[0] / max(half[0], 1e-9), whole[1] / max(half[1], 1)
        failed |= whole[0] > 0.1 or taken > 64 or (by_time > GROWTH_MAX and whole[0] > 0.002)
        took = f"{whole[0] * 1e3:>9.2f}{whole[1]:>13,}{by_time:>8.2f}{by_steps:>9.2f}{taken:>7.1f}"
        print(f"{name:26}{size:>10,}{took}  {whole[2]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
