"""The settings of one source or executor of a contract file, its references resolved; and what nobody may see of it.

Made by `sdk.fittings` for one call. What a reference stood for is kept nowhere else, and where it is a credential it is
taken out of whatever comes back from the system.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from readback.canon import Json
from readback.config import secret_at
from readback.domain.errors import SettingsError
from readback.ports.system_factory import Fixed, Reference
from readback.systems.configured.credentials import Credentials

US: Final = 1_000_000
LOCATED_MAX: Final = 256
NAMES: Final = frozenset(
    {"host", "port", "user", "database", "bucket", "region", "root", "base", "repository", "cwd", "staging", "remote"}
)
"""Settings that say where something is or whose it is. They stand in readings too, where they are compared: they are
no credentials, and taken out an honest reading would be of another mailbox.
"""


@lru_cache(LOCATED_MAX)
def located(folder: str, named: str) -> str:
    """A path of a contract file, from its folder on: the same few, for each reading."""
    return str(Path(folder) / Path(named).expanduser())


_ONLY_WHERE: Final = re.compile(r"https?://[^/?#@]*/?")
"""An address that names a host and nothing else."""


class Settled:
    """A fitting's settings with their references resolved, once; and what of it nobody may see."""

    def __init__(self, name: str, fixed: Fixed, folder: str, timeout_us: int) -> None:
        self.name = name
        self.folder = folder
        self.timeout_s = timeout_us / US
        self._found: list[str] = []
        self._refers = False
        self._fixed = {key: self._resolved(value, key in NAMES) for key, value in fixed.items()}
        self.secrets = Credentials(self._found)

    def _resolved(self, value: object, is_name: bool) -> object:
        if isinstance(value, Reference):
            named = str(Path(self.folder) / value.name) if value.kind == "file" else value.name
            found = secret_at(f"{value.kind}:{named}").decode("utf-8", "replace")
            self._refers = True
            if not is_name and _ONLY_WHERE.fullmatch(found) is None:
                self._found.append(found)
            return found
        if isinstance(value, dict):
            return {key: self._resolved(each, False) for key, each in value.items()}
        return value

    def get(self, key: str, default: Any = None) -> Any:
        return self._fixed.get(key, default)

    def some(self, *keys: str) -> dict[str, Any]:
        """Those of these settings that were given."""
        return {key: self._fixed[key] for key in keys if key in self._fixed}

    def path(self, key: str, default: str = ".") -> str:
        """A path, from the contract file's folder on."""
        locate = located.__wrapped__ if self._refers else located  # what a reference stands for is kept nowhere
        return locate(self.folder, str(self._fixed.get(key, default)))

    def command(self, argv: object) -> list[str]:
        """The command; a program that is named by a path counts from the contract file's folder on."""
        assert isinstance(argv, list)
        program = str(argv[0])
        return [located(self.folder, program) if "/" in program else program, *map(str, argv[1:])]

    def number(self, key: str) -> int:
        """Raises SettingsError where a reference stands for no number."""
        try:
            return int(self._fixed[key])  # type: ignore[call-overload, no-any-return]
        except (TypeError, ValueError) as error:
            raise SettingsError(f"The {key} of {self.name!r} is no number.", remedy="Correct the reference.") from error

    # --- what nobody may see ---

    @property
    def hides(self) -> bool:
        """Whether a reference stands for a credential here."""
        return bool(self.secrets)

    def hidden(self, text: str) -> str:
        return self.secrets.text(text)

    def without(self, value: Json) -> Json:
        """The value with every text cleared of what references stand for."""
        return self.secrets.without(value)
