"""`readback events`: positions of subscribers, dead letters, and messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import click

from readback.bootstrap import Settings
from readback.canon import Json, envelope_bytes
from readback.cli import options
from readback.cli.sessions import again_with, reading, working
from readback.cli.terminal import console, moment, note, print_json, safe
from readback.client.operations import delivery_admin
from readback.client.operations.delivery_admin import DeadLetterMessage, Position
from readback.domain.records.message import EventName, Message, Naming
from readback.errors import NotFoundError, UsageError

EXIT_LEFT: Final = 3
FOLLOW_SECONDS: Final = 1.0
UNREAD_NAMED_MAX: Final = 10
SECONDS: Final = len("2026-01-01 00:00:00")
_NAMES: Final = {form: name for name in EventName for form in (name.value, name.underscored)}


@click.group("events")
def events() -> None:
    """Show the positions of subscribers, and resend undelivered messages.

    Subscribers are declared in the settings, under [subscribers.NAME], or in programs. The ledger is the source of all
    messages and stores only the position of each subscriber. So no message is lost, and every message can be sent
    again.
    """


@events.command("list", short_help="List subscribers and their positions.")
@options.settings
@options.as_json
def list_subscribers(settings: Settings, as_json: bool) -> int:
    """List every subscriber with position, refused messages and number of dead letters."""
    settings, unread = settings, set[int]()
    with reading(settings) as session:
        found = delivery_admin.positions(session, settings, unread)
    if as_json:
        print_json([_position(one) for one in found])
    elif not found:
        note("There is no subscriber. Declare subscribers in the settings, under [subscribers.NAME].")
    else:
        _draw_positions(found)
        if any(one.letters for one in found):
            note(f"Next: readback events dead{again_with(settings)}")
    _tell_unread(unread, settings)
    return 0


@events.command("dead", short_help="List undelivered messages.")
@click.option("--subscriber", metavar="NAME", default="", help="Only this subscriber's messages.")
@options.settings
@options.as_json
def list_dead(subscriber: str, settings: Settings, as_json: bool) -> int:
    """List the tenant's dead letters in the order of the log. The fallback received each of them."""
    settings, unread = settings, set[int]()
    with reading(settings) as session:
        found = delivery_admin.dead_letters(session, unread, subscriber)
    if as_json:
        print_json([_dead(one) for one in found])
    elif not found:
        note(f"There is no dead letter in tenant {safe(settings.tenant)}.")
    else:
        _draw_dead(found)
        note(f"Next: readback events resend --all{again_with(settings)}")
    _tell_unread(unread, settings)
    return 0


@events.command("resend", short_help="Deliver dead letters once more.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every dead letter of the tenant.")
@click.option("--subscriber", metavar="NAME", default="", help="Only this subscriber's messages.")
@options.settings
@options.as_json
def resend(
    ids: tuple[str, ...],
    everything: bool,
    subscriber: str,
    settings: Settings,
    as_json: bool,
) -> int:
    """Deliver dead letters again, by message id. A delivered message leaves the list.

    A program delivers to its own subscribers, with its next delivery. Exit code 3: a message was refused.
    """
    if bool(ids) == everything:
        raise UsageError("No dead letters are named.", remedy="Name their message ids, or pass --all.")
    settings, unread = settings, set[int]()
    with working(settings, None, new=False) as session:
        found = delivery_admin.dead_letters(session, unread, subscriber)
        odd = set(ids) - {one.message.id for one in found}
        if odd:
            raise NotFoundError(f"There is no dead letter {min(odd)!r}.", remedy="Look at `readback events dead`.")
        taken, left = delivery_admin.resend(session, [one for one in found if everything or one.message.id in ids])
    if as_json:
        print_json({"taken": [one.message.id for one in taken], "left": [one.message.id for one in left]})
    else:
        print(f"Delivered: {len(taken)}. Refused: {len(left)}.")
        if left:
            note(f"Next: readback events dead{again_with(settings)}")
    _tell_unread(unread, settings)
    return EXIT_LEFT if left else 0


@events.command("begin", short_help="Set the position of a subscriber.")
@click.argument("name")
@click.option("--from-start", is_flag=True, help="Start at the first entry; every message is sent again.")
@click.option("--now", "from_now", is_flag=True, help="Start after the last entry; earlier messages are skipped.")
@click.option("--after", "after", type=click.IntRange(0), metavar="SEQ", help="Start after this entry.")
@options.settings
@options.as_json
def begin(
    name: str,
    from_start: bool,
    from_now: bool,
    after: int | None,
    settings: Settings,
    as_json: bool,
) -> int:
    """Set the position of a subscriber. Repeated messages keep their ids."""
    if [from_start, from_now, after is not None].count(True) != 1:
        raise UsageError("No position is given.", remedy="Pass one of --from-start, --now and --after SEQ.")
    with working(settings, None, new=False) as session:
        place = 0 if from_start else session.store.last_seq() if from_now else after
        moved = delivery_admin.begin(session, name, place or 0)
    if as_json:
        print_json({"name": moved.name, "after_seq": moved.after_seq})
    else:
        print(f"{safe(name)} continues after entry {moved.after_seq}.")
    return 0


@events.command("tail", short_help="Print messages of the ledger.")
@click.option(
    "--after", type=click.IntRange(0), metavar="SEQ", help="Start after this entry (default: the last messages)."
)
@click.option("--from-start", is_flag=True, help="Start at the first entry.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of rows.")
@click.option("--event", "names", metavar="NAME", multiple=True, help="Only messages of this name; may be repeated.")
@click.option("--underscore", is_flag=True, help="Write names with underscores instead of dots.")
@click.option("--follow", is_flag=True, help="Follow new messages until interrupted.")
@options.settings
@options.as_json
def tail(
    after: int | None,
    from_start: bool,
    limit: int,
    names: tuple[str, ...],
    underscore: bool,
    follow: bool,
    settings: Settings,
    as_json: bool,
) -> int:
    """Show the tenant's messages as delivered to subscribers. With --json: one CloudEvents envelope a line."""
    odd = [each for each in names if each not in _NAMES]
    if odd:
        raise UsageError(f"There is no event {odd[0]!r}.", remedy=f"There are: {', '.join(EventName)}.")
    if from_start and after is not None:
        raise UsageError("Both --from-start and --after are given.", remedy="Pass one of the two.")
    wanted = frozenset(_NAMES[each] for each in names) or frozenset(EventName)
    settings, unread = settings, set[int]()
    naming = Naming.UNDERSCORE if underscore else Naming.DOTTED
    with reading(settings) as session:
        whole = from_start or after is not None
        seq = session.store.last_seq()
        found = list(delivery_admin.told(session, after or 0, wanted, unread))
        for message in found[:limit] if whole else found[-limit:]:
            _show(message, naming, as_json=as_json)
        _tell_unread(unread, settings)
        try:
            while follow:
                session.runtime.sleep(FOLLOW_SECONDS)
                last_seq = session.store.last_seq()
                unread.clear()
                for message in delivery_admin.told(session, seq, wanted, unread):
                    _show(message, naming, as_json=as_json)
                _tell_unread(unread, settings)
                seq = last_seq
        except KeyboardInterrupt:
            return 0
    return 0


def _tell_unread(unread: set[int], settings: Settings) -> None:
    """Report invalid entries. Such entries send no messages, and a reader of messages must know."""
    if unread:
        first = ", ".join(str(seq) for seq in sorted(unread)[:UNREAD_NAMED_MAX])
        more = f" and {len(unread) - UNREAD_NAMED_MAX} more" if len(unread) > UNREAD_NAMED_MAX else ""
        note(f"Unreadable entries send no messages: {first}{more}.")
        note(f"Next: readback ledger verify{again_with(replace(settings, tenant=Settings().tenant))}")


def _show(message: Message, naming: Naming, *, as_json: bool) -> None:
    [shown] = message.named(naming)
    if as_json:
        print(envelope_bytes(shown.as_json()).decode(), flush=True)
        return
    said = " ".join(safe(part) for part in (message.data["contract"], message.data["target"]) if part)
    print(f"{moment(message.at_us)}  {message.seq:>6}  {shown.name.underscored if shown.underscored else shown.name}")
    print(f"        {safe(message.subject)}  {said}: {message.data['text']}", flush=True)


def _position(one: Position) -> dict[str, Json]:
    cursor = one.cursor
    return {
        "name": one.name,
        "where": one.where,
        "after_seq": cursor.after_seq if cursor else None,
        "waiting": one.waiting,
        "tried": cursor.tried if cursor else 0,
        "since_us": cursor.since_us if cursor else 0,
        "next_us": cursor.next_us if cursor else 0,
        "said": cursor.said if cursor else "",
        "owner": cursor.owner if cursor else "",
        "dead": one.letters,
    }


def _dead(one: DeadLetterMessage) -> dict[str, Json]:
    letter = one.letter
    return {
        "id": one.message.id,
        "subscriber": letter.subscriber,
        "event": one.message.name.value,
        "action": one.message.subject,
        "seq": letter.seq,
        "number": letter.number,
        "died_us": letter.died_us,
        "died": moment(letter.died_us),
        "tried": letter.tried,
        "said": letter.said,
        "again": letter.again,
    }


def _draw_positions(found: list[Position]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("name", "where", "told up to", "waiting", "tried", "next (UTC)", "dead", "said"):
        table.add_column(name, overflow="fold", no_wrap=name == "name")
    for one in found:
        cursor, row = one.cursor, _position(one)
        place = "not told yet" if cursor is None else f"entry {cursor.after_seq}"
        later = moment(cursor.next_us)[:SECONDS] if cursor is not None and cursor.tried else "-"
        waiting = (
            "?" if one.waiting is None else f"{one.waiting}{'+' if one.waiting == delivery_admin.WAITING_MAX else ''}"
        )
        told = (place, waiting, str(row["tried"]), later, str(one.letters))
        table.add_row(Text(safe(one.name)), Text(safe(one.where, 60)), *told, Text(safe(row["said"], 80)))
    console().print(table)


def _draw_dead(found: list[DeadLetterMessage]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("id", "subscriber", "event", "action", "died (UTC)", "tried", "said"):
        table.add_column(name, overflow="fold", no_wrap=name == "id")
    for one in found:
        died, tried = moment(one.letter.died_us)[:SECONDS], str(one.letter.tried)
        names = (one.message.id, safe(one.letter.subscriber), one.message.name.value, safe(one.message.subject))
        table.add_row(*(Text(each) for each in names), died, tried, Text(safe(one.letter.said, 80)))
    console().print(table)
