"""Contract packs: contract files that come with the package, for servers that many use, each with its parameters.

Named as `pack:NAME?parameter=value&...` wherever a contract file may stand. What is not named there is taken from the
command of the server behind the gateway, and from the environment that the server itself reads. Nothing is reached.
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
"""Characters of a value that need no encoding in a pack's name."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a pack has to be told. `default`: "" where it is needed, and `@name` for another parameter's value."""

    name: str
    said: str
    default: str = ""
    path: bool = False
    """It is a path, which counts from the working folder on."""
    env: str = ""
    """The variable by which the server itself is told."""


@dataclass(frozen=True, slots=True)
class Pack:
    """One pack. `server`: the package and the version that it is tested against; `found`: reads a command's arguments
    behind the word that `marks` it.
    """

    name: str
    said: str
    server: str
    parameters: tuple[Parameter, ...]
    marks: str
    found: Callable[[Sequence[str]], dict[str, str]]

    @property
    def text(self) -> str:
        """The contract file, with `${parameter}` where a parameter goes."""
        from importlib.resources import files  # it brings archives and temporary files along

        return files(__name__).joinpath(f"{self.name}.yaml").read_text(encoding="utf-8")


def _folders(arguments: Sequence[str]) -> dict[str, str]:
    """The filesystem server's folders: a relative path begins at the first, and none leaves what is above them all."""
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
    Parameter("timeout", "How long one call of the tool may take.", "30s"),
    Parameter("within", "How long its effect may take to be seen.", "2s"),
)
PACKS: Final[Mapping[str, Pack]] = {
    pack.name: pack
    for pack in (
        Pack(
            "filesystem",
            "Files and folders, read from the disk.",
            "@modelcontextprotocol/server-filesystem 2026.8.31 (npm)",
            (
                Parameter("root", "The folder that the server may write to.", path=True),
                Parameter("base", "Where a relative path begins.", "@root", path=True),
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
                Parameter("file", "The memory file, as a whole path.", path=True, env="MEMORY_FILE_PATH"),
                *_TIMES,
                Parameter(
                    "settles", "How long its effect has to stay: calls at the same time undo each other.", "300ms"
                ),
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
    """Whether this names a pack, and not a file."""
    return named.startswith(PREFIX)


def pack_named(named: str) -> tuple[Pack, dict[str, str]]:
    """The pack and what its name says of its parameters. Raises SettingsError for what there is not."""
    name, _, said = named.removeprefix(PREFIX).partition("?")
    pack = PACKS.get(name)
    if pack is None:
        said = f"There is no pack {name!r:.80}.{did_you_mean(name, PACKS)}"
        raise SettingsError(said, remedy="Name one that `readback contracts list` shows, as pack:NAME.")
    known = [each.name for each in pack.parameters]
    given: dict[str, str] = {}
    for part in filter(None, said.split("&")):
        key, equals, value = part.partition("=")
        if key not in known or not equals or key in given:
            raise SettingsError(
                f"The pack {name!r} has no parameter {key!r:.80}, or it is given twice.{did_you_mean(key, known)}",
                remedy=f"Write pack:{name}?{known[0]}=VALUE; it takes {', '.join(known)}.",
            )
        given[key] = unquote(value)
    return pack, given


def completed(named: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """A pack's name with what the command of its server, and the variables given to it, say of its parameters.

    Any other name, and a pack whose server this is not, as it is. What the name says itself is not said otherwise.
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
    """The contract file of a pack, its parameters filled in. Raises SettingsError where one is missing or unsound."""
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
        raise SettingsError(f"The pack {pack.name!r} is not told its {parameter.name}.", remedy=remedy)
    if not value.isprintable() or "{" in value or "}" in value:
        raise SettingsError(
            f"The {parameter.name} of the pack {pack.name!r} holds braces or control characters.", remedy=remedy
        )
    if parameter.env and not os.path.isabs(os.path.expanduser(value)):
        raise SettingsError(
            f"The {parameter.name} of the pack {pack.name!r} is no whole path, and its server takes it from elsewhere.",
            remedy=remedy,
        )
    return os.path.abspath(os.path.expanduser(value)) if parameter.path else value
