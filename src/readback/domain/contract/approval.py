"""Approvals: the bytes bound by a person's signature, and the check before an attempt.

Pure and total. `Bound` makes the exact bytes shown to an approver; a signed token names their hash. `check_approvals`
runs when a token is recorded. The executing process runs the check again before each attempt, against its own settings.
The caller passes in the signature verifier. After a refusal the recovery table decides.

Source: the action verification specification, "Recovery decision table" (approval rows), "Action ledger schema".
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from readback.canon import Json, ReadbackError, envelope_bytes, parse_json, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.canon.unicode_forms import normalized
from readback.errors import ApprovalError, OversizeError, SettingsError

BOUND_FORMAT: Final = "readback-approval/1"
TOKEN_FORMAT: Final = "readback-approval-token/1"
POLICY_FORMAT: Final = "readback-approval-policy/1"
SIGNED_PREFIX: Final = b"readback/approval-token/1\n"
"""Begins every signed statement, so that the signature is valid nowhere else."""
KEY_PREFIX: Final = "ed25519:"
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
BOUND_MAX_BYTES: Final = 65_536
"""Size limit, in bytes, of the text read by a signer. A larger request cannot be approved."""
TOKEN_MAX_BYTES: Final = 4_096
PEOPLE_MAX: Final = 2
EXPIRES_DEFAULT_US: Final = 24 * 3600 * 1_000_000
HOLD: Final = "approval"
"""The hold of a validated action during the wait for an approval."""

Verify = Callable[[str, bytes, bytes], bool]
"""(public key as text, message, signature) -> whether the key made the signature over the message."""


class Decision(StrEnum):
    """An approver's decision."""

    APPROVE = "approve"
    DENY = "deny"


class ApprovalCode(StrEnum):
    """Why a token, or the tokens of an action, do not permit an attempt. The values are stable error codes."""

    WAITING = "approval.required"
    """Not enough people have approved yet."""
    FORGED = "approval.forged"
    EXPIRED = "approval.expired"
    REPLAYED = "approval.replayed"
    """Made for another request, or counted already."""
    MISMATCH = "approval.mismatch"
    """Signed over other bytes than the bytes to execute."""
    POLICY_CHANGED = "approval.policy-changed"
    UNKNOWN_APPROVER = "approval.unknown-approver"
    SELF = "approval.self"
    DENIED = "approval.denied"


NEVER_AGAIN: Final = frozenset(
    code.value for code in ApprovalCode if code not in (ApprovalCode.EXPIRED, ApprovalCode.WAITING)
)
"""Codes that end the action for good: the same operation is not requested again."""


@dataclass(frozen=True, slots=True)
class ApprovalTerms:
    """A contract's demand for approvals. `when`: an expression over requested, intended and scope; "" for always."""

    people: int = 1
    expires_us: int = EXPIRES_DEFAULT_US
    when: str = ""


@dataclass(frozen=True, slots=True)
class Approver:
    """A person with the right to approve: a name, a public key (`ed25519:` and base64), and the patterns of
    that right.

    `tenants` and `contracts` are patterns such as "acme" or "pay_*"; no tenant means none.

    Example:
        >>> from readback import Approver
        >>> ana = Approver("ana@example.com", "ed25519:" + "A" * 43 + "=", tenants=("acme",), contracts=("pay_*",))
        >>> ana.may_approve("acme", "pay_invoice"), ana.may_approve("acme", "ship_order")
        (True, False)
    """

    name: str
    key: str
    tenants: tuple[str, ...]
    contracts: tuple[str, ...] = ("*",)

    @property
    def key_id(self) -> str:
        """A short name of the key, derived from the key."""
        return key_id(self.key)

    def may_approve(self, tenant: str, contract: str) -> bool:
        """Whether this approver counts for actions of a contract in a tenant."""
        return any(fnmatchcase(tenant, p) for p in self.tenants) and any(
            fnmatchcase(contract, p) for p in self.contracts
        )


def key_id(key: str) -> str:
    """The first 64 bits of the key's SHA-256, in hex."""
    return sha256_hex(key.encode())[:16]


def check_key(text: str) -> str:
    """Return the key in canonical spelling. Raises ApprovalError unless the text is an Ed25519 public key."""
    try:
        raw = b64decode(text.removeprefix(KEY_PREFIX).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raw = b""
    if not text.startswith(KEY_PREFIX) or len(raw) != KEY_BYTES:
        raise ApprovalError(f"{text[:80]!r} is not a public key. Write ed25519: followed by 32 bytes in base64.")
    return KEY_PREFIX + b64encode(raw).decode("ascii")


@dataclass(frozen=True, slots=True)
class Policy:
    """The approvers of this installation. Each list of approvers has its own version."""

    approvers: tuple[Approver, ...] = ()
    version: str = ""

    @classmethod
    def of(cls, approvers: Sequence[Approver]) -> Policy:
        """The policy of these approvers. Raises ApprovalError for a repeated name or key."""
        kept = tuple(sorted(approvers, key=lambda one: one.name))
        names, keys = [_folded(one.name) for one in kept], [check_key(one.key) for one in kept]
        if len(set(names)) != len(names) or len(set(keys)) != len(keys):
            raise ApprovalError("Two approvers have the same name or key. Give each approver a separate name and key.")
        rows: list[Json] = [[o.name, o.key, [*sorted(o.tenants)], [*sorted(o.contracts)]] for o in kept]
        return cls(kept, sha256_hex(envelope_bytes({"format": POLICY_FORMAT, "approvers": rows})))

    def named(self, name: str) -> Approver | None:
        """The approver of this name."""
        return next((one for one in self.approvers if one.name == name), None)

    def past(self, version: str) -> Policy:
        """The same people under an earlier policy version: every listed key counted then.

        A former approver stays listed without tenants, so that old records can be checked.
        """
        return Policy(tuple(replace(one, tenants=("*",), contracts=("*",)) for one in self.approvers), version)


NO_APPROVERS: Final = Policy.of(())
"""The policy without approvers: an action in need of an approval waits until the request expires."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The complete content bound by one approval.

    `requested` and `intended` are the recorded values, without the contract's redacted fields. `request_hash` covers
    the unredacted arguments.
    """

    approval: str
    nonce: str
    action: str
    tenant: str
    principal: str
    contract: str
    contract_version: str
    contract_hash: str
    kind: str
    side_effect: str
    target: str
    operation: str
    request_hash: str
    requested: Json
    intended: Json
    people: int
    policy: str
    expires_us: int

    def bytes(self) -> bytes:
        """Return the exact bytes: canonical JSON (RFC 8785). Raises OversizeError beyond BOUND_MAX_BYTES."""
        written = payload_bytes(
            {
                "format": BOUND_FORMAT,
                "approval": self.approval,
                "nonce": self.nonce,
                "action": self.action,
                "tenant": self.tenant,
                "principal": self.principal,
                "contract": {"name": self.contract, "version": self.contract_version, "hash": self.contract_hash},
                "kind": self.kind,
                "side_effect": self.side_effect,
                "target": self.target,
                "operation": self.operation,
                "request_hash": self.request_hash,
                "requested": self.requested,
                "intended": self.intended,
                "people": self.people,
                "policy": self.policy,
                "expires_us": self.expires_us,
            }
        )
        if len(written) > BOUND_MAX_BYTES:
            raise OversizeError(
                f"The request for approval has {len(written)} bytes, over the limit of {BOUND_MAX_BYTES}."
            )
        return written

    def payload(self) -> str:
        """SHA-256 of the bytes, in hex, as named by a token."""
        return sha256_hex(self.bytes())


def bound_from(given: Json) -> Bound:
    """Parse bound bytes. Raises ApprovalError for another form."""
    raw = dict(given) if isinstance(given, dict) else {}
    contract = raw.pop("contract", None)
    names = {f.name for f in fields(Bound)} - {"contract", "contract_version", "contract_hash"}
    whole = isinstance(contract, dict) and set(contract) == {"name", "version", "hash"}
    if not whole or raw.pop("format", None) != BOUND_FORMAT or set(raw) != names:
        raise ApprovalError("The bytes are not an approval request.", code=ApprovalCode.MISMATCH.value)
    assert isinstance(contract, dict)
    of = {"contract": contract["name"], "contract_version": contract["version"], "contract_hash": contract["hash"]}
    texts = {**raw, **of}
    free, numbers = {"requested", "intended"}, {"people", "expires_us"}
    for name, value in texts.items():
        if name not in free and type(value) is not (int if name in numbers else str):
            raise ApprovalError("The bytes are not an approval request.", code=ApprovalCode.MISMATCH.value)
    return Bound(**texts)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ApprovalToken:
    """One person's signed decision about one request. `signed_at_us`: the signer's own clock, unchecked.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from readback import ApproverKey, Readback, Reading, action
        >>> @action("lamp", ensure="authoritative.on", approval="required")
        ... def switch_on() -> None: ...
        >>> read_lamp = switch_on.read(strong=True)(lambda: Reading.of({"on": True}))
        >>> with Readback.open("memory:") as rb, tempfile.TemporaryDirectory() as folder:
        ...     key = ApproverKey.create(Path(folder) / "ana.key", "a long passphrase")
        ...     token = key.approve(rb.approval(rb.run(switch_on()).id), "ana@example.com")
        >>> print(token.approver, token.decision.value)
        ana@example.com approve
    """

    approver: str
    key_id: str
    approval: str
    payload: str
    decision: Decision
    signed_at_us: int
    expires_us: int
    nonce: str
    signature: bytes = b""

    def statement(self) -> bytes:
        """The bytes to sign."""
        return SIGNED_PREFIX + envelope_bytes(self._fields())

    def body(self) -> bytes:
        """The token as stored and transmitted: canonical JSON."""
        return envelope_bytes(self.as_json())

    def as_json(self) -> dict[str, Json]:
        return {**self._fields(), "signature": b64encode(self.signature).decode("ascii")}

    def _fields(self) -> dict[str, Json]:
        return {
            "format": TOKEN_FORMAT,
            "approver": self.approver,
            "key_id": self.key_id,
            "approval": self.approval,
            "payload": self.payload,
            "decision": self.decision.value,
            "signed_at_us": self.signed_at_us,
            "expires_us": self.expires_us,
            "nonce": self.nonce,
        }


_TEXTS: Final = ("approver", "key_id", "approval", "payload", "nonce", "signature")
_NUMBERS: Final = ("signed_at_us", "expires_us")


def token_of(given: bytes | str | Mapping[str, object]) -> ApprovalToken:
    """Parse a token from outside. Raises ApprovalError (approval.forged) for any other form."""
    if not isinstance(given, bytes | str | Mapping):
        raise _no_token(f"the type is {type(given).__name__}")
    try:
        raw = dict(given) if isinstance(given, Mapping) else parse_json(given, bytes_max=TOKEN_MAX_BYTES)
        if not isinstance(raw, dict) or set(raw) != {"format", "decision", *_TEXTS, *_NUMBERS}:
            raise _no_token("the fields differ from a token's fields")
        if raw["format"] != TOKEN_FORMAT or not all(type(raw[name]) is str for name in _TEXTS):
            raise _no_token("the format is unknown")
        if not all(type(raw[name]) is int for name in _NUMBERS):
            raise _no_token("the times are not whole microseconds")
        signature = b64decode(str(raw.pop("signature")).encode("ascii"), validate=True)
        del raw["format"]
        made = ApprovalToken(**{**raw, "decision": Decision(str(raw["decision"]))}, signature=signature)  # type: ignore[arg-type]
        made.statement()
    except ApprovalError:
        raise
    except (ReadbackError, ValueError) as error:
        why = error.message if isinstance(error, ReadbackError) else str(error)
        raise _no_token(why.rstrip(".")) from error
    return made


def _no_token(why: str) -> ApprovalError:
    return ApprovalError(f"Not a valid approval token: {why}.", code=ApprovalCode.FORGED.value)


@dataclass(frozen=True, slots=True)
class Approved:
    """Enough people have approved exactly this request, and their approval is valid now."""

    approval: str
    approvers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The action may not start. `who`: the approver of the faulty token, if there is a faulty token."""

    code: ApprovalCode
    who: str = ""


def check_approvals(
    bound: Bound, policy: Policy, tokens: Sequence[ApprovalToken], now_us: int, verify: Verify
) -> Approved | Refused:
    """Decide whether these tokens permit the bound action now. A single faulty token refuses all.

    1. Time, and the policy of the request. 2. Each token alone. 3. Any denial. 4. Enough people.
    """
    if now_us >= bound.expires_us:  # 1
        return Refused(ApprovalCode.EXPIRED)
    if bound.policy != policy.version:
        return Refused(ApprovalCode.POLICY_CHANGED)
    names: list[str] = []
    keys: set[str] = set()
    denied = ""
    for token in tokens:
        refusal = check_token(bound, policy, token, now_us, verify)  # 2
        if refusal is None and (token.approver in names or token.key_id in keys):
            refusal = ApprovalCode.REPLAYED
        if refusal is not None:
            return Refused(refusal, token.approver)
        names.append(token.approver)
        keys.add(token.key_id)
        denied = denied or (token.approver if token.decision is Decision.DENY else "")
    if denied:  # 3
        return Refused(ApprovalCode.DENIED, denied)
    if len(names) < max(bound.people, 1):  # 4
        return Refused(ApprovalCode.WAITING)
    return Approved(bound.approval, tuple(names))


def check_token(bound: Bound, policy: Policy, token: ApprovalToken, now_us: int, verify: Verify) -> ApprovalCode | None:
    """Return the fault of one token, or None. Checked: signer, signature, principal, request, time."""
    approver = policy.named(token.approver)
    listed = approver is not None and token.key_id == approver.key_id
    if approver is None or not listed or not approver.may_approve(bound.tenant, bound.contract):
        return ApprovalCode.UNKNOWN_APPROVER
    if len(token.signature) != SIGNATURE_BYTES or not verify(approver.key, token.statement(), token.signature):
        return ApprovalCode.FORGED
    if is_principal(approver.name, bound.principal):
        return ApprovalCode.SELF
    if (token.approval, token.nonce) != (bound.approval, bound.nonce):
        return ApprovalCode.REPLAYED
    if token.payload != bound.payload():
        return ApprovalCode.MISMATCH
    if bound.policy != policy.version:
        return ApprovalCode.POLICY_CHANGED
    return ApprovalCode.EXPIRED if now_us >= min(token.expires_us, bound.expires_us) else None


def is_principal(approver: str, principal: str) -> bool:
    """Whether the approver is the principal. `alice` equals `human:alice`, on either side."""
    name, whole = _folded(approver), _folded(principal)
    return name in (whole, whole.rpartition(":")[2]) or name.rpartition(":")[2] == whole


def _folded(name: str) -> str:
    return normalized("NFKC", name).casefold().strip()


# Approvers of a settings file, checked. Called by config; opens no file.

APPROVERS_MAX: Final = 256
PATTERNS_MAX: Final = 64
NAME_MAX_CHARACTERS: Final = 64
_KEYS: Final = frozenset({"key", "tenants", "contracts"})


def approvers_of(table: object, where: str) -> tuple[Approver, ...]:
    """Return the approvers of a settings table. Raises SettingsError, with `where`, for any invalid entry."""
    if not isinstance(table, Mapping) or len(table) > APPROVERS_MAX:
        raise _fault(where, f"'approvers' must be a table of at most {APPROVERS_MAX} approvers by name")
    found = tuple(_approver(str(name), entry, where) for name, entry in table.items())
    try:
        Policy.of(found)
    except ApprovalError as error:
        raise _fault(where, error.message.rstrip(".")) from error
    return found


def _approver(name: str, entry: object, where: str) -> Approver:
    at = f"approver {name[:80]!r}"
    if not name.isprintable() or not name.strip() or len(name) > NAME_MAX_CHARACTERS:
        raise _fault(where, f"the name of {at} must have 1 to {NAME_MAX_CHARACTERS} printable characters")
    if not isinstance(entry, Mapping):
        raise _fault(where, f"{at} must be a table with key and tenants")
    odd = sorted(set(entry) - _KEYS)
    if odd:
        raise _fault(where, f"{at} has the unknown key {odd[0]!r}")
    key = entry.get("key")
    try:
        checked = check_key(key if isinstance(key, str) else "")
    except ApprovalError as error:
        raise _fault(where, f"the key of {at} is not a public key as printed by `readback keys create`") from error
    tenants = _patterns(entry.get("tenants"), f"'tenants' of {at}", where)
    contracts = _patterns(entry.get("contracts", ["*"]), f"'contracts' of {at}", where)
    return Approver(name, checked, tenants, contracts)


def _patterns(value: object, at: str, where: str) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [None]
    if len(given) > PATTERNS_MAX or not all(isinstance(one, str) and one for one in given):
        raise _fault(where, f'{at} must be a list of texts, such as ["acme"]; write ["*"] for all')
    return tuple(str(one) for one in given)


def _fault(where: str, what: str) -> SettingsError:
    return SettingsError(f"The settings file {where} cannot be used: {what}.", remedy="Correct the file.")
