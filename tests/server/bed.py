"""A real server on loopback in a thread, its tokens, and clients that hold every answer to the API's description."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from readback.config import Settings
from readback.contracts.registry import registry_of
from readback.server.access.tokens import TokenFile
from readback.server.serving import serve
from readback.server.settings import ServerSettings
from tests.server.described import check

EVERY_RIGHT = ("run", "read", "review", "admin")
START_S = 20.0
NOW_US = 1_800_000_000_000_000


@dataclass
class Bed:
    """One running server."""

    url: str
    tokens: TokenFile
    settings: Settings
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event
    clients: list[httpx.Client] = field(default_factory=list)

    def token(self, tenant: str = "acme", principal: str = "agent:a", rights: tuple[str, ...] = EVERY_RIGHT) -> str:
        return self.tokens.create(tenant=tenant, principal=principal, rights=rights, now_us=NOW_US)[0]

    def client(
        self, tenant: str = "acme", principal: str = "agent:a", rights: tuple[str, ...] = EVERY_RIGHT
    ) -> httpx.Client:
        made = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.token(tenant, principal, rights)}"},
            timeout=30,
            trust_env=False,
            event_hooks={"response": [check]},
        )
        self.clients.append(made)
        return made

    def end(self) -> None:
        for each in self.clients:
            each.close()
        with suppress(RuntimeError):  # the test has stopped the server, and its loop is closed
            self.loop.call_soon_threadsafe(self.stop.set)


@contextmanager
def running(
    folder: Path, *, url: str = "", settings: Settings | None = None, contracts: str = "tests.server.contracts",
    **options: Any,
) -> Iterator[Bed]:  # fmt: skip
    """Serve until the end of the block. `options`: of ServerSettings."""
    used = replace(settings or Settings(), url=url or f"sqlite:///{folder / 'ledger.db'}", tenant="acme")
    asked = ServerSettings(**{"port": 0, "tokens_file": str(folder / "tokens.json"), **options})
    ready: asyncio.Future[Any] | Any = threading.Event()
    found: dict[str, Any] = {}

    async def main() -> None:
        found["loop"], found["stop"] = asyncio.get_running_loop(), asyncio.Event()

        def listening(address: str) -> None:
            found["url"] = address
            ready.set()

        await serve(
            used, asked, registry_of([contracts]) if contracts else None, stop=found["stop"], on_listening=listening
        )

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # the test's thread raises it
            found["error"] = error
        finally:
            ready.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(START_S), "the server did not start"
    if "error" in found:
        raise found["error"]
    bed = Bed(found["url"], TokenFile(folder / "tokens.json"), used, found["loop"], found["stop"])
    try:
        yield bed
    finally:
        bed.end()
        thread.join(START_S)
        assert not thread.is_alive(), "the server did not stop"
        if "error" in found:
            raise found["error"]


def run(
    client: httpx.Client, key: str, carrier: str = "dhl", *, order: str = "", wait: float = 10,
    contract: str = "ship", headers: Mapping[str, str] | None = None, **body: Any,
) -> httpx.Response:  # fmt: skip
    """Run one action of the shop over HTTP."""
    asked = {"contract": contract, "arguments": {"order_id": order or key, "carrier": carrier}, **body}
    given = {"Idempotency-Key": key, "Prefer": f"wait={wait}", **(headers or {})}
    return client.post("/v1/actions", json=asked, headers=given)
