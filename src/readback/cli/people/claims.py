"""`readback claims`: the claims of actions, their standing, and decisions of people about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from readback.cli import options
from readback.cli.prompt import operator, signed, signing
from readback.cli.sessions import again_with, reading, settings_of, working
from readback.cli.terminal import console, moment, note, print_json, safe
from readback.client.operations import claiming
from readback.client.session import Session
from readback.config import Settings
from readback.domain.action.claim import Claim, ClaimStatus, claim_bytes
from readback.domain.outcome.claim_words import describe_claim
from readback.domain.state import EXIT_FAILED, EXIT_UNDETERMINED, EXIT_VERIFIED
from readback.drivers.driver_sync import SyncDriver
from readback.engine.claims import entries
from readback.engine.people import claims as claim_person
from readback.engine.resume import fold
from readback.views.outcome_text import plain

F = TypeVar("F", bound=Callable[..., Any])
LISTED: Final = 50
FALLEN_SHOWN: Final = 8
EXIT_OF: Final = {
    ClaimStatus.STANDING: EXIT_VERIFIED,
    ClaimStatus.REINSTATED: EXIT_VERIFIED,
    ClaimStatus.CONTESTED: EXIT_FAILED,
    ClaimStatus.RETRACTED: EXIT_FAILED,
    ClaimStatus.NONE: EXIT_UNDETERMINED,
}


@click.group("claims")
def claims() -> None:
    """List claims of actions, check, retract and reinstate them.

    A verified action makes two claims: the action happened (ID:happened), and the result still holds (ID:holds). The
    bare id of an action means the second claim.
    """


@claims.command("list", short_help="List contested, retracted and reinstated claims.")
@click.argument("action", metavar="[ID]", required=False, default="")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=LISTED, show_default=True, help="Maximum number of actions."
)
@options.settings
@options.as_json
def list_claims(action: str, limit: int, settings: Settings, as_json: bool) -> int:
    """List contested, retracted and reinstated claims, newest actions first, or the claims of one action."""
    with reading(settings) as session:
        found = claiming.claims(session, action, limit=limit)
    if as_json:
        print_json([one.as_json() for one in found])
    elif not found:
        note("The action has no claim." if action else f"Every claim of tenant {safe(settings.tenant)} stands.")
    else:
        _draw(found)
        note(f"Next: readback claims check CLAIM{again_with(settings)}")
    return 0


@claims.command("check", short_help="Check whether a claim stands.")
@click.argument("claim", metavar="ID")
@options.settings
@options.as_json
def check(claim: str, settings: Settings, as_json: bool) -> int:
    """Check whether a claim stands. Exit code 0: the claim stands; 1: contested or retracted; 3: nothing is claimed so
    far.
    """
    with reading(settings) as session:
        found = claiming.claim(session, claim)
        fallen = _fallen(session, found)
    if as_json:
        print_json(found.as_json())
    else:
        _tell(found)
    if fallen:
        named = ", ".join(safe(each) for each in fallen[:FALLEN_SHOWN])
        note(f"Claims behind the plan no longer stand ({named}); no plan on this claim is executed now.")
    return EXIT_OF[found.status]


def _fallen(session: Session, found: Claim) -> tuple[str, ...]:
    """The fallen claims behind the action's plan. The claim itself stands, but is no ground for a new plan."""
    action = fold(session.store.events(found.action_id))
    assert action is not None
    driver = SyncDriver(session.store, session.runtime)
    try:
        answer = driver.drive(entries.invalid_claims(action.tenant, entries.claims_relied_on(action)))
        assert isinstance(answer, tuple)  # nothing of it waits
        return answer
    finally:
        driver.close()


def _ordered(command: F) -> F:
    """Shared options of retraction and reinstatement: claim, reason and decider."""
    for option in (
        options.as_json,
        options.ledger,
        operator,
        click.option(
            "--expect-version", type=click.IntRange(1), metavar="N", help="The version of the action you examined."
        ),
        click.option("--reason", required=True, metavar="TEXT", help="The reason, for the record."),
        click.argument("claim", metavar="ID"),
    ):
        command = option(command)
    return command


def _said(
    status: ClaimStatus,
    *,
    claim: str,
    reason: str,
    expect_version: int | None,
    who: str | None,
    key: str | None,
    url: str | None,
    tenant: str | None,
    principal: str | None,
    as_json: bool,
) -> int:
    settings = settings_of(url, tenant, principal)
    with working(settings, None, new=False) as session:
        name, looked_at = signing(who), claiming.claim(session, claim)
        version = expect_version or looked_at.version
        message = claim_bytes(looked_at.id, session.scope.tenant, version, status.value, name, reason)
        order = claiming.ordered(
            session,
            looked_at.id,
            status,
            who=name,
            reason=reason,
            expect_version=version,
            signature=signed(message, key),
        )
        driver = SyncDriver(session.store, session.runtime)
        try:
            driver.drive(claim_person.decide(order, session.scope.tenant))
        finally:
            driver.close()
        found = claiming.claim(session, order.claim)
    if as_json:
        print_json(found.as_json())
        return 0
    print(f"Recorded: {plain(status)}, by {safe(name)}.")
    _tell(found)
    return 0


@claims.command("retract", short_help="Withdraw a claim.")
@_ordered
def retract(**order: Any) -> int:
    """Withdraw a claim: the claim is contested and retracted, and dependent plans are named.

    For a critical mutation only an approver may withdraw, signing with --key.
    """
    return _said(ClaimStatus.RETRACTED, **order)


@claims.command("reinstate", short_help="Reinstate a claim.")
@_ordered
def reinstate(**order: Any) -> int:
    """Reinstate a claim that was verified once and contested or retracted since.

    For a critical mutation only an approver may reinstate, signing with --key.
    """
    return _said(ClaimStatus.REINSTATED, **order)


def _tell(found: Claim) -> None:
    print(f"{safe(found.id)}: {plain(found.status)}. {describe_claim(found)}")
    said = found.said
    if said is not None and said.who:
        signed_by = f", signed by {safe(said.signed_by)}" if said.signed_by else ""
        print(f"  said by {safe(said.who)}{signed_by}: {safe(said.note)}")
    if said is not None and said.dependants:
        more = f" and {said.more} more" if said.more else ""
        print(f"  planned upon it: {', '.join(safe(each) for each in said.dependants)}{more}")
    for each in found.grounds:
        print(f"  stands on entry {each.version} ({plain(each.kind)}), leaf {each.leaf}")


def _draw(found: tuple[Claim, ...]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("claim", "status", "because", "confidence", "since"):
        table.add_column(name, overflow="fold")
    for one in found:
        said = one.said
        at = moment(said.at_us if said else one.made_us)
        because = Text(plain(said.reason) if said else "verified")
        table.add_row(Text(safe(one.id)), plain(one.status), because, said.confidence if said else "", at)
    console().print(table)
