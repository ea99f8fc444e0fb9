"""A witness as an anchor (C2SP tlog-witness): checks that the log extends the last seen log, and cosigns.

Chosen by bootstrap for `witness+https:` URLs with the witness's verifier key in the fragment. A witness shows no
checkpoint. It compares on its side, and its refusals become errors with codes. The cosignature is checked here.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote, urlsplit

from readback.adapters.log.anchor_http_client import ask
from readback.errors import AnchorRefusedError, SettingsError
from readback.log.cosignature import WitnessKey, check_cosignature, parse_witness_key
from readback.log.fault import LogCutError, LogForkError, LogFormatError, LogRewrittenError, LogSignatureError
from readback.log.note import Check, Signature, base64_text, number, parse_note
from readback.ports.anchor import Proof

ANSWER_MAX_BYTES: Final = 65_536
ASKED_MAX: Final = 3
"""Maximum requests. The first answer gives the witness's size; the size changes again only through other clients."""


def witness_anchor(url: str, check: Check) -> WitnessAnchor:
    """Return the witness at `witness+https://host/prefix#KEY`. Raises SettingsError, LogFormatError for a bad key."""
    parts = urlsplit(url.removeprefix("witness+"))
    here = parts.scheme == "http" and _is_here(parts.hostname or "")
    plain = parts.hostname and not parts.username and not parts.query and parts.fragment
    if not url.startswith("witness+") or not plain or not (parts.scheme == "https" or here):
        raise SettingsError(
            f"The anchor {parts.hostname or url!r} is no witness.",
            remedy="Write witness+https://host/prefix#KEY, with the witness's verifier key.",
        )
    key = parse_witness_key(unquote(parts.fragment))
    prefix = f"{parts.scheme}://{parts.netloc}{parts.path}"
    return WitnessAnchor(url, prefix, key, check)


class WitnessAnchor:
    """Implements `Anchor`."""

    __slots__ = ("_check", "_key", "_known", "_url", "name")

    def __init__(self, name: str, prefix: str, key: WitnessKey, check: Check) -> None:
        self.name = name
        self._url = prefix.rstrip("/") + "/add-checkpoint"
        self._key, self._check = key, check
        self._known = 0
        """The last known size at the witness."""

    @property
    def shows(self) -> bool:
        return False

    def last(self) -> bytes | None:
        return None

    def take(self, note: bytes, size: int, proof: Proof) -> bytes:
        old, asked = min(self._known, size), 1
        while (said := self._post(_request(note, old, proof(old))))[0] == 409 and asked < ASKED_MAX:
            old, asked = self._older(said[1], old, size), asked + 1
        status, answer = said
        if status == 422:
            raise LogRewrittenError(
                f"The log does not begin with the {old} entries that the witness {self._key.name} saw: it has forked."
            )
        if status == 403:
            raise LogSignatureError(f"The witness {self._key.name} knows this log by another key.")
        if status != 200:
            raise AnchorRefusedError(f"The witness {self._key.name} answered {status}.")
        more = self._cosignatures(note, answer)
        self._known = size
        return more

    def _older(self, answer: bytes, old: int, size: int) -> int:
        """Return the witness's last size, from a conflict answer. Raises LogCutError, LogForkError."""
        try:
            held = number(answer.decode("ascii").removesuffix("\n"), "size")
        except (UnicodeDecodeError, LogFormatError) as error:
            raise AnchorRefusedError(f"The witness {self._key.name} answered a conflict, and no size.") from error
        if held > size:
            raise LogCutError(
                f"The witness {self._key.name} saw {held} entries, and the log has {size}: its end was cut off."
            )
        if held == old == size:
            raise LogForkError(f"The witness {self._key.name} saw another log of {size} entries: the log has forked.")
        return held

    def _cosignatures(self, note: bytes, answer: bytes) -> bytes:
        """Return the checked lines of the named key. Other lines are dropped, as the format requires."""
        found = parse_note(note)
        with_them = parse_note(note + answer)
        lines: list[Signature] = []
        for line in with_them.signatures[len(found.signatures) :]:
            if (line.name, line.key_id) == (self._key.name, self._key.key_id):
                check_cosignature(line, found.text, self._key, self._check)
                lines.append(line)
        if not lines:
            raise LogSignatureError(f"The witness answered without a cosignature by {self._key.name}.")
        return b"".join(line.line().encode() for line in lines[:1])

    def _post(self, body: bytes) -> tuple[int, bytes]:
        who = f"The witness {self._key.name}"
        status, found, _ = ask(who, "POST", self._url, body, {}, ANSWER_MAX_BYTES)
        return status, found


def _request(note: bytes, old: int, path: list[bytes]) -> bytes:
    """Return old size, proof, a blank line, and the checkpoint."""
    return f"old {old}\n".encode() + b"".join(f"{base64_text(each)}\n".encode() for each in path) + b"\n" + note


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
