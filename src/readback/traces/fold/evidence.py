"""Registered evidence, and its bytes at a citation. One of the folds of a trace.

A span of evidence counts in its source document. A span of a support counts in the evidence's own file. The two kinds
of span are never compared.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final

from readback.canon import sha256_bytes, sha256_hex
from readback.traces.artifacts import Artifacts, ArtifactTrouble, is_plain_path
from readback.traces.digest_rows import DIGEST_BYTES, DigestRows
from readback.traces.fold.steps import OpenStep, Piece
from readback.traces.fold.tools import key_of
from readback.traces.format import shapes as recipes
from readback.traces.format.fault import EVIDENCE_KEPT_MAX, EVIDENCE_KEPT_MAX_BYTES, EVIDENCE_MAX_BYTES, ArtifactError
from readback.traces.format.report import Findings, Place, shown
from readback.traces.format.strict_json import Value
from readback.traces.provenance import Provenance

_CORPUS_URI: Final = re.compile(r"corpus://(?P<doc>.+)#(?P<b0>[0-9]{1,19})-(?P<b1>[0-9]{1,19})", re.DOTALL)
_SCHEME: Final = "corpus:"


def path_of(evidence_id: str) -> str:
    """Return the path of evidence in the format."""
    return f"evidence/{evidence_id}.txt"


class Evidence:
    """Every registered piece, in eighty bytes each. The bytes stay in their files."""

    __slots__ = ("_artifacts", "_findings", "_kept", "_kept_bytes", "_provenance", "_rows", "_sums")

    def __init__(self, artifacts: Artifacts | None, provenance: Provenance, findings: Findings) -> None:
        self._artifacts = artifacts
        self._provenance = provenance
        self._findings = findings
        self._rows = DigestRows()
        self._sums = bytearray()
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._kept_bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def registered(self, event: dict[str, Value], step: OpenStep | None, place: Place) -> bool:
        """Take a registration. Return whether the piece is new."""
        evidence, at = event["evidence"], place.at("/evidence")
        if recipes.evidence_id(evidence) != evidence["id"]:
            self._findings.fail("id.evidence", at.at("/id"))
        self._origin(evidence, step, at)
        if evidence["chunk_id"] != evidence["sha256"]:
            self._findings.fail("span.document", at.at("/chunk_id"), "A chunk is named by the hash of its bytes.")
        row, new = self._rows.add(key_of(evidence["id"]))
        if not new:
            self._findings.fail("evidence.duplicate", at.at("/id"))
            return False
        self._sums += bytes.fromhex(evidence["sha256"])
        self._coordinates(evidence, at)
        self._file(row, evidence, at)
        return True

    def row(self, evidence_id: str) -> int:
        """Return the number of a registered piece, or -1."""
        return self._rows.find(key_of(evidence_id))

    def data(self, row: int, evidence_id: str) -> bytes | None:
        """Return the bytes as registered, or None if unavailable."""
        if (held := self._kept.get(row)) is not None:
            self._kept.move_to_end(row)
            return held
        if self._artifacts is None:
            return None
        try:
            data = self._artifacts.read(path_of(evidence_id), EVIDENCE_MAX_BYTES)
        except ArtifactError:
            return None  # said when it was registered
        if sha256_bytes(data) != self._sums[row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES]:
            return None
        self._keep(row, data)
        return data

    def lists(self, ids: list[str]) -> bool:
        """Whether these are all registered pieces so far, in order."""
        return len(ids) == len(self) and all(key_of(each) == self._rows.digest(row) for row, each in enumerate(ids))

    def end(self) -> None:
        """Take the end of the trace."""
        self._findings.figures["evidence"] = len(self)
        self._findings.done("evidence_origin")
        if self._artifacts is not None:
            self._findings.done("evidence_hashes", "evidence_present", "span_coordinates")

    def _origin(self, evidence: dict[str, Value], step: OpenStep | None, at: Place) -> None:
        if step is None:
            return  # said by the steps
        if step.answered < 0:
            self._findings.fail("evidence.no-call", at)
            return
        if not step.succeeded:
            self._findings.fail("evidence.failed-call", at)
        start, end = evidence["span"]
        told = Piece(evidence["uri"], evidence["chunk_id"], start, end, evidence["sha256"])
        if not step.offered or step.offered.popleft() != told:
            self._findings.fail("evidence.not-in-result", at)

    def _coordinates(self, evidence: dict[str, Value], at: Place) -> None:
        """Check the span in the document against the uri, the chunk and these bytes."""
        uri, (start, end) = evidence["uri"], evidence["span"]
        named = _CORPUS_URI.fullmatch(uri)
        if named is None:
            if uri.startswith(_SCHEME) or self._provenance.declared:
                self._findings.fail("span.document", at.at("/uri"), f"{shown(uri)} names no part of a document.")
            return
        if (int(named["b0"]), int(named["b1"])) != (start, end):
            self._findings.fail("span.document", at.at("/span"), "The uri names another span.")
        if not self._provenance.declared:
            self._findings.fail("provenance.missing", at.at("/uri"))
            return
        document = self._provenance.document(named["doc"])
        if document is None:
            self._findings.fail("provenance.missing", at.at("/uri"), f"There is no document {shown(named['doc'])}.")
        elif end > len(document) or sha256_hex(document[start:end]) != evidence["sha256"]:
            self._findings.fail("span.document", at.at("/span"), "The document holds other bytes there.")
        if not self._provenance.has_chunk(evidence["chunk_id"], named["doc"], start, end):
            self._findings.fail("span.chunk", at.at("/chunk_id"))

    def _file(self, row: int, evidence: dict[str, Value], at: Place) -> None:
        path, wanted = evidence["content_path"], path_of(evidence["id"])
        if path != wanted:
            said = "It is no plain path." if path and not is_plain_path(path) else f"It has to be {wanted}."
            self._findings.fail("evidence.path", at.at("/content_path"), said)
        if self._artifacts is None:
            return
        try:
            data = self._artifacts.read(wanted, EVIDENCE_MAX_BYTES)
        except ArtifactError as error:
            code = "evidence.missing" if error.trouble is ArtifactTrouble.MISSING else "evidence.unreadable"
            self._findings.fail(code, at.at("/content_path"), f"{wanted}: {error.trouble.value}.")
            return
        if sha256_hex(data) != evidence["sha256"]:
            self._findings.fail("evidence.hash", at.at("/sha256"), wanted)
            return
        if len(data) != evidence["span"][1] - evidence["span"][0]:
            self._findings.fail("span.document", at.at("/span"), f"The file has {len(data)} bytes.")
        self._keep(row, data)

    def _keep(self, row: int, data: bytes) -> None:
        self._kept[row] = data
        self._kept_bytes += len(data)
        while self._kept_bytes > EVIDENCE_KEPT_MAX_BYTES or len(self._kept) > EVIDENCE_KEPT_MAX:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])
