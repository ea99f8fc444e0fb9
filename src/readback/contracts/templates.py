"""The one template syntax: `{requested.x}` in text. Values are inserted as written; nothing is evaluated.

Compiled once when a contract is loaded, rendered for every proposal. A template reaches into no object, calls nothing,
and guesses nothing: a missing value, a list, a mapping or a control character is an error. `{{` and `}}` stand for the
braces themselves. Only `observed`, a hint, may be missing: before the tool's answer `observed` is empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from readback.canon import ExactNumber, Json
from readback.canon.frozen import dataclass
from readback.contracts.problems import did_you_mean
from readback.errors import ArgumentError, TemplateError

TEMPLATE_MAX_CHARS: Final = 1_024
RENDERED_MAX_CHARS: Final = 1_024
RENDERED_MAX_BYTES: Final = 2_048
"""A frozen target stands in an index with tenant and action: PostgreSQL allows 2,704 bytes for all three."""
TEMPLATE_ROOTS: Final = ("requested", "intended", "observed", "scope")
_SCAN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PATH: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled template: literal texts and paths, in turn. A call renders the template."""

    source: str
    parts: tuple[str | tuple[str, ...], ...]

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The named paths, root first."""
        return tuple(part for part in self.parts if isinstance(part, tuple))

    def __call__(self, variables: Mapping[str, Json]) -> str:
        """Return the text. Raises ArgumentError: the form was checked at load, and the values came with the request."""
        text = "".join([part if isinstance(part, str) else _value(part, variables) for part in self.parts])
        if len(text) > RENDERED_MAX_CHARS:
            raise self._unfit(f"renders to {len(text)} characters, more than {RENDERED_MAX_CHARS}.")
        if not text.isascii() and (size := len(text.encode(errors="replace"))) > RENDERED_MAX_BYTES:
            raise self._unfit(f"renders to {size} bytes, more than {RENDERED_MAX_BYTES}.")
        if not text.isprintable() and _has_controls(text):
            raise self._unfit("renders to text with control characters.")
        return text

    def _unfit(self, reason: str) -> ArgumentError:
        named = next((path[1] for path in self.paths if path[0] in ("requested", "intended")), "")
        return _unfit(named, f"{self.source!r:.80} {reason}")


def compile_template(source: str, *, arguments: Collection[str] | None = None) -> Template:
    """Compile a template, with every check that needs no values. `arguments`: the names below `requested`.

    Raises TemplateError.
    """
    if not source.strip():
        raise TemplateError("The template is empty.")
    if len(source) > TEMPLATE_MAX_CHARS:
        raise TemplateError(f"The template has {len(source)} characters, more than {TEMPLATE_MAX_CHARS}.")
    if _has_controls(source):
        raise TemplateError("The template contains control characters.")
    parts: list[str | tuple[str, ...]] = []
    at = 0
    for found in _SCAN.finditer(source):
        parts.append(source[at : found.start()])
        parts.append(_mark(found, arguments))
        at = found.end()
    parts.append(source[at:])
    return Template(source, _joined(parts))


def _mark(found: re.Match[str], arguments: Collection[str] | None) -> str | tuple[str, ...]:
    mark = found[0]
    if mark in ("{{", "}}"):
        return mark[0]
    inside = found[1]
    if inside is None:
        raise TemplateError(f"A single {mark!r} at column {found.start() + 1}; write {mark * 2!r} for the character.")
    if _PATH.fullmatch(inside) is None:
        raise TemplateError(f"{{{inside[:60]}}} is not a dotted path such as {{requested.name}}.")
    path = tuple(inside.split("."))
    if path[0] not in TEMPLATE_ROOTS:
        raise TemplateError(f"{path[0]!r} is not allowed in a template.{did_you_mean(path[0], TEMPLATE_ROOTS)}")
    if arguments is not None and path[0] == "requested" and path[1] not in arguments:
        raise TemplateError(f"The action has no argument {path[1]!r}.{did_you_mean(path[1], arguments)}")
    return path


def _joined(parts: list[str | tuple[str, ...]]) -> tuple[str | tuple[str, ...], ...]:
    """Join neighbouring texts, and drop empty ones."""
    joined: list[str | tuple[str, ...]] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part:
            joined.append(part)
    return tuple(joined)


def _value(path: tuple[str, ...], variables: Mapping[str, Json]) -> str:
    here: Json = variables.get(path[0])
    for step in path[1:]:
        if not isinstance(here, dict) or step not in here:
            here = None
            break
        here = here[step]
    if isinstance(here, str):
        return here
    if here is None:
        if path[0] == "observed":
            return ""
        raise _unfit(path[1], f"{{{'.'.join(path)}}} has no value here.")
    if isinstance(here, bool):
        return "true" if here else "false"
    if isinstance(here, int):
        return str(here)
    kind = (
        "a fraction" if isinstance(here, float | ExactNumber) else "an object" if isinstance(here, dict) else "a list"
    )
    raise _unfit(path[1], f"{{{'.'.join(path)}}} is {kind}; a template takes text, whole numbers, true and false.")


def _unfit(argument: str, reason: str) -> ArgumentError:
    said = f"The arguments do not fit. {reason}"
    return ArgumentError(said, details={"problems": [{"argument": argument, "reason": reason}]})


def _has_controls(text: str) -> bool:
    return any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u2028\u2029" for c in text)
