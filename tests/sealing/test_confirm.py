"""Level 4 in every near case: what is not signed, not covered or not bound leaves the level as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from readback import Readback, bootstrap
from readback.audit.evidence.attest import Authority, key_of
from readback.audit.sealing import confirm
from readback.audit.sealing.confirm import is_confirmed
from readback.domain.verdict import Level
from readback.engine.resume import fold
from readback.log.checkpoint import Checkpoint, open_checkpoint
from readback.ports.storage.store import LedgerStore
from tests.sealing.given import NAME, Signer, authority
from tests.sealing.shop import runtime, stamp_note


class Sealed:
    """A ledger of two actions, the first of which is covered."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self.url = f"sqlite:///{self.path}"
        self.signer = bootstrap.create_log_key(folder / "log.key", NAME)
        self.authority = Authority(key_of(self.signer), bootstrap.verify_signature)
        with self.opened(seal={"key_file": str(folder / "log.key")}) as rb:
            self.id = rb.run(stamp_note(text="a")).id
        with self.opened() as rb:
            self.open_id = rb.run(stamp_note(text="b")).id

    def opened(self, **more: object) -> Readback:
        return Readback.open(self.url, runtime=runtime(), **more)  # type: ignore[arg-type]

    def store(self) -> LedgerStore:
        return bootstrap.store(self.url, read_only=True)

    def by_hand(self, *statements: str) -> None:
        connection = apsw.Connection(str(self.path))
        for trigger in ("event_is_never_changed", "event_is_never_removed"):
            connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        for statement in statements:
            connection.execute(statement)
        connection.close()

    def confirms(self, action_id: str = "", by: Authority | None = None) -> bool:
        store = self.store()
        try:
            return is_confirmed(store, action_id or self.id, by or self.authority)
        finally:
            store.close()


@pytest.fixture
def made(tmp_path: Path) -> Sealed:
    return Sealed(tmp_path)


@pytest.mark.requirement("TRUST-4")
def test_trust_4_is_given_only_to_what_is_covered_and_by_the_key_that_signed(made: Sealed) -> None:
    assert made.confirms()
    assert not made.confirms(made.open_id)
    assert not made.confirms("01m0000000000000000000000")
    assert not made.confirms(by=authority(Signer(NAME, b"\1" * 32)))
    assert not made.confirms(by=authority(Signer("example.com/another", b"\1" * 32)))


@pytest.mark.requirement("TRUST-4", "LEDGER-key-rotated")
@pytest.mark.parametrize("more", [0, 1])
def test_trust_4_is_not_given_by_a_key_of_before_over_another_log_than_it_handed_on(made: Sealed, more: int) -> None:
    store = made.store()
    head = store.checkpoint()
    store.close()
    assert head is not None
    honest = open_checkpoint(head.note, made.authority.keys, made.authority.check).checkpoint
    assert made.confirms(by=replace(made.authority, stated=(honest,)))
    other = Checkpoint(NAME, honest.size + more, b"\1" * 32)
    assert not made.confirms(by=replace(made.authority, stated=(other,)))


SPOILED = {
    "no checkpoint": "DELETE FROM checkpoint",
    "another size": "UPDATE checkpoint SET size = size - 1",
    "a larger size": "UPDATE checkpoint SET size = size + 100",
    "another origin": "UPDATE checkpoint SET note = CAST('x' || note AS BLOB)",
    "another signature": "UPDATE checkpoint SET note = CAST(substr(note, 1, length(note) - 9) || 'AAAA' AS BLOB)",
    "no note": "UPDATE checkpoint SET note = x''",
    "no tiles": "DELETE FROM tile",
    "other tiles": "UPDATE tile SET hashes = zeroblob(length(hashes))",
    "another entry": "UPDATE event SET envelope = CAST(replace(envelope, 'default', 'defualt') AS BLOB) WHERE seq = 1",
    "a missing entry": "DELETE FROM event WHERE seq = 2",
    "an entry that is no entry": "UPDATE event SET envelope = x'00' WHERE seq = 1",
}


@pytest.mark.requirement("TRUST-4", "L22")
@pytest.mark.parametrize("sql", SPOILED.values(), ids=SPOILED.keys())
def test_trust_4_is_not_given_where_anything_was_changed(made: Sealed, sql: str) -> None:
    made.by_hand(sql)
    assert not made.confirms()


@pytest.mark.requirement("TRUST-4")
def test_trust_4_is_not_given_where_one_entry_came_after_the_checkpoint(made: Sealed) -> None:
    store = made.store()
    last = max(event.seq for event in store.events(made.id))
    size = store.checkpoint().size  # type: ignore[union-attr]
    store.close()
    assert last == size
    made.by_hand(f"UPDATE event SET seq = 1000 WHERE seq = {last}")
    assert not made.confirms()


UNBOUND: dict[str, Callable[[object], None]] = {
    "contract": lambda a: setattr(a, "contract_ref", "0" * 64),
    "version": lambda a: setattr(a, "contract_version", ""),
    "key": lambda a: setattr(a, "key_hash", ""),
    "request": lambda a: setattr(a, "request_hash", ""),
    "policy": lambda a: setattr(a, "judgement", replace(a.judgement, table="")),  # type: ignore[attr-defined]
    "verdict": lambda a: setattr(a, "judgement", replace(a.judgement, verdict="refuted")),  # type: ignore[attr-defined]
    "break glass": lambda a: setattr(a, "break_glass", "the office burns"),
    "another action": lambda a: setattr(a, "id", "01m0000000000000000000000"),
    "critical without an approval": lambda a: setattr(a, "side_effect", "critical_mutation"),
    "approval": lambda a: setattr(a, "approval", _asked()),
    "half an approval": lambda a: setattr(a, "approval", _asked(used=True)),
}


def _asked(*, used: bool = False) -> object:
    from readback.domain.action.approval_record import RequestedApproval

    return RequestedApproval("ap-1", "n", "p", "policy", 1, 1, 2, used=used)


@pytest.mark.requirement("TRUST-4")
@pytest.mark.parametrize("spoil", UNBOUND.values(), ids=UNBOUND.keys())
def test_trust_4_is_not_given_to_what_is_not_bound(
    made: Sealed, spoil: Callable[[object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unbound(events: object) -> object:
        action = fold(events)  # type: ignore[arg-type]
        spoil(action)
        return action

    assert made.confirms()
    monkeypatch.setattr(confirm, "fold", unbound)
    assert not made.confirms()


def test_the_outcome_says_so_in_json_too(made: Sealed) -> None:
    with made.opened(seal={"key_file": str(made.path.with_name("log.key"))}) as rb:
        assert rb.get(made.id).as_json()["level"] == int(Level.AUDIT_CONFIRMED)
