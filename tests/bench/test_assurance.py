"""The benchmark of release gates, in small: what it measures is what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.assurance import measured


@pytest.mark.requirement("GATES-speed")
def test_every_action_is_judged_and_the_review_finds_the_packed_orders(tmp_path: Path) -> None:
    found = measured(tmp_path, actions=20, judged=60)
    assert (found["actions"], found["changed"]) == (20, 0)
    assert found["judgements"] >= 20
    assert (found["reviewed"], found["strength"], found["affected"]) == (60, "looser", 2)
    assert found["replayed_a_second"] > 0 < found["review_s"]
