"""Worlds for failure injection, from YAML files, from modules and from the examples of contract files.

A verified example of a contract file states both readings, so the example is a world. A worlds file states a
SimulatedWorld for each contract. A module holds worlds at the top level, beside the actions.

    apiVersion: readback/v1
    kind: Worlds
    worlds:
      ship_order:
        arguments: {order: o-17}
        before: {id: o-17, status: open}
        after: {id: o-17, status: shipped}
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from readback.canon import Json
from readback.client.files import contract_files
from readback.contracts.documents.yaml_nodes import YamlFault, composed, pairs
from readback.contracts.examples import Example
from readback.domain.verdict import Verdict
from readback.errors import InputError
from readback.testing.driver_sandbox import SandboxWorld
from readback.testing.faults.fault import FaultWorld
from readback.testing.faults.simulated import SimulatedWorld

API_VERSION: Final = "readback/v1"
KIND: Final = "Worlds"
WORLDS_MAX_BYTES: Final = 1_048_576
KEYS: Final = frozenset({"arguments", "before", "after", "twice", "partial", "stamps", "versions"})
_SCALARS: Final = "tag:yaml.org,2002:"


class WorldsFileError(InputError):
    """A worlds file cannot be read. The message names the file, the line and the column."""

    code = "input.worlds"
    remedy_default = "Correct the file at the named line. `docs/how-to/inject-faults.md` shows the form."


def load_worlds(
    files: Iterable[str],
    modules: Iterable[str] = (),
    contracts: Sequence[str] = (),
    pins: Mapping[str, str] | None = None,
) -> dict[str, FaultWorld]:
    """Return the worlds by contract, from the examples of contract files, from modules and from worlds files.

    A later world replaces an earlier world, in this order.

    Raises:
        WorldsFileError: A file is missing, malformed or holds an unknown key.
        ContractError: A contract file has faults.
    """
    found: dict[str, FaultWorld] = {}
    if contracts:
        for action in contract_files(*contracts, pins=dict(pins or {})).values():
            world = world_of_examples(action.name, action.written.examples)
            found |= {} if world is None else {action.name: world}
    for name in modules:
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, SimulatedWorld | SandboxWorld):
                found[value.contract] = value
    for path in files:
        found |= read_worlds(path)
    return found


def world_of_examples(contract: str, examples: Iterable[Example]) -> SimulatedWorld | None:
    """Return the world of a contract's first verified example: the states around an honest call.

    None without such an example, and for an example with another state for each reader.
    """
    for each in examples:
        if each.expect is Verdict.VERIFIED and not each.readings and each.has_before:
            return SimulatedWorld(contract, dict(each.requested), each.before, each.state)
    return None


def read_worlds(path: str) -> dict[str, FaultWorld]:
    """Return the worlds of a file. Raises WorldsFileError."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise WorldsFileError(f"The worlds file {path!r} cannot be read: {error.strerror}.") from error
    if len(content) > WORLDS_MAX_BYTES:
        raise WorldsFileError(f"The worlds file {path!r} exceeds {WORLDS_MAX_BYTES} bytes.")
    try:
        root = composed(content)
        whole = _plain(root) if root is not None else {}
        return _worlds(path, whole)
    except YamlFault as fault:
        raise WorldsFileError(f"{path}:{fault.line}:{fault.column}: {fault.said}") from fault


def _worlds(path: str, whole: Json) -> dict[str, FaultWorld]:
    if not isinstance(whole, dict) or whole.get("apiVersion") != API_VERSION or whole.get("kind") != KIND:
        raise WorldsFileError(f"{path}:1:1: The file does not begin with apiVersion: {API_VERSION} and kind: {KIND}.")
    stated = whole.get("worlds")
    if not isinstance(stated, dict) or not stated:
        raise WorldsFileError(f"{path}: The file states no worlds. Add `worlds:` with one entry for each contract.")
    found: dict[str, FaultWorld] = {}
    for name, said in stated.items():
        found[name] = _world(path, name, said)
    return found


def _world(path: str, name: str, said: Json) -> SimulatedWorld:
    if not isinstance(said, dict):
        raise WorldsFileError(f"{path}: The world of {name!r} is no mapping.")
    odd = sorted(said.keys() - KEYS)
    if odd:
        raise WorldsFileError(f"{path}: The world of {name!r} has an unknown key {odd[0]!r}.")
    if "before" not in said and "after" not in said:
        raise WorldsFileError(f"{path}: The world of {name!r} states neither `before` nor `after`.")
    arguments = said.get("arguments", {})
    if not isinstance(arguments, dict):
        raise WorldsFileError(f"{path}: The arguments of {name!r} are no mapping.")
    for key in ("stamps", "versions"):
        if not isinstance(said.get(key, True), bool):
            raise WorldsFileError(f"{path}: {key!r} of {name!r} is neither true nor false.")
    return SimulatedWorld(
        name,
        arguments,
        said.get("before"),
        said.get("after"),
        said.get("twice"),
        said.get("partial"),
        said.get("stamps", True) is True,
        said.get("versions", True) is True,
    )


def _plain(node: object) -> Json:
    """Return a YAML node as JSON. Numbers, booleans and null keep their types."""
    kind = str(getattr(node, "tag", "")).removeprefix(_SCALARS)
    value = getattr(node, "value", None)
    if kind == "map":
        found: dict[str, Json] = {}
        for key, each in pairs(node):
            name = str(key.value)
            if name in found:
                raise YamlFault(key.start_mark.line + 1, key.start_mark.column + 1, f"The key {name!r} stands twice.")
            found[name] = _plain(each)
        return found
    if kind == "seq":
        assert isinstance(value, list)
        return [_plain(each) for each in value]
    text = str(value)
    match kind:
        case "null":
            return None
        case "bool":
            return text.lower() in ("true", "yes", "on")
        case "int":
            return int(text.replace("_", ""), 0)
        case "float":
            return float(text)
        case _:
            return text
