"""The leaf hash against the published values of RFC 6962's test tree."""

from __future__ import annotations

from hashlib import sha256

from readback.log.tree import leaf_hash, leaf_hashes


def test_the_leaf_of_nothing_has_the_known_hash() -> None:
    known = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert leaf_hash(b"").hex() == known


def test_a_leaf_has_the_known_hash() -> None:
    known = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
    assert leaf_hash(b"\x00").hex() == known


def test_a_leaf_is_not_the_digest_of_its_bytes() -> None:
    assert leaf_hash(b"x") != sha256(b"x").digest()


def test_many_leaves_are_each_what_they_are_alone() -> None:
    envelopes = [b"", b"\x00", b'{"a":1}']
    assert leaf_hashes(envelopes) == [leaf_hash(each) for each in envelopes]
    assert leaf_hashes([]) == []


def test_one_flipped_bit_gives_another_leaf() -> None:
    assert leaf_hash(b'{"a":1}') != leaf_hash(b'{"a":0}')
