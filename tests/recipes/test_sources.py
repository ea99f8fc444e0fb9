"""The sources of the recipes keep the rules of sources, against the real PostgreSQL and the real server of objects."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from readback import Context
from readback.domain.side_effect import Consistency
from readback.domain.verification.reading import Reading
from readback.errors import ReaderFailedError
from readback.systems import S3Source, SqlSource
from readback.testing.conformance.source import SOURCE_RULES, Rule
from readback.testing.postgres_server import PRIMARY, STANDBY, PostgresPair
from readback.testing.s3_server import S3Server

CTX = Context("a", "acme", "agent:desk", "op", "object/it", "key", "rb-1")
NOWHERE = "5999"


class Objects:
    """A bucket with one object in it, or none."""

    def __init__(self, server: S3Server, source: S3Source, *, read_bytes: bool) -> None:
        self.server = server
        self.source = source
        self.read_bytes = read_bytes

    def put(self, text: str) -> None:
        self.server.put("plain", "it", text.encode())

    def remove(self) -> None:
        self.server.remove("plain", "it")

    def read(self) -> Reading:
        return self.source.head(CTX, "it", read_bytes=self.read_bytes)

    def cut(self) -> None:
        self.server.fault("down")

    def mend(self) -> None:
        self.server.honest()

    def hide(self) -> bool:
        self.server.fault("refused")
        return True


class Rows:
    """A table with one row in it, or none, read from the primary or its standby."""

    def __init__(self, pair: PostgresPair, server: str) -> None:
        self.pair = pair
        self.server = server
        self.port, self.user = server, "postgres"
        self.source = SqlSource("shelf", lambda: pair.connect(self.port, user=self.user))

    def put(self, text: str) -> None:
        self.pair.run(f"delete from shelf; insert into shelf values ('it', '{text}')")
        self.pair.catch_up()

    def remove(self) -> None:
        self.pair.run("delete from shelf")
        self.pair.catch_up()

    def read(self) -> Reading:
        return self.source.one("select * from shelf where id = %s", ["it"])

    def cut(self) -> None:
        self.port = NOWHERE

    def mend(self) -> None:
        self.port = self.server

    def hide(self) -> bool:
        self.user = "blind"
        return True


@pytest.fixture(scope="module")
def source(s3_server: S3Server) -> Iterator[S3Source]:
    with S3Source("shelf", "plain", **s3_server.access) as made:
        yield made


@pytest.fixture(scope="module")
def shelf(postgres_pair: PostgresPair) -> PostgresPair:
    postgres_pair.run("create table shelf (id text, text text)")
    postgres_pair.run("create role blind login")
    return postgres_pair


@pytest.mark.requirement("RECIPE-upload")
@pytest.mark.parametrize("read_bytes", [False, True])
@pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_an_s3_source_keeps_the_rules_of_sources(
    rule: Rule, s3: S3Server, source: S3Source, *, read_bytes: bool
) -> None:
    world = Objects(s3, source, read_bytes=read_bytes)
    world.remove()
    rule(world)


@pytest.mark.requirement("RECIPE-row")
@pytest.mark.parametrize("server", [PRIMARY, STANDBY])
@pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_an_sql_source_on_postgresql_keeps_the_rules_of_sources(rule: Rule, shelf: PostgresPair, server: str) -> None:
    world = Rows(shelf, server)
    world.remove()
    rule(world)


class Pooler:
    """Stands between a client and a server, as poolers do: it hands on rows, and of what a server reports of itself
    only what it knows. `folder`: where it listens, as a server would.
    """

    def __init__(self, folder: Path, server: str) -> None:
        self._server = server
        self._line = socket.socket(socket.AF_UNIX)
        self._line.bind(f"{folder}/.s.PGSQL.{PRIMARY}")
        self._line.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()
        self._thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, server = self._line.accept()[0], socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                threading.Thread(target=self._told, args=(client, server), daemon=True).start()
                threading.Thread(target=self._handed_on, args=(server, client), daemon=True).start()

    @staticmethod
    def _told(client: socket.socket, server: socket.socket) -> None:
        with client, server, suppress(OSError):
            while said := client.recv(65_536):
                server.sendall(said)

    @staticmethod
    def _handed_on(server: socket.socket, client: socket.socket) -> None:
        with server.makefile("rb") as said, suppress(OSError):
            while head := said.read(5):
                rest = said.read(int.from_bytes(head[1:]) - 4)
                if not (head[:1] == b"S" and rest.startswith(b"in_hot_standby\0")):
                    client.sendall(head + rest)


@pytest.mark.requirement("RECIPE-row", "L14")
def test_a_standby_behind_a_pooler_is_read_as_one(shelf: PostgresPair) -> None:
    """Poolers hand on what they know of a server, and do not know this: a standby's silence was taken for absence."""
    shelf.run("delete from shelf; insert into shelf values ('it', 'here')")
    shelf.catch_up()
    for server, consistency in ((PRIMARY, None), (STANDBY, Consistency.REPLICA)):
        with TemporaryDirectory() as folder:
            pooler = Pooler(Path(folder), f"{shelf.home}/.s.PGSQL.{server}")
            source = SqlSource("shelf", lambda folder=folder: psycopg.connect(host=folder, user="postgres"))
            assert source.one("select * from shelf where id = %s", ["it"]).consistency is consistency
            assert source.one("select * from shelf where id = %s", ["none"]).consistency is consistency
            if server == STANDBY:
                with pytest.raises(ReaderFailedError, match="is a standby"):
                    source.all("select * from shelf where id = %s", ["none"])
            pooler.close()
