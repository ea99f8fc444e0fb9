"""The contracts known to a process, by name. Filled from a module, or one by one; loaded together.

Used by the command line's `--contracts package.module`, and by workers after a restart. Nothing runs here, except the
import of an author's module.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Final, Protocol, runtime_checkable

from readback.contracts.documents.own_files import keep
from readback.contracts.problems import PROBLEMS_MAX, did_you_mean
from readback.engine.compiled_contract import CompiledContract
from readback.errors import ContractError, ContractFieldError, NotFoundError, UsageError

HOW_NAMED: Final = "Write package.module, as in a Python import."


@runtime_checkable
class Loadable(Protocol):
    """An entry of a registry: an action's definition in any notation. `load` compiles once."""

    @property
    def name(self) -> str:
        """The contract's name."""
        ...

    @property
    def compensation(self) -> Loadable | None:
        """The reversing action, with a contract of its own."""
        ...

    def load(self) -> CompiledContract:
        """Raises ContractError with all faults of this contract."""
        ...


class Registry:
    """Contracts by name. Fill a registry from one thread; after loading, any thread may read."""

    def __init__(self, definitions: Iterable[Loadable] = ()) -> None:
        self._known: dict[str, Loadable] = {}
        for definition in definitions:
            self.add(definition)

    def add(self, definition: Loadable) -> None:
        """Add an action and its compensation. Raises ContractFieldError where another action has the name."""
        known = self._known.get(definition.name)
        if known is definition:
            return
        if known is not None:
            raise ContractFieldError(
                f"Two contracts have the name {definition.name!r}.",
                remedy="Give one contract another `name`; keys and records use the name.",
                details={"contract": definition.name},
            )
        self._known[definition.name] = definition
        if definition.compensation is not None:
            self.add(definition.compensation)

    def load(self) -> Mapping[str, CompiledContract]:
        """Compile all. Raises the first contract's error, with the problems of all contracts in its details."""
        plans: dict[str, CompiledContract] = {}
        faults: list[ContractError] = []
        for name, definition in self._known.items():
            try:
                plans[name] = definition.load()
            except ContractError as error:
                faults.append(error)
        if len(faults) == 1:
            raise faults[0]
        if faults:
            raise _together(faults)
        return plans

    def get(self, name: str) -> Loadable:
        """Raises NotFoundError."""
        try:
            return self._known[name]
        except KeyError:
            hint = did_you_mean(name, self._known)
            raise NotFoundError(
                f"There is no contract {name!r}.{hint}", remedy="Name a contract of the loaded module."
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def registry_of(modules: Iterable[ModuleType | str]) -> Registry:
    """Return the actions at the top level of these modules, own and imported.

    A name stands for a module to import. Raises UsageError for a missing module, or modules without an action;
    ContractError for a failing import, or two contracts of one name.
    """
    registry = Registry()
    named: list[str] = []
    for each in modules:
        module = _imported(each) if isinstance(each, str) else each
        named.append(module.__name__)
        if module.__name__ != "__main__" and getattr(module, "__file__", None):
            keep(str(module.__file__))
        for found in vars(module).values():
            if not isinstance(found, type) and isinstance(found, Loadable):
                registry.add(found)
    if not len(registry):
        raise UsageError(
            f"There is no action in {', '.join(named) or 'no module'}.",
            remedy="Name the module with the `@action(...)` functions.",
        )
    return registry


def _imported(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} is not a module name.", remedy="Write package.module.")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            meant = f"Omit the ending: {name[:-3]}." if name.endswith(".py") else HOW_NAMED
            raise UsageError(f"There is no module {name!r}.", remedy=meant) from error
        raise ContractError(f"The module {name!r} cannot be imported: {error}.", remedy=_look(name)) from error
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ContractError(f"The module {name!r} cannot be imported: {said:.300}", remedy=_look(name)) from error


def _look(name: str) -> str:
    return f"Correct the module; `python -c 'import {name}'` shows the error."


def _together(faults: list[ContractError]) -> ContractError:
    problems: list[object] = []
    for fault in faults:
        found = fault.details.get("problems", [])
        rows = found if isinstance(found, list) else []
        problems += [{"contract": fault.details.get("contract", ""), **row} for row in rows]
    message = f"{len(faults)} contracts cannot be loaded. " + " ".join(fault.message for fault in faults)
    details = {"problems": problems[:PROBLEMS_MAX]}
    return type(faults[0])(message, remedy="Correct every listed fault.", details=details, code=faults[0].code)
