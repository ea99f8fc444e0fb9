"""Earlier places of modules that documents named before the rooms moved.

A program that imports an earlier place gets the present module, and a DeprecationWarning with the present name.
The table holds names from documents and examples alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

MOVED: Final[Mapping[str, str]] = {
    "readback.adapters.executor_smtp": "readback.systems.mail.executor",
    "readback.adapters.predicates_cel": "readback.adapters.cel",
    "readback.commands": "",
    "readback.commands.demo": "",
    "readback.commands.demo.systems": "readback.demo.systems",
    "readback.commands.demo.systems.launch": "readback.demo.systems.launch",
    "readback.commands.demo.systems.postgres": "readback.testing.postgres_server",
    "readback.commands.demo.systems.s3": "readback.testing.s3_server",
    "readback.domain.claim": "readback.domain.action.claim",
    "readback.domain.delegation": "",
    "readback.domain.delegation.allowance": "readback.domain.contract.script_permissions",
    "readback.domain.errors": "readback.errors",
    "readback.domain.reading": "readback.domain.verification.reading",
    "readback.domain.signed_word": "readback.domain.people.signed_statement",
    "readback.sdk": "",
    "readback.sdk.deciding": "readback.decisions.api",
    "readback.sdk.files": "readback.client.files",
    "readback.sdk.systems": "readback.systems",
    "readback.testing.conformance_anchor": "readback.testing.conformance.anchor",
    "readback.testing.conformance_scripts": "readback.testing.conformance.scripts",
    "readback.testing.conformance_sink": "readback.testing.conformance.sink",
    "readback.testing.conformance_source": "readback.testing.conformance.source",
    "readback.testing.conformance_store": "readback.testing.conformance.store",
    "readback.testing.conformance_wakeups": "readback.testing.conformance.wakeups",
}
"""Earlier module -> present module; "" for a package that only held others."""
RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "readback.domain.delegation.allowance": {"Allowance": "ScriptPermissions"},
}


class _Moved(Loader):
    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []
        present = MOVED[module.__name__]
        if not present:
            return
        warnings.warn(f"{module.__name__} is now {present}.", DeprecationWarning, stacklevel=2)
        target = import_module(present)
        renamed = RENAMED.get(module.__name__, {})

        def attribute(name: str) -> object:
            return getattr(target, renamed.get(name, name))

        module.__getattr__ = attribute  # type: ignore[method-assign]


def spec_of(name: str) -> ModuleSpec | None:
    """Return the spec of an earlier place, or None for any other name."""
    return ModuleSpec(name, _Moved(), is_package=True) if name in MOVED else None
