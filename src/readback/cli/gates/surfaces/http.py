"""The surface of the HTTP server: requests to the server's own application, in this process and without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from readback.assurance.surfaces import Probe, Told
from readback.cli.gates.surfaces.shelf import PRINCIPAL, REVIEWER, TENANT, Shelf, shown
from readback.config import Settings
from readback.contracts.registry import registry_of
from readback.errors import UsageError

MODULES: Final = ("starlette", "uvicorn", "jinja2", "jwt", "httptools")
"""The modules of the extra `server`."""
WAIT_S: Final = 10


class _Answer:
    """An answer: its status, its ETag and its JSON body."""

    def __init__(self) -> None:
        self.status, self.etag, self.body = 0, "", b""

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.etag = dict(message["headers"]).get(b"etag", b"").decode()
        else:
            self.body += message.get("body", b"")

    def read(self, *expected: int) -> Any:
        """Return the body. Raises UsageError for another status than the expected ones."""
        if self.status not in expected:
            raise UsageError(f"The server answered with {self.status}: {self.body.decode(errors='replace'):.300}")
        return json.loads(self.body)


class _Client:
    """Requests to an application with the token of a principal."""

    def __init__(self, app: Any, host: str, tokens: Callable[[str], str]) -> None:
        self._app, self._host, self._tokens = app, host, tokens

    async def send(self, method: str, path: str, asked: Any = None, principal: str = PRINCIPAL, **more: str) -> _Answer:
        body = b"" if asked is None else json.dumps(asked).encode()
        given = {"host": self._host, "authorization": f"Bearer {self._tokens(principal)}", **more}
        if body:
            given |= {"content-type": "application/json", "content-length": str(len(body))}
        raw, _, query = path.encode().partition(b"?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": raw.decode(),
            "raw_path": raw,
            "query_string": query,
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
        }
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            return await asyncio.Event().wait()  # the client stays until the answer

        answer = _Answer()
        await self._app(scope, receive, answer.send)
        return answer

    async def found(self, slot: str) -> Any:
        """Return the listed action of a slot."""
        listed = (await self.send("GET", "/v1/actions")).read(200)["items"]
        for each in listed:
            if each["target"] == f"slot/{slot}":
                return each
        raise UsageError(f"The server recorded no action for the slot {slot!r}.")


class Served(Shelf):
    """A shelf behind a server. The worker and the person use the API too."""

    def serve(self, work: Callable[[_Client], Coroutine[Any, Any, Any]]) -> Any:
        """Start the application, do the work, and close the ledger."""
        return asyncio.run(self._served(work))

    async def _served(self, work: Callable[[_Client], Coroutine[Any, Any, Any]]) -> Any:
        from readback.server.access.principal import RIGHTS
        from readback.server.serving import create_app
        from readback.server.settings import ServerSettings

        module = ModuleType(f"served_{self.folder.name}".replace("-", "_"))
        module.fill = self.action()  # type: ignore[attr-defined]
        asked = ServerSettings(tokens_file=str(self.folder / "tokens.json"), worker=False)
        settings = Settings(url=self.url, tenant=TENANT, principal=PRINCIPAL)
        app, server = create_app(settings, asked, registry_of([module]))
        made: dict[str, str] = {}

        def token(principal: str) -> str:
            if principal not in made:
                now_us = server.ledgers.runtime.now_us()
                rights = tuple(RIGHTS)
                made[principal] = server.tokens.create(
                    tenant=TENANT, principal=principal, rights=rights, now_us=now_us
                )[0]
            return made[principal]

        try:
            return await work(_Client(app, f"{asked.host}:{asked.port}", token))
        finally:
            server.stopping.set()
            server.ledgers.hub.stop()
            await server.ledgers.end()
            server.close()

    def wake(self) -> None:
        """Ask for the next reading of every action."""

        async def work(client: _Client) -> None:
            for each in (await client.send("GET", "/v1/actions")).read(200)["items"]:
                (await client.send("POST", f"/v1/actions/{each['id']}/signal")).read(200, 202)

        self.serve(work)

    def decide_not_done(self, slot: str) -> None:
        async def work(client: _Client) -> None:
            place = f"/v1/reviews/{(await client.found(slot))['id']}"
            case = await client.send("GET", place)
            case.read(200)
            said = {"decision": "attest_not_done", "reason": "A release gate."}
            (await client.send("POST", f"{place}/decisions", said, REVIEWER, if_match=case.etag)).read(200)

        self.serve(work)
        (self.folder / f"slot-{slot}").unlink(missing_ok=True)


class HttpServer:
    """`POST /v1/actions` of `readback serve`."""

    name = "http-server"
    decides = True

    def missing(self) -> str:
        absent = [each for each in MODULES if find_spec(each) is None]
        return f"the extra `server` is not installed: {', '.join(absent)}." if absent else ""

    def probe(self) -> Probe:
        return Served()

    def ask(self, probe: Probe, slot: str) -> Told:
        assert isinstance(probe, Served)

        async def work(client: _Client) -> Told:
            asked = {"contract": "fill", "arguments": {"slot": slot}}
            said = await client.send("POST", "/v1/actions", asked, idempotency_key=slot, prefer=f"wait={WAIT_S}")
            return _told(said.read(200, 202))

        told: Told = probe.serve(work)
        return told

    def settled(self, probe: Probe, slot: str) -> Told:
        """Return the words of a later look at the same action."""
        assert isinstance(probe, Served)

        async def work(client: _Client) -> Told:
            place = f"/v1/actions/{(await client.found(slot))['id']}"
            return _told((await client.send("GET", place, prefer=f"wait={WAIT_S}")).read(200, 202))

        told: Told = probe.serve(work)
        return told

    def close(self, probe: Probe) -> None:
        assert isinstance(probe, Served)
        probe.close()


def _told(body: Any) -> Told:
    return Told(shown(body), body["verified"] is True)
