"""Contract files for programs: load files, propose by name, and run as with decorated functions.

Used by programs (`contract_files`) and by the command line. Loading reaches no system and runs nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import readback.bootstrap as bootstrap
from readback.canon import Json
from readback.client.proposal import Proposal
from readback.contracts.files.assembly import Loaded, load_files
from readback.contracts.files.contract import FileContract
from readback.contracts.files.tools.listing import Toolbox
from readback.contracts.functions.arguments import ArgumentSchema
from readback.contracts.problems import did_you_mean
from readback.contracts.sandbox_actions import SafeTarget
from readback.domain.contract.contract import Contract
from readback.engine.compiled_contract import CompiledContract
from readback.errors import ArgumentError, NotFoundError, TemplateError, UsageError
from readback.systems.configured.factory import BuiltInSystems

if TYPE_CHECKING:
    from readback.client.authoring.evaluation import Evaluated
    from readback.ports.system_factory import SystemFactory


class FileAction:
    """An action of a contract file. Calling the action proposes, as with a decorated function; arguments go by name."""

    def __init__(self, written: FileContract, compensation: FileAction | None = None) -> None:
        self.written = written
        """The compiled text of the file."""
        self._compensation = compensation
        self.unverified: Callable[..., object] = self._no_function
        """A contract in a file has no bare function: this call raises UsageError."""
        self.__name__ = written.name
        self.__doc__ = written.description or None

    def __call__(self, /, **arguments: object) -> Proposal:
        """Propose. Raises ArgumentError, OversizeError; UsageError for a tool that only a gateway can call."""
        if self.written.uncallable:
            raise UsageError(
                f"{self.name!r} cannot be called here: {self.written.uncallable}.",
                remedy="Add `execute` to the contract, unless a server's tool acts.",
            )
        unsent = self.written.unsent
        if unsent and (null := sorted(name for name in unsent if name in arguments and arguments[name] is None)):
            raise ArgumentError(
                f"{self.name!r} cannot send null for {', '.join(null)}: the server would read a missing argument.",
                remedy="Omit the argument; if null has a meaning, make the argument required in the contract.",
                details={"problems": [{"argument": name, "reason": "It is null."} for name in null]},
            )
        bound, requested = self.arguments.bind((), arguments)
        here = sys._getframe(1)  # noqa: SLF001 - for the warning
        return Proposal(self, bound, requested, proposed_in=here, operation=self._operation(requested))

    @property
    def name(self) -> str:
        """The contract's name."""
        return self.written.name

    @property
    def description(self) -> str:
        """The contract's description, for a model's list of tools; "" without one."""
        return self.written.description

    @property
    def plan(self) -> CompiledContract:
        """The compiled contract with its handlers."""
        return self.written.plan

    @property
    def contract(self) -> Contract:
        """The contract's data."""
        return self.plan.contract

    @property
    def arguments(self) -> ArgumentSchema:
        """The argument schema."""
        return self.written.arguments

    @property
    def compensation(self) -> FileAction | None:
        """The action that reverses this one."""
        return self._compensation

    @property
    def declared_twin(self) -> SafeTarget | None:
        """The safe target for drills: `twin`, arguments that always mean a safe target."""
        return SafeTarget(None, self.written.twin) if self.written.twin else None

    def load(self) -> CompiledContract:
        """Return the plan, compiled together with the file."""
        return self.plan

    def evaluate(self, *, requested: Mapping[str, object], **states: Any) -> Evaluated:
        """Evaluate given states, for unit tests; see `ActionDefinition.evaluate`."""
        from readback.client.authoring.evaluation import judge

        return judge(self.plan, {"requested": requested, **states})

    def _no_function(self, *given: object, **named: object) -> object:
        raise UsageError(f"{self.name!r} comes from a contract file and has no bare function to call.")

    def _operation(self, requested: Mapping[str, Json]) -> str:
        try:
            return self.written.operation_for(requested)
        except TemplateError as error:
            raise ArgumentError(f"The operation of {self.name!r} cannot be rendered: {error.message}") from error

    def __repr__(self) -> str:
        return f"<action {self.name} of {self.written.home.file}>"


class ContractFiles(Mapping[str, FileAction]):
    """The actions of some files, by name. Immutable, and safe to share between threads."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self._actions: dict[str, FileAction] = {}
        for written in loaded.contracts.values():
            self._action(written)

    def _action(self, written: FileContract) -> FileAction:
        known = self._actions.get(written.name)
        if known is None:
            reversing = written.compensation
            known = FileAction(written, None if reversing is None else self._action(reversing))
            self._actions[written.name] = known
        return known

    def __getitem__(self, name: str) -> FileAction:
        """Raises NotFoundError."""
        try:
            return self._actions[name]
        except KeyError:
            hint = did_you_mean(name, self._actions)
            raise NotFoundError(
                f"No contract file has a contract {name!r}.{hint}", remedy="Name an existing one."
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._actions

    def __iter__(self) -> Iterator[str]:
        return iter(self._actions)

    def __len__(self) -> int:
        return len(self._actions)


def contract_files(
    *paths: str | os.PathLike[str],
    tools: Mapping[str, object] | None = None,
    others: Mapping[str, Mapping[str, object]] | None = None,
    fittings: SystemFactory | None = None,
    pins: Mapping[str, str] | None = None,
) -> ContractFiles:
    '''Load and check these files, and return the actions by name.

    Args:
        paths: The files.
        tools: The tools of the files' own server by name: whole definitions, or argument schemas alone.
        others: The tools of the `servers` named in the files.
        fittings: Systems beyond the built-in ones.
        pins: Required SHA-256 of files, by absolute path.

    Raises:
        ContractFileError: the files have faults; the error lists every fault of every file.
        SettingsError: a file cannot be read, or has another hash than its pin.

    Example:
        >>> from pathlib import Path
        >>> from readback import Readback, contract_files
        >>> _ = Path("notes.yaml").write_text("""
        ... apiVersion: readback/v1
        ... kind: Contracts
        ... metadata: {name: notes, version: 1.0.0}
        ... contracts:
        ...   write_note:
        ...     kind: set
        ...     side_effect: ephemeral_write
        ...     target: note/{requested.name}
        ...     arguments: {name: string, text: string}
        ...     execute: {file: {root: notes, do: write, path: "{requested.name}", content: "{requested.text}"}}
        ...     readers: [file: {root: notes, path: "{requested.name}"}]
        ...     ensure: {same bytes: authoritative.sha256 == sha256(requested.text)}
        ... """)
        >>> Path("notes").mkdir()
        >>> actions = contract_files("notes.yaml")
        >>> with Readback.open("memory:") as rb:
        ...     print(rb.run(actions["write_note"](name="b.txt", text="hello")).verified)
        True
    '''
    return ContractFiles(loaded_files(paths, tools=tools, others=others, fittings=fittings, pins=pins).sound())


def loaded_files(
    paths: Iterable[str | os.PathLike[str]],
    *,
    tools: Mapping[str, object] | None = None,
    others: Mapping[str, Mapping[str, object]] | None = None,
    fittings: SystemFactory | None = None,
    pins: Mapping[str, str] | None = None,
    toolbox: Toolbox | None = None,
) -> Loaded:
    """Load files as `contract_files` does, and return the faults too. Raises SettingsError for an unreadable file.

    `toolbox`: replaces `tools` and `others`, where several files have servers of their own.
    """
    toolbox = toolbox or Toolbox(tools, others or {})
    return load_files(paths, bootstrap.predicate_engine(), fittings or BuiltInSystems(), pins=pins, toolbox=toolbox)
