"""Open settings, ledger and contracts for a command.

A reading command opens the ledger read-only, so a mistyped address is an error and creates no empty ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from readback import bootstrap
from readback.canon import ReadbackError
from readback.cli.terminal import note, safe
from readback.client.recovery_table import table_in_force
from readback.client.session import Session
from readback.config import LOCAL_FILE, USER_FILE, Settings, is_contract_file, shown, user_folder
from readback.errors import UsageError
from readback.systems.trace_headers import from_environment

if TYPE_CHECKING:
    from readback.client.authoring.action import ActionDefinition
    from readback.client.files import FileAction
    from readback.contracts.registry import Registry


def settings_of(
    url: str | None = None,
    tenant: str | None = None,
    principal: str | None = None,
    modules: tuple[str, ...] = (),
    table: str | None = None,
) -> Settings:
    """The active settings. Reports a settings file in the working folder that is ignored."""
    found = bootstrap.settings(url=url, tenant=tenant, principal=principal, contracts=modules, recovery_table=table)
    if found.ignored_file:
        pins = user_folder() / USER_FILE
        note(f"Warning: {safe(found.ignored_file)} is ignored: {safe(pins)} does not pin its SHA-256 ({LOCAL_FILE}).")
    return found


@contextmanager
def reading(settings: Settings) -> Iterator[Session]:
    """Open a read-only session. Raises StoreError without a ledger."""
    session = _session(settings, read_only=True)
    try:
        yield session
    finally:
        session.close()


@contextmanager
def working(
    settings: Settings, registry: Registry | None, *, run: str = "", trace: str = "", new: bool = True
) -> Iterator[Session]:
    """Open a session that executes and resumes actions of the loaded contracts, in the trace of TRACEPARENT, if any.

    `new`: create a missing ledger. Otherwise a missing ledger raises StoreError.
    """
    caller = None if trace else from_environment()
    named = trace if caller is None else caller.traceparent
    session = _session(settings, read_only=False, run=run, trace=named, new=new)
    try:
        if registry is not None:
            for plan in registry.load().values():
                session.know(plan)
        yield session
    finally:
        session.close()


def _session(settings: Settings, *, read_only: bool, run: str = "", trace: str = "", new: bool = True) -> Session:
    table = table_in_force(None, settings)  # a table that is refused leaves no ledger behind
    if not new:
        bootstrap.store(settings.url, read_only=True).close()
    store = bootstrap.store(settings.url, read_only=read_only)
    try:
        return Session.open(
            settings.url,
            tenant=settings.tenant,
            principal=settings.principal,
            run=run,
            plan="",
            task_state="",
            boundary="",
            trace=trace,
            budget=None,
            break_glass="",
            actions=(),
            runtime=bootstrap.runtime(),
            store=store,
            recovery_table=table,
            tells=not read_only,
        )
    except ReadbackError:
        store.close()
        raise


def load_contracts(settings: Settings, *, needed: bool) -> Registry | None:
    """Compile and check the contracts of all named modules and files before anything runs.

    Returns None if none is named and `needed` is false. Raises UsageError, and ContractError with all faults.
    """
    if not settings.contracts:
        if not needed:
            return None
        raise UsageError(
            "No contracts are named.",
            remedy="Pass --contracts package.module or --contracts FILE, or set READBACK_CONTRACTS.",
        )
    from readback.contracts.registry import Registry, registry_of

    files = [name for name in settings.contracts if is_contract_file(name)]
    modules = [name for name in settings.contracts if name not in files]
    if modules:
        from readback.cli.contract_modules import allow_modules

        allow_modules(str(Path.cwd()), modules)
    registry = registry_of(modules) if modules else Registry()
    if files:
        from readback.client.files import contract_files

        for found in contract_files(*files, pins=dict(settings.contract_pins)).values():
            registry.add(found)
    registry.load()
    return registry


def action_named(registry: Registry, name: str) -> ActionDefinition[Any] | FileAction:
    """The action with this contract name. Raises NotFoundError."""
    from readback.client.authoring.action import ActionDefinition
    from readback.client.files import FileAction

    found = registry.get(name)
    if not isinstance(found, ActionDefinition | FileAction):
        raise UsageError(f"The contract {name!r} cannot be run from the command line.", remedy="Run it from Python.")
    return found


def again_with(settings: Settings, *, contracts: bool = False) -> str:
    """The options of the next command for the same ledger and tenant, without defaults.

    `contracts`: add the contracts, too.
    """
    import shlex

    plain = Settings()
    given = [("--url", shown(settings.url), plain.url), ("--tenant", settings.tenant, plain.tenant)]
    said = [f"{option} {shlex.quote(value)}" for option, value, default in given if value != default]
    if contracts:
        said += [f"--contracts {shlex.quote(module)}" for module in settings.contracts or ("MODULE",)]
    return "".join(f" {each}" for each in said)
