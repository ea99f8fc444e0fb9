"""Notes, checkpoints, keys, tiles and proof files: written and read back, and every other form refused."""

from __future__ import annotations

from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from readback.bootstrap import verify_signature
from readback.log.checkpoint import Checkpoint, open_checkpoint, parse_checkpoint, sign_checkpoint
from readback.log.fault import LogError, LogFormatError, LogProofError, LogSignatureError
from readback.log.note import Note, VerifierKey, parse_key, parse_note, parse_private, private_text, sign_note
from readback.log.proof import EntryProof, inclusion_proof, parse_proof
from readback.log.tiles import (
    TileReader,
    TileWriter,
    bundle_bytes,
    bundle_path,
    bundles_of,
    parse_bundle,
    parse_tile,
    tile_path,
)
from readback.log.tree import EMPTY_ROOT, GrowingTree, leaf_hash, path_nodes

pytestmark = pytest.mark.slow

# The note, the key and the private key of the documentation of golang.org/x/mod/sumdb/note.
KNOWN_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
KNOWN_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
KNOWN_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
KNOWN_NOTE = (
    KNOWN_TEXT + "\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZ"
    "SNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def _key(name: str = "example.com/log", seed: int = 7) -> tuple[VerifierKey, Ed25519PrivateKey]:
    private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    return VerifierKey(name, private.public_key().public_bytes_raw()), private


KEY, PRIVATE = _key()
OTHER, OTHER_PRIVATE = _key("example.com/other", 8)


def _signed(size: int = 3, root: bytes = EMPTY_ROOT) -> bytes:
    return sign_checkpoint(Checkpoint(KEY.name, size, root), KEY, PRIVATE.sign).to_bytes()


def test_a_published_note_is_read_written_and_signed_byte_for_byte() -> None:
    key = parse_key(KNOWN_KEY)
    note = parse_note(KNOWN_NOTE.encode())
    assert (note.text, note.to_bytes().decode(), str(key)) == (KNOWN_TEXT, KNOWN_NOTE, KNOWN_KEY)
    assert note.signed_by([key], verify_signature) == (key,)
    name, key_id, seed = parse_private(KNOWN_PRIVATE)
    private = Ed25519PrivateKey.from_private_bytes(seed)
    assert (name, key_id) == (key.name, key.key_id.hex())
    assert sign_note(KNOWN_TEXT, key, private.sign).to_bytes().decode() == KNOWN_NOTE
    assert private_text(key, seed) == KNOWN_PRIVATE


def test_several_sign_and_those_that_nobody_knows_are_left_alone() -> None:
    once = sign_note("text\n", KEY, PRIVATE.sign)
    twice = sign_note("text\n", OTHER, OTHER_PRIVATE.sign, once.signatures)
    again = parse_note(twice.to_bytes())
    assert again.signed_by([KEY], verify_signature) == (KEY,)
    assert again.signed_by([KEY, OTHER], verify_signature) == (KEY, OTHER)
    with pytest.raises(LogSignatureError, match="not signed by"):
        once.signed_by([OTHER], verify_signature)
    with pytest.raises(LogSignatureError, match="any key"):
        once.signed_by([], verify_signature)


def test_one_wrong_signature_of_a_known_key_refuses_the_whole_note() -> None:
    good = sign_note("text\n", KEY, PRIVATE.sign)
    wrong = Note("text\n", (*good.signatures, *sign_note("other\n", OTHER, OTHER_PRIVATE.sign).signatures))
    assert wrong.signed_by([KEY], verify_signature) == (KEY,)
    with pytest.raises(LogSignatureError, match="not valid"):
        wrong.signed_by([KEY, OTHER], verify_signature)


@pytest.mark.requirement("LEDGER-forms-strict")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text\n",
        b"text\n\n",
        b"text\n\n\xe2\x80\x94 a AAAAAAA=",
        b"text\r\n\n\xe2\x80\x94 a AAAAAAA=\n",
        b"te\xffxt\n\n\xe2\x80\x94 a AAAAAAA=\n",
        b"te\x00xt\n\n\xe2\x80\x94 a AAAAAAA=\n",
        b"text\n\n- a AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94 a\n",
        b"text\n\n\xe2\x80\x94  AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94 a+b AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94 a\xc2\xa0b AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94 a AAAA\n",
        b"text\n\n\xe2\x80\x94 a AAAAAAA\n",
        b"text\n\n\xe2\x80\x94 a AAAAAAB=\n",
        b"text\n\n\xe2\x80\x94 a AAAA_AA=\n",
        b"text\n\n\xe2\x80\x94 a AAAAAAA= \n",
        b"text\n\n" + b"\xe2\x80\x94 a AAAAAAA=\n" * 65,
        b"t" * 262_145,
    ],
)
def test_what_is_no_note_is_refused(data: bytes) -> None:
    with pytest.raises(LogFormatError):
        parse_note(data)


@pytest.mark.requirement("LEDGER-forms-strict")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name+c74f20a3",
        KNOWN_KEY.replace("c74f20a3", "c74f20a4"),
        KNOWN_KEY.replace("c74f20a3", "C74F20A3"),
        KNOWN_KEY.replace("PeterNeumann", "PeterNeuman"),
        KNOWN_KEY.replace("PeterNeumann", "Peter Neumann"),
        KNOWN_KEY.replace("PeterNeumann", ""),
        KNOWN_KEY[:-1],
        KNOWN_KEY + "\n",
        "a+00000000+" + b64encode(b"\x02" + bytes(32)).decode(),
        "a+00000000+" + b64encode(b"\x01" + bytes(31)).decode(),
    ],
)
def test_what_is_no_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(LogFormatError):
        parse_key(text)
    with pytest.raises(LogFormatError):
        parse_private(text)


def test_a_text_that_no_note_may_have_is_not_signed() -> None:
    for text in ("no end", "control\x07\n"):
        with pytest.raises(LogFormatError):
            sign_note(text, KEY, PRIVATE.sign)


# --- checkpoints ---


def test_a_checkpoint_is_signed_and_opened_by_its_logs_key() -> None:
    opened = open_checkpoint(_signed(), [KEY], verify_signature)
    assert opened.checkpoint == Checkpoint("example.com/log", 3, EMPTY_ROOT)
    assert opened.to_bytes() == _signed()
    extended = Checkpoint("o", 0, EMPTY_ROOT, ("an extension", "another one"))
    assert parse_checkpoint(extended.text()) == extended


@pytest.mark.requirement("LEDGER-forms-strict")
@pytest.mark.parametrize("at", range(len(_signed())))
def test_no_byte_of_a_checkpoint_can_be_changed(at: int) -> None:
    data = bytearray(_signed())
    data[at] ^= 1
    with pytest.raises(LogError):
        open_checkpoint(bytes(data), [KEY], verify_signature)
    with pytest.raises(LogError):
        open_checkpoint(_signed()[:at], [KEY], verify_signature)


def test_another_logs_key_may_not_sign_for_this_one() -> None:
    with pytest.raises(LogFormatError, match="must equal the log's origin"):
        sign_checkpoint(Checkpoint(KEY.name, 1, EMPTY_ROOT), OTHER, OTHER_PRIVATE.sign)
    foreign = sign_note(Checkpoint(KEY.name, 1, EMPTY_ROOT).text(), OTHER, OTHER_PRIVATE.sign)
    with pytest.raises(LogSignatureError, match="another log's key"):
        open_checkpoint(foreign.to_bytes(), [OTHER], verify_signature)


@pytest.mark.requirement("LEDGER-forms-strict")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "o\n",
        "o\n1\n",
        f"o\n1\n{b64encode(EMPTY_ROOT).decode()}",
        f"\n1\n{b64encode(EMPTY_ROOT).decode()}\n",
        f"o\n01\n{b64encode(EMPTY_ROOT).decode()}\n",
        f"o\n-1\n{b64encode(EMPTY_ROOT).decode()}\n",
        f"o\n+1\n{b64encode(EMPTY_ROOT).decode()}\n",
        f"o\n1_0\n{b64encode(EMPTY_ROOT).decode()}\n",
        f"o\n\u0661\n{b64encode(EMPTY_ROOT).decode()}\n",
        f"o\n9007199254740992\n{b64encode(EMPTY_ROOT).decode()}\n",
        f"o\n{'9' * 5000}\n{b64encode(EMPTY_ROOT).decode()}\n",
        f"o\n1\n{b64encode(EMPTY_ROOT[:-1]).decode()}\n",
        f"o\n1\n{b64encode(EMPTY_ROOT).decode().rstrip('=')}\n",
        f"o\n1\n{b64encode(EMPTY_ROOT).decode()}\n\nmore\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(LogFormatError):
        parse_checkpoint(text)


@pytest.mark.parametrize(
    "bad",
    [
        Checkpoint("", 1, EMPTY_ROOT),
        Checkpoint("a\nb", 1, EMPTY_ROOT),
        Checkpoint("a", -1, EMPTY_ROOT),
        Checkpoint("a", 1, b""),
        Checkpoint("a", 1, EMPTY_ROOT, ("",)),
    ],
)
def test_what_cannot_be_a_checkpoint_is_not_written(bad: Checkpoint) -> None:
    with pytest.raises(LogFormatError):
        bad.text()


# --- tiles ---


@pytest.mark.parametrize(
    ("place", "width", "path"),
    [
        (0, 256, "tile/0/000"),
        (1_234_067, 256, "tile/0/x001/x234/067"),
        (999, 1, "tile/0/999.p/1"),
        (1000, 255, "tile/0/x001/000.p/255"),
    ],
)
def test_tiles_have_the_paths_of_the_specification(place: int, width: int, path: str) -> None:
    assert tile_path(0, place, width) == path
    assert bundle_path(place, width) == path.replace("tile/0", "tile/entries")


def _files(size: int) -> tuple[dict[str, bytes], GrowingTree]:
    writer = TileWriter()
    files = dict(file for n in range(size) for file in writer.add(b"%d" % n))
    return files | dict(writer.finish()), writer.tree


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 70_000])
@pytest.mark.slow
def test_a_log_has_the_files_of_the_specification(size: int) -> None:
    files, tree = _files(size)
    wanted = {bundle_path(place, width) for place, width in bundles_of(size)}
    for level in range(3):
        whole, rest = divmod(size >> (8 * level), 256)
        wanted |= {tile_path(level, place) for place in range(whole)} | (
            {tile_path(level, whole, rest)} if rest else set()
        )
    assert files.keys() == wanted
    for place, width in bundles_of(size):
        entries = parse_bundle(files[bundle_path(place, width)], width)
        assert [leaf_hash(e) for e in entries] == parse_tile(files[tile_path(0, place, width)], width)
    for index in {0, size // 3, size - 1} if size else set():
        reader = TileReader(size, files.__getitem__)
        kept = GrowingTree(path_nodes(index))
        for n in range(size):
            kept.append(leaf_hash(b"%d" % n))
        assert inclusion_proof(index, size, reader.read) == inclusion_proof(index, size, kept.read)
        assert tree.root() == kept.root()


def test_a_subtree_that_a_log_does_not_have_is_not_read() -> None:
    files, _ = _files(5)
    reader = TileReader(5, files.__getitem__)
    for height, place in ((0, 5), (3, 0), (-1, 0), (0, -1)):
        with pytest.raises(LogFormatError):
            reader.read(height, place)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20), st.data())
def test_bundles_are_read_back_and_any_other_length_is_refused(entries: list[bytes], data: st.DataObject) -> None:
    written = bundle_bytes(entries)
    assert parse_bundle(written, len(entries)) == entries
    cut = data.draw(st.integers(0, len(written) - 1))
    for spoiled, width in (
        (written[:cut], len(entries)),
        (written + b"\0", len(entries)),
        (written, len(entries) + 1),
        (written, len(entries) - 1),
    ):
        with pytest.raises(LogFormatError):
            parse_bundle(spoiled, width)


def test_an_entry_has_at_most_sixteen_bits_of_length() -> None:
    assert parse_bundle(bundle_bytes([b"x" * 65_535]), 1) == [b"x" * 65_535]
    with pytest.raises(LogFormatError, match="65535"):
        bundle_bytes([b"x" * 65_536])
    for wrong in (b"", bytes(31), bytes(33)):
        with pytest.raises(LogFormatError):
            parse_tile(wrong, 1)


# --- proof files ---


def _proof(index: int = 3, size: int = 7) -> EntryProof:
    tree = GrowingTree(path_nodes(index))
    for n in range(size):
        tree.append(leaf_hash(b"%d" % n))
    return EntryProof(index, tuple(inclusion_proof(index, size, tree.read)), _signed(size, tree.root()), b"%d" % index)


def test_a_proof_is_read_back_and_checked_without_the_log() -> None:
    again = parse_proof(_proof().to_bytes())
    assert again == _proof()
    assert again.check([KEY], verify_signature).size == 7
    assert again.check([KEY], verify_signature, b"3").size == 7
    with pytest.raises(LogProofError):
        again.check([KEY], verify_signature, b"4")
    with pytest.raises(LogSignatureError):
        again.check([OTHER], verify_signature)
    bare = EntryProof(again.index, again.path, again.checkpoint, b"")
    assert b"extra" not in bare.to_bytes()
    assert parse_proof(bare.to_bytes()).check([KEY], verify_signature, b"3").size == 7


@pytest.mark.requirement("LEDGER-forms-strict")
@pytest.mark.parametrize("at", range(len(_proof().to_bytes())))
def test_no_byte_of_a_proof_can_be_changed_or_be_missing(at: int) -> None:
    data = bytearray(_proof().to_bytes())
    data[at] ^= 1
    for spoiled in (bytes(data), bytes(_proof().to_bytes()[:at])):
        with pytest.raises(LogError):
            parse_proof(spoiled).check([KEY], verify_signature)


@pytest.mark.requirement("LEDGER-forms-strict")
@pytest.mark.parametrize(
    "head",
    [
        b"c2sp.org/tlog-proof@v2\nindex 0",
        b"c2sp.org/tlog-proof@v1",
        b"c2sp.org/tlog-proof@v1\nindex",
        b"c2sp.org/tlog-proof@v1\nindex 00",
        b"c2sp.org/tlog-proof@v1\nextra \nindex 0",
        b"c2sp.org/tlog-proof@v1\nextra YQ==\nextra YQ==\nindex 0",
        b"c2sp.org/tlog-proof@v1\nindex 0\nextra YQ==",
        b"c2sp.org/tlog-proof@v1\r\nindex 0",
        b"c2sp.org/tlog-proof@v1\nindex \xd9\xa1",
        b"c2sp.org/tlog-proof@v1\nindex 0\n" + b"\n".join([b64encode(EMPTY_ROOT)] * 54),
    ],
)
def test_what_is_no_proof_is_refused(head: bytes) -> None:
    with pytest.raises(LogFormatError):
        parse_proof(head + b"\n\n" + _signed())


def test_a_proof_over_the_limit_is_not_read() -> None:
    with pytest.raises(LogFormatError, match="over"):
        parse_proof(b"x" * 400_000)
