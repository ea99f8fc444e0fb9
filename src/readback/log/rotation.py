"""Key rotations of a log: a statement, signed by both keys, names the successor of a key from a size of the log on.

Called to rotate a key and to verify heads signed by former keys. A verifier with any one of the keys follows the
statements to all others: forward, since the old key names the new key; back, since the new key vouches for heads of the
old key up to the rotation. A signature outside its key's span never counts, so a stolen old key adds nothing.

The statement is a signed note (C2SP signed-note). Its text has one field a line: the form, the log's name, the size and
the root at the end of the old key's span, the old verifier key, the new verifier key, and the time in microseconds
since the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from readback.canon.frozen import dataclass
from readback.log.checkpoint import Checkpoint
from readback.log.fault import LogFormatError, LogSignatureError
from readback.log.note import (
    Check,
    Sign,
    VerifierKey,
    base64_text,
    hash_bytes,
    number,
    parse_key,
    parse_note,
    sign_note,
)

FORM: Final = "readback/log-key-rotation/1"
ROTATIONS_MAX: Final = 1_000
ROTATIONS_MAX_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Rotation:
    """`old` signed the log up to `head`, and `new` signs from there on. Both keys have the log's name."""

    head: Checkpoint
    old: VerifierKey
    new: VerifierKey
    at_us: int

    def text(self) -> str:
        """Return the note's text. Raises LogFormatError if the keys are equal or belong to another log."""
        if {self.old.name, self.new.name} != {self.head.origin} or self.old == self.new:
            raise LogFormatError("A rotation needs two different keys with the log's name.")
        lines = (FORM, self.head.origin, self.head.size, base64_text(self.head.root), self.old, self.new, self.at_us)
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Span:
    """The sizes of the log at which a key's heads count. `until` None: the present key."""

    key: VerifierKey
    since: int = 0
    until: int | None = None
    at_us: int = 0
    """Start of the span, in microseconds since the epoch; 0 for the first key."""


def sign_rotation(rotation: Rotation, sign_old: Sign, sign_new: Sign) -> bytes:
    """Return the statement, signed by both keys."""
    note = sign_note(rotation.text(), rotation.old, sign_old)
    return sign_note(note.text, rotation.new, sign_new, note.signatures).to_bytes()


def parse_rotations(data: bytes, check: Check) -> tuple[Rotation, ...]:
    """Parse consecutive statements, each signed by its two keys and each a continuation of its predecessor.

    Raises LogFormatError for malformed statements, LogSignatureError for a missing or invalid signature.
    """
    if len(data) > ROTATIONS_MAX_BYTES:
        raise LogFormatError(f"The rotations have over {ROTATIONS_MAX_BYTES} bytes.")
    start = f"{FORM}\n".encode()
    if data and not data.startswith(start):
        raise LogFormatError("The file contains no rotations of a log's key.")
    found = [_open(start + piece, check) for piece in data.split(start)[1:]]
    if len(found) > ROTATIONS_MAX:
        raise LogFormatError(f"There are more than {ROTATIONS_MAX} rotations.")
    for one, other in pairwise(found):
        if one.new != other.old or one.head.size > other.head.size:
            raise LogFormatError("A rotation does not continue its predecessor.")
    return tuple(found)


def _open(data: bytes, check: Check) -> Rotation:
    note = parse_note(data)
    lines = note.text.split("\n")
    if len(lines) != 8:
        raise LogFormatError("A rotation must have seven lines.")
    head = Checkpoint(lines[1], number(lines[2], "size"), hash_bytes(lines[3], "root"))
    found = Rotation(head, parse_key(lines[4]), parse_key(lines[5]), number(lines[6], "time"))
    if found.text() != note.text:
        raise LogFormatError("A rotation is not in canonical form.")
    if len(note.signed_by([found.old, found.new], check)) != 2:
        raise LogSignatureError("A rotation is not signed by both of its keys.")
    return found


def spans(key: VerifierKey, rotations: Sequence[Rotation]) -> tuple[Span, ...]:
    """Return every key reachable from `key`, including `key`, with its span. The newest comes first.

    Raises LogSignatureError if `key` does not occur in the rotations: they would introduce untrusted keys.
    """
    if not rotations:
        return (Span(key),)
    found = [Span(rotations[0].old)]
    for each in rotations:
        found[-1] = replace(found[-1], until=each.head.size)
        found.append(Span(each.new, each.head.size, None, each.at_us))
    if key not in [each.key for each in found]:
        raise LogSignatureError(f"The rotations do not include the key {key.name}+{key.key_id.hex()}.")
    return tuple(reversed(found))


def within(check: Check, known: Sequence[Span]) -> Check:
    """Return `check` for checkpoints, limited to each key's span."""
    of = {each.key.public_text: each for each in known}

    def checked(public_key: str, message: bytes, signature: bytes) -> bool:
        span = of.get(public_key)
        if span is not None and not _covers(span, message):
            return False
        return check(public_key, message, signature)

    return checked


def _covers(span: Span, message: bytes) -> bool:
    lines = message.split(b"\n", 2)
    if len(lines) < 3 or not lines[1].isdigit():
        return False
    size = int(lines[1])
    return span.since <= size and (span.until is None or size <= span.until)
