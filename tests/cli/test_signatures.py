"""`ledger verify` over what people signed with real keys: by whom, altered in the file, and of before it was kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from readback import Approver, ApproverKey, Context, Readback, Reading, action
from readback.audit.record.bundle import open_bundle
from readback.canon import parse_json
from readback.client.authoring.action import ActionDefinition
from tests.cli.conftest import Desk
from tests.cli.conftest import desk as desk  # the fixture

pytestmark = pytest.mark.requirement("LEDGER-signed-words")
TENANT = "acme"
BY_EVE: Any = {"who": "eve", "reason": "Seen by hand."}


def wipe_of(rows: dict[str, Any]) -> ActionDefinition[Any]:
    """A critical mutation; the first disk is wiped in part."""

    @action(
        name="wipe",
        kind="set",
        side_effect="critical_mutation",
        target="disk/{requested.disk}",
        identity={
            "target": "authoritative.id",
            "tenant": "authoritative.tenant",
            "actor": "authoritative.by",
            "permission_scope": "not_offered",
        },
        ensure={"wiped": "authoritative.wiped == true"},
        within="2s",
        polls=["0s"],
        late_window="0s",
        quorum=2,
    )
    def wipe(ctx: Context, disk: str) -> object:
        row = {"id": disk, "tenant": TENANT, "by": ctx.principal, "stamp": ctx.stamp}
        rows[disk] = {**row, "wiped": "partly" if disk == "d-1" else True}
        return {"status": "ok"}

    for name in ("a", "b"):

        @wipe.read(name=name, source=name, consistency="strong", independence="other_system", attributes=True)
        def look(ctx: Context, disk: str) -> Reading:
            row = rows.get(disk)
            return Reading.absent() if row is None else Reading.of(dict(row), stamp=row["stamp"])

    return wipe


@pytest.fixture
def key(desk: Desk) -> ApproverKey:
    return ApproverKey.create(desk.folder / "eve.pem", "correct horse battery")


@pytest.fixture
def decided(desk: Desk, key: ApproverKey) -> str:
    return decide(f"sqlite:///{desk.ledger}", desk, key)


def decide(url: str, desk: Desk, key: ApproverKey) -> str:
    """A ledger in which Eve decided a review, lifted a freeze, and retracted and reinstated a claim; the first's id."""
    made = wipe_of({})
    with Readback.open(
        url, tenant=TENANT, principal="agent:ops", runtime=desk.runtime, actions=[made],
        break_glass="The site is down.", approvers=[Approver("eve", key.public_key, (TENANT,))],
    ) as rb:  # fmt: skip
        bad, good = rb.run(made(disk="d-1"), operation="op-1"), rb.run(made(disk="d-2"), operation="op-2")
        rb.resolve(bad.id, "attest_done", expect_version=rb.review(bad.id).version, **BY_EVE, signature=key)
        rb.lift("resource:disk/d-1", **BY_EVE, signature=key)
        rb.retract(f"{good.id}:happened", **BY_EVE, signature=key)
        rb.reinstate(f"{good.id}:happened", **BY_EVE, signature=key)
    return bad.id


def listed(desk: Desk, monkeypatch: pytest.MonkeyPatch, public_key: str) -> None:
    """The operator lists Eve with this key, for nothing any more."""
    folder = desk.folder / "config" / "readback"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f'[approvers.eve]\nkey = "{public_key}"\ntenants = []\n')
    (folder / "config.toml").chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk.folder / "config"))


def verified(desk: Desk, code: int) -> Any:
    return desk("ledger", "verify", "--json", code=code).json


def by_hand(path: Path, statement: str, *values: object) -> list[Any]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(statement, values).fetchall()  # type: ignore[arg-type]
    finally:
        connection.close()


def test_signatures_of_decisions_are_checked_by_whom_the_settings_list(
    desk: Desk, decided: str, key: ApproverKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = verified(desk, 0)
    assert told["signatures"] == {"kept": 5, "not_kept": 0}
    assert "signatures of decisions not checked: no list of approvers was given" in told["unchecked"]
    listed(desk, monkeypatch, key.public_key)
    told = verified(desk, 0)
    assert (told["faults"], told["unchecked"]) == ([], [])
    other = ApproverKey.create(desk.folder / "other.pem", "correct horse battery")
    listed(desk, monkeypatch, other.public_key)
    told = verified(desk, 1)
    assert [fault["code"] for fault in told["faults"]] == ["signature"] * 5
    assert "no listed approver has this name and key" in told["faults"][0]["what"]


def test_a_bit_that_was_flipped_in_the_file_is_found(
    desk: Desk, decided: str, key: ApproverKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(desk, monkeypatch, key.public_key)
    rows = by_hand(desk.ledger, "select id, body from payload where instr(body, 'readback-signed-word') > 0")
    assert len(rows) == 4
    for number, body in rows:
        for part in (b'"signature":"', b'"statement":"'):
            changed = bytearray(body)
            changed[changed.index(part) + len(part) + 1] ^= 1
            by_hand(desk.ledger, "update payload set body = ? where id = ?", bytes(changed), number)
            told = verified(desk, 1)
            assert {fault["code"] for fault in told["faults"]} == {"evidence", "signature"}
        by_hand(desk.ledger, "update payload set body = ? where id = ?", bytes(body), number)
    assert verified(desk, 0)["faults"] == []


def test_a_bundle_carries_the_signature_to_whoever_has_no_ledger(desk: Desk, decided: str, key: ApproverKey) -> None:
    desk("ledger", "export", "--bundle", decided, "--out", "bundle.json", code=0)
    bundle = open_bundle((desk.folder / "bundle.json").read_bytes())
    words: Any = [parse_json(body) for body in bundle.evidence.values() if b"readback-signed-word" in body]
    assert sorted(str(parse_json(word["statement"])[0]) for word in words) == [  # type: ignore[index,call-overload]
        "readback/lift/2",
        "readback/resolution/1",
    ]
    assert {word["signer"] for word in words} == {"eve"}


def test_a_backup_that_is_put_back_has_them_too(
    desk: Desk, decided: str, key: ApproverKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(desk, monkeypatch, key.public_key)
    desk("ledger", "backup", "--out", "kept.db", code=0)
    told = desk("ledger", "verify", "--json", "--url", f"sqlite:///{desk.folder / 'kept.db'}", code=0).json
    assert (told["signatures"], told["unchecked"]) == ({"kept": 5, "not_kept": 0}, [])


@pytest.mark.slow
def test_a_ledger_in_postgresql_keeps_them_too(
    desk: Desk, ledger_url: str, key: ApproverKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(ledger_url, desk, key)
    listed(desk, monkeypatch, key.public_key)
    told = desk("ledger", "verify", "--json", "--url", ledger_url, code=0).json
    assert (told["faults"], told["unchecked"], told["signatures"]) == ([], [], {"kept": 5, "not_kept": 0})
