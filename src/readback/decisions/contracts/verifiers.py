"""Custom verifiers: found by name in a folder or among entry points, imported, and checked before any run.

A verifier is code of the operator, like a contract in Python. It is imported only if an envelope lists its name. A
faulty verifier is a fault of the envelope.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from readback.agent_errors import VerifierLoadError
from readback.canon import sha256_hex
from readback.canon.frozen import dataclass
from readback.contracts.documents.own_files import keep
from readback.contracts.problems import did_you_mean

GROUP: Final = "readback.verifiers"
"""The group of entry points. Each names a callable under the identifier in envelopes."""
BUILT_IN: Final = ("read_after_write", "invariant_check")
VERIFIER_MAX_BYTES: Final = 1_048_576
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Verifier:
    """A function over the episode's context. `source` states its origin and hash."""

    name: str
    verify: Callable[[dict[str, object]], object]
    source: str


def found_verifier(name: str, folder: Path | None) -> Verifier:
    """Return the custom verifier of this name. Raises VerifierLoadError with the reason."""
    if _NAME.fullmatch(name) is None:
        raise VerifierLoadError(f"{name!r:.80} is no name of a verifier: letters, digits and '_', a letter first.")
    file = _file(name, folder)
    offered = [each for each in entry_points(group=GROUP) if each.name == name]
    if name in BUILT_IN:
        raise VerifierLoadError(f"{name!r} is the name of a built-in verifier. Choose another name.")
    if file is not None and offered:
        raise VerifierLoadError(f"{name!r} is both in the folder and among the installed verifiers.")
    if file is not None:
        return _from_file(name, file)
    if len(offered) == 1:
        return _from_package(name, offered[0])
    if offered:
        raise VerifierLoadError(f"{name!r} is offered by {len(offered)} installed packages.")
    known = [*BUILT_IN, *(each.stem for each in folder.glob("*.py"))] if folder is not None else BUILT_IN
    raise VerifierLoadError(f"There is no verification method {name!r}.{did_you_mean(name, known)}")


def shadows(folder: Path | None) -> tuple[str, ...]:
    """Return built-in names among the folder's files. Such a folder is refused, because the running code would be
    ambiguous.
    """
    return tuple(name for name in BUILT_IN if _file(name, folder) is not None)


def _file(name: str, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    file = folder / f"{name}.py"
    return file if file.is_file() else None


def _from_file(name: str, file: Path) -> Verifier:
    keep(file)
    try:
        size, content = file.stat().st_size, b""
        if size <= VERIFIER_MAX_BYTES:
            content = file.read_bytes()
    except OSError as error:
        raise VerifierLoadError(f"The verifier {name!r} cannot be read: {error.strerror}.") from error
    if size > VERIFIER_MAX_BYTES:
        raise VerifierLoadError(f"The verifier {name!r} is over {VERIFIER_MAX_BYTES} bytes.")
    spec = importlib.util.spec_from_file_location(f"readback_verifiers_{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}"
        raise VerifierLoadError(f"The verifier {name!r} cannot be imported: {said:.300}") from error
    verify = vars(module).get("verify")
    return Verifier(name, _looked_at(name, verify), f"verifiers/{name}.py@{sha256_hex(content)[:16]}")


def _from_package(name: str, point: object) -> Verifier:
    package = getattr(getattr(point, "dist", None), "name", "") or "package"
    version = getattr(getattr(point, "dist", None), "version", "") or "unknown"
    try:
        verify = point.load()  # type: ignore[attr-defined]
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}"
        raise VerifierLoadError(f"The installed verifier {name!r} cannot be imported: {said:.300}") from error
    return Verifier(name, _looked_at(name, verify), f"{package}=={version}:{name}")


def _looked_at(name: str, verify: object) -> Callable[[dict[str, object]], object]:
    """Return a plain callable of one argument. The check does not call it."""
    if not callable(verify):
        raise VerifierLoadError(f"The verifier {name!r} has no function `verify`.")
    if inspect.iscoroutinefunction(verify) or inspect.isgeneratorfunction(verify):
        raise VerifierLoadError(f"The verifier {name!r} is async or a generator; write a plain function.")
    try:
        inspect.signature(verify).bind({})
    except (TypeError, ValueError) as error:
        raise VerifierLoadError(f"The verifier {name!r} cannot be called with one context: {error}.") from error
    return verify


def methods_found(
    names: tuple[str, ...], folder: Path | None
) -> tuple[Mapping[str, Verifier], tuple[tuple[int, VerifierLoadError], ...]]:
    """Return the custom verifiers of these methods, and the faults of missing verifiers by their numbers."""
    found: dict[str, Verifier] = {}
    faults: list[tuple[int, VerifierLoadError]] = []
    for number, name in enumerate(names):
        if not name or name in BUILT_IN or name in found:
            continue
        try:
            found[name] = found_verifier(name, folder)
        except VerifierLoadError as error:
            faults.append((number, error))
    return found, tuple(faults)
