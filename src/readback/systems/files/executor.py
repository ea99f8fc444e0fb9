"""Acts on a folder: writes, appends, deletes and moves files, durably, and never outside it; opens workspaces.

Constructed by users and called inside actions. It must not verify. What a process that died left behind is finished or
dropped when the folder is opened again. Confinement is decided here by its own code; nothing is shared with the file
source.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from readback.canon import Json
from readback.contracts.documents.own_files import refuse_opened
from readback.domain.context import Context
from readback.domain.verification.reading import Lookup
from readback.errors import NotDispatchedError
from readback.systems.files.journal import ForeignError, Journal
from readback.systems.files.sandboxed_paths import (
    NEW_FILE_MODE,
    Confined,
    only_files,
    put_stamp,
    told,
    write_all,
)
from readback.systems.files.staging_area import INSIDE, Area, Home, attempt_of
from readback.systems.files.workspace import FileWorkspace

# One file written whole: beside everything, without a name, and then in its place in one step.


def write_whole(ctx: Context, area: Area, folder: int, name: str, data: bytes) -> None:
    """Lets the file hold the data, durably. Raises OSError; before the last step everything is as it was."""
    mode = only_files(folder, name)
    with area.locked() as path:
        file, hidden = _made(area, path, folder)
        try:
            write_all(file, data)
            os.fchmod(file, mode)
            put_stamp(file, ctx)
            os.fsync(file)
            hidden = hidden or area.temporary(path, file)
            os.replace(hidden, name, dst_dir_fd=folder)
            hidden = ""
            os.fsync(folder)
        finally:
            if hidden:
                os.unlink(hidden)
            os.close(file)


def _made(area: Area, path: str, folder: int) -> tuple[int, str]:
    """A new file, and the name that it had to be given, if any."""
    without_name = getattr(os, "O_TMPFILE", None)
    if without_name is not None and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # A file system without such files; the other way says so if it is more than that.
            return os.open(".", without_name | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=folder), ""
    return area.named(path)


DIRTY_MARKER: Final = ".readback-dirty"


class FileExecutor:
    """Writes below `root`. Safe from any thread. Paths are relative to `root`, with slashes.

    Links inside the folder are followed to what they mean; a path that leads out raises SandboxEscapeError before
    anything is done. What the system refuses is a ToolError. The marks of the attempt need no care of the caller:
    a file that is written bears the stamp where the file system can hold it. `staging` names the folder, on the same
    file system, in which changes lie before they are moved into place; without it that is `.readback-NAME` beside it.
    """

    def __init__(self, root: str | Path, *, name: str = "files", staging: str | Path | None = None) -> None:
        self.name = name
        self._root = os.fspath(root)
        self._area = Area(root, staging)
        self._folder = Confined(name, root, (INSIDE, DIRTY_MARKER))
        self._marked = Confined(name, root)
        self.left: list[dict[str, str]] = self.recover() if self._area.exists else []
        """What a process that died had left, and what became of it as the folder was opened."""

    def write_text(self, ctx: Context, path: str, text: str, *, parents: bool = False) -> dict[str, Json]:
        """`write_bytes` of the text in UTF-8."""
        return self.write_bytes(ctx, path, text.encode(), parents=parents)

    def write_bytes(self, ctx: Context, path: str, data: bytes, *, parents: bool = False) -> dict[str, Json]:
        """Lets the file hold `data`, in one step. `parents`: makes the folders above it where they are missing."""
        with told(self.name), self._folder.place(path, parents=parents) as (folder, name):
            write_whole(ctx, self._area, folder, name, data)
        return {"path": path, "size": len(data)}

    def stage(self, ctx: Context, path: str, data: bytes | str, *, parents: bool = False) -> FileWorkspace:
        """A workspace of one file: return it from the action, to be verified before it takes the place."""
        content = data.encode() if isinstance(data, str) else data
        with self.workspace(ctx) as staged:
            staged.write_bytes(path, content, parents=parents)
            staged.look(path)
            staged.answer = {"path": path, "size": len(content)}
        return staged

    def workspace(self, ctx: Context) -> FileWorkspace:
        """Opens a workspace: return it from the action, to be verified before it is moved into place.

        Raises NotDispatchedError where the folder was marked as dirty: nothing more is built on what nobody knows.
        """
        if self.dirty:
            raise NotDispatchedError(
                f"{self.name!r} was marked as dirty; nothing was staged.", remedy="Look at it, then call clear_dirty."
            )
        return FileWorkspace(ctx, self._folder, self._area)

    def append(self, ctx: Context, path: str, data: bytes | str) -> dict[str, Json]:
        """Adds to the end of the file, which is made where it is missing. A part may land if the system fails."""
        content = data.encode() if isinstance(data, str) else data
        with told(self.name), self._folder.place(path) as (folder, name):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            only_files(folder, name)
            file = os.open(name, flags, NEW_FILE_MODE, dir_fd=folder)
            try:
                refuse_opened(file, path)  # the name may mean another file by now
                write_all(file, content)
                put_stamp(file, ctx)
                os.fsync(file)
            finally:
                os.close(file)
            os.fsync(folder)
        return {"path": path, "appended": len(content)}

    def delete(self, ctx: Context, path: str) -> dict[str, Json]:
        """Removes a file, or a link and not what it means."""
        with told(self.name), self._folder.place(path, follow=False) as (folder, name):
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        return {"path": path, "deleted": True}

    def move(self, ctx: Context, path: str, to: str, *, overwrite: bool = False) -> dict[str, Json]:
        """Gives a file another name. Raises ToolError where that is taken, unless it may be overwritten."""
        with (
            told(self.name),
            self._folder.place(path, follow=False) as (folder, name),
            self._folder.place(to, follow=False) as (other, new),
        ):
            if overwrite:
                os.replace(name, new, src_dir_fd=folder, dst_dir_fd=other)
            else:  # A second name first: that fails where the name is taken, which a rename would not.
                os.link(name, new, src_dir_fd=folder, dst_dir_fd=other, follow_symlinks=False)
                os.unlink(name, dir_fd=folder)
            os.fsync(other)
            os.fsync(folder)
        return {"path": path, "to": to, "moved": True}

    # --- what became of it, and what was left ----------------------------------------------------------------------

    def lookup(self, ctx: Context) -> Lookup:
        """What became of a workspace of this attempt, by the durable record; for an action's `.lookup`.

        Final: where nothing was moved, that is recorded first, and a workspace of this attempt that still lives
        somewhere cannot be moved into place any more. Raises ToolError.
        """
        with told(self.name), self._area.locked() as area:
            self._clear(area)
            known = self._area.record(area, *attempt_of(ctx))
            state = "dropped" if known is None else str(known.get("state"))
            if known is None and self._stuck(area):
                return Lookup.pending()  # in part: neither finished nor undone, and a person has to look
            if known is None:
                self._area.remember(area, state, *attempt_of(ctx))
        return Lookup.landed() if state == "moved" else Lookup.failed(f"the workspace was {state}")

    def recover(self) -> list[dict[str, str]]:
        """Finishes, or drops, whatever a process that died left, and says what became of each; others' are let be.

        What can be neither finished nor undone, because somebody else changed it, is kept, and the folder is marked as
        dirty. Called whenever the folder is opened. Raises ToolError.
        """
        with told(self.name), self._area.locked() as area:
            return self._clear(area)

    def _clear(self, area: str) -> list[dict[str, str]]:
        return [self._settle(home, area) for home in self._area.orphans(area)]

    def _settle(self, home: Home, area: str) -> dict[str, str]:
        action = ""
        try:
            found = Journal.found(home.path, self._folder)
            if found is None:
                self._area.drop(home, area)
                return {"action": action, "state": "dropped"}
            journal, forward = found
            action = journal.action
            known = self._area.record(area, action, journal.attempt)
            if known is not None:  # It had ended; only its place was not removed yet.
                self._area.drop(home, area)
                return {"action": action, "state": str(known.get("state"))}
            state = journal.settle() if forward else journal.undo()
        except (OSError, ForeignError) as error:
            self._mark(action, f"a workspace is moved in part, and stays so: {error}")
            home.close()
            return {"action": action, "state": "stuck"}
        # Remembered before its place is removed: a process that dies between the two has only that left to do.
        self._area.remember(area, state, journal.action, journal.attempt)
        self._area.drop(home, area)
        return {"action": journal.action, "state": state}

    def _stuck(self, area: str) -> bool:
        """Something was left that nobody could settle: it may be of any attempt."""
        left = list(self._area.orphans(area))
        for home in left:
            home.close()
        return bool(left)

    # --- the mark of a folder that can no longer be trusted --------------------------------------------------------

    def mark_dirty(self, ctx: Context, reason: str) -> dict[str, Json]:
        """Notes that the folder's state is not what any plan says, and why. The note stays until it is cleared."""
        self._mark(ctx.action_id, reason, ctx.target)
        return {"dirty": True}

    def _mark(self, action: str, reason: str, target: str = "") -> None:
        note = json.dumps({"action": action, "target": target, "reason": reason}) + "\n"
        with told(self.name), self._marked.place(DIRTY_MARKER, follow=False) as (folder, name):
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(name, flags, NEW_FILE_MODE, dir_fd=folder)
            try:
                if note.encode() not in os.pread(file, 65_536, 0):
                    write_all(file, note.encode())
                    os.fsync(file)
            finally:
                os.close(file)
            os.fsync(folder)

    @property
    def dirty(self) -> bool:
        """Whether the folder was marked."""
        return os.path.lexists(os.path.join(self._root, DIRTY_MARKER))

    def clear_dirty(self, ctx: Context) -> dict[str, Json]:
        """Takes the mark off, once somebody has looked."""
        if self.dirty:
            with told(self.name), self._marked.place(DIRTY_MARKER, follow=False) as (folder, name):
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)
        return {"dirty": False}
