"""Verified upload: put a file under a key with stamp and SHA-256, and ask for the object's head by another client.

Used by authors, who hand over a bucket to write to and the same bucket to read. An object counts when size and digest
are those that were asked for and it bears the stamp. An ETag is never a digest.

Source: "The Verification Ledger Pattern", adapting it to file uploads.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256 as hashed
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, Unpack

from readback.client.authoring.action import ActionDefinition
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.recipes.choices import Choices

if TYPE_CHECKING:
    from readback.client.proposal import Proposal
    from readback.systems import S3Executor, S3Source

CHUNK_BYTES: Final = 1_048_576


class Measured(TypedDict):
    """What a file is now; all of it goes into the request, so that another file is another request."""

    file: str
    sha256: str
    size: int


def measured(file: str | Path) -> Measured:
    """Path, SHA-256 and size of a file, for `upload(key=..., **measured(file))`. Raises OSError."""
    digest, size = hashed(), 0
    with Path(file).open("rb") as source:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return Measured(file=str(file), sha256=digest.hexdigest(), size=size)


class UploadAction(ActionDefinition[[str, str, str, int]]):
    """Proposes one upload: `upload(key=..., **measured(file))`."""

    if TYPE_CHECKING:

        def __call__(self, key: str, file: str, sha256: str, size: int) -> Proposal: ...


def verified_upload(
    store: S3Executor,
    shelf: S3Source,
    *,
    kind: Literal["create", "set"] = "create",
    read_bytes: bool = False,
    **choices: Unpack[Choices],
) -> UploadAction:
    """An action that uploads one file, and is verified when the object's head shows size, digest and stamp.

    `kind`: create is refused where the key is taken, set replaces what is there. `read_bytes`: the object is read and
    hashed at each look, for stores that keep a digest without checking it.
    """

    def upload(ctx: Context, key: str, file: str, sha256: str, size: int) -> object:
        return store.put(ctx, key, file, sha256=sha256, only_new=kind == "create")

    def head(ctx: Context, key: str, file: str, sha256: str, size: int) -> Reading:
        return shelf.head(ctx, key, read_bytes=read_bytes)

    def versions(ctx: Context, key: str, file: str, sha256: str, size: int) -> Sequence[Reading]:
        return shelf.find(ctx, key, own_of_many=True)

    action = UploadAction(upload, {**_contract(kind), **choices})
    action.read(source=shelf.name, consistency="strong", independence="other_client")(head)
    action.find(versions)
    return action


def _contract(kind: str) -> dict[str, object]:
    return {
        "name": "verified_upload",
        "kind": kind,
        "side_effect": "low_risk_internal",
        "target": "object/{requested.key}",
        "identity": {
            "target": "authoritative.key",
            "tenant": "not_offered",
            "account": "not_offered",
            "actor": "not_offered",
            "stamp": "authoritative.stamp",
        },
        "ensure": {
            "size": "authoritative.size == requested.size",
            "digest": "authoritative.sha256 == requested.sha256",
        },
    }
