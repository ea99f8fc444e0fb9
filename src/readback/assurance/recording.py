"""The result of the gates as an entry of the ledger: an action writes the result file and reads the file back.

Called by `readback gates check` and `promote`. The action's request holds the hash of the result, every examined hash
and the standing of each gate. The ledger proves all of this without the file. The log's key signs the entry by a seal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from readback.assurance.results import GatesReport
from readback.audit.record.bundle import Bundle
from readback.canon import Json, json_text, parse_json, sha256_hex
from readback.client.authoring.action import ActionDefinition
from readback.client.client import Readback
from readback.domain.context import Context
from readback.domain.events import EventKind
from readback.domain.outcome.outcome import Outcome
from readback.domain.verdict import Verdict
from readback.domain.verification.reading import Reading

CONTRACT: Final = "readback.gates_result"
RESULT: Final = "result.json"
RECORD: Final = "record.json"
OTHER_CONTRACT: Final = "The record was made under another contract of the same name."
_SYSTEM: Final = "gates-folder"


def operation_of(sha256: str) -> str:
    """Return the operation of a result: the same result is recorded once."""
    return f"gates result {sha256}"


def definition(content: bytes) -> ActionDefinition[[str, str, str, str, dict[str, Any]]]:
    """Return the action for one result with these bytes."""

    def write(
        ctx: Context, folder: str, sha256: str, content_sha256: str, standing: str, examined: dict[str, Any]
    ) -> object:
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        _put(place / RESULT, content)
        stated: Mapping[str, Json] = {"stamp": ctx.stamp, "sha256": sha256, "standing": standing}
        _put(place / RECORD, json_text(dict(stated), indent=2).encode())
        return {"written": len(content)}

    def read(
        ctx: Context, folder: str, sha256: str, content_sha256: str, standing: str, examined: dict[str, Any]
    ) -> Reading:
        try:
            stated = parse_json((Path(folder) / RECORD).read_bytes())
            found = sha256_hex((Path(folder) / RESULT).read_bytes())
        except FileNotFoundError:
            return Reading.absent()
        if not isinstance(stated, dict):
            return Reading.absent()
        values: dict[str, Json] = {"file_sha256": found, "sha256": stated.get("sha256"), "stamp": stated.get("stamp")}
        return Reading.of({**values, "folder": folder}, stamp=str(stated.get("stamp")))

    action: ActionDefinition[[str, str, str, str, dict[str, Any]]] = ActionDefinition(write, dict(_CONTRACT))
    action.read(source=_SYSTEM, consistency="strong", independence="other_client", attributes=True)(read)
    return action


_CONTRACT: Final[Mapping[str, object]] = {
    "name": CONTRACT,
    "kind": "set",
    "side_effect": "low_risk_internal",
    "target": "gates-result/{requested.sha256}",
    "identity": {
        "target": "authoritative.sha256",
        "tenant": "not_offered",
        "account": "not_offered",
        "actor": "not_offered",
        "stamp": "authoritative.stamp",
    },
    "ensure": {"content": "authoritative.file_sha256 == requested.content_sha256"},
    "within": "2s",
}


def _put(place: Path, content: bytes) -> None:
    """Write a whole file or nothing."""
    beside = place.with_name(place.name + ".new")
    with beside.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(beside, place)


def record(client: Readback, report: GatesReport, sha256: str, content: bytes, folder: Path) -> Outcome:
    """Write the result into the folder and record it. Return the outcome of the recording action."""
    action = definition(content)
    examined: dict[str, Json] = {
        "package": report.package,
        "table": report.table,
        "contracts": dict(report.contracts),
        "gates": {each.gate: each.standing.value for each in report.gates},
    }
    proposal = action(str(folder.absolute()), sha256, sha256_hex(content), report.standing.value, examined)
    return client.run(proposal, operation=operation_of(sha256))


def record_fault(bundle: Bundle, sha256: str) -> str:
    """Return why a bundle is no verified record of a result, as a sentence; "" for a verified record."""
    proposal = bundle.entries[0].event
    request = bundle.json_of(proposal.refs.get("request", ""))
    requested = request.get("requested") if isinstance(request, dict) else None
    if proposal.data.get("contract") != CONTRACT or not isinstance(requested, dict):
        return "The bundle is no record of a result of the gates."
    if any(one.event.data.get("contract_hash", contract_hash()) != contract_hash() for one in bundle.entries):
        return OTHER_CONTRACT
    if requested.get("sha256") != sha256:
        return "The bundle records another result."
    judged = [one.event.data.get("verdict") for one in bundle.entries if one.event.kind is EventKind.JUDGED]
    return "" if judged[-1:] == [Verdict.VERIFIED.value] else "The recorded result was not verified."


def contract_hash() -> str:
    """Return the hash of the recording contract. An action of another contract of this name is no record."""
    return definition(b"").plan.contract.hash


def recorded(client: Readback, sha256: str) -> Outcome | None:
    """Return the outcome of the recording action of a result; None where the ledger has none."""
    return client.find_operation(operation_of(sha256), definition(b""))
