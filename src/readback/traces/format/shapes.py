"""Closed forms: a value matches its form exactly, or every fault is named with its place.

`forms` and `event_forms` describe files and events with these forms. Nothing is converted, and nothing unknown passes.
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
"""The keys of a retrieval's provenance under `config_sha256`."""
_HEX: Final = re.compile(r"[0-9a-f]{64}")


def is_hash(text: object) -> bool:
    """Whether a text is sixty-four lower-case hexadecimal digits."""
    return isinstance(text, str) and _HEX.fullmatch(text) is not None


def stable_id(kind: str, value: Value) -> str:
    """Return an id by content."""
    return f"{kind}_v1_{sha256_hex(canonical(value))}"


def spec_id(spec: dict[str, Value]) -> str:
    """Return the id of a specification: a hash of all keys but the id."""
    return stable_id("spec", _but(spec, "id"))


def plan_id(plan: dict[str, Value]) -> str:
    """Return the id of a plan: a hash of all keys but the id."""
    return stable_id("plan", _but(plan, "id"))


def node_id(node: dict[str, Value]) -> str:
    """Return the id of a node: a hash of kind, dependencies and parameters. The plan's id covers its step."""
    return stable_id("node", {"kind": node["kind"], "deps": node["dependencies"], "params": node["parameters"]})


def call_id(call: dict[str, Value]) -> str:
    """Return the id of a call: a hash of the step, the place within the step, the tool and the arguments."""
    made = {"step_id": call["step_id"], "i": call["call_idx"], "tool": call["tool_name"], "args": call["arguments"]}
    return stable_id("call", made)


def evidence_id(evidence: dict[str, Value]) -> str:
    """Return the id of evidence: a hash of origin and content, without the storage place."""
    return stable_id("ev", {key: evidence[key] for key in ("uri", "sha256", "span", "chunk_id")})


def claim_id(claim: dict[str, Value]) -> str:
    """Return the id of a claim: a hash of all keys but the id."""
    return stable_id("claim", _but(claim, "id"))


def result_hash(claim: dict[str, Value]) -> str:
    """Return the hash of the statement and its supports in order."""
    cited = ";".join(
        f"{each['ref_id']}:{each['span'][0]}-{each['span'][1]}:{each['snippet_sha256']}" for each in claim["supports"]
    )
    return sha256_hex(f"{claim['statement']}|{cited}".encode())


def run_id(spec: str, meta: dict[str, Value]) -> str:
    """Return the id of a run: a hash of specification, preset, seed and runtime."""
    made = {"spec_id": spec, **{key: meta[key] for key in ("preset", "seed", "runtime_fingerprint")}}
    return stable_id("run", made)


def config_hash(provenance: dict[str, Value]) -> str:
    """Return the hash of the settings for cutting and searching documents."""
    return sha256_hex(canonical({key: provenance[key] for key in CONFIG_KEYS}))


def _but(value: dict[str, Value], left_out: str) -> dict[str, Value]:
    return {key: part for key, part in value.items() if key != left_out}


FAULTS_MAX: Final = 10
"""The number of named faults of one value."""
INTEGER_MAX: Final = 2**53 - 1


class Fault(NamedTuple):
    """A fault of a value and its place."""

    pointer: str
    said: str


Shape: TypeAlias = Callable[[Value, str, list[Fault]], None]


def faults_of(value: Value, shape: Shape) -> list[Fault]:
    """Return all faults of a value, up to the limit."""
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
    """A list with parts of one form."""

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
    """One value of a set, of the same type."""

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
    """A whole number of at least zero, and no 0.0."""
    if type(value) is not int or not 0 <= value <= INTEGER_MAX:
        faults.append(Fault(at, f"a whole number from 0 is expected, not {shown(value)}"))


def whole(value: Value, at: str, faults: list[Fault]) -> None:
    """A whole number."""
    if type(value) is not int:
        faults.append(Fault(at, f"a whole number is expected, not {shown(value)}"))


def number(value: Value, at: str, faults: list[Fault]) -> None:
    """A number; true is no number."""
    if type(value) is not int and type(value) is not float:
        faults.append(Fault(at, f"a number is expected, not {shown(value)}"))


def share(value: Value, at: str, faults: list[Fault]) -> None:
    """A number from 0 to 1."""
    if (type(value) is not int and type(value) is not float) or not 0 <= value <= 1:
        faults.append(Fault(at, f"a number from 0 to 1 is expected, not {shown(value)}"))


def span(value: Value, at: str, faults: list[Fault]) -> None:
    """Two offsets, the second behind the first."""
    if (
        type(value) is not list
        or len(value) != 2
        or type(value[0]) is not int
        or type(value[1]) is not int
        or not 0 <= value[0] < value[1] <= INTEGER_MAX
    ):
        faults.append(Fault(at, f"[start, end] with 0 <= start < end is expected, not {shown(value)}"))


def free(value: Value, at: str, faults: list[Fault]) -> None:
    """Any value."""


def mapping(value: Value, at: str, faults: list[Fault]) -> None:
    """An object with any keys."""
    if type(value) is not dict:
        faults.append(Fault(at, f"an object is expected, not {shown(value)}"))


def step(at: str, key: str) -> str:
    """Return a JSON pointer with one further key."""
    return f"{at}/{key[:80].replace('~', '~0').replace('/', '~1')}"
