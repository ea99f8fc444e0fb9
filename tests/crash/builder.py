"""The child program of the crash tests of local boundaries: a folder and a database, through the built-in executors.

    python -m tests.crash.builder --serve      orders on stdin, one forked child for each

Each call of the operating system that changes a folder, each step of the database's driver and each append to the
ledger is a point at which the child may be killed. Nothing of the executors is replaced: the calls are counted as they
leave Python.
"""

from __future__ import annotations

import gc
import json
import os
import sqlite3
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from readback import Context, Lookup, Outcome, Readback, Reading, action
from readback.stores.sqlite import open_sqlite_store
from readback.systems import FileExecutor, FileSource, SqlExecutor, SqlSource
from tests.crash.points import WAITS_MAX, CrashRuntime, KillingStore, Memory, Points, Stuck

TENANT, PRINCIPAL, OPERATION = "acme", "agent:builder", "build it once"
COUNTED = ("replace", "link", "mkdir", "rmdir", "unlink", "fsync", "fchmod")
TIMES: dict[str, Any] = {"within": "2s", "polls": ["0s", "1s"], "deadline": "2s"}


class Here:
    """What the process that runs has at hand."""

    folder = Path()
    files: Any = None
    tick: Callable[[str], None] = staticmethod(lambda _name: None)


# --- a folder -----------------------------------------------------------------------------------------------------


def make_site(folder: Path) -> Path:
    root = folder / "work"
    (root / "site/old/deep").mkdir(parents=True)
    for name in ("index.html", "about.html", "old/one.html", "old/deep/two.html"):
        (root / "site" / name).write_text(f"the first {name}")
    return root


def _publish(ctx: Context, text: str, extra: str) -> object:
    with Here.files.workspace(ctx) as work:
        work.write_text("site/index.html", text)
        work.write_text("site/new/deep/page.html", text + extra, parents=True)
        work.move("site/about.html", "site/new/about.html")
        work.delete_folder("site/old")
        work.look_tree("site")
        return work


SITE: dict[str, Any] = {
    "kind": "set", "side_effect": "low_risk_internal", "target": "tree/site",
    "identity": {"target": "authoritative.path", "tenant": "not_offered"},
    "ensure": {
        "index": "authoritative.entries['index.html'].sha256 == sha256(requested.text)",
        "page": "authoritative.entries['new/deep/page.html'].sha256 == sha256(requested.text)",
        "moved": "'new/about.html' in authoritative.entries && !('about.html' in authoritative.entries)",
        "gone": "!('old' in authoritative.entries)",
    },
    **TIMES,
}  # fmt: skip


@action(name="publish", **SITE)
def publish(ctx: Context, text: str) -> object:
    return _publish(ctx, text, "")


@action(name="publish_wrongly", **SITE)
def publish_wrongly(ctx: Context, text: str) -> object:
    return _publish(ctx, text, ", not quite")


def site(ctx: Context, text: str) -> Reading:
    return FileSource("work", Here.folder / "work").tree("site")


def what_became_of_the_site(ctx: Context, text: str) -> Lookup:
    found: Lookup = Here.files.lookup(ctx)
    return found


# --- a database ---------------------------------------------------------------------------------------------------


class Ticking(sqlite3.Connection):
    """A connection each of whose ends is a point."""

    def commit(self) -> None:
        Here.tick("before the commit")
        super().commit()
        Here.tick("after the commit")

    def rollback(self) -> None:
        Here.tick("before the rollback")
        super().rollback()
        Here.tick("after the rollback")

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        Here.tick("before a statement")
        return super().cursor(*args, **kwargs)


def make_books(folder: Path) -> Path:
    path = folder / "books.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table accounts (id text primary key, cents integer, stamp text)")
        db.execute("insert into accounts values ('a', 100, ''), ('b', 0, '')")
    return path


def _connect() -> sqlite3.Connection:
    return sqlite3.connect(Here.folder / "books.db", timeout=5, isolation_level=None)


bank = SqlExecutor(
    "bank", lambda: sqlite3.connect(Here.folder / "books.db", timeout=5, isolation_level=None, factory=Ticking)
)
records = SqlSource("bank-records", _connect)
SUMS = "select 'a-b' as pair, (select cents from accounts where id = 'a') as a, (select cents from accounts where id = 'b') as b, (select stamp from accounts where id = 'b') as stamp"  # noqa: E501


def _transfer(ctx: Context, cents: int, lost: int) -> object:
    with bank.staged(ctx) as staged:
        staged.execute("update accounts set cents = cents - ?, stamp = ? where id = 'a'", [cents, ctx.stamp])
        staged.execute("update accounts set cents = cents + ?, stamp = ? where id = 'b'", [cents - lost, ctx.stamp])
        staged.look(SUMS, stamp="stamp")
        return staged


BOOKS: dict[str, Any] = {
    "kind": "set", "side_effect": "low_risk_internal", "target": "pair/a-b",
    "identity": {"target": "authoritative.pair", "tenant": "not_offered"},
    "ensure": {
        "taken": "authoritative.a == before.a - requested.cents",
        "kept": "authoritative.a + authoritative.b == before.a + before.b",
    },
    "late_window": "3s",
    **TIMES,
}  # fmt: skip


@action(name="transfer", **BOOKS)
def transfer(ctx: Context, cents: int) -> object:
    return _transfer(ctx, cents, 0)


@action(name="transfer_wrongly", **BOOKS)
def transfer_wrongly(ctx: Context, cents: int) -> object:
    return _transfer(ctx, cents, 1)


def books(ctx: Context, cents: int) -> Reading:
    return records.one(SUMS, stamp="stamp")


def ours(ctx: Context, cents: int) -> list[Reading]:
    found = records.one(SUMS, stamp="stamp")
    return [found] if found.stamp == ctx.stamp else []


for each in (publish, publish_wrongly):
    each.read(source="work", consistency="strong", independence="other_client")(site)
    each.lookup(what_became_of_the_site)
for other in (transfer, transfer_wrongly):
    other.read(source="bank-records", consistency="strong", independence="other_client", attributes=True)(books)
    other.find(ours)

PROPOSALS: dict[str, Callable[[], Any]] = {
    "publish": lambda: publish(text="the second"),
    "publish_wrongly": lambda: publish_wrongly(text="the second"),
    "transfer": lambda: transfer(cents=30),
    "transfer_wrongly": lambda: transfer_wrongly(cents=30),
}
ACTIONS = (publish, publish_wrongly, transfer, transfer_wrongly)


# --- one process --------------------------------------------------------------------------------------------------


def count_calls(tick: Callable[[str], None]) -> None:
    """From here on each of these calls of the operating system is a point."""

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            tick(f"before {name}")
            return real(*args, **kwargs)

        return call

    for name in COUNTED:
        setattr(os, name, counted(name, getattr(os, name)))


def tell(folder: Path, outcome: Outcome) -> None:
    with (folder / "told.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(outcome.as_json()) + "\n")


def perform(order: dict[str, Any]) -> None:
    folder = Path(order["folder"])
    memory = Memory(folder / "memory")
    points = Points(memory, int(order["kill_at"]))
    runtime = CrashRuntime(memory, points)
    store = open_sqlite_store(folder / "ledger.db")
    Here.folder, Here.tick = folder, points.tick
    count_calls(points.tick)
    Here.files = FileExecutor(folder / "work")  # the next start: what a dead process left is settled here
    killing: Any = KillingStore(store, points)
    with Readback.open(tenant=TENANT, principal=PRINCIPAL, actions=ACTIONS, runtime=runtime, store=killing) as rb:
        if "run" in order["phase"]:
            tell(folder, rb.run(PROPOSALS[order["scenario"]](), operation=OPERATION))
        if "resume" in order["phase"]:
            for _ in range(WAITS_MAX):
                for outcome in rb.resume():
                    tell(folder, outcome)
                due_us = store.next_due_us(TENANT)
                if due_us is None:
                    for outcome in reversed(rb.list()):
                        tell(folder, outcome)
                    return
                memory.now_us = max(memory.now_us, due_us)
            raise Stuck


def serve() -> None:
    """Forks a child for each order, and says how it ended."""
    for definition in ACTIONS:
        definition.load()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                perform(order)
            except BaseException:
                (Path(order["folder"]) / "errors.txt").open("a", encoding="utf-8").write(traceback.format_exc())
                os._exit(70)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps({"code": os.waitstatus_to_exitcode(status)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
