"""Finds modules of Python contracts in the working folder, and answers no other import from there.

Used by `opening`. The working folder is not put on the import path: a library asks for modules that are not installed,
and a file of that name in the working folder, which an agent may write, would run with the operator's rights. So the
folder answers two imports only: of a module that the operator named, and those that a module from the folder makes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Final

_IMPORT_SYSTEM: Final = frozenset({"importlib", "importlib._bootstrap", "importlib._bootstrap_external", __name__})


class ContractModules:
    """A finder for one folder, asked after everything that is installed. Safe from any thread."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._named: set[str] = set()
        self._found: set[str] = set()

    def name(self, modules: Iterable[str]) -> None:
        """Allows these modules, which the operator named."""
        self._named |= {name.partition(".")[0] for name in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module from the folder, or None where the import is not one that the folder answers."""
        if path is not None or not (fullname in self._named or self._asked_from_within(sys._getframe(1))):  # noqa: SLF001 - the importing module has no other name
            return None
        spec = PathFinder.find_spec(fullname, [self.folder])
        if spec is not None:
            self._found.add(fullname)
        return spec

    def _asked_from_within(self, frame: FrameType | None) -> bool:
        """Whether the module that imports was itself found here."""
        while frame is not None and frame.f_globals.get("__name__") in _IMPORT_SYSTEM:
            frame = frame.f_back
        importing = "" if frame is None else str(frame.f_globals.get("__name__", ""))
        return importing.partition(".")[0] in self._found


def allow_modules(folder: str, modules: Iterable[str]) -> None:
    """Lets the named modules be imported from the folder, where nothing installed bears their name."""
    known = [each for each in sys.meta_path if isinstance(each, ContractModules) and each.folder == folder]
    finder = known[0] if known else ContractModules(folder)
    finder.name(modules)
    if not known:
        sys.meta_path.append(finder)
