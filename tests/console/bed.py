"""The console over a real server on loopback, and a browser's part of HTTP: cookies, forms, and no script.

`python -m tests.console.bed FOLDER [worker]` serves until its input ends, for tests in another environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any, Final

import httpx

from readback import bootstrap
from readback.contracts.registry import Registry
from readback.server.access.tokens import TokenFile
from readback.server.serving import serve
from readback.server.settings import ServerSettings
from tests.console.scenes import Scenes, build
from tests.sdk.given import TENANT

PATIENCE_S: Final = 30.0
CONFIG_VARIABLE: Final = "XDG_CONFIG_HOME"
CSRF: Final = re.compile(r'name="csrf" value="([^"]+)"')
RIGHTS: Final = ("run", "read", "review", "admin")


@dataclass
class Browser:
    """A person's browser without a script. `text` is a page without markup."""

    client: httpx.Client

    def get(self, path: str, status: int = 200) -> str:
        answer = self.client.get(path)
        assert answer.status_code == status, (answer.status_code, _said(answer))
        return answer.text

    def send(self, path: str, page: str, status: int = 303, **fields: str) -> httpx.Response:
        """Send a form of a page, with the page's CSRF token."""
        found = CSRF.search(page)
        assert found is not None, page[:2_000]
        answer = self.client.post(path, data={"csrf": unescape(found[1]), **fields})
        assert answer.status_code == status, (answer.status_code, _said(answer))
        return answer


def _said(answer: httpx.Response) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text.partition("<main")[2]).split())[:1_000]


@dataclass
class Bed:
    """One running server and its ledger."""

    url: str
    scenes: Scenes
    tokens: TokenFile
    clients: list[httpx.Client] = field(default_factory=list)

    def browser(
        self,
        tenant: str = TENANT,
        principal: str = "person:ada",
        rights: tuple[str, ...] = RIGHTS,
        *,
        sign_in: bool = True,
    ) -> Browser:
        client = httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)
        self.clients.append(client)
        if sign_in:
            token = self.token(tenant, principal, rights)
            answer = client.post("/sign-in", data={"token": token, "back": "/"}, headers={"Origin": self.url})
            assert answer.status_code == 303, answer.text
        return Browser(client)

    def token(self, tenant: str = TENANT, principal: str = "person:ada", rights: tuple[str, ...] = RIGHTS) -> str:
        now_us = bootstrap.runtime().now_us()
        return self.tokens.create(tenant=tenant, principal=principal, rights=rights, now_us=now_us)[0]


def write_settings(folder: Path, scenes: Scenes) -> None:
    """The operator's own settings: the key of the log, and an approver."""
    place = folder / "readback" / "config.toml"
    place.parent.mkdir()
    approver = f'[approvers.alice]\nkey = "{scenes.approver.public_key}"\ntenants = ["{TENANT}"]\n'
    place.write_text(f'signing_key_file = "{folder / "log.key"}"\n{approver}', encoding="utf-8")
    place.chmod(0o600)


@contextmanager
def running(folder: Path, *, ledger: str = "", **options: Any) -> Iterator[Bed]:
    """Build the ledger, and serve its console until the end of the block. `options`: of ServerSettings."""
    scenes = build(folder, url=ledger)
    write_settings(folder, scenes)
    asked = ServerSettings(**{"port": 0, "tokens_file": str(folder / "tokens.json"), "worker": False, **options})
    registry = Registry()
    registry.add(scenes.refund)
    started, found = threading.Event(), dict[str, Any]()
    before = os.environ.get(CONFIG_VARIABLE)
    os.environ[CONFIG_VARIABLE] = str(folder)
    settings = bootstrap.settings(url=scenes.url, tenant=TENANT)

    def listening(url: str) -> None:
        found["url"] = url
        started.set()

    async def main() -> None:
        found["loop"], found["stop"] = asyncio.get_running_loop(), asyncio.Event()
        await serve(settings, asked, registry, stop=found["stop"], on_listening=listening)

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # the test's thread raises it
            found["error"] = error
        finally:
            started.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(PATIENCE_S), "the server did not start"
    if "error" in found:
        raise found["error"]
    bed = Bed(found["url"], scenes, TokenFile(folder / "tokens.json"))
    try:
        yield bed
    finally:
        for each in bed.clients:
            each.close()
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the server did not stop"
        os.environ.pop(CONFIG_VARIABLE)
        if before is not None:
            os.environ[CONFIG_VARIABLE] = before
        if "error" in found:
            raise found["error"]


def main() -> None:
    """Serve, and print the address, a token and the ids as one line of JSON."""
    folder = Path(sys.argv[1])
    with running(folder, worker=sys.argv[2:] == ["worker"]) as bed:
        told = {"url": bed.url, "token": bed.token(), "ids": bed.scenes.ids, "ledger": bed.scenes.url}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
