"""Approvers as an operator writes them into a settings file, checked. Called by config; it opens no file.

[approvers.alice]
key = "ed25519:..."
tenants = ["acme"]
contracts = ["pay_*"]

Somebody who may approve no more stays there with `tenants = []`: what was approved before can still be checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from readback.domain.contract.approval import Approver, Policy, check_key
from readback.domain.errors import ApprovalError, SettingsError

APPROVERS_MAX: Final = 256
PATTERNS_MAX: Final = 64
NAME_MAX_CHARACTERS: Final = 64
_KEYS: Final = frozenset({"key", "tenants", "contracts"})


def approvers_of(table: object, where: str) -> tuple[Approver, ...]:
    """The approvers in a settings table. Raises SettingsError, which names `where`, for anything that is not right."""
    if not isinstance(table, Mapping) or len(table) > APPROVERS_MAX:
        raise _fault(where, f"'approvers' is no table of at most {APPROVERS_MAX} approvers by name")
    found = tuple(_approver(str(name), entry, where) for name, entry in table.items())
    try:
        Policy.of(found)
    except ApprovalError as error:
        raise _fault(where, error.message.rstrip(".")) from error
    return found


def _approver(name: str, entry: object, where: str) -> Approver:
    at = f"approver {name[:80]!r}"
    if not name.isprintable() or not name.strip() or len(name) > NAME_MAX_CHARACTERS:
        raise _fault(where, f"{at} has no name of 1 to {NAME_MAX_CHARACTERS} printable characters")
    if not isinstance(entry, Mapping):
        raise _fault(where, f"{at} is no table with key and tenants")
    odd = sorted(set(entry) - _KEYS)
    if odd:
        raise _fault(where, f"{at} has the unknown key {odd[0]!r}")
    key = entry.get("key")
    try:
        checked = check_key(key if isinstance(key, str) else "")
    except ApprovalError as error:
        raise _fault(where, f"the key of {at} is no public key such as `readback keys create` prints") from error
    tenants = _patterns(entry.get("tenants"), f"'tenants' of {at}", where)
    contracts = _patterns(entry.get("contracts", ["*"]), f"'contracts' of {at}", where)
    return Approver(name, checked, tenants, contracts)


def _patterns(value: object, at: str, where: str) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [None]
    if len(given) > PATTERNS_MAX or not all(isinstance(one, str) and one for one in given):
        raise _fault(
            where, f'{at} is no list of texts, such as ["acme"]; nobody may approve everywhere by leaving it out'
        )
    return tuple(str(one) for one in given)


def _fault(where: str, what: str) -> SettingsError:
    return SettingsError(f"The settings file {where} cannot be used: {what}.", remedy="Correct the file.")
