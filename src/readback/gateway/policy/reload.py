"""Contract files looked at again while the gateway runs: taken over as a whole, or not at all.

Asked by the gate before each call, and told by SIGHUP. Files with faults leave the contracts in force as they are; what
is wrong with them is said once on stderr. Where a server could not be asked, they are loaded again after a while. An
action in flight keeps the contract that it began with.
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
"""Files are looked at so often at most."""
WAITS_S: Final = 5.0
"""So long the call that looked waits for changed files to be loaded: a server that hangs is none of most calls'."""
SETTLE_S: Final = 0.1
SETTLES_MAX: Final = 20
"""A file that changed is looked at again after a moment, and so on until it stands still."""
RETRY_US: Final = 10_000_000
"""So long after a server could not be asked for its tools, files that changed are loaded again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was looked at last. `sha256`: "" where it could not be read."""

    stood: tuple[int, int, int]
    """When it was written, when anything of it was changed, and its size: the first can be set to what it was."""
    sha256: str


class Reloading:
    """The contracts in force, and the files that they come from."""

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
        """When the files are loaded again, as a server could not be asked for its tools the last time."""
        self.current: Governed = NOTHING
        self.names: dict[ToolKey, list[str]] = {}
        """The contracts that each tool has had since the gateway began, by name."""
        self.listeners: set[Callable[[], None]] = set()
        """Told when other tools are governed than before: clients are shown them otherwise."""

    async def begin(self) -> Governed:
        """The first load. Raises what is wrong with the files."""
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
        """At the next call the files are loaded again as they stand, whether they have changed or not."""
        self._asked = self._told = True

    async def look(self) -> Governed:
        """The contracts in force; where a file has changed, and all are sound, the new ones. A server that is slow to
        list its tools is waited for a while, and the contracts are taken over when it has.
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
            loading.cancel()  # by a client that left: the next call loads what this one did not
            raise
        finally:
            timer.cancel()

    def _ended(self, loading: asyncio.Task[None]) -> None:
        self._loading = None
        if loading.cancelled():
            self._asked = True
        elif (error := loading.exception()) is not None:
            self._say(f"Contracts are left as they were: {type(error).__name__}: {error}")

    async def close(self) -> None:
        """Loads nothing any more."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait({self._loading})

    async def _again(self, changed: Sequence[str]) -> None:
        named = ", ".join(changed) or "all contract files"
        owed, self._owed_us = self._owed_us, None
        if not self._told:  # else whoever told us has written them
            await self._settled()
        self._told = False
        before = self.current.actions.keys()
        try:
            with holding(self._runtime):
                self._take_over(await self._load())
        except UpstreamLostError as error:  # no fault of the files
            self._owed_us = self._runtime.now_us() + RETRY_US
            if changed or owed is None:
                self._say(f"Contracts are left as they were, and are loaded when that is mended: {error.message}")
            return
        except ReadbackError as error:
            self._say(f"Contracts are left as they were: {error}")
            return
        self._say(f"Contracts were loaded again ({named}): {len(self.current.files)} in force.")
        if self.current.actions.keys() != before:
            for told in [*self.listeners]:
                told()

    async def _settled(self) -> None:
        """Until nobody is writing: half of a file may be sound, and govern less than the whole."""
        for _ in range(SETTLES_MAX):
            await self._runtime.sleep_async(SETTLE_S)
            if not self._look(whole=True):
                return

    def _look(self, *, whole: bool = False) -> list[str]:
        """The files whose bytes are others than at the last look. `whole`: they are read, whatever their times say."""
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
