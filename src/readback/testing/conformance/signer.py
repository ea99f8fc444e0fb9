"""The promises of every signer and its verifier. Subclass the suite, and provide two signers of different keys and a
verifier.
"""

from __future__ import annotations

from readback.domain.contract.approval import SIGNATURE_BYTES, check_key
from readback.ports.signer import Signer, Verifier

MESSAGE = b"readback/approval-token/1\n" + b'{"approval":"ap-1"}'


class SignerConformance:
    """Every test uses `signers()` alone."""

    def signers(self) -> tuple[Signer, Signer, Verifier]:
        raise NotImplementedError

    def test_what_a_key_signed_verifies_with_its_public_half_again_and_again(self) -> None:
        one, _, verify = self.signers()
        assert verify(one.public_key, MESSAGE, one.sign(MESSAGE))
        assert verify(one.public_key, MESSAGE, one.sign(MESSAGE))
        assert verify(one.public_key, b"", one.sign(b""))

    def test_a_public_key_and_a_signature_have_one_form(self) -> None:
        one, two, _ = self.signers()
        assert check_key(one.public_key) == one.public_key == one.public_key
        assert one.public_key != two.public_key
        assert len(one.sign(MESSAGE)) == len(one.sign(b"")) == SIGNATURE_BYTES

    def test_any_changed_byte_of_the_message_refuses(self) -> None:
        one, _, verify = self.signers()
        signature = one.sign(MESSAGE)
        for place in range(len(MESSAGE)):
            changed = MESSAGE[:place] + bytes([MESSAGE[place] ^ 1]) + MESSAGE[place + 1 :]
            assert not verify(one.public_key, changed, signature)
        assert not verify(one.public_key, MESSAGE + b"\n", signature)
        assert not verify(one.public_key, MESSAGE[:-1], signature)

    def test_any_changed_byte_of_the_signature_refuses(self) -> None:
        one, _, verify = self.signers()
        signature = one.sign(MESSAGE)
        for place in range(len(signature)):
            changed = signature[:place] + bytes([signature[place] ^ 1]) + signature[place + 1 :]
            assert not verify(one.public_key, MESSAGE, changed)

    def test_another_persons_key_refuses(self) -> None:
        one, two, verify = self.signers()
        assert not verify(two.public_key, MESSAGE, one.sign(MESSAGE))

    def test_what_is_no_key_or_no_signature_refuses_and_raises_nothing(self) -> None:
        one, _, verify = self.signers()
        signature = one.sign(MESSAGE)
        for key in ("", "ed25519:", "ed25519:AAAA", "rsa:" + one.public_key[8:], one.public_key[8:], "é", "\ud800"):
            assert not verify(key, MESSAGE, signature)
        for wrong in (b"", b"x", signature[:-1], signature + b"\0", b"\0" * SIGNATURE_BYTES):
            assert not verify(one.public_key, MESSAGE, wrong)
