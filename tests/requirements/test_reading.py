"""A malformed manifest is refused: a requirement must not be lost by a typing mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.requirements.manifest import ManifestError, read_manifest

HEAD = 'spec = "s"\n[[table]]\nname = "A"\narea = "Area"\nsection = "Section"\n'


def _write(folder: Path, *texts: str) -> Path:
    for number, text in enumerate(texts):
        (folder / f"{number}.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "no requirements"),
        (["not toml"], "0.toml"),
        ([HEAD + "[table.wanted]\nA = 'Text.'\n"], "unknown keys wanted"),
        ([HEAD.replace('area = "Area"\n', "") + "[table.required]\nA = 'Text.'\n"], "missing area"),
        ([HEAD + "[table.required]\nA = ''\n"], "A needs a text"),
        ([HEAD + "[table.deferred]\nA = 'Text.'\n"], "a sentence and a reason"),
        ([HEAD + "[table.deferred]\nA = { sentence = 'Text.', reason = '' }\n"], "A needs a text"),
        ([HEAD + "[table.required]\nA = 'Text.'\n"] * 2, "A is already in 0.toml"),
    ],
)
def test_a_malformed_manifest_is_refused(texts: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=message):
        read_manifest(_write(tmp_path, *texts))


def test_the_group_decides_whether_an_id_is_required(tmp_path: Path) -> None:
    groups = "[table.required]\nA = 'One.'\n[table.deferred]\nB = { sentence = 'Two.', reason = 'absent' }\n"
    first, second = read_manifest(_write(tmp_path, HEAD + groups))
    assert (first.id, first.required, first.reason) == ("A", True, "")
    assert (second.id, second.required, second.reason) == ("B", False, "absent")
