"""The caller's requirements on a trace. A run's own declarations can only raise the requirements.

The command reads the policy from a file outside the run, or uses the default. A policy inside the run is ignored.
"""

from __future__ import annotations

from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.traces.format.fault import RUN_FILE_MAX_BYTES, TraceInputError, TracePolicyError
from readback.traces.format.strict_json import Value, canonical, strict_json

SUPPORTS_MAX: Final = 1_000
MARKS_MAX: Final = 32
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """A field of a claim's `structured` part, with the value for too little evidence."""

    key: str
    equals: Json


@dataclass(frozen=True, slots=True)
class Policy:
    """The required evidence of a derived claim, and the mark for too little evidence."""

    min_supports_per_claim: int = 1
    insufficient_statuses: frozenset[str] = frozenset()
    insufficient_marks: tuple[Mark, ...] = ()
    given: bool = False
    """Whether the caller gave a policy."""

    def marks(self, claim: dict[str, Value]) -> bool:
        """Whether a claim bears the mark. Equality is JSON's: 1 differs from true."""
        if claim["status"] in self.insufficient_statuses:
            return True
        structured = claim["structured"]
        if not isinstance(structured, dict):
            return False
        return any(
            mark.key in structured and canonical(structured[mark.key]) == canonical(mark.equals)
            for mark in self.insufficient_marks
        )


DEFAULT_POLICY: Final = Policy()


def read_policy(data: bytes, name: str) -> Policy:
    """Read a policy from a caller's file. Raises TracePolicyError with every fault."""
    try:
        value = strict_json(data, name, bytes_max=RUN_FILE_MAX_BYTES)
    except TraceInputError as error:
        raise TracePolicyError(error.message) from error
    problems: list[str] = []
    policy = _policy(value, problems)
    if problems or policy is None:
        said = "; ".join(problems)
        listed = [{"reason": each} for each in problems]
        raise TracePolicyError(f"{name} is no policy: {said}.", details={"problems": listed})
    return policy


def _policy(value: Value, problems: list[str]) -> Policy | None:
    if not isinstance(value, dict):
        problems.append("it is no object")
        return None
    _closed(value, {"version", "min_supports_per_claim", "insufficient"}, "", problems)
    if value.get("version") != VERSION or isinstance(value.get("version"), bool):
        problems.append(f"`version` has to be {VERSION}")
    least = value.get("min_supports_per_claim", 1)
    if type(least) is not int or not 1 <= least <= SUPPORTS_MAX:
        problems.append(f"`min_supports_per_claim` has to be a whole number from 1 to {SUPPORTS_MAX}")
    marked = value.get("insufficient", {})
    if not isinstance(marked, dict):
        problems.append("`insufficient` has to be an object")
        return None
    _closed(marked, {"statuses", "structured"}, "insufficient.", problems)
    return Policy(least, _statuses(marked, problems), _marks(marked, problems), given=True)


def _closed(value: dict[str, Value], known: set[str], where: str, problems: list[str]) -> None:
    problems.extend(f"there is no key `{where}{key[:80]}`" for key in value if key not in known)


def _statuses(marked: dict[str, Value], problems: list[str]) -> frozenset[str]:
    found = marked.get("statuses", [])
    if not isinstance(found, list) or len(found) > MARKS_MAX or not all(isinstance(s, str) and s for s in found):
        problems.append("`insufficient.statuses` has to be a list of texts")
        return frozenset()
    if "validated" in found:
        problems.append("`insufficient.statuses` cannot name `validated`")
    return frozenset(found)


def _marks(marked: dict[str, Value], problems: list[str]) -> tuple[Mark, ...]:
    found = marked.get("structured", [])
    if not isinstance(found, list) or len(found) > MARKS_MAX:
        problems.append("`insufficient.structured` has to be a list")
        return ()
    marks = []
    for each in found:
        if not isinstance(each, dict) or set(each) != {"key", "equals"} or not isinstance(each["key"], str):
            problems.append("each of `insufficient.structured` has exactly `key` (a text) and `equals`")
        else:
            marks.append(Mark(each["key"], each["equals"]))
    return tuple(marks)
