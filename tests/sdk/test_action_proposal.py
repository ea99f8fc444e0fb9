"""Proposals: inert, run once, honest about what they are, and loud when they are dropped."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from typing import Any

import pytest

from readback.client.proposal import Proposal, UnusedProposalWarning
from readback.errors import ArgumentError, HonestyError, OversizeError, ProposalError
from tests.sdk.test_action_definition import complete


def propose(**changes: Any) -> Proposal:
    return complete(**changes)(order_id="o-17", carrier="dhl-secret")


@pytest.mark.requirement("TRUTH-words-bool")
def test_a_proposal_refuses_to_be_used_as_true_or_false() -> None:
    proposal = propose()
    proposal.mark_run()
    with pytest.raises(HonestyError) as caught:
        bool(proposal)
    assert isinstance(caught.value, TypeError)
    assert caught.value.code == "usage.honesty"


@pytest.mark.requirement("INPUT-arguments")
def test_arguments_that_do_not_fit_make_no_proposal() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnusedProposalWarning)
        with pytest.raises(ArgumentError):
            complete()(order_id=17, carrier="dhl")  # type: ignore[arg-type]
        gc.collect()


def test_a_proposal_that_is_dropped_says_where_it_was_made() -> None:
    proposal = propose()
    with pytest.warns(UnusedProposalWarning, match="'ship_order' was never run") as caught:
        del proposal
    assert caught[0].filename == __file__


def test_a_proposal_that_was_run_is_silent_and_cannot_be_run_again() -> None:
    proposal = propose()
    assert not proposal.used
    proposal.mark_run()
    assert proposal.used
    with pytest.raises(ProposalError):
        proposal.mark_run()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del proposal
        gc.collect()


def test_looking_at_a_proposal_neither_uses_it_nor_shows_its_values() -> None:
    proposal = propose()
    assert repr(proposal) == "<Proposal ship_order(order_id, carrier), not run>"
    assert "secret" not in f"{proposal} {proposal!r}"
    assert not proposal.used
    proposal.mark_run()
    assert repr(proposal).endswith(", run>")


_AT_EXIT = """
import sys
sys.path.insert(0, {root!r})
from tests.sdk.test_action_proposal import propose
kept = propose()
"""


def test_nothing_is_said_when_the_interpreter_ends(request: pytest.FixtureRequest) -> None:
    script = _AT_EXIT.format(root=str(request.config.rootpath))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.requirement("LIFE-planned-proposed")
def test_a_proposal_names_the_plans_step_and_the_goal_it_comes_from() -> None:
    first = propose()
    planned = first.planned(step="3", intended={"status": "shipped"})
    assert first.used
    assert (planned.step, planned.intended) == ("3", {"status": "shipped"})
    request = planned.request("ship o-17", "a-0")
    assert (request.step, request.operation, request.replaces) == ("3", "ship o-17", "a-0")
    assert request.intended == {"status": "shipped"}
    assert request.requested == {"order_id": "o-17", "carrier": "dhl-secret"}
    assert not planned.used
    planned.mark_run()


def test_a_goal_without_a_json_form_is_refused_and_the_proposal_stays() -> None:
    proposal = propose()
    with pytest.raises(ArgumentError):
        proposal.planned(intended={"when": object()})
    with pytest.raises(OversizeError):
        proposal.planned(intended={"text": "x" * 2_000_000})
    assert not proposal.used
    proposal.mark_run()
