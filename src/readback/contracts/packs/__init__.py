"""Contract packs: contract files in the package for widely used servers, each with parameters.

Named as `pack:NAME?parameter=value&...` in place of a contract file. Missing parameters come from the command of the
server behind the gateway, and from the server's own environment variables. No system is reached.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote

from readback.canon.frozen import dataclass
from readback.contracts.problems import did_you_mean
from readback.errors import SettingsError

PREFIX: Final = "pack:"
_SAFE: Final = "/.:~@,"
"""Characters without encoding in a pack's name."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A pack's parameter. `default`: "" for a required one, and `@name` for another parameter's value."""

    name: str
    said: str
    default: str = ""
    path: bool = False
    """The parameter is a path, relative to the working folder."""
    env: str = ""
    """The server's own variable for this parameter."""


@dataclass(frozen=True, slots=True)
class Pack:
    """One pack. `server`: the package and the tested version; `found`: reads the command's arguments after the word
    `marks`.
    """

    name: str
    said: str
    server: str
    parameters: tuple[Parameter, ...]
    marks: str
    found: Callable[[Sequence[str]], dict[str, str]]

    @property
    def text(self) -> str:
        """The contract file, with `${parameter}` in each parameter's place."""
        from importlib.resources import files  # it brings archives and temporary files along

        return files(__name__).joinpath(f"{self.name}.yaml").read_text(encoding="utf-8")


def _folders(arguments: Sequence[str]) -> dict[str, str]:
    """Read the filesystem server's folders: a relative path begins at the first, and no path leaves their common
    parent.
    """
    named = [os.path.abspath(os.path.expanduser(each)) for each in arguments if not each.startswith("-")]
    return {"root": os.path.commonpath(named), "base": named[0]} if named else {}


def _option(parameter: str, *options: str) -> Callable[[Sequence[str]], dict[str, str]]:
    def found(arguments: Sequence[str]) -> dict[str, str]:
        for at, each in enumerate(arguments):
            name, equals, value = each.partition("=")
            if name in options and (equals or at + 1 < len(arguments)):
                return {parameter: value if equals else arguments[at + 1]}
        return {}

    return found


def _nothing(arguments: Sequence[str]) -> dict[str, str]:
    return {}


_TIMES: Final = (
    Parameter("timeout", "The time limit of one call of the tool.", "30s"),
    Parameter("within", "The time for the effect to become visible.", "2s"),
)
PACKS: Final[Mapping[str, Pack]] = {
    pack.name: pack
    for pack in (
        Pack(
            "filesystem",
            "Files and folders, read from the disk.",
            "@modelcontextprotocol/server-filesystem 2026.8.31 (npm)",
            (
                Parameter("root", "The folder writable by the server.", path=True),
                Parameter("base", "The base of a relative path.", "@root", path=True),
                *_TIMES,
            ),
            "server-filesystem",
            _folders,
        ),
        Pack(
            "memory",
            "A knowledge graph, read from its file.",
            "@modelcontextprotocol/server-memory 2026.8.31 (npm)",
            (
                Parameter("file", "The memory file, as an absolute path.", path=True, env="MEMORY_FILE_PATH"),
                *_TIMES,
                Parameter("settles", "How long the effect must hold: simultaneous calls undo each other.", "300ms"),
            ),
            "server-memory",
            _nothing,
        ),
        Pack(
            "git",
            "A repository, read by git's own plumbing.",
            "mcp-server-git 2026.10.19 (PyPI)",
            (Parameter("repository", "The repository, or the folder of several.", path=True), *_TIMES),
            "mcp-server-git",
            _option("repository", "--repository", "-r"),
        ),
        Pack(
            "sqlite",
            "An SQLite database, read from its file by another connection.",
            "mcp-server-sqlite 2025.4.25 (PyPI)",
            (Parameter("database", "The database file.", path=True), *_TIMES),
            "mcp-server-sqlite",
            _option("database", "--db-path"),
        ),
    )
}


def is_pack(named: str) -> bool:
    """Return whether a name means a pack rather than a file."""
    return named.startswith(PREFIX)


def pack_named(named: str) -> tuple[Pack, dict[str, str]]:
    """Return the pack and the parameters in its name. Raises SettingsError for an unknown pack or parameter."""
    name, _, said = named.removeprefix(PREFIX).partition("?")
    pack = PACKS.get(name)
    if pack is None:
        said = f"There is no pack {name!r:.80}.{did_you_mean(name, PACKS)}"
        raise SettingsError(said, remedy="Use a pack of `readback contracts list`, as pack:NAME.")
    known = [each.name for each in pack.parameters]
    given: dict[str, str] = {}
    for part in filter(None, said.split("&")):
        key, equals, value = part.partition("=")
        if key not in known or not equals or key in given:
            raise SettingsError(
                f"The pack {name!r} has no parameter {key!r:.80}, or repeats one.{did_you_mean(key, known)}",
                remedy=f"Write pack:{name}?{known[0]}=VALUE. Valid parameters: {', '.join(known)}.",
            )
        given[key] = unquote(value)
    return pack, given


def completed(named: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Return a pack's name with the parameters from its server's command and variables.

    Any other name, and a pack of another server, is returned unchanged. Parameters in the name take precedence.
    """
    if not is_pack(named):
        return named
    pack, given = pack_named(named)
    at = next((n for n, each in enumerate(command) if pack.marks in each.replace("_", "-")), None)
    if at is None:
        return named
    found = {each.name: env[each.env] for each in pack.parameters if env and each.env in env}
    found |= pack.found(command[at + 1 :])
    whole = given if given.keys() & found.keys() else {**found, **given}  # who says where it is says it whole
    if "base" in found and "root" in given and "base" not in given and _lies_in(found["base"], given["root"]):
        whole = {
            **given,
            "base": found["base"],
        }  # a relative path begins where its server was told, and not at the root
    said = "&".join(f"{name}={quote(value, safe=_SAFE)}" for name, value in whole.items())
    return f"{PREFIX}{pack.name}?{said}" if said else named


def _lies_in(folder: str, root: str) -> bool:
    above = os.path.abspath(os.path.expanduser(root))
    return os.path.commonpath([above, folder]) == above


def pack_content(named: str) -> bytes:
    """Return a pack's contract file with its parameters. Raises SettingsError for a missing or unsound parameter."""
    pack, given = pack_named(named)
    values: dict[str, str] = {}
    for each in pack.parameters:
        value = given.get(each.name) or (os.environ.get(each.env, "") if each.env else "") or each.default
        value = values[value.removeprefix("@")] if value.startswith("@") else value
        values[each.name] = _sound(pack, each, value)
    text = pack.text
    for name, value in values.items():
        text = text.replace(f'"${{{name}}}"', json.dumps(value, ensure_ascii=False))
    return text.encode()


def _sound(pack: Pack, parameter: Parameter, value: str) -> str:
    known_by = f" (or set {parameter.env})" if parameter.env else ""
    remedy = f"Write pack:{pack.name}?{parameter.name}=VALUE{known_by}: {parameter.said}"
    if not value:
        raise SettingsError(f"The pack {pack.name!r} needs its {parameter.name}.", remedy=remedy)
    if not value.isprintable() or "{" in value or "}" in value:
        raise SettingsError(
            f"The {parameter.name} of the pack {pack.name!r} contains braces or control characters.", remedy=remedy
        )
    if parameter.env and not os.path.isabs(os.path.expanduser(value)):
        raise SettingsError(
            f"The {parameter.name} of the pack {pack.name!r} is not an absolute path.",
            remedy=remedy,
        )
    return os.path.abspath(os.path.expanduser(value)) if parameter.path else value
