"""Pointers from a record: what is one is read to the same words again, and nothing else is one."""

from __future__ import annotations

import pytest

from readback.domain.records.pointer import EntryPointer, EvidencePointer, parse_pointer
from readback.errors import UsageError

HEX = "0123456789abcdef" * 4


def test_evidence_is_pointed_to_by_its_digest_alone() -> None:
    text = f"evidence:sha256:{HEX}"
    assert parse_pointer(text) == EvidencePointer(HEX)
    assert str(EvidencePointer(HEX)) == text


@pytest.mark.parametrize("action_id", ["a", "a" * 256, "01hzy3v7", "über:sha256:x", "a:1"])
@pytest.mark.parametrize("version", [1, 10, 999_999_999])
def test_an_entry_is_pointed_to_by_its_action_its_number_and_its_leaf(action_id: str, version: int) -> None:
    text = f"entry:{action_id}:{version}:sha256:{HEX}"
    assert parse_pointer(text) == EntryPointer(action_id, version, HEX)
    assert str(EntryPointer(action_id, version, HEX)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEX,
        f"sha256:{HEX}",
        f"evidence:{HEX}",
        f"evidence:sha256:{HEX}0",
        f"evidence:sha256:{HEX[1:]}",
        f"evidence:sha256:{HEX.upper()}",
        f" evidence:sha256:{HEX}",
        f"evidence:sha256:{HEX}\n",
        f"entry:a:sha256:{HEX}",
        f"entry::1:sha256:{HEX}",
        f"entry:{'a' * 257}:1:sha256:{HEX}",
        f"entry:a:0:sha256:{HEX}",
        f"entry:a:01:sha256:{HEX}",
        f"entry:a:-1:sha256:{HEX}",
        f"entry:a:1000000000:sha256:{HEX}",
        f"entry:a:1:sha256:{HEX[1:]}",
        f"entry:a:1:sha256:{HEX}0",
        f"entry:a:1:sha256:{HEX.upper()}",
        f"entry:a\nb:1:sha256:{HEX}",
    ],
)
def test_what_is_no_pointer_is_refused_with_the_two_forms_named(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_pointer(text)
    assert repr(text)[:120] in refused.value.message
    assert "evidence:sha256:HEX" in str(refused.value)
    assert "entry:ID:VERSION:sha256:HEX" in str(refused.value)


def test_a_long_text_that_is_no_pointer_is_told_cut() -> None:
    with pytest.raises(UsageError) as refused:
        parse_pointer("x" * 10_000)
    assert refused.value.message == f"'{'x' * 119} is not a pointer."
