"""`edited` against the server's own code: the expectation of an edit is what the server itself would make of it."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from readback import bootstrap
from tests.packs.desk import installed

SCRIPT = Path(__file__).with_name("edit_with_server.mjs")
LIB = ("npm", "node_modules", "@modelcontextprotocol", "server-filesystem", "dist", "lib.js")
PIECES = (
    "a",
    "b",
    "x = 1",
    "$&",
    "é",
    "\ufeff",
    "\u00a0",
    "\x1f",
    "\x85",
    " ",
    "  ",
    "\t",
    "\n",
    "\n",
    "\r\n",
    "\n    ",
)
CASES = 600


def text_of(chance: random.Random, most: int) -> str:
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(0, most)))


def some_cases(seed: int) -> list[tuple[str, list[tuple[str, str]]]]:
    chance = random.Random(seed)
    found = []
    for _ in range(CASES):
        text = text_of(chance, 16)
        edits = []
        for _ in range(chance.randint(1, 3)):
            begin = chance.randint(0, len(text))
            old = text[begin : begin + chance.randint(0, 12)] if chance.random() < 0.7 else text_of(chance, 5)
            if chance.random() < 0.4:  # as models write it: the lines right, what is white at their ends not
                old = "\n".join(line.strip(" \t") for line in old.split("\n"))
            edits.append((old, text_of(chance, 6)))
        found.append((text, edits))
    return found


@pytest.mark.requirement("PACK-edited")
@pytest.mark.slow
def test_a_text_is_edited_as_the_server_itself_edits_it(tmp_path: Path) -> None:
    cases = some_cases(20260831)
    given = "".join(
        json.dumps([str(tmp_path / "file"), text, [{"oldText": old, "newText": new} for old, new in edits]]) + "\n"
        for text, edits in cases
    )
    node = shutil.which("node") or pytest.fail("node is not installed: run scripts/mcp_servers.sh")
    done = subprocess.run([node, str(SCRIPT), installed(*LIB)], input=given, capture_output=True, text=True, check=True)
    made = [json.loads(line) for line in done.stdout.split("\n") if line]
    engine = bootstrap.predicate_engine()
    edit = engine.compile("edited(before.text, requested.edits)", boolean=False)
    ours = [
        edit.evaluate(engine.bind({"before": {"text": text}, "requested": {"edits": [list(one) for one in edits]}}))
        for text, edits in cases
    ]
    differing = [
        (case, each.value, theirs) for case, each, theirs in zip(cases, ours, made, strict=True) if each.value != theirs
    ]
    assert not differing[:3]
    assert {None} < {each.value for each in ours}


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("edited(before.n, [['a', 'b']])", "type"),
        ("edited(before.text, ['a'])", "type"),
        ("edited(before.text, before.text)", "type"),
    ],
)
def test_what_cannot_be_edited_is_undetermined(expression: str, kind: str) -> None:
    engine = bootstrap.predicate_engine()
    found = engine.compile(expression, boolean=False).evaluate(engine.bind({"before": {"text": "a", "n": 1}}))
    assert found.kind == kind
