"""The manifest of a workspace: the moves, their order, and how to finish or undo all of them.

A committing workspace uses the manifest, and so does recovery after a dead process. Each step checks before acting, so
a repetition changes nothing. Content from neither the workspace nor the state before is foreign, and is never
overwritten.
"""

from __future__ import annotations

import json
import os
import stat as modes
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from readback.canon.frozen import dataclass
from readback.contracts.documents.own_files import refuse_change
from readback.errors import OwnFileError
from readback.systems.files.sandboxed_paths import Confined
from readback.systems.files.staging_area import sync, write_durably

FORWARD: Final = "manifest.json"
"""Present while a verified workspace is moved into place: finish it."""
BACKWARD: Final = "undo.json"
"""Present while moves are undone."""

Stood = tuple[int, int, int, int]
"""An entry's inode, kind, size and time of change. A rename changes none of the four."""


class ForeignError(Exception):
    """A foreign entry is in the way."""


@dataclass(frozen=True, slots=True)
class Move:
    """One step. `do`: folder, put, gone or rmdir. `blob` and `back` are names in the workspace's own place."""

    do: str
    parts: tuple[str, ...]
    mode: int = 0
    blob: str = ""
    new: Stood | None = None
    was: Stood | None = None
    back: str = ""
    kept: Stood | None = None
    """The entry at `back`: a second name of the same file, or a copy where no second name is possible."""

    @property
    def path(self) -> str:
        return "/".join(self.parts)


@dataclass(frozen=True, slots=True)
class Journal:
    """A manifest in its place, for one folder."""

    home: str
    folder: Confined
    action: str
    attempt: int
    moves: tuple[Move, ...]

    # --- as it lies on the disk ---------------------------------------------------------------------------------

    def write(self) -> None:
        """Write the manifest. From here on, this process or a later process finishes the workspace."""
        moves: list[object] = [asdict(each) for each in self.moves]
        content: dict[str, object] = {"action": self.action, "attempt": self.attempt, "moves": moves}
        write_durably(os.path.join(self.home, FORWARD), content)

    @classmethod
    def found(cls, home: str, folder: Confined) -> tuple[Journal, bool] | None:
        """Return the manifest in a place, and whether to finish (else undo). None: nothing was moved.

        Raises ForeignError for a foreign file.
        """
        for name in (BACKWARD, FORWARD):
            try:
                with open(os.path.join(home, name), encoding="utf-8") as file:
                    text = file.read()
            except FileNotFoundError:
                continue
            try:
                said = json.loads(text)
                moves = tuple(_move(each) for each in said["moves"])
                return cls(home, folder, said["action"], said["attempt"], moves), name == FORWARD
            except (KeyError, TypeError, ValueError) as error:
                raise ForeignError(f"The manifest in {home!r} is not one of ours: {error}") from error
        return None

    # --- forward and back ---------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Move everything into place. Raises OSError or ForeignError, and can be repeated."""
        for each in self.moves:
            try:
                with self.folder.folder(each.parts) as (folder, name):
                    self._refuse_own(each, folder, name)
                    self._forward(each, folder, name)
            except FileNotFoundError:
                if each.do in ("folder", "put"):
                    raise
                # Removed with the folder above, in an earlier run.
        self._sync()

    def _refuse_own(self, move: Move, folder: int, name: str) -> None:
        """Raises ForeignError for Readback's own files. A manifest may be older than the present list of own files."""
        if move.do == "folder":
            return
        try:
            refuse_change(folder, name)
        except OwnFileError as error:
            raise ForeignError(error.message) from error

    def undo(self) -> str:
        """Restore everything. Raises OSError or ForeignError, and can be repeated."""
        with suppress(FileNotFoundError):  # Renamed in an earlier run.
            os.replace(os.path.join(self.home, FORWARD), os.path.join(self.home, BACKWARD))
            sync(self.home)
        for each in reversed(self.moves):
            try:
                with self.folder.folder(each.parts) as (folder, name):
                    self._back(each, folder, name)
            except FileNotFoundError:
                if each.was is not None:
                    raise
        self._sync()
        return "undone"

    def settle(self) -> str:
        """Finish, or undo where a foreign entry is in the way. Returns `moved` or `undone`."""
        try:
            self.finish()
        except (OSError, ForeignError):
            return self.undo()
        return "moved"

    def _forward(self, move: Move, folder: int, name: str) -> None:
        now = stood(folder, name)
        match move.do:
            case "folder":
                if now is None:
                    os.mkdir(name, move.mode, dir_fd=folder)
                elif now[1] != modes.S_IFDIR:
                    raise ForeignError(move.path)
            case "put":
                if now == move.new:
                    return
                if now != move.was:
                    raise ForeignError(move.path)
                os.replace(os.path.join(self.home, move.blob), name, dst_dir_fd=folder)
            case "gone":
                if now is None:
                    return
                if now != move.was:
                    raise ForeignError(move.path)
                os.unlink(name, dir_fd=folder)
            case _:
                if now is not None:
                    os.rmdir(name, dir_fd=folder)

    def _back(self, move: Move, folder: int, name: str) -> None:
        now = stood(folder, name)
        if move.do in ("folder", "rmdir"):
            if (now is None) is (move.was is None):
                return
            if now is None:
                os.mkdir(name, move.mode, dir_fd=folder)
                os.chmod(name, move.mode, dir_fd=folder)
            else:
                os.rmdir(name, dir_fd=folder)
            return
        if now in (move.was, move.kept) or (move.blob and os.path.lexists(os.path.join(self.home, move.blob))):
            return  # Restored already, or never moved.
        if now != (move.new if move.do == "put" else None):
            raise ForeignError(move.path)
        if move.back:
            os.replace(os.path.join(self.home, move.back), name, dst_dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)

    def _sync(self) -> None:
        for parts in dict.fromkeys(each.parts[:-1] for each in self.moves):
            with suppress(FileNotFoundError), self.folder.folder((*parts, ".")) as (folder, _):
                os.fsync(folder)


def stood(folder: int | None, name: str) -> Stood | None:
    """Return the entry at a name. Time and size of a folder do not count: its entries change both."""
    try:
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    kind = modes.S_IFMT(seen.st_mode)
    if kind == modes.S_IFDIR:
        return seen.st_ino, kind, 0, 0
    return seen.st_ino, kind, seen.st_size, seen.st_mtime_ns


def _move(said: dict[str, Any]) -> Move:
    """Parse a step. Raises ForeignError for a step out of the folder."""
    parts = tuple(said["parts"])
    ours = said["blob"] + said["back"]
    if not parts or any(part in ("", ".", "..") or "/" in part for part in parts) or ".." in ours:
        raise ForeignError(f"A manifest names {parts!r}, which is not a place in its folder.")
    marks = {each: None if said[each] is None else tuple(said[each]) for each in ("new", "was", "kept")}
    return Move(said["do"], parts, said["mode"], said["blob"], back=said["back"], **marks)
