"""`readback token`: bearer tokens of the HTTP server."""

from __future__ import annotations

from datetime import timedelta

import click

from readback import bootstrap
from readback.canon import Json
from readback.cli import options
from readback.cli.optional_deps import of_extra
from readback.cli.terminal import moment, note, print_json, safe

DAYS_MAX = 3_650


@click.group("token")
def token() -> None:
    """Create, list and revoke the tokens of `readback serve`.

    A token belongs to one tenant and one principal, and holds rights: run, read, review, admin. The file of tokens
    holds SHA-256 digests alone. A running server sees each change at the next request.
    """


FILE = click.option("--tokens", "tokens_file", metavar="FILE", help="The file of tokens (READBACK_TOKENS_FILE).")


@token.command("create", short_help="Create a token.")
@click.option("--tenant", required=True, metavar="ID", help="The tenant of every request with this token.")
@click.option("--principal", required=True, metavar="ID", help="The acting principal, or the deciding person.")
@click.option(
    "--right",
    "rights",
    multiple=True,
    required=True,
    type=click.Choice(["run", "read", "review", "admin"]),
    help="A right of the token; may be repeated.",
)
@click.option("--days", type=click.FloatRange(0, DAYS_MAX, min_open=True), help="Lifetime in days; else unlimited.")
@click.option("--rate", type=click.IntRange(0), default=0, metavar="N", help="Requests a minute (0: the default).")
@click.option("--note", "remark", default="", metavar="TEXT", help="A remark for `token list`.")
@FILE
@options.as_json
def create(
    tenant: str,
    principal: str,
    rights: tuple[str, ...],
    days: float | None,
    rate: int,
    remark: str,
    tokens_file: str | None,
    as_json: bool,
) -> int:
    """Create a token and print the token once. The file keeps the digest alone."""
    with of_extra("server", "The HTTP server"):
        from readback.server.access.tokens import TokenFile
        from readback.server.settings import tokens_path
    file = TokenFile(tokens_path(tokens_file))
    secret, entry = file.create(
        tenant=tenant,
        principal=principal,
        rights=rights,
        now_us=bootstrap.runtime().now_us(),
        lifetime_s=None if days is None else timedelta(days=days).total_seconds(),
        note=remark,
        rate_per_minute=rate,
    )
    if as_json:
        print_json({"id": entry.id, "token": secret, "tenant": tenant, "principal": principal, "rights": entry.rights})
    else:
        note(f"Created {entry.id} in {file.path}. The token is shown once:")
        click.echo(secret)
    return 0


@token.command("list", short_help="List the tokens.")
@FILE
@options.as_json
def list_tokens(tokens_file: str | None, as_json: bool) -> int:
    """List each token's id, tenant, principal, rights and end. The tokens themselves are stored nowhere."""
    with of_extra("server", "The HTTP server"):
        from readback.server.access.tokens import TokenFile
        from readback.server.settings import tokens_path
    file = TokenFile(tokens_path(tokens_file))
    entries = file.entries()
    if as_json:
        shown: list[Json] = [
            {
                "id": each.id,
                "tenant": each.tenant,
                "principal": each.principal,
                "rights": list(each.rights),
                "created_us": each.created_us,
                "expires_us": each.expires_us,
                "rate_per_minute": each.rate_per_minute,
                "note": each.note,
            }
            for each in entries
        ]
        print_json(shown)
        return 0
    for each in entries:
        end = f"until {moment(each.expires_us)}" if each.expires_us else "without end"
        remark = f"  {safe(each.note)}" if each.note else ""
        click.echo(f"{each.id}  {safe(each.tenant)}  {safe(each.principal)}  {','.join(each.rights)}  {end}{remark}")
    if not entries:
        note(f"There is no token in {file.path}. Next: readback token create --help")
    return 0


@token.command("revoke", short_help="Revoke a token.")
@click.argument("token_id", metavar="ID")
@FILE
@options.as_json
def revoke(token_id: str, tokens_file: str | None, as_json: bool) -> int:
    """Revoke a token by the id of `token list`. The next request with the token is refused."""
    with of_extra("server", "The HTTP server"):
        from readback.server.access.tokens import TokenFile
        from readback.server.settings import tokens_path
    entry = TokenFile(tokens_path(tokens_file)).revoke(token_id)
    if as_json:
        print_json({"revoked": entry.id})
    else:
        note(f"Revoked {entry.id}.")
    return 0
