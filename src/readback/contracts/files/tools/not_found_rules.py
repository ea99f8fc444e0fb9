"""The contract's signs of absence in a tool's answer: an error's own words, or a value in the answer.

Called by `system_options` when a contract is loaded, by `tool_handlers` for each reading. Only a full match counts: a
part of a text may be foreign content.
"""

from __future__ import annotations

from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.files.templates.template import CompiledTemplate, Hole, Values, as_text
from readback.contracts.files.tools.tool_schema import same
from readback.domain.json_pointer import pointed
from readback.errors import ContractFieldError, ReaderTypeError, TemplateError

STAR: Final = "\0"
"""The form of `*` in a compiled text; no value can contain this form."""


@dataclass(frozen=True, slots=True)
class Absence:
    """A contract's signs of absence. Each sign has to match as a whole."""

    error: str = ""
    """An error's whole text, with `*` for anything; values stand for themselves."""
    at: str | None = None
    """A JSON pointer into the answer, to compare with `equals`."""
    equals: Json = None

    def told(self, text: str) -> bool:
        """Return whether an error means absence."""
        return bool(self.error) and _fits(self.error, text)

    def shown(self, document: Json) -> bool:
        """Return whether an answer means absence."""
        if self.at is None:
            return False
        try:
            return same(pointed(document, self.at, "nothing"), self.equals)
        except ReaderTypeError:
            return False


def sound_error(fill: CompiledTemplate) -> None:
    """Require a start with literal words. Raises ContractFieldError."""
    first = fill.parts[0] if fill.parts else ""
    if not isinstance(first, str) or not first.strip() or first.startswith("*") or STAR in "".join(fill.texts):
        raise ContractFieldError(
            "It is the whole text of the error, with `*` for what differs, and begins with words of its own: "
            "else an error that quotes a value could be taken for absence."
        )


def error_text(fill: CompiledTemplate, values: Values) -> str:
    """Return the text with literal values. Raises TemplateError."""
    found: list[str] = []
    for part in fill.parts:
        if isinstance(part, Hole):
            text = as_text(part, part.value(values))
            if STAR in text:
                raise TemplateError("A value of `absent` contains NUL.")
            found.append(text)
        else:
            found.append(part.replace("*", STAR))
    return "".join(found)


def _fits(pattern: str, text: str) -> bool:
    """Match the whole text, part by part."""
    parts = pattern.split(STAR)
    if len(parts) == 1:
        return text == pattern
    if not text.startswith(parts[0]) or len(text) < len(parts[0]) + len(parts[-1]):
        return False
    at, end = len(parts[0]), len(text) - len(parts[-1])
    for part in parts[1:-1]:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return at <= end and text.endswith(parts[-1])
