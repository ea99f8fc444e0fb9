"""Actions that wait, of several tenants and versions of contracts, and which of them the port's text says are due."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

from readback.canon.frozen import dataclass
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import Append, LedgerStore
from readback.ports.storage.store_rules import SUCCEEDED, fairly
from readback.testing.store_samples import sample_creation

NOW_US = 1_000
KNOWNS: Sequence[ContractFilter | None] = [
    None,
    *(
        ContractFilter(frozenset(names), frozenset(hashes), left_us, frozenset(foreign))
        for names, hashes, left_us, foreign in product(
            [set[str](), {"ship"}], [set[str](), {"h1"}, {"h1", "h2"}], [0, 500], [set[str](), {"h2", "h3"}]
        )
    ),
]


@dataclass(frozen=True, slots=True)
class Waiting:
    """One action, and when a worker may take it."""

    name: str
    tenant: str
    at_us: int
    kind: str
    contract: str
    version: str
    state: str

    def creation(self) -> Append:
        return sample_creation(
            self.name,
            tenant=self.tenant,
            due_us=self.at_us,
            kind=self.kind,
            contract=self.contract,
            contract_hash="" if self.kind == "saga" else self.version,
            contract_version=self.version if self.kind == "saga" else "1",
            state=self.state,
        )


def filled(store: LedgerStore, seed: int, many: int = 120) -> list[Waiting]:
    chance = random.Random(seed)
    made = [
        Waiting(
            name=f"a{number:05d}",
            tenant=chance.choices(["t0", "t1", "t2", "t3"], [20, 5, 1, 1])[0],
            at_us=chance.randint(1, NOW_US + 200),
            kind=chance.choices(["set", "create", "saga"], [8, 3, 1])[0],
            contract=chance.choice(["bill", "ship"]),
            version=chance.choice(["", "h1", "h2", "h3"]),
            state=chance.choices(["PENDING", SUCCEEDED], [5, 1])[0],
        )
        for number in range(many)
    ]
    store.append([each.creation() for each in made])
    return made


def expected(made: Sequence[Waiting], limit: int, known: ContractFilter | None, tenant: str = "") -> list[str]:
    """The port's text, word for word, over everything there is."""

    def is_due(each: Waiting) -> bool:
        if tenant not in ("", each.tenant) or each.at_us > NOW_US:
            return False
        if known is None or (each.kind == "saga" and each.version not in known.foreign_sagas):
            return True
        if each.kind == "saga":
            return False
        if each.version and each.version in known.hashes:
            return True
        return each.contract in known.names and (not each.version or each.at_us <= known.left_us)

    found: list[str] = []
    for watched in (False, True):
        by_tenant: dict[str, list[tuple[int, str]]] = {}
        for each in made:
            if is_due(each) and (each.state == SUCCEEDED) is watched:
                by_tenant.setdefault(each.tenant, []).append((each.at_us, each.name))
        found += fairly([sorted(each) for each in by_tenant.values()], limit - len(found))
    return found


def compare(store: LedgerStore, made: Sequence[Waiting]) -> None:
    for known, limit in product(KNOWNS, (1, 2, 3, 4, 5, 30, 500)):
        assert store.due(NOW_US, limit, "", known) == expected(made, limit, known), (known, limit)
        for tenant in ("t0", "t3", "nobody"):
            assert store.due(NOW_US, limit, tenant, known) == expected(made, limit, known, tenant), (known, limit)
