"""Act on a folder: write, append, delete and move files durably, never outside the folder. Open workspaces.

Users construct the executor and call it inside actions. The executor does not verify. Opening the folder again finishes
or drops the leftovers of dead processes. Confinement is decided by this package's own code; nothing is shared with the
file source.
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
    typed_errors,
    write_all,
)
from readback.systems.files.staging_area import INSIDE, Area, Home, attempt_of
from readback.systems.files.workspace import FileWorkspace

# Writes one whole file: first without a name, then renamed into place in one step.


def write_whole(ctx: Context, area: Area, folder: int, name: str, data: bytes) -> None:
    """Write the data to the file, durably. Raises OSError; before the last step nothing has changed."""
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
    """Return a new file, and a temporary name if the system needs a name."""
    without_name = getattr(os, "O_TMPFILE", None)
    if without_name is not None and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # A file system without nameless files. The other way reports other errors.
            return os.open(".", without_name | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=folder), ""
    return area.named(path)


DIRTY_MARKER: Final = ".readback-dirty"


class FileExecutor:
    """Change the files below one folder.

    Safe from any thread. Paths are relative to `root`, with slashes. Links inside the folder are followed. A path out
    of the folder raises SandboxEscapeError before any change. A refusal of the system is a ToolError. A written file
    carries the attempt's stamp where the file system supports it.

    Args:
        root: The folder.
        name: Name in evidence and messages.
        staging: Folder for staged changes, on the same file system. Default: `.readback-NAME` beside `root`.

    Example:
        >>> import tempfile
        >>> site = FileExecutor(tempfile.mkdtemp(), name="site")
        >>> def publish(ctx, path, text):
        ...     return site.write_text(ctx, path, text, parents=True)
    """

    def __init__(self, root: str | Path, *, name: str = "files", staging: str | Path | None = None) -> None:
        self.name = name
        self._root = os.fspath(root)
        self._area = Area(root, staging)
        self._folder = Confined(name, root, (INSIDE, DIRTY_MARKER))
        self._marked = Confined(name, root)
        self.left: list[dict[str, str]] = self.recover() if self._area.exists else []
        """Leftovers of dead processes, and the treatment of each when the folder was opened."""

    def write_text(self, ctx: Context, path: str, text: str, *, parents: bool = False) -> dict[str, Json]:
        """Call `write_bytes` with the text in UTF-8."""
        return self.write_bytes(ctx, path, text.encode(), parents=parents)

    def write_bytes(self, ctx: Context, path: str, data: bytes, *, parents: bool = False) -> dict[str, Json]:
        """Replace the file's content with `data`, in one step.

        Args:
            ctx: Context of the action.
            path: Path of the file.
            data: The new content.
            parents: Create missing parent folders.
        """
        with typed_errors(self.name), self._folder.place(path, parents=parents) as (folder, name):
            write_whole(ctx, self._area, folder, name, data)
        return {"path": path, "size": len(data)}

    def stage(self, ctx: Context, path: str, data: bytes | str, *, parents: bool = False) -> FileWorkspace:
        """Stage one file. Return the workspace from the action: the engine verifies the content before the move into
        place.
        """
        content = data.encode() if isinstance(data, str) else data
        with self.workspace(ctx) as staged:
            staged.write_bytes(path, content, parents=parents)
            staged.look(path)
            staged.answer = {"path": path, "size": len(content)}
        return staged

    def workspace(self, ctx: Context) -> FileWorkspace:
        """Open a workspace. Return it from the action: the engine verifies the content before the move into place.

        Raises NotDispatchedError for a dirty folder: nothing is built on an unknown state.
        """
        if self.dirty:
            raise NotDispatchedError(
                f"{self.name!r} is marked dirty; nothing was staged.",
                remedy="Inspect the folder, then call clear_dirty.",
            )
        return FileWorkspace(ctx, self._folder, self._area)

    def append(self, ctx: Context, path: str, data: bytes | str) -> dict[str, Json]:
        """Append to the file, or create it. A part may land if the system fails."""
        content = data.encode() if isinstance(data, str) else data
        with typed_errors(self.name), self._folder.place(path) as (folder, name):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            only_files(folder, name)
            file = os.open(name, flags, NEW_FILE_MODE, dir_fd=folder)
            try:
                refuse_opened(file, path)  # the name may lead to another file by now
                write_all(file, content)
                put_stamp(file, ctx)
                os.fsync(file)
            finally:
                os.close(file)
            os.fsync(folder)
        return {"path": path, "appended": len(content)}

    def delete(self, ctx: Context, path: str) -> dict[str, Json]:
        """Remove a file, or a link without its target."""
        with typed_errors(self.name), self._folder.place(path, follow=False) as (folder, name):
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        return {"path": path, "deleted": True}

    def move(self, ctx: Context, path: str, to: str, *, overwrite: bool = False) -> dict[str, Json]:
        """Rename a file. Raises ToolError where the new name exists, unless `overwrite` is set."""
        with (
            typed_errors(self.name),
            self._folder.place(path, follow=False) as (folder, name),
            self._folder.place(to, follow=False) as (other, new),
        ):
            if overwrite:
                os.replace(name, new, src_dir_fd=folder, dst_dir_fd=other)
            else:  # Link first: a link fails where the name exists, a rename does not.
                os.link(name, new, src_dir_fd=folder, dst_dir_fd=other, follow_symlinks=False)
                os.unlink(name, dir_fd=folder)
            os.fsync(other)
            os.fsync(folder)
        return {"path": path, "to": to, "moved": True}

    # --- what became of it, and what was left ----------------------------------------------------------------------

    def lookup(self, ctx: Context) -> Lookup:
        """Return the final state of a workspace of this attempt, from the durable record, for an action's `.lookup`.

        If nothing was moved, that state is recorded first. A live workspace of this attempt can then no longer move
        anything into place. Raises ToolError.
        """
        with typed_errors(self.name), self._area.locked() as area:
            self._clear(area)
            known = self._area.record(area, *attempt_of(ctx))
            state = "dropped" if known is None else str(known.get("state"))
            if known is None and self._stuck(area):
                return Lookup.pending()  # moved in part: a person must inspect the folder
            if known is None:
                self._area.remember(area, state, *attempt_of(ctx))
        return Lookup.landed() if state == "moved" else Lookup.failed(f"the workspace was {state}")

    def recover(self) -> list[dict[str, str]]:
        """Finish or drop the leftovers of dead processes, and return the result of each. Leftovers of live processes
        stay.

        A leftover that can be neither finished nor undone, because of foreign changes, stays, and the folder is marked
        dirty. Called at each opening of the folder. Raises ToolError.
        """
        with typed_errors(self.name), self._area.locked() as area:
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
            if known is not None:  # The attempt had ended; only its place was left.
                self._area.drop(home, area)
                return {"action": action, "state": str(known.get("state"))}
            state = journal.settle() if forward else journal.undo()
        except (OSError, ForeignError) as error:
            self._mark(action, f"a workspace is moved in part, and stays so: {error}")
            home.close()
            return {"action": action, "state": "stuck"}
        # Record first, then remove the place: a crash in between leaves only the removal.
        self._area.remember(area, state, journal.action, journal.attempt)
        self._area.drop(home, area)
        return {"action": journal.action, "state": state}

    def _stuck(self, area: str) -> bool:
        """Return whether an unsettled leftover exists. It may belong to any attempt."""
        left = list(self._area.orphans(area))
        for home in left:
            home.close()
        return bool(left)

    # --- the mark of a folder that can no longer be trusted --------------------------------------------------------

    def mark_dirty(self, ctx: Context, reason: str) -> dict[str, Json]:
        """Record that the folder's state matches no plan, with the reason. The mark stays until `clear_dirty`."""
        self._mark(ctx.action_id, reason, ctx.target)
        return {"dirty": True}

    def _mark(self, action: str, reason: str, target: str = "") -> None:
        note = json.dumps({"action": action, "target": target, "reason": reason}) + "\n"
        with typed_errors(self.name), self._marked.place(DIRTY_MARKER, follow=False) as (folder, name):
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
        """Whether the folder is marked dirty."""
        return os.path.lexists(os.path.join(self._root, DIRTY_MARKER))

    def clear_dirty(self, ctx: Context) -> dict[str, Json]:
        """Remove the dirty mark, after an inspection."""
        if self.dirty:
            with typed_errors(self.name), self._marked.place(DIRTY_MARKER, follow=False) as (folder, name):
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)
        return {"dirty": False}
