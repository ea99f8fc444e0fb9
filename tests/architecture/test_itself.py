"""The project speaks of itself alone: not of where it was written, nor of where packages come from."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.architecture.tree import ROOT, tracked

# This file has to name what it forbids.
_THIS = "tests/architecture/test_itself.py"

# What nobody outside can follow, and why it must not be there.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.])/(?:work|root|home/\w+|tmp/rb|opt/(?:pypi|wheels))\b(?:/|$)",
    "a folder outside the project": r"\.\./shared\b",
    "the number of an issue": r"(?i)\bissues? *(?:#|no\.? *|number *)?\d+\b",
    "a seed by its number": r"(?i)\bseeds? *0\d\d\b|5dda335d24a03966",
    "a package registry": r"(?i)\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|proxy\.golang\.org)\b",
    "a registry option": r"(?:^|\s)--(?:extra-)?index-url\b|--find-links\b|--trusted-host\b",
    "how it was written": (
        r"(?i)\bas an ai\b|\b(?:this|previous|next|another|earlier) session of\b|\bsub-?agents?\b"
        r"|\bhelper session|\bthe brief (?:says|asks)\b|co-authored-by"
    ),
}
# Tests that read the corpus of specifications where it is at hand; they are skipped where it is not.
CORPUS_READERS: dict[str, str] = {}


@cache
def _text(name: str) -> str:
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""  # pictures and archives speak of nothing


@pytest.mark.parametrize("what", FORBIDDEN)
@pytest.mark.slow
def test_no_file_speaks_of(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what], re.MULTILINE)
    found = [
        f"{name}:{text.count(chr(10), 0, hit.start()) + 1}: {hit.group().strip()}"
        for name in tracked()
        if name != _THIS and name not in CORPUS_READERS
        for text in [_text(name)]
        for hit in pattern.finditer(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("what", "sample"),
    [
        ("a path of one machine", 'open("/work/main/x")'),
        ("a folder outside the project", "see ../shared/design"),
        ("the number of an issue", "as Issue #12 says"),
        ("a seed by its number", "seed 000, 'Words'"),
        ("a package registry", "https://files.pythonhosted.org/packages/x"),
        ("a registry option", "--index-url https://example.invalid/simple"),
        ("how it was written", "Co-Authored-By: somebody"),
    ],
)
def test_the_patterns_bite(what: str, sample: str) -> None:
    assert re.search(FORBIDDEN[what], sample, re.MULTILINE)


def test_every_pattern_has_a_sample() -> None:
    assert len(FORBIDDEN) == 7
