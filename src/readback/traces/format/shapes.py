"""Closed forms: a value is exactly of its form, or every fault is named with its place.

`forms` says with these what each file and event looks like. Nothing is converted, and nothing unknown is let pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from readback.canon import sha256_hex
from readback.traces.format.report import shown
from readback.traces.format.strict_json import Value, canonical

# How every id and hash of the format is made, so that each can be made again.

CONFIG_KEYS: Final = (
    "b", "chunk_chars", "corpus_max_bytes", "k1", "lazy_index", "max_chunks", "max_docs", "overlap_chars",
    "parallel_scoring", "tokenizer",
)  # fmt: skip
"""What of a retrieval's provenance `config_sha256` covers."""
_HEX: Final = re.compile(r"[0-9a-f]{64}")


def is_hash(text: object) -> bool:
    """Sixty-four lower-case hexadecimal digits."""
    return isinstance(text, str) and _HEX.fullmatch(text) is not None


def stable_id(kind: str, value: Value) -> str:
    """The id of a thing by its content."""
    return f"{kind}_v1_{sha256_hex(canonical(value))}"


def spec_id(spec: dict[str, Value]) -> str:
    """Of everything in it but the id."""
    return stable_id("spec", _but(spec, "id"))


def plan_id(plan: dict[str, Value]) -> str:
    """Of everything in it but the id."""
    return stable_id("plan", _but(plan, "id"))


def node_id(node: dict[str, Value]) -> str:
    """Of kind, dependencies and parameters; its step is covered by the plan's id."""
    return stable_id("node", {"kind": node["kind"], "deps": node["dependencies"], "params": node["parameters"]})


def call_id(call: dict[str, Value]) -> str:
    """Of the step, the place within it, the tool and its arguments."""
    made = {"step_id": call["step_id"], "i": call["call_idx"], "tool": call["tool_name"], "args": call["arguments"]}
    return stable_id("call", made)


def evidence_id(evidence: dict[str, Value]) -> str:
    """Of where it is from and what it holds, not of where it is kept."""
    return stable_id("ev", {key: evidence[key] for key in ("uri", "sha256", "span", "chunk_id")})


def claim_id(claim: dict[str, Value]) -> str:
    """Of everything in it but the id."""
    return stable_id("claim", _but(claim, "id"))


def result_hash(claim: dict[str, Value]) -> str:
    """Of the statement and its supports in order."""
    cited = ";".join(
        f"{each['ref_id']}:{each['span'][0]}-{each['span'][1]}:{each['snippet_sha256']}" for each in claim["supports"]
    )
    return sha256_hex(f"{claim['statement']}|{cited}".encode())


def run_id(spec: str, meta: dict[str, Value]) -> str:
    """Of the specification, the preset, the seed and the runtime."""
    made = {"spec_id": spec, **{key: meta[key] for key in ("preset", "seed", "runtime_fingerprint")}}
    return stable_id("run", made)


def config_hash(provenance: dict[str, Value]) -> str:
    """Of how documents were cut and searched."""
    return sha256_hex(canonical({key: provenance[key] for key in CONFIG_KEYS}))


def _but(value: dict[str, Value], left_out: str) -> dict[str, Value]:
    return {key: part for key, part in value.items() if key != left_out}


FAULTS_MAX: Final = 10
"""Faults that are named of one value."""
INTEGER_MAX: Final = 2**53 - 1


class Fault(NamedTuple):
    """What is wrong with a value, and where in it."""

    pointer: str
    said: str


Shape: TypeAlias = Callable[[Value, str, list[Fault]], None]


def faults_of(value: Value, shape: Shape) -> list[Fault]:
    """All that is wrong, or nothing; bounded."""
    faults: list[Fault] = []
    shape(value, "", faults)
    return faults[:FAULTS_MAX]


def record(fields: Mapping[str, Shape]) -> Shape:
    """An object with exactly these keys."""
    names = fields.keys()

    def check(value: Value, at: str, faults: list[Fault]) -> None:
        if type(value) is not dict:
            faults.append(Fault(at, f"an object is expected, not {shown(value)}"))
            return
        if value.keys() != names:
            faults.extend(Fault(at, f"the key {name!r} is missing") for name in names if name not in value)
            unknown = (Fault(step(at, key), "there is no such key") for key in value if key not in names)
            faults.extend(islice(unknown, FAULTS_MAX))
        for name, shape in fields.items():
            if name in value:
                shape(value[name], f"{at}/{name}", faults)

    return check


def listed(shape: Shape, *, length: int | None = None) -> Shape:
    """A list whose parts all have one form."""

    def check(value: Value, at: str, faults: list[Fault]) -> None:
        if type(value) is not list or (length is not None and len(value) != length):
            faults.append(Fault(at, f"a list{'' if length is None else f' of {length}'} is expected"))
            return
        for index, part in enumerate(value):
            shape(part, f"{at}/{index}", faults)
            if len(faults) >= FAULTS_MAX:
                return

    return check


def nullable(shape: Shape) -> Shape:
    """The form, or null."""

    def check(value: Value, at: str, faults: list[Fault]) -> None:
        if value is not None:
            shape(value, at, faults)

    return check


def one_of(*allowed: str | int) -> Shape:
    """One of these, of the same type."""

    def check(value: Value, at: str, faults: list[Fault]) -> None:
        if not any(type(value) is type(each) and value == each for each in allowed):
            faults.append(Fault(at, f"{shown(value)} is none of {', '.join(map(str, allowed))}"))

    return check


def ident(kind: str) -> Shape:
    """An id by content, of this kind."""
    head = f"{kind}_v1_"

    def check(value: Value, at: str, faults: list[Fault]) -> None:
        if type(value) is not str or value[: len(head)] != head or not is_hash(value[len(head) :]):
            faults.append(Fault(at, f"{shown(value)} is no {head}… of 64 hexadecimal digits"))

    return check


def text(value: Value, at: str, faults: list[Fault]) -> None:
    """Any text."""
    if type(value) is not str:
        faults.append(Fault(at, f"a text is expected, not {shown(value)}"))


def digest(value: Value, at: str, faults: list[Fault]) -> None:
    """A SHA-256 in hexadecimal."""
    if not is_hash(value):
        faults.append(Fault(at, f"{shown(value)} is no SHA-256 in hexadecimal"))


def truth(value: Value, at: str, faults: list[Fault]) -> None:
    """true or false."""
    if type(value) is not bool:
        faults.append(Fault(at, f"true or false is expected, not {shown(value)}"))


def count(value: Value, at: str, faults: list[Fault]) -> None:
    """A whole number from zero, and no 0.0."""
    if type(value) is not int or not 0 <= value <= INTEGER_MAX:
        faults.append(Fault(at, f"a whole number from 0 is expected, not {shown(value)}"))


def whole(value: Value, at: str, faults: list[Fault]) -> None:
    """A whole number."""
    if type(value) is not int:
        faults.append(Fault(at, f"a whole number is expected, not {shown(value)}"))


def number(value: Value, at: str, faults: list[Fault]) -> None:
    """A number; true is none."""
    if type(value) is not int and type(value) is not float:
        faults.append(Fault(at, f"a number is expected, not {shown(value)}"))


def share(value: Value, at: str, faults: list[Fault]) -> None:
    """A number from 0 to 1."""
    if (type(value) is not int and type(value) is not float) or not 0 <= value <= 1:
        faults.append(Fault(at, f"a number from 0 to 1 is expected, not {shown(value)}"))


def span(value: Value, at: str, faults: list[Fault]) -> None:
    """Two places in something, the second behind the first."""
    if (
        type(value) is not list
        or len(value) != 2
        or type(value[0]) is not int
        or type(value[1]) is not int
        or not 0 <= value[0] < value[1] <= INTEGER_MAX
    ):
        faults.append(Fault(at, f"[start, end] with 0 <= start < end is expected, not {shown(value)}"))


def free(value: Value, at: str, faults: list[Fault]) -> None:
    """Anything."""


def mapping(value: Value, at: str, faults: list[Fault]) -> None:
    """An object with any keys."""
    if type(value) is not dict:
        faults.append(Fault(at, f"an object is expected, not {shown(value)}"))


def step(at: str, key: str) -> str:
    """One key deeper, as a JSON pointer."""
    return f"{at}/{key[:80].replace('~', '~0').replace('/', '~1')}"
