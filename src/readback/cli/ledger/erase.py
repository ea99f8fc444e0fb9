"""`readback ledger erase`: remove payloads of settled actions from the ledger; entries and proofs stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from readback import bootstrap
from readback.cli import options
from readback.cli.progress import counted
from readback.cli.prompt import signing
from readback.cli.sessions import working
from readback.cli.terminal import note, print_json, safe
from readback.client.operations import erasing
from readback.config import Settings
from readback.contracts.options import microseconds
from readback.domain.action.erasure import ErasureResult
from readback.errors import ContractFieldError, UsageError

EXIT_LEFT = 3
US = 1_000_000


@click.command("erase", short_help="Erase payloads from the ledger; proofs stay.")
@click.option("--action", "ids", metavar="ID", multiple=True, help="This action or saga; may be repeated.")
@click.option("--older-than", metavar="AGE", help="Actions without a change for this long, such as 90d.")
@click.option(
    "--before", metavar="MOMENT", help="Actions without a change since this moment, such as 2026-01-31 (UTC)."
)
@click.option("--all", "everything", is_flag=True, help="All actions of the tenant.")
@click.option("--reason", required=True, metavar="TEXT", help="The reason, for the record.")
@click.option(
    "--who", metavar="NAME", help="The person who orders the erasure (default: human: and the name of this account)."
)
@click.option("--dry-run", is_flag=True, help="List what would be erased; change nothing.")
@options.settings
@options.as_json
def erase(
    ids: tuple[str, ...],
    older_than: str | None,
    before: str | None,
    everything: bool,
    reason: str,
    who: str | None,
    dry_run: bool,
    settings: Settings,
    as_json: bool,
) -> int:
    """Erase requests, answers and readings of settled actions of the tenant. The bytes are removed from the files.

    \b
    Entries stay, and so do all proofs, checkpoints and exports, because the log
    binds payloads by hash and keeps the hash. Entries hold ids, targets,
    operations, times and sentences. Contract texts and approvers' signatures are
    kept. Another action with the same bytes keeps its own copy.
    Earlier backups and copies are unchanged.

    Actions in progress, watched actions and actions in review are skipped and named. Exit code 0: erased; 2: a named
    action is in progress, and nothing was erased; 3: something was skipped, or a reader kept old pages: run the command
    again.
    """
    with working(settings, None, new=False) as session, counted("erasing", enabled=not as_json) as step:
        result = erasing.erase(
            session,
            ids,
            _moment(older_than, before),
            who=signing(who),
            reason=reason,
            dry_run=dry_run,
            everything=everything,
            progress=step,
        )
    if as_json:
        print_json(result.as_json())
    else:
        _tell(result, settings.tenant)
    return EXIT_LEFT if result.at_work_total or not result.gone else 0


def _moment(older_than: str | None, before: str | None) -> datetime | None:
    if older_than is not None and before is not None:
        raise UsageError("--older-than and --before say the same.", remedy="Pass one of them.")
    try:
        if older_than is not None:
            now = datetime.fromtimestamp(bootstrap.runtime().now_us() / US, UTC)
            return now - timedelta(microseconds=microseconds(older_than))
        if before is not None:
            found = datetime.fromisoformat(before)
            return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except (ContractFieldError, ValueError) as error:
        said = "Write an age as 90d or 12h, and a moment as 2026-01-31 or 2026-01-31T12:00:00Z."
        raise UsageError(
            f"{safe(older_than if before is None else before)!r} is no age and no moment.", remedy=said
        ) from error
    return None


def _tell(result: ErasureResult, tenant: str) -> None:
    word = "would be erased" if result.dry_run else "erased"
    print(f"{result.actions} actions of tenant {safe(tenant)} {word}: {result.pieces} pieces of evidence")
    if result.already:
        print(f"  {result.already} actions had nothing left to erase")
    for one in result.at_work:
        print(f"  left: {one.action_id}: {safe(one.why)}")
    if result.at_work_total > len(result.at_work):
        print(f"  and {result.at_work_total - len(result.at_work)} more were left")
    if not result.gone:
        note("A reader holds older pages: erased bytes may remain in the file. Run this again after the reader ends.")
    if result.at_work_total:
        note("Next: let these actions settle, cancel them or decide their reviews. Then run the command again.")
    elif not result.dry_run and result.actions:
        note("Next: readback ledger verify. Earlier backups and copies still hold the erased data.")
