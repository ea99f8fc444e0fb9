"""Acknowledgements: a person's reasons for changed results and changed predicates, in a YAML or JSON file.

An acknowledgement is bound by hash to the candidate contract and table, and by text to one change. After any edit of
the contract or the table the acknowledgement no longer fits, and loading raises an error.

    apiVersion: readback/v1
    kind: Acknowledgements
    acknowledgements:
      - gate: trace-replay
        contract: ship_order
        contract_sha256: 4b1f...
        table: 9c0a...
        change: refuted/value_mismatch/REC-05/failed -> verified/-/RB-verified/reconciled_success
        actions: [01J...]        # each action, for a change to verified
        reason: The carrier writes "in transit" since May.
        by: ana
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import readback.bootstrap as bootstrap
from readback.assurance.faults import AcknowledgementError
from readback.assurance.gate_input import VerificationLogic
from readback.assurance.results import Finding, Standing
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.files.document import FILE_MAX_BYTES, Written, read_document

API_VERSION: Final = "readback/v1"
KIND: Final = "Acknowledgements"
REASON_MAX_CHARACTERS: Final = 2_000
ACKNOWLEDGED_GATES: Final = ("trace-replay", "predicate-diff")
TABLE: Final = "recovery table"
"""The name in place of a contract, for a change of the recovery table."""
_NEEDED: Final = ("gate", "contract", "contract_sha256", "table", "change", "reason")
_KEYS: Final = frozenset({*_NEEDED, "by", "actions"})


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One acknowledged change. `where`: file, line and column."""

    gate: str
    contract: str
    contract_sha256: str
    table: str
    change: str
    reason: str
    by: str
    actions: frozenset[str]
    where: str


class Acknowledgements:
    """The acknowledgements of one run, by gate, contract and change."""

    def __init__(self, listed: Iterable[Acknowledgement] = ()) -> None:
        self._listed: dict[tuple[str, str, str], Acknowledgement] = {}
        for each in listed:
            self._listed[each.gate, each.contract, each.change] = each

    def of(self, gate: str, contract: str, change: str) -> Acknowledgement | None:
        """Return the acknowledgement of a change."""
        return self._listed.get((gate, contract, change))

    def __len__(self) -> int:
        return len(self._listed)


NO_ACKNOWLEDGEMENTS: Final = Acknowledgements()


def load_acknowledgements(
    files: Sequence[str], candidate: VerificationLogic, incumbent: VerificationLogic | None = None
) -> Acknowledgements:
    """Read files of acknowledgements, and compare each with the candidate. Raises AcknowledgementError.

    `incumbent`: holds the contracts that the candidate drops.
    """
    found: list[Acknowledgement] = []
    for file in files:
        content = bootstrap.kept_file(Path(file), FILE_MAX_BYTES)
        if content is None:
            raise AcknowledgementError(f"There is no file {file!r}.", remedy="Correct the path.")
        found += _of_file(file, content)
    for each in found:
        _check(each, candidate, incumbent)
    return Acknowledgements(found)


def _of_file(file: str, content: bytes) -> list[Acknowledgement]:
    root, faults = read_document(content)
    if faults or root is None:
        first = faults[0]
        raise _malformed(f"{file}:{first.place.line}:{first.place.column}", first.said)
    keys = root.mapping or {}
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if name not in keys or keys[name].value != wanted:
            raise _malformed(f"{file}:1:1", f"The {name} of acknowledgements is {wanted}.")
    listed = keys["acknowledgements"].listed if "acknowledgements" in keys else None
    if listed is None:
        raise _malformed(f"{file}:1:1", "The key `acknowledgements` must be a list.")
    return [_one(file, each) for each in listed]


def _one(file: str, node: Written) -> Acknowledgement:
    where, keys = f"{file}:{node.place.line}:{node.place.column}", node.mapping or {}
    for name in keys:
        if name not in _KEYS:
            raise _malformed(where, f"There is no key {name!r:.80} in an acknowledgement.")
    texts = {name: keys[name].text or str(keys[name].value or "") for name in keys if name != "actions"}
    for name in _NEEDED:
        if not texts.get(name, "").strip():
            raise _malformed(where, f"An acknowledgement needs a non-empty {name}.")
    if texts["gate"] not in ACKNOWLEDGED_GATES:
        raise _malformed(where, f"The gate must be one of {', '.join(ACKNOWLEDGED_GATES)}.")
    if len(texts["reason"]) > REASON_MAX_CHARACTERS:
        raise _malformed(where, f"The reason exceeds {REASON_MAX_CHARACTERS} characters.")
    actions = keys["actions"].listed if "actions" in keys else []
    if actions is None:
        raise _malformed(where, "The key `actions` must be a list of action ids.")
    named = frozenset(each.text or str(each.value) for each in actions)
    return Acknowledgement(
        texts["gate"],
        texts["contract"],
        texts["contract_sha256"],
        texts["table"],
        texts["change"],
        texts["reason"],
        texts.get("by", ""),
        named,
        where,
    )


def _malformed(where: str, said: str) -> AcknowledgementError:
    return AcknowledgementError(f"{where}: {said}", remedy="Compare the file with docs/release-gates.md.")


def _check(each: Acknowledgement, candidate: VerificationLogic, incumbent: VerificationLogic | None) -> None:
    """Raise AcknowledgementError where the acknowledgement is of another contract text, or of another table."""
    wanted = bound_hash(candidate, each.contract) or (bound_hash(incumbent, each.contract) if incumbent else "")
    stale = ""
    if wanted != each.contract_sha256:
        stale = f"the contract {each.contract!r} has another content than {each.contract_sha256[:16]!r}"
        stale = stale if wanted else f"the candidate has no contract {each.contract!r}"
    elif candidate.table.version != each.table:
        stale = f"the recovery table has another version than {each.table[:16]!r}"
    if stale:
        raise AcknowledgementError(
            f"{each.where}: The acknowledgement of {each.change!r:.200} no longer fits: {stale}.",
            code="gates.acknowledgement-stale",
            details={"where": each.where, "contract": each.contract, "change": each.change},
        )


def bound_hash(candidate: VerificationLogic, contract: str) -> str:
    """Return the hash that an acknowledgement of this contract is bound to; "" for an unknown contract."""
    if contract == TABLE:
        return candidate.table.version
    plan = candidate.plans.get(contract)
    return "" if plan is None else plan.contract.hash


def stanza(
    gate: str,
    candidate: VerificationLogic,
    contract: str,
    change: str,
    actions: Iterable[str] = (),
    *,
    dropped: str = "",
) -> dict[str, Json]:
    """Return the acknowledgement of a change as data, with an empty reason to fill in.

    `dropped`: the hash of a contract that the candidate drops.
    """
    said: dict[str, Json] = {
        "gate": gate,
        "contract": contract,
        "contract_sha256": dropped or bound_hash(candidate, contract),
        "table": candidate.table.version,
        "change": change,
    }
    named = [*actions]
    return {**said, **({"actions": [*named]} if named else {}), "reason": ""}


def proposed_file(findings: Iterable[Finding]) -> str:
    """Return a file with every missing acknowledgement; "" for none. The empty reasons are for a person."""
    listed: list[Mapping[str, Json]] = []
    for each in findings:
        one = each.detail.get("acknowledge")
        if each.standing is Standing.FAILED and isinstance(one, dict):
            listed.append(one)
    if not listed:
        return ""
    lines = [f"apiVersion: {API_VERSION}", f"kind: {KIND}", "acknowledgements:"]
    for stated in listed:
        for number, (key, value) in enumerate(stated.items()):
            lines.append(f"  {'- ' if number == 0 else '  '}{key}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
