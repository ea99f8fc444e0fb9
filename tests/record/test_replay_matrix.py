"""A sample of the truth-oracle matrix: every action, whatever the world did, replays to the same and has a record."""

from __future__ import annotations

import pytest

from readback import bootstrap
from readback.audit.record.action import is_action
from readback.client.operations.replaying import replay_bundle
from readback.domain.records.replayed import Comparison
from tests.record.conftest import VALIDATOR, bundle_of, record
from tests.truth.cells import GROUPS, cells
from tests.truth.stage import play

STRIDE = 37


@pytest.mark.requirement("LEDGER-replay-bundle", "LEDGER-record")
@pytest.mark.parametrize("number", range(len(GROUPS)), ids=lambda n: str(GROUPS[n]))
@pytest.mark.slow
def test_what_was_judged_is_judged_the_same_again(number: int) -> None:
    for cell in list(cells(number))[number::STRIDE]:
        played = play(cell)
        played.to_the_end()
        for held in list(played.store.projections()):
            events = played.store.events(held.projection.action_id)
            assert is_action(events)
            found = replay_bundle(bundle_of(played.store, events), bootstrap.predicate_engine())
            assert found.comparison is Comparison.SAME, f"{cell}: {found}"
            VALIDATOR.validate(record(played.store, events))
