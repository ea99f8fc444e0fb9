"""Reload contract files while the gateway runs: a valid set replaces the active set as a whole.

The gate checks before each call, and SIGHUP asks for a reload. Faulty files leave the active contracts unchanged;
stderr names the faults once. If a server is unavailable, the gateway loads again later. An action in flight keeps its
contract.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Final

from readback.agent_errors import UpstreamLostError
from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.contracts.documents.own_files import content_of
from readback.contracts.files.document import FILE_MAX_BYTES
from readback.drivers.group_commit import holding
from readback.gateway.policy.active_contracts import NOTHING, Governed, Path
from readback.gateway.policy.catalogue import ToolKey
from readback.ports.runtime import Runtime

LOOK_US: Final = 1_000_000
"""Shortest interval between checks of the files."""
WAITS_S: Final = 5.0
"""How long the checking call waits for a reload. A hanging server concerns few calls."""
SETTLE_S: Final = 0.1
SETTLES_MAX: Final = 20
"""How often a changed file is checked again for further writes."""
RETRY_US: Final = 10_000_000
"""Delay before files are loaded again after a server was unavailable."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A file at the last check. `sha256`: "" for an unreadable file."""

    stood: tuple[int, int, int]
    """mtime, ctime and size. The mtime alone can be set back."""
    sha256: str


class Reloading:
    """The active contracts, and their files."""

    def __init__(
        self,
        paths: Sequence[Path],
        runtime: Runtime,
        load: Callable[[], Awaitable[Governed]],
        say: Callable[[str], None],
    ) -> None:
        self._paths = [os.fspath(path) for path in paths]
        self._runtime, self._load, self._say = runtime, load, say
        self._seen: dict[str, Seen] = {}
        self._looked_us = 0
        self._asked = self._told = False
        self._loading: asyncio.Task[None] | None = None
        self._owed_us: int | None = None
        """When to load again after a server was unavailable."""
        self.current: Governed = NOTHING
        self.names: dict[ToolKey, list[str]] = {}
        """Names of all contracts of each tool since the gateway's start."""
        self.listeners: set[Callable[[], None]] = set()
        """Called when the set of governed tools changes, since clients then see other definitions."""

    async def begin(self) -> Governed:
        """Load the files for the first time. Raises the faults of the files."""
        self._looked_us = self._runtime.now_us()
        self._look()
        self._take_over(await self._load())
        return self.current

    def _take_over(self, contracts: Governed) -> None:
        self.current = contracts
        for key, action in contracts.actions.items():
            names = self.names.setdefault(key, [])
            if action.name not in names:
                names.append(action.name)

    def ask(self) -> None:
        """Ask for a reload at the next call, even of unchanged files."""
        self._asked = self._told = True

    async def look(self) -> Governed:
        """Return the active contracts, after a reload of changed and valid files.

        The call waits a limited time for a slow server. The new set becomes active after the server has listed its
        tools.
        """
        now_us = self._runtime.now_us()
        if self._loading is not None or (not self._asked and 0 <= now_us - self._looked_us < LOOK_US):
            return self.current
        self._looked_us = now_us
        changed = self._look()
        owed = self._owed_us is not None and now_us >= self._owed_us
        if changed or self._asked or owed:
            self._asked = False
            loading = self._loading = asyncio.create_task(self._again(changed))
            loading.add_done_callback(self._ended)
            await self._waited_for(loading)
        return self.current

    async def _waited_for(self, loading: asyncio.Task[None]) -> None:
        timer = asyncio.ensure_future(self._runtime.sleep_async(WAITS_S))
        try:
            await asyncio.wait({loading, timer}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            loading.cancel()  # its client left: the next call reloads
            raise
        finally:
            timer.cancel()

    def _ended(self, loading: asyncio.Task[None]) -> None:
        self._loading = None
        if loading.cancelled():
            self._asked = True
        elif (error := loading.exception()) is not None:
            self._say(f"The contracts stay unchanged: {type(error).__name__}: {error}")

    async def close(self) -> None:
        """Cancel a reload in progress."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait({self._loading})

    async def _again(self, changed: Sequence[str]) -> None:
        named = ", ".join(changed) or "all contract files"
        owed, self._owed_us = self._owed_us, None
        if not self._told:  # after SIGHUP the files are already written
            await self._settled()
        self._told = False
        before = self.current.actions.keys()
        try:
            with holding(self._runtime):
                self._take_over(await self._load())
        except UpstreamLostError as error:  # the files have no fault
            self._owed_us = self._runtime.now_us() + RETRY_US
            if changed or owed is None:
                self._say(f"The contracts stay unchanged until the server is back: {error.message}")
            return
        except ReadbackError as error:
            self._say(f"The contracts stay unchanged: {error}")
            return
        self._say(f"The contracts were reloaded ({named}): {len(self.current.files)} in force.")
        if self.current.actions.keys() != before:
            for told in [*self.listeners]:
                told()

    async def _settled(self) -> None:
        """Wait until no process writes. Half a file may be valid and govern fewer tools."""
        for _ in range(SETTLES_MAX):
            await self._runtime.sleep_async(SETTLE_S)
            if not self._look(whole=True):
                return

    def _look(self, *, whole: bool = False) -> list[str]:
        """Return the files with changed bytes since the last check. `whole`: read every file, regardless of times."""
        changed = []
        for path in self._paths:
            before = self._seen.get(path)
            now = _seen(path, None if whole else before)
            if before is not None and before.sha256 != now.sha256:
                changed.append(path)
            self._seen[path] = now
        return changed


def _seen(path: str, before: Seen | None) -> Seen:
    try:
        stat = os.stat(path)
        stood = stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size
        if before is not None and before.stood == stood:
            return before
        return Seen(stood, sha256(content_of(path, FILE_MAX_BYTES)).hexdigest())
    except OSError:
        return Seen((0, 0, 0), "")
