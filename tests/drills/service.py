"""A payment service on loopback that keeps books of its own, and treats an idempotency key as it is told to.

    python -m tests.drills.service BOOKS HABIT      serves; its port is the first line on stdout

Habits: `honours` answers a repeated key as it answered the first; `ignores` charges again; `conflicts` charges once and
answers 409; `renames` charges once under another name; `late` charges again after a while; `slow` honours, and takes
its time over the first call; `nothing` never charges.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

SCHEMA = """
create table charges (id integer primary key, account text, cents integer, stamp text, key text, hidden integer);
create table calls (id integer primary key, key text, stamp text);
"""
HIDDEN_LOOKS = 3


class Service(ThreadingHTTPServer):
    """Its books are a database, so that anybody can look into them afterwards."""

    daemon_threads = True

    def __init__(self, books: Path, habit: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.books, self.habit, self.lock = books, habit, threading.Lock()
        with closing(sqlite3.connect(books)) as db:
            db.executescript(SCHEMA)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def charge(self, body: dict[str, Any], key: str) -> tuple[int, dict[str, Any]]:
        with self.lock, closing(sqlite3.connect(self.books)) as db, db:
            stamp = body["metadata"]["stamp"]
            db.execute("insert into calls (key, stamp) values (?, ?)", (key, stamp))
            first = db.execute("select id from charges where key = ? order by id", (key,)).fetchone()
            number = 0 if first is None else int(first[0])
            if self.habit == "nothing":
                return 200, {"id": "ch-0", "status": "captured"}
            if first is None or self.habit in ("ignores", "late"):
                hidden = HIDDEN_LOOKS if first is not None and self.habit == "late" else 0
                row = (body["account"], body["cents"], stamp, key, hidden)
                done = db.execute("insert into charges (account, cents, stamp, key, hidden) values (?,?,?,?,?)", row)
                number = number if hidden else int(done.lastrowid or 0)
            elif self.habit == "conflicts":
                return 409, {"error": "the key was used"}
            name = f"ch-{number}" + ("-again" if first is not None and self.habit == "renames" else "")
            return 200, {"id": name, "status": "captured"}

    def listed(self, stamp: str) -> list[dict[str, Any]]:
        with self.lock, closing(sqlite3.connect(self.books)) as db, db:
            db.execute("update charges set hidden = hidden - 1 where stamp = ? and hidden > 0", (stamp,))
            rows = db.execute("select id, account, cents, stamp from charges where stamp = ? and hidden = 0", (stamp,))
            return [{"id": f"ch-{i}", "tenant": "acme", "account": a, "cents": c, "stamp": s} for i, a, c, s in rows]


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._say(*self.server.charge(body, self.headers.get("Idempotency-Key", "")))

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        stamp = parse_qs(asked.query).get("stamp", [""])[0]
        self._say(200, {"items": self.server.listed(stamp), "complete": True})

    def _say(self, code: int, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response_only(code)
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing: whoever wants to know looks into the books."""


@contextmanager
def serving(books: Path, habit: str) -> Iterator[Service]:
    """The service in a thread, until the block is over."""
    with Service(books, habit) as service:
        thread = threading.Thread(target=service.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()


def main(books: Path, habit: str) -> None:
    with Service(books, habit) as service:
        sys.stdout.write(f"{service.server_address[1]}\n")
        sys.stdout.flush()
        service.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
