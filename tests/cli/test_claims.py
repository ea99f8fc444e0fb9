"""`readback claims`: what is claimed, whether it stands, and what a person says of it, at the shell."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Desk

WHO = ("--who", "human:eve", "--reason", "Seen by hand.")


@pytest.mark.requirement("CLAIM-contested")
def test_a_claim_that_stands_is_checked_with_exit_code_0_and_names_its_entries(desk: Desk) -> None:
    told = desk.ship("fine", code=0)
    for named in (told["id"], told["stamp"], f"{told['id']}:holds", f"{told['id']}:happened"):
        found = desk("claims", "check", named, "--json", code=0).json
        assert (found["status"], found["standing"], found["action"]) == ("standing", True, told["id"])
    assert [each["kind"] for each in found["grounds"]] == ["attempted", "observed", "read", "judged"]
    shown = desk("claims", "check", told["id"], code=0)
    assert "holds: standing. It stands." in shown.out
    assert "stands on entry" in shown.out
    assert [each["kind"] for each in told["claims"]] == ["happened", "holds"]


@pytest.mark.requirement("CLAIM-contested", "CLAIM-retracted")
def test_what_was_accepted_and_not_verified_is_listed_and_checked_with_exit_code_1(desk: Desk) -> None:
    told = desk.ship("missing", order_id="o-99", how="lie", code=3)
    [found] = desk("claims", "list", "--json", code=0).json
    assert (found["id"], found["status"], found["reason"]) == (f"{told['id']}:happened", "contested", "unverified")
    assert (found["confidence"], found["recommended_action"]) == ("0.99", "investigate")
    assert desk("claims", "check", found["id"], "--json", code=1).json == found
    assert desk("claims", "check", f"{told['id']}:holds", "--json", code=1).json["status"] == "contested"
    listed = desk("claims", "list", code=0)
    assert "Next: readback claims check CLAIM" in listed.err
    assert "investigate" not in listed.out
    assert "Investigate the mismatch" in desk("claims", "check", found["id"], code=1).out
    assert "Claim happened: It is contested" in desk("explain", told["id"]).out


@pytest.mark.requirement("CLAIM-contested")
def test_where_nothing_is_claimed_so_far_the_answer_is_undetermined(desk: Desk) -> None:
    told = desk.ship("waiting", "--wait", "0", how="lie", carrier="ups", code=3)
    assert desk("claims", "check", told["id"], "--json", code=3).json["status"] == "none"
    assert "Nothing is claimed" in desk("claims", "check", told["id"], code=3).out
    assert "The action has no claim." in desk("claims", "list", told["id"], code=0).err


def test_a_ledger_of_which_every_claim_stands_says_so(desk: Desk) -> None:
    told = desk.ship("fine", code=0)
    assert desk("claims", "list", "--json", code=0).json == []
    assert "Every claim of tenant default stands." in desk("claims", "list", code=0).err
    assert [each["kind"] for each in desk("claims", "list", told["id"], "--json", code=0).json] == ["happened", "holds"]


@pytest.mark.requirement("CLAIM-person", "L13")
def test_a_person_retracts_and_reinstates_and_both_stay_in_the_record(desk: Desk) -> None:
    told = desk.ship("fine", code=0)
    gone = desk("claims", "retract", told["id"], "--json", *WHO, code=0).json
    assert (gone["id"], gone["status"], gone["who"], gone["note"]) == (
        *(f"{told['id']}:holds", "retracted"),
        *("human:eve", "Seen by hand."),
    )
    assert desk("claims", "check", told["id"], code=1).out.count("said by human:eve: Seen by hand.") == 1
    assert "holds no more" in desk("show", told["id"], code=0).out
    back = desk("claims", "reinstate", told["id"], *WHO, code=0)
    assert "Recorded: reinstated, by human:eve." in back.out
    assert desk("claims", "check", told["id"], "--json", code=0).json["status"] == "reinstated"
    desk("ledger", "verify", code=0)


@pytest.mark.requirement("CLAIM-person")
@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("reinstate", "ID"), "claim.not-offered"),
        (("retract", "ID", "--expect-version", "1"), "claim.stale"),
        (("retract", "ID:whenever"), "claim.malformed"),
        (("retract", "nobody"), "input.not-found"),
        (("check", "ID:HOLDS"), "claim.malformed"),
        (("list", "nobody"), "input.not-found"),
    ],
)
def test_what_cannot_be_said_of_a_claim_is_refused_with_exit_code_2(
    desk: Desk, args: tuple[str, ...], code: str
) -> None:
    told = desk.ship("fine", code=0)
    before = desk("show", told["id"], "--json", code=0).out
    given = [each.replace("ID", told["id"]) if each.startswith("ID") else each for each in args]
    more = WHO if args[0] in ("retract", "reinstate") else ()
    assert desk("claims", *given, *more, "--json", code=2).json["error"]["code"] == code
    assert desk("show", told["id"], "--json", code=0).out == before


def test_a_saga_is_told_to_name_its_steps(desk: Desk) -> None:
    from readback import bootstrap
    from tests.lifecycle.trip import Trip

    desk.ship("fine", code=0)
    store = bootstrap.store(f"sqlite:///{desk.ledger}")
    saga = Trip(store=store, runtime=desk.runtime).run(operation="verified").id
    store.close()
    answer = desk("claims", "check", saga, "--tenant", "acme", "--json", code=2).json
    assert "saga" in answer["error"]["message"]


@pytest.mark.requirement("CLAIM-relied-on")
def test_a_claim_that_stands_upon_one_that_fell_is_told_to_be_no_ground_for_a_plan(desk: Desk) -> None:
    from readback import bootstrap
    from tests.lifecycle.trip import Trip

    desk.ship("fine", code=0)
    store = bootstrap.store(f"sqlite:///{desk.ledger}")
    steps = Trip(store=store, runtime=desk.runtime).run(operation="verified").steps
    store.close()
    flight, car = steps["flight"].outcome, steps["car"].outcome
    assert flight is not None
    assert car is not None
    assert "planned upon" not in desk("claims", "check", car.id, "--tenant", "acme", code=0).err
    desk("claims", "retract", flight.id, "--tenant", "acme", *WHO, code=0)
    told = desk("claims", "check", car.id, "--tenant", "acme", code=0)
    assert "It stands." in told.out
    assert f"Claims behind the plan no longer stand ({flight.id}:holds)" in told.err
