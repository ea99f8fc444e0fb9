"""Whose actions a worker or a resume goes on with: one tenant's, several tenants', or everybody's, each in its turn.

Used by `readback worker` and `readback resume`. The store already lets nobody wait behind another's backlog where all
tenants are asked for at once; here the same holds for those that are named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, TypeVar

import click

from readback.commands.terminal import safe
from readback.domain.errors import UsageError
from readback.ports.store import LedgerStore

F = TypeVar("F", bound=Callable[..., Any])
TENANTS_MAX: Final = 256
ROOM_FOR_OTHERS: Final = 4
"""Of several tenants none takes more than all but a quarter of what a worker does at once."""


def tenants(command: F) -> F:
    """Which ledger, and for whom: as `options.ledger`, with any number of tenants."""
    for option in (
        click.option("--principal", metavar="ID", help="Who acts (READBACK_PRINCIPAL; else agent:local)."),
        click.option("--all-tenants", is_flag=True, help="Go on with the actions of every tenant."),
        click.option(
            "--tenant",
            "named",
            metavar="ID",
            multiple=True,
            help="Whose actions; may be repeated (READBACK_TENANT; else default).",
        ),
        click.option("--url", metavar="URL", help="The ledger (READBACK_URL; else sqlite:///readback.db)."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Served:
    """The tenants that are served; none named stands for all of them."""

    tenants: tuple[str, ...]

    @classmethod
    def of(cls, named: Sequence[str], default: str, *, everybody: bool) -> Served:
        """As the command line says it. Raises UsageError."""
        if everybody and named:
            raise UsageError("Both some tenants and all of them are named.", remedy="Leave one of the two away.")
        if everybody:
            return cls(())
        found = tuple(dict.fromkeys(named)) or (default,)
        if len(found) > TENANTS_MAX:
            raise UsageError(f"{len(found)} tenants are named.", remedy=f"Name up to {TENANTS_MAX}, or --all-tenants.")
        return cls(found)

    @property
    def one(self) -> str:
        """The only tenant; "" where there are several."""
        return self.tenants[0] if len(self.tenants) == 1 else ""

    @property
    def said(self) -> str:
        if not self.tenants:
            return "every tenant"
        word = "tenant" if self.one else "tenants"
        return f"{word} {safe(', '.join(self.tenants))}"

    def due(self, store: LedgerStore, now_us: int, limit: int) -> list[str]:
        """Ids that are due: every tenant's first, then every tenant's second."""
        if len(self.tenants) <= 1:
            return store.due(now_us, limit, self.one)
        each = [store.due(now_us, limit, tenant) for tenant in self.tenants]
        return [action_id for rank in zip_longest(*each) for action_id in rank if action_id is not None][:limit]

    def next_due_us(self, store: LedgerStore) -> int | None:
        """When the next one becomes due."""
        found = [store.next_due_us(tenant) for tenant in self.tenants or ("",)]
        return min((at_us for at_us in found if at_us is not None), default=None)

    def share(self, concurrency: int) -> int:
        """How many actions of one tenant may be in hand at once, so that there is room for another's."""
        if self.one or concurrency == 1:
            return concurrency
        return concurrency - max(1, concurrency // ROOM_FOR_OTHERS)
