"""The places for values in a command: a whole argument declared as data, of a program named by path.

Called by `system_options` when a contract is loaded, and for each call. The name of a program does not show its
behaviour: awk, sed, git and hundreds of others run an argument as code. So no value reaches a program by default. The
contract declares each position with a value (`{value: "{requested.x}", argument: data}`), and names the program by a
path, so that the declaration is about one program. The list of names below only refuses declarations known to be wrong.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

from readback.canon.frozen import dataclass
from readback.contracts.files.document import Written
from readback.contracts.files.templates.template import CompiledTemplate, Hole, Values
from readback.errors import ContractFieldError, TemplateError

DATA_KEYS: Final = ("value", "argument")
DATA: Final = "data"
_INTERPRETER: Final = re.compile(
    r"(?:ba|da|z|k|c|tc|fi|a)?sh|busybox|python[\d.]*|perl|ruby|node|deno|bun|php|lua|Rscript"
)
_RUNS_TEXT: Final = re.compile(r"-[A-Za-z]*[ceErp]|--(?:eval|print|command|run)")
_CLIENT: Final = re.compile(
    r"psql|mysql|mariadb|sqlite3|duckdb|clickhouse(?:-client)?|mongosh?|su|runuser|env|pwsh|powershell"
)
_ASKS_TEXT: Final = re.compile(r"-[A-Za-z]*[ceqS]|-Command|--(?:command|execute|eval|query|split-string)")
"""Programs with a query, or another program's whole command line, as one text."""
_ELSEWHERE: Final = frozenset({"ssh", "rsh", "sqlite3"})
"""Programs that join the rest into a shell's line elsewhere, or run a text without an option before."""
_READS_TEXT: Final = _ELSEWHERE | {"psql", "mysql", "mariadb", "duckdb", "clickhouse-client", "mongosh"}
"""Programs that run their standard input, without other input."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One element of a command, or its standard input. `data`: the contract declares the value as data."""

    fill: CompiledTemplate
    data: bool = False


def written_value(node: Written) -> tuple[Written, bool]:
    """Return an element's text, and whether it is declared as data. Raises ContractFieldError for another mapping."""
    found = node.mapping
    if found is None:
        return node, False
    if set(found) != set(DATA_KEYS) or found["argument"].value != DATA:
        raise ContractFieldError("Must be text, or {value: TEXT, argument: data} for a value passed to the program.")
    return found["value"], True


def sound_arguments(arguments: list[Argument]) -> None:
    """Require a literal program, and declared whole arguments for values. Raises ContractFieldError."""
    if not arguments or not arguments[0].fill.fixed or arguments[0].data:
        raise ContractFieldError("The command must begin with a program's name, without a value.")
    for each in arguments:
        if any("\0" in text for text in each.fill.texts):
            raise ContractFieldError("An argument must not contain NUL.")
        _declared(each, "an argument")
    if any(each.data for each in arguments):
        _pinned(arguments)
    _no_program_text([each.fill for each in arguments])


def sound_input(arguments: list[Argument], stdin: Argument) -> None:
    """Require the rules of an argument for a value on standard input. Raises ContractFieldError."""
    _declared(stdin, "standard input")
    if not stdin.data:
        return
    _pinned(arguments)
    words = [each.fill.fixed or each.fill.source for each in arguments]
    names = [PurePath(word).name for word in words]
    at = next((n for n, name in enumerate(names) if _INTERPRETER.fullmatch(name) or name in _READS_TEXT), None)
    if at is None:
        return
    given = [word for word in words[at + 1 :] if not word.startswith("-")]
    options = [word for word in words[at + 1 :] if word.startswith("-")]
    if _INTERPRETER.fullmatch(names[at]):
        runs = not given or "-s" in options
    elif names[at] in _ELSEWHERE:
        runs = len(given) < 2
    else:
        runs = not any(_ASKS_TEXT.match(word) or word.startswith(("-f", "--file")) for word in options)
    if runs:
        source = stdin.fill.source
        raise ContractFieldError(f"{source!r:.80} is a program text for {names[at]}. Pass the value in another way.")


def _declared(argument: Argument, where: str) -> None:
    """Raises ContractFieldError for an undeclared value, or a value within a text."""
    fill = argument.fill
    if argument.data and not (len(fill.parts) == 1 and isinstance(fill.parts[0], Hole)):
        raise ContractFieldError(f"{fill.source!r:.80} is declared as data and must be a single value in braces.")
    if fill.holes and not argument.data:
        value = fill.holes[0].predicate.source
        raise ContractFieldError(
            f"{fill.source!r:.80} puts a value into {where}, and many programs run one as code. If the program takes "
            f'it as data, write the value alone: {{value: "{{{value:.60}}}", argument: data}}.'
        )


def _pinned(arguments: list[Argument]) -> None:
    """Raises ContractFieldError for a program with a value and without a path."""
    program = arguments[0].fill.fixed or ""
    if "/" not in program:
        raise ContractFieldError(
            f"The program {program!r:.80} gets a value and is looked for in PATH. Name it by its path: "
            "/usr/bin/NAME, or ./NAME from the contract file's folder."
        )


def _no_program_text(fills: list[CompiledTemplate]) -> None:
    """Refuse a value in the program text of a known interpreter. Raises ContractFieldError."""
    runs, takes, elsewhere, text = "", _RUNS_TEXT, "", False
    for fill, before in zip(fills[1:], fills, strict=False):
        option = before.fixed or ""
        name = PurePath(option).name
        if _INTERPRETER.fullmatch(name) or _CLIENT.fullmatch(name):
            runs, takes, text = name, _RUNS_TEXT if _INTERPRETER.fullmatch(name) else _ASKS_TEXT, False
        elsewhere = name if name in _ELSEWHERE else elsewhere
        text = bool(runs) and (takes.fullmatch(option) is not None or (text and option.startswith("-")))
        if fill.holes and text:  # also behind `--` and further options, which a shell skips before its text
            raise ContractFieldError(
                f"{fill.source!r:.80} is a program text for {runs}. Pass the value as a later argument."
            )
        if fill.holes and elsewhere and name != elsewhere:
            raise ContractFieldError(
                f"{fill.source!r:.80} is run as a text by what {elsewhere} reaches: hand the value on by a file, a "
                "service or a source of its own."
            )


def safe_arguments(arguments: list[Argument], values: Values) -> list[str]:
    """Return the arguments, one element each. No value becomes an option of the program. Raises TemplateError."""
    found: list[str] = []
    ended = False
    for each in arguments:
        text = each.fill.text(values)
        if "\0" in text:
            raise TemplateError("A value of the command contains NUL.")
        if each.data and text.startswith("-") and not ended:
            raise TemplateError(
                f"{each.fill.source!r:.80} would become an option of the program. Put '--' before the value."
            )
        ended = ended or each.fill.fixed == "--"
        found.append(text)
    return found
