"""Verified upload: put a file under a key with stamp and SHA-256, and read the object's head through another client.

Authors pass a bucket for writing and the same bucket for reading. An object counts with the requested size and digest
and with the stamp. An ETag is never a digest.

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
    """The present state of a file. All of it goes into the request: another file is another request.

    Example:
        >>> state: Measured = {"file": "release.zip", "sha256": "00" * 32, "size": 0}
    """

    file: str
    sha256: str
    size: int


def measured(file: str | Path) -> Measured:
    """Return path, SHA-256 and size of a file, for `upload(key=..., **measured(file))`. Raises OSError.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     measured(file.name)["size"]
        0
    """
    digest, size = hashed(), 0
    with Path(file).open("rb") as source:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return Measured(file=str(file), sha256=digest.hexdigest(), size=size)


class UploadAction(ActionDefinition[[str, str, str, int]]):
    """Propose one upload: `upload(key=..., **measured(file))`.

    Example:
        >>> def propose(upload: UploadAction):
        ...     return upload(key="release.zip", **measured("release.zip"))
    """

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
    """Return an action that uploads one file.

    The action is verified when the object's head shows size, digest and stamp.

    Args:
        store: The bucket for writing.
        shelf: The bucket for reading.
        kind: "create" is refused where the key exists. "set" replaces the object.
        read_bytes: Read and hash the object at each read, for stores that keep an unchecked digest.
        choices: Contract keys to change.

    Example:
        >>> from readback.systems import S3Executor, S3Source
        >>> def uploads(bucket):
        ...     return verified_upload(S3Executor("releases", bucket, sole=True), S3Source("releases", bucket))
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
