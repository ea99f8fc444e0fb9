"""How each executor of a contract file acts, through the classes of `readback.systems`.

`configured.factory` calls these functions with resolved settings and rendered values. An action of a contract
file makes one call and does nothing else. So a connection that fails to open proves that nothing was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import readback.systems as systems
from readback.contracts.documents.own_files import held_below, refuse_path
from readback.domain.context import Context
from readback.errors import NotDispatchedError
from readback.ports.system_factory import TAKES_VALUES, Given
from readback.systems.configured.databases import bound, connection
from readback.systems.configured.settings import Settled
from readback.systems.configured.sources import addressed, below, headers_of

Act = Callable[[Settled, Context, Given], object]


def _http(settled: Settled, ctx: Context, given: Given) -> object:
    path, params = addressed(given["path"])
    with systems.HttpExecutor(
        settled.get("url"),
        name=settled.name,
        hosts=settled.get("hosts"),
        headers=headers_of(settled, given),
        timeout_s=settled.timeout_s,
        sole=True,
        **settled.some("key_header", "stamp_header"),
    ) as http:
        answer = http.request(
            ctx, settled.get("method"), path, params=params, query=_query(given), json=given.get("json")
        )
    return _kept_out(settled, answer)


def _query(given: Given) -> Mapping[str, str] | None:
    found = given.get("query")
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else None


def _kept_out(settled: Settled, answer: Any) -> object:
    """Remove credentials from the answer, for services that echo requests."""
    text = answer.content.decode("utf-8", "surrogateescape")
    clear = settled.hidden(text)
    if clear == text:
        return answer
    import httpx

    kept = {name: settled.hidden(value) for name, value in answer.headers.items()}
    content = clear.encode("utf-8", "surrogateescape")
    return httpx.Response(answer.status_code, headers=kept, content=content, request=answer.request)


def _sql(settled: Settled, ctx: Context, given: Given) -> object:
    if settled.get("database") is not None:
        refuse_path(settled.path("database"))
    executor = systems.SqlExecutor(settled.name, connection(settled, write=True), sole=True)
    text, values = bound(settled, given["statement"])
    if not settled.get("stage"):
        return executor.execute(ctx, text, values)
    look, asked = bound(settled, given["look"])
    with executor.staged(ctx) as staged:
        staged.execute(text, values)
        staged.look(look, asked, **settled.some("version", "stamp"))
    return staged


def _smtp(settled: Settled, ctx: Context, given: Given) -> object:
    executor = systems.SmtpExecutor(
        settled.name,
        settled.get("host"),
        settled.number("port"),
        timeout_s=settled.timeout_s,
        sole=True,
        **settled.some("security", "user", "password"),
    )
    to = given["to"]
    return executor.send(
        ctx,
        sender=str(given["sender"]),
        to=[str(each) for each in to] if isinstance(to, list) else [],
        subject=str(given["subject"]),
        text=str(given["text"]),
        headers=headers_of(settled, given),
    )


def _file(settled: Settled, ctx: Context, given: Given) -> object:
    root = settled.path("root")
    staging = settled.path("staging") if settled.get("staging") is not None else None
    executor = systems.FileExecutor(root, name=settled.name, staging=staging)
    path, content = below(root, str(given["path"])), str(given.get("content", ""))
    parents = settled.get("parents", False)
    match settled.get("do"):
        case "append":
            return executor.append(ctx, path, content)
        case "delete":
            return executor.delete(ctx, path)
        case "move":
            return executor.move(ctx, path, below(root, str(given["to"])), overwrite=settled.get("overwrite", False))
        case _ if settled.get("stage"):
            return executor.stage(ctx, path, content, parents=parents)
        case _:
            return executor.write_text(ctx, path, content, parents=parents)


def _command(settled: Settled, ctx: Context, given: Given) -> object:
    folder = settled.path("cwd")
    takes_values = settled.get(TAKES_VALUES, True)
    executor = systems.CommandExecutor(
        name=settled.name,
        cwd=folder,
        apart=takes_values,
        names_target=takes_values or not held_below(folder),  # the target's name contains values of the request
        env=settled.get("env", {}),
        timeout_s=settled.timeout_s,
        **settled.some("codes"),
    )
    return executor.run(ctx, settled.command(given["argv"]), stdin=str(given.get("stdin", "")))


def _agent(settled: Settled, ctx: Context, given: Given) -> object:
    raise NotDispatchedError(f"{settled.name!r} was not called: only the coding agent calls its own tools.")


EXECUTORS: Final[Mapping[str, Act]] = {
    "http": _http,
    "sql": _sql,
    "smtp": _smtp,
    "file": _file,
    "command": _command,
    "agent": _agent,
}
