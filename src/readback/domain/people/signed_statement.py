"""A signed word: what a person decided and signed, as it is kept, so that anybody can check the signature afterwards.

Made where a signature counted: on a decision in review, on the lift of a freeze, on a word about a claim. Kept as
evidence of the entry that says the decision, under the name that an approval's token has, and read again by the audit.
It holds nothing that the entry does not say too, but the signature. It decides nothing: whether a signature is asked
for, and whose counts here, is asked before it is made.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Final

from readback.canon import Json, ReadbackError, parse_json, sha256_hex, stored_bytes
from readback.canon.frozen import dataclass
from readback.domain.contract.approval import SIGNATURE_BYTES, Policy, Verify

WORD_FORMAT: Final = "readback-signed-word/1"
TOKEN: Final = "token"
"""The name by which an entry refers to it; what has this name is never erased."""
_TEXTS: Final = frozenset({"format", "signer", "key_id", "statement", "signature"})


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """One person's signature, with exactly the bytes that were signed. `signer`: the approver's name."""

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
        """The signed word as it is kept: canonical JSON."""
        return stored_bytes(self.as_json())

    def digest(self) -> str:
        """SHA-256 of that, in hex: what an entry names."""
        return sha256_hex(self.body())


def signed_word_of(body: bytes) -> SignedStatement | None:
    """What was kept, read again. None for whatever is not exactly a signed word."""
    try:
        raw = parse_json(body)
        if not isinstance(raw, dict) or raw.keys() != _TEXTS:
            return None
        signer, key, statement, signature = (str(raw[n]) for n in ("signer", "key_id", "statement", "signature"))
        word = SignedStatement(signer, key, statement.encode(), b64decode(signature))
        return word if word.body() == body else None  # nor is another spelling of the same
    except (ReadbackError, ValueError):
        return None


def why_not_signed(word: SignedStatement, policy: Policy, verify: Verify) -> str:
    """Why the signature is nobody's who is listed, as the end of a sentence; "" where it is."""
    approver = policy.named(word.signer)
    if approver is None or approver.key_id != word.key_id:
        return "nobody of that name, with that key, is listed"
    if len(word.signature) != SIGNATURE_BYTES or not verify(approver.key, word.statement, word.signature):
        return "it is not that key's signature"
    return ""
