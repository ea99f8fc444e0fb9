"""Senders of webhooks: the check of a signature or of a shared secret, and the name of the waiting action.

Source: Standard Webhooks 1.0, "Signature scheme": base64(HMAC-SHA256(secret, id + "." + timestamp + "." + body)).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from readback.canon import parse_json
from readback.canon.fault import CanonError
from readback.client.session import check_id
from readback.config import secret_at
from readback.errors import SettingsError, UsageError
from readback.server.errors import BodyError, WebhookError

TOLERANCE_S: Final = 300
"""How far a webhook's time may differ from the server's clock, in seconds."""
SECRET_PREFIX: Final = "whsec_"
SECRET_MIN_BYTES: Final = 24
ID_MAX_CHARS: Final = 256
US: Final = 1_000_000
SCHEMES: Final = ("standard", "shared")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")


class Sender(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sender of webhooks, by `[webhooks.NAME]`: how a request is verified, and where the request names the action."""

    tenant: str
    secret: str
    """A reference to the secret: `env:NAME` or `file:PATH`."""
    scheme: str = "standard"
    """`standard` for Standard Webhooks signatures, `shared` for a secret in `header`."""
    header: str = "x-webhook-secret"
    field: str = "stamp"
    """The dotted path of the action's id or stamp in the JSON body."""


def check_sender(name: str, sender: Sender) -> None:
    """Raise SettingsError for a sender that no request could fit."""
    place = f"webhooks.{name:.80}"
    if "/" in name:
        raise SettingsError(f"{place} has a slash in its name.", remedy="Name the sender without a slash.")
    try:
        check_id("principal", f"webhook:{name}", UsageError)
        check_id("tenant", sender.tenant, UsageError)
    except UsageError as error:
        raise SettingsError(f"{place} does not fit: {error.message}") from error
    if sender.scheme not in SCHEMES:
        raise SettingsError(f"{place}.scheme must be standard or shared (got {sender.scheme!r:.40}).")
    if not _HEADER.fullmatch(sender.header):
        raise SettingsError(f"{place}.header is not the name of an HTTP header (got {sender.header!r:.40}).")
    if not all(sender.field.split(".")):
        raise SettingsError(
            f"{place}.field is not a dotted path (got {sender.field!r:.40}).", remedy='Write a path such as "data.id".'
        )


class Senders:
    """The verified senders of webhooks, with their secrets opened once.

    Raises SettingsError for a missing secret, and for a sender that no request could fit.
    """

    def __init__(self, named: Mapping[str, Sender]) -> None:
        for name, each in named.items():
            check_sender(name, each)
        self._senders = {name: (each, _secret(name, each)) for name, each in named.items()}

    def verified(self, name: str, headers: Mapping[bytes, bytes], body: bytes, now_us: int) -> Sender:
        """Return the sender of a webhook. Raises WebhookError, with the same text for an unknown sender."""
        sender, secret = self._senders.get(name, (None, b""))
        if sender is None:
            raise WebhookError("The webhook is not verified.")
        if sender.scheme == "shared":
            given = headers.get(sender.header.lower().encode("ascii"), b"")
            if not hmac.compare_digest(given, secret):
                raise WebhookError("The webhook is not verified.")
            return sender
        _check_signature(headers, body, secret, now_us)
        return sender


def _secret(name: str, sender: Sender) -> bytes:
    found = secret_at(sender.secret)
    if sender.scheme == "standard" and found.startswith(SECRET_PREFIX.encode()):
        try:
            found = base64.b64decode(found[len(SECRET_PREFIX) :], validate=True)
        except (binascii.Error, ValueError) as error:
            raise SettingsError(f"The secret of webhooks.{name} is not Base64 after {SECRET_PREFIX}.") from error
    if len(found) < SECRET_MIN_BYTES:
        raise SettingsError(
            f"The secret of webhooks.{name} has fewer than {SECRET_MIN_BYTES} bytes.",
            remedy="Create a secret with `openssl rand -base64 32`.",
        )
    return found


def _check_signature(headers: Mapping[bytes, bytes], body: bytes, secret: bytes, now_us: int) -> None:
    identity, sent = headers.get(b"webhook-id", b""), headers.get(b"webhook-timestamp", b"")
    given = headers.get(b"webhook-signature", b"")
    if not identity or len(identity) > ID_MAX_CHARS or not sent.isdigit() or len(sent) > 12 or not given:
        raise WebhookError("The webhook lacks its id, its time or its signature.")
    if abs(int(sent) - now_us // US) > TOLERANCE_S:
        raise WebhookError(f"The webhook's time differs from the server's by more than {TOLERANCE_S} seconds.")
    wanted = base64.b64encode(hmac.new(secret, b".".join((identity, sent, body)), sha256).digest())
    parts = [each.partition(b",") for each in given.split(b" ")]
    if not any(version == b"v1" and hmac.compare_digest(value, wanted) for version, _, value in parts):
        raise WebhookError("The webhook is not verified.")


def named_action(body: bytes, field: str) -> str:
    """Return the text at a dotted path of the body. Raises BodyError where there is none."""
    try:
        found: Any = parse_json(body)
    except CanonError as error:
        raise BodyError(f"The webhook's body is not JSON: {error.message}") from error
    for part in field.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, str) or not found:
        raise BodyError(f"The webhook's body has no text at {field!r:.80}.")
    return found
