"""A run folder in memory, so that a test may change any byte of it and ask again."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from readback.traces import (
    DEFAULT_POLICY,
    ArtifactError,
    ArtifactTrouble,
    Policy,
    Report,
    TraceInputError,
    verify_trace,
)
from readback.traces.artifacts import is_plain_path


class MemoryFolder:
    """Keeps the promise of `Artifacts` over a dictionary."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def read(self, path: str, bytes_max: int) -> bytes:
        if not is_plain_path(path):
            raise ArtifactError.of(ArtifactTrouble.ESCAPES, path)
        if path not in self.files:
            raise ArtifactError.of(ArtifactTrouble.MISSING, path)
        if len(self.files[path]) > bytes_max:
            raise ArtifactError.of(ArtifactTrouble.TOO_LARGE, path)
        return self.files[path]

    def digest(self, path: str, bytes_max: int) -> str:
        return sha256(self.read(path, bytes_max)).hexdigest()

    def names(self) -> Iterator[str]:
        yield from self.files


def held(folder: Path) -> dict[str, bytes]:
    """Every file of a real folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def judged(files: dict[str, bytes], policy: Policy = DEFAULT_POLICY) -> Report:
    return verify_trace(files.get("trace.jsonl", b""), files.get("plan.json", b""), MemoryFolder(files), policy)


def caught(files: dict[str, bytes]) -> bool:
    """Whether the run is refused, by a report or before one."""
    try:
        return not judged(files).passed
    except TraceInputError:
        return True
