"""This engine's answers beside the oracle's: equal, both without a value, or different for a reason that is data."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from readback.adapters.cel.values.kinds import kind_of
from readback.adapters.cel.values.moments import Duration, Timestamp
from readback.canon.frozen import dataclass
from tests.expressions.generated import cases
from tests.expressions.oracle import CASES_A_PROCESS, asked
from tests.expressions.spoken import answer, is_number

KNOWN: Final[list[dict[str, str]]] = tomllib.loads(
    (Path(__file__).parent / "data" / "oracle_differences.toml").read_text()
)["difference"]


@dataclass(frozen=True, slots=True)
class Differing:
    """One answer that is not the oracle's."""

    source: str
    values: dict[str, Any]
    ours: str
    theirs: str

    @property
    def reason(self) -> str:
        """Why, by the data; empty for one that nothing explains."""
        for each in KNOWN:
            if re.search(each["ours"], self.ours) and re.search(each["theirs"], self.theirs):
                if re.search(each.get("source", ""), self.source):
                    return each["reason"]
        return ""


def differing(seed: int, expressions: int, bindings: int) -> Iterator[Differing]:
    """Every difference of a generated run, explained or not."""
    given = cases(seed, expressions, bindings)
    for at in range(0, len(given), CASES_A_PROCESS):
        chunk = given[at : at + CASES_A_PROCESS]
        for (source, bound), answers in zip(chunk, asked(chunk), strict=True):
            for values, theirs in zip(bound, answers, strict=True):
                kind, value = answer(source, values)
                if not _agree(kind, value, theirs):
                    yield Differing(source, values, f"{kind}: {_shown(kind, value)}", ": ".join(map(str, theirs)))


def counted(found: Iterator[Differing]) -> tuple[Counter[str], list[Differing]]:
    """How often each reason was met, and what has none."""
    reasons: Counter[str] = Counter()
    unexplained: list[Differing] = []
    for each in found:
        reasons[each.reason] += 1
        if not each.reason:
            unexplained.append(each)
    return reasons, unexplained


def _shown(kind: str, value: Any) -> str:
    return f"{kind_of(value)} {value!r}" if kind == "value" else str(value)


def _agree(kind: str, value: Any, theirs: list[Any]) -> bool:
    if theirs[0] != "value":
        return kind != "value"
    return kind == "value" and _same(value, theirs[1], theirs[2])


def _same(value: Any, kind: str, text: Any) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return str(value) == text and isinstance(value, bool)
        case "number":
            return is_number(value) and Decimal(str(value)) == Decimal(text)
        case "text":
            return isinstance(value, str) and value == text
        case "bytes":
            return isinstance(value, bytes) and value.hex() == text
        case "timestamp":
            return isinstance(value, Timestamp) and value.ns // 1_000 == int(text)
        case "duration":
            return isinstance(value, Duration) and value.ns // 1_000 == int(text)
        case "list":
            return isinstance(value, list) and len(value) == len(text) and all(map(_pair, value, text))
        case "object":
            return (
                isinstance(value, dict)
                and sorted(value) == [key for key, _ in text]
                and all(_pair(value[key], part) for key, part in text)
            )
        case _:
            return False


def _pair(value: Any, told: list[Any]) -> bool:
    return _same(value, told[0], told[1])


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    """`make differential`: a million cases, in seeds of a hundred thousand."""
    seeds, expressions, bindings = 10, 10_000, 10
    for seed in range(seeds):
        reasons, unexplained = counted(differing(seed, expressions, bindings))
        _say(f"seed {seed}: {expressions * bindings:,} cases, {reasons.total():,} answered otherwise for a reason")
        for each in unexplained[:20]:
            _say(f"  {each.source}\n    over {each.values}\n    here {each.ours}\n    there {each.theirs}")
        if unexplained:
            raise SystemExit(f"{len(unexplained)} differences have no reason in data/oracle_differences.toml")


if __name__ == "__main__":
    main()
