"""`readback approve` and `readback deny`: a person reads the exact bytes, agrees at the terminal, and signs.

No option answers for the person: question and passphrase use the terminal only. A recorded approval executes nothing
here. The executing process checks the approval again, by its own settings.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.prompt import Terminal, facts, terminal
from readback.cli.sessions import again_with, working
from readback.cli.terminal import moment, note, print_json, safe
from readback.client import approving
from readback.client.approving import ApproverKey
from readback.client.session import Session
from readback.config import Settings
from readback.domain.contract.approval import TOKEN_MAX_BYTES, ApprovalToken, Approver, Bound, Decision
from readback.domain.outcome.outcome import Outcome
from readback.drivers.driver_sync import SyncDriver
from readback.drivers.interpreter import Parked
from readback.engine import coordinator
from readback.engine.people.approvals import ApprovalRequest, signed_token
from readback.errors import ApprovalError, UsageError
from readback.views.outcome_text import lines

KEY_FILE_VARIABLE: Final = "READBACK_APPROVER_KEY_FILE"
YES: Final = "yes"
BYTES_A_LINE: Final = 100
TOKEN_REMEDY: Final = "Name the file that `readback keys sign` was written to, or - for stdin."


@click.command("approve")
@click.argument("action", metavar="ID")
@click.option("--key", metavar="FILE", help=f"Your key file ({KEY_FILE_VARIABLE}).")
@click.option("--bytes", "raw", is_flag=True, help="Write the exact bytes to be signed to stdout, and ask nothing.")
@click.option("--token", metavar="FILE", help="Record a token signed elsewhere; - for stdin.")
@options.settings
@options.as_json
def approve(
    action: str,
    key: str | None,
    raw: bool,
    token: str | None,
    settings: Settings,
    as_json: bool,
) -> int:
    """Approve the action ID awaiting approval, after an inspection of the exact request.

    The command shows the request and the bytes to be signed, asks at the terminal, and signs with your own key. The
    passphrase is asked at the terminal, too. Nothing is executed here.
    """
    if raw and token is not None:  # it would be approved where only its bytes were asked for
        raise UsageError("--bytes records nothing, and --token does.", remedy="Pass one of them.")
    return _decide(settings, action, Decision.APPROVE, key, token, raw=raw, as_json=as_json)


@click.command("deny")
@click.argument("action", metavar="ID")
@click.option("--key", metavar="FILE", help=f"Your key file ({KEY_FILE_VARIABLE}).")
@click.option("--token", metavar="FILE", help="Record a token signed elsewhere; - for stdin.")
@options.settings
@options.as_json
def deny(
    action: str,
    key: str | None,
    token: str | None,
    settings: Settings,
    as_json: bool,
) -> int:
    """Deny the action ID awaiting approval. The action ends unexecuted. A denial is signed like an approval."""
    return _decide(settings, action, Decision.DENY, key, token, raw=False, as_json=as_json)


def _decide(
    settings: Settings,
    action: str,
    decision: Decision,
    key: str | None,
    token: str | None,
    *,
    raw: bool,
    as_json: bool,
) -> int:
    if token is None and not raw:
        key_file(key)
        with terminal():  # without a terminal nothing is changed
            pass
    with working(settings, None, new=False) as session:
        driver = SyncDriver(session.store, session.runtime)
        try:
            action_id = session.action_id(action)
            if token is not None:
                given: ApprovalToken | bytes = _token_at(token)
            else:
                if settings.approvers:
                    driver.drive(approving.renew(session.engine, action_id, session.scope.tenant))
                request = driver.drive(approving.requested(session.engine, action_id, session.scope.tenant))
                assert not isinstance(request, Parked)
                if raw:
                    sys.stdout.buffer.write(request.bytes)
                    return 0
                signed = ask(request, settings, decision, key)
                if signed is None:
                    note("Nothing was recorded.")
                    return 1
                given = signed
            driver.drive(approving.decide(session.engine, action_id, session.scope.tenant, given, decision))
            outcome = driver.drive(coordinator.current_outcome(action_id, session.scope.tenant))
            assert not isinstance(outcome, Parked)
        finally:
            driver.close()
        return _tell(session, settings, outcome, decision, as_json=as_json)


def _token_at(place: str) -> bytes:
    try:
        if place == "-":
            return sys.stdin.buffer.read(TOKEN_MAX_BYTES + 1)
        with open(place, "rb") as file:
            return file.read(TOKEN_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"The token {safe(place)} cannot be read: {error.strerror}.", remedy=TOKEN_REMEDY) from error


def ask(request: ApprovalRequest, settings: Settings, decision: Decision, key: str | None) -> ApprovalToken | None:
    """Show the request, ask, and sign. Returns None if the person did not agree. Raises ApprovalError."""
    path = key_file(key)
    with terminal() as person:
        show(person, request.bound, request.bytes, request.payload, request.signed_by)
        return sign(person, request.bound, settings.approvers, decision, path, request.read_us)


def sign(
    person: Terminal,
    bound: Bound,
    approvers: tuple[Approver, ...] | None,
    decision: Decision,
    path: Path,
    at_us: int,
    *,
    name: str = "",
) -> ApprovalToken | None:
    """The question, the passphrase, and the signature of the approver listed with this key.

    `approvers` None: sign without the settings, as `name`. The token counts only where the settings list this name.
    """
    verb = "approve" if decision is Decision.APPROVE else "deny"
    if person.ask(f"Type {YES} to {verb} exactly this, anything else to leave it:") != YES:
        return None
    opened = ApproverKey.open(path, person.secret(f"Passphrase of {path}:"))
    if approvers is None:
        return signed_token(bound, opened, name, decision, at_us)
    approver = next((one for one in approvers if one.key == opened.public_key), None)
    if approver is None:
        raise ApprovalError(
            f"The settings list no approver with the key in {path}.",
            code="approval.unknown-approver",
            remedy=f'The operator lists it as [approvers.NAME] key = "{opened.public_key}".',
        )
    return signed_token(bound, opened, approver.name, decision, at_us)


def key_file(given: str | None) -> Path:
    """The approver's own key file. Raises UsageError if none is named."""
    named = given or os.environ.get(KEY_FILE_VARIABLE)
    if not named:
        raise UsageError("No key is named.", remedy=f"Pass --key FILE, or set {KEY_FILE_VARIABLE}.")
    return Path(named)


def show(person: Terminal, bound: Bound, written: bytes, payload: str, signed_by: tuple[str, ...]) -> None:
    """Print all bound facts for people, and then the bytes."""
    people = "1 person has" if bound.people == 1 else f"{bound.people} people have"
    person.say(f"Action {bound.action} waits for an approval ({bound.approval}); {people} to approve it.")
    if signed_by:
        person.say(f"Signed already by: {', '.join(signed_by)}.")
    person.say(f"  asked by    {bound.principal}, in tenant {bound.tenant}, as operation {bound.operation!r}")
    person.say(f"  what        {bound.contract} ({bound.kind}, {bound.side_effect}), version {bound.contract_version}")
    person.say(f"  on          {bound.target}")
    person.say(f"  until       {moment(bound.expires_us)}")
    person.say("It would be called with:")
    for line in facts(bound.requested, "requested"):
        person.say(f"  {line}")
    if bound.intended is not None:
        person.say("It is meant to make true:")
        for line in facts(bound.intended, "intended"):
            person.say(f"  {line}")
    if b'"$redacted"' in written:
        person.say("Values marked $redacted are kept out of the record; the request hash is over them as they are.")
    person.say(f"The bytes that are bound ({len(written)} bytes, SHA-256 {payload}):")
    text = written.decode()
    for start in range(0, len(text), BYTES_A_LINE):
        person.say(f"  {text[start : start + BYTES_A_LINE]}")


def _tell(session: Session, settings: Settings, outcome: Outcome, decision: Decision, *, as_json: bool) -> int:
    asked = session.fold(outcome.id).approval
    assert asked is not None
    more = max(asked.people - len(asked.signed), 0) if decision is Decision.APPROVE else 0
    if as_json:
        said: dict[str, Json] = {
            "action": outcome.id,
            "approval": asked.id,
            "decision": decision.value,
            "signed_by": [one.approver for one in asked.signed],
            "denied_by": asked.denied_by,
            "people_missing": more,
            "outcome": outcome.as_json(),
        }
        print_json(said)
        return 0
    print("\n".join(lines(outcome)))
    if decision is Decision.DENY:
        note("Denied; nothing was executed.")
    elif more:
        note(f"Recorded. {more} more has to approve it." if more == 1 else f"Recorded. {more} more have to approve it.")
    else:
        work = again_with(settings, contracts=True)
        note(f"Approved. A worker resumes the action, or: readback resume{work}")
    return 0
