"""Searches and look-ups of built-in sources: what a file says of them is what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from readback.domain.reading import Lookup
from readback.sdk.files import contract_files
from tests.adapters.web import Said, serving
from tests.contract_files.writing import context, contract, written

KEYS = """
    kind: set
    side_effect: low_risk_internal
    target: order/{requested.id}
    identity: {target: authoritative.id, tenant: not_offered}
    arguments: {id: string}
    execute: {http: {url: "URL", method: POST, path: "/orders/{requested.id}"}}
    readers:
      - http: {url: "URL", path: "/orders/{requested.id}"}
    lookup:
      http: {url: "URL", path: /keys, query: {key: "{scope.idempotency_key}"}, landed: [done], failed: [rejected]}
    ensure: {there: authoritative.id == requested.id}
"""


@pytest.mark.requirement("FILE-tool-search")
@pytest.mark.parametrize("word", ["done", "rejected"])
def test_a_key_is_asked_for_in_the_query_and_another_ones_end_is_not_taken_for_its_own(
    word: str, tmp_path: Path
) -> None:
    """Without the query the service tells of the last key that it knows, which is somebody else's."""
    with serving() as service:
        service.answers["/keys"] = Said(body={"status": word})
        service.answers["/keys?key=key-1"] = Said(body={"status": "running"})
        actions = contract_files(written(tmp_path / "c.yaml", contract(KEYS.replace("URL", service.url))))
        asked = actions["one"].plan.hands.lookup
        assert asked is not None
        assert asked.call(context(), {"id": "o-1"}) == Lookup.pending()
        assert [each.path for each in service.asked] == ["/keys?key=key-1"]
