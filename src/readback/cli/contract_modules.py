"""Find modules of Python contracts in the working folder, and answer no other import from there.

The working folder is not on the import path. Libraries import optional modules that are not installed, and an agent may
write a file of such a name into the working folder. That file would run with the operator's rights. So the folder
answers only imports of modules named by the operator, and imports made by modules from the folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Final

_IMPORT_SYSTEM: Final = frozenset({"importlib", "importlib._bootstrap", "importlib._bootstrap_external", __name__})


class ContractModules:
    """A finder for one folder, after all installed modules. Safe from any thread."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._named: set[str] = set()
        self._found: set[str] = set()

    def name(self, modules: Iterable[str]) -> None:
        """Allow these modules, named by the operator."""
        self._named |= {name.partition(".")[0] for name in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module from the folder, or None for an import that the folder does not answer."""
        if path is not None or not (fullname in self._named or self._asked_from_within(sys._getframe(1))):  # noqa: SLF001 - the importing module has no other name
            return None
        spec = PathFinder.find_spec(fullname, [self.folder])
        if spec is not None:
            self._found.add(fullname)
        return spec

    def _asked_from_within(self, frame: FrameType | None) -> bool:
        """Whether the importing module was itself found in the folder."""
        while frame is not None and frame.f_globals.get("__name__") in _IMPORT_SYSTEM:
            frame = frame.f_back
        importing = "" if frame is None else str(frame.f_globals.get("__name__", ""))
        return importing.partition(".")[0] in self._found


def allow_modules(folder: str, modules: Iterable[str]) -> None:
    """Allow imports of the named modules from the folder. Installed modules of the same name come first."""
    known = [each for each in sys.meta_path if isinstance(each, ContractModules) and each.folder == folder]
    finder = known[0] if known else ContractModules(folder)
    finder.name(modules)
    if not known:
        sys.meta_path.append(finder)
