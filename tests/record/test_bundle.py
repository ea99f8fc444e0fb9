"""A bundle is bound by its hashes: whatever is changed in it is found before anything of it is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readback.audit.record.bundle import FIELDS, make_bundle, open_bundle
from readback.canon import sha256_hex, stored_bytes
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.errors import BundleError, ReadbackError, TableMissingError
from readback.ports.storage.store import LedgerStore, StoredEvent
from tests.record.conftest import bundle_of, streams


def longest(store: LedgerStore) -> list[StoredEvent]:
    return max(streams(store), key=len)


def resealed(whole: dict[str, Any]) -> bytes:
    """As somebody writes it who knows the form: the last hash is made again too."""
    rest = {name: value for name, value in whole.items() if name != "sha256"}
    return stored_bytes({**rest, "sha256": sha256_hex(stored_bytes(rest))})


@pytest.mark.requirement("LEDGER-bundle-closed")
def test_a_changed_byte_anywhere_is_found(rich: LedgerStore) -> None:
    data = bundle_of(rich, longest(rich))
    open_bundle(data)

    @settings(max_examples=150, derandomize=True, deadline=None, database=None)
    @given(place=st.integers(0, len(data) - 1), bit=st.integers(0, 7))
    def flipped(place: int, bit: int) -> None:
        changed = bytearray(data)
        changed[place] ^= 1 << bit
        with pytest.raises(BundleError):
            open_bundle(bytes(changed))

    flipped()
    for cut in (0, 1, len(data) // 2, len(data) - 1):
        with pytest.raises(BundleError):
            open_bundle(data[:cut])
    with pytest.raises(BundleError):
        open_bundle(data + b"\n")


def _first(whole: dict[str, Any]) -> str:
    return next(iter(whole["evidence"]))


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "another id": lambda w: w.update(id="0" * 64),
    "another action": lambda w: w.update(action="x"),
    "another tenant": lambda w: w.update(tenant="x"),
    "an entry less": lambda w: w["entries"].pop(),
    "the first entry less": lambda w: w["entries"].pop(0),
    "two entries in another order": lambda w: w["entries"].reverse(),
    "an entry twice": lambda w: w["entries"].append(w["entries"][-1]),
    "another entry": lambda w: w["entries"][0].update(envelope=w["entries"][0]["envelope"].replace('"at":', '"at":1')),
    "another leaf": lambda w: w["entries"][0].update(leaf="0" * 64),
    "an entry with more": lambda w: w["entries"][0].update(more=1),
    "evidence does not match": lambda w: w["evidence"].update({_first(w): "{}"}),
    "less evidence": lambda w: w["evidence"].pop(_first(w)),
    "more evidence": lambda w: w["evidence"].update({sha256_hex(b"1"): "1"}),
    "erased, by nobody": lambda w: (w["erased"].append(_first(w)), w["evidence"].pop(_first(w))),
    "another table": lambda w: next(iter(w["tables"].values())).pop(),
    "no table": lambda w: w["tables"].clear(),
    "no entries": lambda w: w["entries"].clear(),
    "another form": lambda w: w.update(format="readback/replay-bundle/2"),
    "a field more": lambda w: w.update(more=1),
    "a field less": lambda w: w.pop("proof"),
    "a number for a text": lambda w: w.update(action=1),
    "a text for a list": lambda w: w.update(entries="x"),
    "a list for an object": lambda w: w.update(evidence=[]),
}


@pytest.mark.requirement("LEDGER-bundle-closed")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_by_somebody_who_knows_the_form_is_found(rich: LedgerStore, change: str) -> None:
    whole = json.loads(bundle_of(rich, longest(rich)))
    assert whole.keys() == FIELDS
    CHANGES[change](whole)
    with pytest.raises(BundleError):
        open_bundle(resealed(whole))


def test_a_bundle_is_the_same_whenever_it_is_made(rich: LedgerStore) -> None:
    for events in streams(rich):
        data = bundle_of(rich, events)
        opened = open_bundle(data)
        assert bundle_of(rich, events) == data
        assert (opened.action_id, len(opened.entries)) == (events[0].action_id, len(events))
        assert opened.last_envelope == events[-1].envelope


def test_without_the_table_by_which_was_decided_there_is_no_bundle(rich: LedgerStore) -> None:
    with pytest.raises(TableMissingError, match="is not available"):
        make_bundle(longest(rich), lambda digest: b"{}", [RecoveryTable(DEFAULT_TABLE.rows[:3])])


def test_what_is_refused_names_what_to_do(rich: LedgerStore) -> None:
    with pytest.raises(ReadbackError) as refused:
        open_bundle(b"{}")
    assert refused.value.remedy
    assert refused.value.exit_code == 2
