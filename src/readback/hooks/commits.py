"""What a `git commit` command asks for, taken apart: its message, and what the commit is made of.

Called for a tool that takes commands, before its arguments are bound. It reads text and runs nothing. What a shell puts
in place of a part (`$NAME`, `$(...)`) is not known here, and nothing is said of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from readback.canon import Json

PATTERN_MAX_CHARACTERS: Final = 900
_COMMAND: Final = re.compile(r"\s*git\s+commit(?=\s|$)")
_HEREDOC: Final = re.compile(r"\$\(cat <<'(\w+)'\n(?:(.*?)\n)??\1\n\s*\)", re.DOTALL)
_PLACE: Final = "\ue000"
"""Stands for the text of a here-document while the rest is taken apart."""
_PUT_AWAY: Final = re.compile(rf"{_PLACE}(\d+){_PLACE}")
_QUOTED: Final = re.compile(r"\\.|'[^']*'", re.DOTALL)
"""What a shell takes as it is, and puts nothing in place of."""
_WITH_VALUE: Final = frozenset(
    {
        "--message", "--file", "--reuse-message", "--reedit-message", "--author", "--date", "--template", "--cleanup",
        "--trailer", "--fixup", "--squash", "--pathspec-from-file",
    }
)  # fmt: skip
_SHORT_WITH_VALUE: Final = {
    "m": "--message",
    "F": "--file",
    "C": "--reuse-message",
    "c": "--reedit-message",
    "t": "--template",
}
_ATTACHED: Final = frozenset("uS")
"""Short options whose value, if any, is the rest of the word."""
_SHORT: Final = {"a": "--all", "i": "--include", "o": "--only", "p": "--patch"}
_OLD_TIME: Final = frozenset({"--amend", "--date", "--reuse-message", "--reedit-message"})
_OTHER_TEXT: Final = frozenset({"--file", "--reuse-message", "--reedit-message", "--template", "--fixup", "--squash"})
_SOME_PATHS: Final = frozenset({"--include", "--only", "--patch", "--interactive", "--pathspec-from-file"})


_UNKNOWN: Final[dict[str, Json]] = {
    "message": "", "pattern": "", "amend": False, "fresh": False, "takes": "paths",
}  # fmt: skip
"""Of a command that cannot be taken apart: any message, and of all that was changed."""
COMMIT_FIELDS: Final = frozenset(_UNKNOWN)


def commit_of(command: str) -> dict[str, Json]:
    """What the command says of the commit.

    `message` ("" where it is not said, or not known), `pattern` (of RE2: the words of its first line, in any case and
    with any white space between them), `amend`, `fresh` (its author time is that of the commit), and `takes`: "index",
    "tracked" (all that git knows) or "paths".
    """
    begun = _COMMAND.match(command)
    if begun is None:
        return {**_UNKNOWN}
    texts: list[str] = []

    def put_away(found: re.Match[str]) -> str:
        texts.append((found[2] or "").rstrip("\n"))
        return f"{_PLACE}{len(texts) - 1}{_PLACE}"

    rest = _HEREDOC.sub(put_away, command[begun.end() :])
    unknown = not {"$", "`"}.isdisjoint(_QUOTED.sub("", rest))
    try:
        words = shlex.split(rest)
    except ValueError:
        return {**_UNKNOWN}
    asked, messages, paths = _options(words)
    message = ""
    if not unknown and not asked & _OTHER_TEXT:
        message = _cleaned(
            "\n\n".join(re.sub(rf"{_PLACE}(\d+){_PLACE}", lambda m: texts[int(m[1])], m) for m in messages)
        )
    takes = "paths" if paths or asked & _SOME_PATHS else "tracked" if "--all" in asked else "index"
    return {
        "message": message,
        "pattern": _pattern(message),
        "amend": "--amend" in asked,
        "fresh": not asked & _OLD_TIME or "--reset-author" in asked,
        "takes": takes,
    }


def _options(words: list[str]) -> tuple[set[str], list[str], bool]:
    """The options by their long names, the messages in their order, and whether paths are named."""
    asked: set[str] = set()
    messages: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            return asked, messages, next(left, None) is not None
        if word.startswith("--"):
            name, sign, value = word.partition("=")
            asked.add(name)
            if name in _WITH_VALUE and not sign:
                value = next(left, "")
            if name == "--message":
                messages.append(value)
        elif word.startswith("-") and len(word) > 1:
            _short(word[1:], asked, messages, left)
        else:
            return asked, messages, True
    return asked, messages, False


def _short(letters: str, asked: set[str], messages: list[str], left: Iterator[str]) -> None:
    """`-am text`: each letter is an option, and the first that takes a value takes the rest of the word."""
    for at, letter in enumerate(letters):
        if letter in _SHORT_WITH_VALUE:
            value = letters[at + 1 :] or next(left, "")
            asked.add(_SHORT_WITH_VALUE[letter])
            if letter == "m":
                messages.append(value)
            return
        if letter in _ATTACHED:
            return
        if letter in _SHORT:
            asked.add(_SHORT[letter])


def _cleaned(message: str) -> str:
    """As git cleans a message: without white space at the ends of lines, and one empty line in place of several."""
    lines = [line.rstrip() for line in message.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _pattern(message: str) -> str:
    words = message.partition("\n")[0].split()
    made = r"(?i)(?:^|\W)" + r"\s+".join(map(_literal, words)) + r"(?:$|\W)"
    return made if words and len(made) <= PATTERN_MAX_CHARACTERS else r"$^x"


def _literal(word: str) -> str:
    return re.sub(r"([!-/:-@\[-^`{-~])", r"\\\1", word)
