"""The examination of `readback doctor` that reads the ledger's entries: which contracts cannot verify well, and why.

One streaming pass over the newest entries of the tenant; nothing is written. What is poor is a warning: the
installation may be sound all the same, and `--strict` makes warnings count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from readback import bootstrap
from readback.audit.feedback.findings import Poor, feedback_json, poor_in
from readback.audit.feedback.tally import Feedback, feedback_of
from readback.canon import Json
from readback.cli.checks.doctor_checks import Finding, file_of
from readback.cli.terminal import safe
from readback.config import Settings
from readback.domain.errors import SettingsError, StoreError
from readback.ports.storage.store import LedgerStore

ENTRIES_MAX: Final = 200_000
"""The newest entries of the log that are read."""


def quality(settings: Settings) -> Iterator[Finding]:
    """What the ledger's entries say of contracts, tools and sources."""
    path = file_of(settings.url)
    if path is not None and not path.exists():
        return
    try:
        store = bootstrap.store(settings.url, read_only=True)
    except (SettingsError, StoreError):
        return  # the examination of the ledger names it
    try:
        feedback = feedback_of(store.scan(_from(store)), settings.tenant)
    finally:
        store.close()
    poor = poor_in(feedback)
    for one in poor:
        yield _finding(one)
    yield _summary(feedback, len(poor))


def _from(store: LedgerStore) -> int:
    """The place in the log after which entries are read."""
    return max(0, store.last_seq() - ENTRIES_MAX)


def _finding(one: Poor) -> Finding:
    details: dict[str, Json] = {
        "kind": one.kind,
        "name": one.name,
        "code": one.code,
        "count": one.count,
        "of": one.of,
        "contracts": [*one.contracts],
    }
    touched = "" if one.kind != "source" else f"; it weakens {safe(', '.join(one.contracts))}"
    said = f"{one.kind} {safe(one.name)}: {safe(one.said, 400)}{touched}"
    return Finding("quality", "warning", said, one.remedy, 0, details)


def _summary(feedback: Feedback, poor: int) -> Finding:
    executed = sum(one.executed for one in feedback.contracts.values())
    verified = sum(one.verified for one in feedback.contracts.values())
    said = f"{len(feedback.contracts)} contracts, {executed} executed actions, {verified} verified"
    if not poor:
        said += "; none that was seen often enough verifies poorly"
    return Finding("quality", "ok", said, details={"feedback": feedback_json(feedback)})
