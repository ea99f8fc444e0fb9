"""What verifiers answer, by the table of the specification, made to fail closed where that lets things through."""

from __future__ import annotations

import pytest

from readback.agent_errors import ScriptError
from readback.delegations.model.verdict import HookAction, Judgement, parse_hook, parse_verdict, together

NONE_GIVEN = "verifier returned verified=false with no reason"
BARE = "verifier returned bare false"


@pytest.mark.requirement("RALPH-outcome")
@pytest.mark.parametrize(
    ("out", "verified", "reason"),
    [
        ('{"verified": true}', True, ""),
        ('{"verified": true, "reason": "ignored"}', True, ""),
        ('{"verified": false, "reason": "x"}', False, "x"),
        ('{"verified": false}', False, NONE_GIVEN),
        ("{}", False, NONE_GIVEN),
        ('{"Verified": true}', False, NONE_GIVEN),
        ("null", False, NONE_GIVEN),
        ("True", True, ""),
        ("true", True, ""),
        (True, True, ""),
        ("False", False, BARE),
        ("false", False, BARE),
        (False, False, BARE),
    ],
)
def test_a_verdict_is_parsed_as_the_table_says(out: object, verified: bool, reason: str) -> None:
    assert parse_verdict(out, "verify") == Judgement(verified, reason, "verify")


@pytest.mark.requirement("RALPH-verifier-error")
@pytest.mark.parametrize(
    "out",
    [
        "some string",
        '{"verified": "true"}',
        '{"verified": 1}',
        '{"verified": null}',
        '{"verified": true, "reason": 5}',
        '{"verified": false, "verified": true}',
        '{"verified": true} {"verified": true}',
        '{"verified": NaN}',
        "1",
        "[]",
        "",
        1,
        0,
        None,
        [],
        {"verified": True},
        "\ud800",
    ],
)
def test_what_is_no_verdict_is_an_error_and_never_acceptance(out: object) -> None:
    with pytest.raises(ScriptError, match="gave no verdict"):
        parse_verdict(out, "verify")


@pytest.mark.parametrize(
    "returned",
    [
        None,
        "allow",
        True,
        {},
        {"action": "blok"},
        {"action": "Allow"},
        {"action": None},
        {"action": "block", "reason": 1},
        {"action": "modify", "payload": None},
        {"action": "modify", "payload": [1]},
        {"action": "modify", "payload": {"x": object()}},
        {"reason": "no action"},
    ],
)
def test_a_hook_that_says_none_of_the_three_is_an_error_where_others_would_go_on(returned: object) -> None:
    with pytest.raises(ScriptError):
        parse_hook(returned, "policy")


def test_a_hook_allows_blocks_or_modifies() -> None:
    assert parse_hook({"action": "allow"}, "h").action is HookAction.ALLOW
    blocked = parse_hook({"action": "block", "reason": "no"}, "h")
    assert (blocked.action, blocked.reason) == (HookAction.BLOCK, "no")
    assert parse_hook({"action": "modify", "payload": {"response": "x"}}, "h").payload == {"response": "x"}
    assert parse_hook({"action": "modify", "response": "x"}, "h").payload == {"action": "modify", "response": "x"}


def test_one_refutation_refutes_and_one_doubt_leaves_it_open() -> None:
    yes, no, open_ = Judgement(True), Judgement(False, "no"), Judgement(None, "cannot look")
    assert together([]).verified is True
    assert together([yes, yes]).verified is True
    assert together([yes, open_]) == Judgement(None, "cannot look")
    assert together([open_, no]) == Judgement(False, "no")
    assert together([no, Judgement(False, "neither")]).reason == "no; neither"
