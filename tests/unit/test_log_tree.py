"""The tree and its proofs: against public vectors, the definition of RFC 6962, and whatever can be spoiled."""

from __future__ import annotations

import json
import pathlib
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.log.fault import LogFormatError, LogProofError
from readback.log.proof import check_consistency, check_inclusion, consistency_proof, inclusion_proof
from readback.log.tree import EMPTY_ROOT, SIZE_MAX, GrowingTree, leaf_hash, nodes_of, path_nodes

pytestmark = pytest.mark.slow

VECTORS = pathlib.Path(__file__).parent / "merkle_vectors"
VECTOR_DIGESTS = {
    "consistency": "e2e878d82d2250b84c6c5746275779adc0116116521b21272e5201c1eb4dd7cd",
    "inclusion": "99c207da183bfa659a111ec473a42968e492e511a15ac3d15207af40faf5b6c5",
}
SIZE = st.integers(1, 70)


def leaves(size: int) -> list[bytes]:
    return [leaf_hash(b"entry %d" % n) for n in range(size)]


def grown(size: int, **options: Any) -> GrowingTree:
    tree = GrowingTree(**options)
    for leaf in leaves(size):
        tree.append(leaf)
    return tree


def by_definition(hashes: list[bytes]) -> bytes:
    """MTH of RFC 6962, 2.1, written as it stands there."""
    if not hashes:
        return sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    return sha256(b"\x01" + by_definition(hashes[:split]) + by_definition(hashes[split:])).digest()


def reader(size: int) -> Callable[[int, int], bytes]:
    """The hashes of every perfect subtree, by definition."""
    all_of_them = leaves(size)
    return lambda height, place: by_definition(all_of_them[place << height : (place + 1) << height])


def _vectors(name: str) -> list[dict[str, Any]]:
    text = (VECTORS / f"{name}.jsonl").read_bytes()
    assert sha256(text).hexdigest() == VECTOR_DIGESTS[name]
    return [json.loads(line) for line in text.splitlines()]


def _hashes(given: list[str] | None) -> list[bytes]:
    return [b64decode(each) for each in given or []]


@pytest.mark.requirement("LEDGER-merkle-vectors")
def test_the_public_inclusion_vectors_are_met() -> None:
    cases = _vectors("inclusion")
    assert len(cases) >= 98
    for case in cases:
        args = (case["leafIdx"], case["treeSize"], _hashes(case["proof"]), b64decode(case["root"]))
        try:
            check_inclusion(b64decode(case["leafHash"]), *args)
            refused = False
        except LogProofError:
            refused = True
        assert refused is case["wantErr"], case["name"]


@pytest.mark.requirement("LEDGER-merkle-vectors")
def test_the_public_consistency_vectors_are_met() -> None:
    cases = _vectors("consistency")
    assert len(cases) >= 98
    for case in cases:
        roots = b64decode(case["root1"]), b64decode(case["root2"])
        try:
            check_consistency(case["size1"], case["size2"], *roots, _hashes(case["proof"]))
            refused = False
        except LogProofError:
            refused = True
        assert refused is case["wantErr"], case["name"]


def test_the_tree_of_nothing_has_the_known_root() -> None:
    assert GrowingTree().root() == EMPTY_ROOT
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_every_root_on_the_way_is_that_of_the_definition() -> None:
    tree, all_of_them = GrowingTree(), leaves(300)
    for size, leaf in enumerate(all_of_them, 1):
        tree.append(leaf)
        if size < 70 or size > 250:
            assert tree.root() == by_definition(all_of_them[:size]), size


@given(st.integers(0, 2_000), st.integers(0, 2_000))
def test_perfect_subtrees_cover_a_span_once_and_in_order(begin: int, more: int) -> None:
    at = begin
    for height, place in nodes_of(begin, begin + more):
        assert place << height == at
        at = (place + 1) << height
    assert at == begin + more


@given(SIZE.flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1))))
def test_one_reading_gives_the_inclusion_proof_that_the_whole_tree_gives(given: tuple[int, int]) -> None:
    size, index = given
    tree = grown(size, keep=path_nodes(index))
    proof = inclusion_proof(index, size, tree.read)
    assert proof == inclusion_proof(index, size, reader(size))
    check_inclusion(leaves(size)[index], index, size, proof, tree.root())


@given(SIZE.flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size))))
def test_one_reading_gives_the_consistency_proof_that_the_whole_tree_gives(given: tuple[int, int]) -> None:
    second, first = given
    tree = grown(second, keep=path_nodes(first - 1))
    proof = consistency_proof(first, second, tree.read)
    assert proof == consistency_proof(first, second, reader(second))
    check_consistency(first, second, grown(first).root(), tree.root(), proof)


@given(
    SIZE.flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1))),
    st.integers(0, 10_000),
    st.integers(0, 255),
)
@pytest.mark.requirement("LEDGER-merkle-spoiled")
def test_a_spoiled_inclusion_proof_proves_nothing(given: tuple[int, int], where: int, bit: int) -> None:
    size, index = given
    leaf, root = leaves(size)[index], grown(size).root()
    proof = inclusion_proof(index, size, reader(size))

    def refused(*args: Any) -> None:
        with pytest.raises(LogProofError):
            check_inclusion(*args)

    parts = [leaf, root, *proof]
    parts[where % len(parts)] = flipped(parts[where % len(parts)], bit)
    refused(parts[0], index, size, parts[2:], parts[1])
    for other in {index ^ 1, index + 1, index - 1, where % size} - {index}:
        refused(leaf, other, size, proof, root)
    refused(leaf, index, size, [*proof, proof[-1] if proof else root], root)
    refused(leaf, index, size, [b"", *proof], root)
    if proof:
        refused(leaf, index, size, proof[:-1], root)
        refused(leaf, index, size, [proof[0][:-1], *proof[1:]], root)


@given(
    SIZE.flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size))),
    st.integers(0, 10_000),
    st.integers(0, 255),
)
@pytest.mark.requirement("LEDGER-merkle-spoiled")
def test_a_spoiled_consistency_proof_proves_nothing(given: tuple[int, int], where: int, bit: int) -> None:
    second, first = given
    roots = [grown(first).root(), grown(second).root()]
    proof = consistency_proof(first, second, reader(second))

    def refused(*args: Any) -> None:
        with pytest.raises(LogProofError):
            check_consistency(*args)

    parts = [*roots, *proof]
    parts[where % len(parts)] = flipped(parts[where % len(parts)], bit)
    refused(first, second, *parts[:2], parts[2:])
    refused(first, second, *roots, [*proof, roots[0]])
    if first < second:
        refused(first, second, *reversed(roots), proof)
        refused(second, first, *roots, proof)
        refused(first, second, *roots, proof[:-1])
        refused(first + 1, second, *roots, proof)


@given(st.integers(2, 70), st.integers(0, 10_000))
def test_another_size_proves_nothing_where_it_means_another_path(size: int, which: int) -> None:
    """The size of a tree is bound by its signed checkpoint; a path of another length is refused without it."""
    index = which % size
    leaf, root = leaves(size)[index], grown(size).root()
    proof = inclusion_proof(index, size, reader(size))
    for other in (size * 2 + 1, max(size // 2, 1), index):
        if other <= index or len(inclusion_proof(index, other, lambda _h, _p: root)) != len(proof):
            with pytest.raises(LogProofError):
                check_inclusion(leaf, index, other, proof, root)


@pytest.mark.parametrize(("index", "size"), [(-1, 1), (0, 0), (1, 1), (0, SIZE_MAX + 1), (2**64 - 1, 1)])
def test_places_that_no_tree_has_are_refused(index: int, size: int) -> None:
    with pytest.raises(LogProofError):
        inclusion_proof(index, size, reader(1))
    with pytest.raises(LogProofError):
        check_inclusion(EMPTY_ROOT, index, size, [], EMPTY_ROOT)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (0, 0), (2, 1), (-1, 3), (1, SIZE_MAX + 1)])
def test_sizes_that_no_log_grows_between_are_refused(first: int, second: int) -> None:
    with pytest.raises(LogProofError):
        consistency_proof(first, second, reader(1))
    with pytest.raises(LogProofError):
        check_consistency(first, second, EMPTY_ROOT, EMPTY_ROOT, [])


def test_what_was_not_kept_cannot_be_read() -> None:
    with pytest.raises(LogFormatError):
        grown(8).read(0, 0)


def test_a_leaf_may_not_stand_for_a_node() -> None:
    """Two leaves' hashes written as one entry do not give the hash of the node over them."""
    left, right = leaves(2)
    assert leaf_hash(left + right) != grown(2).root()


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8 % len(data)] ^= 1 << (bit % 8)
    return bytes(changed)
