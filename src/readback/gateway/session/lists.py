"""Merge lists of several servers page by page, and find the server of a resource or task."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from readback.canon.fault import ReadbackError
from readback.errors import UsageError
from readback.gateway.upstream.attachment import Attachment
from readback.gateway.upstream.request_context import Exchange

# Names where several servers stand behind one gateway: `key__name`, and one cursor for all their lists.

SEPARATOR: Final = "__"
KEY_MAX_CHARS: Final = 32


class Names:
    """The names of one gateway's servers. Raises UsageError for invalid names."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)
        self.several = len(keys) > 1
        if len(set(keys)) < len(keys):
            raise UsageError("Two servers have the same name.", remedy="Give each a name of its own, as NAME=URL.")
        for key in keys if self.several else ():
            unsound = not key.replace("-", "_").isidentifier() or key.endswith("_")  # `a___x` would be `_x` of `a`
            if unsound or SEPARATOR in key or len(key) > KEY_MAX_CHARS:
                raise UsageError(
                    f"{key!r} does not name a server.",
                    remedy=f"Name it by up to {KEY_MAX_CHARS} letters, digits, - and, within, single _; letter first.",
                )

    def shown(self, index: int, name: str) -> str:
        """Return the name used by clients."""
        return f"{self._keys[index]}{SEPARATOR}{name}" if self.several else name

    def owner(self, shown: str) -> tuple[int, str] | None:
        """Return the owning server and its own name for the tool, or None."""
        if not self.several:
            return 0, shown
        key, separator, name = shown.partition(SEPARATOR)
        return (self._keys.index(key), name) if separator and key in self._keys else None

    def renamed(self, index: int, items: object) -> list[dict[str, Any]]:
        """Return a server's tools or prompts under the names used by clients."""
        found = [dict(item) for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
        for item in found:
            if isinstance(item.get("name"), str):
                item["name"] = self.shown(index, item["name"])
        return found

    def pages(self, cursor: object) -> Mapping[int, str | None] | None:
        """Return the servers to ask, each with its own cursor. None for a foreign cursor."""
        if cursor is None:
            return dict.fromkeys(range(len(self._keys)))
        if not self.several:
            return {0: str(cursor)}
        try:
            found = json.loads(base64.urlsafe_b64decode(str(cursor).encode()))
            pages = {int(index): str(each) for index, each in found}
        except (ValueError, TypeError, OverflowError, RecursionError):  # binascii.Error is one of the first
            return None
        return pages if pages and all(0 <= index < len(self._keys) for index in pages) else None

    def cursor(self, left: Mapping[int, str]) -> str | None:
        """Return the cursor for the remaining pages, or None."""
        if not left:
            return None
        if not self.several:
            return left[0]
        return base64.urlsafe_b64encode(json.dumps(sorted(left.items())).encode()).decode()


log = logging.getLogger(__name__)

OWNERS_MAX: Final = 100_000
LEFT_OUT_S: Final = 20.0
"""Longest wait for one of several servers' pages, in seconds. Clients would give up on the whole list."""

Page = tuple[int, dict[str, Any]]


class Lists:
    """The lists of one client's session."""

    def __init__(self, attachments: Sequence[Attachment], names: Names) -> None:
        self._attachments = attachments
        self._names = names
        self._owners: dict[str, int] = {}
        self._began: dict[str, int] = {}
        """The server of each task, by task id."""

    async def prompts(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        """Answer `prompts/list`, under the names used by clients."""
        result, pages = await self.pages("prompts/list", exchange, params)
        found = [item for index, page in pages for item in self._names.renamed(index, page.get("prompts"))]
        return {**result, "prompts": found}

    async def resources(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        """Answer `resources/list`, and note the server of each resource."""
        return await self._items("resources/list", "resources", "uri", exchange, params)

    async def templates(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        """Answer `resources/templates/list`, and note the server of each template."""
        return await self._items("resources/templates/list", "resourceTemplates", "uriTemplate", exchange, params)

    async def tasks(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        """Answer `tasks/list`."""
        result, pages = await self.pages("tasks/list", exchange, params)
        found: list[Any] = []
        for _, page in pages:
            tasks = page.get("tasks")
            found += tasks if isinstance(tasks, list) else []
        return {**result, "tasks": found}

    def began(self, index: int, result: Mapping[str, Any]) -> None:
        """Note the server of a task from a call's answer."""
        task = result.get("task")
        task_id = task.get("taskId") if isinstance(task, Mapping) else None
        if self._names.several and isinstance(task_id, str):
            if len(self._began) >= OWNERS_MAX:
                del self._began[next(iter(self._began))]
            self._began[task_id] = index

    def at_work(self, task_id: object) -> list[Attachment]:
        """Return the servers possibly running a task: the starting server, else all with tasks, else all."""
        index = self._began.get(str(task_id))
        if index is not None:
            return [self._attachments[index]]
        able = [each for each in self._attachments if each.greeting is not None and each.greeting.has_tasks]
        return able or list(self._attachments)

    async def _items(
        self, method: str, field: str, name: str, exchange: Exchange, params: dict[str, Any]
    ) -> dict[str, Any]:
        result, pages = await self.pages(method, exchange, params)
        found: list[Any] = []
        for index, page in pages:
            items = page.get(field)
            for item in items if isinstance(items, list) else []:
                found.append(item)
                if self._names.several and isinstance(item, Mapping) and len(self._owners) < OWNERS_MAX:
                    self._owners.setdefault(str(item.get(name)), index)
        return {**result, field: found}

    async def owners(self, uri: str) -> list[Attachment]:
        """Return the servers possibly owning a resource: the listing server, else all in order."""
        index = self._owners.get(uri)
        return list(self._attachments) if index is None else [self._attachments[index]]

    async def pages(self, method: str, exchange: Exchange, params: dict[str, Any]) -> tuple[dict[str, Any], list[Page]]:
        """Return the next page of each server, and the common fields of the result. Raises MCPError.

        With several servers, a failing server is left out. With a single server, its error is the answer.
        """
        wanted = self._names.pages(params.get("cursor"))
        if wanted is None:
            raise MCPError(code=INVALID_PARAMS, message="The cursor is unknown.")
        given = exchange.context.params is not None
        found = await asyncio.gather(
            *(self._page(method, exchange, params if given else None, *each) for each in wanted.items()),
            return_exceptions=True,
        )
        pages = [page for page in found if not isinstance(page, BaseException)]
        faults = [fault for fault in found if isinstance(fault, BaseException)]
        for fault in faults:
            if not isinstance(fault, MCPError | ReadbackError) or not pages or not self._names.several:
                raise fault
            if not (isinstance(fault, MCPError) and fault.code == METHOD_NOT_FOUND):
                log.warning("%s of one server: %s", method, fault)
        left = {index: str(page["nextCursor"]) for index, page in pages if page.get("nextCursor") is not None}
        cursor = self._names.cursor(left)
        shared = dict(pages[0][1]) if not self._names.several else {}
        shared.pop("nextCursor", None)
        return {**shared, **({} if cursor is None else {"nextCursor": cursor})}, pages

    async def _page(
        self, method: str, exchange: Exchange, params: dict[str, Any] | None, index: int, cursor: str | None
    ) -> Page:
        if params is not None:
            params = {key: value for key, value in params.items() if key != "cursor"}
            if cursor is not None:
                params["cursor"] = cursor
        attachment, timeout_s = self._attachments[index], LEFT_OUT_S if self._names.several else None
        page = await attachment.request(method, params, timeout_s=timeout_s, exchange=exchange, drive=False)
        return index, page
