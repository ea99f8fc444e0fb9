"""A reader that is asked by an id which the server makes: where the answer was lost, it is not at fault."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.verification.reading import Presence, Reading
from readback.errors import TemplateError
from tests.contract_files.writing import Fakes, context, contract, loaded

TICKET = """
    kind: create
    side_effect: low_risk_internal
    target: ticket/{requested.title}
    arguments: {title: string}
    identity: {target: authoritative.title, tenant: not_offered, stamp: authoritative.stamp}
    execute:
      http: {url: "http://h", method: POST, path: /tickets, json: {title: "{requested.title}"}}
    readers:
      - http: {url: "http://h", path: "/tickets/{observed.id}"}
        consistency: strong
    ensure: {titled: authoritative.title == requested.title}
"""


def look(observed: Any, text: str = TICKET) -> Any:
    one = loaded(contract(text), fakes=Fakes()).sound().contracts["one"]
    return one.plan.hands.readers[0].call(context(observed=observed), {"title": "t"})


@pytest.mark.requirement("FILE-server-made-ids")
def test_without_an_answer_a_reader_that_is_asked_by_its_id_sees_nothing_and_is_not_at_fault() -> None:
    found = look(None)
    assert isinstance(found, Reading)
    assert (found.presence, "no answer" in found.detail) == (Presence.NOT_VISIBLE, True)


@pytest.mark.requirement("FILE-server-made-ids")
def test_an_answer_without_the_id_is_a_fault_of_the_contract_as_is_any_other_missing_value() -> None:
    with pytest.raises(TemplateError):
        look({"number": 7})
