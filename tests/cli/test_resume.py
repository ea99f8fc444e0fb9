"""Going on with what is due: once, and for as long as it takes; nothing is lost, and nothing is done twice."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from tests.cli import shop
from tests.cli.conftest import CONTRACTS, Desk

HERE = ("--contracts", CONTRACTS)


def test_nothing_due_is_said_and_ends_with_0(desk: Desk) -> None:
    desk.ship("a", code=0)
    assert "Nothing is due" in desk("resume", *HERE, code=0).out


def test_resume_goes_on_with_everything_that_is_due(desk: Desk) -> None:
    """The tools lied; meanwhile somebody mended the state by hand, and the next reading sees it."""
    ids = {desk.ship(name, "--wait", "0", how="lie", code=3)["id"] for name in "abc"}
    orders = shop.load()
    orders["o-17"].update(status="shipped", carrier="dhl")
    shop.save(orders)
    desk.runtime.advance(2)
    answer = desk("resume", *HERE, "--json", code=0)
    assert {each["id"] for each in answer.json["actions"]} == ids
    assert all(each["verified"] for each in answer.json["actions"])


def test_what_is_not_settled_yet_ends_with_3_and_says_where_to_look(desk: Desk) -> None:
    outcome = desk.ship("a", "--wait", "0", how="lie", code=3)
    desk.runtime.advance(2)
    answer = desk("resume", *HERE, code=3)
    assert outcome["id"] in answer.out
    assert f"readback explain {outcome['id']}" in answer.err


def test_an_action_whose_contract_is_not_loaded_is_named_and_not_lost(desk: Desk) -> None:
    outcome = desk.ship("a", "--wait", "0", how="lie", code=3)
    desk.runtime.advance(2)
    answer = desk("resume", "--json", code=5)
    assert answer.json["errors"][0]["action"] == outcome["id"]
    assert answer.json["errors"][0]["error"]["code"] == "input.not-found"
    assert "--contracts" in answer.err
    assert desk("show", outcome["id"], "--json").json["outcome"]["state"] == "pending"
    assert len(desk("resume", *HERE, "--json").json["actions"]) == 1


def changed_shop(folder: Path) -> str:
    """The same contract with another window: somebody edited it while an action was on its way."""
    text = (Path(shop.__file__)).read_text(encoding="utf-8")
    (folder / "shop_since.py").write_text(text.replace('within="2s"', 'within="3s"'), encoding="utf-8")
    return "shop_since"


def test_an_action_whose_contract_has_changed_goes_to_review(desk: Desk) -> None:
    outcome = desk.ship("a", "--wait", "0", how="lie", code=3)
    desk.runtime.advance(2)
    answer = desk("resume", "--contracts", changed_shop(desk.folder), "--json", code=4)
    told = answer.json["actions"][0]
    assert told["id"] == outcome["id"]
    assert (told["state"], told["code"]) == ("review_required", "contract.changed")
    assert told["due_us"] is None
    picture = desk("show", outcome["id"], "--json").json
    assert picture["events"][-1]["kind"] == "held"
    assert picture["events"][-1]["path"] == ["unknown", "review_required"]
    assert "version 1 then, 1 now" in picture["events"][-1]["data"]["detail"]
    assert picture["key"]["status"] == "PENDING"
    assert "contract has changed" in " ".join(desk("explain", outcome["id"], "--json").json["why"])
    assert desk("ledger", "verify", "--json", code=0).json["ok"]
    assert desk("resume", *HERE, "--json", code=0).json["actions"] == []


@pytest.mark.parametrize("state", ["pending", "unknown", "failed"])
def test_what_has_ended_is_not_touched_by_a_changed_contract(desk: Desk, state: str) -> None:
    how = "decline" if state == "failed" else "lie"
    more = ("--wait", "0") if state == "pending" else ()
    outcome = desk.ship("a", *more, how=how)
    desk.runtime.advance(60)
    if state == "failed":
        desk("resume", *HERE, code=1)
    answer = desk("resume", "--contracts", changed_shop(desk.folder), "--json")
    assert len(answer.json["actions"]) == (0 if state == "failed" else 1)
    ended = desk("show", outcome["id"], "--json").json["outcome"]["state"]
    assert ended == ("failed" if state == "failed" else "review_required")
    assert desk("ledger", "verify", "--json", code=0).json["ok"]


def test_an_attempt_that_a_crash_left_open_goes_to_review_by_way_of_unknown(desk: Desk) -> None:
    from readback import bootstrap
    from readback.domain.state import State
    from readback.engine.resume import fold

    outcome = _crashed_in_the_call(desk)
    desk.runtime.advance(3600)
    answer = desk("resume", "--contracts", changed_shop(desk.folder), "--json", code=4)
    assert answer.json["actions"][0]["id"] == outcome
    store = bootstrap.store(f"sqlite:///{desk.ledger}", read_only=True)
    action = fold(store.events(outcome))
    store.close()
    assert action is not None
    assert action.state is State.REVIEW_REQUIRED
    assert not action.attempt_open
    assert desk("ledger", "verify", "--json", code=0).json["ok"]


def _crashed_in_the_call(desk: Desk) -> str:
    """An action with a durable attempt and nothing after it: the log is cut behind the attempt, in a copy of ours."""
    from readback import Readback
    from readback.ports.storage.store import Append, AppendResult
    from tests.cli.shop import ship

    class Dead(BaseException):
        """The process ends here."""

    with Readback.open(f"sqlite:///{desk.ledger}", runtime=desk.runtime) as rb:
        store = rb._session.store
        append = type(store).append

        def dies(batch: list[Append]) -> list[AppendResult]:
            if any(event.kind == "observed" for each in batch for event in each.events):
                raise Dead
            return append(store, batch)

        store.append = dies  # type: ignore[method-assign,assignment]
        with pytest.raises(Dead):
            rb.run(ship(order_id="o-17", carrier="dhl"), operation="a")
    found = desk("list", "--json").json[0]
    assert found["state"] == "executing"
    return str(found["id"])


def test_one_damaged_action_does_not_keep_the_others_waiting(desk: Desk) -> None:
    bad = desk.ship("a", "--wait", "0", how="lie", code=3)
    good = desk.ship("b", "--wait", "0", how="lie", code=3)
    database = apsw.Connection(str(desk.ledger))
    database.execute("drop trigger event_is_never_changed")
    database.execute("update event set version = 99 where action_id = ? and version = 4", (bad["id"],))
    database.close()
    desk.runtime.advance(2)
    answer = desk("resume", *HERE, "--json", code=6)
    assert [each["id"] for each in answer.json["actions"]] == [good["id"]]
    assert [each["action"] for each in answer.json["errors"]] == [bad["id"]]
    assert answer.json["errors"][0]["error"]["code"] == "store.corrupt"


def test_settings_from_the_environment_are_used(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READBACK_URL", f"sqlite:///{desk.folder}/elsewhere.db")
    monkeypatch.setenv("READBACK_CONTRACTS", f"{CONTRACTS}, json.decoder")
    monkeypatch.setenv("READBACK_PRINCIPAL", "agent:env")
    answer = desk("run", "ship", "--arg", "order_id=o-17", "--arg", "carrier=dhl", "--json", code=0)
    assert answer.json["principal"] == "agent:env"
    assert (desk.folder / "elsewhere.db").exists()
    assert not desk.ledger.exists()


# --- the worker, in process and under virtual time ------------------------------------------------------------


def test_a_worker_until_idle_goes_on_until_nothing_is_on_its_way(desk: Desk) -> None:
    for name in "abcd":
        desk.ship(name, "--wait", "0", how="lie", code=3)
    answer = desk("worker", *HERE, "--until-idle", "--concurrency", "2", "--json", code=3)
    told = answer.json
    assert told["errors"] == []
    assert told["advanced"] >= 4
    assert {each["state"] for each in desk("list", "--json").json} == {"unknown"}
    assert desk("ledger", "verify", "--json", code=0).json["ok"]


def test_a_worker_names_what_it_cannot_go_on_with_and_goes_on_with_the_rest(desk: Desk) -> None:
    (desk.folder / "other.py").write_text(OTHER, encoding="utf-8")
    mine = desk.ship("a", "--wait", "0", how="lie", code=3)
    desk("run", "tick", "--contracts", "other", "--wait", "0", "--json", code=3)
    desk.runtime.advance(2)
    answer = desk("worker", "--contracts", "other", "--until-idle", "--json", code=5)
    assert [each["action"] for each in answer.json["errors"]] == [mine["id"]]
    assert answer.err.count(mine["id"]) >= 1
    assert desk("show", mine["id"], "--json").json["outcome"]["state"] == "pending"


OTHER = """
from readback import Context, Reading, action

@action(kind="set", side_effect="ephemeral_write", target="clock", ensure={"set": "authoritative.on == true"},
        identity={"target": "authoritative.id", "tenant": "not_offered"}, within="1s", deadline="2s")
async def tick(ctx: Context) -> object:
    return {"ok": True}

@tick.read(source="clock", consistency="strong", independence="other_client")
async def clock(ctx: Context) -> Reading:
    return Reading.of({"id": "clock", "on": False})
"""


def test_a_worker_takes_only_its_tenants_actions_unless_told_otherwise(desk: Desk) -> None:
    mine = desk.ship("a", "--wait", "0", how="lie", code=3)
    desk.runtime.advance(2)
    assert desk("worker", *HERE, "--until-idle", "--tenant", "other", "--json", code=0).json["advanced"] == 0
    told = desk("worker", *HERE, "--until-idle", "--all-tenants", "--json", code=3).json
    assert told["advanced"] >= 1
    assert desk("show", mine["id"], "--json").json["outcome"]["state"] == "unknown"


@pytest.mark.parametrize("command", ["worker", "resume"])
def test_some_tenants_and_all_of_them_cannot_both_be_meant(desk: Desk, command: str) -> None:
    answer = desk(command, *HERE, "--tenant", "other", "--all-tenants", code=2)
    assert "Pass one of the two." in answer.err


@pytest.mark.parametrize(
    "given", [("resume",), ("approve", "a1", "--bytes"), ("freezes", "lift", "resource:x", "--reason", "r")]
)
def test_a_mistyped_address_is_an_error_and_leaves_no_new_ledger(desk: Desk, given: tuple[str, ...]) -> None:
    answer = desk(*given, "--url", "sqlite:///nowhere.db", code=6)
    assert "nowhere.db" in answer.err
    assert not (desk.ledger.parent / "nowhere.db").exists()


def test_a_worker_takes_over_what_a_dead_process_held(desk: Desk) -> None:
    outcome = _crashed_in_the_call(desk)
    assert desk("show", outcome, "--json").json["lease"]["owner"] == "virtual/1"
    desk.runtime._owner = "virtual/2"
    desk.runtime.declare_gone("virtual/1")
    findings = {each["name"]: each for each in desk("doctor", "--json", code=0).json["findings"]}
    assert findings["leases"]["details"]["gone"] == ["virtual/1"]
    desk("worker", *HERE, "--until-idle", "--json", code=0)
    told = desk("show", outcome, "--json").json
    assert told["outcome"]["verified"]
    assert told["outcome"]["attempts"] == 1
    assert told["lease"] is None
    assert json.loads(shop.path().read_text(encoding="utf-8"))["o-17"]["carrier"] == "dhl"
