"""What release gates cost: actions judged again a second, and the review of changed predicates over many actions.

    python -m bench.assurance [--actions N] [--judged N] [--json]

The program makes a ledger of N different actions (default 2,000) under virtual time, in a world that ships, packs or
loses orders. The replay reads and judges the whole ledger again, on one core. The review judges the ledger often enough
for so many actions (default 100,000), with one looser predicate. Figures are in seconds of processor time.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

from readback import Readback
from readback.assurance.gate_input import GateInput, Recorded
from readback.assurance.history.recorded import history_of
from readback.assurance.logic import candidate_of, incumbent_of
from readback.assurance.predicate_diff import predicate_diff
from readback.assurance.results import GateResult
from readback.assurance.trace_replay import trace_replay
from readback.client.files import contract_files
from readback.domain.context import Context
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import FittingError
from readback.ports.system_factory import Fixed, Given
from readback.testing.runtime_virtual import VirtualRuntime

REPLAYED_A_SECOND_MIN: Final = 2_000
REVIEWED_SECONDS_MAX: Final = 60
CONTRACT: Final = """\
apiVersion: readback/v1
kind: Contracts
contracts:
  ship_order:
    kind: set
    side_effect: low_risk_internal
    target: order/{requested.order_id}
    arguments: {order_id: string, carrier: string}
    identity: {target: authoritative.id, tenant: authoritative.tenant, stamp: authoritative.stamp}
    execute:
      http:
        url: http://127.0.0.1:1
        method: POST
        path: /orders/{requested.order_id}
        json: {order: "{requested.order_id}", carrier: "{requested.carrier}"}
    readers:
      - http: {url: "http://127.0.0.1:1", path: "/orders/{requested.order_id}", stamp: /stamp}
        source: orders
        consistency: strong
        attributes: true
    ensure:
      shipped: authoritative.status == 'shipped'
      carrier: authoritative.carrier == requested.carrier
    within: 4s
    late_window: 4s
"""
SHIPPED: Final = "authoritative.status == 'shipped'"
LOOSER: Final = "authoritative.status in ['shipped', 'packed']"


class World:
    """Orders in memory. Every fifth order is packed and not shipped, and every tenth order is lost."""

    def __init__(self) -> None:
        self.orders: dict[str, dict[str, Any]] = {}
        self.place: Callable[[], str] | None = None
        self.located: Callable[[str], str] | None = None
        self.calls = 0

    def source(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> World:
        return self

    def executor(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> World:
        return self

    def tool(self, server: str, name: str, timeout_us: int) -> Any:
        raise FittingError("There is no server here.")

    def execute(self, ctx: Context, given: Given) -> object:
        self.calls += 1
        asked: Any = given["json"]
        order = {"id": asked["order"], "tenant": ctx.tenant, "carrier": asked["carrier"], "stamp": ctx.stamp}
        if self.calls % 10:
            self.orders[asked["order"]] = {**order, "status": "shipped" if self.calls % 5 else "packed"}
        return {"status": "ok"}

    def read(self, ctx: Context, given: Given) -> Reading:
        path: Any = given["path"]
        order = self.orders.get(path.values[0])
        return Reading.absent() if order is None else Reading.of(dict(order), stamp=order["stamp"])

    def glance(self, ctx: Context, given: Callable[[], Given]) -> Reading | None:
        return None

    def find(self, ctx: Context, given: Given) -> list[Reading]:
        return []

    def lookup(self, ctx: Context, given: Given) -> Lookup:
        return Lookup.pending()

    def ping(self) -> None:
        return None


def made(folder: Path, actions: int) -> tuple[Path, str]:
    """Make the contract file and the ledger, and return the file and the ledger's URL."""
    logging.getLogger("readback.actions").setLevel(logging.CRITICAL)
    file = folder / "contracts.yaml"
    file.write_text(CONTRACT, encoding="utf-8")
    ship = contract_files(file, fittings=World())["ship_order"]
    url = f"sqlite:///{folder / 'ledger.db'}"
    with Readback.open(url, tenant="acme", principal="agent:bench", runtime=VirtualRuntime(seed=1)) as rb:
        for number in range(actions):
            rb.run(ship(order_id=f"o-{number}", carrier="post"), operation=f"ship {number}")
    return file, url


def measured(folder: Path, actions: int, judged: int) -> dict[str, Any]:
    """Measure both gates. `judged`: the actions of the review."""
    file, url = made(folder, actions)
    candidate, history = candidate_of([str(file)]), history_of(url)
    incumbent = incumbent_of(str(file), candidate, ())
    replayed, replay_s = _timed(lambda: trace_replay(GateInput(candidate, incumbent, history)))
    looser = folder / "looser.yaml"
    looser.write_text(CONTRACT.replace(SHIPPED, LOOSER), encoding="utf-8")
    rounds = max(judged // actions, 1)

    def often() -> Iterable[Recorded]:
        return chain.from_iterable(each() for each in repeat(history, rounds))

    review = GateInput(candidate_of([str(looser)]), incumbent, often)
    reviewed, review_s = _timed(lambda: predicate_diff(review))
    (change,) = reviewed.findings
    return {
        "actions": replayed.counts["judged"],
        "judgements": replayed.counts["judgements"],
        "changed": replayed.counts["changed"],
        "replayed_a_second": round(replayed.counts["judged"] / replay_s),
        "reviewed": reviewed.counts["actions"],
        "review_s": round(review_s, 2),
        "affected": change.detail["affected"],
        "strength": change.detail["strength"],
    }


def _timed(work: Callable[[], GateResult]) -> tuple[GateResult, float]:
    begun = time.process_time()
    result = work()
    return result, time.process_time() - begun


def main(arguments: list[str]) -> int:
    """Measure, print, and return 1 where a figure misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actions", type=int, default=2_000)
    parser.add_argument("--judged", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), given.actions, given.judged)
    if given.json:
        print(json.dumps(found))
    else:
        print(f"trace replay: {found['replayed_a_second']} actions/s (at least {REPLAYED_A_SECOND_MIN})")
        print(f"predicate diff: {found['reviewed']} actions in {found['review_s']} s (at most {REVIEWED_SECONDS_MAX})")
    met = found["replayed_a_second"] >= REPLAYED_A_SECOND_MIN and found["review_s"] <= REVIEWED_SECONDS_MAX
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
