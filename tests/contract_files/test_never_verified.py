"""Contracts whose readers could never verify anything are refused when they are loaded, with what to write instead."""

from __future__ import annotations

import pytest

from tests.contract_files.writing import contract, faults

TERMS = """
    kind: set
    side_effect: low_risk_internal
    target: tool/{requested.id}
    arguments: {id: string, name: string}
    identity: {target: authoritative.id, tenant: not_offered}
    execute:
      http: {url: "http://h", method: PUT, path: "/tools/{requested.id}", json: {name: "{requested.name}"}}
    readers:
      - http: {url: "http://h", path: "/tools/{requested.id}"}
    ensure: {renamed: authoritative.name == requested.name}
"""


@pytest.mark.requirement("FILE-never-verified", "FILE-every-fault")
def test_a_reader_that_nothing_shows_to_be_later_than_the_action_is_refused_with_the_remedy() -> None:
    (told,) = faults(contract(TERMS))
    assert told.startswith("13:9 contracts.one.readers[0]: It is session")
    for remedy in ("consistency: strong", "`version`", "`stamp`"):
        assert remedy in told


@pytest.mark.requirement("FILE-never-verified")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('id}"}\n    ensure', 'id}"}\n        consistency: strong\n    ensure'),
        ('id}"}\n    ensure', 'id}", stamp: /stamp}\n    ensure'),
        ("tenant: not_offered}", "tenant: not_offered, stamp: authoritative.stamp}"),
        ('id}"}\n    ensure', 'id}"}\n      - http: {url: "http://h", path: /all}\n        name: other\n'
         "        consistency: strong\n    ensure"),
    ],
)  # fmt: skip
def test_what_can_verify_is_taken(old: str, new: str) -> None:
    assert old in TERMS
    assert faults(contract(TERMS.replace(old, new))) == []


@pytest.mark.requirement("FILE-never-verified")
def test_a_number_of_versions_verifies_where_there_is_a_reading_to_compare_it_with() -> None:
    numbered = TERMS.replace('id}"}\n    ensure', 'id}", version: /version}\n    ensure')
    assert faults(contract(numbered)) == []
    search = '{url: "http://h", path: /all, items: /items, stamp: /stamp}'
    find = f"    find:\n      http: {search}\n      consistency: strong\n"
    (told,) = faults(contract(numbered.replace("kind: set", "kind: append") + find))
    assert "with that of a reading before the action, and this contract takes none" in told


@pytest.mark.requirement("FILE-credentials")
def test_the_user_of_a_database_is_no_credential_and_its_password_is() -> None:
    reader = 'http: {url: "http://h", path: "/tools/{requested.id}"}'
    sql = TERMS.replace(reader, 'sql: {url: "URL", query: "select 1"}')
    for url in ("postgresql://ada@h/d", "postgres://ada@h", "postgresql://ada@h:5432/d?sslmode=require"):
        assert faults(contract(sql.replace("URL", url))) == []
    for url in ("postgresql://ada:secret@h/d", "postgresql://:secret@h/d", "postgresql://h/d?password=secret"):
        (told,) = faults(contract(sql.replace("URL", url)))
        assert "An address must not contain credentials" in told
    http = TERMS.replace(reader, 'http: {url: "http://key@h", path: /a}\n        consistency: strong')
    (told,) = faults(contract(http))
    assert "An address must not contain credentials" in told, "before a service a key often stands in place of a name"
