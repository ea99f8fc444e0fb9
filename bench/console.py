"""The pages of the console on a large ledger: server time and size of each page: `python -m bench.console`.

The ledger begins with real actions: verified, in review, and waiting for an approval. Copies of their rows follow, up
to the number of actions; most are verified. The newest copies have entries too, because a page of one action reads the
action's entries alone. Each page is requested from the application in this process, without a network, and timed by
the clock of the wall. The first request of a page is left out: it loads the templates.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import MutableMapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import apsw

from readback import Context, Readback, Reading, action, bootstrap
from readback.config import Settings
from readback.log.tree import leaf_hash
from readback.server.app import Application
from readback.server.serving import create_app
from readback.server.settings import ServerSettings

ACTIONS: Final = 1_000_000
ENTRIES_OF: Final = 120_000
"""The newest so many copies have entries: about 1,000,000 entries, which a signed head covers."""
CONTRACTS: Final = 60
"""Contracts of the copies, each with a tool and a source of its own, for the health page."""
FOLD_S: Final = 600
REQUESTS: Final = 30
TIME_MAX_MS: Final = 25.0
SIZE_MAX_BYTES: Final = 60_000
TENANT: Final = "acme"
RUN: Final = "run-17"
REVIEW_EVERY, APPROVAL_EVERY, PIECE = 200, 1_000, 20_000


def contract(name: str, **terms: Any) -> Any:
    """One action over a row that the tool writes."""
    rows: dict[str, dict[str, Any]] = {}

    @action(
        name=name,
        kind="set",
        target="order/{requested.order}",
        identity={"target": "authoritative.id", "tenant": "not_offered", "actor": "not_offered"},
        within="1s",
        **{"side_effect": "low_risk_internal", "ensure": {"shipped": "authoritative.status == 'shipped'"}, **terms},
    )
    def act(ctx: Context, order: str) -> object:
        rows[order] = {"id": order, "status": "shipped", "carrier": "dhl", "note": "left at the door"}
        return {"status": "ok"}

    if "unverifiable" not in terms:

        @act.read(source=f"orders-{name}", consistency="strong", independence="other_client", attributes=True)
        def read(ctx: Context, order: str) -> Reading:
            return Reading.of(rows.get(order, {"id": order, "status": "open"}))

    return act


def templates(url: str) -> dict[str, str]:
    """Make the real actions. Return their ids."""
    review = {"side_effect": "medium_risk_write", "unverifiable": "The printer has no queue."}
    ship, page = contract("ship"), contract("page", **review)
    refund = contract("refund", approval={"expires": "300d"})
    with Readback.open(url, tenant=TENANT, principal="agent:desk", run=RUN, seal=False) as rb:
        for number in range(CONTRACTS):
            rb.run(contract(_contract(number))(order="first"), operation="first")
        made = {"verified": ship, "review": page, "approval": refund}
        return {name: rb.run(one(order=name), operation=name).id for name, one in made.items()}


def fill(path: Path, ids: dict[str, str], actions: int) -> str:
    """Append copies of the actions. Return the id of the newest verified copy, with entries and payloads."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous = OFF")
    names = [str(row[1]) for row in connection.execute("PRAGMA table_info(action)")]
    kept: dict[str, dict[str, Any]] = {}
    for name, found in ids.items():
        [row] = connection.execute("SELECT * FROM action WHERE action_id = ?", (found,))
        kept[name] = dict(zip(names, row, strict=True))
    insert = f"INSERT INTO action VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - of our own text
    for first in range(0, actions, PIECE):
        rows = [_copy(kept, number, names) for number in range(first, min(first + PIECE, actions))]
        with connection:
            connection.executemany(insert, rows)
    newest = [number for number in range(max(actions - ENTRIES_OF, 0), actions) if _kind(number) == "verified"]
    with connection:
        connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)", _entries(connection, ids, newest))
        connection.execute(
            "INSERT INTO payload (action_id, tenant, digest, media, body)"
            " SELECT ?, tenant, digest, media, body FROM payload WHERE action_id = ?",
            (_id(newest[-1]), ids["verified"]),
        )
    connection.close()
    return _id(newest[-1])


def _entries(connection: apsw.Connection, ids: dict[str, str], numbers: list[int]) -> list[tuple[Any, ...]]:
    """The entries of copies. Each names the entry before it by hash."""
    sql = "SELECT action_id, version, kind, at_us, envelope, leaf FROM event WHERE action_id = ? ORDER BY version"
    template: list[Any] = [*connection.execute(sql, (ids["verified"],))]
    [(seq,)] = connection.execute("SELECT max(seq) FROM event")
    made: list[tuple[Any, ...]] = []
    for number in numbers:
        before: dict[bytes, bytes] = {}
        for action_id, version, kind, at_us, envelope, leaf in template:
            seq += 1
            copied = envelope.replace(action_id.encode(), _id(number).encode())
            for old, new in before.items():
                copied = copied.replace(old, new)
            hashed = leaf_hash(copied)
            before = {leaf.hex().encode(): hashed.hex().encode()}
            made.append((seq, _id(number), version, kind, at_us, copied, hashed))
    return made


def _contract(number: int) -> str:
    return f"ship-{number % CONTRACTS}"


def _id(number: int) -> str:
    return f"02{number:024d}"


def _kind(number: int) -> str:
    return "review" if number % REVIEW_EVERY == 0 else "approval" if number % APPROVAL_EVERY == 1 else "verified"


def _copy(kept: dict[str, dict[str, Any]], number: int, names: list[str]) -> list[Any]:
    row = {**kept[_kind(number)], "action_id": _id(number), "target": f"order/o-{number}", "operation": f"op-{number}"}
    if _kind(number) == "verified":
        row["contract"] = _contract(number)
    row |= {"stamp": f"rb-{_id(number)}", "key_hash": f"{number:064x}", "run": f"run-{number // 50}"}
    return [row[name] for name in names]


async def answered(app: Application, path: str, cookie: str = "") -> tuple[int, bytes, str]:
    """Return status, body and the session's cookie of one GET."""
    where, _, query = path.partition("?")
    headers = [(b"host", b"127.0.0.1"), *([(b"cookie", cookie.encode())] if cookie else [])]
    scope: MutableMapping[str, Any] = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": where, "root_path": "",
        "raw_path": where.encode(), "query_string": query.encode(), "headers": headers, "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1), "state": {},
    }  # fmt: skip
    status, body, told = 0, b"", cookie

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status, body, told
        if message["type"] == "http.response.start":
            status = message["status"]
            for name, value in message["headers"]:
                told = value.decode().partition(";")[0] if name == b"set-cookie" else told
        else:
            body += message.get("body", b"")

    await app(scope, receive, send)
    return status, body, told


async def folded(app: Application, cookie: str) -> float:
    """Return the time in seconds until the health page has its counts."""
    begun = perf_counter()
    while b"Counts up to entry" not in (await answered(app, "/health", cookie))[1]:
        if perf_counter() - begun > FOLD_S:
            raise SystemExit(f"The first fold took more than {FOLD_S} s.")
    return perf_counter() - begun


async def measured(url: str, paths: dict[str, str], requests: int) -> dict[str, dict[str, float]]:
    """Return the median and the slowest time in ms, and the size in bytes, of each page."""
    settings = replace(Settings(), url=url, tenant=TENANT, principal="person:ada")
    app, server = create_app(settings, ServerSettings(open_access=True, rate_per_minute=0, worker=False))
    try:
        _, _, cookie = await answered(app, "/")
        found: dict[str, dict[str, float]] = {"health, the first fold": {"seconds": await folded(app, cookie)}}
        for name, path in paths.items():
            status, body, _ = await answered(app, path, cookie)
            if status != 200 or (name == "proof" and b"The server has verified" not in body):
                raise SystemExit(f"{path} answered {status}: {body[:500]!r}")
            took = []
            for _ in range(requests):
                begun = perf_counter()
                _, body, _ = await answered(app, path, cookie)
                took.append((perf_counter() - begun) * 1_000)
            found[name] = {"median_ms": statistics.median(took), "slowest_ms": max(took), "bytes": len(body)}
        return found
    finally:
        server.stopping.set()
        server.close()


def pages(newest: str, ids: dict[str, str], actions: int) -> dict[str, str]:
    """The measured pages."""
    return {
        "attention": "/",
        "actions": "/actions",
        "actions, a page in the middle": f"/actions?before={_id(actions // 2)}",
        "actions in review": "/actions?review=1",
        "actions of a run": f"/actions?run=run-{actions // 100}",
        "actions of a contract": "/actions?contract=ship-1",
        "actions without a match": "/actions?target=nowhere",
        "one action": f"/actions/{newest}",
        "one review": f"/actions/{ids['review']}",
        "one approval": f"/actions/{ids['approval']}",
        "proof": f"/actions/{newest}/proof",
        "replay": f"/actions/{newest}/replay",
        "health": "/health",
        "subscribers": "/subscribers",
    }


def bench(actions: int, requests: int, folder: Path) -> dict[str, Any]:
    """Make the ledger, and measure every page."""
    path = folder / "ledger.db"
    url = f"sqlite:///{path}"
    ids = templates(url)
    newest = fill(path, ids, actions)
    key, begun = folder / "log.key", perf_counter()
    bootstrap.create_log_key(key, "readback.bench/console")
    seal = [sys.executable, "-m", "readback", "ledger", "checkpoint", "--url", url, "--key-file", str(key)]
    subprocess.run(seal, check=True, stdout=subprocess.DEVNULL)
    os.environ["READBACK_SIGNING_KEY_FILE"] = str(key)  # as an operator names the key to a server
    return {
        "actions": actions,
        "requests": requests,
        "sealed_in_seconds": perf_counter() - begun,
        "pages": asyncio.run(measured(url, pages(newest, ids, actions), requests)),
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the figures as JSON. Exit code 1: a page is beyond a limit."""
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__)
    parser.add_argument("--actions", type=int, default=ACTIONS)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="readback-console-") as folder:
        found = bench(given.actions, given.requests, Path(folder))
    json.dump(found, sys.stdout, indent=2)
    sys.stdout.write("\n")
    beyond = [
        each
        for each in found["pages"].values()
        if each.get("median_ms", 0) > TIME_MAX_MS or each.get("bytes", 0) > SIZE_MAX_BYTES
    ]
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
