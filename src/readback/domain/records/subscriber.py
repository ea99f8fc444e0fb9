"""Subscribers: the receiver, events, event names, and delivery limits.

From programs (`Readback.open(subscribers=...)`) or from a settings file. The client makes the sinks and delivers the
messages. This module opens nothing.

[subscribers.pager] command = ["/usr/local/bin/page", "--team", "payments"] events = ["incident.opened",
"claim.retracted"]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from readback.canon.frozen import dataclass, settle
from readback.domain.records.message import EventName, Message, Naming
from readback.errors import SettingsError

SUBSCRIBERS_MAX: Final = 64
ATTEMPTS_MAX: Final = 10_000
TIMEOUT_MAX_S: Final = 300.0
GIVE_UP_MAX_S: Final = 400 * 24 * 3600.0
NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
OPERATOR: Final = "operator"
"""The stand-in where no subscriber receives incidents: a file beside the ledger."""
FALLBACK: Final = "fallback"
_RESERVED: Final = frozenset({OPERATOR, FALLBACK})
_WAYS: Final = ("webhook", "command", "file", "tell")
_LISTS: Final = frozenset({"command", "events", "tenants"})
_TEXTS: Final = ("name", "webhook", "secret", "file", "naming")
_BY_NAME: Final = {form: name for name in EventName for form in (name.value, name.underscored)}


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A receiver of messages. Exactly one of `webhook`, `command`, `file` and `tell` names the destination.

    After the last attempt the message goes to the fallback, and is stored as a dead letter.

    Args:
        name: Unique name of up to 64 lower-case letters, digits, '.', '_' and '-'.
        webhook: An https URL (http only on this machine).
        secret: The location of the webhook's signing secret, `env:NAME` or `file:PATH`.
        command: A program and its arguments. The message arrives on standard input.
        file: A file of JSON lines.
        tell: A sync or async callable of this program, called with the `Message`.
        events: Event names, in either form; empty means all.
        tenants: Tenants; empty means every tenant visible here.
        naming: "dotted", "underscore", or "both".
        from_start: Whether a new subscriber receives the events already in the ledger.
        attempts: Failed deliveries before giving up, together with `give_up_s`.
        give_up_s: Seconds of failed deliveries before giving up.
        timeout_s: Seconds for one delivery.

    Raises:
        SettingsError: A value is invalid.

    Example:
        >>> from readback import Subscriber
        >>> Subscriber("pager", file="incidents.jsonl", events=["incident.opened"]).events
        ('incident.opened',)
    """

    name: str
    webhook: str = ""
    secret: str = ""
    command: Sequence[str] = ()
    file: str = ""
    tell: Callable[[Message], Any] | None = None
    events: Sequence[str] = ()
    tenants: Sequence[str] = ()
    naming: str = Naming.DOTTED.value
    from_start: bool = False
    attempts: int = 8
    give_up_s: float = 3600.0
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        for name in _LISTS:
            given: object = getattr(self, name)
            found = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (None,)
            if not all(isinstance(each, str) for each in found):
                raise self._fault(f"{name} must be a list of texts")
            settle(self, name, found)
        self._check()

    def _check(self) -> None:
        odd_kind = [each for each in _TEXTS if not isinstance(getattr(self, each), str)]
        if odd_kind and not (odd_kind == ["file"] and hasattr(self.file, "__fspath__")):
            raise self._fault(f"{odd_kind[0]} must be a text")
        if NAME.fullmatch(self.name) is None:
            raise self._fault("the name must have 1 to 64 lower-case letters, digits, '.', '_' or '-'")
        if sum(bool(getattr(self, way)) for way in _WAYS) != 1:
            raise self._fault(f"exactly one of {', '.join(_WAYS)} is required")
        if bool(self.webhook) != bool(self.secret):
            raise self._fault("a webhook requires a secret, and no other destination has one")
        if self.tell is not None and not callable(self.tell):
            raise self._fault("tell must be a callable")
        odd = [each for each in self.events if each not in _BY_NAME]
        if odd:
            raise self._fault(f"there is no event {odd[0]!r}")
        if self.naming not in set(Naming):
            raise self._fault(f"naming must be one of {', '.join(Naming)}")
        if not isinstance(self.from_start, bool):
            raise self._fault("from_start must be true or false")
        for name, most in (("attempts", ATTEMPTS_MAX), ("give_up_s", GIVE_UP_MAX_S), ("timeout_s", TIMEOUT_MAX_S)):
            self._check_number(name, most)

    def _check_number(self, name: str, most: float) -> None:
        value: object = getattr(self, name)
        wanted = int if name == "attempts" else int | float
        least = 0 if name == "give_up_s" else 1 if name == "attempts" else 0.001
        if isinstance(value, bool) or not isinstance(value, wanted) or not least <= value <= most:
            raise self._fault(f"{name} must be between {least} and {most:g} (got {value!r})")

    def _fault(self, what: str) -> SettingsError:
        return SettingsError(f"Subscriber {self.name!r:.80} cannot be used: {what}.", remedy="Correct the value.")

    @property
    def names(self) -> frozenset[EventName]:
        """The subscribed event names."""
        return frozenset(_BY_NAME[each] for each in self.events) or frozenset(EventName)

    def hears(self, message: Message) -> bool:
        """Whether this subscriber receives the message."""
        return message.name in self.names and (not self.tenants or message.tenant in self.tenants)


STAND_IN: Final = Subscriber(OPERATOR, file=FALLBACK, events=(EventName.INCIDENT_OPENED.value,))
"""The subscription of the file beside the ledger."""


def listed(subscribers: Iterable[Subscriber], tenant: str) -> tuple[Subscriber, ...]:
    """Return a program's subscribers, limited to its own tenant. Raises SettingsError.

    A program sees one tenant of a ledger. Its subscribers receive no other tenant's events, and the delivery positions
    belong to the tenant.
    """
    given: object = subscribers
    found = tuple(subscribers) if isinstance(given, Iterable) else ()
    if not isinstance(given, Iterable) or not all(isinstance(each, Subscriber) for each in found):
        raise SettingsError(
            "subscribers must be a list of Subscriber(...).", remedy="Wrap each entry in Subscriber(...)."
        )
    for each in found:
        if each.tenants not in ((), (tenant,)):
            raise SettingsError(
                f"Subscriber {each.name!r} names other tenants than {tenant!r}, the tenant of this client.",
                remedy="Omit tenants. The operator's settings may name any tenant.",
            )
    return checked(tuple(replace(each, tenants=(tenant,)) for each in found))


def checked(subscribers: tuple[Subscriber, ...]) -> tuple[Subscriber, ...]:
    """Return the subscribers if their names are unique and their number is within the limit. Raises SettingsError."""
    names = [each.name for each in subscribers]
    twice = next((name for name in names if names.count(name) > 1 or name in _RESERVED), None)
    if twice is not None:
        raise SettingsError(f"The subscriber's name {twice!r} is taken.", remedy="Choose another name.")
    if len(names) > SUBSCRIBERS_MAX:
        raise SettingsError(f"There are {len(names)} subscribers.", remedy=f"Define at most {SUBSCRIBERS_MAX}.")
    return subscribers


def subscribers_of(table: object, where: str) -> tuple[Subscriber, ...]:
    """Return the subscribers of a settings table. Raises SettingsError, with `where`, for any invalid value."""
    if not isinstance(table, Mapping):
        said = f"The settings file {where} cannot be used: 'subscribers' is not a table."
        raise SettingsError(said, remedy="Write each subscriber as a separate table: [subscribers.NAME].")
    return checked(tuple(subscriber_of(str(name), entry, where) for name, entry in table.items()))


def subscriber_of(name: str, entry: object, where: str) -> Subscriber:
    """Return one subscriber, or the fallback from its own table. Raises SettingsError."""
    if not isinstance(entry, Mapping):
        said = f"The settings file {where} cannot be used: subscriber {name!r:.80} is not a table."
        raise SettingsError(said, remedy="Write the subscriber as a separate table: [subscribers.NAME].")
    known = {each.name for each in fields(Subscriber)} - {"name", "tell"}
    odd = sorted(set(entry) - known)
    if odd:
        raise SettingsError(
            f"Subscriber {name!r:.80} in {where} has the unknown key {odd[0]!r}.",
            remedy=f"Known keys: {', '.join(sorted(known))}.",
        )
    lists = [each for each in sorted(_LISTS & set(entry)) if not isinstance(entry[each], list)]
    texts = [
        each for each in sorted(set(entry) & {"webhook", "secret", "file", "naming"}) if type(entry[each]) is not str
    ]
    if lists or texts:
        what = f"{lists[0]!r} must be a list" if lists else f"{texts[0]!r} must be a text"
        raise SettingsError(f"Subscriber {name!r:.80} in {where} cannot be used: {what}.", remedy="Correct the file.")
    return Subscriber(name, **entry)
