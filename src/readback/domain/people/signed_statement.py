"""A signed statement: a person's signed decision, stored so that its signature can be checked later.

Created when a signature counts: for a review decision, a freeze lift, or a claim. Stored as evidence of the decision's
entry, under the name of an approval's token, and checked by audit. Except for the signature, the entry holds the same
content. Whether a signature is required, and from whom, is decided earlier.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Final

from readback.canon import Json, ReadbackError, parse_json, sha256_hex, stored_bytes
from readback.canon.frozen import dataclass
from readback.domain.contract.approval import SIGNATURE_BYTES, Policy, Verify

WORD_FORMAT: Final = "readback-signed-word/1"
TOKEN: Final = "token"
"""The reference name used by an entry. Evidence under this name is never erased."""
_TEXTS: Final = frozenset({"format", "signer", "key_id", "statement", "signature"})


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """One person's signature, with the exact signed bytes. `signer`: the approver's name."""

    signer: str
    key_id: str
    statement: bytes
    signature: bytes

    def as_json(self) -> dict[str, Json]:
        return {
            "format": WORD_FORMAT,
            "signer": self.signer,
            "key_id": self.key_id,
            "statement": self.statement.decode(),
            "signature": b64encode(self.signature).decode(),
        }

    def body(self) -> bytes:
        """The statement as stored: canonical JSON."""
        return stored_bytes(self.as_json())

    def digest(self) -> str:
        """SHA-256 of the stored form, in hex, as named by an entry."""
        return sha256_hex(self.body())


def signed_statement_of(body: bytes) -> SignedStatement | None:
    """Parse a stored statement. None for any other form."""
    try:
        raw = parse_json(body)
        if not isinstance(raw, dict) or raw.keys() != _TEXTS:
            return None
        signer, key, statement, signature = (str(raw[n]) for n in ("signer", "key_id", "statement", "signature"))
        word = SignedStatement(signer, key, statement.encode(), b64decode(signature))
        return word if word.body() == body else None  # another spelling is rejected
    except (ReadbackError, ValueError):
        return None


def why_not_signed(word: SignedStatement, policy: Policy, verify: Verify) -> str:
    """Why the signature belongs to no listed approver, as the end of a sentence; "" for a valid signature."""
    approver = policy.named(word.signer)
    if approver is None or approver.key_id != word.key_id:
        return "no listed approver has this name and key"
    if len(word.signature) != SIGNATURE_BYTES or not verify(approver.key, word.statement, word.signature):
        return "it is not that key's signature"
    return ""
