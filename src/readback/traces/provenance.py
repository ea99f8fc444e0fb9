"""The origin of evidence: documents, chunks, the index and the search settings. Every hash is recomputed.

The checker reads the origin before the first event, to check evidence as it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from readback.canon import sha256_hex
from readback.traces.artifacts import Artifacts, is_plain_path
from readback.traces.format import shapes
from readback.traces.format.fault import LINE_MAX_BYTES, PROVENANCE_MAX_BYTES, ArtifactError, TraceInputError
from readback.traces.format.forms import CHUNK, document
from readback.traces.format.report import Findings, Place, shown
from readback.traces.format.shapes import Shape, faults_of
from readback.traces.format.strict_json import Value, canonical, strict_json

SETTINGS_FILE: Final = "provenance/retrieval_provenance.json"
_INDEX_KEYS: Final = ("corpus_sha256", "chunk_chars", "overlap_chars", "max_chunks", "max_docs", "schema_version")
_Chunk = tuple[str, str, int, int]
"""The id of a chunk, its document, and its span there."""


class Provenance:
    """The documents and chunks of a run with declared searches."""

    __slots__ = ("_chunks", "_documents", "_sums", "declared")

    def __init__(self, *, declared: bool) -> None:
        self.declared = declared
        self._documents: dict[str, bytes] = {}
        self._sums: dict[str, str] = {}
        self._chunks: set[_Chunk] = set()

    def document(self, doc_id: str) -> bytes | None:
        """Return the text of a document as bytes."""
        return self._documents.get(doc_id)

    def has_chunk(self, chunk_id: str, doc_id: str, start: int, end: int) -> bool:
        """Whether a document was cut into this chunk."""
        return (chunk_id, doc_id, start, end) in self._chunks

    def check_piece(self, piece: Value, at: Place, findings: Findings) -> None:
        """Check an offered piece: a known document with the right hash."""
        if not self.declared or not isinstance(piece, dict):
            return
        named = piece.get("doc_id")
        if named is not None and (not isinstance(named, str) or named not in self._sums):
            findings.fail("provenance.missing", at.at("/doc_id"), f"There is no document {shown(named)}.")
        elif named is not None and piece.get("doc_sha256", self._sums[named]) != self._sums[named]:
            findings.fail("provenance.hash", at.at("/doc_sha256"))
        if named is not None and not str(piece.get("uri")).startswith(f"corpus://{named}#"):
            findings.fail("provenance.differs", at.at("/doc_id"), "The uri names another document.")

    def add_document(self, value: Value, at: Place, findings: Findings) -> None:
        """Take a line of the documents."""
        if value["doc_id"] in self._documents:
            findings.fail("provenance.malformed", at.at("/doc_id"), f"{shown(value['doc_id'])} stands there twice.")
        data = value["text"].encode()
        self._documents[value["doc_id"]] = data
        self._sums[value["doc_id"]] = sha256_hex(data)

    def add_chunk(self, value: Value, at: Place, findings: Findings) -> None:
        """Take a line of the chunks. Check its span and its hash against the document."""
        start, end = value["start_byte"], value["end_byte"]
        whole = self._documents.get(value["doc_id"])
        if whole is None:
            findings.fail("provenance.missing", at.at("/doc_id"), f"There is no document {shown(value['doc_id'])}.")
            return
        if self._sums[value["doc_id"]] != value["doc_sha256"]:
            findings.fail("provenance.hash", at.at("/doc_sha256"))
        if not start < end <= len(whole):
            findings.fail("provenance.malformed", at.at("/end_byte"), f"The document has {len(whole)} bytes.")
        made = sha256_hex(whole[start:end])
        for name in ("chunk_id", "chunk_sha256"):
            if value[name] != made:
                findings.fail("provenance.hash", at.at(f"/{name}"))
        self._chunks.add((value["chunk_id"], value["doc_id"], start, end))

    def check_index(self, value: Value, declared: dict[str, Value], findings: Findings) -> None:
        """Check the index against these documents and chunks."""
        at = Place(declared["index_path"])
        if not isinstance(value, dict) or not isinstance(value.get("chunks"), list):
            findings.fail("provenance.malformed", at.at("/chunks"))
            return
        for key in _INDEX_KEYS:
            if canonical(value.get(key)) != canonical(declared[key]):
                findings.fail("provenance.differs", at.at(f"/{key}"))
        indexed = {_indexed(each) for each in value["chunks"]}
        if indexed != self._chunks:
            findings.fail("provenance.differs", at.at("/chunks"), f"They are not those of {declared['chunks_path']}.")


def read_provenance(metadata: dict[str, Value], artifacts: Artifacts | None, findings: Findings) -> Provenance:
    """Read every search file named in the header's metadata. Report unreadable files."""
    declared = metadata.get("retrieval_provenance")
    made = Provenance(declared=declared is not None)
    if artifacts is None:
        return made
    if declared is not None:
        if shapes.config_hash(declared) != declared["config_sha256"]:
            findings.fail("id.config", Place("trace.jsonl", 1, "/metadata/retrieval_provenance/config_sha256"))
        _read_settings(declared, artifacts, findings)
        corpus = _file(declared["corpus_path"], declared["corpus_sha256"], artifacts, findings)
        _lines(corpus, declared["corpus_path"], document, made.add_document, findings)
        chunks = _file(declared["chunks_path"], None, artifacts, findings)
        _lines(chunks, declared["chunks_path"], CHUNK, made.add_chunk, findings)
        index = _file(declared["index_path"], declared["index_sha256"], artifacts, findings)
        for value in _parsed(index, Place(declared["index_path"]), findings):
            made.check_index(value, declared, findings)
    findings.done("provenance")
    return made


def _read_settings(declared: dict[str, Value], artifacts: Artifacts, findings: Findings) -> None:
    data = _file(SETTINGS_FILE, None, artifacts, findings)
    for value in _parsed(data, Place(SETTINGS_FILE), findings):
        if canonical(value) != canonical(declared):
            findings.fail("provenance.differs", Place(SETTINGS_FILE), "The trace declares other settings.")


def _file(path: str, digest: str | None, artifacts: Artifacts, findings: Findings) -> bytes | None:
    place = Place(path if is_plain_path(path) else SETTINGS_FILE)
    try:
        data = artifacts.read(path, PROVENANCE_MAX_BYTES)
    except ArtifactError as error:
        findings.fail("provenance.missing", place, f"{shown(path)}: {error.trouble.value}.")
        return None
    if digest is not None and sha256_hex(data) != digest:
        findings.fail("provenance.hash", place)
    return data


def _parsed(data: bytes | None, place: Place, findings: Findings) -> list[Value]:
    """Return the single value of the bytes, or nothing; null is a value."""
    if data is None:
        return []
    try:
        return [strict_json(data, place.path, bytes_max=PROVENANCE_MAX_BYTES)]
    except TraceInputError as error:
        findings.fail("provenance.malformed", place, error.message)
        return []


def _lines(
    data: bytes | None,
    path: str,
    shape: Shape,
    take: Callable[[Value, Place, Findings], None],
    findings: Findings,
) -> None:
    for number, line in enumerate(split_lines(data or b""), 1):
        place = Place(path, number)
        if len(line) > LINE_MAX_BYTES:
            findings.fail("provenance.malformed", place, f"The line has {len(line)} bytes.")
            continue
        for value in _parsed(line, place, findings):
            faults = faults_of(value, shape)
            for fault in faults:
                findings.fail("provenance.malformed", place.at(fault.pointer), fault.said)
            if not faults:
                take(value, place, findings)


def split_lines(data: bytes) -> Iterator[bytes]:
    """Yield lines without their ends. The last line may lack an end."""
    start, size = 0, len(data)
    while start < size:
        end = data.find(b"\n", start)
        end = size if end < 0 else end
        yield data[start:end].removesuffix(b"\r")
        start = end + 1


def _indexed(chunk: Value) -> Value:
    if not isinstance(chunk, dict):
        return None
    keys = ("chunk_id", "doc_id", "start_byte", "end_byte")
    found = tuple(chunk.get(key) for key in keys)
    return found if all(type(part) in (str, int) for part in found) else None
