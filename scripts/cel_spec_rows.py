"""Writes the rows of tests/expressions/data/cel_spec.jsonl out of a checkout of the CEL specification (Apache-2.0).

    python scripts/cel_spec_rows.py PATH-TO/cel-spec > tests/expressions/data/cel_spec.jsonl

A row: file, section, name, expression, and what it gives: a JSON value with its kind, or null for an error. Cases that
name variables, messages or containers of their own are left out: they are not of the subset that is spoken here.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILES = (
    "basic", "comparisons", "conversions", "fields", "fp_math", "integer_math", "lists", "logic", "macros", "parse",
    "string", "string_ext", "timestamps",
)  # fmt: skip
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<word>[\w.+\-/]+)|(?P<mark>[{}\[\]:;,])"""
)
_SCALARS = (
    "null_value",
    "bool_value",
    "int64_value",
    "uint64_value",
    "double_value",
    "string_value",
    "bytes_value",
    "type_value",
)
_NOT_SPOKEN = re.compile(
    r"TestAllTypes|google\.|strings\.|\.(format|lastIndexOf|indexOf|substring|split|replace|join|reverse|charAt)\(|\ba\."
)
"""Messages, and functions of the extension for texts that are not offered."""
_LEFT_OUT = ("type_env", "bindings", "container", "disable_macros", "any_eval_errors", "unknown")


def tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"not read: {text[at : at + 40]!r}")
        if found.lastgroup:
            yield found.lastgroup, found[0]
        at = found.end()


def message(words: list[tuple[str, str]], at: int) -> tuple[list[tuple[str, Any]], int]:
    """The fields of one message, up to its closing brace."""
    fields: list[tuple[str, Any]] = []
    while at < len(words) and words[at][1] != "}":
        if words[at][1] in ";,":
            at += 1
            continue
        name = words[at][1]
        at += 1
        if words[at][1] == "[":  # the name of a message's type
            at = next(i for i in range(at, len(words)) if words[i][1] == "]") + 1
        if words[at][1] == ":":
            at += 1
        if words[at][1] == "{":
            value, at = message(words, at + 1)
            at += 1
        elif words[at][1] == "[":
            value, at = [], at + 1
            while words[at][1] != "]":
                if words[at][1] == "{":
                    one, at = message(words, at + 1)
                    value.append(one)
                at += 1
            fields += [(name, each) for each in value]
            at += 1
            continue
        else:
            texts = []
            kind = words[at][0]
            while at < len(words) and words[at][0] == kind and (kind == "text" or not texts):
                texts.append(words[at][1])
                at += 1
            value = b"".join(map(_bytes, texts)) if kind == "text" else texts[0]
        fields.append((name, value))
    return fields, at


def _bytes(text: str) -> bytes:
    """What a quoted text says: its `\\u` and `\\U` are characters, its `\\x` and octal digits bytes."""
    text = re.sub(r"\\\\|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\\?", _unescaped, text)
    plain = "".join(c if ord(c) < 128 else "".join(f"\\x{b:02x}" for b in c.encode()) for c in text)
    found = ast.literal_eval("b" + plain)
    assert isinstance(found, bytes)
    return found


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    if code:
        one = chr(int(code, 16))
        return one if one.isprintable() else "".join(f"\\x{b:02x}" for b in one.encode())
    return "?" if found[0] == "\\?" else found[0]


def value_of(fields: list[tuple[str, Any]]) -> Any:
    """A value as [kind, JSON]. Raises KeyError for one of another form."""
    name, given = fields[0]
    if name in _SCALARS:
        kind = name.removesuffix("_value")
        if kind in ("string", "type"):
            return [kind, given.decode()]
        if kind == "bytes":
            return [kind, given.hex()]
        return [kind, given if isinstance(given, str) else given.decode()]
    if name == "list_value":
        return ["list", [value_of(each) for key, each in given if key == "values"]]
    if name == "map_value":
        return ["map", [[value_of(part) for _, part in each] for key, each in given if key == "entries"]]
    raise KeyError(name)


def rows(file: str, text: str) -> Iterator[list[Any]]:
    whole, _ = message(list(tokens(text)), 0)
    for section in (value for name, value in whole if name == "section"):
        title = dict(section[:1])["name"].decode()
        for fields in (value for name, value in section if name == "test"):
            case = dict(fields)
            if any(name in case for name in _LEFT_OUT) or _NOT_SPOKEN.search(case["expr"].decode()):
                continue
            if "eval_error" in case:
                given = None
            elif "value" in case:
                try:
                    given = value_of(case["value"])
                except KeyError:
                    continue
            else:
                given = ["bool", "true"]
            yield [file, title, case["name"].decode(), case["expr"].decode(), given]


def main() -> None:
    folder = Path(sys.argv[1], "tests", "simple", "testdata")
    for file in FILES:
        for row in rows(file, (folder / f"{file}.textproto").read_text()):
            print(json.dumps(row, ensure_ascii=True, separators=(",", ":")))


if __name__ == "__main__":
    main()
